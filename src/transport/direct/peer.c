/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/place.h"
#include "transport/direct/peer.h"
#include "pool/step.h"

bool weft_peer_has_gid(struct weft_pool *pool, uint16_t member, const uint8_t gid[16])
{
	const struct weft_pool_member *m = weft_pool_member(pool, member);

	return m && weft_member_has_gid(m, gid);
}

bool weft_peer_addressed(struct weft_qp *qp, struct peer *p)
{
	if (p->addressed != p->right.member + 1u &&
	    weft_peer_has_gid(qp->nic->pool, p->right.member, qp->attr.dgid))
		p->addressed = (uint16_t)(p->right.member + 1u);
	return p->addressed == p->right.member + 1u;
}

/* What we had used when we left that epoch, if we did; else what it began with. */
static uint64_t left_at(const struct weft_pool_qp *slot, uint32_t epoch)
{
	uint64_t start = slot->rq_start, left = atomic_load_explicit(&slot->rq_left, memory_order_relaxed);
	uint64_t posted = atomic_load_explicit(&slot->rq_posted, memory_order_relaxed);
	uint64_t taken = posted - (uint32_t)(posted - left);

	return left >> 32 == epoch && taken > start && taken <= posted ? taken : start;
}

/* Receives that an earlier connection of ours used stay used, unless the peer emptied its queue. */
static void resume_receives(struct weft_qp *qp, struct peer *p)
{
	p->rq_epoch = p->slot->rq_epoch;
	p->taken = qp->slot->rq_taken_epoch == p->rq_epoch &&
				   qp->slot->rq_taken_qpn == qp->attr.dest_qpn ?
			   atomic_load_explicit(&qp->slot->rq_taken, memory_order_relaxed) :
			   left_at(p->slot, p->rq_epoch);
	p->posted = p->taken;
	qp->slot->rq_taken_epoch = p->rq_epoch;
	qp->slot->rq_taken_qpn = qp->attr.dest_qpn;
	atomic_store_explicit(&qp->slot->rq_taken, p->taken, memory_order_relaxed);
}

void weft_peer_leave(struct weft_qp *qp, struct peer *p)
{
	uint64_t was, left;

	if (!p->slot || qp->slot->rq_taken_qpn != p->slot->qpn)
		return;
	was = atomic_load_explicit(&p->slot->rq_left, memory_order_relaxed);
	left = (uint64_t)qp->slot->rq_taken_epoch << 32 | (uint32_t)qp->slot->rq_taken;
	/* who is stopped here must not undo what a later peer leaves */
	if (p->slot->rq_epoch == qp->slot->rq_taken_epoch)
		atomic_compare_exchange_strong(&p->slot->rq_left, &was, left);
}

/* Many queue pairs may complete into one ring: it is populated for the first of them. */
static bool map_entries(struct weft_pool *pool, const struct peer *p, uint64_t off)
{
	static _Atomic uint64_t last; /* that was, with how large it is below its offset */
	uint64_t bytes = weft_pool_ring_bytes(p->ring_mask + 1, p->stamped), now = off + p->ring_bits;

	if (atomic_load_explicit(&last, memory_order_relaxed) == now)
		return weft_pool_window(pool, off, bytes);
	if (!weft_pool_populate(pool, off, bytes))
		return false;
	atomic_store_explicit(&last, now, memory_order_relaxed);
	return true;
}

static bool map_ring(struct weft_pool *pool, struct peer *p, uint64_t off)
{
	uint32_t size;

	p->ring = off % WEFT_LINE ? NULL : weft_pool_window(pool, off, sizeof(*p->ring));
	if (!p->ring || p->ring->producer != pool->me)
		return false;
	size = p->ring->size;
	p->stamped = p->ring->stamped;
	p->ring_mask = size - 1;
	p->ring_bits = (uint8_t)__builtin_popcount(p->ring_mask);
	return size && !(size & p->ring_mask) && map_entries(pool, p, off);
}

static bool map_receives(struct weft_pool *pool, struct peer *p, uint64_t off, uint32_t size,
			 uint32_t stride)
{
	p->rq_mask = size - 1;
	p->rq_stride = stride;
	if (!size || size & p->rq_mask || stride < sizeof(struct weft_pool_recv) || off % 8 || stride % 8)
		return false;
	p->rq_sges = (stride - (uint32_t)sizeof(struct weft_pool_recv)) / sizeof(struct weft_pool_sge);
	p->rq = p->rq_sges > WEFT_MAX_SGE ? NULL :
					    weft_pool_populate(pool, off, (uint64_t)size * stride);
	return p->rq;
}

static bool map_queue(struct weft_qp *qp, struct peer *p, uint64_t off, uint32_t size,
		      uint32_t stride)
{
	if (!map_receives(qp->nic->pool, p, off, size, stride))
		return false;
	p->receive_holder = p->holder;
	resume_receives(qp, p);
	return true;
}

bool weft_peer_map_seat(struct weft_pool *pool, struct peer *p, uint64_t off, uint64_t wake_off)
{
	struct weft_seat seat;

	if (!weft_seat_map(pool, &seat, p->right.member, off, wake_off))
		return false;
	p->seat = seat;
	p->receive_holder = seat.holder;
	p->rq_sges = seat.sges;
	p->posted = p->taken = 0;
	return true;
}

const struct weft_pool_recv *weft_peer_take(struct weft_qp *qp, struct peer *p)
{
	struct weft_pool_slot *slot = p->held;

	while (!slot) {
		slot = weft_seat_first(qp->nic->pool, &p->seat);
		if (!slot)
			return NULL;
		if (!weft_seat_take(qp->nic->pool, &p->seat, p->right.member))
			slot = NULL;
	}
	p->held = slot;
	return &slot->recv;
}

void weft_peer_let_go(struct weft_qp *qp, struct peer *p)
{
	if (p->held)
		weft_seat_let_go(qp->nic->pool, &p->seat);
	p->held = NULL;
}

/* The line stands between two equal looks at a conn word that says: ready, and yours. */
bool weft_peer_read(struct weft_qp *qp, struct peer *p)
{
	struct weft_pool *pool = qp->nic->pool;
	struct weft_pool_qp *slot = p->slot;
	/* acquire: pairs with the release in publish (qp.c) */
	uint64_t conn = atomic_load_explicit(&slot->conn, memory_order_acquire);
	uint64_t rq_off = slot->rq_off, ring_off = slot->ring_off;
	uint32_t rq_size = slot->rq_size, rq_stride = slot->rq_stride;
	uint16_t named = p->right.member;

	p->right.member = slot->owner;
	p->busy_at = weft_busy_at(p->right.member, qp->attr.dest_qpn & (WEFT_QPS - 1));
	p->holder = weft_holder(p->right.member, slot->pd);
	p->access = slot->access;
	p->tag = qp->attr.dest_qpn | (uint32_t)slot->connection << 24;
	qp->peer_rnr_timer = slot->min_rnr_timer;
	/* another one may have taken the entry since, and be connected to us */
	if (slot->qpn != qp->attr.dest_qpn || slot->type != weft_qp_peer_type(qp->type) ||
	    p->right.member != named)
		return false;
	if ((conn & 0xffffffff) != ((uint64_t)WEFT_CONN_READY << 24 | qp->qpn) || !ring_off)
		return false;
	/* found at fault: it has failed, although its owner has yet to see that */
	if (conn == atomic_load_explicit(&qp->slot->fault_conn, memory_order_relaxed) &&
	    qp->slot->fault_qpn == qp->attr.dest_qpn)
		return false;
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&slot->conn, memory_order_relaxed) != conn ||
	    !weft_peer_addressed(qp, p))
		return false;
	weft_peer_let_go(qp, p);
	p->seat.at = NULL;
	if (!(rq_size ? map_queue(qp, p, rq_off, rq_size, rq_stride) && map_ring(pool, p, ring_off) :
			weft_peer_map_seat(pool, p, rq_off, ring_off)))
		return false;
	WEFT_STEP(peer_read);
	p->right.was = conn;
	return true;
}

bool weft_peer_find(struct weft_qp *qp, struct peer *p)
{
	struct weft_pool *pool = qp->nic->pool;
	uint32_t index = qp->attr.dest_qpn & (WEFT_QPS - 1);

	if (weft_pool_see_qp(pool, index) ||
	    atomic_load_explicit(&pool->qps[index].qpn, memory_order_acquire) != qp->attr.dest_qpn)
		return false;
	p->slot = &pool->qps[index];
	p->right.word = &p->slot->conn;
	p->right.member = p->slot->owner;
	p->busy_at = weft_busy_at(p->right.member, index);
	return true;
}

bool weft_peer_queue(struct weft_qp *qp, const struct peer *p, uint32_t number, struct peer *queue)
{
	struct weft_pool *pool = qp->nic->pool;
	uint32_t index = number & (WEFT_QPS - 1);
	struct weft_pool_qp *slot = &pool->qps[index];
	uint64_t conn;

	queue->slot = NULL;
	if (weft_pool_see_qp(pool, index) ||
	    atomic_load_explicit(&slot->qpn, memory_order_acquire) != number)
		return false;
	/* acquire: pairs with the release in publish (shared.c) */
	conn = atomic_load_explicit(&slot->conn, memory_order_acquire);
	*queue = *p;
	queue->slot = slot;
	queue->right = (struct weft_right){ &slot->conn, conn, slot->owner };
	/* it is by the peer that we are there */
	queue->busy_at = weft_busy_at(slot->owner, qp->attr.dest_qpn & (WEFT_QPS - 1));
	queue->holder = weft_holder(slot->owner, slot->pd);
	return slot->type == WEFT_QPT_QUEUE && slot->qkey == p->slot->qkey &&
	       (conn >> 24 & 0xff) == WEFT_CONN_READY;
}

static struct weft_lock ring_lock[64]; /* threads of this process take turns on a ring */

/* What a receive's completion tells of the request that used it. */
static const struct {
	uint8_t opcode, flags;
} told[WEFT_OPS] = {
	[WEFT_OP_WRITE_IMM] = { WEFT_WC_RECV_WRITE_IMM, WEFT_WC_WITH_IMM },
	[WEFT_OP_SEND] = { WEFT_WC_RECV, 0 },
	[WEFT_OP_SEND_IMM] = { WEFT_WC_RECV, WEFT_WC_WITH_IMM },
	[WEFT_OP_SEND_INV] = { WEFT_WC_RECV, WEFT_WC_WITH_INV },
};

static inline void fill(struct weft_pool_cqe *cqe, const struct weft_qp *qp, const struct peer *p,
			const struct weft_wqe *wqe, uint64_t wr_id, uint32_t bytes,
			enum weft_wc_status status)
{
	uint8_t flags = told[wqe->opcode].flags;

	cqe->wr_id = wr_id;
	cqe->qpn = p->tag;
	cqe->byte_len = bytes;
	cqe->imm = flags ? wqe->imm : 0;
	cqe->src_qpn = qp->qpn;
	cqe->status = (uint8_t)status;
	cqe->opcode = told[wqe->opcode].opcode;
	cqe->flags = flags;
	cqe->solicited = !!(wqe->flags & WEFT_SEND_SOLICITED);
}

#define MOST_AHEAD_BYTES 4160u

/* The next message is as long as this one, most likely, and its buffer was its owner's last. Asked for now,
 * in order to write, it will not hold up the stores into it, and the completion behind them. */
static void look_ahead(const struct weft_qp *qp, const struct peer *p, uint32_t bytes)
{
	const struct weft_pool_recv *next = weft_seat_next(&p->seat);
	uint8_t *at;

	if (!next || next->num_sge != 1 || !bytes || bytes > MOST_AHEAD_BYTES)
		return;
	at = weft_mr_guess(qp->nic->pool, next->sge[0].lkey, next->sge[0].addr, bytes);
	if (!at)
		return;
	for (uint32_t i = 0; i < bytes; i += WEFT_LINE)
		__builtin_prefetch(at + i, 1);
	__builtin_prefetch(at + bytes - 1, 1);
}

static __attribute__((noinline)) void complete_shared(struct weft_qp *qp, struct peer *p,
						      const struct weft_wqe *wqe, uint32_t bytes,
						      enum weft_wc_status status)
{
	uint8_t flags = told[wqe->opcode].flags;

	p->held->taken = (struct weft_pool_taken){
		.tag = p->tag,
		.byte_len = bytes,
		.imm = flags ? wqe->imm : 0,
		.src_qpn = qp->qpn,
		.status = (uint8_t)status,
		.opcode = told[wqe->opcode].opcode,
		.flags = flags,
		.solicited = !!(wqe->flags & WEFT_SEND_SOLICITED),
	};
	weft_seat_complete(qp->nic, &p->seat, p->right.member);
	look_ahead(qp, p, bytes);
	p->held = NULL;
}

void weft_peer_complete(struct weft_qp *qp, struct peer *p, const struct weft_wqe *wqe,
			uint64_t wr_id, uint32_t bytes, enum weft_wc_status status,
			uint32_t thread)
{
	struct weft_lock *lock = &ring_lock[((uintptr_t)p->ring >> 6) % 64];
	struct weft_pool_cqe *cqe;
	bool own;
	uint64_t position;

	if (__builtin_expect(p->held != NULL, 0)) {
		complete_shared(qp, p, wqe, bytes, status);
		return;
	}
	atomic_store_explicit(&qp->slot->rq_taken, ++p->taken, memory_order_relaxed);
	WEFT_STEP(peer_receive_taken);
	own = weft_lock(qp->nic, lock, thread);
	position = atomic_load_explicit(&p->ring->produced, memory_order_relaxed);
	cqe = &p->ring->cqe[position & p->ring_mask];
	fill(cqe, qp, p, wqe, wr_id, bytes, status);
	if (__builtin_expect(p->stamped, 0))
		weft_pool_ring_stamps(p->ring, p->ring_mask + 1)[position & p->ring_mask] =
			qp->nic->env->clock_ns();
	WEFT_STEP(peer_entry_written);
	/* release: pairs with the acquire of the poller; the bytes are there before it */
	atomic_store_explicit(&cqe->lap, (uint32_t)(position >> p->ring_bits) + 1,
			      memory_order_release);
	WEFT_STEP(peer_completed);
	atomic_store_explicit(&p->ring->produced, position + 1, memory_order_relaxed);
	weft_unlock(lock, own);
	WEFT_STEP(peer_counted);
	weft_pool_completed(qp->nic->pool, p->ring, p->right.member,
			    status || wqe->flags & WEFT_SEND_SOLICITED);
}

void weft_peer_blame(struct weft_qp *qp, struct peer *p, enum weft_event event)
{
	qp->slot->fault_code = event;
	qp->slot->fault_qpn = qp->attr.dest_qpn;
	WEFT_STEP(peer_fault_written);
	/* release: pairs with the acquire in fault (direct.c) */
	atomic_store_explicit(&qp->slot->fault_conn, p->right.was, memory_order_release);
	p->right.was = UINT64_MAX; /* no conn word is */
	WEFT_STEP(peer_blamed);
	weft_pool_ring(qp->nic->pool, p->right.member, WEFT_RING_FAULT);
}
