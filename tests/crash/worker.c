/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The life of a process under test: it joins, connects with all others, exchanges requests, sees the dead
 * off, and leaves. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../random.h"
#include "worker.h"

#define LIMIT_NS 20000000000ull
#define PROBE_NS 2000000

static struct worker self;

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t draw(uint64_t *seed, uint64_t bound)
{
	return splitmix64(seed) % bound;
}

void broken(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(self.process->failure, sizeof(self.process->failure), format, args);
	va_end(args);
	if (getenv("CRASH_STOP")) {
		fprintf(stderr, "stopped %d: %s\n", getpid(), self.process->failure);
		for (;;)
			pause();
	}
	_exit(1);
}

void nap(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* ---- Joining ---- */

/* As a container's profile may: then the owner's helper copies memory in place. */
static void forbid_process_vm(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		broken("seccomp: %s", strerror(errno));
}

static void choose_ways(struct worker *w)
{
	static const char *const ways[] = {"uffd", "segv", "segv", ""};
	char host[16];

	setenv("WEFT_POOL", w->world->pool, 1);
	if (w->world->hosts) {
		snprintf(host, sizeof(host), "%u", w->process->host);
		setenv("WEFT_HOST", host, 1);
	}
	setenv("WEFT_MIGRATE", ways[draw(&w->seed, 4)], 1);
	if (!draw(&w->seed, 3))
		forbid_process_vm();
}

static void open_device(struct worker *w)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	w->context = list ? ibv_open_device(list[0]) : NULL;
	if (!w->context)
		broken("cannot open the device: %s", strerror(errno));
	ibv_free_device_list(list);
	w->pd = ibv_alloc_pd(w->context);
	if (!w->pd)
		broken("no protection domain");
}

static void register_regions(struct worker *w)
{
	w->shared = mmap(NULL, sizeof(*w->shared), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->shared == MAP_FAILED)
		broken("no memory");
	traffic_fill(w);
	w->mr[0] = ibv_reg_mr(w->pd, w->shared, sizeof(*w->shared), ALL);
	w->mr[1] = ibv_reg_mr(w->pd, &in_place, sizeof(in_place), ALL);
	if (!w->mr[0] || !w->mr[1])
		broken("cannot register: %s", strerror(errno));
	w->process->key[0] = w->mr[0]->rkey;
	w->process->key[1] = w->mr[1]->rkey;
	w->process->address[0] = (uintptr_t)w->shared;
	w->process->address[1] = (uintptr_t)&in_place;
	if (ibv_query_gid(w->context, 1, 1, &w->process->gid))
		broken("no address");
	w->process->cmd_fd = w->context->cmd_fd;
	atomic_store(&w->process->pd, w->pd->handle);
}

static void open_all(struct worker *w)
{
	open_device(w);
	w->channel = ibv_create_comp_channel(w->context);
	w->cq = ibv_create_cq(w->context, (int)(PROCESSES * 4 * DEPTH), w, w->channel, 0);
	if (!w->cq)
		broken("no completion queue");
	register_regions(w);
}

/* ---- Connecting ---- */

struct ibv_qp *worker_queue_pair(struct worker *w)
{
	struct ibv_qp_init_attr init = {.send_cq = w->cq,
					.recv_cq = w->cq,
					.cap = {2 * DEPTH, DEPTH, 2, 1, 0},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
	struct ibv_qp *qp = ibv_create_qp(w->pd, &init);

	if (!qp ||
	    ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		broken("no queue pair: %s", strerror(errno));
	return qp;
}

void worker_connect(struct worker *w, struct ibv_qp *qp, const union ibv_gid *gid, uint32_t qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = *gid, .sgid_index = 1, .hop_limit = 1}},
		.timeout = 12, /* 17 ms */
		.retry_cnt = 3,
		.rnr_retry = 7,
		.max_rd_atomic = 16,
	};

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		broken("the transition to RTR fails: %s", strerror(errno));
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		broken("the transition to RTS fails: %s", strerror(errno));
}

/* Waits until that peer has come so far with its end of the link. False: it died before. */
static bool await(struct worker *w, uint32_t peer, enum link_stage stage)
{
	const struct process *process = &w->world->process[peer];
	uint64_t limit = now_ns() + LIMIT_NS;

	while (atomic_load(&process->mail[w->me].stage) < stage) {
		if (has_died(process))
			return false;
		if (now_ns() > limit)
			broken("%u does not connect", peer);
		traffic_wait(w);
	}
	return true;
}

static void offer(struct worker *w, uint32_t peer)
{
	struct link *l = &w->link[peer];

	l->peer = peer;
	l->qp = worker_queue_pair(w);
	for (uint32_t i = 0; i < DEPTH; i++)
		traffic_receive(w, l, i);
	w->process->mail[peer].qpn = l->qp->qp_num;
	atomic_store(&w->process->mail[peer].stage, LINK_OFFERED);
}

static void connect_all(struct worker *w)
{
	for (uint32_t i = 0; i < w->world->processes; i++)
		if (i != w->me)
			offer(w, i);
	for (uint32_t i = 0; i < w->world->processes; i++) {
		const struct process *peer = &w->world->process[i];

		if (i == w->me || !await(w, i, LINK_OFFERED))
			continue;
		worker_connect(w, w->link[i].qp, &peer->gid, peer->mail[w->me].qpn);
		atomic_store(&w->process->mail[i].stage, LINK_CONNECTED);
	}
	for (uint32_t i = 0; i < w->world->processes; i++)
		if (i != w->me)
			w->link[i].open = await(w, i, LINK_CONNECTED);
}

/* ---- Exchanging requests ---- */

static bool useful(const struct worker *w, const struct link *l)
{
	return l->open && !l->lost && stage_of(&w->world->process[l->peer]) < LEAVING;
}

static void sleep_for_ever(struct worker *w)
{
	struct ibv_cq *cq;
	void *context;

	for (;;) {
		if (ibv_req_notify_cq(w->cq, 0) || ibv_get_cq_event(w->channel, &cq, &context))
			broken("cannot sleep");
		ibv_ack_cq_events(cq, 1);
	}
}

static void die_at_exit(void)
{
	raise(SIGKILL);
}

static void end_early(struct worker *w)
{
	switch (w->process->way) {
	case WAY_NONE:
		return;
	case WAY_ASLEEP:
		sleep_for_ever(w);
		return;
	case WAY_EXIT:
		atexit(die_at_exit);
		exit(0);
	case WAY_ABORT:
		setrlimit(RLIMIT_CORE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
		abort();
	}
}

static void talk(struct worker *w)
{
	struct link *l = &w->link[draw(&w->seed, w->world->processes)];

	if (useful(w, l))
		traffic_run(w, l);
	if (!draw(&w->seed, 3) && w->process->order.signal != SIGSTOP)
		churn_run(w);
	traffic_wait(w);
}

/* A worker that has lost a peer learns of it in the end, however many of its WRITEs to the dead succeed
 * before. */
static void bury(struct worker *w, struct link *l)
{
	uint64_t limit = atomic_load(&w->world->process[l->peer].died_ns) + LIMIT_NS;

	while (!l->lost) {
		traffic_probe(w, l);
		if (now_ns() > limit)
			broken("%u died long ago, and still answers", l->peer);
		if (!l->lost)
			nap(PROBE_NS);
	}
}

static bool all_done(struct worker *w)
{
	bool done = true;

	for (uint32_t i = 0; i < w->world->processes; i++) {
		const struct process *peer = &w->world->process[i];

		if (has_died(peer) && stage_of(peer) < LEAVING && w->link[i].open)
			bury(w, &w->link[i]);
		else if (!has_died(peer) && stage_of(peer) < DONE)
			done = false;
	}
	return done;
}

static void await_others(struct worker *w)
{
	uint64_t limit = now_ns() + 2 * LIMIT_NS;

	while (!all_done(w)) {
		if (w->process->kind == SLEEPER && !draw(&w->seed, 4))
			churn_run(w);
		if (w->process->kind == SLEEPER && !draw(&w->seed, 16))
			churn_take(w);
		traffic_wait(w);
		if (now_ns() > limit)
			broken("the other workers do not end");
	}
}

/* ---- Leaving ---- */

static void require(int err, const char *what)
{
	if (err)
		broken("%s: %s", what, strerror(err));
}

/* Guests may still have objects in the domain. */
static void dealloc_domain(struct worker *w)
{
	uint64_t limit = now_ns() + LIMIT_NS;
	int err;

	while ((err = ibv_dealloc_pd(w->pd)) == EBUSY && now_ns() < limit)
		sched_yield();
	require(err, "deallocating a protection domain");
}

static void close_all(struct worker *w)
{
	for (uint32_t i = 0; i < w->world->processes; i++)
		if (w->link[i].qp)
			require(ibv_destroy_qp(w->link[i].qp), "destroying a queue pair");
	for (int i = 0; i < 2; i++)
		require(ibv_dereg_mr(w->mr[i]), "deregistering");
	traffic_check(w);
	require(ibv_destroy_cq(w->cq), "destroying a completion queue");
	require(ibv_destroy_comp_channel(w->channel), "destroying a channel");
	dealloc_domain(w);
	require(ibv_close_device(w->context), "closing");
}

static void work(struct worker *w)
{
	open_all(w);
	churn_begin(w);
	connect_all(w);
	for (uint32_t i = 0; i < w->process->turns; i++) {
		if (i == w->process->turns / 2)
			end_early(w);
		talk(w);
	}
	if (draw(&w->seed, 8)) {
		atomic_store(&w->process->stage, DONE);
		await_others(w);
	}
	atomic_store(&w->process->stage, LEAVING);
	/* some end without closing anything */
	if (!draw(&w->seed, 8))
		exit(0);
	churn_end(w);
	close_all(w);
}

/* A process that joins has one thread and no helper: its pages migrate by plain copies. */
static void join(struct worker *w)
{
	open_device(w);
	churn_memory(w);
	if (ibv_dealloc_pd(w->pd) || ibv_close_device(w->context))
		broken("cannot leave");
}

void live(struct world *world, uint32_t process)
{
	struct worker *w = &self;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	w->world = world;
	w->me = process;
	w->process = &world->process[process];
	w->seed = w->process->seed;
	steps_obey(w->process->kind, &w->process->order);
	choose_ways(w);
	if (w->process->kind == WORKER || w->process->kind == SLEEPER)
		work(w);
	else
		join(w);
	atomic_store(&w->process->stage, LEFT);
	exit(0);
}
