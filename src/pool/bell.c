/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Waking and waiting. The frequent side uses compiler barriers only; the rare side (revoke, arm,
 * sleep) pays for both by the barrier of the backing (backing/fence.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/clock.h"
#include "pool/host.h"
#include "pool/internal.h"
#include "pool/step.h"
#include "pool/format_home.h"
#include "pool/format_line.h"
#include "pool/format_member.h"
#include "pool/sizes.h"

#define PATIENCE_NS 1000000000ull
#define SPINS	    256u

void weft_pool_barrier(struct weft_pool *pool)
{
	weft_attachment(pool)->on->barrier(weft_attachment(pool)->backed);
}

void weft_pool_fence(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

_Static_assert(WEFT_SIGNAL_REASONS <= sizeof(((struct weft_pool_near *)0)->due) / sizeof(uint32_t),
	       "each reason has its word");

/* Nothing that is stored wakes another kernel: its helper looks at times. */
static void signal_far(struct weft_pool *pool, uint16_t member, enum weft_signal_reason reason)
{
	struct weft_pool_member *m = weft_pool_member(pool, member);

	if (!m || weft_is_near(pool, member))
		return;
	atomic_store_explicit(&m->due[reason], 1, memory_order_release);
	/* release: pairs with the acquire in is_rung */
	atomic_store_explicit(&m->rung, 1, memory_order_release);
}

void weft_pool_signal(struct weft_pool *pool, uint16_t member, enum weft_signal_reason reason)
{
	const struct weft_attachment *a = weft_attachment(pool);
	struct weft_pool_near *m = weft_pool_near(pool, member);

	if (!m) {
		signal_far(pool, member, reason);
		return;
	}
	atomic_store_explicit(&m->due[reason], 1, memory_order_release);
	WEFT_STEP(bell_due);
	atomic_store_explicit(&m->signalled, 1, memory_order_release);
	WEFT_STEP(bell_signalled);
	/* pairs with the barrier between `asleep` and the last look at `signalled` in weft_pool_sleep */
	weft_fence_frequent();
	if (atomic_load_explicit(&m->asleep, memory_order_relaxed))
		a->on->wake(a->backed, &m->signalled);
}

/* The fence behind it, in weft_pool_sleep, is before the reasons are looked at. */
static bool is_rung(struct weft_attachment *a)
{
	_Atomic uint32_t *rung = &a->pool.self->rung;

	/* acquire: pairs with the release in signal_far */
	if (!a->hosts || !atomic_load_explicit(rung, memory_order_acquire))
		return false;
	atomic_store_explicit(rung, 0, memory_order_relaxed);
	weft_host_heard(a);
	return true;
}

void weft_pool_sleep(struct weft_pool *pool, int64_t timeout_ns)
{
	struct weft_attachment *a = weft_attachment(pool);
	struct weft_pool_near *self = pool->own;

	atomic_store_explicit(&self->asleep, 1, memory_order_relaxed);
	WEFT_STEP(bell_drowsy);
	weft_pool_barrier(pool);
	if (a->hosts)
		timeout_ns = weft_host_nap(a, timeout_ns);
	if (!atomic_load_explicit(&self->signalled, memory_order_acquire) && !is_rung(a))
		a->on->sleep(a->backed, &self->signalled, 0, timeout_ns);
	is_rung(a);
	atomic_store_explicit(&self->asleep, 0, memory_order_relaxed);
	/* cleared before the reasons are looked at */
	atomic_store_explicit(&self->signalled, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	WEFT_STEP(bell_awake);
	if (a->hosts)
		weft_host_tick(a);
}

static bool take_reason(_Atomic uint32_t *due)
{
	if (!atomic_load_explicit(due, memory_order_acquire))
		return false;
	/* cleared before the work is looked at: a caller that adds some later signals again */
	atomic_store_explicit(due, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return true;
}

bool weft_pool_signalled(struct weft_pool *pool, enum weft_signal_reason reason)
{
	bool near = take_reason(&pool->own->due[reason]);

	return (weft_attachment(pool)->hosts && take_reason(&pool->self->due[reason])) || near;
}

void weft_pool_pause(uint64_t waited_ns)
{
	weft_pause(waited_ns);
}

struct waited {
	uint16_t member;
	uint32_t line;
	uint64_t incarnation, busy;
};

/* What a line says. */
struct doing {
	uint64_t busy, also;
};

#define WAITED_FEW 64u

struct wait {
	struct weft_pool *pool;
	uint16_t member;
	uint32_t qp; /* at which of its queue pairs, an index; 0: at any */
	uint64_t patience_ns;
	/* an executor that does not go on is a suspect, unless it stopped before what ends was made; NULL: none is */
	const uint64_t *made;
	int err;
	uint32_t n, room;
	struct waited *waited; /* `few`, or more on the heap */
	struct waited few[WAITED_FEW];
};

/* Our own threads always count: whatever peer they work at, they also read and fill memory of ours. */
static bool concerns(const struct wait *w, struct doing doing, uint16_t executor)
{
	uint32_t at = weft_busy_member(doing.busy), qp = weft_busy_qp(doing.busy);
	uint32_t also = weft_also_member(doing.also, doing.busy);

	if (!at)
		return false;
	if (executor == w->member)
		return true;
	/* an executor there by way of a shared domain is at none of its queue pairs */
	if (also && !w->qp && (also == w->member + 1u || also == WEFT_ALSO_ALL))
		return true;
	return at == w->member + 1u && (!w->qp || !qp || qp == w->qp);
}

static bool goes_on(struct weft_pool *pool, const struct waited *waited, bool ask)
{
	const struct weft_pool_near *near = weft_pool_near(pool, waited->member);

	/* acquire: pairs with the release that ends an execution */
	return near &&
	       atomic_load_explicit(&near->line[waited->line].busy, memory_order_acquire) ==
		       waited->busy &&
	       (!ask || weft_pool_alive(pool, waited->member, waited->incarnation));
}

/* All at once: an executor that stands still must not use up the patience with those that are at work. */
static void wait_for_noted(struct wait *w)
{
	uint64_t begun_ns = w->n ? weft_clock_now_ns() : 0, waited_ns;

	for (unsigned int spins = 1; w->n; spins++) {
		bool ask = spins % SPINS == 0;

		for (uint32_t i = w->n; i-- > 0;)
			if (!goes_on(w->pool, &w->waited[i], ask))
				w->waited[i] = w->waited[--w->n];
		if (!ask)
			continue;
		waited_ns = weft_clock_now_ns() - begun_ns;
		if (waited_ns > w->patience_ns)
			break;
		weft_pause(waited_ns);
	}
	for (uint32_t i = 0; i < w->n; i++) {
		const struct waited *stopped = &w->waited[i];

		w->err = -ETIMEDOUT;
		if (w->made)
			weft_quarantine_suspect(w->pool, stopped->member, stopped->line,
						stopped->incarnation, stopped->busy);
	}
	w->n = 0;
}

static bool make_room(struct wait *w)
{
	struct waited *more = malloc(2ull * w->room * sizeof(*more));

	if (!more)
		return false;
	memcpy(more, w->waited, w->n * sizeof(*more));
	if (w->waited != w->few)
		free(w->waited);
	w->waited = more;
	w->room *= 2;
	return true;
}

static void note_line(struct wait *w, uint16_t executor, uint64_t incarnation, uint32_t index,
		      struct doing doing)
{
	uint64_t busy = doing.busy;
	int known;

	if (!concerns(w, doing, executor))
		return;
	known = w->made ? weft_quarantine_look(w->pool, executor, index, busy, *w->made) : -ENOENT;
	if (known != -ENOENT) {
		w->err = known ? known : w->err;
		return;
	}
	/* with no memory for more, these have their patience now, and others theirs later */
	if (w->n == w->room && !make_room(w))
		wait_for_noted(w);
	w->waited[w->n++] = (struct waited){executor, index, incarnation, busy};
}

static void note_member(struct wait *w, uint16_t i)
{
	const struct weft_pool_member *m = weft_pool_member(w->pool, i);
	const struct weft_pool_near *near = weft_pool_near(w->pool, i);
	uint64_t incarnation;
	uint32_t lines;

	if (!m || !near) {
		w->err = -ENOMEM;
		return;
	}
	incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);
	lines = atomic_load_explicit(&m->lines, memory_order_acquire);
	for (uint32_t k = 0; incarnation && k < lines && k < WEFT_MEMBER_LINES; k++)
		note_line(w, i, incarnation, k,
			  (struct doing){
				  atomic_load_explicit(&near->line[k].busy, memory_order_acquire),
				  atomic_load_explicit(&near->also[k], memory_order_relaxed)});
}

static int wait_all(struct wait *w)
{
	struct weft_slice used = weft_members_of(w->pool, w->pool->host);

	w->waited = w->few;
	w->room = WAITED_FEW;
	for (uint32_t i = used.first; i < used.end; i++)
		if (i != w->member && i != w->pool->me)
			note_member(w, (uint16_t)i);
	wait_for_noted(w);
	/* last, as our helper may have begun what one of them has asked for and given up since */
	if (w->pool->me < used.end)
		note_member(w, w->pool->me);
	wait_for_noted(w);
	if (w->waited != w->few)
		free(w->waited);
	return w->err;
}

int weft_bell_wait_near(struct weft_pool *pool, uint16_t member, uint32_t qp, uint64_t timeout_ns)
{
	return wait_all(&(struct wait){
		.pool = pool, .member = member, .qp = qp, .patience_ns = timeout_ns});
}

int weft_bell_wait_idle(struct weft_pool *pool, uint16_t member, uint64_t timeout_ns)
{
	return wait_all(&(struct wait){.pool = pool, .member = member, .patience_ns = timeout_ns});
}

int weft_pool_quiesce(struct weft_pool *pool, uint32_t qp_index, uint64_t made)
{
	int err, asked;

	weft_pool_barrier(pool);
	WEFT_STEP(bell_quiescing);
	err = wait_all(&(struct wait){.pool = pool,
				      .member = pool->me,
				      .qp = qp_index,
				      .patience_ns = PATIENCE_NS,
				      .made = &made});
	asked = weft_quiesce_ask(weft_attachment(pool), pool->me, qp_index, PATIENCE_NS, true);
	return asked ? asked : err;
}
