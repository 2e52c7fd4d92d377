/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Ends of connections in virtual time: what each input does in each state, and what two ends learn of each
 * other. test_lossy.c has a channel that loses datagrams.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/cm/conn.h"

#define COUNT(a)    (sizeof(a) / sizeof(*(a)))
#define ANSWER_CODE 18u /* 1.07 s */
#define ACK_CODE    14u /* 67 ms */
#define ANSWER_NS   (2 * (4096ull << ANSWER_CODE) + (4096ull << ACK_CODE))
#define TIMEWAIT_NS (4096ull << ACK_CODE)
#define MRA_NS	    ((4096ull << 24) + (4096ull << ACK_CODE))
#define CM_RETRIES  3u
#define MSECOND	    1000000ull

enum input {
	REQ,
	MRA_OF_REQ,
	MRA_OF_REP,
	REJ,
	REP,
	RTU,
	DREQ,
	DREQ_OF_ANOTHER,
	DREP,
	SIDR_REQ,
	SIDR_REP,
	LAP,
	APR,
	MESSAGES,
	CONNECT = MESSAGES,
	ACCEPT,
	ESTABLISH,
	REJECT,
	DISCONNECT,
	ABANDON,
	CALLS,
	EARLY = CALLS,
	RETRY,
	LAST,
	LOST,
	INPUTS,
};

static const char *const inputs[INPUTS] = {
	"REQ",	   "MRA of REQ",      "MRA of REP", "REJ",	 "REP",	     "RTU",
	"DREQ",	   "DREQ of another", "DREP",	    "SIDR_REQ",	 "SIDR_REP", "LAP",
	"APR",	   "connect",	      "accept",	    "establish", "reject",   "disconnect",
	"abandon", "early",	      "retry",	    "last",	 "lost",
};

/* PASSIVE: ESTABLISHED at the passive end, which has rows of its own */
enum { NONE = 0, PASSIVE = WEFT_CONN_STATES };

struct row {
	unsigned int state;
	enum input input;
	enum weft_conn_state next;
	unsigned int sends; /* enum weft_mad_kind, or NONE */
	enum weft_conn_event event;
	int status;
};

#define S(x) WEFT_CONN_##x
#define M(x) WEFT_MAD_##x
#define E(x) WEFT_CONN_##x

/* A pair of state and input without a row changes nothing, sends nothing and makes no event. */
static const struct row rows[] = {
	{S(IDLE), CONNECT, S(REQ_SENT), M(REQ)},

	{S(REQ_SENT), MRA_OF_REQ, S(MRA_REQ_RCVD)},
	{S(REQ_SENT), REJ, S(IDLE), NONE, E(REJECTED), WEFT_REJ_NO_QP},
	{S(REQ_SENT), REP, S(REP_RCVD), NONE, E(RESPONDED)},
	{S(REQ_SENT), ABANDON, S(IDLE), M(REJ)},
	{S(REQ_SENT), RETRY, S(REQ_SENT), M(REQ)},
	{S(REQ_SENT), LAST, S(IDLE), M(REJ), E(UNANSWERED), -ETIMEDOUT},
	{S(REQ_SENT), LOST, S(IDLE), NONE, E(REJECTED), WEFT_REJ_CONSUMER},

	{S(MRA_REQ_RCVD), MRA_OF_REQ, S(MRA_REQ_RCVD)},
	{S(MRA_REQ_RCVD), REJ, S(IDLE), NONE, E(REJECTED), WEFT_REJ_NO_QP},
	{S(MRA_REQ_RCVD), REP, S(REP_RCVD), NONE, E(RESPONDED)},
	{S(MRA_REQ_RCVD), ABANDON, S(IDLE), M(REJ)},
	{S(MRA_REQ_RCVD), RETRY, S(MRA_REQ_RCVD), M(REQ)},
	{S(MRA_REQ_RCVD), LAST, S(IDLE), M(REJ), E(UNANSWERED), -ETIMEDOUT},
	{S(MRA_REQ_RCVD), LOST, S(IDLE), NONE, E(REJECTED), WEFT_REJ_CONSUMER},

	{S(REQ_RCVD), REQ, S(MRA_REQ_SENT), M(MRA)},
	{S(REQ_RCVD), REJ, S(IDLE), NONE, E(REJECTED), WEFT_REJ_NO_QP},
	{S(REQ_RCVD), ACCEPT, S(REP_SENT), M(REP)},
	{S(REQ_RCVD), REJECT, S(IDLE), M(REJ)},
	{S(REQ_RCVD), ABANDON, S(IDLE), M(REJ)},
	{S(REQ_RCVD), LOST, S(IDLE), NONE, E(REJECTED), WEFT_REJ_CONSUMER},

	{S(MRA_REQ_SENT), REQ, S(MRA_REQ_SENT), M(MRA)},
	{S(MRA_REQ_SENT), REJ, S(IDLE), NONE, E(REJECTED), WEFT_REJ_NO_QP},
	{S(MRA_REQ_SENT), ACCEPT, S(REP_SENT), M(REP)},
	{S(MRA_REQ_SENT), REJECT, S(IDLE), M(REJ)},
	{S(MRA_REQ_SENT), ABANDON, S(IDLE), M(REJ)},
	{S(MRA_REQ_SENT), LOST, S(IDLE), NONE, E(REJECTED), WEFT_REJ_CONSUMER},

	{S(REP_SENT), REQ, S(REP_SENT), M(REP)},
	{S(REP_SENT), MRA_OF_REP, S(MRA_REP_RCVD)},
	{S(REP_SENT), REJ, S(IDLE), NONE, E(REJECTED), WEFT_REJ_NO_QP},
	{S(REP_SENT), RTU, S(ESTABLISHED), NONE, E(OPEN)},
	{S(REP_SENT), DREQ, S(DREQ_RCVD), NONE, E(CLOSED)},
	{S(REP_SENT), ABANDON, S(IDLE), M(REJ)},
	{S(REP_SENT), RETRY, S(REP_SENT), M(REP)},
	{S(REP_SENT), LAST, S(IDLE), M(REJ), E(UNANSWERED), -ETIMEDOUT},
	{S(REP_SENT), LOST, S(IDLE), NONE, E(REJECTED), WEFT_REJ_CONSUMER},

	{S(MRA_REP_RCVD), REQ, S(MRA_REP_RCVD), M(REP)},
	{S(MRA_REP_RCVD), MRA_OF_REP, S(MRA_REP_RCVD)},
	{S(MRA_REP_RCVD), REJ, S(IDLE), NONE, E(REJECTED), WEFT_REJ_NO_QP},
	{S(MRA_REP_RCVD), RTU, S(ESTABLISHED), NONE, E(OPEN)},
	{S(MRA_REP_RCVD), DREQ, S(DREQ_RCVD), NONE, E(CLOSED)},
	{S(MRA_REP_RCVD), ABANDON, S(IDLE), M(REJ)},
	{S(MRA_REP_RCVD), RETRY, S(MRA_REP_RCVD), M(REP)},
	{S(MRA_REP_RCVD), LAST, S(IDLE), M(REJ), E(UNANSWERED), -ETIMEDOUT},
	{S(MRA_REP_RCVD), LOST, S(IDLE), NONE, E(REJECTED), WEFT_REJ_CONSUMER},

	{S(REP_RCVD), REJ, S(TIMEWAIT), NONE, E(REJECTED), WEFT_REJ_NO_QP},
	{S(REP_RCVD), REP, S(MRA_REP_SENT), M(MRA)},
	{S(REP_RCVD), ESTABLISH, S(ESTABLISHED), M(RTU)},
	{S(REP_RCVD), REJECT, S(TIMEWAIT), M(REJ)},
	{S(REP_RCVD), ABANDON, S(IDLE), M(REJ)},
	{S(REP_RCVD), LOST, S(TIMEWAIT), NONE, E(REJECTED), WEFT_REJ_CONSUMER},

	{S(MRA_REP_SENT), REJ, S(TIMEWAIT), NONE, E(REJECTED), WEFT_REJ_NO_QP},
	{S(MRA_REP_SENT), REP, S(MRA_REP_SENT), M(MRA)},
	{S(MRA_REP_SENT), ESTABLISH, S(ESTABLISHED), M(RTU)},
	{S(MRA_REP_SENT), REJECT, S(TIMEWAIT), M(REJ)},
	{S(MRA_REP_SENT), ABANDON, S(IDLE), M(REJ)},
	{S(MRA_REP_SENT), LOST, S(TIMEWAIT), NONE, E(REJECTED), WEFT_REJ_CONSUMER},

	{S(ESTABLISHED), REJ, S(TIMEWAIT), NONE, E(REJECTED), WEFT_REJ_NO_QP},
	{S(ESTABLISHED), REP, S(ESTABLISHED), M(RTU)},
	{S(ESTABLISHED), DREQ, S(DREQ_RCVD), NONE, E(CLOSED)},
	{S(ESTABLISHED), LAP, S(ESTABLISHED), M(APR)},
	{S(ESTABLISHED), DISCONNECT, S(DREQ_SENT), M(DREQ)},
	{S(ESTABLISHED), ABANDON, S(IDLE), M(DREQ)},
	{S(ESTABLISHED), LOST, S(TIMEWAIT), NONE, E(CLOSED)},

	{PASSIVE, REJ, S(TIMEWAIT), NONE, E(REJECTED), WEFT_REJ_NO_QP},
	{PASSIVE, DREQ, S(DREQ_RCVD), NONE, E(CLOSED)},
	{PASSIVE, LAP, S(ESTABLISHED), M(APR)},
	{PASSIVE, DISCONNECT, S(DREQ_SENT), M(DREQ)},
	{PASSIVE, ABANDON, S(IDLE), M(DREQ)},
	{PASSIVE, LOST, S(TIMEWAIT), NONE, E(CLOSED)},

	{S(DREQ_SENT), REJ, S(TIMEWAIT), NONE, E(CLOSED)},
	{S(DREQ_SENT), DREQ, S(TIMEWAIT), M(DREP), E(CLOSED)},
	{S(DREQ_SENT), DREP, S(TIMEWAIT), NONE, E(CLOSED)},
	{S(DREQ_SENT), ABANDON, S(IDLE)},
	{S(DREQ_SENT), RETRY, S(DREQ_SENT), M(DREQ)},
	{S(DREQ_SENT), LAST, S(TIMEWAIT), NONE, E(CLOSED), -ETIMEDOUT},
	{S(DREQ_SENT), LOST, S(TIMEWAIT), NONE, E(CLOSED)},

	{S(DREQ_RCVD), REJ, S(TIMEWAIT)},
	{S(DREQ_RCVD), DREP, S(TIMEWAIT)},
	{S(DREQ_RCVD), DISCONNECT, S(TIMEWAIT), M(DREP)},
	{S(DREQ_RCVD), ABANDON, S(IDLE), M(DREP)},
	{S(DREQ_RCVD), LOST, S(TIMEWAIT)},

	{S(TIMEWAIT), REQ, S(TIMEWAIT), M(REJ)},
	{S(TIMEWAIT), DREQ, S(TIMEWAIT), M(DREP)},
	{S(TIMEWAIT), ABANDON, S(IDLE)},
	{S(TIMEWAIT), RETRY, S(IDLE), NONE, E(RELEASED)},
	{S(TIMEWAIT), LAST, S(IDLE), NONE, E(RELEASED)},

	{S(SIDR_REQ_SENT), SIDR_REP, S(IDLE), NONE, E(LOOKED_UP), WEFT_SIDR_NO_QP},
	{S(SIDR_REQ_SENT), ABANDON, S(IDLE)},
	{S(SIDR_REQ_SENT), RETRY, S(SIDR_REQ_SENT), M(SIDR_REQ)},
	{S(SIDR_REQ_SENT), LAST, S(IDLE), NONE, E(UNANSWERED), -ETIMEDOUT},

	{S(SIDR_REQ_RCVD), ACCEPT, S(IDLE), M(SIDR_REP)},
	{S(SIDR_REQ_RCVD), REJECT, S(IDLE), M(SIDR_REP)},
	{S(SIDR_REQ_RCVD), ABANDON, S(IDLE), M(SIDR_REP)},
};

static const struct row *row_of(unsigned int state, enum input input)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].state == state && rows[i].input == input)
			return &rows[i];
	return NULL;
}

/* ---- Two ends ---- */

static struct weft_mad req(void)
{
	return (struct weft_mad){.kind = WEFT_MAD_REQ,
				 .req = {.qpn = 0x111,
					 .psn = 0x222,
					 .responder_resources = 5,
					 .initiator_depth = 3,
					 .remote_timeout = ANSWER_CODE,
					 .local_timeout = ANSWER_CODE,
					 .retries = 6,
					 .rnr_retries = 2,
					 .cm_retries = CM_RETRIES,
					 .mtu = 5,
					 .path.ack_timeout = ACK_CODE}};
}

static struct weft_mad rep(void)
{
	return (struct weft_mad){.kind = WEFT_MAD_REP,
				 .rep = {.qpn = 0x333,
					 .psn = 0x444,
					 .responder_resources = 3,
					 .initiator_depth = 2,
					 .rnr_retries = 4}};
}

static struct weft_mad sent(const struct weft_conn_out *out)
{
	struct weft_mad mad;

	assert_true(out->send);
	assert_int_equal(weft_mad_decode(out->wire, WEFT_MAD_BYTES, &mad), 0);
	return mad;
}

static void connect_ends(struct weft_conn *active, struct weft_conn *passive, uint64_t now_ns)
{
	struct weft_mad mad = req();
	struct weft_conn_out out;

	*active = (struct weft_conn){.local_id = 1, .tid = 99};
	*passive = (struct weft_conn){.local_id = 2};
	assert_int_equal(weft_conn_connect(active, &mad, now_ns, &out), 0);
	mad = sent(&out);
	assert_int_equal(weft_conn_requested(passive, &mad), 0);
}

/* Hands one end's message to the other, where a connection's way needs exactly that. */
static void deliver(struct weft_conn *to, struct weft_conn_out *out, uint64_t now_ns)
{
	struct weft_mad mad = sent(out);

	weft_conn_receive(to, &mad, now_ns, out);
}

static void make_sidr(unsigned int state, struct weft_conn *c, uint64_t now_ns)
{
	struct weft_mad mad = {.kind = WEFT_MAD_SIDR_REQ, .local_id = 1};
	struct weft_conn_out out;

	*c = (struct weft_conn){.local_id = 1, .cm_retries = CM_RETRIES, .answer_ns = ANSWER_NS};
	if (state == WEFT_CONN_SIDR_REQ_SENT)
		assert_int_equal(weft_conn_connect(c, &mad, now_ns, &out), 0);
	else
		assert_int_equal(weft_conn_requested(c, &mad), 0);
}

static void say_mra(struct weft_conn *c, enum weft_mad_about about, uint64_t now_ns)
{
	struct weft_mad mad = {.kind = WEFT_MAD_MRA, .mra = {about, 24}};
	struct weft_conn_out out;

	weft_conn_receive(c, &mad, now_ns, &out);
}

/* Makes an end that is in that state, as a connection leads it there. */
static struct weft_conn reach(unsigned int state, uint64_t now_ns)
{
	struct weft_conn a, p;
	struct weft_conn_out out;
	struct weft_mad mad;

	if (state == WEFT_CONN_IDLE)
		return (struct weft_conn){.local_id = 1, .tid = 99};
	if (state == WEFT_CONN_SIDR_REQ_SENT || state == WEFT_CONN_SIDR_REQ_RCVD) {
		make_sidr(state, &a, now_ns);
		return a;
	}
	connect_ends(&a, &p, now_ns);
	if (state == WEFT_CONN_MRA_REQ_RCVD)
		say_mra(&a, WEFT_ABOUT_REQ, now_ns);
	mad = req();
	if (state == WEFT_CONN_MRA_REQ_SENT)
		weft_conn_receive(&p, &mad, now_ns, &out);
	if (a.state == state || p.state == state)
		return a.state == state ? a : p;
	mad = rep();
	assert_int_equal(weft_conn_accept(&p, &mad, now_ns, &out), 0);
	if (state == WEFT_CONN_MRA_REP_RCVD)
		say_mra(&p, WEFT_ABOUT_REP, now_ns);
	deliver(&a, &out, now_ns);
	mad = rep();
	if (state == WEFT_CONN_MRA_REP_SENT)
		weft_conn_receive(&a, &mad, now_ns, &out);
	if (a.state == state || p.state == state)
		return a.state == state ? a : p;
	assert_int_equal(weft_conn_establish(&a, &out), 0);
	deliver(&p, &out, now_ns);
	if (state == WEFT_CONN_ESTABLISHED || state == PASSIVE)
		return state == PASSIVE ? p : a;
	assert_int_equal(weft_conn_disconnect(&a, now_ns, &out), 0);
	deliver(&p, &out, now_ns);
	if (state == WEFT_CONN_TIMEWAIT)
		assert_int_equal(weft_conn_disconnect(&p, now_ns, &out), 0);
	assert_true(a.state == state || p.state == state);
	return a.state == state ? a : p;
}

/* ---- The table ---- */

static struct weft_mad message(const struct weft_conn *c, enum input input)
{
	static const enum weft_mad_kind kinds[MESSAGES] = {
		WEFT_MAD_REQ,	   WEFT_MAD_MRA,  WEFT_MAD_MRA,	 WEFT_MAD_REJ,	WEFT_MAD_REP,
		WEFT_MAD_RTU,	   WEFT_MAD_DREQ, WEFT_MAD_DREQ, WEFT_MAD_DREP, WEFT_MAD_SIDR_REQ,
		WEFT_MAD_SIDR_REP, WEFT_MAD_LAP,  WEFT_MAD_APR,
	};
	struct weft_mad mad = input == REQ   ? req()
			      : input == REP ? rep()
					     : (struct weft_mad){.kind = kinds[input]};

	mad.local_id = c->remote_id ? c->remote_id : 7;
	mad.remote_id = c->local_id;
	if (mad.kind == WEFT_MAD_MRA)
		mad.mra = (struct weft_mad_mra){
			input == MRA_OF_REP ? WEFT_ABOUT_REP : WEFT_ABOUT_REQ, 24};
	else if (mad.kind == WEFT_MAD_REJ)
		mad.rej = (struct weft_mad_rej){WEFT_ABOUT_OTHER, WEFT_REJ_NO_QP};
	else if (mad.kind == WEFT_MAD_DREQ)
		mad.dreq_qpn = c->local_qpn ^ (input == DREQ_OF_ANOTHER);
	else if (mad.kind == WEFT_MAD_SIDR_REP)
		mad.sidr_rep = (struct weft_mad_sidr_rep){0, WEFT_SIDR_NO_QP, 0x555, 0x666};
	return mad;
}

static int call(struct weft_conn *c, enum input input, uint64_t now_ns, struct weft_conn_out *out)
{
	bool sidr = c->state == WEFT_CONN_SIDR_REQ_RCVD;
	struct weft_mad mad = input == CONNECT	? req()
			      : input == ACCEPT ? rep()
						: (struct weft_mad){.kind = WEFT_MAD_REJ};

	if (sidr)
		mad = (struct weft_mad){.kind = WEFT_MAD_SIDR_REP};
	if (input == CONNECT)
		return weft_conn_connect(c, &mad, now_ns, out);
	if (input == ACCEPT)
		return weft_conn_accept(c, &mad, now_ns, out);
	if (input == ESTABLISH)
		return weft_conn_establish(c, out);
	if (input == REJECT)
		return weft_conn_reject(c, &mad, now_ns, out);
	if (input == DISCONNECT)
		return weft_conn_disconnect(c, now_ns, out);
	weft_conn_abandon(c, out);
	return 0;
}

/* Returns what calls of the program return; 0 for all other inputs. */
static int apply(struct weft_conn *c, enum input input, uint64_t now_ns, struct weft_conn_out *out)
{
	struct weft_mad mad;

	if (input >= MESSAGES && input < CALLS)
		return call(c, input, now_ns, out);
	if (input < MESSAGES) {
		mad = message(c, input);
		weft_conn_receive(c, &mad, now_ns, out);
	} else if (input == LOST) {
		weft_conn_lost(c, now_ns, out);
	} else {
		now_ns = c->deadline_ns - (input == EARLY && c->deadline_ns);
		if (input == LAST)
			c->retries_left = 0;
		weft_conn_timer(c, now_ns, out);
	}
	return 0;
}

static void expect_deadline(const struct weft_conn *c, const struct row *row, uint64_t now_ns,
			    uint64_t before_ns)
{
	uint64_t due_ns = 0;

	if (row->input == RETRY)
		now_ns = before_ns;
	if (row->input == MRA_OF_REQ || row->input == MRA_OF_REP)
		due_ns = now_ns + MRA_NS;
	else if (c->state == WEFT_CONN_TIMEWAIT && row->state != WEFT_CONN_TIMEWAIT)
		due_ns = (row->input == LAST ? before_ns : now_ns) + TIMEWAIT_NS;
	else if (row->input == RETRY && c->state != WEFT_CONN_IDLE)
		due_ns = now_ns + ANSWER_NS;
	else if (row->input == CONNECT || row->input == ACCEPT || row->input == DISCONNECT)
		due_ns = c->state == WEFT_CONN_IDLE ? 0 : now_ns + ANSWER_NS;
	else if (c->state == row->state)
		due_ns = before_ns; /* goes on as before */
	assert_int_equal(c->deadline_ns, due_ns);
}

static void check_pair(unsigned int state, enum input input)
{
	uint64_t begun_ns = 1000 * MSECOND, now_ns = begun_ns + 20 * MSECOND;
	struct weft_conn before = reach(state, begun_ns), c = before;
	const struct row *row = row_of(state, input);
	struct weft_conn_out out;
	int err = apply(&c, input, now_ns, &out);
	bool is_call = input >= MESSAGES && input < CALLS && input != ABANDON;

	if (!row) {
		if (input == LAST)
			before.retries_left = 0; /* apply() has set it */
		assert_int_equal(err, is_call ? -EINVAL : 0);
		assert_memory_equal(&c, &before, sizeof(c));
		assert_false(out.send);
		assert_int_equal(out.event, WEFT_CONN_QUIET);
		return;
	}
	assert_int_equal(err, 0);
	assert_string_equal(weft_conn_state_str(c.state), weft_conn_state_str(row->next));
	assert_int_equal(out.send ? sent(&out).kind : NONE, row->sends);
	assert_int_equal(out.event, row->event);
	assert_int_equal(out.status, row->status);
	expect_deadline(&c, row, now_ns, before.deadline_ns);
	if (out.send && row->sends != WEFT_MAD_REQ) {
		assert_int_equal(sent(&out).tid, before.tid);
		assert_int_equal(sent(&out).remote_id,
				 row->sends == WEFT_MAD_SIDR_REQ || row->sends == WEFT_MAD_SIDR_REP
					 ? 0
					 : before.remote_id);
	}
}

static void each_row(void **state)
{
	for (unsigned int s = 0; s <= PASSIVE; s++)
		for (enum input i = 0; i < INPUTS; i++) {
			print_message("# %s: %s\n",
				      s == PASSIVE ? "established, passive"
						   : weft_conn_state_str((enum weft_conn_state)s),
				      inputs[i]);
			check_pair(s, i);
		}
}

/* Both ends have the same values of what they tell each other. */
static void agreed(void **state)
{
	struct weft_conn a, p;
	struct weft_conn_out out;
	struct weft_mad mad;

	connect_ends(&a, &p, 0);
	assert_int_equal(p.remote_qpn, 0x111);
	assert_int_equal(p.remote_psn, 0x222);
	assert_int_equal(p.responder_resources, 3);
	assert_int_equal(p.initiator_depth, 5);
	assert_int_equal(p.tid, a.tid);
	assert_int_equal(p.remote_id, a.local_id);
	mad = rep();
	weft_conn_accept(&p, &mad, 0, &out);
	deliver(&a, &out, 0);
	assert_int_equal(a.remote_id, p.local_id);
	assert_int_equal(a.remote_qpn, 0x333);
	assert_int_equal(a.remote_psn, 0x444);
	assert_int_equal(a.responder_resources, 2);
	assert_int_equal(a.initiator_depth, 3);
	assert_int_equal(a.rnr_retries, 4);
	assert_int_equal(p.rnr_retries, 2);
	assert_int_equal(a.retries, 6);
	assert_int_equal(p.retries, 6);
}

/* How long each end waits for the other's acknowledgements: the passive one as long as REQ says, the active one longer where REP says
 * that the other takes its time. */
static void acknowledgements(void **state)
{
	static const struct {
		uint32_t way, delay, code;
	} cases[] = {{17, 15, 17}, {17, 16, 18}, {17, 17, 18}, {14, 15, 16}, {14, 16, 16},
		     {0, 15, 0},   {14, 0, 14},	 {31, 31, 31}, {1, 31, 31}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct weft_conn a, p;
		struct weft_conn_out out;
		struct weft_mad mad = rep();

		assert_int_equal(weft_conn_ack_timeout(cases[i].way, cases[i].delay),
				 cases[i].code);
		connect_ends(&a, &p, 0);
		a.ack_timeout = p.ack_timeout = cases[i].way;
		mad.rep.ack_delay = cases[i].delay;
		assert_int_equal(weft_conn_accept(&p, &mad, 0, &out), 0);
		deliver(&a, &out, 0);
		assert_int_equal(a.ack_timeout, cases[i].code);
		assert_int_equal(p.ack_timeout, cases[i].way);
	}
}

/* Each retry comes at its time, and no more than the given number. */
static void retries(void **state)
{
	struct weft_conn c = reach(WEFT_CONN_REQ_SENT, 0);
	struct weft_conn_out out;

	for (uint64_t n = 1; n <= CM_RETRIES; n++) {
		weft_conn_timer(&c, n * ANSWER_NS - 1, &out);
		assert_false(out.send);
		weft_conn_timer(&c, n * ANSWER_NS, &out);
		assert_int_equal(sent(&out).kind, WEFT_MAD_REQ);
		assert_int_equal(c.deadline_ns, (n + 1) * ANSWER_NS);
	}
	weft_conn_timer(&c, (CM_RETRIES + 1) * ANSWER_NS, &out);
	assert_int_equal(sent(&out).rej.reason, WEFT_REJ_TIMEOUT);
	assert_int_equal(out.event, WEFT_CONN_UNANSWERED);
	assert_int_equal(c.deadline_ns, 0);
}

static void strays(void **state)
{
	static const struct {
		enum input input;
		unsigned int answer, reason;
	} cases[] = {
		{REQ, WEFT_MAD_REJ, WEFT_REJ_INVALID_SERVICE_ID},
		{REP, WEFT_MAD_REJ, WEFT_REJ_INVALID_COMM_ID},
		{DREQ, WEFT_MAD_DREP},
		{SIDR_REQ, WEFT_MAD_SIDR_REP},
		{RTU},
		{REJ},
		{DREP},
		{MRA_OF_REQ},
		{SIDR_REP},
		{LAP},
		{APR},
	};
	struct weft_conn c = {.local_id = 5, .remote_id = 6};
	struct weft_conn_out out;

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct weft_mad mad = message(&c, cases[i].input);

		assert_int_equal(weft_conn_answer_stray(&mad, &out), !!cases[i].answer);
		if (!cases[i].answer)
			continue;
		assert_int_equal(sent(&out).kind, cases[i].answer);
		if (cases[i].answer == WEFT_MAD_REJ)
			assert_int_equal(sent(&out).rej.reason, cases[i].reason);
		if (cases[i].answer == WEFT_MAD_SIDR_REP)
			assert_int_equal(sent(&out).sidr_rep.status, WEFT_SIDR_UNSUPPORTED);
		else
			assert_int_equal(sent(&out).remote_id, 6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row),	    cmocka_unit_test(agreed),
		cmocka_unit_test(acknowledgements), cmocka_unit_test(retries),
		cmocka_unit_test(strays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
