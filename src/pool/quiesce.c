/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Waiting for executors of other hosts. They do not fence, and their busy lines are in their homes: a revoker
 * asks each host that has ever used the member, and any helper there makes all threads of its own
 * host pass a barrier, looks at the lines, and answers. The order is in format_host.h.
 */
#include <errno.h>

#include "pool/clock.h"
#include "pool/format_host.h"
#include "pool/format_member.h"
#include "pool/host.h"
#include "pool/step.h"

#define ANSWER_NS    1000000ull /* then again at the next look: the helper has more to do */
#define PATIENCE_NS  1000000000ull
#define ASK_AGAIN_NS 10000000ull /* a helper that died may have taken `asked` with it */

/* ---- Asking ---- */

struct question {
	struct weft_attachment *a;
	uint16_t member;
	uint64_t incarnation, word; /* as in `quiesce` of the member */
	uint64_t waits;		    /* a bit a host */
};

static void ask_hosts(const struct question *q)
{
	for (uint64_t left = q->waits; left; left &= left - 1)
		/* release: pairs with the acquire in weft_host_tick */
		atomic_store_explicit(&q->a->hosts->at[__builtin_ctzll(left)].asked, 1,
				      memory_order_release);
}

/* Those that use the member. */
static uint64_t users(const struct question *q)
{
	uint64_t found = 0;

	for (uint32_t i = 0; i < 1u << q->a->pool.host_bits; i++)
		if (i != q->a->pool.host &&
		    atomic_load_explicit(&q->a->hosts->at[i].uses[q->member],
					 memory_order_relaxed) == q->incarnation)
			found |= 1ull << i;
	return found;
}

static bool has_answered(const struct question *q, uint32_t host)
{
	const struct weft_pool_host *h = &q->a->hosts->at[host];

	/* acquire: pairs with the release in answer_one: what executors there stored is seen */
	return weft_host_is_evicted(q->a, host) ||
	       atomic_load_explicit(&h->answered[q->member], memory_order_acquire) >=
		       WEFT_QUIESCE_SEQUENCE(q->word) ||
	       /* acquire: the same */
	       atomic_load_explicit(&h->answered_qp[q->member], memory_order_acquire) == q->word;
}

static void drop_answered(struct question *q)
{
	for (uint64_t left = q->waits; left; left &= left - 1)
		if (has_answered(q, (uint32_t)__builtin_ctzll(left)))
			q->waits &= ~(left & -left);
}

/* Without those that are silent. */
static uint64_t awaited(const struct question *q)
{
	uint64_t awaited = q->waits;

	for (uint64_t left = q->waits; left; left &= left - 1)
		if (weft_host_is_silent(q->a, (uint32_t)__builtin_ctzll(left)))
			awaited &= ~(left & -left);
	return awaited;
}

static void wait_for_answers(struct question *q, uint64_t patience_ns)
{
	struct weft_pool *pool = &q->a->pool;
	uint64_t begun_ns = weft_clock_now_ns(), waited_ns = 0, told_ns = 0;

	ask_hosts(q);
	while (q->waits && waited_ns <= patience_ns && awaited(q)) {
		/* the host asked may be asking us */
		weft_host_tick(q->a);
		if (pool->meanwhile)
			pool->meanwhile(pool);
		if (waited_ns - told_ns > ASK_AGAIN_NS) {
			ask_hosts(q);
			told_ns = waited_ns;
		}
		weft_pause(waited_ns);
		waited_ns = weft_clock_now_ns() - begun_ns;
		drop_answered(q);
	}
}

int weft_quiesce_ask(struct weft_attachment *a, uint16_t member, uint32_t qp, uint64_t patience_ns,
		     bool suspects)
{
	struct weft_pool_member *m = weft_pool_member(&a->pool, member);
	struct question q = {.a = a, .member = member};
	uint64_t sequence;
	int err = 0;

	if (!a->hosts || !m)
		return 0;
	q.incarnation = atomic_load_explicit(&m->incarnation, memory_order_relaxed);
	pthread_mutex_lock(&a->hosts->asking);
	sequence = WEFT_QUIESCE_SEQUENCE(atomic_load_explicit(&m->quiesce, memory_order_relaxed));
	q.word = WEFT_QUIESCE(sequence + 1, qp);
	/* release: pairs with the acquire in weft_quiesce_answer */
	atomic_store_explicit(&m->quiesce, q.word, memory_order_release);
	WEFT_STEP(quiesce_asking);
	WEFT_TURN(quiesce_asked);
	/* pairs with the fences in weft_pool_use and weft_host_tick */
	atomic_thread_fence(memory_order_seq_cst);
	q.waits = users(&q);
	WEFT_TURN(quiesce_counted);
	drop_answered(&q);
	if (q.waits)
		wait_for_answers(&q, patience_ns);
	pthread_mutex_unlock(&a->hosts->asking);
	for (uint64_t left = q.waits; left; left &= left - 1) {
		uint32_t host = (uint32_t)__builtin_ctzll(left);

		err = -ETIMEDOUT;
		if (suspects)
			weft_quarantine_suspect(&a->pool, (uint16_t)host, WEFT_LINE_HOST,
						sequence + 1,
						atomic_load_explicit(&a->hosts->at[host].life,
								     memory_order_relaxed));
	}
	return err;
}

int weft_pool_ask_hosts(struct weft_pool *pool)
{
	return weft_quiesce_ask(weft_attachment(pool), pool->me, 0, PATIENCE_NS, false);
}

bool weft_quiesce_waits(struct weft_attachment *a, uint32_t host, uint64_t life, uint64_t sequence)
{
	struct weft_pool_host *h = &a->hosts->at[host];

	/* what its next life finds it has not got */
	if (atomic_load_explicit(&h->life, memory_order_acquire) != life ||
	    weft_host_is_evicted(a, host) ||
	    atomic_load_explicit(&h->answered[a->pool.me], memory_order_acquire) >= sequence)
		return false;
	/* the helper that was to answer may have died since */
	atomic_store_explicit(&h->asked, 1, memory_order_release);
	return true;
}

/* ---- Answering ---- */

static void answer_one(struct weft_attachment *a, uint16_t member, uint64_t word)
{
	struct weft_pool_host *own = &a->hosts->at[a->pool.host];
	uint32_t qp = WEFT_QUIESCE_QP(word);

	WEFT_TURN(quiesce_read);
	if (weft_bell_wait_near(&a->pool, member, qp, ANSWER_NS)) {
		atomic_store_explicit(&a->hosts->owes, true, memory_order_relaxed);
		return;
	}
	WEFT_STEP(quiesce_answering);
	WEFT_TURN(quiesce_answering);
	if (qp)
		/* release: pairs with the acquire in has_answered */
		atomic_store_explicit(&own->answered_qp[member], word, memory_order_release);
	/* if an executor is at another of its queue pairs, those that wait for that ask again */
	if (!qp || !weft_bell_wait_near(&a->pool, member, 0, 0))
		/* release: the same, and with the acquire in weft_quiesce_waits */
		atomic_store_explicit(&own->answered[member], WEFT_QUIESCE_SEQUENCE(word),
				      memory_order_release);
}

void weft_quiesce_answer(struct weft_attachment *a)
{
	struct weft_pool *pool = &a->pool;
	const struct weft_pool_host *own = &a->hosts->at[pool->host];

	for (uint16_t i = 0; (i = weft_pool_next(pool, i)) < WEFT_MEMBERS; i++) {
		const struct weft_pool_member *m =
			weft_is_near(pool, i) ? NULL : weft_pool_member(pool, i);
		/* acquire: pairs with the release in weft_quiesce_ask */
		uint64_t word = m ? atomic_load_explicit(&m->quiesce, memory_order_acquire) : 0;

		if (WEFT_QUIESCE_SEQUENCE(word) <=
		    atomic_load_explicit(&own->answered[i], memory_order_relaxed))
			continue;
		/* what its threads did before this they did before the lines are looked at */
		weft_pool_barrier(pool);
		answer_one(a, i, word);
	}
}
