/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "writer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../verbs/exporter.h"
#include "../verbs/rig.h"

#define PATIENCE_NS 30000000000ull
#define ADD_EVERY   16u

uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "writer: %s (%s)\n", what, strerror(errno));
	_exit(1);
}

/* ---- In the writer's process ---- */

struct near {
	struct ibv_context *context;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *from;
	struct wire *wire;
	uint64_t random;
	int sock;
	/* a queue pair in the test's domain, and its peer in the writer's own; made when they are first
	 * needed */
	struct ibv_context *imported;
	struct ibv_cq *pair_cq[2];
	struct ibv_qp *pair[2];
};

static void open_near(struct near *n, uint8_t byte)
{
	struct ibv_qp_init_attr init;
	struct ibv_pd *pd;

	n->context = rig_context();
	pd = ibv_alloc_pd(n->context);
	must(pd, "no domain");
	n->cq = ibv_create_cq(n->context, RIG_DEPTH, NULL, NULL, 0);
	must(n->cq, "no completion queue");
	init = rig_init(n->cq, n->cq);
	n->qp = ibv_create_qp(pd, &init);
	must(n->qp, "no queue pair");
	n->from = rig_region(pd, WRITE_MOST);
	memset(n->from->addr, byte, WRITE_MOST);
}

static void connect_near(struct near *n)
{
	struct ibv_qp_attr attr;

	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		attr = rig_attr(n->context, s, n->wire->qpn);
		attr.timeout = 8; /* 1 ms */
		attr.retry_cnt = 1;
		must(!ibv_modify_qp(n->qp, &attr, rig_mask(IBV_QPT_RC, s)), "modify");
	}
}

/* ---- Queue pairs in the test's domain ---- */

static void open_pair(struct near *n)
{
	struct ibv_qp_init_attr init;
	struct ibv_pd *pd[2];

	if (n->imported)
		return;
	n->imported = ibv_import_device(take_fd(n->sock));
	must(n->imported, "no context");
	pd[0] = ibv_import_pd(n->imported, n->wire->domain);
	must(pd[0], "no domain of the test's");
	pd[1] = n->from->pd;
	for (int i = 0; i < 2; i++) {
		n->pair_cq[i] = ibv_create_cq(pd[i]->context, RIG_DEPTH, NULL, NULL, 0);
		must(n->pair_cq[i], "no completion queue");
		init = rig_init(n->pair_cq[i], n->pair_cq[i]);
		n->pair[i] = ibv_create_qp(pd[i], &init);
		must(n->pair[i], "no queue pair");
	}
}

static void connect_pair(struct near *n)
{
	struct ibv_qp_attr attr;

	open_pair(n);
	for (int i = 0; i < 2; i++)
		rig_modify(n->pair[i], IBV_QPS_RESET, 0);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		for (int i = 0; i < 2; i++) {
			attr = rig_attr(n->pair[i]->context, s, n->pair[!i]->qp_num);
			must(!ibv_modify_qp(n->pair[i], &attr, rig_mask(IBV_QPT_RC, s)),
			     "modify a pair");
		}
}

static uint64_t length(struct near *n)
{
	uint64_t bytes = 8ull << next_random(&n->random) % 18;

	return n->wire->large || bytes > n->wire->bytes ? n->wire->bytes : bytes;
}

/* Makes one request; returns whether it succeeded. */
static bool write_once(struct near *n)
{
	const struct wire *w = n->wire;
	bool add = next_random(&n->random) % ADD_EVERY == 0;
	uint64_t bytes = add ? 8 : length(n);
	uint64_t off = next_random(&n->random) % (w->bytes - bytes + 1), to = w->at + off;
	struct ibv_wc wc;

	if (add && to % 8)
		to = to + 8 - to % 8 < w->at + w->bytes - 8 ? to + 8 - to % 8 : to - to % 8;
	must(!rig_rdma(n->qp, add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_WRITE, 0, n->from,
		       n->from->addr, (uint32_t)bytes, to, w->rkey),
	     "post");
	while (!ibv_poll_cq(n->cq, 1, &wc))
		;
	if (add) /* the fetch-and-add has placed an old value among the bytes that are written */
		memcpy(n->from->addr, (uint8_t *)n->from->addr + 8, 8);
	return !wc.status;
}

static bool complete_once(struct near *n)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				       .send_flags = IBV_SEND_SIGNALED,
				       .imm_data = (uint32_t)atomic_load(&n->wire->writes)};
	struct ibv_wc wc;

	must(!ibv_post_send(n->qp, &wr, &bad), "post");
	while (!ibv_poll_cq(n->cq, 1, &wc))
		;
	return !wc.status;
}

static bool count_once(struct near *n, struct ibv_qp *qp, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	must(!rig_rdma(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, n->from, n->from->addr, 8, n->wire->at,
		       n->wire->rkey),
	     "post");
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	return !wc.status;
}

/* READs into the test's memory as the requester's own, or WRITEs there as a peer's. */
static bool copy_once(struct near *n)
{
	const struct wire *w = n->wire;
	const struct ibv_mr theirs = {.lkey = w->rkey};
	uint64_t bytes = length(n), at = w->at + next_random(&n->random) % (w->bytes - bytes + 1);
	int i = (int)(next_random(&n->random) % 2);
	struct ibv_wc wc;

	if (i)
		must(!rig_rdma(n->pair[1], IBV_WR_RDMA_WRITE, 0, n->from, n->from->addr,
			       (uint32_t)bytes, at, w->rkey),
		     "post");
	else
		must(!rig_rdma(n->pair[0], IBV_WR_RDMA_READ, 0, &theirs, (void *)(uintptr_t)at,
			       (uint32_t)bytes, (uintptr_t)n->from->addr, n->from->rkey),
		     "post");
	while (!ibv_poll_cq(n->pair_cq[i], 1, &wc))
		;
	return !wc.status;
}

static bool import_once(struct near *n)
{
	if (n->wire->counts)
		return count_once(n, n->pair[1], n->pair_cq[1]);
	return copy_once(n);
}

static bool once(struct near *n)
{
	if (n->wire->imports)
		return import_once(n);
	return n->wire->counts	   ? count_once(n, n->qp, n->cq)
	       : n->wire->numbered ? complete_once(n)
				   : write_once(n);
}

static void play(struct near *n, uint32_t round)
{
	if (n->wire->imports)
		connect_pair(n);
	else
		connect_near(n);
	while (once(n))
		atomic_fetch_add(&n->wire->writes, 1);
	atomic_store(&n->wire->own_qpn, 0);
	rig_modify(n->qp, IBV_QPS_RESET, 0);
	atomic_store(&n->wire->own_qpn, n->qp->qp_num);
	atomic_store(&n->wire->ended, round);
}

static void run(struct wire *wire, int sock, uint8_t byte, uint64_t seed)
{
	struct near near = {.wire = wire, .random = seed, .sock = sock};
	uint32_t round = 0;

	open_near(&near, byte);
	atomic_store(&wire->own_qpn, near.qp->qp_num);
	for (;;) {
		while (atomic_load(&wire->round) == round)
			usleep(50);
		round = atomic_load(&wire->round);
		play(&near, round);
	}
}

/* ---- In the test ---- */

void writer_start(struct writer *w, uint8_t byte, uint64_t seed)
{
	int sock[2];

	w->wire = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(w->wire, MAP_FAILED);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sock), 0);
	w->sock = sock[0];
	w->has_context = false;
	w->pid = fork();
	assert_true(w->pid >= 0);
	if (w->pid) {
		close(sock[1]);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getenv("WEFT_TEST_HOSTS"))
		setenv("WEFT_HOST", "1", 1);
	run(w->wire, sock[1], byte, seed);
}

static uint64_t now_lives(const struct writer *w)
{
	assert_int_equal(waitpid(w->pid, NULL, WNOHANG), 0);
	return rig_now_ns();
}

/* Waits until *word is at least `least`; the writer must live. */
#define AWAIT(w, word, least)                                                                      \
	do {                                                                                       \
		uint64_t deadline_ns = rig_now_ns() + PATIENCE_NS;                                 \
		while (atomic_load(word) < (least)) {                                              \
			assert_true(now_lives(w) < deadline_ns);                                   \
			usleep(50);                                                                \
		}                                                                                  \
	} while (0)

uint32_t writer_await_ready(const struct writer *w)
{
	AWAIT(w, &w->wire->own_qpn, 1);
	return atomic_load(&w->wire->own_qpn);
}

void writer_await_writes(const struct writer *w, uint64_t writes)
{
	AWAIT(w, &w->wire->writes, writes);
}

void writer_await_end(const struct writer *w)
{
	AWAIT(w, &w->wire->ended, atomic_load(&w->wire->round));
}

void writer_begin(const struct writer *w)
{
	atomic_store(&w->wire->writes, 0);
	atomic_fetch_add(&w->wire->round, 1);
}

void writer_give(struct writer *w, int cmd_fd)
{
	if (!w->has_context)
		pass_fd(w->sock, cmd_fd);
	w->has_context = true;
}

void writer_stop(const struct writer *w)
{
	int status;

	assert_int_equal(kill(w->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(w->pid, &status, WUNTRACED), w->pid);
	assert_true(WIFSTOPPED(status));
}

void writer_continue(const struct writer *w)
{
	assert_int_equal(kill(w->pid, SIGCONT), 0);
}

void writer_kill(struct writer *w)
{
	if (!w->pid)
		return;
	kill(w->pid, SIGKILL);
	assert_int_equal(waitpid(w->pid, NULL, 0), w->pid);
	munmap(w->wire, 4096);
	close(w->sock);
	w->pid = 0;
}
