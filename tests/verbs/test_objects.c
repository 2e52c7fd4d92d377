/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Protection domains, completion queues and channels: one test a verb, each with its bad arguments. */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "../abi/pool.h"

/* ---- Protection domains ---- */

static void alloc_pd(void **state)
{
	struct ibv_context *context = rig_context();
	struct ibv_pd *pd[64];

	for (size_t i = 0; i < COUNT(pd); i++) {
		pd[i] = ibv_alloc_pd(context);
		assert_non_null(pd[i]);
		assert_ptr_equal(pd[i]->context, context);
	}
	for (size_t i = 0; i < COUNT(pd); i++)
		assert_int_equal(ibv_dealloc_pd(pd[i]), 0);
	assert_int_equal(ibv_close_device(context), 0);
	errno = 0;
	assert_null(ibv_alloc_pd(context)); /* a context that is closed */
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_alloc_pd(NULL));
	assert_int_equal(errno, EINVAL);
}

static void dealloc_pd(void **state)
{
	struct rig *rig = *state;
	struct ibv_pd *gone = ibv_alloc_pd(rig->context), *busy = ibv_alloc_pd(rig->context);
	struct ibv_mr *mr = rig_region(busy, 4096);

	assert_int_equal(ibv_dealloc_pd(gone), 0);
	RIG_REFUSED(ibv_dealloc_pd(gone));
	RIG_REFUSED(ibv_dealloc_pd(NULL));
	RIG_REFUSED(ibv_dealloc_pd((struct ibv_pd *)rig->cq[0]));
	assert_int_equal(ibv_dealloc_pd(busy), EBUSY);
	rig_region_end(mr);
	assert_int_equal(ibv_dealloc_pd(busy), 0);
	assert_int_equal(ibv_dealloc_pd(rig->pd), EBUSY); /* while it has queue pairs */
}

/* ---- Completion queues ---- */

static void refuse_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
		      int vector)
{
	errno = 0;
	assert_null(ibv_create_cq(context, cqe, NULL, channel, vector));
	assert_int_equal(errno, EINVAL);
}

static void create_cq(void **state)
{
	static const int sizes[] = {1, 2, 15, 16, 17, 1000, 65536};
	struct rig *rig = *state;
	struct ibv_context *other = rig_context();
	struct ibv_comp_channel *foreign = ibv_create_comp_channel(other);
	struct ibv_device_attr limits;
	struct ibv_cq *cq;

	assert_int_equal(ibv_query_device(rig->context, &limits), 0);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		cq = ibv_create_cq(rig->context, sizes[i], rig, NULL, 0);
		assert_non_null(cq);
		assert_true(cq->cqe >= sizes[i]);
		assert_ptr_equal(cq->cq_context, rig);
		assert_ptr_equal(cq->context, rig->context);
		rig_none(cq);
		assert_int_equal(ibv_destroy_cq(cq), 0);
	}
	for (int v = 0; v < rig->context->num_comp_vectors; v++) {
		cq = ibv_create_cq(rig->context, 1, NULL, rig->channel, v);
		assert_non_null(cq);
		assert_int_equal(ibv_destroy_cq(cq), 0);
	}
	refuse_cq(rig->context, 0, NULL, 0);
	refuse_cq(rig->context, -1, NULL, 0);
	refuse_cq(rig->context, INT_MIN, NULL, 0);
	refuse_cq(rig->context, limits.max_cqe + 1, NULL, 0);
	refuse_cq(rig->context, 1, NULL, -1);
	refuse_cq(rig->context, 1, NULL, rig->context->num_comp_vectors);
	refuse_cq(rig->context, 1, foreign, 0);
	refuse_cq(rig->context, 1, (struct ibv_comp_channel *)rig->pd, 0);
	refuse_cq(NULL, 1, NULL, 0);
	assert_int_equal(ibv_destroy_comp_channel(foreign), 0);
	refuse_cq(other, 1, foreign, 0);
	assert_int_equal(ibv_close_device(other), 0);
	refuse_cq(other, 1, NULL, 0);
}

static void destroy_cq(void **state)
{
	struct rig *rig = *state;
	struct ibv_cq *gone = ibv_create_cq(rig->context, 1, NULL, NULL, 0);

	assert_int_equal(ibv_destroy_cq(gone), 0);
	RIG_REFUSED(ibv_destroy_cq(gone));
	RIG_REFUSED(ibv_destroy_cq(NULL));
	RIG_REFUSED(ibv_destroy_cq((struct ibv_cq *)rig->pd));
	assert_int_equal(ibv_destroy_cq(rig->cq[0]), EBUSY);
	rig_none(rig->cq[0]); /* the refused call has not ended it */
	assert_int_equal(ibv_destroy_qp(rig->qp[0]), 0);
	rig->qp[0] = NULL;
	assert_int_equal(ibv_destroy_cq(rig->cq[0]), 0);
	rig->cq[0] = NULL;
}

/* A queue that has only send completions of a queue pair, or only receive completions, is in use as well. */
static void destroy_cq_of_either_kind(void **state)
{
	struct rig *rig = *state;
	struct ibv_cq *cq[2] = {ibv_create_cq(rig->context, 1, NULL, NULL, 0),
				ibv_create_cq(rig->context, 1, NULL, NULL, 0)};
	struct ibv_qp_init_attr init = rig_init(cq[0], cq[1]);
	struct ibv_qp *qp = ibv_create_qp(rig->pd, &init);

	assert_non_null(qp);
	assert_int_equal(ibv_destroy_cq(cq[0]), EBUSY);
	assert_int_equal(ibv_destroy_cq(cq[1]), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq[0]), 0);
	assert_int_equal(ibv_destroy_cq(cq[1]), 0);
}

/* Completions survive growing and shrinking; fewer entries than completions are refused. */
static void resize_cq(void **state)
{
	struct rig *rig = *state;
	struct ibv_cq *gone = ibv_create_cq(rig->context, 1, NULL, NULL, 0);
	struct ibv_mr *mr = rig_region(rig->pd, 4096);
	struct ibv_device_attr limits;
	int before = rig->cq[0]->cqe;

	assert_int_equal(ibv_query_device(rig->context, &limits), 0);
	for (uint64_t i = 0; i < 40; i++)
		assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE, i, mr, mr->addr, 8,
					  (uintptr_t)mr->addr + 64, mr->rkey),
				 0);
	RIG_REFUSED(ibv_resize_cq(rig->cq[0], 0));
	RIG_REFUSED(ibv_resize_cq(rig->cq[0], -1));
	RIG_REFUSED(ibv_resize_cq(rig->cq[0], 16)); /* it holds more completions */
	RIG_REFUSED(ibv_resize_cq(rig->cq[0], limits.max_cqe + 1));
	assert_int_equal(rig->cq[0]->cqe, before);
	for (uint64_t i = 0; i < 40; i++) {
		static const int sizes[] = {1000, 40, 4000, 64};
		int size = sizes[i % COUNT(sizes)];

		assert_int_equal(ibv_resize_cq(rig->cq[0], size), 0);
		assert_true(rig->cq[0]->cqe >= size);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
	}
	rig_none(rig->cq[0]);
	rig_region_end(mr);
	RIG_REFUSED(ibv_resize_cq(NULL, 1));
	RIG_REFUSED(ibv_resize_cq((struct ibv_cq *)rig->pd, 1));
	assert_int_equal(ibv_destroy_cq(gone), 0);
	RIG_REFUSED(ibv_resize_cq(gone, 100));
}

static void poll_cq(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = rig_region(rig->pd, 4096);
	struct ibv_wc wc[32];
	uint64_t next = 0;

	assert_int_equal(ibv_poll_cq(rig->cq[0], 1, wc), 0);
	for (uint64_t i = 0; i < 21; i++)
		assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE, i, mr, mr->addr, 8,
					  (uintptr_t)mr->addr + 64, mr->rkey),
				 0);
	assert_int_equal(ibv_poll_cq(rig->cq[0], 0, wc), 0);
	for (int want = 1, got; (got = ibv_poll_cq(rig->cq[0], want, wc)) > 0; want++)
		for (int i = 0; i < got; i++) {
			assert_int_equal(wc[i].wr_id, next++);
			assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
			assert_int_equal(wc[i].opcode, IBV_WC_RDMA_WRITE);
			assert_int_equal(wc[i].qp_num, rig->qp[0]->qp_num);
		}
	assert_int_equal(next, 21);
	rig_region_end(mr);
}

/* ---- Channels ---- */

static void create_channel(void **state)
{
	struct ibv_context *context = rig_context();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct pollfd fd;

	assert_non_null(channel);
	assert_ptr_equal(channel->context, context);
	assert_true(fcntl(channel->fd, F_GETFD) & FD_CLOEXEC);
	fd = (struct pollfd){channel->fd, POLLIN, 0};
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	assert_int_equal(fcntl(fd.fd, F_GETFD), -1);
	RIG_REFUSED(ibv_destroy_comp_channel(channel));
	RIG_REFUSED(ibv_destroy_comp_channel(NULL));
	assert_int_equal(ibv_close_device(context), 0);
	errno = 0;
	assert_null(ibv_create_comp_channel(context));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_create_comp_channel(NULL));
	assert_int_equal(errno, EINVAL);
}

static void destroy_channel(void **state)
{
	struct rig *rig = *state;

	RIG_REFUSED(ibv_destroy_comp_channel((struct ibv_comp_channel *)rig->cq[0]));
	assert_int_equal(ibv_destroy_comp_channel(rig->channel), EBUSY);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(rig->qp[i]), 0);
		assert_int_equal(ibv_destroy_comp_channel(rig->channel), EBUSY);
		assert_int_equal(ibv_destroy_cq(rig->cq[i]), 0);
		rig->cq[i] = NULL;
		rig->qp[i] = NULL;
	}
}

static void bad_event_arguments(void **state)
{
	struct ibv_context *context = rig_context();
	struct ibv_comp_channel *gone = ibv_create_comp_channel(context);
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *arg;

	assert_int_equal(ibv_destroy_comp_channel(gone), 0);
	errno = 0;
	assert_int_equal(ibv_get_cq_event(gone, &cq, &arg), -1);
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_int_equal(ibv_get_cq_event(NULL, &cq, &arg), -1);
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_int_equal(ibv_get_async_event(context, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_close_device(context), 0);
	errno = 0;
	assert_int_equal(ibv_get_async_event(context, &event), -1);
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_int_equal(ibv_get_async_event(NULL, &event), -1);
	assert_int_equal(errno, EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alloc_pd),
		cmocka_unit_test_setup_teardown(dealloc_pd, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(create_cq, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(destroy_cq, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(destroy_cq_of_either_kind, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(resize_cq, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(poll_cq, rig_setup_connected, rig_teardown),
		cmocka_unit_test(create_channel),
		cmocka_unit_test_setup_teardown(destroy_channel, rig_setup, rig_teardown),
		cmocka_unit_test(bad_event_arguments),
	};

	return cmocka_run_group_tests_name("objects", tests, make_pool, remove_pool);
}
