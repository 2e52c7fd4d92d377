/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queue pairs: creation with its limits, queries, destruction. */
#include "rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../abi/pool.h"

static void refuse(struct ibv_pd *pd, struct ibv_qp_init_attr *init, int error)
{
	errno = 0;
	assert_null(ibv_create_qp(pd, init));
	assert_int_equal(errno, error);
}

static void create(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_init_attr init = rig_init(rig->cq[0], rig->cq[1]);
	struct ibv_qp *qp[300];

	init.qp_context = rig;
	for (size_t i = 0; i < COUNT(qp); i++) {
		qp[i] = ibv_create_qp(rig->pd, &init);
		assert_non_null(qp[i]);
		assert_ptr_equal(qp[i]->qp_context, rig);
		assert_ptr_equal(qp[i]->pd, rig->pd);
		assert_ptr_equal(qp[i]->send_cq, rig->cq[0]);
		assert_ptr_equal(qp[i]->recv_cq, rig->cq[1]);
		assert_int_equal(qp[i]->qp_type, IBV_QPT_RC);
		assert_int_equal(qp[i]->state, IBV_QPS_RESET);
		/* numbers 0 and 1 are those of the management queue pairs */
		assert_in_range(qp[i]->qp_num, 2, 0xffffff);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(qp[i]->qp_num, qp[k]->qp_num);
	}
	for (size_t i = 0; i < COUNT(qp); i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
}

static void bad_arguments(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *other = rig_context();
	struct ibv_pd *gone = ibv_alloc_pd(rig->context), *foreign = ibv_alloc_pd(other);
	struct ibv_cq *cq = ibv_create_cq(rig->context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = rig_init(rig->cq[0], rig->cq[0]);

	assert_int_equal(ibv_dealloc_pd(gone), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	refuse(rig->pd, NULL, EINVAL);
	refuse(NULL, &init, EINVAL);
	refuse(gone, &init, EINVAL);
	refuse(foreign, &init, EINVAL);
	refuse((struct ibv_pd *)rig->cq[0], &init, EINVAL);
	struct ibv_cq *const bad[] = {NULL, cq, (struct ibv_cq *)rig->pd};

	for (size_t i = 0; i < COUNT(bad); i++) {
		init = rig_init(bad[i], rig->cq[0]);
		refuse(rig->pd, &init, EINVAL);
		init = rig_init(rig->cq[0], bad[i]);
		refuse(rig->pd, &init, EINVAL);
	}
	init = rig_init(rig->cq[0], rig->cq[0]);
	init.srq = (struct ibv_srq *)rig->pd;
	refuse(rig->pd, &init, EINVAL);
	init.srq = NULL;
	init.qp_type = (enum ibv_qp_type)77;
	refuse(rig->pd, &init, EINVAL);
	init.qp_type = IBV_QPT_RAW_PACKET;
	refuse(rig->pd, &init, EOPNOTSUPP);
	assert_int_equal(ibv_dealloc_pd(foreign), 0);
	assert_int_equal(ibv_close_device(other), 0);
}

static void expect_cap(struct rig *rig, struct ibv_qp_cap cap, bool possible)
{
	struct ibv_qp_init_attr init = rig_init(rig->cq[0], rig->cq[0]), told;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	init.cap = cap;
	errno = 0;
	qp = ibv_create_qp(rig->pd, &init);
	assert_int_equal(!!qp, possible);
	if (!qp) {
		assert_true(errno == EINVAL || errno == ENOMEM);
		assert_memory_equal(&init.cap, &cap, sizeof(cap));
		return;
	}
	assert_true(init.cap.max_send_wr >= cap.max_send_wr);
	assert_true(init.cap.max_recv_wr >= cap.max_recv_wr);
	assert_true(init.cap.max_send_sge >= cap.max_send_sge);
	assert_true(init.cap.max_recv_sge >= cap.max_recv_sge);
	assert_true(init.cap.max_inline_data >= cap.max_inline_data);
	/* rdma_xclient asks for no inline bytes, and sends as many inline as max_send_sge's elements take in
	 * a slot */
	assert_true(init.cap.max_inline_data >= cap.max_send_sge * sizeof(struct ibv_sge));
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &told), 0);
	assert_memory_equal(&told.cap, &init.cap, sizeof(cap));
	assert_memory_equal(&attr.cap, &init.cap, sizeof(cap));
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void capabilities(void **state)
{
	struct rig *rig = *state;
	struct ibv_device_attr limits;
	uint32_t wr, sge;

	assert_int_equal(ibv_query_device(rig->context, &limits), 0);
	wr = (uint32_t)limits.max_qp_wr;
	sge = (uint32_t)limits.max_sge;
	const struct {
		struct ibv_qp_cap cap;
		bool possible;
	} cases[] = {
		{{0, 0, 0, 0, 0}, true},	   {{1, 1, 1, 1, 1}, true},
		{{3, 5, 7, 9, 11}, true},	   {{wr, 1, 1, 1, 0}, true},
		{{1, wr, 1, 1, 0}, true},	   {{1, 1, sge, sge, 0}, true},
		{{wr, wr, sge, sge, 0}, true},	   {{wr + 1, 1, 1, 1, 0}, false},
		{{1, wr + 1, 1, 1, 0}, false},	   {{1, 1, sge + 1, 1, 0}, false},
		{{1, 1, 1, sge + 1, 0}, false},	   {{UINT32_MAX, 1, 1, 1, 0}, false},
		{{1, UINT32_MAX, 1, 1, 0}, false}, {{1, 1, UINT32_MAX, 1, 0}, false},
		{{1, 1, 1, UINT32_MAX, 0}, false}, {{1, 1, 1, 1, UINT32_MAX}, false},
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		expect_cap(rig, cases[i].cap, cases[i].possible);
}

/* libfabric finds the limit so: it doubles max_inline_data until that is refused, then bisects. */
static void inline_limit(void **state)
{
	struct rig *rig = *state;
	uint32_t good = 0, bad = 1;

	for (;;) {
		struct ibv_qp_init_attr init = rig_init(rig->cq[0], rig->cq[0]);
		struct ibv_qp *qp;

		assert_true(bad <= 1u << 20); /* there must be a limit */
		init.cap.max_inline_data = bad;
		qp = ibv_create_qp(rig->pd, &init);
		if (!qp)
			break;
		assert_true(init.cap.max_inline_data >= bad);
		good = bad;
		bad *= 2;
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
	assert_true(good >= 256);
	expect_cap(rig, (struct ibv_qp_cap){1, 1, 1, 1, good}, true);
	expect_cap(rig, (struct ibv_qp_cap){1, 1, 1, 1, good + 1}, false);
}

static void query(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_init_attr want = rig_init(rig->cq[0], rig->cq[1]), init;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	want.qp_context = rig;
	want.sq_sig_all = 1;
	qp = ibv_create_qp(rig->pd, &want);
	assert_non_null(qp);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RESET);
	assert_ptr_equal(init.qp_context, rig);
	assert_ptr_equal(init.send_cq, rig->cq[0]);
	assert_ptr_equal(init.recv_cq, rig->cq[1]);
	assert_null(init.srq);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	assert_int_equal(init.sq_sig_all, 1);
	RIG_REFUSED(ibv_query_qp(NULL, &attr, 0, &init));
	RIG_REFUSED(ibv_query_qp((struct ibv_qp *)rig->pd, &attr, 0, &init));
	RIG_REFUSED(ibv_query_qp(qp, NULL, 0, &init));
	RIG_REFUSED(ibv_query_qp(qp, &attr, 0, NULL));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	RIG_REFUSED(ibv_query_qp(qp, &attr, 0, &init));
}

static void destroy(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp *gone = rig->qp[0];

	RIG_REFUSED(ibv_destroy_qp(NULL));
	RIG_REFUSED(ibv_destroy_qp((struct ibv_qp *)rig->cq[0]));
	assert_int_equal(ibv_destroy_qp(gone), 0);
	rig->qp[0] = NULL;
	RIG_REFUSED(ibv_destroy_qp(gone));
}

/* Destroying a queue pair discards its outstanding requests and its completions: neither completion queue
 * tells of them. */
static void destroy_with_work(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = rig_region(rig->pd, 4096);

	for (uint64_t i = 0; i < 5; i++) {
		assert_int_equal(rig_receive(rig->qp[1], i, mr, mr->addr, 64), 0);
		assert_int_equal(rig_send(rig->qp[0], i, mr, mr->addr, 64), 0);
	}
	/* besides those completed and not polled: a SEND that waits for a receive, and a receive that nothing
	 * arrives for */
	assert_int_equal(rig_send(rig->qp[0], 5, mr, mr->addr, 64), 0);
	assert_int_equal(rig_receive(rig->qp[0], 6, mr, mr->addr, 64), 0);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(rig->qp[i]), 0);
		rig->qp[i] = NULL;
		rig_none(rig->cq[i]);
	}
	rig_region_end(mr);
}

/* A number is used again only after many others, so that a stale one reaches no other queue pair. */
static void numbers(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_init_attr init = rig_init(rig->cq[0], rig->cq[1]);
	static bool seen[1 << 24];

	for (int i = 0; i < 3000; i++) {
		struct ibv_qp *qp = ibv_create_qp(rig->pd, &init);

		assert_non_null(qp);
		assert_false(seen[qp->qp_num]);
		seen[qp->qp_num] = true;
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

/* A receive that a queue pair has consumed is not consumed again after its peer was connected elsewhere for a
 * while. */
static void receives_stay_used(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp *qp = rig->qp[0];
	struct ibv_mr *mr = rig_region(rig->pd, 4096);

	for (uint64_t i = 1; i <= 2; i++)
		assert_int_equal(rig_receive(rig->qp[1], i, mr, mr->addr, 64), 0);
	assert_int_equal(rig_send(qp, 3, mr, mr->addr, 64), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 3);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 1);
	rig_modify(qp, IBV_QPS_RESET, 0);
	rig_modify(qp, IBV_QPS_RTS, qp->qp_num);
	assert_int_equal(rig_rdma(qp, IBV_WR_RDMA_WRITE, 4, mr, mr->addr, 8,
				  (uintptr_t)mr->addr + 64, mr->rkey),
			 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 4);
	rig_modify(qp, IBV_QPS_RESET, 0);
	rig_modify(qp, IBV_QPS_RTS, rig->qp[1]->qp_num);
	assert_int_equal(rig_send(qp, 5, mr, mr->addr, 64), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 5);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 2);
	rig_region_end(mr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(create, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(bad_arguments, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(capabilities, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(inline_limit, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(query, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(destroy, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(destroy_with_work, rig_setup_connected,
						rig_teardown),
		cmocka_unit_test_setup_teardown(numbers, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(receives_stay_used, rig_setup_connected,
						rig_teardown),
	};

	return cmocka_run_group_tests_name("qp", tests, make_pool, remove_pool);
}
