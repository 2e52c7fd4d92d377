/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Requests that a card carries out, and what their owner sees of it. The card works when the test says so, in
 * one process, so that time and order are the test's; test_card.c has it in another process.
 */
#include "../nic/ends.h"

#include <stdlib.h>
#include <string.h>

#include "courier.h"
#include "nic/cq.h"
#include "nic/limits.h"
#include "nic/qp.h"
#include "pool/format_member.h"
#include "pool/sge.h"
#include "transport/handed/card.h"
#include "transport/registry.h"

static struct courier courier;

/* Has the card do all that can be done now. */
static void carry(void)
{
	while (courier_step(&courier, world.now_ns))
		;
	world_look();
}

static void open_ends(struct ends_wish wish)
{
	ends_wish = wish;
	world.nic.transports = weft_transports;
	memset(&courier, 0, sizeof(courier));
	courier.random = 1;
	courier.part_bytes = 700;
	assert_int_equal(courier_begin(&courier, &world.nic, &world.card), 0);
	ends_open();
	assert_string_equal(ends_near.qp.transport->name, "handed");
}

static void close_ends(void)
{
	ends_close();
	courier_end(&courier);
}

static bool is_filled(const struct end *e, uint8_t with)
{
	for (uint32_t i = 0; i < ENDS_BYTES; i++)
		if (e->memory[i] != with)
			return false;
	return true;
}

/* ---- The way there and back ---- */

static void a_write(void **state)
{
	open_ends((struct ends_wish){.type = WEFT_QPT_RC});
	ends_post(WEFT_OP_WRITE, &ends_near);
	assert_true(is_filled(&ends_peer, 'p'));
	world_expect_none();
	carry();
	world_expect(1, WEFT_WC_SUCCESS);
	world_expect_none();
	assert_true(is_filled(&ends_peer, 'n'));
	assert_int_equal(ends_peer.memory[ENDS_BYTES], 'p');
	close_ends();
}

/* The card tells what ends: the helper is woken only for what waits behind that. */
static void a_helper_that_sleeps(void **state)
{
	open_ends((struct ends_wish){.type = WEFT_QPT_RC});
	world.kicks = world.drained_events = 0;
	for (uint32_t i = 0; i < 3; i++)
		ends_post(WEFT_OP_WRITE, &ends_near);
	world_look();
	assert_int_equal(world.kicks, 0);
	ends_post(WEFT_OP_LOCAL_INV, &ends_near);
	assert_int_equal(world.kicks, 1);
	carry();
	for (uint32_t i = 0; i < 3; i++)
		world_expect(1, WEFT_WC_SUCCESS);
	world_expect(1, WEFT_WC_LOC_QP_OP_ERR);
	assert_int_equal(world.nic.ntrying, 0);
	close_ends();
}

static void a_helper_that_drains(void **state)
{
	open_ends((struct ends_wish){.type = WEFT_QPT_RC});
	world.kicks = world.drained_events = 0;
	ends_post(WEFT_OP_WRITE, &ends_near);
	ends_modify(&ends_near, WEFT_QPS_SQD, &ends_peer);
	assert_int_equal(world.kicks, 1);
	carry();
	assert_int_equal(world.drained_events, 1);
	assert_int_equal(world.nic.ntrying, 0);
	world_expect(1, WEFT_WC_SUCCESS);
	close_ends();
}

/* ---- Faults ---- */

/* A request that is wrong for its length alone fails where it is issued: the card sees nothing of it. */
static void a_length_that_is_wrong(void **state)
{
	static const struct {
		enum weft_opcode opcode;
		uint32_t bytes, parts;
	} wrong[] = {{WEFT_OP_WRITE, WEFT_MAX_MSG_BYTES, 2}, {WEFT_OP_FETCH_ADD, 4, 1}};

	for (uint32_t i = 0; i < 2; i++) {
		struct weft_wqe *wqe;

		open_ends((struct ends_wish){.type = WEFT_QPT_RC});
		wqe = weft_sq_next(&ends_near.qp);
		assert_non_null(wqe);
		*wqe = (struct weft_wqe){.wr_id = 1,
					 .opcode = (uint8_t)wrong[i].opcode,
					 .flags = WEFT_SEND_SIGNALED,
					 .num_sge = (uint8_t)wrong[i].parts};
		for (uint32_t k = 0; k < wrong[i].parts; k++)
			wqe->sge[k] = (struct weft_pool_sge){(uintptr_t)ends_near.memory,
							     wrong[i].bytes, ends_near.mr.key};
		weft_sq_submit(&ends_near.qp, wqe, &world.caller);
		world_expect(1, WEFT_WC_LOC_LEN_ERR);
		assert_int_equal(ends_near.qp.state, WEFT_QPS_ERR);
		carry();
		assert_true(is_filled(&ends_peer, 'p'));
		close_ends();
	}
}

static void post_empty(struct end *from)
{
	struct weft_wqe *wqe = weft_sq_next(&from->qp);

	assert_non_null(wqe);
	*wqe = (struct weft_wqe){.wr_id = 1, .opcode = WEFT_OP_SEND, .flags = WEFT_SEND_SIGNALED};
	weft_sq_submit(&from->qp, wqe, &world.caller);
}

static void receive_with(uint32_t lkey)
{
	struct weft_pool_sge sge = {(uintptr_t)ends_peer.memory, ENDS_BYTES, lkey};

	assert_int_equal(weft_rq_post(&ends_peer.qp, 9, &sge, 1, 0), 0);
}

static void expect_of_peer(uint64_t wr_id, enum weft_wc_status status)
{
	struct weft_wc wc;

	assert_int_equal(weft_cq_poll(&ends_peer_cq, 1, &wc, 0), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

/* A request of the peer waits. A receive of the peer is wrong, which makes the peer fail. Its peer has failed, too, so that
 * the peer's request fails as well, before the peer has looked whether it is at fault. */
static void a_fault_before_a_verdict(void **state)
{
	open_ends((struct ends_wish){.type = WEFT_QPT_RC, .rnr_retry = 7});
	world.fatal_events = 0;
	post_empty(&ends_peer);
	receive_with(ends_peer.mr.key + 256);
	carry();
	ends_post(WEFT_OP_SEND, &ends_near);
	carry();
	world_expect(1, WEFT_WC_REM_OP_ERR);
	assert_int_equal(ends_near.qp.state, WEFT_QPS_ERR);
	assert_int_equal(ends_peer.qp.state, WEFT_QPS_RTS);
	for (int i = 0; i < 2; i++) {
		world.now_ns += 1000000000;
		carry();
	}
	assert_int_equal(ends_peer.qp.state, WEFT_QPS_ERR);
	assert_int_equal(world.fatal_events, 1);
	expect_of_peer(9, WEFT_WC_LOC_PROT_ERR);
	expect_of_peer(1, WEFT_WC_WR_FLUSH_ERR);
	close_ends();
}

/* ---- While the owner changes its queue pair's line ---- */

static uint64_t conn_of(const struct end *e)
{
	return atomic_load(&e->qp.slot->conn);
}

/* As publish in qp.c does at its beginning and at its end. */
static uint64_t open_line(struct end *e)
{
	uint64_t conn = conn_of(e);

	atomic_store(&e->qp.slot->conn, ((conn >> 32) + 1) << 32);
	return conn;
}

static void close_line(struct end *e, uint64_t was)
{
	atomic_store(&e->qp.slot->conn, was + (2ull << 32));
}

static void step_often(void)
{
	for (int i = 0; i < 20; i++)
		courier_step(&courier, world.now_ns);
	weft_card_sweep(&courier.card);
}

static void fetch_add(void)
{
	ends_submit(&(struct ends_request){.opcode = WEFT_OP_FETCH_ADD,
					   .wr_id = 1,
					   .flags = WEFT_SEND_SIGNALED,
					   .compare_add = 1},
		    &ends_near);
}

static uint64_t *word(void)
{
	return (uint64_t *)(ends_peer.memory + ENDS_WORDS);
}

/* A request that the card has begun is not begun again. */
static void a_line_in_the_middle(void **state)
{
	uint64_t was;

	open_ends((struct ends_wish){.type = WEFT_QPT_RC});
	*word() = 0;
	fetch_add();
	while (!*word())
		assert_true(courier_step(&courier, world.now_ns));
	was = open_line(&ends_near);
	step_often();
	close_line(&ends_near, was);
	carry();
	world_expect(1, WEFT_WC_SUCCESS);
	assert_int_equal(*word(), 1);
	close_ends();
}

static void ring_in_the_middle(void)
{
	uint64_t was;

	ends_post(WEFT_OP_WRITE, &ends_near);
	was = open_line(&ends_near);
	step_often();
	close_line(&ends_near, was);
	carry();
	world_expect(1, WEFT_WC_SUCCESS);
}

/* A doorbell that rings meanwhile is not missed, whether the card knows the queue pair or not. */
static void a_doorbell_in_the_middle(void **state)
{
	open_ends((struct ends_wish){.type = WEFT_QPT_RC});
	for (int i = 0; i < 2; i++)
		ring_in_the_middle();
	close_ends();
}

static void a_doorbell_while_memory_is_rehomed(void **state)
{
	open_ends((struct ends_wish){.type = WEFT_QPT_RC});
	for (int i = 0; i < 2; i++) {
		ends_post(WEFT_OP_WRITE, &ends_near);
		weft_nic_hold(&world.nic);
		step_often();
		weft_nic_let_go(&world.nic);
		carry();
		world_expect(1, WEFT_WC_SUCCESS);
	}
	close_ends();
}

/* More doorbells than the ring of doorbells has room for. */
static void many_doorbells_in_the_middle(void **state)
{
	open_ends((struct ends_wish){.type = WEFT_QPT_RC});
	for (uint32_t i = 0; i < WEFT_DOORBELLS; i++) {
		ends_modify(&ends_peer, WEFT_QPS_ERR, &ends_near);
		ends_modify(&ends_peer, WEFT_QPS_RESET, &ends_near);
		ends_connect(&ends_peer, &ends_near);
	}
	ring_in_the_middle();
	close_ends();
}

static _Atomic uint64_t *rings(void)
{
	return &world.nic.pool->self->card.rings;
}

static void forget_rings(struct weft_card_hand *hand)
{
	*rings() = 0;
}

/* Another member comes into the place of one whose doorbells are being heard, and counts its rings from 0. */
static void doorbells_of_another(void **state)
{
	uint64_t rung;

	open_ends((struct ends_wish){.type = WEFT_QPT_RC});
	carry();
	rung = *rings();
	weft_handed_ring(&world.nic, ends_near.qp.index, world.nic.pool->me);
	weft_handed_ring(&world.nic, ends_near.qp.index, world.nic.pool->me);
	assert_int_equal(*rings(), rung + 2);
	courier.card.rang = forget_rings;
	assert_true(weft_card_look(&courier.card));
	assert_true(courier.card.behind);
	courier.card.rang = NULL;
	*rings() = rung + 2;
	ends_post(WEFT_OP_WRITE, &ends_near);
	carry();
	world_expect(1, WEFT_WC_SUCCESS);
	close_ends();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write),
		cmocka_unit_test(a_helper_that_sleeps),
		cmocka_unit_test(a_helper_that_drains),
		cmocka_unit_test(a_length_that_is_wrong),
		cmocka_unit_test(a_fault_before_a_verdict),
		cmocka_unit_test(a_line_in_the_middle),
		cmocka_unit_test(a_doorbell_in_the_middle),
		cmocka_unit_test(a_doorbell_while_memory_is_rehomed),
		cmocka_unit_test(many_doorbells_in_the_middle),
		cmocka_unit_test(doorbells_of_another),
	};

	return cmocka_run_group_tests_name("handed", tests, world_attach_with_card,
					   world_detach_with_card);
}
