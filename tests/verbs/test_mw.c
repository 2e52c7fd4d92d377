/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory windows of both types: which requesters may use them, until when; and what is refused. */
#include "rig.h"

#include <errno.h>
#include <string.h>

#include "../abi/pool.h"

#define BYTES 16384
#define ALL   (RIG_ALL | IBV_ACCESS_MW_BIND)
#define RW    (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* Queue pair 1 owns the memory and its windows; queue pair 0 reaches them. */
struct scene {
	struct rig *rig;
	struct ibv_mr *mr, *local;
	uint8_t *at;
};

static struct scene scene_open(struct rig *rig)
{
	struct scene s = {.rig = rig, .at = rig_pages(BYTES), .local = rig_region(rig->pd, 4096)};

	s.mr = ibv_reg_mr(rig->pd, s.at, BYTES, ALL);
	assert_non_null(s.mr);
	memset(s.local->addr, 0x77, 4096);
	return s;
}

static void scene_close(struct scene *s)
{
	rig_region_end(s->mr);
	rig_region_end(s->local);
}

static struct ibv_mw *window(struct scene *s, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->rig->pd, type);

	assert_non_null(mw);
	assert_int_equal(mw->type, type);
	return mw;
}

static int bind1(struct scene *s, struct ibv_mw *mw, uint64_t offset, uint64_t length,
		 unsigned int access)
{
	struct ibv_mw_bind bind = {.wr_id = 11,
				   .send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {s->mr, (uintptr_t)s->at + offset, length, access}};

	return ibv_bind_mw(s->rig->qp[1], mw, &bind);
}

static int post_bind2(struct scene *s, struct ibv_mw *mw, uint32_t rkey,
		      struct ibv_mw_bind_info info)
{
	struct ibv_send_wr wr = {.wr_id = 12,
				 .opcode = IBV_WR_BIND_MW,
				 .send_flags = IBV_SEND_SIGNALED,
				 .bind_mw = {mw, rkey, info}};
	struct ibv_send_wr *bad;

	return ibv_post_send(s->rig->qp[1], &wr, &bad);
}

static uint32_t bind2(struct scene *s, struct ibv_mw *mw, uint64_t offset, uint64_t length,
		      unsigned int access)
{
	uint32_t rkey = ibv_inc_rkey(mw->rkey);

	assert_int_equal(post_bind2(s, mw, rkey,
				    (struct ibv_mw_bind_info){s->mr, (uintptr_t)s->at + offset,
							      length, access}),
			 0);
	assert_int_equal(rig_expect(s->rig->cq[1], IBV_WC_SUCCESS, 12).opcode, IBV_WC_BIND_MW);
	mw->rkey = rkey;
	return rkey;
}

static int invalidate(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_send_wr wr = {.wr_id = 13,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = rkey};
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static void rdma(struct scene *s, enum ibv_wr_opcode opcode, uint64_t remote, uint32_t rkey,
		 enum ibv_wc_status status)
{
	assert_int_equal(
		rig_rdma(s->rig->qp[0], opcode, 21, s->local, s->local->addr, 100, remote, rkey),
		0);
	rig_expect(s->rig->cq[0], status, 21);
}

static void again(struct scene *s)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc;

		rig_modify(s->rig->qp[i], IBV_QPS_RESET, 0);
		while (ibv_poll_cq(s->rig->cq[i], 1, &wc))
			;
	}
	for (int i = 0; i < 2; i++)
		rig_modify(s->rig->qp[i], IBV_QPS_RTS, s->rig->qp[!i]->qp_num);
}

static void writes(struct scene *s, uint64_t offset, uint32_t rkey)
{
	memset(s->at, 0, BYTES);
	rdma(s, IBV_WR_RDMA_WRITE, (uintptr_t)s->at + offset, rkey, IBV_WC_SUCCESS);
	assert_memory_equal(s->at + offset, s->local->addr, 100);
	assert_int_equal(s->at[offset + 100], 0);
}

static void refused(struct scene *s, enum ibv_wr_opcode opcode, uint64_t remote, uint32_t rkey)
{
	memset(s->at, 0, BYTES);
	rdma(s, opcode, remote, rkey, IBV_WC_REM_ACCESS_ERR);
	for (int i = 0; i < BYTES; i++)
		assert_int_equal(s->at[i], 0);
	again(s);
}

static void type_1(void **state)
{
	struct scene s = scene_open(*state);
	struct ibv_mw *mw = window(&s, IBV_MW_TYPE_1);
	uint64_t base = (uintptr_t)s.at;
	uint32_t first;

	/* a window that was never bound shows nothing */
	refused(&s, IBV_WR_RDMA_WRITE, base, mw->rkey);
	assert_int_equal(bind1(&s, mw, 100, 5000, RW), 0);
	assert_int_equal(rig_expect(s.rig->cq[1], IBV_WC_SUCCESS, 11).opcode, IBV_WC_BIND_MW);
	writes(&s, 100, mw->rkey);
	writes(&s, 5000, mw->rkey);
	refused(&s, IBV_WR_RDMA_WRITE, base + 5001, mw->rkey);
	refused(&s, IBV_WR_RDMA_WRITE, base + 99, mw->rkey);
	/* bound again, it has another key, and the old key is stale */
	first = mw->rkey;
	assert_int_equal(bind1(&s, mw, 8192, 100, IBV_ACCESS_REMOTE_READ), 0);
	rig_expect(s.rig->cq[1], IBV_WC_SUCCESS, 11);
	assert_int_not_equal(mw->rkey, first);
	refused(&s, IBV_WR_RDMA_WRITE, base + 200, first);
	refused(&s, IBV_WR_RDMA_WRITE, base + 8192, mw->rkey);
	rdma(&s, IBV_WR_RDMA_READ, base + 8192, mw->rkey, IBV_WC_SUCCESS);
	/* a window that is bound to no bytes cannot be used */
	assert_int_equal(bind1(&s, mw, 0, 0, 0), 0);
	rig_expect(s.rig->cq[1], IBV_WC_SUCCESS, 11);
	refused(&s, IBV_WR_RDMA_READ, base + 8192, mw->rkey);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	scene_close(&s);
}

static void type_2(void **state)
{
	struct scene s = scene_open(*state);
	struct ibv_mw *mw = window(&s, IBV_MW_TYPE_2);
	uint64_t base = (uintptr_t)s.at;
	uint32_t rkey = bind2(&s, mw, 4096, 300, RW);

	writes(&s, 4096, rkey);
	writes(&s, 4296, rkey);
	refused(&s, IBV_WR_RDMA_WRITE, base + 4297, rkey);
	/* the window's key is no lkey, for its owner neither */
	assert_int_equal(rig_rdma(s.rig->qp[1], IBV_WR_RDMA_WRITE, 5,
				  &(struct ibv_mr){.lkey = rkey}, s.at + 4096, 8, base, s.mr->rkey),
			 0);
	rig_expect(s.rig->cq[1], IBV_WC_LOC_PROT_ERR, 5);
	again(&s);
	writes(&s, 4096, rkey);
	assert_int_equal(invalidate(s.rig->qp[1], IBV_WR_LOCAL_INV, rkey), 0);
	assert_int_equal(rig_expect(s.rig->cq[1], IBV_WC_SUCCESS, 13).opcode, IBV_WC_LOCAL_INV);
	refused(&s, IBV_WR_RDMA_WRITE, base + 4096, rkey);
	/* after its invalidation it may be bound anew, also zero-based */
	rkey = bind2(&s, mw, 5000, 300, RW | IBV_ACCESS_ZERO_BASED);
	memset(s.at, 0, BYTES);
	rdma(&s, IBV_WR_RDMA_WRITE, 7, rkey, IBV_WC_SUCCESS);
	assert_memory_equal(s.at + 5007, s.local->addr, 100);
	refused(&s, IBV_WR_RDMA_WRITE, base + 5000, rkey);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	refused(&s, IBV_WR_RDMA_WRITE, 0, rkey);
	scene_close(&s);
}

/* A window of type 2 that queue pair 1 has bound cannot be used by way of another queue pair. */
static void other_queue_pair(void **state)
{
	struct scene s = scene_open(*state);
	struct ibv_mw *mw = window(&s, IBV_MW_TYPE_2);
	struct ibv_qp_init_attr init = rig_init(s.rig->cq[0], s.rig->cq[0]);
	struct ibv_qp *a = ibv_create_qp(s.rig->pd, &init), *b = ibv_create_qp(s.rig->pd, &init);
	uint32_t rkey = bind2(&s, mw, 0, 4096, RW);

	rig_modify(a, IBV_QPS_RTS, b->qp_num);
	rig_modify(b, IBV_QPS_RTS, a->qp_num);
	assert_int_equal(
		rig_rdma(a, IBV_WR_RDMA_WRITE, 3, s.local, s.local->addr, 8, (uintptr_t)s.at, rkey),
		0);
	rig_expect(s.rig->cq[0], IBV_WC_REM_ACCESS_ERR, 3);
	writes(&s, 0, rkey);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	scene_close(&s);
}

/* SEND with invalidate: the bytes arrive, the completion names the key, and the window is invalid. */
static void by_the_peer(void **state)
{
	struct scene s = scene_open(*state);
	struct ibv_mw *mw = window(&s, IBV_MW_TYPE_2);
	uint64_t base = (uintptr_t)s.at;
	uint32_t rkey = bind2(&s, mw, 0, 4096, RW);
	struct ibv_wc wc;

	assert_int_equal(rig_receive(s.rig->qp[1], 31, s.mr, s.at, 100), 0);
	writes(&s, 200, rkey);
	assert_int_equal(ibv_dereg_mr(s.mr), EBUSY);
	assert_int_equal(invalidate(s.rig->qp[0], IBV_WR_SEND_WITH_INV, rkey), 0);
	assert_int_equal(rig_expect(s.rig->cq[0], IBV_WC_SUCCESS, 13).opcode, IBV_WC_SEND);
	wc = rig_expect(s.rig->cq[1], IBV_WC_SUCCESS, 31);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, rkey);
	refused(&s, IBV_WR_RDMA_WRITE, base, rkey);
	/* an invalid key cannot be invalidated again */
	assert_int_equal(rig_receive(s.rig->qp[1], 32, s.mr, s.at, 100), 0);
	assert_int_equal(invalidate(s.rig->qp[0], IBV_WR_SEND_WITH_INV, rkey), 0);
	rig_expect(s.rig->cq[0], IBV_WC_REM_ACCESS_ERR, 13);
	again(&s);
	/* nor can the key of a region */
	assert_int_equal(rig_receive(s.rig->qp[1], 33, s.mr, s.at, 100), 0);
	assert_int_equal(invalidate(s.rig->qp[0], IBV_WR_SEND_WITH_INV, s.mr->rkey), 0);
	rig_expect(s.rig->cq[0], IBV_WC_REM_ACCESS_ERR, 13);
	again(&s);
	/* bound again the window works again; the region can be deregistered when the peer has invalidated
	 * that binding, too */
	rkey = bind2(&s, mw, 0, 4096, RW);
	writes(&s, 0, rkey);
	assert_int_equal(rig_receive(s.rig->qp[1], 34, NULL, NULL, 0), 0);
	assert_int_equal(invalidate(s.rig->qp[0], IBV_WR_SEND_WITH_INV, rkey), 0);
	rig_expect(s.rig->cq[1], IBV_WC_SUCCESS, 34);
	scene_close(&s);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* A window over a region that lies in several pieces: two pages of a file between private ones. */
static void pieces(void **state)
{
	struct scene s = scene_open(*state);
	struct ibv_mw *mw = window(&s, IBV_MW_TYPE_2);
	struct ibv_mr *inner;
	uint64_t base;
	uint32_t rkey;

	/* the region over the file's pages is made first, and its pages stay where they are */
	rig_region_end(s.mr);
	s.at = rig_pages(BYTES);
	base = (uintptr_t)s.at;
	inner = ibv_reg_mr(s.rig->pd, s.at + 4096, 4096, RIG_ALL);
	s.mr = ibv_reg_mr(s.rig->pd, s.at + 10, BYTES - 20, ALL);
	assert_non_null(s.mr);
	for (uint64_t at = 50; at < BYTES - 1200; at += 650) {
		rkey = bind2(&s, mw, at, 1100, RW);
		memset(s.at, 0, BYTES);
		for (uint64_t i = 0; i < 11; i++)
			rdma(&s, IBV_WR_RDMA_WRITE, base + at + 100 * i, rkey, IBV_WC_SUCCESS);
		for (uint64_t i = 0; i < BYTES; i++)
			assert_int_equal(s.at[i], i >= at && i < at + 1100 ? 0x77 : 0);
		assert_int_equal(invalidate(s.rig->qp[1], IBV_WR_LOCAL_INV, rkey), 0);
		rig_expect(s.rig->cq[1], IBV_WC_SUCCESS, 13);
	}
	assert_int_equal(ibv_dereg_mr(inner), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(s.mr), 0);
	rig_region_end(s.local);
}

static void bind_fails(struct scene *s, struct ibv_mw *mw, struct ibv_mr *mr, uint64_t addr,
		       uint64_t length, unsigned int access)
{
	assert_int_equal(post_bind2(s, mw, ibv_inc_rkey(mw->rkey),
				    (struct ibv_mw_bind_info){mr, addr, length, access}),
			 0);
	rig_expect(s->rig->cq[1], IBV_WC_MW_BIND_ERR, 12);
	again(s);
}

static void errors(void **state)
{
	struct scene s = scene_open(*state);
	struct ibv_mw *mw = window(&s, IBV_MW_TYPE_2), *one = window(&s, IBV_MW_TYPE_1);
	struct ibv_pd *pd = ibv_alloc_pd(s.rig->context);
	struct ibv_mr *plain = rig_region(s.rig->pd, 4096), *foreign = rig_region(pd, 4096);
	void *page = rig_pages(4096);
	struct ibv_mr *zero = ibv_reg_mr(s.rig->pd, page, 4096, ALL | IBV_ACCESS_ZERO_BASED);
	struct ibv_mr *fixed =
		ibv_reg_mr(s.rig->pd, page, 4096, IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_READ);
	uint64_t base = (uintptr_t)s.at;
	uint32_t rkey;

	bind_fails(&s, mw, plain, (uintptr_t)plain->addr, 100, RW);
	bind_fails(&s, mw, foreign, (uintptr_t)foreign->addr, 100, RW);
	bind_fails(&s, mw, zero, 0, 100, RW);
	bind_fails(&s, mw, fixed, (uintptr_t)page, 100, RW);
	bind_fails(&s, mw, s.mr, base - 1, 100, RW);
	bind_fails(&s, mw, s.mr, base + 1, BYTES, RW);
	bind_fails(&s, mw, s.mr, base, 0, RW);
	bind_fails(&s, mw, s.mr, base, 10, IBV_ACCESS_ON_DEMAND);
	rkey = bind2(&s, mw, 0, 100, RW);
	bind_fails(&s, mw, s.mr, base, 100, RW); /* it is bound already */
	writes(&s, 0, rkey);
	/* neither a window of type 1 nor a key of no window can be invalidated */
	assert_int_equal(bind1(&s, one, 0, 100, RW), 0);
	rig_expect(s.rig->cq[1], IBV_WC_SUCCESS, 11);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(invalidate(s.rig->qp[1], IBV_WR_LOCAL_INV,
					    i == 0   ? one->rkey
					    : i == 1 ? s.mr->rkey
						     : rkey + 1),
				 0);
		rig_expect(s.rig->cq[1], IBV_WC_LOC_QP_OP_ERR, 13);
		again(&s);
	}
	/* a region can neither be deregistered nor changed while windows are bound to it */
	assert_int_equal(ibv_dereg_mr(s.mr), EBUSY);
	errno = 0;
	assert_int_equal(ibv_rereg_mr(s.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIG_ALL),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, EBUSY);
	writes(&s, 0, rkey);
	writes(&s, 0, one->rkey);
	writes(&s, 0, s.mr->rkey);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(s.mr), EBUSY);
	assert_int_equal(ibv_dealloc_mw(one), 0);
	assert_int_equal(ibv_dereg_mr(zero), 0);
	assert_int_equal(ibv_dereg_mr(fixed), 0);
	rig_region_end(plain);
	rig_region_end(foreign);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	scene_close(&s);
}

static void no_window(const struct ibv_context_ops *ops, struct ibv_pd *pd, enum ibv_mw_type type)
{
	errno = 0;
	assert_null(ops->alloc_mw(pd, type));
	assert_int_equal(errno, EINVAL);
}

static void arguments(void **state)
{
	struct scene s = scene_open(*state);
	struct ibv_context_ops *ops = &s.rig->context->ops;
	struct ibv_mw *mw = window(&s, IBV_MW_TYPE_2), *one = window(&s, IBV_MW_TYPE_1);
	struct ibv_mw_bind_info info = {s.mr, (uintptr_t)s.at, 100, RW};
	struct ibv_pd *pd = ibv_alloc_pd(s.rig->context);
	struct ibv_mr *foreign = rig_region(pd, 4096);
	struct ibv_mw_bind bind = {.bind_info = info};
	uint32_t rkey = one->rkey;

	no_window(ops, NULL, IBV_MW_TYPE_1);
	no_window(ops, (struct ibv_pd *)s.mr, IBV_MW_TYPE_1);
	no_window(ops, s.rig->pd, 0);
	no_window(ops, s.rig->pd, 3);
	assert_int_equal(post_bind2(&s, mw, mw->rkey + 256, info), EINVAL);
	assert_int_equal(post_bind2(&s, one, ibv_inc_rkey(one->rkey), info), EINVAL);
	assert_int_equal(post_bind2(&s, NULL, mw->rkey, info), EINVAL);
	info.mr = (struct ibv_mr *)s.rig->pd;
	assert_int_equal(post_bind2(&s, mw, mw->rkey, info), EINVAL);
	info.mr = NULL;
	assert_int_equal(post_bind2(&s, mw, mw->rkey, info), EINVAL);
	/* ibv_bind_mw is for windows of type 1 only */
	assert_int_equal(ibv_bind_mw(s.rig->qp[1], mw, &bind), EINVAL);
	assert_int_equal(ops->bind_mw(NULL, one, &bind), EINVAL);
	assert_int_equal(ops->bind_mw(s.rig->qp[1], NULL, &bind), EINVAL);
	assert_int_equal(ops->bind_mw(s.rig->qp[1], one, NULL), EINVAL);
	assert_int_equal(bind1(&s, one, 0, 100, RW | IBV_ACCESS_ZERO_BASED), EINVAL);
	bind.bind_info = (struct ibv_mw_bind_info){foreign, (uintptr_t)foreign->addr, 10, RW};
	assert_int_equal(ibv_bind_mw(s.rig->qp[1], one, &bind), EPERM);
	rig_modify(s.rig->qp[1], IBV_QPS_RESET, 0);
	assert_int_equal(bind1(&s, one, 0, 100, RW), EINVAL);
	assert_int_equal(one->rkey, rkey);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	RIG_REFUSED(ops->dealloc_mw(mw));
	RIG_REFUSED(ops->dealloc_mw(NULL));
	assert_int_equal(ibv_dealloc_mw(one), 0);
	rig_region_end(foreign);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	scene_close(&s);
}

/* An invalidation that is posted behind a SEND without a receive waits for that. */
static void in_order(void **state)
{
	struct scene s = scene_open(*state);
	struct ibv_mw *mw = window(&s, IBV_MW_TYPE_2);
	uint32_t rkey = bind2(&s, mw, 0, 4096, RW);

	assert_int_equal(rig_send(s.rig->qp[1], 41, NULL, NULL, 0), 0);
	assert_int_equal(invalidate(s.rig->qp[1], IBV_WR_LOCAL_INV, rkey), 0);
	writes(&s, 0, rkey);
	assert_int_equal(rig_receive(s.rig->qp[0], 42, NULL, NULL, 0), 0);
	rig_expect(s.rig->cq[1], IBV_WC_SUCCESS, 41);
	rig_expect(s.rig->cq[1], IBV_WC_SUCCESS, 13);
	rig_expect(s.rig->cq[0], IBV_WC_SUCCESS, 42);
	refused(&s, IBV_WR_RDMA_WRITE, (uintptr_t)s.at, rkey);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	scene_close(&s);
}

static void atomic_write(void **state)
{
	struct scene s = scene_open(*state);
	uint64_t *word = (uint64_t *)(s.at + 4096);

	assert_int_equal(rig_rdma(s.rig->qp[0], IBV_WR_ATOMIC_WRITE, 1, s.local, s.local->addr, 8,
				  (uintptr_t)word, s.mr->rkey),
			 0);
	assert_int_equal(rig_expect(s.rig->cq[0], IBV_WC_SUCCESS, 1).opcode, IBV_WC_ATOMIC_WRITE);
	assert_true(*word == 0x7777777777777777u);
	assert_int_equal(word[1], 0);
	assert_int_equal(rig_rdma(s.rig->qp[0], IBV_WR_ATOMIC_WRITE, 2, s.local, s.local->addr, 4,
				  (uintptr_t)word, s.mr->rkey),
			 0);
	rig_expect(s.rig->cq[0], IBV_WC_LOC_LEN_ERR, 2);
	again(&s);
	assert_int_equal(rig_rdma(s.rig->qp[0], IBV_WR_ATOMIC_WRITE, 3, s.local, s.local->addr, 8,
				  (uintptr_t)word + 4, s.mr->rkey),
			 0);
	rig_expect(s.rig->cq[0], IBV_WC_REM_INV_REQ_ERR, 3);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(type_1, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(type_2, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(other_queue_pair, rig_setup_connected,
						rig_teardown),
		cmocka_unit_test_setup_teardown(by_the_peer, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(pieces, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(errors, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(arguments, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(in_order, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(atomic_write, rig_setup_connected, rig_teardown),
	};

	return cmocka_run_group_tests_name("mw", tests, make_pool, remove_pool);
}
