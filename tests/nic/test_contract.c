/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What every transport keeps to, as a table: what is done to a request and to its two ends, in
 * order, and what has become of it then. Instantiated for each transport below; those that carry a
 * request in one step run the rows in which nothing happens between its parts.
 */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "ends.h"
#include "pieces.h"
#include "transport/registry.h"

#define NONE (-1)

/*
 * A script: p a receive is posted; b the request is posted; 0 to 3 that piece is placed; e it ends;
 * k the responder's region ends; l the requester's; x the responder is in error; r it is reset and
 * connected anew, with a receive; h its memory moves, until g; m both at once; q the requester is in
 * error; . the nic looks.
 */
static const struct row {
	const char *name;
	enum weft_opcode opcode;
	const char *script;
	enum weft_wc_status status;
	unsigned int placed; /* pieces that have arrived: a bit each */
	int received;	     /* how the receive has completed; NONE: not, or flushed */
} rows[] = {
	{"in order", WEFT_OP_WRITE, "b0123e", WEFT_WC_SUCCESS, 15, NONE},
	{"in order", WEFT_OP_READ, "b0123e", WEFT_WC_SUCCESS, 15, NONE},
	{"in order", WEFT_OP_SEND, "pb0123e", WEFT_WC_SUCCESS, 15, WEFT_WC_SUCCESS},
	{"in order", WEFT_OP_WRITE_IMM, "pb0123e", WEFT_WC_SUCCESS, 15, WEFT_WC_SUCCESS},
	{"in any order", WEFT_OP_WRITE, "b3102e", WEFT_WC_SUCCESS, 15, NONE},
	{"in any order", WEFT_OP_READ, "b3102e", WEFT_WC_SUCCESS, 15, NONE},
	{"in any order", WEFT_OP_SEND, "pb2301e", WEFT_WC_SUCCESS, 15, WEFT_WC_SUCCESS},
	{"one twice", WEFT_OP_SEND, "pb01123e", WEFT_WC_SUCCESS, 15, WEFT_WC_SUCCESS},
	{"one twice", WEFT_OP_WRITE, "b010123e", WEFT_WC_SUCCESS, 15, NONE},
	{"the receive comes later", WEFT_OP_SEND, "bp.0123e", WEFT_WC_SUCCESS, 15, WEFT_WC_SUCCESS},
	{"no receive", WEFT_OP_WRITE_IMM, "b", WEFT_WC_RNR_RETRY_EXC_ERR, 0, NONE},
	{"revoked before", WEFT_OP_WRITE, "kb", WEFT_WC_REM_ACCESS_ERR, 0, NONE},
	{"revoked before", WEFT_OP_READ, "kb", WEFT_WC_REM_ACCESS_ERR, 0, NONE},
	{"revoked before", WEFT_OP_SEND, "pkb", WEFT_WC_REM_OP_ERR, 0, WEFT_WC_LOC_PROT_ERR},
	{"revoked before the first", WEFT_OP_WRITE, "bk0", WEFT_WC_REM_ACCESS_ERR, 0, NONE},
	{"revoked between", WEFT_OP_WRITE, "b02k1", WEFT_WC_REM_ACCESS_ERR, 5, NONE},
	{"revoked between", WEFT_OP_READ, "b0k1", WEFT_WC_REM_ACCESS_ERR, 1, NONE},
	{"revoked between", WEFT_OP_SEND, "pb01k2", WEFT_WC_REM_OP_ERR, 3, WEFT_WC_LOC_PROT_ERR},
	{"revoked after the last", WEFT_OP_WRITE, "b0123ke", WEFT_WC_SUCCESS, 15, NONE},
	{"own region ends before", WEFT_OP_WRITE, "lb", WEFT_WC_LOC_PROT_ERR, 0, NONE},
	{"own region ends between", WEFT_OP_WRITE, "b1l0", WEFT_WC_LOC_PROT_ERR, 2, NONE},
	{"own region ends between", WEFT_OP_READ, "b1l0", WEFT_WC_LOC_PROT_ERR, 2, NONE},
	{"own region ends between", WEFT_OP_SEND, "pb1l0", WEFT_WC_LOC_PROT_ERR, 2, NONE},
	{"responder in error before", WEFT_OP_WRITE, "xb", WEFT_WC_RETRY_EXC_ERR, 0, NONE},
	{"responder in error between", WEFT_OP_WRITE, "b0x1", WEFT_WC_RETRY_EXC_ERR, 1, NONE},
	{"responder in error between", WEFT_OP_SEND, "pb0x1", WEFT_WC_RETRY_EXC_ERR, 1, NONE},
	{"responder in error at the end", WEFT_OP_SEND, "pb0123xe", WEFT_WC_RETRY_EXC_ERR, 15,
	 NONE},
	/* it has forgotten all: the request begins anew, and what was placed counts no more */
	{"responder reset between", WEFT_OP_SEND, "pb01r20123e", WEFT_WC_SUCCESS, 15,
	 WEFT_WC_SUCCESS},
	{"responder reset between", WEFT_OP_WRITE, "b01r20123e", WEFT_WC_SUCCESS, 15, NONE},
	{"memory moves before", WEFT_OP_WRITE, "mb0123e", WEFT_WC_SUCCESS, 15, NONE},
	{"memory moves between", WEFT_OP_WRITE, "b01m23e", WEFT_WC_SUCCESS, 15, NONE},
	{"memory moves between", WEFT_OP_SEND, "pb01m23e", WEFT_WC_SUCCESS, 15, WEFT_WC_SUCCESS},
	{"memory moves before the end", WEFT_OP_SEND, "pb0123me", WEFT_WC_SUCCESS, 15,
	 WEFT_WC_SUCCESS},
	{"memory is moving at a piece", WEFT_OP_WRITE, "b0h1g123e", WEFT_WC_SUCCESS, 15, NONE},
	{"memory is moving at a piece", WEFT_OP_SEND, "pb0h1g123e", WEFT_WC_SUCCESS, 15,
	 WEFT_WC_SUCCESS},
	{"memory is moving at the end", WEFT_OP_SEND, "pb0123heg.", WEFT_WC_SUCCESS, 15,
	 WEFT_WC_SUCCESS},
	{"given up between", WEFT_OP_WRITE, "b01q", WEFT_WC_WR_FLUSH_ERR, 3, NONE},
	{"given up between", WEFT_OP_SEND, "pb01q", WEFT_WC_WR_FLUSH_ERR, 3, NONE},
};

static const struct instance {
	const char *name;
	const struct weft_transport *const *transports;
	bool parts;
} instances[] = {
	{"direct", weft_transports, false},
	{"pieces", (const struct weft_transport *const[]){&pieces}, true},
};

/* ---- A row ---- */

/* As far's owner says it where that is another process. */
static void say_of_far(enum weft_pool_conn what)
{
	_Atomic uint64_t *conn = &ends_far.qp.slot->conn;

	*conn = ((*conn >> 32) + 2) << 32 | (uint64_t)what << 24 | ends_near.qp.qpn;
}

static void act(const struct row *row, char what)
{
	switch (what) {
	case 'p':
		ends_receive();
		return;
	case 'b':
		ends_post(row->opcode, &ends_near);
		return;
	case 'k':
		ends_revoke(&ends_far);
		return;
	case 'l':
		ends_revoke(&ends_near);
		return;
	case 'x':
		ends_move(&ends_far, WEFT_QPS_ERR, &ends_near);
		return;
	case 'q':
		ends_move(&ends_near, WEFT_QPS_ERR, &ends_far);
		return;
	case 'r':
		ends_move(&ends_far, WEFT_QPS_RESET, &ends_near);
		ends_connect(&ends_far, &ends_near);
		ends_receive();
		return;
	case 'h':
		say_of_far(WEFT_CONN_REHOMING);
		return;
	case 'g':
		say_of_far(WEFT_CONN_READY);
		return;
	case 'm':
		weft_nic_hold(&world.nic);
		weft_nic_let_go(&world.nic);
		return;
	}
	if (what != '.')
		pieces_step = what;
	world_look();
}

/* Something happens between `b` and what is behind the last piece. */
static bool is_parted(const struct row *row)
{
	const char *begun = strchr(row->script, 'b');

	return begun[1] && strcmp(begun, "b0123e") != 0;
}

static void check_completions(const struct row *row)
{
	struct weft_wc wc;
	int received = NONE;

	for (int i = 0; i < 3; i++) {
		world.now_ns += 1000000000;
		world_look();
	}
	world_expect(1, row->status);
	world_expect_none();
	while (weft_cq_poll(&ends_far_cq, 1, &wc, 0)) {
		assert_int_equal(wc.wr_id, 9);
		if (wc.status != WEFT_WC_WR_FLUSH_ERR) {
			assert_int_equal(received, NONE);
			received = (int)wc.status;
		}
		if (!wc.status)
			assert_int_equal(wc.byte_len, ENDS_BYTES);
	}
	assert_int_equal(received, row->received);
}

static void check_bytes(const struct row *row)
{
	const struct end *to = row->opcode == WEFT_OP_READ ? &ends_near : &ends_far;
	const uint8_t old = to == &ends_near ? 'n' : 'f', new = to == &ends_near ? 'f' : 'n';

	for (uint32_t i = 0; i < ENDS_BYTES; i++)
		assert_int_equal(to->memory[i],
				 row->placed >> (i / (ENDS_BYTES / PIECES)) & 1 ? new : old);
	assert_int_equal(to->memory[ENDS_BYTES], old);
}

static void run_row(const struct instance *in, const struct row *row)
{
	print_message("%s: %s, %d: %s\n", in->name, row->name, row->opcode, row->script);
	world.nic.transports = in->transports;
	ends_open();
	pieces_begun = 0;
	pieces_step = 0;
	for (const char *at = row->script; *at; at++)
		act(row, *at);
	check_completions(row);
	check_bytes(row);
	if (in->parts && row->status == WEFT_WC_SUCCESS)
		assert_int_equal(pieces_begun, strchr(row->script, 'r') ? 2 : 1);
	ends_close();
}

static void contract(void **state)
{
	const struct instance *in = *state;
	unsigned int ran = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (in->parts || !is_parted(&rows[i])) {
			run_row(in, &rows[i]);
			ran++;
		}
	assert_true(ran >= (in->parts ? sizeof(rows) / sizeof(*rows) : 10));
}

static int attach(void **state)
{
	if (world_attach(state))
		return -1;
	weft_pool_caller_get(world.pool, &pieces_line);
	return 0;
}

static int detach(void **state)
{
	weft_pool_caller_put(world.pool, &pieces_line);
	return world_detach(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{"direct", contract, NULL, NULL, (void *)&instances[0]},
		{"pieces", contract, NULL, NULL, (void *)&instances[1]},
	};

	return cmocka_run_group_tests_name("contract", tests, attach, detach);
}
