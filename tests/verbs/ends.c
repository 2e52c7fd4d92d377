/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "../abi/pool.h"
#include "ends.h"
#include "litmus.h"

#ifdef WITH_GPU
#include "../gpu/gpu.h"
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIXED_SKIP 100u

const char *const kind_name[KINDS] = {
	"pooled", "mixed", "pieces", "data", "stack", "shared",
#ifdef WITH_GPU
	"gpu",
#endif
	"small",
};

int64_t (*ends_game)(struct end *end);

static uint8_t data[2][ENDS_BYTES];  /* of the near end and of the other */
static uint8_t (*stack)[ENDS_BYTES]; /* of main(): an array for each end */

/* ---- Memory of a GPU ---- */

#ifdef WITH_GPU
static uint8_t bounce[ENDS_BYTES];
static weft_cu_context context;

static void begin_gpu(void)
{
	if (context)
		return;
	assert_true(gpu_load());
	context = gpu_context();
}

static void end_gpu(void)
{
	if (context)
		GPU_OK(cu.cuCtxDestroy_v2(context));
	context = NULL;
}

/* As a program copies that waits for its own streams alone. */
static void copy_gpu(uint64_t to, uint64_t from, size_t bytes)
{
	if (!bytes)
		return;
	GPU_OK(cu.cuMemcpy(to, from, bytes));
	GPU_OK(cu.cuStreamSynchronize(NULL));
}
#else
static uint8_t bounce[1]; /* not used */

static void begin_gpu(void)
{
}

static void end_gpu(void)
{
}

static void copy_gpu(uint64_t to, uint64_t from, size_t bytes)
{
	fail();
}
#endif

void ends_put(const struct end *end, enum kind kind, uint32_t at, const void *from, size_t bytes)
{
	uint64_t to = end->buffer[kind].at + at;

	if (ends_on_gpu(kind))
		copy_gpu(to, (uintptr_t)from, bytes);
	else
		memcpy((void *)(uintptr_t)to, from, bytes);
}

void ends_get(const struct end *end, enum kind kind, void *to, uint32_t at, size_t bytes)
{
	uint64_t from = end->buffer[kind].at + at;

	if (ends_on_gpu(kind))
		copy_gpu((uintptr_t)to, from, bytes);
	else
		memcpy(to, (const void *)(uintptr_t)from, bytes);
}

/* ---- One end ---- */

struct address {
	uint32_t qpn;
	uint64_t bounce;
	struct buffer buffer[KINDS];
};

static void *make_memory(enum kind kind, bool is_peer)
{
	switch (kind) {
	case KIND_POOLED:
	case KIND_PIECES:
		return rig_pages(ENDS_BYTES);
	case KIND_MIXED:
		return (uint8_t *)rig_pages(ENDS_BYTES + 4096) + MIXED_SKIP;
	case KIND_DATA:
		return data[is_peer];
	case KIND_STACK:
		return stack[is_peer];
	case KIND_SHARED:
		return mmap(NULL, ENDS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);
#ifdef WITH_GPU
	case KIND_GPU:
		/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
		return (void *)(uintptr_t)gpu_alloc(ENDS_BYTES);
#endif
	case KIND_SMALL:
		return malloc(ENDS_SMALL);
	case KINDS:
		break;
	}
	return NULL;
}

static void free_memory(enum kind kind, void *at)
{
/* the sanitizer sees no order between two frees that comes by way of another process */
#ifndef __SANITIZE_THREAD__
	if (kind == KIND_SMALL)
		free(at);
#endif
#ifdef WITH_GPU
	if (kind == KIND_GPU)
		GPU_OK(cu.cuMemFree_v2((uintptr_t)at));
#endif
	if (kind == KIND_POOLED || kind == KIND_PIECES || kind == KIND_SHARED)
		munmap(at, ENDS_BYTES);
	if (kind == KIND_MIXED)
		munmap((uint8_t *)at - MIXED_SKIP, ENDS_BYTES + 4096);
}

/* In one region pages that cannot migrate and pages that have migrated already, some next to each other and
 * some apart. */
static void make_pieces(struct end *end, uint8_t *at)
{
	static const struct {
		size_t first, pages;
	} parts[] = {{1, 1}, {2, 3}, {9, 1}, {20, 200}};

	assert_ptr_equal(mmap(at + 5 * 4096, 4096, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 at + 5 * 4096);
	for (size_t i = 0; i < COUNT(parts); i++) {
		end->part[i] = ibv_reg_mr(end->pd, at + parts[i].first * 4096,
					  parts[i].pages * 4096, RIG_ALL);
		assert_non_null(end->part[i]);
	}
}

static void make_end(struct end *end, bool is_peer)
{
	struct ibv_qp_init_attr init;

	begin_gpu();
	end->context = rig_context();
	end->pd = ibv_alloc_pd(end->context);
	end->cq = ibv_create_cq(end->context, 4 * RIG_DEPTH, NULL, NULL, 0);
	assert_true(end->pd && end->cq);
	init = rig_init(end->cq, end->cq);
	end->qp = ibv_create_qp(end->pd, &init);
	assert_non_null(end->qp);
	for (enum kind k = 0; k < KINDS; k++) {
		uint32_t bytes = k == KIND_SMALL ? ENDS_SMALL : ENDS_BYTES;
		void *at = make_memory(k, is_peer);

		if (k == KIND_PIECES)
			make_pieces(end, at);
		end->mr[k] = ibv_reg_mr(end->pd, at, bytes, RIG_ALL);
		assert_non_null(end->mr[k]);
		end->buffer[k] = (struct buffer){(uintptr_t)at, end->mr[k]->rkey, bytes};
	}
}

static void deregister(struct end *end, enum kind kind)
{
	assert_int_equal(ibv_dereg_mr(end->mr[kind]), 0);
	end->mr[kind] = NULL;
}

static void end_end(struct end *end)
{
	assert_int_equal(ibv_destroy_qp(end->qp), 0);
	for (size_t i = 0; i < COUNT(end->part); i++)
		assert_int_equal(ibv_dereg_mr(end->part[i]), 0);
	for (enum kind k = 0; k < KINDS; k++) {
		if (end->mr[k])
			deregister(end, k);
		free_memory(k, (void *)(uintptr_t)end->buffer[k].at);
	}
	assert_int_equal(ibv_destroy_cq(end->cq), 0);
	assert_int_equal(ibv_dealloc_pd(end->pd), 0);
	assert_int_equal(ibv_close_device(end->context), 0);
}

static struct address address_of(const struct end *end)
{
	struct address address = {.qpn = end->qp->qp_num, .bounce = (uintptr_t)bounce};

	memcpy(address.buffer, end->buffer, sizeof(end->buffer));
	return address;
}

/* ---- What the test asks of the other end ---- */

struct request {
	enum {
		RECEIVE,
		NEXT,
		LITMUS,
		GAME,
		EVENT,
		MODIFY,
		STATE,
		DEREGISTER,
		UNMAP,
		PUT,
		GET,
		END
	} what;
	uint64_t wr_id;
	int num_sge; /* or the argument of an order that has one */
	struct ibv_sge sge[RIG_SGE];
	struct litmus game;
};

struct answer {
	struct ibv_wc wc;
	struct litmus_result result;
	int64_t value;
};

static int next_event(struct end *end)
{
	struct pollfd fd = {end->context->async_fd, POLLIN, 0};
	struct ibv_async_event event;

	assert_int_equal(poll(&fd, 1, 10000), 1);
	assert_int_equal(ibv_get_async_event(end->context, &event), 0);
	assert_ptr_equal(event.element.qp, end->qp);
	ibv_ack_async_event(&event);
	return (int)event.event_type;
}

static struct answer serve(struct end *end, struct request *r)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = r->wr_id, .sg_list = r->sge, .num_sge = r->num_sge};
	struct answer answer = {0};

	switch (r->what) {
	case RECEIVE:
		assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), 0);
		break;
	case NEXT:
		answer.wc = rig_next(end->cq);
		break;
	case LITMUS:
		answer.result = litmus_play(end, &r->game, false);
		break;
	case GAME:
		answer.value = ends_game(end);
		break;
	case EVENT:
		answer.value = next_event(end);
		break;
	case MODIFY:
		rig_modify(end->qp, (enum ibv_qp_state)r->num_sge, 0);
		break;
	case STATE:
		answer.value = (int)rig_state(end->qp);
		break;
	case DEREGISTER:
		deregister(end, (enum kind)r->num_sge);
		break;
	case UNMAP:
		munmap((void *)(uintptr_t)end->buffer[r->num_sge].at, ENDS_BYTES);
		break;
	case PUT:
		copy_gpu(r->sge[0].addr, (uintptr_t)bounce, r->sge[0].length);
		break;
	case GET:
		copy_gpu((uintptr_t)bounce, r->sge[0].addr, r->sge[0].length);
		break;
	case END:
		break;
	}
	return answer;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

/* The process of the other end. An assertion that fails outside a test ends the process. */
static void other_process(int fd)
{
	struct request request;
	struct address mine, peer;
	struct answer answer = {0};
	struct end end;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	make_end(&end, true);
	mine = address_of(&end);
	must(write(fd, &mine, sizeof(mine)) == sizeof(mine), "write of an address");
	must(read(fd, &peer, sizeof(peer)) == sizeof(peer), "read of an address");
	memcpy(end.peer, peer.buffer, sizeof(end.peer));
	rig_modify(end.qp, IBV_QPS_RTS, peer.qpn);
	do {
		/* the first answer says that this end is connected */
		must(write(fd, &answer, sizeof(answer)) == sizeof(answer), "write of an answer");
		must(read(fd, &request, sizeof(request)) == sizeof(request), "read of a request");
		answer = serve(&end, &request);
	} while (request.what != END);
	end_end(&end);
	end_gpu();
	exit(0);
}

int ends_main(int argc, char **argv, int (*run)(void))
{
	uint8_t here[2][ENDS_BYTES];
	int failed;

	stack = here;
	memset(here, 0, sizeof(here));
	if (argc == 3 && !strcmp(argv[1], "other"))
		other_process(atoi(argv[2]));
	if (argc == 2 && !strcmp(argv[1], "helper"))
		rig_forbid_process_vm();
	failed = run();
	end_gpu();
	return failed;
}

/* ---- Both ends ---- */

/* By /proc/PID/mem, which a parent may open: the calls by which Weft reaches other processes may be
 * forbidden. */
static int open_memory(const struct peer *peer)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", peer->pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static struct address start_peer(struct peer *peer)
{
	struct address address;
	char text[16];
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	snprintf(text, sizeof(text), "%d", fds[1]);
	peer->pid = fork_peer();
	assert_true(peer->pid >= 0);
	if (!peer->pid) {
		fcntl(fds[1], F_SETFD, 0);
		execl("/proc/self/exe", "other", "other", text, NULL);
		_exit(127);
	}
	close(fds[1]);
	peer->socket = fds[0];
	assert_int_equal(read(peer->socket, &address, sizeof(address)), sizeof(address));
	peer->memory = open_memory(peer);
	return address;
}

static struct answer read_answer(struct peer *peer)
{
	struct answer answer;

	assert_int_equal(read(peer->socket, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

static void send_request(struct peer *peer, const struct request *request)
{
	assert_int_equal(write(peer->socket, request, sizeof(*request)), sizeof(*request));
}

static struct answer ask(struct peer *peer, struct request *request)
{
	if (peer->here)
		return serve(peer->here, request);
	send_request(peer, request);
	return read_answer(peer);
}

void ends_open(struct end *near, struct peer *peer, bool other_process)
{
	static struct end here;
	struct address mine, theirs;

	*peer = (struct peer){.here = other_process ? NULL : &here};
	if (peer->here)
		make_end(peer->here, true);
	theirs = peer->here ? address_of(peer->here) : start_peer(peer);
	peer->bounce = theirs.bounce;
	memcpy(peer->buffer, theirs.buffer, sizeof(peer->buffer));
	make_end(near, false);
	mine = address_of(near);
	memcpy(near->peer, peer->buffer, sizeof(near->peer));
	if (peer->here) {
		memcpy(peer->here->peer, near->buffer, sizeof(near->buffer));
		rig_modify(peer->here->qp, IBV_QPS_RTS, mine.qpn);
	} else {
		assert_int_equal(write(peer->socket, &mine, sizeof(mine)), sizeof(mine));
		read_answer(peer);
	}
	rig_modify(near->qp, IBV_QPS_RTS, theirs.qpn);
}

void ends_close(struct end *near, struct peer *peer)
{
	struct request request = {.what = END};
	int status;

	if (peer->here) {
		end_end(peer->here);
	} else if (peer->pid) {
		send_request(peer, &request);
		assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
		assert_int_equal(status, 0);
		close(peer->socket);
		close(peer->memory);
	}
	end_end(near);
}

void peer_kill(struct peer *peer, int signal)
{
	int status;

	assert_int_equal(kill(peer->pid, signal), 0);
	assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
	close(peer->socket);
	close(peer->memory);
	peer->pid = 0;
}

static int ask_value(struct peer *peer, int what, int argument)
{
	struct request request = {.what = what, .num_sge = argument};

	return (int)ask(peer, &request).value;
}

enum ibv_event_type peer_event(struct peer *peer)
{
	return (enum ibv_event_type)ask_value(peer, EVENT, 0);
}

void peer_modify(struct peer *peer, enum ibv_qp_state to)
{
	ask_value(peer, MODIFY, (int)to);
}

enum ibv_qp_state peer_state(struct peer *peer)
{
	return (enum ibv_qp_state)ask_value(peer, STATE, 0);
}

void peer_deregister(struct peer *peer, enum kind kind)
{
	ask_value(peer, DEREGISTER, (int)kind);
}

void peer_unmap(struct peer *peer, enum kind kind)
{
	ask_value(peer, UNMAP, (int)kind);
}

void peer_receive(struct peer *peer, uint64_t wr_id, const struct ibv_sge *sge, int num_sge)
{
	struct request request = {RECEIVE, wr_id, num_sge};

	memcpy(request.sge, sge, (size_t)num_sge * sizeof(*sge));
	ask(peer, &request);
}

struct ibv_wc peer_next(struct peer *peer)
{
	struct request request = {.what = NEXT};

	return ask(peer, &request).wc;
}

void peer_begin_litmus(struct peer *peer, const struct litmus *game)
{
	struct request request = {.what = LITMUS, .game = *game};

	send_request(peer, &request);
}

struct litmus_result peer_end_litmus(struct peer *peer)
{
	return read_answer(peer).result;
}

static bool on_gpu(const struct peer *peer, uint64_t at)
{
	for (enum kind k = 0; k < KINDS; k++)
		if (ends_on_gpu(k) && at - peer->buffer[k].at < peer->buffer[k].bytes)
			return true;
	return false;
}

/* Copies between memory of the peer's GPU and its bounce buffer. */
static void ask_copy(struct peer *peer, int what, uint64_t at, size_t bytes)
{
	struct request request = {.what = what, .sge = {{at, (uint32_t)bytes, 0}}};

	ask(peer, &request);
}

void peer_put(struct peer *peer, uint64_t to, const void *from, size_t bytes)
{
	bool gpu = on_gpu(peer, to);

	if (peer->here && gpu)
		copy_gpu(to, (uintptr_t)from, bytes);
	else if (peer->here)
		memcpy((void *)(uintptr_t)to, from, bytes);
	else
		assert_int_equal(
			pwrite(peer->memory, from, bytes, (off_t)(gpu ? peer->bounce : to)), bytes);
	if (!peer->here && gpu)
		ask_copy(peer, PUT, to, bytes);
}

void peer_get(struct peer *peer, void *to, uint64_t from, size_t bytes)
{
	bool gpu = on_gpu(peer, from);

	if (!peer->here && gpu)
		ask_copy(peer, GET, from, bytes);
	if (peer->here && gpu)
		copy_gpu((uintptr_t)to, from, bytes);
	else if (peer->here)
		memcpy(to, (const void *)(uintptr_t)from, bytes);
	else
		assert_int_equal(pread(peer->memory, to, bytes, (off_t)(gpu ? peer->bounce : from)),
				 bytes);
}

void peer_begin_game(struct peer *peer)
{
	struct request request = {.what = GAME};

	send_request(peer, &request);
}

int64_t peer_end_game(struct peer *peer)
{
	return read_answer(peer).value;
}
