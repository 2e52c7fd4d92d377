/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/source.h"

#include "nic/complete.h"
#include "nic/cq.h"
#include "nic/errors.h"
#include "nic/nic.h"
#include "nic/returns.h"
#include "nic/types.h"
#include "pool/format_ring.h"
#include "pool/sge.h"

static struct weft_cq_source *first_source(const struct weft_cq *cq)
{
	return atomic_load_explicit(&cq->sources, memory_order_relaxed);
}

static struct weft_cq_source *find_source(const struct weft_cq *cq, const struct weft_srq *q)
{
	struct weft_cq_source *s = first_source(cq);

	while (s && s->srq != q)
		s = s->next;
	return s;
}

static void unlist_source(struct weft_cq *cq, const struct weft_cq_source *source)
{
	struct weft_cq_source *s = first_source(cq);

	if (s == source) {
		atomic_store_explicit(&cq->sources, source->next, memory_order_relaxed);
		return;
	}
	while (s->next != source)
		s = s->next;
	s->next = source->next;
}

/* Others come first next time. */
static void to_the_end(struct weft_cq *cq, struct weft_cq_source *source)
{
	struct weft_cq_source *s;

	unlist_source(cq, source);
	source->next = NULL;
	s = first_source(cq);
	if (!s) {
		atomic_store_explicit(&cq->sources, source, memory_order_relaxed);
		return;
	}
	while (s->next)
		s = s->next;
	s->next = source;
}

/* What takers must know of the completion queue. */
static int make_wake(struct weft_cq *cq)
{
	int err = cq->nic->pool->calls->alloc(cq->nic->pool, weft_pool_ring_bytes(0, false),
					      &cq->wake_off);

	if (err)
		return err;
	cq->wake = (void *)(cq->nic->pool->base + cq->wake_off);
	cq->wake->owner = cq->nic->pool->me;
	cq->wake->stamped = cq->stamps;
	atomic_store_explicit(&cq->wake->alarm_off, cq->alarm_off, memory_order_relaxed);
	return 0;
}

static int add_source(struct weft_cq *cq, struct weft_srq *q)
{
	struct weft_cq_source *s = weft_nic_alloc(cq->nic, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->srq = q;
	s->users = 1;
	s->next = first_source(cq);
	atomic_store_explicit(&cq->sources, s, memory_order_relaxed);
	return 0;
}

int weft_source_attach(struct weft_cq *cq, struct weft_srq *q)
{
	struct weft_cq_source *s;
	int err = 0;

	weft_lock(cq->nic, &cq->lock, 0);
	s = find_source(cq, q);
	if (s)
		s->users++;
	if (!cq->wake)
		err = make_wake(cq);
	if (!s && !err)
		err = add_source(cq, q);
	weft_unlock(&cq->lock, false);
	return err;
}

void weft_source_detach(struct weft_cq *cq, const struct weft_srq *q)
{
	struct weft_cq_source *s;

	weft_lock(cq->nic, &cq->lock, 0);
	s = find_source(cq, q);
	if (--s->users)
		s = NULL;
	else
		unlist_source(cq, s);
	weft_unlock(&cq->lock, false);
	weft_nic_free(cq->nic, s);
}

int weft_source_add_returns(struct weft_cq *cq)
{
	int err = 0;

	weft_lock(cq->nic, &cq->lock, 0);
	if (!find_source(cq, NULL))
		err = add_source(cq, NULL);
	weft_unlock(&cq->lock, false);
	return err;
}

void weft_source_forget_returns(struct weft_cq *cq)
{
	struct weft_cq_source *s = find_source(cq, NULL);

	if (s)
		unlist_source(cq, s);
	weft_nic_free(cq->nic, s);
}

static inline bool take_cqe(struct weft_cq *cq, const struct weft_cq_source *s,
			    struct weft_cqe *cqe, uint32_t thread)
{
	bool news;

	if (!s->srq)
		return weft_returns_take(cq, cqe, false);
	if (!weft_srq_stirs(s->srq) || !weft_srq_take(s->srq, cq, cqe, &news, thread))
		return false;
	/* ends the arming here, as the helper will not find the completion any more */
	if (cq->armed && news)
		weft_cq_wake(cq, cqe->status, cqe->solicited);
	return true;
}

int weft_source_poll(struct weft_cq *cq, int n, struct weft_wc *wc, uint32_t thread)
{
	bool own = weft_lock(cq->nic, &cq->lock, thread);
	struct weft_cq_source *s = first_source(cq);
	int got = weft_cq_poll_private(cq, n, wc);
	struct weft_cqe cqe;

	while (s && got < n) {
		if (!take_cqe(cq, s, &cqe, thread)) {
			s = s->next;
			continue;
		}
		weft_cq_tell(&wc[got++], cqe.wr_id, cqe.status, cqe.opcode, cqe.byte_len, cqe.imm,
			     s->srq ? (uint32_t)cqe.position : cqe.qp->qpn, cqe.src_qp, cqe.flags);
		if (!s->srq)
			weft_cq_free_slot(cqe.qp, cqe.opcode, cqe.position);
		cq->polled_ns = cqe.stamp_ns;
	}
	if (s && !weft_cq_next_turn(cq))
		to_the_end(cq, s);
	weft_unlock(&cq->lock, own);
	return got;
}

void weft_source_drain(struct weft_cq *cq, bool all)
{
	struct weft_cqe from, *cqe;

	for (const struct weft_cq_source *s = first_source(cq); s; s = s->next)
		/* those of XRC are of no queue pair that could end */
		while (!(s->srq && s->srq->cq) && (all || weft_cq_has_room(cq)) &&
		       take_cqe(cq, s, &from, 0)) {
			cqe = weft_cq_next(cq, from.qp);
			if (!cqe)
				continue;
			*cqe = from;
			weft_cq_publish(cq);
		}
}

bool weft_source_look(struct weft_cq *cq, bool tell)
{
	bool news = false;

	for (const struct weft_cq_source *s = first_source(cq); s && !news; s = s->next)
		news = s->srq ? weft_srq_look(s->srq, cq, tell) : weft_returns_look(cq, tell);
	return news;
}
