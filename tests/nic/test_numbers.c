/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Numbers of packets and of queue pairs: an end that sends with another PSN than its peer expects, and where
 * the numbers of queue pairs begin.
 */
#include "world.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"
#include "nic/nic.h"
#include "nic/qp.h"
#include "transport/registry.h"
#include "pool/format.h"
#include "pool/format_qp.h"

#define LAST 0xffffffu /* the greatest PSN, and one of the greatest queue pair numbers */

/* ---- PSNs ---- */

static const struct row {
	const char *name;
	enum weft_qp_type type;
	uint32_t sends, expects;
	enum weft_wc_status status;
	bool arrives;
} rows[] = {
	{"both 0", WEFT_QPT_RC, 0, 0, WEFT_WC_SUCCESS, true},
	{"both the same", WEFT_QPT_RC, 0x123456, 0x123456, WEFT_WC_SUCCESS, true},
	{"both the last", WEFT_QPT_RC, LAST, LAST, WEFT_WC_SUCCESS, true},
	{"one ahead", WEFT_QPT_RC, 1, 0, WEFT_WC_RETRY_EXC_ERR, false},
	{"one behind", WEFT_QPT_RC, 0, 1, WEFT_WC_RETRY_EXC_ERR, false},
	{"behind a turn", WEFT_QPT_RC, LAST, 0, WEFT_WC_RETRY_EXC_ERR, false},
	{"half the range away", WEFT_QPT_RC, 0, 0x800000, WEFT_WC_RETRY_EXC_ERR, false},
	{"lax here", WEFT_QPT_RC, WEFT_ANY_PSN, 5, WEFT_WC_SUCCESS, true},
	{"lax there", WEFT_QPT_RC, 5, WEFT_ANY_PSN, WEFT_WC_SUCCESS, true},
	/* each message of UC begins anew, whatever was lost before it */
	{"unreliable", WEFT_QPT_UC, 1, 0, WEFT_WC_SUCCESS, true},
};

static void let_time_pass(void)
{
	for (int i = 0; i < 3; i++) {
		world_look();
		world.now_ns += 1000000000;
	}
	world_look();
}

static void packets(void **state)
{
	world.nic.transports = weft_transports;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct row *row = &rows[i];

		print_message("%s\n", row->name);
		ends_wish = (struct ends_wish){
			.type = row->type, .near_sq_psn = row->sends, .peer_rq_psn = row->expects};
		ends_open();
		ends_post(WEFT_OP_WRITE, &ends_near);
		let_time_pass();
		world_expect(1, row->status);
		assert_int_equal(ends_peer.memory[0], row->arrives ? 'n' : 'p');
		ends_close();
	}
	ends_wish = (struct ends_wish){.type = 0};
}

/* The other direction has PSNs of its own. */
static void each_way(void **state)
{
	world.nic.transports = weft_transports;
	ends_wish = (struct ends_wish){.peer_sq_psn = 1, .near_rq_psn = 2};
	ends_open();
	ends_post(WEFT_OP_WRITE, &ends_near);
	world_expect(1, WEFT_WC_SUCCESS);
	ends_close();
	ends_wish = (struct ends_wish){.type = 0};
}

/* ---- Queue pairs ---- */

enum { MANY = 3 * WEFT_QP_BLOCK };

static void begin_anew(void)
{
	world_leave();
	assert_int_equal(unlink(getenv("WEFT_POOL")), 0);
	memset(&world, 0, sizeof(world));
	assert_int_equal(world_join(), 0);
	world.nic.transports = weft_transports;
}

static void make(struct weft_qp *qp)
{
	struct weft_qp_cap cap = {.max_send_wr = 1, .max_recv_wr = 1};

	memset(qp, 0, sizeof(*qp));
	assert_int_equal(weft_qp_create(&world.nic, qp, WEFT_QPT_RC, 1, &world.cq, &world.cq, NULL,
					&cap, true),
			 0);
}

/* Queue pairs that are given the last numbers of all, and those behind them: none is 0, 1 or the number of
 * multicast; all differ, and each is found in the table. */
static void wrap(void **state)
{
	static struct weft_qp qps[MANY];
	uint32_t last_index = 0;

	begin_anew();
	world.pool->leases->numbers = WEFT_NUMBERS((WEFT_BLOCKS - 1) | 62u << 12);
	for (uint32_t i = 0; i < MANY; i++) {
		make(&qps[i]);
		assert_in_range(qps[i].qpn, 2, LAST - 1);
		assert_true(qps[i].index >= 2);
		for (uint32_t k = 0; k < i; k++)
			assert_int_not_equal(qps[k].index, qps[i].index);
		last_index = qps[i].index > last_index ? qps[i].index : last_index;
	}
	assert_int_equal(last_index, WEFT_QPS - 2);
	weft_nic_hold(&world.nic);
	for (uint32_t i = 0; i < MANY; i++)
		assert_false(weft_trylock(&world.nic, &qps[i].lock));
	weft_nic_let_go(&world.nic);
	for (uint32_t i = 0; i < MANY; i++)
		weft_qp_destroy(&qps[i]);
}

/* Each pool begins at a number of its own. */
static void random_start(void **state)
{
	uint32_t first = 0, others = 0;

	for (uint32_t i = 0; i < 6; i++) {
		struct weft_qp qp;

		begin_anew();
		make(&qp);
		first = i ? first : qp.index;
		others += qp.index != first;
		weft_qp_destroy(&qp);
	}
	assert_true(others >= 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets),
		cmocka_unit_test(each_way),
		cmocka_unit_test(wrap),
		cmocka_unit_test(random_start),
	};

	return cmocka_run_group_tests_name("numbers", tests, world_attach, world_detach);
}
