/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory that an executor which stands still may yet touch. An executor that does not go on within the patience of
 * a revocation becomes a suspect: what it could reach is retired instead of freed, until its busy line has changed
 * or it has died. What was made after it stopped is out of its reach.
 */
#include <errno.h>
#include <stdlib.h>

#include "pool/host.h"
#include "pool/internal.h"
#include "pool/step.h"
#include "pool/format_home.h"
#include "pool/format_line.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"

struct weft_suspect {
	uint16_t member;
	uint32_t line;
	uint64_t incarnation, busy;
	uint64_t since; /* the pool's age when it was found */
	uint64_t last;	/* of a host: when it was found so again */
};

struct weft_retired {
	struct weft_retired *next;
	enum weft_retire what;
	uint64_t where, len_bytes;
	uint64_t at; /* the pool's age */
};

static bool is_there(struct weft_pool *pool, const struct weft_suspect *s)
{
	const struct weft_pool_near *m;

	if (s->line == WEFT_LINE_HOST)
		return weft_quiesce_waits(weft_attachment(pool), s->member, s->busy,
					  s->incarnation);
	m = weft_pool_near(pool, s->member);

	/* acquire: pairs with the release that ends an execution */
	return m && atomic_load_explicit(&m->line[s->line].busy, memory_order_acquire) == s->busy &&
	       weft_pool_alive(pool, s->member, s->incarnation);
}

int weft_quarantine_look(struct weft_pool *pool, uint16_t member, uint32_t line, uint64_t busy,
			 uint64_t made)
{
	const struct weft_quarantine *q = &weft_attachment(pool)->quarantine;
	int found = -ENOENT;

	if (!atomic_load_explicit(&q->nsuspects, memory_order_acquire))
		return found;
	pthread_mutex_lock(&weft_attachment(pool)->quarantine_mutex);
	for (uint32_t i = 0; i < q->nsuspects; i++) {
		const struct weft_suspect *s = &q->suspect[i];

		if (s->member == member && s->line == line && s->busy == busy)
			found = made < s->since ? -ETIMEDOUT : 0;
	}
	pthread_mutex_unlock(&weft_attachment(pool)->quarantine_mutex);
	return found;
}

/* Of a host it is not known at which of our queue pairs it stands; but only its members are at those that are connected to
 * them. */
static bool may_be_at(const struct weft_pool *pool, const struct weft_suspect *s, uint32_t qp_index)
{
	uint32_t peer;

	if (s->line != WEFT_LINE_HOST)
		return weft_busy_place(s->busy) == weft_busy_at(pool->me, qp_index);
	peer = atomic_load_explicit(&pool->qps[qp_index].conn, memory_order_relaxed) & 0xffffff;
	return !peer || weft_host_of_qp(pool, peer) == s->member;
}

uint64_t weft_pool_suspects_at(struct weft_pool *pool, uint32_t qp_index)
{
	const struct weft_quarantine *q = &weft_attachment(pool)->quarantine;
	uint64_t last = 0;

	if (!atomic_load_explicit(&q->nsuspects, memory_order_acquire))
		return 0;
	pthread_mutex_lock(&weft_attachment(pool)->quarantine_mutex);
	for (uint32_t i = 0; i < q->nsuspects; i++) {
		const struct weft_suspect *s = &q->suspect[i];

		if (may_be_at(pool, s, qp_index) && s->last > last && is_there(pool, s))
			last = s->last;
	}
	pthread_mutex_unlock(&weft_attachment(pool)->quarantine_mutex);
	return last;
}

/* A host that has not answered one question is asked the next all the same, as others of its threads may go on: what
 * was retired since the first waits for the answer to the last. */
static bool owes_already(struct weft_pool *pool, uint16_t host, uint64_t quiesce, uint64_t life)
{
	struct weft_quarantine *q = &weft_attachment(pool)->quarantine;

	for (uint32_t i = 0; i < q->nsuspects; i++) {
		struct weft_suspect *s = &q->suspect[i];

		if (s->line != WEFT_LINE_HOST || s->member != host || s->busy != life)
			continue;
		s->incarnation = quiesce;
		s->last = atomic_load_explicit(&pool->age, memory_order_relaxed) + 1;
		atomic_store_explicit(&pool->age, s->last, memory_order_relaxed);
		return true;
	}
	return false;
}

void weft_quarantine_suspect(struct weft_pool *pool, uint16_t member, uint32_t line,
			     uint64_t incarnation, uint64_t busy)
{
	struct weft_quarantine *q = &weft_attachment(pool)->quarantine;
	struct weft_suspect *s;

	pthread_mutex_lock(&weft_attachment(pool)->quarantine_mutex);
	if (line == WEFT_LINE_HOST && owes_already(pool, member, incarnation, busy)) {
		pthread_mutex_unlock(&weft_attachment(pool)->quarantine_mutex);
		return;
	}
	s = reallocarray(q->suspect, q->nsuspects + 1, sizeof(*s));
	if (s) {
		uint64_t since = atomic_load_explicit(&pool->age, memory_order_relaxed) + 1;

		WEFT_STEP(quarantine_suspected);
		q->suspect = s;
		s[q->nsuspects] =
			(struct weft_suspect){member, line, incarnation, busy, since, since};
		atomic_store_explicit(&q->nsuspects, q->nsuspects + 1, memory_order_release);
		atomic_store_explicit(&pool->age, since, memory_order_relaxed);
	} else {
		q->lost = true; /* then what is retired is never freed */
	}
	pthread_mutex_unlock(&weft_attachment(pool)->quarantine_mutex);
}

void weft_pool_retire(struct weft_pool *pool, enum weft_retire what, uint64_t where,
		      uint64_t len_bytes)
{
	struct weft_quarantine *q = &weft_attachment(pool)->quarantine;
	struct weft_retired *r = malloc(sizeof(*r));

	if (!r)
		return; /* the member's until it leaves */
	*r = (struct weft_retired){NULL, what, where, len_bytes, weft_pool_age(pool)};
	pthread_mutex_lock(&weft_attachment(pool)->quarantine_mutex);
	WEFT_STEP(quarantine_retiring);
	r->next = q->retired;
	q->retired = r;
	atomic_fetch_add_explicit(&pool->nretired, 1, memory_order_relaxed);
	pthread_mutex_unlock(&weft_attachment(pool)->quarantine_mutex);
}

static void give_free(struct weft_pool *pool, const struct weft_retired *r)
{
	switch (r->what) {
	case WEFT_RETIRE_EXTENT:
		weft_pool_extent_free(pool, r->where, r->len_bytes);
		break;
	case WEFT_RETIRE_PIECE:
		weft_pool_free(pool, r->where, r->len_bytes);
		break;
	case WEFT_RETIRE_QP:
		weft_pool_drop_qp(pool, (uint32_t)r->where);
		break;
	case WEFT_RETIRE_MR:
		weft_pool_drop_mr(pool, (uint32_t)r->where);
		break;
	}
}

/* The age at which the oldest suspect that is left was found. */
static uint64_t drop_suspects(struct weft_pool *pool, struct weft_quarantine *q)
{
	uint64_t oldest = q->lost ? 0 : UINT64_MAX;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < q->nsuspects; i++) {
		if (!is_there(pool, &q->suspect[i]))
			continue;
		q->suspect[kept++] = q->suspect[i];
		oldest = q->suspect[i].since < oldest ? q->suspect[i].since : oldest;
	}
	atomic_store_explicit(&q->nsuspects, kept, memory_order_release);
	return oldest;
}

void weft_pool_sweep(struct weft_pool *pool)
{
	struct weft_quarantine *q = &weft_attachment(pool)->quarantine;
	struct weft_retired **at = &q->retired, *r, *ready = NULL;
	uint64_t oldest;

	if (!atomic_load_explicit(&pool->nretired, memory_order_relaxed))
		return;
	pthread_mutex_lock(&weft_attachment(pool)->quarantine_mutex);
	oldest = drop_suspects(pool, q);
	while ((r = *at)) {
		if (r->at >= oldest) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		r->next = ready;
		ready = r;
		atomic_fetch_sub_explicit(&pool->nretired, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&weft_attachment(pool)->quarantine_mutex);
	while ((r = ready)) {
		ready = r->next;
		WEFT_STEP(quarantine_freeing);
		give_free(pool, r);
		free(r);
	}
}

void weft_quarantine_end(struct weft_quarantine *q)
{
	struct weft_retired *r;

	while ((r = q->retired)) {
		q->retired = r->next;
		free(r);
	}
	free(q->suspect);
}
