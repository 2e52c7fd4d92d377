/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which transport carries what: by type and address, in order of preference. Requests to an address that none
 * reaches fail as those to a host that does not answer.
 */
#include "nic/ah.h"
#include "nic/qp.h"
#include "nic/queues.h"
#include "world.h"

#include <string.h>

#include "transport/registry.h"

#define TIMEOUT_NS (4096ull << 1) /* of the timeout's code 1, which rtr() sets */

/* ---- Transports that reach some addresses, by their first byte ---- */

static bool to_1(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16])
{
	return dgid[0] == 1;
}

static bool to_1_from_9(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16])
{
	return dgid[0] == 1 && sgid[0] == 9;
}

static bool to_all(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16])
{
	return true;
}

static enum weft_outcome done(struct weft_qp *qp, struct weft_wqe *wqe, struct weft_caller *caller,
			      enum weft_cause *cause)
{
	return WEFT_DONE;
}

static const struct weft_transport picky = {
	.name = "picky",
	.carries = {[WEFT_QPT_RC] = {done}, [WEFT_QPT_UD] = {done}},
	.reaches = to_1_from_9};
static const struct weft_transport first = {
	.name = "first", .carries = {[WEFT_QPT_RC] = {done}}, .reaches = to_1};
static const struct weft_transport second = {
	.name = "second",
	.carries = {[WEFT_QPT_RC] = {done}, [WEFT_QPT_UC] = {done}},
	.reaches = to_1};
static const struct weft_transport last = {
	.name = "last",
	.carries = {[WEFT_QPT_RC] = {done}, [WEFT_QPT_UC] = {done}, [WEFT_QPT_UD] = {done}},
	.reaches = to_all};
static const struct weft_transport *const some[] = {&picky, &first, &second, &last};

static const struct choice {
	enum weft_qp_type type;
	uint8_t from, to;
	const char *name;
} choices[] = {
	/* the first one that reaches it */
	{WEFT_QPT_RC, 9, 1, "picky"},
	/* the source address counts, too */
	{WEFT_QPT_RC, 8, 1, "first"},
	/* a transport that does not carry UC is passed over */
	{WEFT_QPT_RC, 9, 2, "last"},
	{WEFT_QPT_UC, 9, 1, "second"},
	{WEFT_QPT_UC, 9, 2, "last"},
	{WEFT_QPT_UD, 9, 1, "picky"},
	{WEFT_QPT_UD, 8, 1, "last"},
};

static void first_that_reaches(void **state)
{
	world.nic.transports = some;
	for (size_t i = 0; i < sizeof(choices) / sizeof(*choices); i++) {
		const struct choice *c = &choices[i];
		const uint8_t from[16] = {c->from}, to[16] = {c->to};

		assert_string_equal(weft_transport_for(&world.nic, c->type, from, to)->name,
				    c->name);
	}
}

/* ---- Weft's own transports ---- */

static const uint8_t group[16] = {0xff, 0x0e},
		     group4[16] = {[10] = 0xff, [11] = 0xff, [12] = 239, [15] = 1},
		     late_gid[16] = {[0] = 0x20, [15] = 3};

static void real_ones(void **state)
{
	static const struct {
		enum weft_qp_type type;
		const uint8_t *to;
		const char *name;
	} rows[] = {
		{WEFT_QPT_RC, world_gid, "direct"},
		{WEFT_QPT_UC, world_gid, "direct"},
		{WEFT_QPT_UD, world_gid, "direct"},
		{WEFT_QPT_XRC_SEND, world_gid, "direct"},
		{WEFT_QPT_XRC_RECV, world_gid, "direct"},
		{WEFT_QPT_UD, group, "direct"},
		{WEFT_QPT_UD, group4, "direct"},
		{WEFT_QPT_RC, unused_gid, "nowhere"},
		{WEFT_QPT_UC, unused_gid, "nowhere"},
		{WEFT_QPT_UD, unused_gid, "nowhere"},
		{WEFT_QPT_XRC_SEND, unused_gid, "nowhere"},
		{WEFT_QPT_XRC_RECV, unused_gid, "nowhere"},
	};

	world.nic.transports = weft_transports;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_string_equal(
			weft_transport_for(&world.nic, rows[i].type, world_gid, rows[i].to)->name,
			rows[i].name);
}

/* ---- What becomes of requests to an address that no member has ---- */

static struct weft_qp qp;

static void make(enum weft_qp_type type, const uint8_t dgid[16])
{
	struct weft_qp_cap cap = {
		.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
	struct weft_qp_attr attr = {.dest_qpn = 1, .timeout = 1, .rnr_retry = 7};

	world.nic.transports = weft_transports;
	world.failed_of = WEFT_CAUSE_NONE;
	memset(&qp, 0, sizeof(qp));
	memcpy(attr.sgid, world_gid, 16);
	memcpy(attr.dgid, dgid, 16);
	assert_int_equal(
		weft_qp_create(&world.nic, &qp, type, 1, &world.cq, &world.cq, NULL, &cap, true),
		0);
	for (enum weft_qp_state to = WEFT_QPS_INIT; to <= WEFT_QPS_RTS; to++)
		assert_int_equal(weft_qp_modify(&qp, qp.state, to, &attr, &world.caller), 0);
}

/* Posts a SEND of no bytes, or one of 8 bytes with an lkey of no region. */
static void post(uint64_t wr_id, struct weft_ah *ah, bool bad_key)
{
	struct weft_wqe *wqe = weft_sq_next(&qp);

	*wqe = (struct weft_wqe){
		.wr_id = wr_id, .opcode = WEFT_OP_SEND, .num_sge = bad_key, .ah = ah};
	wqe->sge[0] = (struct weft_pool_sge){.len_bytes = 8, .lkey = 0x12345678};
	weft_sq_submit(&qp, wqe, &world.caller);
}

static void reliable(void **state)
{
	make(WEFT_QPT_RC, unused_gid);
	post(1, NULL, false);
	post(2, NULL, false);
	world_look(); /* the timer runs from the first look on */
	world.now_ns += TIMEOUT_NS - 1;
	world_look();
	world_expect_none();
	world.now_ns += 1;
	world_look();
	world_expect(1, WEFT_WC_RETRY_EXC_ERR);
	world_expect(2, WEFT_WC_WR_FLUSH_ERR);
	assert_int_equal(world.failed_of, WEFT_CAUSE_UNREACHED);
	weft_qp_destroy(&qp);
}

/* An error on the requester's side is told all the same. */
static void own_fault(void **state)
{
	struct weft_ah ah = {.pd = 1};
	const struct {
		enum weft_qp_type type;
		struct weft_ah *ah;
	} rows[] = {{WEFT_QPT_RC, NULL}, {WEFT_QPT_UC, NULL}, {WEFT_QPT_UD, &ah}};

	memcpy(ah.dgid, unused_gid, 16);
	world.nic.transports = weft_transports;
	assert_int_equal(weft_ah_find(&world.nic, &ah), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		make(rows[i].type, unused_gid);
		post(1, rows[i].ah, true);
		world_expect(1, WEFT_WC_LOC_PROT_ERR);
		weft_qp_destroy(&qp);
	}
	weft_ah_destroy(&world.nic, &ah);
}

static void unreliable(void **state)
{
	make(WEFT_QPT_UC, unused_gid);
	post(1, NULL, false);
	world_expect(1, WEFT_WC_SUCCESS);
	weft_qp_destroy(&qp);
}

/* Datagrams vanish until a member has the address. Those to QP 0, as these are, vanish then, too. */
static void datagrams(void **state)
{
	struct weft_ah ah = {.pd = 1};

	make(WEFT_QPT_UD, unused_gid);
	memcpy(ah.dgid, late_gid, 16);
	assert_int_equal(weft_ah_find(&world.nic, &ah), 0);
	post(1, &ah, false);
	world_expect(1, WEFT_WC_SUCCESS);
	assert_string_equal(ah.transport->name, "nowhere");
	world_publish(late_gid);
	post(2, &ah, false);
	world_expect(2, WEFT_WC_SUCCESS);
	assert_string_equal(ah.transport->name, "direct");
	weft_qp_destroy(&qp);
	weft_ah_destroy(&world.nic, &ah);
}

/* No queue pair is larger than it was before transports said how much state they need (decision 31). */
static void memory(void **state)
{
	enum { BEFORE_BYTES = 992, STATE_BEFORE_BYTES = 640 };

	for (size_t i = 0; i < WEFT_QP_TYPES; i++)
		assert_true(sizeof(struct weft_qp) + weft_transports[0]->carries[i].state_bytes <=
			    BEFORE_BYTES);
	assert_true(weft_transports[0]->carries[WEFT_QPT_RC].state_bytes < STATE_BEFORE_BYTES / 2);
	assert_true(weft_transports[0]->address_bytes < STATE_BEFORE_BYTES / 4);
	print_message("queue pair %zu + %u bytes\n", sizeof(struct weft_qp),
		      weft_transports[0]->carries[WEFT_QPT_RC].state_bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_that_reaches),
		cmocka_unit_test(real_ones),
		cmocka_unit_test(reliable),
		cmocka_unit_test(own_fault),
		cmocka_unit_test(unreliable),
		cmocka_unit_test(datagrams),
		cmocka_unit_test(memory),
	};

	return cmocka_run_group_tests_name("registry", tests, world_attach, world_detach);
}
