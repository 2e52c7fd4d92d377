/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Transitions of queue pairs: the tables of InfiniBand volume 1, 11.2.5.2, bit by bit, and the range of each
 * attribute.
 */
#include "rig.h"

#include <errno.h>
#include <string.h>

#include "../abi/pool.h"

#define SOFT                                                                                       \
	(IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |         \
	 IBV_QP_PATH_MIG_STATE)
#define BITS 26

struct row {
	enum ibv_qp_state from, to;
	int required, optional;
};

static const struct row any_rows[] = {
	{IBV_QPS_RESET, IBV_QPS_RESET, 0, 0}, {IBV_QPS_INIT, IBV_QPS_RESET, 0, 0},
	{IBV_QPS_INIT, IBV_QPS_ERR, 0, 0},    {IBV_QPS_RTR, IBV_QPS_RESET, 0, 0},
	{IBV_QPS_RTR, IBV_QPS_ERR, 0, 0},     {IBV_QPS_RTS, IBV_QPS_RESET, 0, 0},
	{IBV_QPS_RTS, IBV_QPS_ERR, 0, 0},     {IBV_QPS_SQD, IBV_QPS_RESET, 0, 0},
	{IBV_QPS_SQD, IBV_QPS_ERR, 0, 0},     {IBV_QPS_ERR, IBV_QPS_RESET, 0, 0},
	{IBV_QPS_ERR, IBV_QPS_ERR, 0, 0},
};

static const struct row rc_rows[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_MIN_RNR_TIMER,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS,
	 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		 IBV_QP_MAX_QP_RD_ATOMIC,
	 SOFT},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0, SOFT},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0, SOFT},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |
		 IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
};

#define UC_SOFT (IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE)

static const struct row uc_rows[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, UC_SOFT},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0, UC_SOFT},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0, UC_SOFT},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
		 IBV_QP_PATH_MIG_STATE},
};

#define UD_SOFT (IBV_QP_CUR_STATE | IBV_QP_QKEY)

static const struct row ud_rows[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
	{IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, UD_SOFT},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0, UD_SOFT},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0, UD_SOFT},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
};

struct table {
	enum ibv_qp_type type;
	const struct row *rows;
	size_t n;
};

static const struct table tables[] = {
	{IBV_QPT_RC, rc_rows, COUNT(rc_rows)},
	{IBV_QPT_UC, uc_rows, COUNT(uc_rows)},
	{IBV_QPT_UD, ud_rows, COUNT(ud_rows)},
};

static const enum ibv_qp_state reachable[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
					      IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};

static const struct row *find_row(const struct row *rows, size_t n, enum ibv_qp_state from,
				  enum ibv_qp_state to)
{
	for (size_t i = 0; i < n; i++)
		if (rows[i].from == from && rows[i].to == to)
			return &rows[i];
	return NULL;
}

static struct ibv_qp_attr attributes(struct ibv_qp *qp, enum ibv_qp_state from,
				     enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = rig_attr(qp->context, to, qp->qp_num);

	attr.cur_qp_state = from;
	attr.alt_ah_attr = attr.ah_attr;
	attr.alt_port_num = 1;
	attr.path_mig_state = IBV_MIG_MIGRATED;
	attr.cap = (struct ibv_qp_cap){1, 1, 1, 1, 1};
	return attr;
}

/* A queue pair in row->from, connected to itself, is asked to go to row->to. Where that is refused it
 * stays. */
static void expect(struct ibv_qp *qp, const struct row *row, int mask, int error)
{
	struct ibv_qp_attr attr;
	int got;

	if (rig_state(qp) != row->from) {
		rig_modify(qp, IBV_QPS_RESET, 0);
		rig_modify(qp, row->from, qp->qp_num);
	}
	assert_int_equal(rig_state(qp), row->from);
	attr = attributes(qp, row->from, row->to);
	got = ibv_modify_qp(qp, &attr, mask);
	if (got != error)
		fail_msg("%d to %d with %#x: %d, expected %d", row->from, row->to,
			 (unsigned int)mask, got, error);
	assert_int_equal(rig_state(qp), error ? row->from : row->to);
}

static void check_row(struct ibv_qp *qp, const struct row *row)
{
	int all = IBV_QP_STATE | row->required;

	expect(qp, row, all, 0);
	expect(qp, row, all | row->optional, 0);
	for (int bit = 2; bit < 1 << BITS; bit <<= 1) {
		if (row->required & bit)
			expect(qp, row, all & ~bit, EINVAL);
		else
			expect(qp, row, all | bit,
			       row->optional & bit     ? 0
			       : bit > IBV_QP_DEST_QPN ? EOPNOTSUPP
						       : EINVAL);
	}
	/* a mask without IBV_QP_STATE keeps the state */
	if (row->from == row->to)
		expect(qp, row, row->required | row->optional, 0);
}

static struct ibv_qp *make(struct rig *rig, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = rig_init(rig->cq[0], rig->cq[0]);
	struct ibv_qp *qp;

	init.qp_type = type;
	qp = ibv_create_qp(rig->pd, &init);
	assert_non_null(qp);
	return qp;
}

static void every_row(void **state)
{
	for (size_t k = 0; k < COUNT(tables); k++) {
		struct ibv_qp *qp = make(*state, tables[k].type);

		for (size_t i = 0; i < tables[k].n; i++)
			check_row(qp, &tables[k].rows[i]);
		for (size_t i = 0; i < COUNT(any_rows); i++)
			check_row(qp, &any_rows[i]);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

static void refuse_transition(struct ibv_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	static const int masks[] = {IBV_QP_STATE, RIG_INIT_MASK,   RIG_RTR_MASK,
				    RIG_RTS_MASK, RIG_UC_RTR_MASK, RIG_UC_RTS_MASK};

	for (size_t i = 0; i < COUNT(masks); i++)
		expect(qp, &(struct row){from, to, 0, 0}, masks[i], EINVAL);
}

static void every_other_transition(void **state)
{
	for (size_t k = 0; k < COUNT(tables); k++) {
		struct ibv_qp *qp = make(*state, tables[k].type);

		for (size_t i = 0; i < COUNT(reachable); i++)
			for (enum ibv_qp_state to = IBV_QPS_RESET; to <= IBV_QPS_UNKNOWN; to++)
				if (!find_row(tables[k].rows, tables[k].n, reachable[i], to) &&
				    !find_row(any_rows, COUNT(any_rows), reachable[i], to))
					refuse_transition(qp, reachable[i], to);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

/* IBV_QP_CUR_STATE: the state that it claims must be the current one. */
static void wrong_current_state(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_attr attr;

	rig_modify(rig->qp[0], IBV_QPS_RTS, rig->qp[0]->qp_num);
	attr = attributes(rig->qp[0], IBV_QPS_SQD, IBV_QPS_RTS);
	RIG_REFUSED(ibv_modify_qp(rig->qp[0], &attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
	assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_RTS);
}

static void bad_arguments(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp *gone = rig->qp[1];
	struct ibv_qp_attr attr = attributes(rig->qp[0], IBV_QPS_RESET, IBV_QPS_INIT);

	RIG_REFUSED(ibv_modify_qp(NULL, &attr, RIG_INIT_MASK));
	RIG_REFUSED(ibv_modify_qp(rig->qp[0], NULL, RIG_INIT_MASK));
	RIG_REFUSED(ibv_modify_qp((struct ibv_qp *)rig->cq[0], &attr, RIG_INIT_MASK));
	assert_int_equal(ibv_destroy_qp(gone), 0);
	rig->qp[1] = NULL;
	RIG_REFUSED(ibv_modify_qp(gone, &attr, RIG_INIT_MASK));
	assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_RESET);
}

/* ---- Ranges ---- */

#define FIELD(field) offsetof(struct ibv_qp_attr, field), sizeof(((struct ibv_qp_attr *)0)->field)

static const struct range {
	enum ibv_qp_state to;
	size_t offset, bytes;
	uint32_t good, bad;
} ranges[] = {
	{IBV_QPS_INIT, FIELD(port_num), 1, 0},
	{IBV_QPS_INIT, FIELD(port_num), 1, 2},
	{IBV_QPS_INIT, FIELD(pkey_index), 0, 1},
	{IBV_QPS_INIT, FIELD(qp_access_flags), RIG_ALL | IBV_ACCESS_RELAXED_ORDERING, 1u << 14},
	{IBV_QPS_RTR, FIELD(path_mtu), IBV_MTU_256, 0},
	{IBV_QPS_RTR, FIELD(path_mtu), IBV_MTU_4096, 6},
	{IBV_QPS_RTR, FIELD(dest_qp_num), 0xffffff, 0x1000000},
	{IBV_QPS_RTR, FIELD(max_dest_rd_atomic), 16, 17},
	{IBV_QPS_RTR, FIELD(min_rnr_timer), 31, 32},
	{IBV_QPS_RTR, FIELD(ah_attr.is_global), 1, 0},
	{IBV_QPS_RTR, FIELD(ah_attr.port_num), 1, 2},
	{IBV_QPS_RTR, FIELD(ah_attr.grh.sgid_index), 0, 255},
	{IBV_QPS_RTS, FIELD(timeout), 31, 32},
	{IBV_QPS_RTS, FIELD(retry_cnt), 7, 8},
	{IBV_QPS_RTS, FIELD(rnr_retry), 7, 8},
	{IBV_QPS_RTS, FIELD(max_rd_atomic), 16, 17},
};

static int modify_with(struct ibv_qp *qp, const struct range *range, uint32_t value)
{
	struct ibv_qp_attr attr = attributes(qp, range->to - 1, range->to);

	memcpy((char *)&attr + range->offset, &value, range->bytes); /* little-endian */
	return ibv_modify_qp(qp, &attr, rig_mask(IBV_QPT_RC, range->to));
}

static void out_of_range(void **state)
{
	struct rig *rig = *state;

	for (size_t i = 0; i < COUNT(ranges); i++) {
		rig_modify(rig->qp[0], IBV_QPS_RESET, 0);
		rig_modify(rig->qp[0], ranges[i].to - 1, rig->qp[0]->qp_num);
		if (modify_with(rig->qp[0], &ranges[i], ranges[i].bad) != EINVAL)
			fail_msg("range %zu", i);
		assert_int_equal(rig_state(rig->qp[0]), ranges[i].to - 1);
		assert_int_equal(modify_with(rig->qp[0], &ranges[i], ranges[i].good), 0);
		assert_int_equal(rig_state(rig->qp[0]), ranges[i].to);
	}
}

/* ibv_query_qp tells the attributes that were set, and not those that were refused or reset. */
static void query(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp *qp = rig->qp[0];
	struct ibv_qp_attr want = attributes(qp, 0, IBV_QPS_INIT), got;
	struct ibv_qp_init_attr init;

	want.path_mtu = IBV_MTU_2048;
	want.max_dest_rd_atomic = 5;
	want.max_rd_atomic = 6;
	want.min_rnr_timer = 7;
	want.timeout = 8;
	want.retry_cnt = 3;
	want.rnr_retry = 4;
	want.ah_attr.grh.traffic_class = 9;
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		want.qp_state = s;
		assert_int_equal(ibv_modify_qp(qp, &want, rig_mask(IBV_QPT_RC, s)), 0);
	}
	want.timeout = 20;
	RIG_REFUSED(ibv_modify_qp(qp, &want, IBV_QP_TIMEOUT));
	want.timeout = 8;
	assert_int_equal(ibv_query_qp(qp, &got, 0x1fffff, &init), 0);
	assert_int_equal(got.qp_state, IBV_QPS_RTS);
	assert_int_equal(got.cur_qp_state, IBV_QPS_RTS);
	assert_int_equal(got.port_num, 1);
	assert_int_equal(got.qp_access_flags, RIG_ALL);
	assert_int_equal(got.path_mtu, IBV_MTU_2048);
	assert_int_equal(got.dest_qp_num, qp->qp_num);
	assert_int_equal(got.rq_psn, want.rq_psn);
	assert_int_equal(got.sq_psn, want.sq_psn);
	assert_int_equal(got.max_dest_rd_atomic, 5);
	assert_int_equal(got.max_rd_atomic, 6);
	assert_int_equal(got.min_rnr_timer, 7);
	assert_int_equal(got.timeout, 8);
	assert_int_equal(got.retry_cnt, 3);
	assert_int_equal(got.rnr_retry, 4);
	assert_memory_equal(&got.ah_attr, &want.ah_attr, sizeof(want.ah_attr));
	want.min_rnr_timer = 12;
	assert_int_equal(ibv_modify_qp(qp, &want, IBV_QP_MIN_RNR_TIMER), 0);
	assert_int_equal(ibv_query_qp(qp, &got, 0x1fffff, &init), 0);
	assert_int_equal(got.min_rnr_timer, 12);
	assert_int_equal(got.timeout, 8);
	rig_modify(qp, IBV_QPS_RESET, 0);
	assert_int_equal(ibv_query_qp(qp, &got, 0x1fffff, &init), 0);
	assert_int_equal(got.dest_qp_num, 0);
	assert_int_equal(got.cap.max_send_wr, RIG_DEPTH);
}

/* Any number of rounds through all states, with traffic in each round. */
static void round_and_round(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = rig_region(rig->pd, 4096);

	for (uint64_t i = 0; i < 300; i++) {
		for (int q = 0; q < 2; q++)
			rig_modify(rig->qp[q], IBV_QPS_RESET, 0);
		for (int q = 0; q < 2; q++)
			rig_modify(rig->qp[q], IBV_QPS_RTS, rig->qp[!q]->qp_num);
		assert_int_equal(rig_receive(rig->qp[1], i, mr, mr->addr, 8), 0);
		assert_int_equal(rig_send(rig->qp[0], i, mr, mr->addr, 8), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, i);
	}
	rig_region_end(mr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_row, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(every_other_transition, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(wrong_current_state, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(bad_arguments, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(out_of_range, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(query, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(round_and_round, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("modify", tests, make_pool, remove_pool);
}
