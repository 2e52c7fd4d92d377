/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Extended queue pairs: each ibv_wr_* function by its effect; a list that was aborted or has failed has
 * none. */
#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "../abi/pool.h"

#define ALL_OPS                                                                                    \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |    \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                                 \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

/* An extended queue pair, connected to an ordinary one; memory of 4 pages: two for each side. */
struct pair {
	struct rig *rig;
	struct ibv_qp *qp, *other;
	struct ibv_qp_ex *ex;
	struct ibv_mr *mr;
	uint8_t *here, *there;
};

static struct ibv_qp_init_attr_ex attr_of(struct rig *rig)
{
	struct ibv_qp_init_attr usual = rig_init(rig->cq[0], rig->cq[0]);
	struct ibv_qp_init_attr_ex attr;

	memset(&attr, 0, sizeof(attr));
	memcpy(&attr, &usual, sizeof(usual));
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.pd = rig->pd;
	attr.send_ops_flags = ALL_OPS;
	return attr;
}

static struct pair pair_open(struct rig *rig)
{
	struct ibv_qp_init_attr_ex attr = attr_of(rig);
	struct pair p = {.rig = rig, .other = rig->qp[1]};

	p.qp = ibv_create_qp_ex(rig->context, &attr);
	assert_non_null(p.qp);
	p.ex = ibv_qp_to_qp_ex(p.qp);
	assert_non_null(p.ex);
	rig_modify(p.qp, IBV_QPS_RTS, p.other->qp_num);
	rig_modify(p.other, IBV_QPS_RTS, p.qp->qp_num);
	p.mr = rig_region(rig->pd, 16384);
	p.here = p.mr->addr;
	p.there = p.here + 8192;
	for (int i = 0; i < 8192; i++)
		p.here[i] = (uint8_t)(i * 7 + 1);
	return p;
}

static void pair_close(struct pair *p)
{
	rig_region_end(p->mr);
	assert_int_equal(ibv_destroy_qp(p->qp), 0);
}

static void start(struct pair *p, uint64_t wr_id)
{
	ibv_wr_start(p->ex);
	p->ex->wr_id = wr_id;
	p->ex->wr_flags = IBV_SEND_SIGNALED;
}

static void set(struct pair *p, const void *at, uint32_t len)
{
	ibv_wr_set_sge(p->ex, p->mr->lkey, (uintptr_t)at, len);
}

static void done(struct pair *p, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	assert_int_equal(ibv_wr_complete(p->ex), 0);
	assert_int_equal(rig_expect(p->rig->cq[0], IBV_WC_SUCCESS, wr_id).opcode, opcode);
}

static void rdma(void **state)
{
	struct pair p = pair_open(*state);
	struct ibv_wc wc;

	start(&p, 1);
	ibv_wr_rdma_write(p.ex, p.mr->rkey, (uintptr_t)p.there);
	set(&p, p.here, 100);
	done(&p, 1, IBV_WC_RDMA_WRITE);
	assert_memory_equal(p.there, p.here, 100);
	assert_int_equal(p.there[100], 0);

	assert_int_equal(rig_receive(p.other, 9, NULL, NULL, 0), 0);
	start(&p, 2);
	ibv_wr_rdma_write_imm(p.ex, p.mr->rkey, (uintptr_t)p.there, htobe32(0x1234));
	set(&p, p.here + 50, 20);
	done(&p, 2, IBV_WC_RDMA_WRITE);
	wc = rig_expect(p.rig->cq[1], IBV_WC_SUCCESS, 9);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.imm_data, htobe32(0x1234));
	assert_memory_equal(p.there, p.here + 50, 20);

	memset(p.there, 0x5a, 64);
	start(&p, 3);
	ibv_wr_rdma_read(p.ex, p.mr->rkey, (uintptr_t)p.there);
	set(&p, p.here, 64);
	done(&p, 3, IBV_WC_RDMA_READ);
	assert_memory_equal(p.here, p.there, 64);

	/* a WRITE of no bytes */
	start(&p, 4);
	ibv_wr_rdma_write(p.ex, 0, 0);
	done(&p, 4, IBV_WC_RDMA_WRITE);
	pair_close(&p);
}

static void sends(void **state)
{
	struct pair p = pair_open(*state);
	struct ibv_sge list[2] = {{(uintptr_t)p.here, 10, p.mr->lkey},
				  {(uintptr_t)p.here + 100, 5, p.mr->lkey}};
	struct ibv_data_buf bufs[2] = {{p.here + 3, 4}, {p.here + 200, 9}};
	struct ibv_wc wc;

	for (int i = 0; i < 4; i++)
		assert_int_equal(rig_receive(p.other, 10 + i, p.mr, p.there + 100 * i, 100), 0);
	start(&p, 1);
	ibv_wr_send(p.ex);
	ibv_wr_set_sge_list(p.ex, 2, list);
	done(&p, 1, IBV_WC_SEND);
	assert_int_equal(rig_expect(p.rig->cq[1], IBV_WC_SUCCESS, 10).byte_len, 15);
	assert_memory_equal(p.there, p.here, 10);
	assert_memory_equal(p.there + 10, p.here + 100, 5);

	start(&p, 2);
	ibv_wr_send_imm(p.ex, htobe32(77));
	ibv_wr_set_inline_data(p.ex, p.here, 33);
	done(&p, 2, IBV_WC_SEND);
	wc = rig_expect(p.rig->cq[1], IBV_WC_SUCCESS, 11);
	assert_int_equal(wc.imm_data, htobe32(77));
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_memory_equal(p.there + 100, p.here, 33);

	start(&p, 3);
	ibv_wr_send(p.ex);
	ibv_wr_set_inline_data_list(p.ex, 2, bufs);
	p.here[3]++; /* inline bytes were copied, and may change */
	done(&p, 3, IBV_WC_SEND);
	assert_int_equal(rig_expect(p.rig->cq[1], IBV_WC_SUCCESS, 12).byte_len, 13);
	assert_int_equal(p.there[200], p.here[3] - 1);
	assert_memory_equal(p.there + 204, p.here + 200, 9);

	/* IBV_SEND_INLINE means nothing here: ibv_wr_set_inline_data says what is inline */
	start(&p, 4);
	p.ex->wr_flags |= IBV_SEND_INLINE;
	ibv_wr_send(p.ex);
	set(&p, p.here, 7);
	done(&p, 4, IBV_WC_SEND);
	assert_int_equal(rig_expect(p.rig->cq[1], IBV_WC_SUCCESS, 13).byte_len, 7);
	assert_memory_equal(p.there + 300, p.here, 7);
	pair_close(&p);
}

static void atomics(void **state)
{
	struct pair p = pair_open(*state);
	uint64_t *word = (uint64_t *)p.there, *old = (uint64_t *)p.here;

	*word = 40;
	start(&p, 1);
	ibv_wr_atomic_fetch_add(p.ex, p.mr->rkey, (uintptr_t)word, 2);
	set(&p, old, 8);
	done(&p, 1, IBV_WC_FETCH_ADD);
	assert_int_equal(*old, 40);
	assert_int_equal(*word, 42);
	start(&p, 2);
	ibv_wr_atomic_cmp_swp(p.ex, p.mr->rkey, (uintptr_t)word, 42, 7);
	set(&p, old, 8);
	done(&p, 2, IBV_WC_COMP_SWAP);
	assert_int_equal(*old, 42);
	assert_int_equal(*word, 7);
	pair_close(&p);
}

/* The requests of one list are posted all, in order, or none. */
static void lists(void **state)
{
	struct pair p = pair_open(*state);

	start(&p, 0);
	for (uint64_t i = 0; i < 20; i++) {
		p.ex->wr_id = i;
		ibv_wr_rdma_write(p.ex, p.mr->rkey, (uintptr_t)p.there + i);
		set(&p, p.here + i, 1);
	}
	assert_int_equal(p.there[0], 0); /* nothing is carried out before ibv_wr_complete */
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	for (uint64_t i = 0; i < 20; i++)
		rig_expect(p.rig->cq[0], IBV_WC_SUCCESS, i);
	assert_memory_equal(p.there, p.here, 20);
	rig_none(p.rig->cq[0]);
	pair_close(&p);
}

static void write_one(struct pair *p, uint64_t wr_id, uint8_t byte)
{
	p->here[0] = byte;
	start(p, wr_id);
	ibv_wr_rdma_write(p->ex, p->mr->rkey, (uintptr_t)p->there);
	set(p, p->here, 1);
}

static void aborted(void **state)
{
	struct pair p = pair_open(*state);

	write_one(&p, 1, 11);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	for (int i = 0; i < 3 * RIG_DEPTH; i++) {
		write_one(&p, 99, 99);
		ibv_wr_rdma_read(p.ex, p.mr->rkey, 0);
		set(&p, NULL, 4);
		ibv_wr_abort(p.ex);
	}
	assert_int_equal(p.there[0], 11);
	write_one(&p, 2, 12);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	assert_int_equal(p.there[0], 12);
	/* the lists before the aborted one are complete, and nothing else is */
	rig_expect(p.rig->cq[0], IBV_WC_SUCCESS, 1);
	rig_expect(p.rig->cq[0], IBV_WC_SUCCESS, 2);
	rig_none(p.rig->cq[0]);
	pair_close(&p);
}

/* A failed list leaves none of its requests posted, and the next list works. */
static void failed(struct pair *p, int err)
{
	assert_int_equal(ibv_wr_complete(p->ex), err);
	rig_none(p->rig->cq[0]);
	write_one(p, 5, 55);
	done(p, 5, IBV_WC_RDMA_WRITE);
	assert_int_equal(p->there[0], 55);
	p->there[0] = 0;
}

static void errors(void **state)
{
	struct pair p = pair_open(*state);
	struct ibv_sge many[RIG_SGE + 1] = {0};

	write_one(&p, 1, 1);
	ibv_wr_set_inline_data(p.ex, p.here, RIG_INLINE + 1);
	failed(&p, ENOMEM);
	write_one(&p, 1, 1);
	ibv_wr_set_sge_list(p.ex, COUNT(many), many);
	failed(&p, EINVAL);
	start(&p, 1);
	set(&p, p.here, 1); /* an element, but no request that it belongs to */
	failed(&p, EINVAL);
	start(&p, 1);
	ibv_wr_set_inline_data(p.ex, p.here, 1);
	failed(&p, EINVAL);
	write_one(&p, 1, 1);
	ibv_wr_rdma_read(p.ex, p.mr->rkey, (uintptr_t)p.there);
	ibv_wr_set_inline_data(p.ex, p.here, 8);
	failed(&p, EINVAL);
	write_one(&p, 1, 1);
	ibv_wr_send_tso(p.ex, p.here, 1, 1);
	failed(&p, EOPNOTSUPP);
	write_one(&p, 1, 1);
	for (int i = 0; i < RIG_DEPTH; i++)
		ibv_wr_rdma_write(p.ex, p.mr->rkey, (uintptr_t)p.there);
	failed(&p, ENOMEM);
	pair_close(&p);
}

static void states(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_init_attr_ex attr = attr_of(rig);
	struct pair p = {.rig = rig};

	p.qp = ibv_create_qp_ex(rig->context, &attr);
	p.ex = ibv_qp_to_qp_ex(p.qp);
	for (enum ibv_qp_state s = IBV_QPS_RESET; s < IBV_QPS_RTS; s++) {
		start(&p, 1);
		ibv_wr_rdma_write(p.ex, 0, 0);
		assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
		if (s == IBV_QPS_RESET)
			rig_modify(p.qp, IBV_QPS_INIT, 0);
	}
	rig_modify(p.qp, IBV_QPS_ERR, 0);
	start(&p, 2);
	ibv_wr_rdma_write(p.ex, 0, 0);
	ibv_wr_send(p.ex);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, 2);
	rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, 2);
	assert_int_equal(ibv_destroy_qp(p.qp), 0);
}

static void refuse(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr, int err)
{
	errno = 0;
	assert_null(ibv_create_qp_ex(context, attr));
	assert_int_equal(errno, err);
}

static void refused(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *other = rig_context();
	struct ibv_qp_init_attr_ex attr = attr_of(rig);
	struct ibv_qp *qp;

	attr.send_ops_flags |= IBV_QP_EX_WITH_TSO;
	refuse(rig->context, &attr, EOPNOTSUPP);
	attr.send_ops_flags = 1ull << 50;
	refuse(rig->context, &attr, EOPNOTSUPP);
	attr = attr_of(rig);
	attr.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH;
	refuse(rig->context, &attr, EOPNOTSUPP);
	attr = attr_of(rig);
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	refuse(rig->context, &attr, EOPNOTSUPP);
	attr = attr_of(rig);
	attr.qp_type = IBV_QPT_RAW_PACKET;
	attr.send_ops_flags = 0;
	refuse(rig->context, &attr, EOPNOTSUPP);
	attr = attr_of(rig);
	refuse(other, &attr, EINVAL); /* the domain is of another context */
	attr.pd = (struct ibv_pd *)rig->cq[0];
	refuse(rig->context, &attr, EINVAL);
	attr.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	refuse(rig->context, &attr, EINVAL);
	/* without IBV_QP_INIT_ATTR_SEND_OPS_FLAGS the queue pair has no ibv_wr_* functions */
	attr = attr_of(rig);
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	qp = ibv_create_qp_ex(rig->context, &attr);
	assert_non_null(qp);
	assert_null(ibv_qp_to_qp_ex(qp));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_null(ibv_qp_to_qp_ex(qp));
	assert_null(ibv_qp_to_qp_ex(NULL));
	assert_null(ibv_qp_to_qp_ex(rig->qp[0]));
	assert_int_equal(ibv_close_device(other), 0);
}

/* Lists of two threads do not mix: from ibv_wr_start to ibv_wr_complete the queue is one thread's. */
struct builder {
	struct pair *pair;
	uint64_t base;
};

#define LISTS 2000
#define LONG  8

static void *build(void *arg)
{
	struct builder *b = arg;

	for (uint64_t n = 0; n < LISTS;) {
		start(b->pair, 0);
		for (uint64_t i = 0; i < LONG; i++) {
			b->pair->ex->wr_id = b->base + n * LONG + i;
			ibv_wr_rdma_write(b->pair->ex, 0, 0);
		}
		n += !ibv_wr_complete(b->pair->ex);
	}
	return NULL;
}

static void threads(void **state)
{
	struct pair p = pair_open(*state);
	struct builder b[2] = {{&p, 0}, {&p, 1ull << 32}};
	uint64_t next[2] = {0, 1ull << 32};
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, build, &b[i]);
	for (int n = 0; n < 2 * LISTS; n++)
		for (int i = 0; i < LONG; i++) {
			static int whose;
			struct ibv_wc wc = rig_next(p.rig->cq[0]);

			if (!i)
				whose = wc.wr_id >> 32 != 0;
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, next[whose]++);
		}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rdma, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(sends, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(atomics, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(lists, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(aborted, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(errors, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(states, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(refused, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(threads, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("qp_ex", tests, make_pool, remove_pool);
}
