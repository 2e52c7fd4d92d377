/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Two ends whose PSNs do not match: requests fail as with a card; with WEFT_PSN=lax they are carried out. */
#include <stdlib.h>

#include "rig.h"

#include "../abi/pool.h"

static void mismatch(void **state)
{
	bool lax = getenv("WEFT_PSN");
	struct rig *rig = *state;
	struct ibv_qp_attr attr = rig_attr(rig->context, IBV_QPS_RTS, 0), got;
	struct ibv_qp_init_attr init;

	rig_modify(rig->qp[0], IBV_QPS_RTR, rig->qp[1]->qp_num);
	rig_modify(rig->qp[1], IBV_QPS_RTS, rig->qp[0]->qp_num);
	attr.sq_psn++;
	attr.timeout = 1;
	attr.retry_cnt = 0;
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, RIG_RTS_MASK), 0);
	assert_int_equal(ibv_query_qp(rig->qp[0], &got, 0, &init), 0);
	assert_int_equal(got.sq_psn, attr.sq_psn);
	assert_int_equal(rig_send(rig->qp[0], 1, NULL, NULL, 0), 0);
	if (lax) {
		assert_int_equal(rig_receive(rig->qp[1], 2, NULL, NULL, 0), 0);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, 2);
	}
	rig_expect(rig->cq[0], lax ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(mismatch, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("psn", tests, make_pool, remove_pool);
}
