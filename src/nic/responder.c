/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/errors.h"
#include "nic/limits.h"
#include "nic/nic.h"
#include "nic/place.h"
#include "nic/qp.h"
#include "nic/responder.h"
#include "pool/step.h"
#include "pool/format_line.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"
#include "pool/format_queue.h"
#include "pool/format_ring.h"
#include "pool/completed.h"
#include "pool/sizes.h"
#include "pool/slice.h"

bool weft_responder_has_gid(struct weft_pool *pool, uint16_t member, const uint8_t gid[16])
{
	const struct weft_pool_member *m = pool->calls->member(pool, member);

	return m && weft_member_has_gid(m, gid);
}

bool weft_responder_addressed(struct weft_responder *to)
{
	if (to->addressed != to->grant.member + 1u &&
	    weft_responder_has_gid(to->from.nic->pool, to->grant.member, to->from.dgid))
		to->addressed = (uint16_t)(to->grant.member + 1u);
	return to->addressed == to->grant.member + 1u;
}

/* How many receives this requester had used as it left that epoch, if it did; else where the epoch began. */
static uint64_t left_at(const struct weft_pool_qp *slot, uint32_t epoch)
{
	uint64_t start = slot->rq_start,
		 left = atomic_load_explicit(&slot->rq_left, memory_order_relaxed);
	uint64_t posted = atomic_load_explicit(&slot->rq_posted, memory_order_relaxed);
	uint64_t taken = posted - (uint32_t)(posted - left);

	return left >> 32 == epoch && taken > start && taken <= posted ? taken : start;
}

/* Receives that an earlier connection of ours used stay used, unless the peer emptied its queue. */
static void resume_receives(struct weft_responder *to)
{
	to->rq_epoch = to->slot->rq_epoch;
	to->taken = to->from.slot->rq_taken_epoch == to->rq_epoch &&
				    to->from.slot->rq_taken_qpn == to->from.dest_qpn
			    ? atomic_load_explicit(&to->from.slot->rq_taken, memory_order_relaxed)
			    : left_at(to->slot, to->rq_epoch);
	to->posted = to->taken;
	weft_store(&to->from.slot->rq_taken_epoch, to->rq_epoch);
	weft_store(&to->from.slot->rq_taken_qpn, to->from.dest_qpn);
	atomic_store_explicit(&to->from.slot->rq_taken, to->taken, memory_order_relaxed);
}

void weft_responder_leave(struct weft_responder *to)
{
	struct weft_pool *pool = to->from.nic->pool;
	uint64_t was, left;

	if (!to->slot || to->from.slot->rq_taken_qpn != to->slot->qpn)
		return;
	was = atomic_load_explicit(&to->slot->rq_left, memory_order_relaxed);
	left = (uint64_t)to->from.slot->rq_taken_epoch << 32 | (uint32_t)to->from.slot->rq_taken;
	/* a requester that stands still here must not undo what a later connection leaves */
	if (to->slot->rq_epoch != to->from.slot->rq_taken_epoch)
		return;
	if (weft_must_ask(pool, to->grant.member)) {
		struct weft_pool_change change =
			weft_change_of(pool, &to->slot->rq_left, WEFT_CHANGE_COMPARE, was, left);

		pool->change(pool, NULL, to->grant.member, &change, 1);
		return;
	}
	atomic_compare_exchange_strong(&to->slot->rq_left, &was, left);
}

/* Many queue pairs may complete into one ring: it is populated for the first of them. */
static bool map_entries(struct weft_pool *pool, const struct weft_responder *to, uint64_t off)
{
	_Atomic uint64_t *last = &to->from.nic->ring_populated;
	uint64_t bytes = weft_pool_ring_bytes(to->ring_mask + 1, to->stamped),
		 now = off + to->ring_bits;

	if (atomic_load_explicit(last, memory_order_relaxed) == now)
		return pool->calls->window(pool, off, bytes);
	if (!pool->calls->populate(pool, off, bytes))
		return false;
	atomic_store_explicit(last, now, memory_order_relaxed);
	return true;
}

static bool map_ring(struct weft_pool *pool, struct weft_responder *to, uint64_t off)
{
	uint32_t size;

	to->ring = off % WEFT_LINE ? NULL : pool->calls->window(pool, off, sizeof(*to->ring));
	if (!to->ring || to->ring->producer != pool->me)
		return false;
	to->ring_lock = &to->from.nic->ring_lock[((uintptr_t)to->ring >> 6) % WEFT_SIGNAL_LOCKS];
	size = to->ring->size;
	to->stamped = to->ring->stamped;
	to->ring_mask = size - 1;
	to->ring_bits = (uint8_t)(size ? __builtin_ctz(size) : 0);
	return size && !(size & to->ring_mask) && map_entries(pool, to, off);
}

static bool map_receives(struct weft_pool *pool, struct weft_responder *to, uint64_t off,
			 uint32_t size, uint32_t stride)
{
	to->rq_mask = size - 1;
	to->rq_stride = stride;
	if (!size || size & to->rq_mask || stride < sizeof(struct weft_pool_recv) || off % 8 ||
	    stride % 8)
		return false;
	to->rq_sges =
		(stride - (uint32_t)sizeof(struct weft_pool_recv)) / sizeof(struct weft_pool_sge);
	to->rq = to->rq_sges > WEFT_MAX_SGE
			 ? NULL
			 : pool->calls->populate(pool, off, (uint64_t)size * stride);
	return to->rq;
}

static bool map_queue(struct weft_responder *to, uint64_t off, uint32_t size, uint32_t stride)
{
	if (!map_receives(to->from.nic->pool, to, off, size, stride))
		return false;
	to->receive_domain = to->domain;
	resume_receives(to);
	return true;
}

bool weft_responder_map_take(struct weft_pool *pool, struct weft_responder *to, uint64_t off,
			     uint64_t wake_off)
{
	struct weft_take take;

	if (!weft_take_map(pool, &take, to->grant.member, off, wake_off))
		return false;
	to->take = take;
	to->receive_domain = take.domain;
	to->rq_sges = take.sges;
	to->posted = to->taken = 0;
	return true;
}

const struct weft_pool_recv *weft_responder_take(struct weft_responder *to)
{
	struct weft_pool_slot *slot = to->held;

	while (!slot) {
		int err;

		slot = weft_take_first(to->from.nic->pool, &to->take);
		if (!slot)
			return NULL;
		err = weft_take_claim(to->from.nic->pool, &to->take);
		if (err && err != -EAGAIN)
			return NULL;
		if (err)
			slot = NULL;
	}
	to->held = slot;
	return &slot->recv;
}

void weft_responder_let_go(struct weft_responder *to)
{
	if (to->held)
		weft_take_let_go(to->from.nic->pool, &to->take);
	to->held = NULL;
}

void weft_responder_drop(struct weft_responder *to)
{
	if (!to->held)
		return;
	to->from.nic->pool->calls->visit(to->from.nic->pool, to->grant.member);
	weft_responder_let_go(to);
	to->from.nic->pool->calls->depart(to->from.nic->pool);
}

/* With another PSN a request is one that has been lost or done already: it is not carried out, and what answers it
 * is not understood (9.7.1.1). Without reliability each message begins anew (9.8.2.2). */
static bool is_expected(const struct weft_requester *from, uint32_t psn)
{
	return from->psn == psn || from->psn == WEFT_ANY_PSN || psn == WEFT_ANY_PSN ||
	       from->type == WEFT_QPT_UC;
}

/* The line stands between two equal looks at a conn word that says: ready, and yours. */
bool weft_responder_read(struct weft_responder *to)
{
	struct weft_pool *pool = to->from.nic->pool;
	struct weft_pool_qp *slot = to->slot;
	uint16_t named = to->grant.member;
	uint64_t conn, rq_off, ring_off;
	uint32_t rq_size, rq_stride, expected;

	if (!pool->calls->use(pool, named))
		return false;
	/* acquire: pairs with the release in publish_qp (qp.c) */
	conn = atomic_load_explicit(&slot->conn, memory_order_acquire);
	rq_off = slot->rq_off;
	ring_off = slot->ring_off;
	rq_size = slot->rq_size;
	rq_stride = slot->rq_stride;
	to->grant.member = slot->owner;
	to->busy_at = weft_busy_at(to->grant.member, to->from.dest_qpn & (WEFT_QPS - 1));
	to->domain = weft_domain(to->grant.member, slot->pd);
	to->access = slot->access;
	to->tag = to->from.dest_qpn | (uint32_t)slot->connection << 24;
	to->from.rnr_timer = slot->min_rnr_timer;
	expected = slot->rq_psn;
	/* another one may have taken the entry since, and be connected to us */
	if (slot->qpn != to->from.dest_qpn || slot->type != weft_qp_peer_type(to->from.type) ||
	    to->grant.member != named)
		return false;
	if ((conn & 0xffffffff) != ((uint64_t)WEFT_CONN_READY << 24 | to->from.qpn) || !ring_off)
		return false;
	if (!is_expected(&to->from, expected))
		return false;
	/* found at fault: it has failed, although its owner has yet to see that */
	if (conn == atomic_load_explicit(&to->from.slot->fault_conn, memory_order_relaxed) &&
	    to->from.slot->fault_qpn == to->from.dest_qpn)
		return false;
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&slot->conn, memory_order_relaxed) != conn ||
	    !weft_responder_addressed(to))
		return false;
	weft_responder_let_go(to);
	to->take.at = NULL;
	if (!(rq_size ? map_queue(to, rq_off, rq_size, rq_stride) && map_ring(pool, to, ring_off)
		      : weft_responder_map_take(pool, to, rq_off, ring_off)))
		return false;
	WEFT_STEP(peer_read);
	to->grant.was = conn;
	return true;
}

void weft_responder_begin(struct weft_responder *to, const struct weft_qp *qp)
{
	*to = (struct weft_responder){
		.from = {.nic = qp->nic,
			 .slot = qp->slot,
			 .qpn = qp->qpn,
			 .dest_qpn = qp->attr.dest_qpn,
			 .type = qp->type},
		.peer = to,
	};
	__builtin_memcpy(to->from.dgid, qp->attr.dgid, sizeof(to->from.dgid));
}

bool weft_responder_find(struct weft_responder *to)
{
	struct weft_pool *pool = to->from.nic->pool;
	uint32_t index = to->from.dest_qpn & (WEFT_QPS - 1);

	if (pool->calls->see_qp(pool, index) ||
	    atomic_load_explicit(&pool->qps[index].qpn, memory_order_acquire) != to->from.dest_qpn)
		return false;
	to->slot = &pool->qps[index];
	to->grant.word = &to->slot->conn;
	to->grant.member = to->slot->owner;
	to->busy_at = weft_busy_at(to->grant.member, index);
	return true;
}

bool weft_responder_rehomes(const struct weft_responder *to)
{
	return to->slot &&
	       (atomic_load_explicit(&to->slot->conn, memory_order_relaxed) >> 24 & 0xff) ==
		       WEFT_CONN_REHOMING &&
	       to->from.nic->pool->calls->use(to->from.nic->pool, to->grant.member);
}

bool weft_responder_queue(const struct weft_responder *to, uint32_t number,
			  struct weft_responder *queue)
{
	struct weft_pool *pool = to->from.nic->pool;
	uint32_t index = number & (WEFT_QPS - 1);
	struct weft_pool_qp *slot = &pool->qps[index];
	uint64_t conn;

	queue->slot = NULL;
	if (pool->calls->see_qp(pool, index) ||
	    atomic_load_explicit(&slot->qpn, memory_order_acquire) != number)
		return false;
	pool->calls->use(pool, slot->owner);
	/* acquire: pairs with the release in publish_srq (srq.c) */
	conn = atomic_load_explicit(&slot->conn, memory_order_acquire);
	*queue = *to;
	queue->slot = slot;
	queue->grant = (struct weft_grant){&slot->conn, conn, slot->owner};
	/* the executor is there by way of the peer's queue pair */
	queue->busy_at = weft_busy_at(slot->owner, to->from.dest_qpn & (WEFT_QPS - 1));
	queue->domain = weft_domain(slot->owner, slot->pd);
	return slot->type == WEFT_QPT_QUEUE && slot->qkey == to->slot->qkey &&
	       (conn >> 24 & 0xff) == WEFT_CONN_READY;
}

bool weft_xrc_knows(const struct weft_xrc_queue *q, const struct weft_responder *to,
		    uint32_t number)
{
	return q->number == number && q->conn == to->grant.was &&
	       !weft_responder_is_gone(&q->responder);
}

bool weft_xrc_map(struct weft_xrc_queue *q, const struct weft_responder *to, uint32_t number)
{
	const struct weft_pool_qp *slot = q->responder.slot;
	struct weft_pool *pool = to->from.nic->pool;

	q->number = 0;
	/* of a host that is silent no request is carried out, although its memory is there */
	if (!pool->calls->use(pool, q->responder.grant.member) ||
	    weft_responder_is_gone(&q->responder) ||
	    !weft_responder_map_take(pool, &q->responder, slot->rq_off, slot->ring_off))
		return false;
	q->number = number;
	q->conn = to->grant.was;
	return true;
}

/* What a receive's completion tells of the request that used it. */
static const struct {
	uint8_t opcode, flags;
} told[WEFT_OPS] = {
	[WEFT_OP_WRITE_IMM] = {WEFT_WC_RECV_WRITE_IMM, WEFT_WC_WITH_IMM},
	[WEFT_OP_SEND] = {WEFT_WC_RECV, 0},
	[WEFT_OP_SEND_IMM] = {WEFT_WC_RECV, WEFT_WC_WITH_IMM},
	[WEFT_OP_SEND_INV] = {WEFT_WC_RECV, WEFT_WC_WITH_INV},
};

static inline void fill(struct weft_pool_cqe *cqe, const struct weft_responder *to,
			const struct weft_wqe *request, uint64_t wr_id, uint32_t bytes,
			enum weft_wc_status status)
{
	uint8_t flags = told[request->opcode].flags;

	cqe->wr_id = wr_id;
	cqe->qpn = to->tag;
	cqe->byte_len = bytes;
	cqe->imm = flags ? request->imm : 0;
	cqe->src_qpn = to->from.qpn;
	cqe->status = (uint8_t)status;
	cqe->opcode = told[request->opcode].opcode;
	cqe->flags = flags;
	cqe->solicited = !!(request->flags & WEFT_SEND_SOLICITED);
}

#define MOST_AHEAD_BYTES 4160u

/* The next message is as long as this one, most likely, and its buffer was its owner's last. Asked
 * for now, in order to write, it will not hold up the stores into it, and the completion behind
 * them. */
static void look_ahead(const struct weft_responder *to, uint32_t bytes)
{
	const struct weft_pool_recv *next = weft_take_next(&to->take);
	uint8_t *at;

	if (!next || next->num_sge != 1 || !bytes || bytes > MOST_AHEAD_BYTES)
		return;
	at = weft_mr_guess(to->from.nic->pool, next->sge[0].lkey, next->sge[0].addr, bytes);
	if (!at)
		return;
	for (uint32_t i = 0; i < bytes; i += WEFT_LINE)
		__builtin_prefetch(at + i, 1);
	__builtin_prefetch(at + bytes - 1, 1);
}

static __attribute__((__noinline__)) void complete_srq(struct weft_responder *to,
						       const struct weft_wqe *request,
						       uint32_t bytes, enum weft_wc_status status)
{
	uint8_t flags = told[request->opcode].flags;

	to->held->taken = (struct weft_pool_taken){
		.tag = to->tag,
		.byte_len = bytes,
		.imm = flags ? request->imm : 0,
		.src_qpn = to->from.qpn,
		.status = (uint8_t)status,
		.opcode = told[request->opcode].opcode,
		.flags = flags,
		.solicited = !!(request->flags & WEFT_SEND_SOLICITED),
	};
	/* the message may be lost, of which the requester is told that it was done: both ends hear of that */
	if (!weft_take_complete(to->from.nic, &to->take))
		weft_responder_blame(to, WEFT_EVENT_QP_FATAL);
	look_ahead(to, bytes);
	to->held = NULL;
}

void weft_responder_complete(struct weft_responder *to, const struct weft_wqe *request,
			     uint64_t wr_id, uint32_t bytes, enum weft_wc_status status,
			     uint32_t thread)
{
	struct weft_lock *lock = to->ring_lock;
	struct weft_pool_cqe *cqe;
	bool own;
	uint64_t position;

	if (__builtin_expect(to->held != NULL, 0)) {
		complete_srq(to, request, bytes, status);
		return;
	}
	atomic_store_explicit(&to->from.slot->rq_taken, ++to->taken, memory_order_relaxed);
	WEFT_STEP(peer_receive_taken);
	own = weft_lock(to->from.nic, lock, thread);
	position = atomic_load_explicit(&to->ring->produced, memory_order_relaxed);
	cqe = &to->ring->cqe[position & to->ring_mask];
	fill(cqe, to, request, wr_id, bytes, status);
	if (__builtin_expect(to->stamped, 0))
		weft_pool_ring_stamps(to->ring, to->ring_mask + 1)[position & to->ring_mask] =
			weft_nic_stamp_for(to->from.nic, to->grant.member);
	WEFT_STEP(peer_entry_written);
	/* release: pairs with the acquire of the poller; the bytes are there before it */
	atomic_store_explicit(&cqe->lap, (uint32_t)(position >> to->ring_bits) + 1,
			      memory_order_release);
	WEFT_STEP(peer_completed);
	atomic_store_explicit(&to->ring->produced, position + 1, memory_order_relaxed);
	weft_unlock(lock, own);
	WEFT_STEP(peer_counted);
	weft_pool_completed(to->from.nic->pool, to->ring, to->grant.member,
			    status || request->flags & WEFT_SEND_SOLICITED);
}

void weft_responder_blame(struct weft_responder *to, enum weft_event event)
{
	weft_store(&to->from.slot->fault_code, event);
	weft_store(&to->from.slot->fault_qpn, to->from.dest_qpn);
	WEFT_STEP(peer_fault_written);
	/* release: pairs with the acquire in is_blamed_here (direct.c) */
	atomic_store_explicit(&to->from.slot->fault_conn, to->grant.was, memory_order_release);
	to->grant.was = UINT64_MAX; /* no conn word has that value */
	WEFT_STEP(peer_blamed);
	to->from.nic->pool->calls->signal(to->from.nic->pool, to->grant.member, WEFT_SIGNAL_FAULT);
}
