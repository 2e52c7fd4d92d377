/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The requester over a transport that ends requests when the test says so, in any order:
 * completions come in order, once, whatever becomes of the queue pair meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../abi/pool.h"
#include "../random.h"
#include "nic/submit.h"

#define DEPTH	  16u
#define MOST	  4u /* requests under way */
#define SEQUENCES 3000u
#define ACTIONS	  200u

enum way { DONE, UNDER_WAY, NOT_READY, REFUSED };

static struct {
	struct weft_pool *pool;
	struct weft_nic nic;
	struct weft_cq cq;
	struct weft_qp qp;
	struct weft_caller caller;
	uint64_t now_ns, seed;
	enum way way;	       /* what the transport says of the next requests */
	uint64_t flying[MOST]; /* positions + 1 */
	struct {
		uint64_t position;
		enum weft_cause cause;
	} ended[MOST];
	uint32_t nended;
	uint64_t began; /* requests */
	bool left, lets_go;
	uint32_t drained_events;
	uint64_t polled;
} w;

static void *zeroed(size_t bytes)
{
	return calloc(1, bytes);
}

static void nothing(void)
{
}

static void patient(void)
{
	w.lets_go = true; /* whoever waits for it gets it */
}

static void completion(struct weft_cq *cq)
{
}

static void async(struct weft_qp *qp, struct weft_cq *cq, enum weft_event event)
{
	w.drained_events += event == WEFT_EVENT_SQ_DRAINED;
}

static void failed(const struct weft_qp *qp, const struct weft_wqe *wqe, enum weft_cause cause)
{
}

static uint64_t clock_ns(void)
{
	return w.now_ns;
}

static uint32_t self(void)
{
	return 0;
}

/* ---- The transport ---- */

static void connect(struct weft_qp *qp)
{
	w.left = w.lets_go = false;
}

static void disconnect(struct weft_qp *qp)
{
	w.left = true;
}

static enum weft_outcome execute(struct weft_qp *qp, struct weft_wqe *wqe,
				 struct weft_caller *caller, enum weft_cause *cause)
{
	uint32_t free = 0;

	assert_false(w.left);
	if (w.way == NOT_READY)
		return WEFT_NO_RECEIVE;
	assert_int_equal(weft_sq_next_issue(qp), w.began);
	w.began++;
	if (w.way == DONE)
		return WEFT_DONE;
	*cause = WEFT_CAUSE_REMOTE_KEY;
	if (w.way == REFUSED)
		return WEFT_FAILED;
	while (w.flying[free])
		assert_true(++free < MOST);
	w.flying[free] = weft_sq_next_issue(qp) + 1;
	return WEFT_UNDER_WAY;
}

static uint64_t progress(struct weft_qp *qp, struct weft_caller *caller, uint64_t now_ns)
{
	for (uint32_t i = 0; i < w.nended; i++)
		weft_sq_end(qp, w.ended[i].position, w.ended[i].cause);
	w.nended = 0;
	return UINT64_MAX;
}

static bool drained(struct weft_qp *qp)
{
	assert_true(w.left);
	if (w.lets_go)
		memset(w.flying, 0, sizeof(w.flying));
	return w.lets_go;
}

static bool fault(struct weft_qp *qp, enum weft_event *event)
{
	return false;
}

static const struct weft_transport late = {
	.name = "late",
	.connect = connect,
	.disconnect = disconnect,
	.execute = execute,
	.fault = fault,
	.most_under_way = MOST,
	.progress = progress,
	.drained = drained,
};

/* ---- What the tests do ---- */

static void move(enum weft_qp_state to)
{
	struct weft_qp_attr attr = {.dest_qpn = 1,
				    .timeout = 1,
				    .retry_cnt = 0,
				    .may_read = true,
				    .tells_drained = to == WEFT_QPS_SQD};

	assert_int_equal(weft_qp_modify(&w.qp, w.qp.state, to, &attr, &late, &w.caller), 0);
}

static void make(void)
{
	struct weft_qp_cap cap = {
		.max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};

	memset(&w.qp, 0, sizeof(w.qp));
	memset(w.flying, 0, sizeof(w.flying));
	w.nended = w.drained_events = 0;
	w.began = w.polled = 0;
	w.way = UNDER_WAY;
	assert_int_equal(
		weft_qp_create(&w.nic, &w.qp, WEFT_QPT_RC, 1, &w.cq, &w.cq, NULL, &cap, false), 0);
	move(WEFT_QPS_INIT);
	move(WEFT_QPS_RTR);
	move(WEFT_QPS_RTS);
}

static bool post(enum weft_opcode opcode, uint8_t flags)
{
	struct weft_wqe *wqe = weft_sq_next(&w.qp);

	if (!wqe)
		return false;
	*wqe = (struct weft_wqe){
		.wr_id = w.qp.sq_posted, .opcode = (uint8_t)opcode, .flags = flags};
	weft_sq_submit(&w.qp, wqe, &w.caller);
	return true;
}

/* The request at that position ends; the nic learns of it at its next look. */
static void end(uint64_t position, enum weft_cause cause)
{
	for (uint32_t i = 0; i < MOST; i++)
		if (w.flying[i] == position + 1) {
			w.flying[i] = 0;
			w.ended[w.nended].position = position;
			w.ended[w.nended++].cause = cause;
			return;
		}
	fail_msg("%lu is not under way", (unsigned long)position);
}

static void look(void)
{
	weft_nic_progress(&w.nic, &w.caller);
}

static void expect(uint64_t wr_id, enum weft_wc_status status)
{
	struct weft_wc wc;

	assert_int_equal(weft_cq_poll(&w.cq, 1, &wc, 0), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

static void expect_none(void)
{
	struct weft_wc wc;

	assert_int_equal(weft_cq_poll(&w.cq, 1, &wc, 0), 0);
}

static void in_order(void **state)
{
	make();
	for (int i = 0; i < 3; i++) /* with a flag that is the nic's own */
		assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED | WEFT_SEND_ENDED));
	look();
	expect_none();
	end(2, WEFT_CAUSE_NONE);
	end(1, WEFT_CAUSE_NONE);
	look();
	expect_none();
	end(0, WEFT_CAUSE_NONE);
	look();
	for (uint64_t i = 0; i < 3; i++)
		expect(i, WEFT_WC_SUCCESS);
	expect_none();
	w.way = DONE;
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	expect(3, WEFT_WC_SUCCESS);
	weft_qp_destroy(&w.qp);
}

/* What is done at once behind one that is not completes behind it. */
static void done_behind(void **state)
{
	make();
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	w.way = DONE;
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	assert_int_equal(w.began, 2);
	expect_none();
	end(0, WEFT_CAUSE_NONE);
	look();
	expect(0, WEFT_WC_SUCCESS);
	expect(1, WEFT_WC_SUCCESS);
	weft_qp_destroy(&w.qp);
}

static void no_more_than(void **state)
{
	make();
	for (uint32_t i = 0; i < MOST + 2; i++)
		assert_true(post(WEFT_OP_WRITE, 0));
	assert_int_equal(w.began, MOST);
	end(1, WEFT_CAUSE_NONE);
	look();
	assert_int_equal(w.began, MOST + 1);
	weft_qp_destroy(&w.qp);
}

/* 10.8.3.3: a fence waits for READs and atomics, for nothing else; a local operation for all. */
static void fenced(void **state)
{
	make();
	assert_true(post(WEFT_OP_WRITE, 0));
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_FENCE));
	assert_int_equal(w.began, 2);
	assert_true(post(WEFT_OP_READ, 0));
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_FENCE));
	assert_true(post(WEFT_OP_WRITE, 0));
	assert_int_equal(w.began, 3);
	end(0, WEFT_CAUSE_NONE);
	end(1, WEFT_CAUSE_NONE);
	look();
	assert_int_equal(w.began, 3);
	end(2, WEFT_CAUSE_NONE);
	look();
	assert_int_equal(w.began, 5);
	assert_true(post(WEFT_OP_LOCAL_INV, WEFT_SEND_SIGNALED));
	expect_none();
	end(3, WEFT_CAUSE_NONE);
	look();
	expect_none();
	end(4, WEFT_CAUSE_NONE);
	look();
	expect(5, WEFT_WC_LOC_QP_OP_ERR); /* of a key that is none: it has been carried out */
	weft_qp_destroy(&w.qp);
}

/* An error waits for those before it; what is behind is flushed when the transport has let go of
 * it. */
static void fails(void **state)
{
	make();
	for (int i = 0; i < 4; i++)
		assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	end(2, WEFT_CAUSE_REMOTE_KEY);
	end(1, WEFT_CAUSE_REMOTE_KEY);
	look();
	expect_none();
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	assert_int_equal(w.began, 4); /* nothing begins behind it */
	end(0, WEFT_CAUSE_NONE);
	look();
	expect(0, WEFT_WC_SUCCESS);
	expect(1, WEFT_WC_REM_ACCESS_ERR);
	assert_int_equal(w.qp.state, WEFT_QPS_ERR);
	expect_none();
	assert_true(post(WEFT_OP_WRITE, 0));
	look();
	expect_none();
	w.lets_go = true;
	look();
	for (uint64_t i = 2; i < 6; i++)
		expect(i, WEFT_WC_WR_FLUSH_ERR);
	assert_true(post(WEFT_OP_WRITE, 0));
	expect(6, WEFT_WC_WR_FLUSH_ERR);
	weft_qp_destroy(&w.qp);
}

/* A verdict on one that is tried while others are under way, and its timer. */
static void not_ready(void **state)
{
	make();
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	w.way = NOT_READY;
	assert_true(post(WEFT_OP_SEND, WEFT_SEND_SIGNALED));
	look();
	w.now_ns += 1;
	look(); /* rnr_retry is 0: its time is up */
	expect_none();
	end(0, WEFT_CAUSE_NONE);
	look();
	expect(0, WEFT_WC_SUCCESS);
	expect(1, WEFT_WC_RNR_RETRY_EXC_ERR);
	weft_qp_destroy(&w.qp);
}

static void error_by_hand(void **state)
{
	make();
	assert_true(post(WEFT_OP_WRITE, 0));
	assert_true(post(WEFT_OP_WRITE, 0));
	move(WEFT_QPS_ERR);
	look();
	expect_none();
	w.lets_go = true;
	look();
	expect(0, WEFT_WC_WR_FLUSH_ERR);
	expect(1, WEFT_WC_WR_FLUSH_ERR);
	move(WEFT_QPS_RESET);
	w.began = 0;
	move(WEFT_QPS_INIT);
	move(WEFT_QPS_RTR);
	move(WEFT_QPS_RTS);
	w.way = DONE;
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	expect(0, WEFT_WC_SUCCESS);
	weft_qp_destroy(&w.qp);
}

/* RESET and destruction wait until nobody touches the requests any more. */
static void reset_waits(void **state)
{
	make();
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	move(WEFT_QPS_RESET);
	assert_true(w.lets_go);
	look();
	expect_none();
	weft_qp_destroy(&w.qp);
}

/* 10.3.1.5: those that have begun end, the others stay; then the event. */
static void drains(void **state)
{
	make();
	for (uint32_t i = 0; i < MOST + 1; i++)
		assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	move(WEFT_QPS_SQD);
	assert_true(weft_sq_is_draining(&w.qp));
	for (uint64_t i = 0; i < MOST; i++) {
		look();
		assert_int_equal(w.drained_events, 0);
		end(i, WEFT_CAUSE_NONE);
	}
	look();
	assert_int_equal(w.drained_events, 1);
	assert_false(weft_sq_is_draining(&w.qp));
	assert_int_equal(w.began, MOST);
	for (uint64_t i = 0; i < MOST; i++)
		expect(i, WEFT_WC_SUCCESS);
	expect_none();
	move(WEFT_QPS_RTS);
	assert_int_equal(w.began, MOST + 1);
	end(MOST, WEFT_CAUSE_NONE);
	look();
	expect(MOST, WEFT_WC_SUCCESS);
	assert_int_equal(w.drained_events, 1);
	move(WEFT_QPS_SQD);
	assert_int_equal(w.drained_events, 2);
	weft_qp_destroy(&w.qp);
}

static uint32_t draw(uint32_t bound)
{
	return (uint32_t)(splitmix64(&w.seed) % bound);
}

/* Each is signaled: they come in order, errors last. */
static void poll_some(void)
{
	struct weft_wc wc;

	while (weft_cq_poll(&w.cq, 1, &wc, 0)) {
		assert_int_equal(wc.wr_id, w.polled);
		assert_true(w.polled < w.qp.sq_posted);
		if (wc.status)
			assert_int_equal(w.qp.state, WEFT_QPS_ERR);
		w.polled++;
	}
}

static void act(void)
{
	uint64_t position = w.flying[draw(MOST)];

	switch (draw(8)) {
	case 0:
	case 1:
	case 2:
		post(draw(3) ? WEFT_OP_WRITE : WEFT_OP_READ,
		     (uint8_t)(WEFT_SEND_SIGNALED | (draw(4) ? 0 : WEFT_SEND_FENCE)));
		break;
	case 3:
	case 4:
		if (position && w.nended < MOST && !w.left)
			end(position - 1, draw(40) ? WEFT_CAUSE_NONE : WEFT_CAUSE_REMOTE_KEY);
		break;
	case 5:
		w.way = draw(30) ? draw(2) ? UNDER_WAY : DONE : REFUSED;
		break;
	case 6:
		look();
		break;
	case 7:
		poll_some();
		if (w.qp.state == WEFT_QPS_RTS && !draw(10))
			move(WEFT_QPS_SQD);
		else if (w.qp.state == WEFT_QPS_SQD)
			move(WEFT_QPS_RTS);
		break;
	}
}

static void random_orders(void **state)
{
	uint32_t errors = 0;

	for (uint64_t seed = 1; seed <= SEQUENCES; seed++) {
		make();
		w.seed = seed;
		for (uint32_t i = 0; i < ACTIONS; i++)
			act();
		w.way = DONE;
		for (uint32_t i = 0; i < MOST && !w.left; i++)
			if (w.flying[i])
				end(w.flying[i] - 1, WEFT_CAUSE_NONE);
		if (w.qp.state == WEFT_QPS_SQD)
			move(WEFT_QPS_RTS);
		w.lets_go = true;
		for (uint32_t i = 0; i < 3; i++)
			look();
		poll_some();
		assert_int_equal(w.polled, w.qp.sq_posted);
		errors += w.qp.state == WEFT_QPS_ERR;
		weft_qp_destroy(&w.qp);
	}
	print_message("%u of %u ended in error\n", errors, SEQUENCES);
	assert_in_range(errors, SEQUENCES / 20, SEQUENCES - SEQUENCES / 20);
}

static int attach(void **state)
{
	static const struct weft_nic_env env = {.alloc = zeroed,
						.free = free,
						.yield = patient,
						.completion = completion,
						.async = async,
						.failed = failed,
						.clock_ns = clock_ns,
						.self = self,
						.kick = nothing};
	static char where[4096];
	const char *why;

	if (make_pool(state) || weft_pool_get(NULL, &w.pool, where, &why))
		return -1;
	weft_pool_caller_get(w.pool, &w.caller);
	w.now_ns = 1;
	w.nic.pool = w.pool;
	w.nic.env = &env;
	w.nic.qps = calloc(WEFT_QPS, sizeof(*w.nic.qps));
	w.nic.windows = calloc(WEFT_MRS, sizeof(*w.nic.windows));
	w.nic.shared_of = calloc(WEFT_QPS, sizeof(*w.nic.shared_of));
	return !w.nic.qps || !w.nic.windows || !w.nic.shared_of ||
	       weft_cq_create(&w.nic, &w.cq, 64);
}

static int detach(void **state)
{
	weft_cq_destroy(&w.cq);
	free(w.nic.qps);
	free(w.nic.windows);
	free(w.nic.shared_of);
	weft_pool_caller_put(w.pool, &w.caller);
	weft_pool_put(w.pool);
	return remove_pool(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),	 cmocka_unit_test(done_behind),
		cmocka_unit_test(no_more_than),	 cmocka_unit_test(fenced),
		cmocka_unit_test(fails),	 cmocka_unit_test(not_ready),
		cmocka_unit_test(error_by_hand), cmocka_unit_test(reset_waits),
		cmocka_unit_test(drains),	 cmocka_unit_test(random_orders),
	};

	return cmocka_run_group_tests(tests, attach, detach);
}
