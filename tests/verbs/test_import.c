/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A domain of two processes: one makes it and registers memory, the other imports both and makes queue pairs
 * in it. Their peer is a queue pair in a domain of the importer's own.
 */
#include "two.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"

#define PAGE  4096u
#define BYTES TWO_BYTES

static void expect_null(const void *object, int err)
{
	assert_null(object);
	assert_int_equal(errno, err);
	errno = 0;
}

/* The exporter has left the pool, or is being recovered just now. */
static void expect_gone(int fd)
{
	uint64_t deadline_ns = rig_now_ns() + 10000000000ull;
	struct ibv_context *context;

	while ((context = ibv_import_device(dup(fd)))) {
		assert_true(rig_now_ns() < deadline_ns);
		assert_int_equal(ibv_close_device(context), 0);
	}
	expect_null(context, ENODEV);
}

static int setup_in(void **state, bool in_place)
{
	static struct two t;

	two_begin(&t, in_place);
	*state = &t;
	return 0;
}

static int setup(void **state)
{
	return setup_in(state, false);
}

static int setup_in_place(void **state)
{
	return setup_in(state, true);
}

static int teardown(void **state)
{
	two_end(*state);
	return 0;
}

/* A request of the queue pair in the imported domain, between the exporter's memory and the importer's. */
static void local(struct two *t, enum ibv_wr_opcode opcode, uint32_t len, enum ibv_wc_status status)
{
	assert_int_equal(rig_rdma(t->qp, opcode, 1, t->theirs, t->there->at, len,
				  (uintptr_t)t->own->addr, t->own->rkey),
			 0);
	rig_expect(t->cq, status, 1);
}

/* A request of the queue pair in the importer's own domain, between its memory and the exporter's. */
static void remote(struct two *t, enum ibv_wr_opcode opcode, uint32_t len,
		   enum ibv_wc_status status)
{
	assert_int_equal(rig_rdma(t->rig.qp[1], opcode, 2, t->own, t->own->addr, len,
				  (uintptr_t)t->there->at, t->theirs->rkey),
			 0);
	rig_expect(t->rig.cq[1], status, 2);
}

static void expect_bytes(const void *at, uint8_t byte, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(((const uint8_t *)at)[i], byte);
}

/* ---- What works ---- */

static const uint32_t sizes[] = {1, 8, 64, 4096, 4097, BYTES};

static void gathers_and_scatters(void **state)
{
	struct two *t = *state;

	for (size_t i = 0; i < COUNT(sizes); i++) {
		uint32_t n = sizes[i];

		memset(t->own->addr, 0, BYTES);
		exporter_do(&t->exporter, EXPORT_FILL, 7);
		local(t, IBV_WR_RDMA_WRITE, n, IBV_WC_SUCCESS);
		expect_bytes(t->own->addr, 7, n);
		expect_bytes((uint8_t *)t->own->addr + n, 0, BYTES - n);
		memset(t->own->addr, 9, BYTES);
		local(t, IBV_WR_RDMA_READ, n, IBV_WC_SUCCESS);
		assert_int_equal(exporter_do(&t->exporter, EXPORT_CHECK, 7), n);
		assert_int_equal(exporter_do(&t->exporter, EXPORT_CHECK, 9), EXPORTED_BYTES - n);
	}
}

static void is_target(void **state)
{
	struct two *t = *state;

	for (size_t i = 0; i < COUNT(sizes); i++) {
		uint32_t n = sizes[i];

		exporter_do(&t->exporter, EXPORT_FILL, 0);
		memset(t->own->addr, 5, BYTES);
		remote(t, IBV_WR_RDMA_WRITE, n, IBV_WC_SUCCESS);
		assert_int_equal(exporter_do(&t->exporter, EXPORT_CHECK, 0), n);
		assert_int_equal(exporter_do(&t->exporter, EXPORT_CHECK, 5), EXPORTED_BYTES - n);
		exporter_do(&t->exporter, EXPORT_FILL, 6);
		remote(t, IBV_WR_RDMA_READ, n, IBV_WC_SUCCESS);
		expect_bytes(t->own->addr, 6, n);
	}
}

static void messages(void **state)
{
	struct two *t = *state;
	/* the importer's memory, in the imported domain */
	struct ibv_mr *near = rig_region(t->pd, PAGE);
	struct ibv_sge list[2] = {{(uintptr_t)near->addr, 10, near->lkey},
				  {(uintptr_t)t->there->at, 20, t->theirs->lkey}};
	struct ibv_send_wr *bad_send, send = {.wr_id = 4,
					      .sg_list = list,
					      .num_sge = 2,
					      .opcode = IBV_WR_SEND,
					      .send_flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr *bad, receive = {.wr_id = 5, .sg_list = list, .num_sge = 2};

	memset(near->addr, 1, PAGE);
	exporter_do(&t->exporter, EXPORT_FILL, 2);
	assert_int_equal(rig_receive(t->rig.qp[1], 3, t->own, t->own->addr, 64), 0);
	assert_int_equal(ibv_post_send(t->qp, &send, &bad_send), 0);
	rig_expect(t->cq, IBV_WC_SUCCESS, 4);
	assert_int_equal(rig_expect(t->rig.cq[1], IBV_WC_SUCCESS, 3).byte_len, 30);
	expect_bytes(t->own->addr, 1, 10);
	expect_bytes((uint8_t *)t->own->addr + 10, 2, 20);
	/* back again, into a receive with the same list; then one in the exporter's memory alone */
	memset(t->own->addr, 3, BYTES);
	assert_int_equal(ibv_post_recv(t->qp, &receive, &bad), 0);
	assert_int_equal(rig_send(t->rig.qp[1], 6, t->own, t->own->addr, 30), 0);
	rig_expect(t->rig.cq[1], IBV_WC_SUCCESS, 6);
	rig_expect(t->cq, IBV_WC_SUCCESS, 5);
	expect_bytes(near->addr, 3, 10);
	assert_int_equal(exporter_do(&t->exporter, EXPORT_CHECK, 2), 20);
	assert_int_equal(rig_receive(t->qp, 7, t->theirs, t->there->at, PAGE), 0);
	assert_int_equal(rig_send(t->rig.qp[1], 8, t->own, t->own->addr, PAGE), 0);
	rig_expect(t->rig.cq[1], IBV_WC_SUCCESS, 8);
	rig_expect(t->cq, IBV_WC_SUCCESS, 7);
	assert_int_equal(exporter_do(&t->exporter, EXPORT_CHECK, 2), PAGE);
	rig_region_end(near);
}

static void atomics(void **state)
{
	struct two *t = *state;
	uint64_t *word = t->own->addr;

	exporter_do(&t->exporter, EXPORT_FILL, 0);
	*word = 41;
	local(t, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_WC_SUCCESS);
	assert_int_equal(*word, 42);
	/* the one byte with 41 was added there */
	assert_int_equal(exporter_do(&t->exporter, EXPORT_CHECK, 0), 1);
	for (uint64_t i = 41; i < 44; i++) {
		remote(t, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_WC_SUCCESS);
		assert_int_equal(*word, i);
	}
}

/* Two queue pairs of the imported domain, connected with each other: all memory is the exporter's. */
static void both_sides(void **state)
{
	struct two *t = *state;
	struct ibv_qp *qp = two_make_qp(t->pd, t->cq, IBV_QPT_RC);
	struct ibv_mr *near = rig_region(t->pd, BYTES);

	rig_modify(t->qp, IBV_QPS_RESET, 0);
	rig_modify(qp, IBV_QPS_RTR, t->qp->qp_num);
	rig_modify(t->qp, IBV_QPS_RTS, qp->qp_num);
	exporter_do(&t->exporter, EXPORT_FILL, 4);
	memset(near->addr, 8, BYTES);
	assert_int_equal(rig_rdma(t->qp, IBV_WR_RDMA_WRITE, 1, near, near->addr, BYTES,
				  (uintptr_t)t->there->at, t->theirs->rkey),
			 0);
	rig_expect(t->cq, IBV_WC_SUCCESS, 1);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		assert_int_equal(rig_rdma(t->qp, IBV_WR_RDMA_WRITE, 1, t->theirs, t->there->at,
					  sizes[i], (uintptr_t)t->there->at + (2u << 20),
					  t->theirs->rkey),
				 0);
		rig_expect(t->cq, IBV_WC_SUCCESS, 1);
		assert_int_equal(exporter_do(&t->exporter, EXPORT_CHECK, 4), BYTES + sizes[i]);
	}
	rig_region_end(near);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* Datagrams from the exporter's memory, and into it; from a shared queue, too. */
static void datagrams(void **state)
{
	struct two *t = *state;
	struct ibv_qp *peer = two_make_qp(t->rig.pd, t->rig.cq[1], IBV_QPT_UD);
	struct ibv_qp *near = two_make_qp(t->pd, t->cq, IBV_QPT_UD);
	struct ibv_ah_attr attr = rig_attr(t->context, IBV_QPS_RTR, 0).ah_attr;
	struct ibv_ah *ah[2] = {ibv_create_ah(t->pd, &attr), ibv_create_ah(t->rig.pd, &attr)};
	struct ibv_sge sge = {(uintptr_t)t->there->at, 100, t->theirs->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = 1,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED,
				       .wr.ud = {ah[0], peer->qp_num, RIG_QKEY}};

	rig_modify(peer, IBV_QPS_RTS, 0);
	rig_modify(near, IBV_QPS_RTS, 0);
	exporter_do(&t->exporter, EXPORT_FILL, 3);
	assert_int_equal(rig_receive(peer, 2, t->own, t->own->addr, PAGE), 0);
	assert_int_equal(ibv_post_send(near, &wr, &bad), 0);
	rig_expect(t->cq, IBV_WC_SUCCESS, 1);
	assert_int_equal(rig_expect(t->rig.cq[1], IBV_WC_SUCCESS, 2).byte_len, 140);
	expect_bytes((uint8_t *)t->own->addr + 40, 3, 100);
	memset(t->own->addr, 6, PAGE);
	assert_int_equal(rig_receive(near, 3, t->theirs, t->there->at, PAGE), 0);
	sge = (struct ibv_sge){(uintptr_t)t->own->addr, 100, t->own->lkey};
	wr.wr.ud.ah = ah[1];
	wr.wr.ud.remote_qpn = near->qp_num;
	assert_int_equal(ibv_post_send(peer, &wr, &bad), 0);
	rig_expect(t->rig.cq[1], IBV_WC_SUCCESS, 1);
	rig_expect(t->cq, IBV_WC_SUCCESS, 3);
	assert_in_range(exporter_do(&t->exporter, EXPORT_CHECK, 3), 100, 140);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_ah(ah[i]), 0);
	assert_int_equal(ibv_destroy_qp(near), 0);
	assert_int_equal(ibv_destroy_qp(peer), 0);
}

/* The importer's queue pair receives from a shared queue in the imported domain, into both processes'
 * memory. */
static void shared_queue(void **state)
{
	struct two *t = *state;
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(t->pd, &attr);
	struct ibv_sge sge = {(uintptr_t)t->there->at, 64, t->theirs->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1};
	struct ibv_qp_init_attr init = rig_init(t->cq, t->cq);

	assert_non_null(srq);
	assert_int_equal(ibv_destroy_qp(t->qp), 0);
	init.srq = srq;
	t->qp = ibv_create_qp(t->pd, &init);
	assert_non_null(t->qp);
	two_connect(t);
	exporter_do(&t->exporter, EXPORT_FILL, 0);
	memset(t->own->addr, 7, 64);
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	assert_int_equal(rig_send(t->rig.qp[1], 4, t->own, t->own->addr, 64), 0);
	rig_expect(t->rig.cq[1], IBV_WC_SUCCESS, 4);
	rig_expect(t->cq, IBV_WC_SUCCESS, 3);
	assert_int_equal(exporter_do(&t->exporter, EXPORT_CHECK, 7), EXPORTED_BYTES - 64);
	assert_int_equal(ibv_destroy_qp(t->qp), 0);
	t->qp = NULL;
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* Windows of the importer in the imported domain: over its own regions they can be bound, over the exporter's
 * not. */
static void windows(void **state)
{
	struct two *t = *state;
	struct ibv_mr *near = ibv_reg_mr(t->pd, t->own->addr, PAGE, RIG_ALL | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(t->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.wr_id = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {near, (uintptr_t)near->addr, PAGE, IBV_ACCESS_REMOTE_WRITE}};

	assert_non_null(mw);
	assert_int_equal(ibv_bind_mw(t->qp, mw, &bind), 0);
	rig_expect(t->cq, IBV_WC_SUCCESS, 1);
	assert_int_equal(rig_rdma(t->rig.qp[1], IBV_WR_RDMA_WRITE, 2, t->own, t->own->addr, 8,
				  (uintptr_t)near->addr + 64, mw->rkey),
			 0);
	rig_expect(t->rig.cq[1], IBV_WC_SUCCESS, 2);
	assert_int_equal(exporter_do(&t->exporter, EXPORT_RIGHTS, RIG_ALL | IBV_ACCESS_MW_BIND), 0);
	bind.bind_info.mr = t->theirs;
	bind.bind_info.addr = (uintptr_t)t->there->at;
	assert_int_equal(ibv_bind_mw(t->qp, mw, &bind), 0);
	rig_expect(t->cq, IBV_WC_MW_BIND_ERR, 1);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(near), 0);
}

static void device_memory(void **state)
{
	struct two *t = *state;
	struct ibv_dm *dm = ibv_import_dm(t->context, t->there->dm);
	uint8_t bytes[PAGE];

	assert_non_null(dm);
	assert_int_equal(dm->handle, t->there->dm);
	assert_int_equal(exporter_do(&t->exporter, EXPORT_FILL_DM, 11), 0);
	assert_int_equal(ibv_memcpy_from_dm(bytes, dm, 0, PAGE), 0);
	expect_bytes(bytes, 11, PAGE);
	assert_int_equal(ibv_memcpy_to_dm(dm, 0, bytes, 8), 0);
	expect_null(ibv_reg_dm_mr(t->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED), EOPNOTSUPP);
	assert_int_equal(exporter_do(&t->exporter, EXPORT_FREE_DM, 0), 0);
	RIG_REFUSED(ibv_memcpy_from_dm(bytes, dm, 0, PAGE));
	RIG_REFUSED(ibv_memcpy_to_dm(dm, 0, bytes, PAGE));
	expect_null(ibv_import_dm(t->context, t->there->dm), ENOENT);
	ibv_unimport_dm(dm);
}

/* ---- What fails ---- */

static void wrong_handles(void **state)
{
	struct two *t = *state;
	struct ibv_mr *near = rig_region(t->rig.pd, PAGE);

	expect_null(ibv_import_pd(t->context, t->there->pd + 1), ENOENT);
	expect_null(ibv_import_pd(t->context, 0), ENOENT);
	expect_null(ibv_import_pd(t->context, UINT32_MAX), ENOENT);
	expect_null(ibv_import_pd(t->context, t->rig.pd->handle), ENOENT); /* of another context */
	expect_null(ibv_import_pd(t->rig.context, t->there->pd), ENOENT);
	expect_null(ibv_import_dm(t->rig.context, t->there->dm), ENOENT);
	expect_null(ibv_import_dm(t->context, t->there->pd), ENOENT);
	expect_null(ibv_import_mr(t->pd, t->there->mr + 1), ENOENT);
	expect_null(ibv_import_mr(t->pd, 0), ENOENT);
	expect_null(ibv_import_mr(t->pd, UINT32_MAX), ENOENT);
	expect_null(ibv_import_mr(t->pd, near->handle), ENOENT); /* of another domain */
	expect_null(ibv_import_mr(t->rig.pd, t->there->mr), ENOENT);
	rig_region_end(near);
	/* a key of one domain is invalid in the other */
	assert_int_equal(rig_rdma(t->rig.qp[1], IBV_WR_RDMA_WRITE, 2, t->theirs, t->there->at, 8,
				  (uintptr_t)t->there->at, t->theirs->rkey),
			 0);
	rig_expect(t->rig.cq[1], IBV_WC_LOC_PROT_ERR, 2);
}

static void rights(void **state)
{
	struct two *t = *state;

	assert_int_equal(exporter_do(&t->exporter, EXPORT_RIGHTS, 0), 0);
	/* to read its memory locally needs no right */
	local(t, IBV_WR_RDMA_WRITE, 8, IBV_WC_SUCCESS);
	local(t, IBV_WR_RDMA_READ, 8, IBV_WC_LOC_PROT_ERR);
	two_connect(t);
	remote(t, IBV_WR_RDMA_WRITE, 8, IBV_WC_REM_ACCESS_ERR);
	two_connect(t);
	remote(t, IBV_WR_RDMA_READ, 8, IBV_WC_REM_ACCESS_ERR);
	two_connect(t);
	assert_int_equal(exporter_do(&t->exporter, EXPORT_RIGHTS, RIG_ALL), 0);
	assert_int_equal(rig_rdma(t->qp, IBV_WR_RDMA_WRITE, 1, t->theirs,
				  t->there->at + EXPORTED_BYTES - 7, 8, (uintptr_t)t->own->addr,
				  t->own->rkey),
			 0);
	rig_expect(t->cq, IBV_WC_LOC_PROT_ERR, 1);
	two_connect(t);
	remote(t, IBV_WR_RDMA_WRITE, 8, IBV_WC_SUCCESS);
}

static void deregistered(void **state)
{
	struct two *t = *state;
	uint32_t key = t->theirs->lkey;

	assert_int_equal(exporter_do(&t->exporter, EXPORT_DEREGISTER, 0), 0);
	local(t, IBV_WR_RDMA_WRITE, 8, IBV_WC_LOC_PROT_ERR);
	two_connect(t);
	remote(t, IBV_WR_RDMA_WRITE, 8, IBV_WC_REM_ACCESS_ERR);
	two_connect(t);
	assert_int_equal(rig_receive(t->qp, 3, t->theirs, t->there->at, 8), 0);
	assert_int_equal(rig_send(t->rig.qp[1], 4, t->own, t->own->addr, 8), 0);
	rig_expect(t->rig.cq[1], IBV_WC_REM_OP_ERR, 4);
	rig_expect(t->cq, IBV_WC_LOC_PROT_ERR, 3);
	expect_null(ibv_import_mr(t->pd, key), ENOENT);
	ibv_unimport_mr(t->theirs);
	two_connect(t);
	two_import_region(t, RIG_ALL);
	local(t, IBV_WR_RDMA_WRITE, 8, IBV_WC_SUCCESS);
}

/* The exporter's memory was in place, and is no longer mapped. */
static void unmapped(void **state)
{
	struct two *t = *state;

	assert_int_equal(exporter_do(&t->exporter, EXPORT_UNMAP, 0), 0);
	local(t, IBV_WR_RDMA_WRITE, 8, IBV_WC_LOC_PROT_ERR);
	two_connect(t);
	local(t, IBV_WR_RDMA_READ, 8, IBV_WC_LOC_PROT_ERR);
	two_connect(t);
	remote(t, IBV_WR_RDMA_WRITE, 8, IBV_WC_REM_OP_ERR);
	two_connect(t);
	assert_int_equal(rig_receive(t->qp, 3, t->theirs, t->there->at, 8), 0);
	assert_int_equal(rig_send(t->rig.qp[1], 4, t->own, t->own->addr, 8), 0);
	rig_expect(t->rig.cq[1], IBV_WC_REM_OP_ERR, 4);
	rig_expect(t->cq, IBV_WC_LOC_PROT_ERR, 3);
}

/* As the kernel has it: a domain cannot be deallocated while others have objects in it; an import alone does
 * not keep it. */
static void deallocated(void **state)
{
	struct two *t = *state;
	struct ibv_pd *second = ibv_import_pd(t->context, t->there->pd);
	struct ibv_pd *base;

	assert_non_null(second);
	assert_int_equal(exporter_do(&t->exporter, EXPORT_DEREGISTER, 0), 0);
	ibv_unimport_mr(t->theirs);
	t->theirs = NULL;
	assert_int_equal(exporter_do(&t->exporter, EXPORT_DEALLOC, 0), EBUSY);
	assert_int_equal(ibv_destroy_qp(t->qp), 0);
	t->qp = NULL;
	assert_int_equal(exporter_do(&t->exporter, EXPORT_DEALLOC, 0), 0);
	expect_null(two_make_qp(t->pd, t->cq, IBV_QPT_RC), EINVAL);
	expect_null(ibv_reg_mr(second, t->own->addr, PAGE, 0), EINVAL);
	expect_null(ibv_alloc_mw(second, IBV_MW_TYPE_1), EINVAL);
	expect_null(ibv_import_mr(second, t->there->mr), EINVAL);
	expect_null(ibv_import_pd(t->context, t->there->pd), ENOENT);
	base = ibv_alloc_parent_domain(t->context,
				       &(struct ibv_parent_domain_init_attr){.pd = t->pd});
	expect_null(base, EINVAL);
	ibv_unimport_pd(second);
}

/* The exporter closes its device: its own objects end, those of the importer in its domain do not. */
static void closed(void **state)
{
	struct two *t = *state;
	struct ibv_mr *near = rig_region(t->pd, PAGE);

	local(t, IBV_WR_RDMA_WRITE, 8, IBV_WC_SUCCESS);
	assert_int_equal(exporter_do(&t->exporter, EXPORT_CLOSE, 0), 0);
	assert_int_equal(rig_rdma(t->qp, IBV_WR_RDMA_WRITE, 1, near, near->addr, 8,
				  (uintptr_t)t->own->addr, t->own->rkey),
			 0);
	rig_expect(t->cq, IBV_WC_SUCCESS, 1);
	local(t, IBV_WR_RDMA_WRITE, 8, IBV_WC_LOC_PROT_ERR);
	expect_gone(t->exporter.fd); /* the exporter has left the pool */
	rig_region_end(near);
}

/* ---- Life and death ---- */

static void exporter_killed(void **state)
{
	struct two *t = *state;
	struct ibv_mr *near = rig_region(t->pd, PAGE);
	uint64_t deadline_ns = rig_now_ns() + 10000000000ull;
	struct ibv_wc wc;

	local(t, IBV_WR_RDMA_READ, BYTES, IBV_WC_SUCCESS);
	exporter_kill(&t->exporter);
	t->exporter.pid = 0;
	do {
		assert_true(rig_now_ns() < deadline_ns);
		assert_int_equal(rig_rdma(t->qp, IBV_WR_RDMA_READ, 1, t->theirs, t->there->at,
					  BYTES, (uintptr_t)t->own->addr, t->own->rkey),
				 0);
		wc = rig_next(t->cq);
	} while (!wc.status);
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	two_connect(t);
	remote(t, IBV_WR_RDMA_WRITE, 8, IBV_WC_REM_ACCESS_ERR);
	two_connect(t);
	/* the importer's own objects in the domain of the dead process work on */
	assert_int_equal(rig_rdma(t->qp, IBV_WR_RDMA_WRITE, 1, near, near->addr, 8,
				  (uintptr_t)t->own->addr, t->own->rkey),
			 0);
	rig_expect(t->cq, IBV_WC_SUCCESS, 1);
	expect_null(two_make_qp(t->pd, t->cq, IBV_QPT_RC), EINVAL);
	expect_gone(t->exporter.fd);
	rig_region_end(near);
}

/* A third process imports the domain, registers memory in it and is killed: then the domain can be
 * deallocated. */
static void importer_killed(void **state)
{
	struct two *t = *state;
	uint64_t deadline_ns = rig_now_ns() + 10000000000ull;
	int sync[2];
	char byte;
	pid_t pid;

	assert_int_equal(exporter_do(&t->exporter, EXPORT_DEREGISTER, 0), 0);
	ibv_unimport_mr(t->theirs);
	t->theirs = NULL;
	assert_int_equal(ibv_destroy_qp(t->qp), 0);
	t->qp = NULL;
	assert_int_equal(pipe(sync), 0);
	pid = fork(); /* to the pool the child is a process of its own; it has the descriptor */
	if (!pid) {
		struct ibv_context *context = ibv_import_device(t->exporter.fd);
		struct ibv_pd *pd = context ? ibv_import_pd(context, t->there->pd) : NULL;

		if (!pd || !ibv_reg_mr(pd, rig_pages(PAGE), PAGE, RIG_ALL) ||
		    write(sync[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(sync[0], &byte, 1), 1);
	assert_int_equal(exporter_do(&t->exporter, EXPORT_DEALLOC, 0), EBUSY);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* while a member recovers the dead process, it has that one's lock for a moment, as if it lived */
	while (exporter_do(&t->exporter, EXPORT_DEALLOC, 0))
		assert_true(rig_now_ns() < deadline_ns);
	close(sync[0]);
	close(sync[1]);
}

static atomic_bool stop;

/* READs into the exporter's memory, and WRITEs from it, as fast as it goes; after each failure the two are
 * connected anew. */
static void *storm(void *arg)
{
	struct two *t = arg;
	struct ibv_wc wc = {0};

	for (uint64_t i = 0; !stop; i++) {
		if (wc.status)
			two_connect(t);
		t->theirs->lkey = t->theirs->rkey = t->there->key;
		if (i % 2 ? rig_rdma(t->qp, IBV_WR_RDMA_READ, 1, t->theirs, t->there->at, BYTES,
				     (uintptr_t)t->own->addr, t->own->rkey)
			  : rig_rdma(t->rig.qp[1], IBV_WR_RDMA_WRITE, 1, t->own, t->own->addr,
				     BYTES, (uintptr_t)t->there->at, t->theirs->rkey))
			break;
		wc = rig_next(i % 2 ? t->cq : t->rig.cq[1]);
	}
	return NULL;
}

/* Once EXPORT_DEREGISTER has returned, no byte of the memory changes. */
static void revoked_at_full_speed(void **state)
{
	struct two *t = *state;
	pthread_t thread;

	memset(t->own->addr, 0xa5, BYTES);
	stop = false;
	assert_int_equal(pthread_create(&thread, NULL, storm, t), 0);
	for (int i = 0; i < 10; i++) {
		while (!exporter_do(&t->exporter, EXPORT_CHECK, 0x5a) && i)
			;
		assert_int_equal(
			exporter_do(&t->exporter, i % 2 ? EXPORT_DEREGISTER : EXPORT_RIGHTS, 0), 0);
		assert_int_equal(exporter_do(&t->exporter, EXPORT_GUARD, 0), 0);
		assert_int_equal(i % 2 ? exporter_do(&t->exporter, EXPORT_REGISTER, RIG_ALL)
				       : exporter_do(&t->exporter, EXPORT_RIGHTS, RIG_ALL),
				 0);
	}
	stop = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* ---- Descriptors ---- */

static void other_descriptors(void **state)
{
	struct ibv_context *context = rig_context();
	int pipes[2], fd = memfd_create("other", 0);

	assert_int_equal(pipe(pipes), 0);
	expect_null(ibv_import_device(-1), EBADF);
	expect_null(ibv_import_device(1 << 20), EBADF);
	expect_null(ibv_import_device(pipes[0]), EINVAL);
	expect_null(ibv_import_device(context->async_fd), EINVAL);
	expect_null(ibv_import_device(fd), EINVAL);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	expect_null(ibv_import_device(fd), EINVAL);
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
	assert_int_equal(ibv_close_device(context), 0);
}

/* The descriptor's process is in another pool. */
static void other_pool(void **state)
{
	struct exporter e;
	char path[256];

	snprintf(path, sizeof(path), "%s", getenv("WEFT_POOL"));
	setenv("WEFT_POOL", "/dev/shm/weft-test-import-other", 1);
	exporter_start(&e, false);
	setenv("WEFT_POOL", path, 1);
	expect_null(ibv_import_device(e.fd), EINVAL);
	/* and the import does not create the pool */
	setenv("WEFT_POOL", "/dev/shm/weft-test-import-none", 1);
	expect_null(ibv_import_device(e.fd), EINVAL);
	assert_int_equal(access("/dev/shm/weft-test-import-none", F_OK), -1);
	errno = 0;
	setenv("WEFT_POOL", path, 1);
	exporter_kill(&e);
	close(e.fd);
	munmap(e.shared, PAGE);
	unlink("/dev/shm/weft-test-import-other");
}

#define WITH(test, setup) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(gathers_and_scatters, setup),
		WITH(gathers_and_scatters, setup_in_place),
		WITH(is_target, setup),
		WITH(is_target, setup_in_place),
		WITH(messages, setup),
		WITH(messages, setup_in_place),
		WITH(atomics, setup),
		WITH(both_sides, setup),
		WITH(both_sides, setup_in_place),
		WITH(datagrams, setup),
		WITH(datagrams, setup_in_place),
		WITH(shared_queue, setup),
		WITH(shared_queue, setup_in_place),
		WITH(windows, setup),
		WITH(unmapped, setup_in_place),
		WITH(device_memory, setup),
		WITH(wrong_handles, setup),
		WITH(rights, setup),
		WITH(rights, setup_in_place),
		WITH(deregistered, setup),
		WITH(deallocated, setup),
		WITH(closed, setup),
		WITH(exporter_killed, setup),
		WITH(exporter_killed, setup_in_place),
		WITH(importer_killed, setup),
		WITH(revoked_at_full_speed, setup),
		WITH(revoked_at_full_speed, setup_in_place),
		cmocka_unit_test(other_descriptors),
		cmocka_unit_test(other_pool),
	};

	return cmocka_run_group_tests_name("import", tests, make_pool, remove_pool);
}
