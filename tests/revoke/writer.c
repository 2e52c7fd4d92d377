/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "writer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* ---- The writer's side ---- */

struct near {
	struct ibv_context *context;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *from;
	struct wire *wire;
	uint64_t random;
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

static uint64_t length(struct near *n)
{
	uint64_t bytes = 8ull << next_random(&n->random) % 18;

	return n->wire->large || bytes > n->wire->bytes ? n->wire->bytes : bytes;
}

/* One request; whether it succeeded. */
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
		       n->from->addr, (uint32_t)bytes, to, w->rkey), "post");
	while (!ibv_poll_cq(n->cq, 1, &wc))
		;
	if (add) /* it brought a word of theirs */
		memcpy(n->from->addr, (uint8_t *)n->from->addr + 8, 8);
	return !wc.status;
}

static bool complete_once(struct near *n)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					.send_flags = IBV_SEND_SIGNALED,
					.imm_data = (uint32_t)atomic_load(&n->wire->writes) };
	struct ibv_wc wc;

	must(!ibv_post_send(n->qp, &wr, &bad), "post");
	while (!ibv_poll_cq(n->cq, 1, &wc))
		;
	return !wc.status;
}

static bool count_once(struct near *n)
{
	struct ibv_wc wc;

	must(!rig_rdma(n->qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, n->from, n->from->addr, 8, n->wire->at,
		       n->wire->rkey), "post");
	while (!ibv_poll_cq(n->cq, 1, &wc))
		;
	return !wc.status;
}

static bool once(struct near *n)
{
	return n->wire->counts ? count_once(n) : n->wire->numbered ? complete_once(n) : write_once(n);
}

static void play(struct near *n, uint32_t round)
{
	connect_near(n);
	while (once(n))
		atomic_fetch_add(&n->wire->writes, 1);
	atomic_store(&n->wire->own_qpn, 0);
	rig_move(n->qp, IBV_QPS_RESET, 0);
	atomic_store(&n->wire->own_qpn, n->qp->qp_num);
	atomic_store(&n->wire->ended, round);
}

static void run(struct wire *wire, uint8_t byte, uint64_t seed)
{
	struct near near = { .wire = wire, .random = seed };
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

/* ---- The test's side ---- */

void writer_start(struct writer *w, uint8_t byte, uint64_t seed)
{
	w->wire = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(w->wire, MAP_FAILED);
	w->pid = fork();
	assert_true(w->pid >= 0);
	if (w->pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run(w->wire, byte, seed);
}

static uint64_t now_lives(const struct writer *w)
{
	assert_int_equal(waitpid(w->pid, NULL, WNOHANG), 0);
	return rig_now_ns();
}

/* Waits until *word is at least `least`. */
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
	w->pid = 0;
}
