/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What processes do beside their traffic: register and deregister memory, make and destroy queue pairs, fork,
 * connect by librdmacm. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker.h"

#define PAGE	 4096u
#define LIMIT_NS 20000000000ull
#define ACCEPTED 64u

static struct rdma_event_channel *listening;
static struct rdma_cm_id *listener, *accepted[ACCEPTED];

/* ---- Memory ---- */

static void check_bytes(const uint8_t *at, size_t bytes, uint8_t value)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i] != value)
			broken("the worker's own memory has changed by its registration");
}

static struct ibv_mr *registered(struct worker *w, void *at, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(w->pd, at, bytes, ALL);

	if (!mr)
		broken("cannot register %zu bytes: %s", bytes, strerror(errno));
	return mr;
}

static void deregister(struct ibv_mr *mr)
{
	int err = ibv_dereg_mr(mr);

	if (err)
		broken("cannot deregister: %s", strerror(err));
}

/* A page in the middle is registered first, so that the whole region has several pieces. */
void churn_memory(struct worker *w)
{
	size_t pages = 1 + draw(&w->seed, 24), bytes = pages * PAGE;
	uint8_t value = (uint8_t)draw(&w->seed, 256);
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *middle = NULL, *whole;

	if (at == MAP_FAILED)
		broken("no memory");
	memset(at, value, bytes);
	if (pages > 2)
		middle = registered(w, at + PAGE, PAGE);
	whole = registered(w, at + 8, bytes - 8);
	check_bytes(at, bytes, value);
	if (!draw(&w->seed, 2) &&
	    ibv_rereg_mr(whole, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, at, bytes, 0))
		broken("cannot register anew: %s", strerror(errno));
	if (middle)
		deregister(middle);
	deregister(whole);
	check_bytes(at, bytes, value);
	munmap(at, bytes);
}

/* Large enough to have segments of its own. */
static void churn_large(struct worker *w)
{
	size_t bytes = 9ul << 20;
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		broken("no memory");
	deregister(registered(w, at, bytes));
	munmap(at, bytes);
}

/* ---- Queue pairs ---- */

static void drain(struct ibv_cq *cq, unsigned int n)
{
	uint64_t limit = now_ns() + LIMIT_NS;
	struct ibv_wc wc;

	while (n) {
		if (ibv_poll_cq(cq, 1, &wc) == 1)
			n--;
		else if (now_ns() > limit)
			broken("a queue pair connected within the process hangs");
		else
			sched_yield();
	}
}

/* A WRITE from one of the worker's queue pairs to another, now and then with a bad key: then both go to
 * ERR. */
static void write_to_other(struct worker *w, struct ibv_qp *qp, bool bad_key)
{
	struct ibv_sge sge = {(uintptr_t)w->shared->local, 64, w->mr[0]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)w->shared->from[w->me].scratch;
	wr.wr.rdma.rkey = bad_key ? w->mr[0]->rkey ^ 1 : w->mr[0]->rkey;
	if (ibv_post_send(qp, &wr, &bad))
		broken("cannot post within the process");
}

static void churn_queue_pairs(struct worker *w)
{
	struct ibv_cq *cq = ibv_create_cq(w->context, 64, NULL, NULL, 0), *outer = w->cq;
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp *qp[2];

	if (!cq)
		broken("no completion queue");
	w->cq = cq;
	for (int i = 0; i < 2; i++)
		qp[i] = worker_queue_pair(w);
	w->cq = outer;
	for (int i = 0; i < 2; i++)
		worker_connect(w, qp[i], &w->process->gid, qp[!i]->qp_num);
	write_to_other(w, qp[0], !draw(&w->seed, 3));
	drain(cq, 1);
	if (!draw(&w->seed, 2) && ibv_modify_qp(qp[0], &reset, IBV_QP_STATE))
		broken("cannot reset");
	for (int i = 0; i < 2; i++)
		if (ibv_destroy_qp(qp[i]))
			broken("cannot destroy a queue pair");
	if (ibv_destroy_cq(cq))
		broken("cannot destroy a completion queue");
}

void churn_take(struct worker *w)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct link *l = &w->link[0];

	if (!may_lose(w, l) || !w->me || !l->open || l->lost)
		return;
	l->lost = true;
	if (ibv_modify_qp(l->qp, &error, IBV_QP_STATE))
		broken("cannot take a queue pair away");
}

/* ---- Fork ---- */

static void churn_fork(struct worker *w)
{
	pid_t child = fork();

	if (!child)
		_exit(w->shared->guard[1] == w->shared->guard[0]);
	if (child < 0)
		broken("fork: %s", strerror(errno));
	if (waitpid(child, NULL, 0) != child)
		broken("waitpid: %s", strerror(errno));
}

/* ---- Connections ---- */

/* A thread that cannot be parked while pages migrate, as it has blocked that signal by a system call of its
 * own: its stores are held back in another way. */
static void *be_deaf(void *nothing)
{
	uint64_t summon = 1ull << (33 - 1);

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &summon, NULL, sizeof(summon));
	for (;;)
		pause();
	return nothing;
}

void churn_begin(struct worker *w)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	pthread_t deaf;

	if (!draw(&w->seed, 4) && pthread_create(&deaf, NULL, be_deaf, NULL))
		broken("no thread");
	/* the other workers may sleep for long, and listeners must not */
	if (w->me % 2 || w->process->kind == SLEEPER)
		return;
	any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listening = rdma_create_event_channel();
	if (!listening || rdma_create_id(listening, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&any) || rdma_listen(listener, 8))
		broken("cannot listen: %s", strerror(errno));
	fcntl(listening->fd, F_SETFL, fcntl(listening->fd, F_GETFL) | O_NONBLOCK);
	atomic_store(&w->process->port, ntohs(rdma_get_src_port(listener)));
}

static void make_queue_pair(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	if (rdma_create_qp(id, NULL, &init))
		broken("no queue pair for a connection: %s", strerror(errno));
}

static void end_id(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (rdma_destroy_id(id))
		broken("cannot destroy an identifier");
}

static void accept_request(struct worker *w, struct rdma_cm_id *id)
{
	atomic_store(&w->process->refused, -1);
	for (uint32_t i = 0; i < ACCEPTED; i++) {
		if (accepted[i])
			continue;
		make_queue_pair(id);
		/* the process that asks may have died since */
		if (rdma_accept(id, NULL)) {
			atomic_store(&w->process->refused, errno);
			break;
		}
		atomic_store(&w->process->refused, 0);
		accepted[i] = id;
		return;
	}
	end_id(id);
}

static void end_accepted(const struct rdma_cm_id *id)
{
	for (uint32_t i = 0; i < ACCEPTED; i++)
		if (accepted[i] && (!id || accepted[i] == id)) {
			end_id(accepted[i]);
			accepted[i] = NULL;
		}
}

static void on_event(struct worker *w, struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		accept_request(w, id);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		end_accepted(id);
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	}
}

void churn_serve(struct worker *w)
{
	struct rdma_cm_event *event;

	while (listening && !rdma_get_cm_event(listening, &event)) {
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type type = event->event;

		rdma_ack_cm_event(event);
		on_event(w, id, type);
	}
}

static int status; /* of the last event that next_event has returned */

/* Waits for the worker's next event; meanwhile workers that connect to it are served. */
static enum rdma_cm_event_type next_event(struct worker *w, struct rdma_event_channel *channel,
					  const struct process *peer, const char *what)
{
	uint64_t limit = now_ns() + LIMIT_NS;
	struct pollfd fd = {channel->fd, POLLIN, 0};
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;

	while (poll(&fd, 1, 1) != 1) {
		traffic_wait(w);
		if (now_ns() > limit)
			broken("%s hangs: %td is in stage %u%s", what, peer - w->world->process,
			       stage_of(peer), has_died(peer) ? ", dead" : "");
	}
	if (rdma_get_cm_event(channel, &event))
		broken("no event: %s", strerror(errno));
	type = event->event;
	status = event->status;
	rdma_ack_cm_event(event);
	return type;
}

static void connect_to(struct worker *w, const struct process *peer)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)atomic_load(&peer->port))};
	struct rdma_conn_param param = {.retry_count = 3, .rnr_retry_count = 7};
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000))
		broken("cannot resolve: %s", strerror(errno));
	if (next_event(w, channel, peer, "resolving") != RDMA_CM_EVENT_ADDR_RESOLVED)
		goto end_id; /* the address is that of a dead process */
	if (rdma_resolve_route(id, 1000) ||
	    next_event(w, channel, peer, "routing") != RDMA_CM_EVENT_ROUTE_RESOLVED)
		broken("no route");
	make_queue_pair(id);
	if (rdma_connect(id, &param))
		goto end_id;
	type = next_event(w, channel, peer, "connecting");
	if (type == RDMA_CM_EVENT_ESTABLISHED) {
		if (rdma_disconnect(id))
			broken("cannot disconnect: %s", strerror(errno));
	} else if (!has_died(peer) && stage_of(peer) < LEAVING) {
		for (uint64_t limit = now_ns() + LIMIT_NS; !has_died(peer); sched_yield())
			if (stage_of(peer) >= LEAVING)
				break;
			else if (now_ns() > limit)
				broken("a listener that lives does not answer: %s, %d; its last "
				       "refusal: "
				       "%d",
				       rdma_event_str(type), status, atomic_load(&peer->refused));
	}
end_id:
	end_id(id);
	rdma_destroy_event_channel(channel);
}

static void churn_connection(struct worker *w)
{
	const struct process *peer = &w->world->process[draw(&w->seed, w->world->processes)];

	/* the loopback's address is the own host */
	if (peer != w->process && is_of_our_host(w, peer) && atomic_load(&peer->port) &&
	    stage_of(peer) < LEAVING)
		connect_to(w, peer);
}

void churn_end(struct worker *w)
{
	if (!listening)
		return;
	atomic_store(&w->process->port, 0);
	churn_serve(w);
	end_accepted(NULL);
	end_id(listener);
	rdma_destroy_event_channel(listening);
	listening = NULL;
}

void churn_run(struct worker *w)
{
	uint64_t what = draw(&w->seed, 40);

	if (what < 1)
		churn_large(w);
	else if (what < 4)
		churn_fork(w);
	else if (what < 12)
		churn_connection(w);
	else if (what < 18)
		guest_run(w);
	else if (what < 26)
		churn_queue_pairs(w);
	else
		churn_memory(w);
}
