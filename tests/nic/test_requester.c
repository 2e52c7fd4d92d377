/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The requester over a transport that ends requests when the test says so, in any order: completions come in
 * order and once, whatever becomes of the queue pair meanwhile.
 */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "../random.h"
#include "nic/qp.h"
#include "nic/queues.h"

#define DEPTH	  16u
#define MOST	  4u /* requests under way */
#define SEQUENCES 3000u
#define ACTIONS	  200u

enum way { DONE, UNDER_WAY, NOT_READY, REFUSED };

static struct {
	struct weft_qp qp;
	uint64_t seed;
	enum way way;	       /* what the transport answers to the next requests */
	uint64_t flying[MOST]; /* their positions in the send queue, + 1 */
	struct {
		uint64_t position;
		enum weft_cause cause;
	} ended[MOST];
	uint32_t nended;
	uint64_t began; /* how many requests have begun */
	bool left, lets_go;
	uint64_t polled;
} w;

static void patient(void)
{
	w.lets_go = true; /* the transport lets go as soon as a caller waits for that */
}

/* ---- The transport ---- */

static bool reaches(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16])
{
	return true;
}

static int connect(struct weft_qp *qp, uint16_t *executor)
{
	w.left = w.lets_go = false;
	return 0;
}

static void leave(struct weft_qp *qp)
{
	w.left = true;
}

static enum weft_outcome issue(struct weft_qp *qp, struct weft_wqe *wqe, struct weft_caller *caller,
			       enum weft_cause *cause)
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

static bool is_blamed(struct weft_qp *qp, enum weft_event *event)
{
	return false;
}

static const struct weft_transport late = {
	.name = "late",
	.carries = {[WEFT_QPT_RC] = {issue}},
	.silence = WEFT_CAUSE_NO_ANSWER,
	.reaches = reaches,
	.connect = connect,
	.abort = leave,
	.is_blamed = is_blamed,
	.most_under_way = MOST,
	.progress = progress,
	.drained = drained,
};

/* ---- What the tests do ---- */

static void transition(enum weft_qp_state to)
{
	struct weft_qp_attr attr = {.dest_qpn = 1,
				    .timeout = 1,
				    .retry_cnt = 0,
				    .max_rd_atomic = 1,
				    .tells_drained = to == WEFT_QPS_SQD};

	assert_int_equal(weft_qp_modify(&w.qp, w.qp.state, to, &attr, &world.caller), 0);
}

static void make(void)
{
	struct weft_qp_cap cap = {
		.max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};

	memset(&w.qp, 0, sizeof(w.qp));
	memset(w.flying, 0, sizeof(w.flying));
	w.nended = world.drained_events = 0;
	w.began = w.polled = 0;
	w.way = UNDER_WAY;
	assert_int_equal(weft_qp_create(&world.nic, &w.qp, WEFT_QPT_RC, 1, &world.cq, &world.cq,
					NULL, &cap, false),
			 0);
	transition(WEFT_QPS_INIT);
	transition(WEFT_QPS_RTR);
	transition(WEFT_QPS_RTS);
}

static bool post(enum weft_opcode opcode, uint8_t flags)
{
	struct weft_wqe *wqe = weft_sq_next(&w.qp);

	if (!wqe)
		return false;
	*wqe = (struct weft_wqe){
		.wr_id = w.qp.sq_posted, .opcode = (uint8_t)opcode, .flags = flags};
	weft_sq_submit(&w.qp, wqe, &world.caller);
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

static void in_order(void **state)
{
	make();
	/* ENDED is a flag of the nic's own, which a program may not set */
	for (int i = 0; i < 3; i++)
		assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED | WEFT_SEND_ENDED));
	world_look();
	world_expect_none();
	end(2, WEFT_CAUSE_NONE);
	end(1, WEFT_CAUSE_NONE);
	world_look();
	world_expect_none();
	end(0, WEFT_CAUSE_NONE);
	world_look();
	for (uint64_t i = 0; i < 3; i++)
		world_expect(i, WEFT_WC_SUCCESS);
	world_expect_none();
	w.way = DONE;
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	world_expect(3, WEFT_WC_SUCCESS);
	weft_qp_destroy(&w.qp);
}

/* A request that is done at once, behind one that is not, completes behind it. */
static void done_behind(void **state)
{
	make();
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	w.way = DONE;
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	assert_int_equal(w.began, 2);
	world_expect_none();
	end(0, WEFT_CAUSE_NONE);
	world_look();
	world_expect(0, WEFT_WC_SUCCESS);
	world_expect(1, WEFT_WC_SUCCESS);
	weft_qp_destroy(&w.qp);
}

static void no_more_than(void **state)
{
	make();
	for (uint32_t i = 0; i < MOST + 2; i++)
		assert_true(post(WEFT_OP_WRITE, 0));
	assert_int_equal(w.began, MOST);
	end(1, WEFT_CAUSE_NONE);
	world_look();
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
	world_look();
	assert_int_equal(w.began, 3);
	end(2, WEFT_CAUSE_NONE);
	world_look();
	assert_int_equal(w.began, 5);
	assert_true(post(WEFT_OP_LOCAL_INV, WEFT_SEND_SIGNALED));
	world_expect_none();
	end(3, WEFT_CAUSE_NONE);
	world_look();
	world_expect_none();
	end(4, WEFT_CAUSE_NONE);
	world_look();
	/* its key is of no region, which shows that it was carried out */
	world_expect(5, WEFT_WC_LOC_QP_OP_ERR);
	weft_qp_destroy(&w.qp);
}

/* An error waits for the requests before it; those behind it are flushed when the transport has let go of
 * them. */
static void fails(void **state)
{
	make();
	for (int i = 0; i < 4; i++)
		assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	end(2, WEFT_CAUSE_REMOTE_KEY);
	end(1, WEFT_CAUSE_REMOTE_KEY);
	world_look();
	world_expect_none();
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	assert_int_equal(w.began, 4); /* nothing begins behind a failed request */
	end(0, WEFT_CAUSE_NONE);
	world_look();
	world_expect(0, WEFT_WC_SUCCESS);
	world_expect(1, WEFT_WC_REM_ACCESS_ERR);
	assert_int_equal(w.qp.state, WEFT_QPS_ERR);
	world_expect_none();
	assert_true(post(WEFT_OP_WRITE, 0));
	world_look();
	world_expect_none();
	w.lets_go = true;
	world_look();
	for (uint64_t i = 2; i < 6; i++)
		world_expect(i, WEFT_WC_WR_FLUSH_ERR);
	assert_true(post(WEFT_OP_WRITE, 0));
	world_expect(6, WEFT_WC_WR_FLUSH_ERR);
	weft_qp_destroy(&w.qp);
}

/* A request finds no receive while another is under way: the earlier one completes first. */
static void not_ready(void **state)
{
	make();
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	w.way = NOT_READY;
	assert_true(post(WEFT_OP_SEND, WEFT_SEND_SIGNALED));
	world_look();
	world.now_ns += 1;
	world_look(); /* rnr_retry is 0, so its time is up */
	world_expect_none();
	end(0, WEFT_CAUSE_NONE);
	world_look();
	world_expect(0, WEFT_WC_SUCCESS);
	world_expect(1, WEFT_WC_RNR_RETRY_EXC_ERR);
	weft_qp_destroy(&w.qp);
}

static void error_by_hand(void **state)
{
	make();
	assert_true(post(WEFT_OP_WRITE, 0));
	assert_true(post(WEFT_OP_WRITE, 0));
	transition(WEFT_QPS_ERR);
	world_look();
	world_expect_none();
	w.lets_go = true;
	world_look();
	world_expect(0, WEFT_WC_WR_FLUSH_ERR);
	world_expect(1, WEFT_WC_WR_FLUSH_ERR);
	transition(WEFT_QPS_RESET);
	w.began = 0;
	transition(WEFT_QPS_INIT);
	transition(WEFT_QPS_RTR);
	transition(WEFT_QPS_RTS);
	w.way = DONE;
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	world_expect(0, WEFT_WC_SUCCESS);
	weft_qp_destroy(&w.qp);
}

/* RESET and destruction wait until the transport has let go of all requests. */
static void reset_waits(void **state)
{
	make();
	assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	transition(WEFT_QPS_RESET);
	assert_true(w.lets_go);
	world_look();
	world_expect_none();
	weft_qp_destroy(&w.qp);
}

/* 10.3.1.5: requests that have begun end, the others stay; then SQ_DRAINED comes. */
static void drains(void **state)
{
	make();
	for (uint32_t i = 0; i < MOST + 1; i++)
		assert_true(post(WEFT_OP_WRITE, WEFT_SEND_SIGNALED));
	transition(WEFT_QPS_SQD);
	assert_true(weft_sq_is_draining(&w.qp));
	for (uint64_t i = 0; i < MOST; i++) {
		world_look();
		assert_int_equal(world.drained_events, 0);
		end(i, WEFT_CAUSE_NONE);
	}
	world_look();
	assert_int_equal(world.drained_events, 1);
	assert_false(weft_sq_is_draining(&w.qp));
	assert_int_equal(w.began, MOST);
	for (uint64_t i = 0; i < MOST; i++)
		world_expect(i, WEFT_WC_SUCCESS);
	world_expect_none();
	transition(WEFT_QPS_RTS);
	assert_int_equal(w.began, MOST + 1);
	end(MOST, WEFT_CAUSE_NONE);
	world_look();
	world_expect(MOST, WEFT_WC_SUCCESS);
	assert_int_equal(world.drained_events, 1);
	transition(WEFT_QPS_SQD);
	assert_int_equal(world.drained_events, 2);
	weft_qp_destroy(&w.qp);
}

static uint32_t draw(uint32_t bound)
{
	return (uint32_t)(splitmix64(&w.seed) % bound);
}

/* All requests are signaled: their completions come in order, and after the first error only errors. */
static void poll_some(void)
{
	struct weft_wc wc;

	while (weft_cq_poll(&world.cq, 1, &wc, 0)) {
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
		world_look();
		break;
	case 7:
		poll_some();
		if (w.qp.state == WEFT_QPS_RTS && !draw(10))
			transition(WEFT_QPS_SQD);
		else if (w.qp.state == WEFT_QPS_SQD)
			transition(WEFT_QPS_RTS);
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
			transition(WEFT_QPS_RTS);
		w.lets_go = true;
		for (uint32_t i = 0; i < 3; i++)
			world_look();
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
	static const struct weft_transport *const transports[] = {&late};

	world.nic.transports = transports;
	world.yields = patient;
	return world_attach(state);
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

	return cmocka_run_group_tests(tests, attach, world_detach);
}
