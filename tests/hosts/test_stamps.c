/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A completion whose producer is of another host has the time at which it was polled: another kernel counts from another moment. */
#include <stdlib.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "../revoke/writer.h"
#include "../verbs/rig.h"

#define PAUSE_US 200000u

static struct writer writer;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq_ex *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qp;

static void begin_queues(bool shared)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = RIG_DEPTH,
					   .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr init;

	cq = ibv_create_cq_ex(context, &attr);
	assert_non_null(cq);
	srq = shared ? ibv_create_srq(pd, &srq_init) : NULL;
	assert_true(srq || !shared);
	init = rig_init(ibv_cq_ex_to_cq(cq), ibv_cq_ex_to_cq(cq));
	init.srq = srq;
	qp = ibv_create_qp(pd, &init);
	assert_non_null(qp);
	rig_modify(qp, IBV_QPS_RTR, writer_await_ready(&writer));
}

/* One immediate value arrives while its receiver does not poll. */
static void receive_one(void)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = 7};

	assert_int_equal(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad), 0);
	writer.wire->counts = writer.wire->imports = writer.wire->large = false;
	writer.wire->numbered = true;
	writer.wire->qpn = qp->qp_num;
	writer_begin(&writer);
	writer_await_writes(&writer, 1);
	usleep(PAUSE_US);
}

static void end_queues(void)
{
	assert_int_equal(
		ibv_modify_qp(qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE), 0);
	writer_await_end(&writer);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	if (srq)
		assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* Of which stamps are. */
static uint64_t raw_clock_ns(void)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	assert_int_equal(ibv_query_rt_values_ex(context, &values), 0);
	return (uint64_t)values.raw_clock.tv_sec * 1000000000u + (uint64_t)values.raw_clock.tv_nsec;
}

static void stamped_as_polled(bool shared)
{
	struct ibv_poll_cq_attr poll = {0};
	uint64_t before_ns;

	begin_queues(shared);
	receive_one();
	before_ns = raw_clock_ns();
	assert_int_equal(ibv_start_poll(cq, &poll), 0);
	assert_int_equal(cq->status, IBV_WC_SUCCESS);
	assert_in_range(ibv_wc_read_completion_ts(cq), before_ns, raw_clock_ns());
	ibv_end_poll(cq);
	end_queues();
}

static void test_receive(void **state)
{
	stamped_as_polled(false);
}

static void test_shared_receive(void **state)
{
	stamped_as_polled(true);
}

static int begin(void **state)
{
	if (make_pool(state))
		return -1;
	writer_start(&writer, 1, 99);
	context = rig_context();
	pd = ibv_alloc_pd(context);
	return pd ? 0 : -1;
}

static int end(void **state)
{
	writer_kill(&writer);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	return remove_pool(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_receive),
		cmocka_unit_test(test_shared_receive),
	};

	return cmocka_run_group_tests_name("stamps", tests, begin, end);
}
