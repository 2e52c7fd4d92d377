/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Completion queues. A queue is a private ring for what this process completes itself, and one ring
 * in the pool for each member that completes receives of ours. Rings cannot overrun: each is as
 * deep as the receives promised to it; the private ring is judged against the size of the queue.
 */
#include "nic/complete.h"
#include "nic/cq.h"
#include "nic/errors.h"
#include "nic/limits.h"
#include "nic/nic.h"
#include "nic/returns.h"
#include "nic/source.h"
#include "pool/step.h"
#include "pool/format_member.h"
#include "pool/format_ring.h"
#include "pool/sizes.h"

static inline uint32_t round_up(uint32_t n)
{
	uint32_t size = 16;

	while (size < n)
		size <<= 1;
	return size;
}

int weft_cq_create(struct weft_nic *nic, struct weft_cq *cq, uint32_t cqe)
{
	uint32_t room = round_up(cqe);

	if (!cqe || cqe > WEFT_MAX_CQE)
		return -EINVAL;
	cq->cqe = weft_nic_alloc(nic, room * sizeof(*cq->cqe));
	if (!cq->cqe)
		return -ENOMEM;
	cq->nic = nic;
	cq->size = cqe;
	cq->mask = room - 1;
	return 0;
}

static uint64_t ring_bytes(const struct weft_cq *cq, uint32_t size)
{
	return weft_pool_ring_bytes(size, cq->stamps);
}

static void free_ring(struct weft_cq *cq, struct weft_cq_ring *r)
{
	if (r->stuck)
		cq->nic->pool->calls->retire(cq->nic->pool, WEFT_RETIRE_PIECE, r->off,
					     ring_bytes(cq, r->size));
	else
		cq->nic->pool->calls->free(cq->nic->pool, r->off, ring_bytes(cq, r->size));
	weft_nic_free(cq->nic, r);
}

static void free_rings(struct weft_cq *cq, struct weft_cq_ring *r)
{
	struct weft_cq_ring *next;

	for (; r; r = next) {
		next = r->next;
		free_ring(cq, r);
	}
}

void weft_cq_destroy(struct weft_cq *cq)
{
	weft_cq_disarm(cq);
	free_rings(cq, weft_cq_first_ring(cq));
	free_rings(cq, weft_returns_first(cq));
	weft_source_forget_returns(cq);
	if (cq->wake)
		cq->nic->pool->calls->free(cq->nic->pool, cq->wake_off,
					   weft_pool_ring_bytes(0, false));
	weft_nic_free(cq->nic, cq->cqe);
}

/* ---- Completing ---- */

/* A queue pair whose completions get lost fails (11.6.3.2): the helper sees to it. */
void weft_cq_lose(struct weft_cq *cq, struct weft_qp *qp)
{
	if (cq->ignores_overrun)
		return;
	if (!cq->overrun)
		cq->nic->api->async(NULL, cq, WEFT_EVENT_CQ_ERR);
	cq->overrun = true;
	/* the helper looks behind the signal, which orders the two */
	if (!atomic_exchange_explicit(&qp->lost, true, memory_order_relaxed))
		cq->nic->pool->calls->signal(cq->nic->pool, cq->nic->pool->me, WEFT_SIGNAL_FAULT);
}

void weft_cq_wake(struct weft_cq *cq, uint8_t status, uint8_t solicited)
{
	if (weft_cq_wakes(cq, status, solicited))
		weft_cq_fire(cq);
}

/* ---- Polling ---- */

/* Takes the next entry of a ring that belongs to a queue pair we still have. */
static inline const struct weft_pool_cqe *next_entry(struct weft_cq *cq, struct weft_cq_ring *r,
						     struct weft_qp **qp)
{
	const struct weft_pool_cqe *cqe;

	for (uint64_t at = weft_cq_consumed(r); (cqe = weft_cq_entry_at(r, at));) {
		*qp = cq->nic->qps[cqe->qpn & (WEFT_QPS - 1)];
		/* ends the arming here, as the helper will not find the completion in the ring any more */
		if (__builtin_expect(cq->armed, 0) &&
		    at >= atomic_load_explicit(&r->armed_at, memory_order_relaxed) &&
		    weft_cq_wakes(cq, cqe->status, cqe->solicited))
			weft_cq_fire(cq);
		WEFT_STEP(cq_entry_found);
		/* rings may be deeper than the queue was made for: with so many that wait it has overrun */
		if (__builtin_expect(r->size > cq->size, 0) && *qp &&
		    weft_cq_entry_at(r, at + cq->size))
			weft_cq_lose(cq, *qp);
		atomic_store_explicit(&r->consumed, ++at, memory_order_relaxed);
		if (*qp && (*qp)->tag == cqe->qpn) {
			(*qp)->rq_completed++;
			return cqe;
		}
	}
	return NULL;
}

static uint64_t stamp_of(const struct weft_cq *cq, const struct weft_cq_ring *r,
			 const struct weft_pool_cqe *cqe)
{
	uint64_t stamp_ns;

	if (!cq->stamps)
		return 0;
	stamp_ns = weft_pool_ring_stamps(r->ring, r->size)[cqe - r->ring->cqe];
	return stamp_ns ? stamp_ns : weft_nic_stamp_ns(cq->nic);
}

static inline bool poll_ring(struct weft_cq *cq, struct weft_cq_ring *r, struct weft_wc *wc)
{
	const struct weft_pool_cqe *cqe;
	struct weft_qp *qp;

	cqe = next_entry(cq, r, &qp);
	if (!cqe)
		return false;
	weft_cq_tell(wc, cqe->wr_id, cqe->status, cqe->opcode, cqe->byte_len, cqe->imm, qp->qpn,
		     cqe->src_qpn, cqe->flags);
	weft_cq_free_slot(qp, WEFT_WC_RECV, 0);
	if (__builtin_expect(cq->stamps, 0))
		cq->polled_ns = stamp_of(cq, r, cqe);
	return true;
}

/* A ring with a completion, or NULL: first the one that gave the last, as most often one peer is
 * busy; yet each WEFT_CQ_TURNS-th time another, so that none starves. */
static struct weft_cq_ring *filled_ring(const struct weft_cq *cq)
{
	struct weft_cq_ring *r = atomic_load_explicit(&cq->hot, memory_order_relaxed);

	if (r && weft_cq_entry_at(r, weft_cq_consumed(r)))
		return r;
	for (r = weft_cq_first_ring(cq); r && !weft_cq_entry_at(r, weft_cq_consumed(r));
	     r = r->next)
		;
	return r;
}

static int poll_rings(struct weft_cq *cq, int n, struct weft_wc *wc, uint32_t thread)
{
	struct weft_cq_ring *r;
	bool own;
	int got = 0;

	/* spinning programs find nothing most of the time: look before locking; and again when
	 * another thread was faster, for 0 says that all is empty */
	while (!got && n > 0 && (r = filled_ring(cq))) {
		own = weft_lock(cq->nic, &cq->lock, thread);
		/* what was drained from the rings meanwhile is older than what they hold now */
		if (__builtin_expect(weft_cq_has_private(cq), 0))
			got = weft_cq_poll_private(cq, n, wc);
		while (got < n && poll_ring(cq, r, &wc[got]))
			got++;
		atomic_store_explicit(&cq->hot, weft_cq_next_turn(cq) ? r : r->next,
				      memory_order_relaxed);
		weft_unlock(&cq->lock, own);
	}
	return got;
}

/* Which receive comes next; what has come back from cards by now is older. */
static bool see_next(struct weft_cq *cq)
{
	struct weft_cq_ring *r = cq->next_ring;

	if (r && weft_cq_consumed(r) == cq->next_at && weft_cq_entry_at(r, cq->next_at))
		return true;
	cq->next_ring = r = filled_ring(cq);
	if (!r)
		return false;
	cq->next_at = weft_cq_consumed(r);
	weft_returns_note_older(cq);
	return true;
}

static bool poll_next(struct weft_cq *cq, struct weft_wc *wc)
{
	struct weft_cq_ring *r = cq->next_ring;
	struct weft_cqe cqe;

	if (weft_returns_take(cq, &cqe, true)) {
		weft_cq_tell(wc, cqe.wr_id, cqe.status, cqe.opcode, cqe.byte_len, cqe.imm,
			     cqe.qp->qpn, cqe.src_qp, cqe.flags);
		weft_cq_free_slot(cqe.qp, cqe.opcode, cqe.position);
		cq->polled_ns = cqe.stamp_ns;
		return true;
	}
	cq->next_ring = NULL;
	atomic_store_explicit(&cq->hot, weft_cq_next_turn(cq) ? r : r->next, memory_order_relaxed);
	return poll_ring(cq, r, wc);
}

/* As poll_rings, of a queue to which completions come in other ways, too. */
static int poll_in_order(struct weft_cq *cq, int n, struct weft_wc *wc, uint32_t thread)
{
	bool own;
	int got;

	if (n <= 0 || !filled_ring(cq))
		return 0;
	own = weft_lock(cq->nic, &cq->lock, thread);
	got = weft_cq_poll_private(cq, n, wc);
	while (got < n && see_next(cq))
		got += poll_next(cq, &wc[got]);
	weft_unlock(&cq->lock, own);
	return got;
}

int weft_cq_poll_rings(struct weft_cq *cq, int n, struct weft_wc *wc, uint32_t thread)
{
	bool sources = atomic_load_explicit(&cq->sources, memory_order_relaxed);
	int got;

	if (__builtin_expect(!sources, 1))
		return poll_rings(cq, n, wc, thread);
	/* neither starves the other */
	if (atomic_load_explicit(&cq->turns, memory_order_relaxed) % 2) {
		got = weft_source_poll(cq, n, wc, thread);
		return got < n ? got + poll_in_order(cq, n - got, wc + got, thread) : got;
	}
	got = poll_in_order(cq, n, wc, thread);
	return got < n ? got + weft_source_poll(cq, n - got, wc + got, thread) : got;
}

/* Whether there is one, before which the private queue has all that is older; all: whether it has room or not. */
static bool has_entry(struct weft_cq *cq, const struct weft_cq_ring *r, bool all)
{
	if (!weft_cq_entry_at(r, weft_cq_consumed(r)))
		return false;
	weft_source_drain(cq, all);
	return all || weft_cq_has_room(cq);
}

static void take_others(struct weft_cq *cq, bool all, uint32_t thread)
{
	const struct weft_pool_cqe *from;
	struct weft_qp *qp;
	bool own = weft_lock(cq->nic, &cq->lock, thread);

	for (struct weft_cq_ring *r = weft_cq_first_ring(cq); r; r = r->next)
		while (has_entry(cq, r, all) && (from = next_entry(cq, r, &qp))) {
			struct weft_cqe *cqe = weft_cq_next(cq, qp);

			if (!cqe)
				continue;
			*cqe = (struct weft_cqe){.wr_id = from->wr_id,
						 .qp = qp,
						 .byte_len = from->byte_len,
						 .imm = from->imm,
						 .src_qp = from->src_qpn,
						 .status = from->status,
						 .opcode = from->opcode | WEFT_WC_RECV,
						 .flags = from->flags,
						 .stamp_ns = stamp_of(cq, r, from)};
			weft_cq_publish(cq);
		}
	weft_source_drain(cq, all);
	weft_unlock(&cq->lock, own);
}

void weft_cq_drain(struct weft_cq *cq)
{
	take_others(cq, true, 0);
}

void weft_cq_take_in(struct weft_cq *cq, uint32_t thread)
{
	take_others(cq, false, thread);
}

void weft_cq_purge(struct weft_cq *cq, struct weft_qp *qp)
{
	uint64_t head, tail, to;

	weft_cq_drain(cq);
	weft_lock(cq->nic, &cq->lock, 0);
	head = to = atomic_load_explicit(&cq->head, memory_order_relaxed);
	tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	for (uint64_t from = head; from < tail; from++)
		if (cq->cqe[from & cq->mask].qp != qp)
			cq->cqe[to++ & cq->mask] = cq->cqe[from & cq->mask];
	atomic_store_explicit(&cq->tail, to, memory_order_release);
	weft_unlock(&cq->lock, false);
}

int weft_cq_resize(struct weft_cq *cq, uint32_t cqe)
{
	uint32_t room = round_up(cqe);
	struct weft_cqe *fresh, *old;
	uint64_t head, tail;
	int err = 0;

	if (!cqe || cqe > WEFT_MAX_CQE)
		return -EINVAL;
	fresh = weft_nic_alloc(cq->nic, room * sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	weft_lock(cq->nic, &cq->lock, 0);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	old = fresh;
	if (tail - head > cqe) {
		err = -EINVAL;
		goto unlock;
	}
	for (uint64_t i = head; i < tail; i++)
		fresh[i & (room - 1)] = cq->cqe[i & cq->mask];
	old = cq->cqe;
	cq->cqe = fresh;
	cq->size = cqe;
	cq->mask = room - 1;
unlock:
	weft_unlock(&cq->lock, false);
	weft_nic_free(cq->nic, old);
	return err;
}

/* ---- Rings ---- */

static struct weft_cq_ring *make_ring(struct weft_cq *cq, uint16_t producer, uint64_t incarnation,
				      uint32_t size)
{
	struct weft_cq_ring *r = weft_nic_alloc(cq->nic, sizeof(*r));

	if (!r)
		return NULL;
	r->size = size;
	r->size_bits = (uint8_t)__builtin_ctz(size);
	r->producer = producer;
	r->incarnation = incarnation;
	if (cq->nic->pool->calls->alloc(cq->nic->pool, ring_bytes(cq, size), &r->off)) {
		weft_nic_free(cq->nic, r);
		return NULL;
	}
	r->ring = (void *)(cq->nic->pool->base + r->off);
	WEFT_STEP(cq_ring_made);
	r->ring->size = size;
	r->ring->stamped = cq->stamps;
	r->ring->owner = cq->nic->pool->me;
	r->ring->producer = producer;
	atomic_store_explicit(&r->ring->alarm_off, cq->alarm_off, memory_order_relaxed);
	return r;
}

/* A ring with room for `n` more of this producer; else one that no connection uses, which becomes this producer's. */
static struct weft_cq_ring *find_ring(struct weft_cq_ring *first, uint16_t producer,
				      uint64_t incarnation, uint32_t n, uint32_t *promised)
{
	struct weft_cq_ring *idle = NULL;

	*promised = 0;
	for (struct weft_cq_ring *r = first; r; r = r->next) {
		if (!r->promised && r->size >= n)
			idle = r;
		if (r->producer != producer || r->incarnation != incarnation)
			continue;
		*promised += r->promised;
		if (r->size - r->promised >= n)
			return r;
	}
	if (idle) {
		__builtin_memset(idle->ring->cqe, 0, idle->size * sizeof(*idle->ring->cqe));
		atomic_store_explicit(&idle->ring->produced, 0, memory_order_relaxed);
		idle->ring->producer = idle->producer = producer;
		idle->incarnation = incarnation;
		atomic_store_explicit(&idle->consumed, 0, memory_order_relaxed);
		atomic_store_explicit(&idle->armed_at, 0, memory_order_relaxed);
	}
	return idle;
}

int weft_cq_ring_get(struct weft_cq *cq, struct weft_cq_ring *_Atomic *rings, uint16_t producer,
		     uint32_t n, uint64_t *off)
{
	const struct weft_pool_member *m = cq->nic->pool->calls->member(cq->nic->pool, producer);
	struct weft_cq_ring *r, *first;
	uint64_t incarnation;
	uint32_t promised;

	if (!m)
		return -ENOENT;
	incarnation = atomic_load_explicit(&m->incarnation, memory_order_relaxed);
	weft_lock(cq->nic, &cq->lock, 0);
	first = atomic_load_explicit(rings, memory_order_relaxed);
	r = find_ring(first, producer, incarnation, n, &promised);
	if (!r) {
		/* each new ring is thrice what this producer has, so that rings stay few */
		r = make_ring(cq, producer, incarnation,
			      round_up(n > 3 * promised ? n : 3 * promised));
		if (r) {
			r->next = first;
			/* release: pairs with the acquire in weft_cq_first_ring */
			atomic_store_explicit(rings, r, memory_order_release);
		}
	}
	if (r) {
		r->promised += n;
		*off = r->off;
	}
	weft_unlock(&cq->lock, false);
	return r ? 0 : -ENOMEM;
}

void weft_cq_ring_put(struct weft_cq *cq, struct weft_cq_ring *_Atomic *rings, uint64_t off,
		      uint32_t n, bool quiet)
{
	weft_lock(cq->nic, &cq->lock, 0);
	for (struct weft_cq_ring *r = atomic_load_explicit(rings, memory_order_relaxed); r;
	     r = r->next) {
		if (r->off != off)
			continue;
		/* what is not given back keeps the ring from becoming another producer's */
		if (quiet)
			r->promised -= n;
		else
			r->stuck = true;
	}
	weft_unlock(&cq->lock, false);
}
