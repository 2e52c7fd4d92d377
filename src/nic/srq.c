/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/complete.h"
#include "nic/errors.h"
#include "nic/limits.h"
#include "nic/nic.h"
#include "nic/qp.h"
#include "nic/queues.h"
#include "nic/source.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"
#include "pool/format_queue.h"
#include "pool/sizes.h"

static uint64_t stretch_bytes(const struct weft_srq *q, const struct weft_stretch *stretch)
{
	return weft_pool_srq_bytes(stretch->size, q->stride);
}

static struct weft_pool_slot *stretch_slot(const struct weft_srq *q,
					   const struct weft_stretch *stretch, uint64_t position)
{
	return (void *)(stretch->at->slots + (position & (stretch->size - 1)) * q->stride);
}

static uint32_t stretch_lap(const struct weft_stretch *stretch, uint64_t position)
{
	return (uint32_t)((position >> stretch->size_bits) + 1) & ((1u << WEFT_LAP_BITS) - 1);
}

/* ---- Making and ending ---- */

static int make_stretch(struct weft_srq *q, struct weft_stretch *stretch, uint32_t pd,
			uint32_t max_wr)
{
	int err;

	stretch->size = weft_queue_slots(max_wr);
	stretch->size_bits = (uint8_t)__builtin_ctz(stretch->size);
	err = q->nic->pool->calls->alloc(q->nic->pool, stretch_bytes(q, stretch), &stretch->off);
	if (err)
		return err;
	stretch->at = (void *)(q->nic->pool->base + stretch->off);
	stretch->claims = weft_pool_claims(stretch->at, stretch->size, q->stride);
	stretch->at->size = stretch->size;
	stretch->at->stride = q->stride;
	stretch->at->pd = pd;
	return 0;
}

int weft_srq_create(struct weft_nic *nic, struct weft_srq *q, uint32_t pd, uint32_t max_wr,
		    uint32_t max_sge)
{
	int err;

	q->nic = nic;
	q->max_wr = max_wr;
	q->max_sge = max_sge;
	/* whole lines: what one slot is written with does not hold up those that look at the next */
	q->stride = (uint32_t)(sizeof(struct weft_pool_slot) +
			       max_sge * sizeof(struct weft_pool_sge) + WEFT_LINE - 1) &
		    ~(WEFT_LINE - 1);
	err = make_stretch(q, &q->first, pd, max_wr);
	if (err)
		return err;
	q->made = weft_pool_age(nic->pool);
	q->last = &q->first;
	q->at = q->first.at;
	weft_lock(nic, &nic->lock, 0);
	q->next = nic->srq;
	nic->srq = q;
	weft_unlock(&nic->lock, false);
	return 0;
}

void weft_srq_destroy(struct weft_srq *q, bool quiet)
{
	struct weft_nic *nic = q->nic;
	struct weft_srq **at = &nic->srq;

	weft_lock(nic, &nic->lock, 0);
	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	weft_unlock(&nic->lock, false);
	for (struct weft_stretch *stretch = &q->first, *next; stretch; stretch = next) {
		next = stretch->next;
		if (quiet)
			nic->pool->calls->free(nic->pool, stretch->off, stretch_bytes(q, stretch));
		else
			nic->pool->calls->retire(nic->pool, WEFT_RETIRE_PIECE, stretch->off,
						 stretch_bytes(q, stretch));
		if (stretch != &q->first)
			weft_nic_free(nic, stretch);
	}
}

static void publish_srq(struct weft_srq *q, enum weft_pool_conn conn)
{
	struct weft_pool_qp *slot = &q->nic->pool->qps[q->index];

	/* release: pairs with the acquire in weft_responder_queue, as for a queue pair's line */
	atomic_store_explicit(&slot->conn, ((slot->conn >> 32) + 1) << 32 | (uint64_t)conn << 24,
			      memory_order_release);
}

int weft_srq_number(struct weft_srq *q, struct weft_cq *cq, uint32_t xrcd, uint32_t *number)
{
	struct weft_pool_qp *slot;
	int err = weft_source_attach(cq, q);

	if (err)
		return err;
	err = q->nic->pool->calls->take_qp(q->nic->pool, &q->index);
	if (err)
		goto detach;
	q->cq = cq;
	slot = &q->nic->pool->qps[q->index];
	*number = weft_qp_number(q->nic->pool, slot, q->index);
	weft_store(&slot->rq_off, q->first.off);
	weft_store(&slot->rq_size, 0);
	weft_store(&slot->ring_off, cq->wake_off);
	weft_store(&slot->pd, q->at->pd);
	weft_store(&slot->owner, q->nic->pool->me);
	weft_store(&slot->type, WEFT_QPT_QUEUE);
	weft_store(&slot->state, WEFT_QPS_RTR);
	weft_store(&slot->qkey, xrcd);
	publish_srq(q, WEFT_CONN_READY);
	atomic_store_explicit(&slot->qpn, *number, memory_order_release);
	return 0;
detach:
	weft_source_detach(cq, q);
	return err;
}

void weft_srq_publish_all(struct weft_nic *nic, bool rehoming)
{
	enum weft_pool_conn conn = rehoming ? WEFT_CONN_REHOMING : WEFT_CONN_READY;

	weft_lock(nic, &nic->lock, 0);
	for (struct weft_srq *q = nic->srq; q; q = q->next)
		if (q->cq)
			publish_srq(q, conn);
	weft_unlock(&nic->lock, false);
}

void weft_srq_forget(struct weft_srq *q)
{
	atomic_store_explicit(&q->nic->pool->qps[q->index].qpn, 0, memory_order_relaxed);
	publish_srq(q, WEFT_CONN_NONE);
	weft_source_detach(q->cq, q);
	if (q->nic->pool->calls->quiesce(q->nic->pool, 0, q->made))
		q->nic->pool->calls->retire(q->nic->pool, WEFT_RETIRE_QP, q->index, 0);
	else
		q->nic->pool->calls->drop_qp(q->nic->pool, q->index);
}

void weft_srq_join(struct weft_srq *q, struct weft_qp *qp)
{
	weft_lock(q->nic, &q->lock, 0);
	q->nic->srq_of[qp->index] = q;
	weft_unlock(&q->lock, false);
}

void weft_srq_leave(struct weft_srq *q, const struct weft_qp *qp)
{
	weft_lock(q->nic, &q->lock, 0);
	if (q->nic->srq_of[qp->index] == q)
		q->nic->srq_of[qp->index] = NULL;
	weft_unlock(&q->lock, false);
}

/* ---- Posting ---- */

/* A slot whose taker is slow is passed over. There is an empty one. */
static void put_receive(struct weft_srq *q, uint64_t wr_id, const struct weft_pool_sge *sge,
			uint32_t num_sge)
{
	struct weft_stretch *stretch = q->last;
	struct weft_pool_slot *slot = stretch_slot(q, stretch, stretch->posted);

	while (weft_claim_what(atomic_load_explicit(&slot->state, memory_order_relaxed)) !=
	       WEFT_CLAIM_EMPTY)
		slot = stretch_slot(q, stretch, ++stretch->posted);
	slot->told = 0;
	slot->recv.wr_id = wr_id;
	slot->recv.num_sge = num_sge;
	for (uint32_t i = 0; i < num_sge; i++)
		slot->recv.sge[i] = sge[i];
	/* release: pairs with the acquire of the taker (take.c) */
	atomic_store_explicit(&slot->state,
			      WEFT_CLAIM(WEFT_CLAIM_FREE, stretch_lap(stretch, stretch->posted)),
			      memory_order_release);
	atomic_store_explicit(&stretch->at->posted, ++stretch->posted, memory_order_release);
	q->outstanding++;
}

int weft_srq_post(struct weft_srq *q, uint64_t wr_id, const struct weft_pool_sge *sge,
		  uint32_t num_sge, uint32_t thread)
{
	int err = 0;
	bool own;

	if (num_sge > q->max_sge)
		return -EINVAL;
	own = weft_lock(q->nic, &q->lock, thread);
	if (q->outstanding < q->max_wr)
		put_receive(q, wr_id, sge, num_sge);
	else
		err = -ENOMEM;
	weft_unlock(&q->lock, own);
	return err;
}

/* ---- What has become of receives. The lock is held. ---- */

static void empty(struct weft_srq *q, struct weft_pool_slot *slot)
{
	atomic_store_explicit(&slot->state, WEFT_CLAIM(WEFT_CLAIM_EMPTY, 0), memory_order_relaxed);
	q->outstanding--;
}

/* Nothing came for it, or nothing that may be known of: it is posted again. */
static void post_again(struct weft_srq *q, struct weft_pool_slot *slot)
{
	struct weft_pool_sge sge[WEFT_MAX_SGE];
	uint32_t num_sge = slot->recv.num_sge;

	num_sge = num_sge < q->max_sge ? num_sge : q->max_sge;
	for (uint32_t i = 0; i < num_sge; i++)
		sge[i] = slot->recv.sge[i];
	empty(q, slot);
	put_receive(q, slot->recv.wr_id, sge, num_sge);
}

/* The queue pair for which it came, as long as that has the same connection. */
static struct weft_qp *taken_for(const struct weft_srq *q, const struct weft_pool_taken *taken)
{
	uint32_t index = taken->tag & (WEFT_QPS - 1);
	struct weft_qp *qp = q->nic->srq_of[index] == q ? q->nic->qps[index] : NULL;

	return qp && qp->tag == taken->tag ? qp : NULL;
}

/* A way through what is outstanding. */
struct cursor {
	struct weft_stretch *stretch;
	uint64_t position;
};

static struct cursor oldest_slot(struct weft_srq *q)
{
	return (struct cursor){&q->first, q->first.done};
}

/* The next slot from the cursor on that holds a receive; NULL: none. *what: it is FREE or DONE. */
static struct weft_pool_slot *next_used(const struct weft_srq *q, struct cursor *at,
					enum weft_claim *what)
{
	for (;;) {
		struct weft_stretch *stretch = at->stretch;

		for (; at->position < stretch->posted; at->position++) {
			struct weft_pool_slot *slot = stretch_slot(q, stretch, at->position);

			/* acquire: pairs with the release of the taker (take.c) */
			uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);

			*what = weft_claim_what(state);
			if (*what != WEFT_CLAIM_EMPTY &&
			    weft_claim_lap(state) == stretch_lap(stretch, at->position))
				return slot;
			stretch->done += stretch->done == at->position;
		}
		if (!stretch->next)
			return NULL;
		*at = (struct cursor){stretch->next, stretch->next->done};
	}
}

/* Where those that poll look first (weft_srq_stirs). */
static void note_oldest(struct weft_srq *q)
{
	struct cursor at = oldest_slot(q);
	enum weft_claim what;

	/* release: pairs with the acquire in weft_srq_stirs; stored before the slot that was the oldest is posted
	 * again */
	atomic_store_explicit(&q->oldest, next_used(q, &at, &what), memory_order_release);
}

static uint64_t claim_of(struct cursor at)
{
	/* acquire: pairs with the release of the taker (take.c), which knew of those before it */
	return atomic_load_explicit(&at.stretch->claims[at.position & (at.stretch->size - 1)],
				    memory_order_acquire);
}

/* The next one from the cursor on that is not free, but TAKEN or DONE. */
static struct weft_pool_slot *next_claimed(const struct weft_srq *q, struct cursor *at,
					   enum weft_claim *what)
{
	struct weft_pool_slot *slot = next_used(q, at, what);

	if (!slot || *what == WEFT_CLAIM_DONE)
		return slot;
	*what = WEFT_CLAIM_TAKEN;
	/* they are taken in order, so that none behind it is taken */
	return weft_claim_lap(claim_of(*at)) == stretch_lap(at->stretch, at->position) ? slot
										       : NULL;
}

/* One that is complete, from the cursor on, for a completion queue; *passed: others before it are not. */
static struct weft_pool_slot *find_done(struct weft_srq *q, const struct weft_cq *cq,
					struct cursor *at, struct weft_qp **qp, bool *passed)
{
	struct weft_pool_slot *slot;
	enum weft_claim what;

	*passed = false;
	for (; (slot = next_claimed(q, at, &what)); at->position++) {
		if (what != WEFT_CLAIM_DONE) {
			*passed = true;
			continue;
		}
		*qp = q->cq ? NULL : taken_for(q, &slot->taken);
		if (q->cq && slot->taken.tag)
			return slot;
		if (!*qp)
			post_again(q, slot);
		else if ((*qp)->recv_cq == cq)
			return slot;
	}
	return NULL;
}

/*
 * The next completion of a completion queue from the cursor on. A taker that was passed over may have completed
 * that one and the next since we looked: then the second look sees it, as it did so in this order.
 */
static struct weft_pool_slot *next_done(struct weft_srq *q, const struct weft_cq *cq,
					struct cursor *at, struct weft_qp **qp, bool *passed)
{
	const struct cursor start = *at;
	struct weft_pool_slot *slot = find_done(q, cq, at, qp, passed), *later = NULL;

	while (slot && *passed && slot != later) {
		later = slot;
		*at = start;
		slot = find_done(q, cq, at, qp, passed);
	}
	return slot;
}

/* Those that no taker has. */
static uint32_t left_in(struct weft_srq *q)
{
	struct cursor at = oldest_slot(q);
	uint32_t left = q->outstanding;
	enum weft_claim what;

	for (; next_claimed(q, &at, &what); at.position++)
		left--;
	return left;
}

static void look_at_limit(struct weft_srq *q)
{
	if (!q->limit || left_in(q) >= q->limit)
		return;
	q->limit = 0;
	atomic_store_explicit(&q->at->limit, 0, memory_order_relaxed);
	q->nic->api->limit_reached(q);
}

void weft_srq_arm(struct weft_srq *q, uint32_t limit)
{
	weft_lock(q->nic, &q->lock, 0);
	q->limit = limit;
	atomic_store_explicit(&q->at->limit, limit, memory_order_relaxed);
	weft_unlock(&q->lock, false);
	/* a taker that claims after this signals us; what was taken before is counted now */
	q->nic->pool->calls->barrier(q->nic->pool);
	weft_lock(q->nic, &q->lock, 0);
	look_at_limit(q);
	weft_unlock(&q->lock, false);
}

static uint64_t slot_stamp(const struct weft_srq *q, const struct weft_cq *cq, struct cursor at)
{
	uint64_t stamp_ns = weft_pool_srq_stamps(at.stretch->at, at.stretch->size,
						 q->stride)[at.position & (at.stretch->size - 1)];

	return stamp_ns ? stamp_ns : weft_nic_stamp_ns(cq->nic);
}

/* As next_done, from the oldest on. There are late ones until none is left that was passed over. */
static struct weft_pool_slot *oldest_done(struct weft_srq *q, const struct weft_cq *cq,
					  struct cursor *at, struct weft_qp **qp)
{
	uint32_t late = atomic_load_explicit(&q->at->late, memory_order_relaxed);
	struct weft_pool_slot *slot;
	bool passed;

	/* acquire: pairs with the release in complete_here (take.c): we see the claims that the taker saw */
	if (late)
		atomic_exchange_explicit(&q->at->late, late = WEFT_LATE_SEEN, memory_order_acquire);
	*at = oldest_slot(q);
	slot = next_done(q, cq, at, qp, &passed);
	if (late && !slot && !passed)
		atomic_compare_exchange_strong_explicit(&q->at->late, &late, 0,
							memory_order_relaxed, memory_order_relaxed);
	return slot;
}

bool weft_srq_take(struct weft_srq *q, const struct weft_cq *cq, struct weft_cqe *cqe, bool *news,
		   uint32_t thread)
{
	bool own = weft_lock(q->nic, &q->lock, thread);
	struct weft_pool_slot *slot;
	struct cursor at;
	struct weft_qp *qp;

	slot = oldest_done(q, cq, &at, &qp);
	if (slot) {
		const struct weft_pool_taken *t = &slot->taken;

		/* where the message begins, for writing: some programs put words of their own there */
		__builtin_prefetch((const void *)(uintptr_t)slot->recv.sge[0].addr, 1);
		*cqe = (struct weft_cqe){.wr_id = slot->recv.wr_id,
					 .qp = qp,
					 .position = t->tag & 0xffffff,
					 .byte_len = t->byte_len,
					 .imm = t->imm,
					 .src_qp = t->src_qpn,
					 .status = t->status,
					 .opcode = t->opcode | WEFT_WC_RECV,
					 .flags = t->flags,
					 .solicited = t->solicited,
					 .stamp_ns = cq->stamps ? slot_stamp(q, cq, at) : 0};
		*news = !slot->told;
		empty(q, slot);
		look_at_limit(q);
	}
	note_oldest(q);
	weft_unlock(&q->lock, own);
	return slot;
}

bool weft_srq_look(struct weft_srq *q, const struct weft_cq *cq, bool tell)
{
	struct weft_pool_slot *slot;
	struct weft_qp *qp;
	bool news = false, passed;
	struct cursor at;

	weft_lock(q->nic, &q->lock, 0);
	at = oldest_slot(q);
	for (; !news && (slot = next_done(q, cq, &at, &qp, &passed)); at.position++) {
		if (tell)
			slot->told = 1;
		else
			news = !slot->told &&
			       weft_cq_wakes(cq, slot->taken.status, slot->taken.solicited);
	}
	note_oldest(q);
	weft_unlock(&q->lock, false);
	return news;
}

bool weft_srq_withdraw(struct weft_srq *q, uint64_t *wr_id)
{
	struct weft_pool_slot *slot;
	enum weft_claim what;
	struct cursor at;

	weft_lock(q->nic, &q->lock, 0);
	at = oldest_slot(q);
	slot = next_used(q, &at, &what);
	if (slot) {
		*wr_id = slot->recv.wr_id;
		/* a taker that stands still must not complete it later: its exchange fails (take.c) */
		empty(q, slot);
	}
	weft_unlock(&q->lock, false);
	return slot;
}

/* ---- Another size ---- */

static void append_stretch(struct weft_srq *q, struct weft_stretch *stretch)
{
	struct weft_stretch *before = q->last;

	before->next = stretch;
	q->last = stretch;
	/* release: pairs with the acquire in follow_stretch (take.c), which finds all that is posted before it */
	atomic_store_explicit(&before->at->next_off, stretch->off, memory_order_release);
}

int weft_srq_resize(struct weft_srq *q, uint32_t max_wr)
{
	struct weft_stretch *stretch = NULL;
	int err = 0;

	if (max_wr > q->last->size) {
		stretch = weft_nic_alloc(q->nic, sizeof(*stretch));
		if (!stretch)
			return -ENOMEM;
		err = make_stretch(q, stretch, q->at->pd, max_wr);
		if (err) {
			weft_nic_free(q->nic, stretch);
			return err;
		}
	}
	weft_lock(q->nic, &q->lock, 0);
	if (max_wr < q->limit || max_wr < left_in(q))
		err = -EINVAL;
	else
		q->max_wr = max_wr;
	if (!err && stretch)
		append_stretch(q, stretch);
	weft_unlock(&q->lock, false);
	return err;
}

/* ---- What the dead have left ---- */

static bool is_of_dead(struct weft_pool *pool, uint64_t claim)
{
	uint16_t member = weft_claim_member(claim);
	const struct weft_pool_member *m = pool->calls->member(pool, member);
	uint64_t incarnation = m ? atomic_load_explicit(&m->incarnation, memory_order_acquire) : 0;

	return (incarnation & ((1u << WEFT_INCARNATION_BITS) - 1)) !=
		       weft_claim_incarnation(claim) ||
	       !pool->calls->alive(pool, member, incarnation);
}

static void recover_srq(struct weft_srq *q)
{
	struct cursor at = oldest_slot(q);
	struct weft_pool_slot *slot;
	enum weft_claim what;

	for (; (slot = next_claimed(q, &at, &what)); at.position++)
		if (what == WEFT_CLAIM_TAKEN && is_of_dead(q->nic->pool, claim_of(at)) &&
		    next_used(q, &at, &what) == slot && what == WEFT_CLAIM_FREE)
			post_again(q, slot);
	note_oldest(q);
}

uint32_t weft_srq_limit(const struct weft_srq *q)
{
	return atomic_load_explicit(&q->at->limit, memory_order_relaxed);
}

void weft_srq_limits(struct weft_nic *nic)
{
	weft_lock(nic, &nic->lock, 0);
	for (struct weft_srq *q = nic->srq; q; q = q->next) {
		weft_lock(nic, &q->lock, 0);
		look_at_limit(q);
		weft_unlock(&q->lock, false);
	}
	weft_unlock(&nic->lock, false);
}

void weft_srq_recover(struct weft_nic *nic)
{
	weft_lock(nic, &nic->lock, 0);
	for (struct weft_srq *q = nic->srq; q; q = q->next) {
		weft_lock(nic, &q->lock, 0);
		recover_srq(q);
		weft_unlock(&q->lock, false);
	}
	weft_unlock(&nic->lock, false);
}
