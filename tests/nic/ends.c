/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "ends.h"
#include "nic/cq.h"
#include "nic/mr.h"
#include "nic/qp.h"
#include "nic/queues.h"
#include "pool/sge.h"

#include <string.h>

#define GAP_BYTES 64u
#define XRCD	  3u
#define PATH_MTU  3u  /* code: 1,024 bytes */
#define TIMEOUT	  14u /* code: 67 ms */
#define RNR_TIMER 1u  /* code: ENDS_RNR_NS */

struct ends_wish ends_wish;
const uint8_t ends_node_gid[2][16] = {{[10] = 0xff, 0xff, 10, 0, 0, 1},
				      {[10] = 0xff, 0xff, 10, 1, 0, 1}};
struct end ends_near, ends_peer;
struct weft_cq ends_peer_cq;
struct weft_srq ends_srq;
uint32_t ends_srq_number;

const struct ends_memory *ends_near_kind = &ends_pooled, *ends_peer_kind = &ends_pooled;

/* ---- Memory of the pool ---- */

static void begin_pooled(struct end *e)
{
	assert_int_equal(weft_pool_extent_alloc(world.pool, ENDS_ALL, &e->off), 0);
	e->memory = weft_pool_populate(world.pool, e->off, ENDS_ALL);
	assert_non_null(e->memory);
}

static void end_pooled(struct end *e)
{
	weft_pool_extent_free(world.pool, e->off, ENDS_ALL);
}

static void write_pooled(const struct end *e, uint64_t at, const void *from, uint64_t bytes)
{
	memcpy(e->memory + at, from, bytes);
}

static void read_pooled(const struct end *e, uint64_t at, void *to, uint64_t bytes)
{
	memcpy(to, e->memory + at, bytes);
}

const struct ends_memory ends_pooled = {
	.begin = begin_pooled,
	.end = end_pooled,
	.write = write_pooled,
	.read = read_pooled,
};

/* ---- Regions and queue pairs ---- */

void ends_region(struct end *e, uint8_t fill)
{
	bool in_place = e == &ends_peer && ends_wish.in_place && ends_peer_kind == &ends_pooled;
	/* of a region on demand the owner reaches its own memory in the same way as others do */
	uint8_t on_demand = in_place ? WEFT_ACCESS_ON_DEMAND : 0, bytes[ENDS_ALL];
	struct weft_mr_piece piece;

	e->kind = e == &ends_peer ? ends_peer_kind : ends_near_kind;
	e->kind->begin(e);
	memset(bytes, fill, ENDS_ALL);
	e->kind->write(e, 0, bytes, ENDS_ALL);
	piece = (struct weft_mr_piece){(uintptr_t)e->memory, ENDS_ALL,
				       in_place ? UINT64_MAX : e->off};
	e->mr.nic = &world.nic;
	assert_int_equal(weft_mr_create(&world.nic, &e->mr,
					&(struct weft_mr_drawing){.pd = ENDS_PD,
								  .access = 15 | on_demand,
								  .iova = piece.va,
								  .va = piece.va,
								  .len_bytes = ENDS_ALL,
								  .pieces = &piece,
								  .npieces = 1}),
			 0);
}

static enum weft_qp_type type_of(const struct end *e)
{
	enum weft_qp_type type = ends_wish.type ? ends_wish.type : WEFT_QPT_RC;

	return e == &ends_near ? type : (enum weft_qp_type)weft_qp_peer_type(type);
}

static bool receives_shared(void)
{
	return ends_wish.shared || ends_wish.type == WEFT_QPT_XRC_SEND;
}

static void make(struct end *e, struct weft_cq *cq, uint8_t fill)
{
	bool shared = e == &ends_peer && ends_wish.shared;
	struct weft_qp_cap cap = {.max_send_wr = ENDS_DEPTH,
				  .max_recv_wr = ENDS_DEPTH,
				  .max_send_sge = 3,
				  .max_recv_sge = 3};

	memset(e, 0, sizeof(*e));
	ends_region(e, fill);
	assert_int_equal(weft_qp_create(&world.nic, &e->qp, type_of(e), ENDS_PD, cq, cq,
					shared ? &ends_srq : NULL, &cap, false),
			 0);
	e->qp.xrcd = XRCD;
}

static void make_shared(void)
{
	memset(&ends_srq, 0, sizeof(ends_srq));
	assert_int_equal(weft_srq_create(&world.nic, &ends_srq, ENDS_PD, ENDS_DEPTH, 3), 0);
	if (!ends_wish.shared)
		assert_int_equal(weft_srq_number(&ends_srq, &ends_peer_cq, XRCD, &ends_srq_number),
				 0);
}

void ends_modify(struct end *e, enum weft_qp_state to, const struct end *peer)
{
	struct weft_qp_attr attr = {.dest_qpn = peer->qp.qpn,
				    .access = 15,
				    .path_mtu = PATH_MTU,
				    .max_rd_atomic = !ends_wish.no_reads,
				    .max_dest_rd_atomic = 1,
				    .timeout = ends_wish.patient ? 0 : TIMEOUT,
				    .min_rnr_timer = RNR_TIMER,
				    .rnr_retry = ends_wish.rnr_retry,
				    .tells_drained = to == WEFT_QPS_SQD};

	attr.sq_psn = e == &ends_near ? ends_wish.near_sq_psn : ends_wish.peer_sq_psn;
	attr.rq_psn = e == &ends_near ? ends_wish.near_rq_psn : ends_wish.peer_rq_psn;
	memcpy(attr.sgid, ends_wish.apart ? ends_node_gid[e != &ends_near] : world_gid, 16);
	memcpy(attr.dgid, ends_wish.apart ? ends_node_gid[e == &ends_near] : world_gid, 16);
	assert_int_equal(weft_qp_modify(&e->qp, e->qp.state, to, &attr, &world.caller), 0);
}

void ends_connect(struct end *e, const struct end *peer)
{
	for (enum weft_qp_state to = WEFT_QPS_INIT; to <= WEFT_QPS_RTS; to++)
		ends_modify(e, to, peer);
}

void ends_revoke(struct end *e)
{
	if (!e->mr.nic)
		return;
	assert_true(weft_mr_close(&e->mr));
	assert_true(weft_mr_revoke(&e->mr));
	weft_mr_destroy(&e->mr, true);
	e->mr.nic = NULL;
	if (e->kind && e->kind->revoke)
		e->kind->revoke(e);
}

void ends_free(struct end *e)
{
	e->kind->end(e);
}

void ends_destroy(struct end *e)
{
	if (!e->qp.nic)
		return;
	weft_qp_destroy(&e->qp);
	e->qp.nic = NULL;
}

void ends_destroy_srq(void)
{
	if (!ends_srq.nic)
		return;
	if (!ends_wish.shared)
		weft_srq_forget(&ends_srq);
	weft_srq_destroy(&ends_srq, true);
	ends_srq.nic = NULL;
}

static void unmake(struct end *e)
{
	ends_destroy(e);
	ends_revoke(e);
	ends_free(e);
}

/* ---- Requests ---- */

/* A list of three elements. None of its boundaries is one of pieces.c's parts, nor are they next to each
 * other. */
static void list(struct weft_pool_sge sge[3], const struct end *e, uint32_t gap_bytes)
{
	static const uint32_t bytes[3] = {1500, 1, ENDS_BYTES - 1501};
	uint64_t at = (uintptr_t)e->memory;

	for (int i = 0; i < 3; i++) {
		sge[i] = (struct weft_pool_sge){at, bytes[i], e->mr.key};
		at += bytes[i] + gap_bytes;
	}
}

/* The bytes between the elements of near's list, which must not arrive. */
static void fill_gaps(const struct weft_pool_sge sge[3])
{
	uint8_t gap[GAP_BYTES];

	memset(gap, 'g', GAP_BYTES);
	for (int i = 0; i < 2; i++)
		ends_near.kind->write(&ends_near,
				      sge[i].addr - (uintptr_t)ends_near.memory + sge[i].len_bytes,
				      gap, GAP_BYTES);
}

void ends_receive_into(uint64_t wr_id, uint32_t bytes)
{
	struct weft_pool_sge sge[3];
	uint32_t n = bytes < ENDS_BYTES ? 1 : 3;

	list(sge, &ends_peer, 0);
	if (n == 1)
		sge[0].len_bytes = bytes;
	assert_int_equal(receives_shared() ? weft_srq_post(&ends_srq, wr_id, sge, n, 0)
					   : weft_rq_post(&ends_peer.qp, wr_id, sge, n, 0),
			 0);
}

void ends_receive(void)
{
	ends_receive_into(9, ENDS_BYTES);
}

static void fill_atomic(struct weft_wqe *wqe, const struct ends_request *r, const struct end *from)
{
	wqe->num_sge = 1;
	wqe->remote_addr = (uintptr_t)ends_peer.memory + ENDS_WORDS;
	wqe->compare_add = r->compare_add;
	wqe->swap = r->swap;
	wqe->sge[0] = (struct weft_pool_sge){(uintptr_t)from->memory + ENDS_WORDS + 8 * r->wr_id, 8,
					     from->mr.key};
}

void ends_submit(const struct ends_request *r, const struct end *from)
{
	struct weft_wqe *wqe = weft_sq_next(&ends_near.qp);

	assert_non_null(wqe);
	*wqe = (struct weft_wqe){.wr_id = r->wr_id,
				 .opcode = (uint8_t)r->opcode,
				 .flags = r->flags,
				 .imm = r->imm,
				 .num_sge = r->empty ? 0 : 3,
				 .remote_addr = (uintptr_t)ends_peer.memory,
				 .rkey = ends_peer.mr.key};
	if (weft_op_is_atomic(r->opcode) || r->opcode == WEFT_OP_ATOMIC_WRITE)
		fill_atomic(wqe, r, from);
	else
		list(wqe->sge, from, r->opcode == WEFT_OP_READ ? 0 : GAP_BYTES);
	if (from == &ends_near && wqe->num_sge == 3 && r->opcode != WEFT_OP_READ)
		fill_gaps(wqe->sge);
	if (ends_near.qp.type == WEFT_QPT_XRC_SEND && weft_op_is_atomic(r->opcode))
		wqe->imm = ends_srq_number;
	else if (ends_near.qp.type == WEFT_QPT_XRC_SEND)
		wqe->remote_srqn = ends_srq_number;
	weft_sq_submit(&ends_near.qp, wqe, &world.caller);
}

void ends_post(enum weft_opcode opcode, const struct end *from)
{
	ends_submit(
		&(struct ends_request){.opcode = opcode, .wr_id = 1, .flags = WEFT_SEND_SIGNALED},
		from);
}

/* ---- Both ends ---- */

void ends_open(void)
{
	memset(&ends_peer_cq, 0, sizeof(ends_peer_cq));
	assert_int_equal(weft_cq_create(&world.nic, &ends_peer_cq, 64), 0);
	if (receives_shared())
		make_shared();
	make(&ends_near, &world.cq, 'n');
	make(&ends_peer, &ends_peer_cq, 'p');
	ends_connect(&ends_near, &ends_peer);
	ends_connect(&ends_peer, &ends_near);
}

void ends_close(void)
{
	unmake(&ends_near);
	unmake(&ends_peer);
	ends_destroy_srq();
	weft_cq_destroy(&ends_peer_cq);
}
