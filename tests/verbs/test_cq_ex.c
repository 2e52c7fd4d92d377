/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Extended completion queues: each field, timestamps, flags, and what is refused. */
#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "../abi/pool.h"

#define STANDARD                                                                                   \
	(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |                    \
	 IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |                         \
	 IBV_WC_EX_WITH_DLID_PATH_BITS)
#define STAMPS (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

/* Two queue pairs on one extended queue, connected. */
struct pair {
	struct rig *rig;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
};

static struct pair pair_open(struct rig *rig, struct ibv_cq_init_attr_ex attr)
{
	struct pair p = {.rig = rig, .cq = ibv_create_cq_ex(rig->context, &attr)};

	assert_non_null(p.cq);
	for (int i = 0; i < 2; i++) {
		struct ibv_cq *cq = ibv_cq_ex_to_cq(p.cq);
		struct ibv_qp_init_attr init = rig_init(cq, cq);

		p.qp[i] = ibv_create_qp(rig->pd, &init);
		assert_non_null(p.qp[i]);
	}
	rig_modify(p.qp[0], IBV_QPS_RTS, p.qp[1]->qp_num);
	rig_modify(p.qp[1], IBV_QPS_RTS, p.qp[0]->qp_num);
	p.mr = rig_region(rig->pd, 4096);
	return p;
}

static void pair_close(struct pair *p)
{
	rig_region_end(p->mr);
	assert_int_equal(ibv_destroy_qp(p->qp[0]), 0);
	assert_int_equal(ibv_destroy_qp(p->qp[1]), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(p->cq)), 0);
}

static void send(struct pair *p, uint64_t wr_id)
{
	assert_int_equal(rig_receive(p->qp[1], wr_id + 1, p->mr, p->mr->addr, 64), 0);
	assert_int_equal(
		rig_rdma(p->qp[0], IBV_WR_SEND_WITH_IMM, wr_id, p->mr, p->mr->addr, 33, 0, 0), 0);
}

static const struct ibv_cq_init_attr_ex usual = {.cqe = 64, .wc_flags = STANDARD};

static void fields(void **state)
{
	struct pair p = pair_open(*state, usual);
	struct ibv_poll_cq_attr poll = {0};
	bool sent = false, received = false;

	assert_int_equal(ibv_start_poll(p.cq, &poll), ENOENT);
	/* although the poll before found nothing, it needs no ibv_end_poll() */
	assert_int_equal(ibv_start_poll(p.cq, &poll), ENOENT);
	send(&p, 7);
	assert_int_equal(ibv_start_poll(p.cq, &poll), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(p.cq->status, IBV_WC_SUCCESS);
		assert_int_equal(ibv_wc_read_vendor_err(p.cq), 0);
		assert_int_equal(ibv_wc_read_slid(p.cq), 0);
		assert_int_equal(ibv_wc_read_sl(p.cq), 0);
		assert_int_equal(ibv_wc_read_dlid_path_bits(p.cq), 0);
		if (p.cq->wr_id == 7) {
			sent = true;
			assert_int_equal(ibv_wc_read_opcode(p.cq), IBV_WC_SEND);
			assert_int_equal(ibv_wc_read_qp_num(p.cq), p.qp[0]->qp_num);
			assert_int_equal(ibv_wc_read_wc_flags(p.cq), 0);
		} else {
			received = true;
			assert_int_equal(p.cq->wr_id, 8);
			assert_int_equal(ibv_wc_read_opcode(p.cq), IBV_WC_RECV);
			assert_int_equal(ibv_wc_read_byte_len(p.cq), 33);
			assert_int_equal(ibv_wc_read_wc_flags(p.cq), IBV_WC_WITH_IMM);
			assert_int_equal(ibv_wc_read_imm_data(p.cq), 0);
			assert_int_equal(ibv_wc_read_qp_num(p.cq), p.qp[1]->qp_num);
			assert_int_equal(ibv_wc_read_src_qp(p.cq), p.qp[0]->qp_num);
		}
		assert_int_equal(ibv_next_poll(p.cq), i ? ENOENT : 0);
	}
	ibv_end_poll(p.cq);
	assert_true(sent && received);
	pair_close(&p);
}

/* An extended completion queue is a completion queue, too: it can be resized and polled as any other, and
 * errors have their status. */
static void as_a_queue(void **state)
{
	struct pair p = pair_open(*state, usual);
	struct ibv_poll_cq_attr poll = {0};
	struct ibv_cq *cq = ibv_cq_ex_to_cq(p.cq);

	assert_int_equal(ibv_resize_cq(cq, 100), 0);
	assert_true(cq->cqe >= 100);
	assert_int_equal(rig_rdma(p.qp[0], IBV_WR_RDMA_WRITE, 1, p.mr, p.mr->addr, 8,
				  (uintptr_t)p.mr->addr, p.mr->rkey),
			 0);
	rig_expect(cq, IBV_WC_SUCCESS, 1);
	assert_int_equal(
		rig_rdma(p.qp[0], IBV_WR_RDMA_WRITE, 2, p.mr, p.mr->addr, 8, 0, p.mr->rkey), 0);
	assert_int_equal(ibv_start_poll(p.cq, &poll), 0);
	assert_int_equal(p.cq->status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(p.cq->wr_id, 2);
	assert_int_equal(ibv_wc_read_qp_num(p.cq), p.qp[0]->qp_num);
	ibv_end_poll(p.cq);
	pair_close(&p);
}

static uint64_t raw_clock(struct ibv_context *context)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	assert_int_equal(ibv_query_rt_values_ex(context, &values), 0);
	assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	return (uint64_t)values.raw_clock.tv_sec * 1000000000u + (uint64_t)values.raw_clock.tv_nsec;
}

static uint64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A stamp is the time at which the request completed, not that of the poll; on either side. */
static void stamps(void **state)
{
	struct rig *rig = *state;
	struct pair p = pair_open(rig, (struct ibv_cq_init_attr_ex){.cqe = 64, .wc_flags = STAMPS});
	struct ibv_poll_cq_attr poll = {0};
	uint64_t before = raw_clock(rig->context), wall = wall_ns(), after;

	send(&p, 1);
	after = raw_clock(rig->context);
	nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
	assert_int_equal(ibv_start_poll(p.cq, &poll), 0);
	for (int i = 0; i < 2; i++) {
		uint64_t at = ibv_wc_read_completion_ts(p.cq);
		int64_t late = (int64_t)(ibv_wc_read_completion_wallclock_ns(p.cq) - wall);

		assert_true(at >= before && at <= after);
		/* within a millisecond, as the clocks are not read at one instant */
		assert_true(late > -1000000 && late < (int64_t)(after - before) + 1000000);
		assert_int_equal(ibv_next_poll(p.cq), i ? ENOENT : 0);
	}
	ibv_end_poll(p.cq);
	/* the flushed receive has one, too */
	assert_int_equal(rig_receive(p.qp[1], 5, p.mr, p.mr->addr, 64), 0);
	before = raw_clock(rig->context);
	rig_modify(p.qp[1], IBV_QPS_ERR, 0);
	assert_int_equal(ibv_start_poll(p.cq, &poll), 0);
	assert_int_equal(p.cq->status, IBV_WC_WR_FLUSH_ERR);
	assert_true(ibv_wc_read_completion_ts(p.cq) >= before);
	ibv_end_poll(p.cq);
	pair_close(&p);
}

/* A completion that was moved from a producer's ring into the private queue, as its queue pair failed, keeps
 * its stamp. */
static void stamps_of_drained(void **state)
{
	struct rig *rig = *state;
	struct pair p = pair_open(rig, (struct ibv_cq_init_attr_ex){.cqe = 64, .wc_flags = STAMPS});
	struct ibv_poll_cq_attr poll = {0};
	uint64_t after;

	send(&p, 1);
	after = raw_clock(rig->context);
	rig_modify(p.qp[1], IBV_QPS_ERR, 0);
	assert_int_equal(ibv_start_poll(p.cq, &poll), 0);
	do
		assert_in_range(ibv_wc_read_completion_ts(p.cq), 1, after);
	while (!ibv_next_poll(p.cq));
	ibv_end_poll(p.cq);
	pair_close(&p);
}

static void overrun(void **state)
{
	struct rig *rig = *state;
	struct pair p = pair_open(
		rig, (struct ibv_cq_init_attr_ex){.cqe = 1,
						  .wc_flags = STANDARD,
						  .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
						  .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN |
							   IBV_CREATE_CQ_ATTR_SINGLE_THREADED});
	struct ibv_poll_cq_attr poll = {0};
	int n = 0;

	for (int i = 0; i < p.cq->cqe + 5; i++)
		assert_int_equal(rig_rdma(p.qp[0], IBV_WR_RDMA_WRITE, 1, p.mr, p.mr->addr, 8,
					  (uintptr_t)p.mr->addr, p.mr->rkey),
				 0);
	assert_int_equal(ibv_start_poll(p.cq, &poll), 0);
	do
		n++;
	while (!ibv_next_poll(p.cq));
	ibv_end_poll(p.cq);
	assert_int_equal(n, p.cq->cqe);
	assert_int_equal(rig_state(p.qp[0]), IBV_QPS_RTS); /* no request failed because of it */
	pair_close(&p);
}

static void refuse(struct ibv_context *context, struct ibv_cq_init_attr_ex attr, int err)
{
	errno = 0;
	assert_null(ibv_create_cq_ex(context, &attr));
	assert_int_equal(errno, err);
}

static void refused(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *c = rig->context;
	struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE};
	struct ibv_poll_cq_attr poll = {.comp_mask = 1};
	struct ibv_cq_ex *cq;

	refuse(c, (struct ibv_cq_init_attr_ex){.cqe = 0}, EINVAL);
	refuse(c, (struct ibv_cq_init_attr_ex){.cqe = UINT32_MAX}, EINVAL);
	refuse(c, (struct ibv_cq_init_attr_ex){.cqe = 1, .comp_vector = UINT32_MAX}, EINVAL);
	refuse(c,
	       (struct ibv_cq_init_attr_ex){.cqe = 1, .comp_vector = (uint32_t)c->num_comp_vectors},
	       EINVAL);
	refuse(c, (struct ibv_cq_init_attr_ex){.cqe = 1, .channel = (void *)rig->pd}, EINVAL);
	refuse(c, (struct ibv_cq_init_attr_ex){.cqe = 1, .wc_flags = IBV_WC_EX_WITH_CVLAN},
	       EOPNOTSUPP);
	refuse(c, (struct ibv_cq_init_attr_ex){.cqe = 1, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG},
	       EOPNOTSUPP);
	refuse(c, (struct ibv_cq_init_attr_ex){.cqe = 1, .wc_flags = IBV_WC_EX_WITH_TM_INFO},
	       EOPNOTSUPP);
	refuse(c, (struct ibv_cq_init_attr_ex){.cqe = 1, .wc_flags = 1ull << 40}, EOPNOTSUPP);
	refuse(c, (struct ibv_cq_init_attr_ex){.cqe = 1, .comp_mask = 1 << 5}, EOPNOTSUPP);
	refuse(c,
	       (struct ibv_cq_init_attr_ex){
		       .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 1 << 5},
	       EOPNOTSUPP);
	refuse(c, (struct ibv_cq_init_attr_ex){.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD},
	       EINVAL);
	errno = 0;
	assert_null(ibv_create_cq_ex(c, NULL));
	assert_int_equal(errno, EINVAL);
	cq = ibv_create_cq_ex(c, &(struct ibv_cq_init_attr_ex){.cqe = 1});
	assert_non_null(cq);
	assert_int_equal(ibv_start_poll(cq, &poll), EINVAL);
	assert_int_equal(ibv_modify_cq(ibv_cq_ex_to_cq(cq), &moderation), EOPNOTSUPP);
	/* fields for which wc_flags have no bit read as 0 */
	assert_int_equal(ibv_wc_read_cvlan(cq), 0);
	assert_int_equal(ibv_wc_read_flow_tag(cq), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	RIG_REFUSED(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

static void rt_values(void **state)
{
	struct rig *rig = *state;
	struct ibv_values_ex values = {.comp_mask = 1 << 7};
	struct ibv_device_attr_ex attr;
	uint64_t t = raw_clock(rig->context);

	nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	assert_true(raw_clock(rig->context) - t >= 10000000);
	assert_int_equal(ibv_query_rt_values_ex(rig->context, &values), EINVAL);
	assert_int_equal(ibv_query_device_ex(rig->context, NULL, &attr), 0);
	assert_int_equal(attr.hca_core_clock, 1000000);
	assert_true(attr.completion_timestamp_mask == UINT64_MAX);
}

/* Several threads poll: from ibv_start_poll() to ibv_end_poll() the queue is one thread's alone. */
struct crowd {
	struct pair *pair;
	_Atomic int reading, got;
	int all;
};

static void *poll_all(void *arg)
{
	struct crowd *crowd = arg;
	struct ibv_poll_cq_attr poll = {0};
	uint64_t deadline = rig_now_ns() + 20000000000u;

	while (crowd->got < crowd->all && rig_now_ns() < deadline) {
		if (ibv_start_poll(crowd->pair->cq, &poll))
			continue;
		assert_int_equal(crowd->reading++, 0);
		do
			crowd->got++;
		while (!ibv_next_poll(crowd->pair->cq));
		crowd->reading--;
		ibv_end_poll(crowd->pair->cq);
	}
	return NULL;
}

static void threads(void **state)
{
	struct pair p = pair_open(*state, usual);
	struct crowd crowd = {.pair = &p, .all = 20000};
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, poll_all, &crowd);
	for (int n = 0; n < crowd.all;)
		if (!rig_rdma(p.qp[0], IBV_WR_RDMA_WRITE, 1, p.mr, p.mr->addr, 8,
			      (uintptr_t)p.mr->addr, p.mr->rkey))
			n++;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(crowd.got, crowd.all);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(fields, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(as_a_queue, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(stamps, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(stamps_of_drained, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(overrun, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(refused, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(rt_values, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(threads, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("cq_ex", tests, make_pool, remove_pool);
}
