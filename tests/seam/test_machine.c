/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two pools, and two nics on each, in one process and in virtual time: a requester that sends to a responder
 * which is rarely ready. Each world runs as it does alone, whatever else is in the process, and a thousand
 * seconds of timers take less than one.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../random.h"
#include "clock.h"
#include "nic/mw.h"
#include "nic/submit.h"
#include "plain.h"
#include "transport/registry.h"
#include "pool/format_member.h"

#define SECOND_NS   1000000000ull
#define TICK_NS	    (10 * 1000000ull) /* how often a helper looks for what it gets no signal for */
#define READY_NS    (60 * 1000000ull) /* mean time between receives */
#define RNR_TIMER   20u		      /* 10.24 ms, 9.7.5.2.8 */
#define RNR_RETRY   6u
#define PATIENCE_NS (RNR_RETRY * 10240000ull)
#define DEPTH	    8u

static const uint8_t gid_of[2][16] = {{[0] = 0x20, [15] = 1}, {[0] = 0x20, [15] = 2}};

/* A nic, and the parts of the machine that are its own. */
struct card {
	/* the first member: its function gets the event and finds the card by it */
	struct weft_sim_event event;
	struct world *world;
	struct weft_pool *pool;
	struct weft_machine machine;
	struct weft_nic nic;
	struct weft_caller caller;
	struct weft_cq cq;
	struct weft_qp qp;
	bool kicked;
	unsigned int allocated;
};

struct world {
	struct weft_sim *sim;
	uint64_t random, trace;
	struct card near, peer;
	uint64_t posted_ns;
	uint32_t sent, given_up, received;
};

/* ---- The machine ---- */

static void *alloc(void *context, size_t bytes)
{
	((struct card *)context)->allocated++;
	return calloc(1, bytes);
}

static void free_it(void *context, void *at)
{
	((struct card *)context)->allocated -= at != NULL;
	free(at);
}

static void yield(void *context)
{
	fail_msg("one thread waits for another");
}

static uint32_t self(void *context)
{
	return 0;
}

static void kick(void *context)
{
	((struct card *)context)->kicked = true;
}

static uint64_t stamp_ns(void *context)
{
	return ((struct card *)context)->world->sim->now_ns;
}

static void copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
	memmove(to, from, bytes);
}

/* ---- The api ---- */

static void completion(struct weft_cq *cq)
{
}

static void async(struct weft_qp *qp, struct weft_cq *cq, enum weft_event event)
{
}

static void failed(const struct weft_qp *qp, const struct weft_wqe *wqe, enum weft_cause cause)
{
	assert_int_equal(cause, WEFT_CAUSE_NO_RECEIVE);
}

static const struct weft_nic_api api = {.completion = completion, .async = async, .failed = failed};

/* ---- Events of the simulation ---- */

static void transition(struct card *c, const struct card *peer, enum weft_qp_state to)
{
	struct weft_qp_attr attr = {
		.dest_qpn = peer->qp.qpn, .min_rnr_timer = RNR_TIMER, .rnr_retry = RNR_RETRY};

	memcpy(attr.sgid, gid_of[c == &c->world->peer], 16);
	memcpy(attr.dgid, gid_of[c != &c->world->peer], 16);
	assert_int_equal(weft_qp_modify(&c->qp, c->qp.state, to, &attr, &c->caller), 0);
}

static void connect(struct world *w)
{
	for (enum weft_qp_state to = WEFT_QPS_INIT; to <= WEFT_QPS_RTS; to++) {
		transition(&w->near, &w->peer, to);
		transition(&w->peer, &w->near, to);
	}
}

static void post(struct world *w)
{
	struct weft_wqe *wqe = weft_sq_next(&w->near.qp);

	w->posted_ns = w->sim->now_ns;
	*wqe = (struct weft_wqe){.wr_id = w->sent + w->given_up, .opcode = WEFT_OP_SEND};
	weft_sq_submit(&w->near.qp, wqe, &w->near.caller);
}

static void note(struct world *w, uint64_t what)
{
	w->trace = (w->trace ^ what ^ w->sim->now_ns) * 1099511628211ull;
}

/* Takes the peer's completions: also before a reset, which would discard them. */
static void take_received(struct world *w)
{
	struct weft_wc wc;

	while (weft_cq_poll(&w->peer.cq, 1, &wc, 0)) {
		assert_int_equal(wc.status, WEFT_WC_SUCCESS);
		note(w, wc.wr_id);
		w->received++;
	}
}

/* Takes the request's completion, if there is one, and posts another request. */
static bool look_at_result(struct world *w)
{
	struct weft_wc wc;

	if (!weft_cq_poll(&w->near.cq, 1, &wc, 0))
		return false;
	note(w, wc.status);
	assert_int_equal(wc.wr_id, w->sent + w->given_up);
	if (wc.status == WEFT_WC_SUCCESS) {
		assert_true(w->sim->now_ns <= w->posted_ns + PATIENCE_NS);
		w->sent++;
	} else {
		/* the timer runs from the first look on, and not a nanosecond too long */
		assert_int_equal(wc.status, WEFT_WC_RNR_RETRY_EXC_ERR);
		assert_int_equal(w->sim->now_ns, w->posted_ns + PATIENCE_NS);
		w->given_up++;
		take_received(w);
		transition(&w->near, &w->peer, WEFT_QPS_RESET);
		transition(&w->peer, &w->near, WEFT_QPS_RESET);
		connect(w);
	}
	post(w);
	return true;
}

static void near_looks(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct card *c = (struct card *)event;
	uint64_t due_ns;

	do
		due_ns = weft_nic_progress(&c->nic, &c->caller, sim->now_ns);
	while (look_at_result(c->world));
	/* the nic has kicked its helper since a request waits */
	assert_true(c->kicked || !c->nic.ntrying);
	c->kicked &= c->nic.ntrying != 0;
	weft_sim_at(sim, event, sim->now_ns + (due_ns < TICK_NS ? due_ns : TICK_NS));
}

static void peer_is_ready(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct card *c = (struct card *)event;
	struct world *w = c->world;

	take_received(w);
	if (!weft_rq_post(&c->qp, sim->now_ns, NULL, 0, 0))
		note(w, 1);
	weft_sim_at(sim, event, sim->now_ns + splitmix64(&w->random) % (2 * READY_NS));
}

/* ---- Worlds ---- */

static void open_card(struct world *w, struct card *c, const char *path, weft_sim_fn *happen)
{
	struct weft_qp_cap cap = {
		.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1};
	struct weft_pool_gid *gid;
	struct weft_attachment *a;
	const char *why;

	assert_int_equal(weft_open_attach(&plain, path, true, &a, &why), 0);
	c->world = w;
	c->pool = &a->pool;
	c->event.happen = happen;
	c->machine = (struct weft_machine){.context = c,
					   .alloc = alloc,
					   .free = free_it,
					   .copy = copy,
					   .yield = yield,
					   .self = self,
					   .kick = kick,
					   .stamp_ns = stamp_ns};
	c->nic = (struct weft_nic){.pool = c->pool,
				   .machine = &c->machine,
				   .api = &api,
				   .transports = weft_transports};
	c->nic.qps = calloc(WEFT_QPS, sizeof(*c->nic.qps));
	c->nic.windows = calloc(WEFT_MRS, sizeof(*c->nic.windows));
	c->nic.srq_of = calloc(WEFT_QPS, sizeof(*c->nic.srq_of));
	gid = &c->pool->self->gid[c->pool->self->ngids++];
	memcpy((void *)gid->half, gid_of[c == &w->peer], 16);
	gid->guard |= 1;
	weft_pool_caller_get(c->pool, &c->caller);
	assert_int_equal(weft_cq_create(&c->nic, &c->cq, 4 * DEPTH), 0);
	assert_int_equal(
		weft_qp_create(&c->nic, &c->qp, WEFT_QPT_RC, 1, &c->cq, &c->cq, NULL, &cap, true),
		0);
}

static void close_card(struct card *c)
{
	weft_sim_cancel(c->world->sim, &c->event);
	weft_qp_destroy(&c->qp);
	weft_cq_destroy(&c->cq);
	assert_int_equal(c->allocated, 0);
	free(c->nic.qps);
	free(c->nic.windows);
	free(c->nic.srq_of);
	weft_pool_caller_put(c->pool, &c->caller);
	weft_pool_put(c->pool);
}

static void open_world(struct world *w, struct weft_sim *sim, const char *path, uint64_t seed)
{
	*w = (struct world){.sim = sim, .random = seed};
	open_card(w, &w->near, path, near_looks);
	open_card(w, &w->peer, path, peer_is_ready);
	connect(w);
	post(w);
	weft_sim_at(sim, &w->near.event, sim->now_ns);
	weft_sim_at(sim, &w->peer.event, sim->now_ns);
}

static void close_world(struct world *w)
{
	close_card(&w->near);
	close_card(&w->peer);
}

/* Runs worlds with those seeds side by side, and returns their traces. */
static void run(unsigned int n, const uint64_t *seed, uint64_t *trace, uint64_t for_ns)
{
	static const char *const path[2] = {"one", "another"};
	static struct world world[2];
	struct weft_sim sim;

	weft_sim_begin(&sim, 1);
	for (unsigned int i = 0; i < n; i++)
		open_world(&world[i], &sim, path[i], seed[i]);
	weft_sim_run(&sim, for_ns);
	for (unsigned int i = 0; i < n; i++) {
		struct world *w = &world[i];

		take_received(w);
		trace[i] = w->trace;
		printf("# seed %u: %u sent, %u received, %u given up\n", (unsigned int)seed[i],
		       w->sent, w->received, w->given_up);
		assert_true(w->sent > for_ns / SECOND_NS && w->given_up > for_ns / SECOND_NS / 10);
		assert_true(w->received <= w->sent &&
			    w->sent - w->received <= 4 * DEPTH + w->given_up);
		close_world(w);
	}
	weft_sim_end(&sim);
	plain_end();
}

static void test_apart(void **state)
{
	const uint64_t seed[] = {5, 7}, same[] = {7, 7};
	uint64_t alone[2], both[2], equal[2];

	run(1, &seed[0], &alone[0], 100 * SECOND_NS);
	run(1, &seed[1], &alone[1], 100 * SECOND_NS);
	run(2, seed, both, 100 * SECOND_NS);
	run(2, same, equal, 100 * SECOND_NS);
	assert_int_not_equal(alone[0], alone[1]);
	assert_int_equal(both[0], alone[0]);
	assert_int_equal(both[1], alone[1]);
	assert_int_equal(equal[0], alone[1]);
	assert_int_equal(equal[1], alone[1]);
}

static uint64_t spent_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* Measures processor time, as other programs may be running. */
static void test_thousand_seconds(void **state)
{
	const uint64_t seed[] = {1, 2};
	uint64_t trace[2], begun_ns = spent_ns(), took_ns;

	run(2, seed, trace, 1000 * SECOND_NS);
	took_ns = spent_ns() - begun_ns;
	printf("# 1,000 virtual seconds in %.3f s\n", (double)took_ns / 1e9);
	assert_true(took_ns < SECOND_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_thousand_seconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
