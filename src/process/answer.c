/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the helper does for those that ask it (ask.c, late.c): their part of this process's memory, or a call of the api's. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "pool/clock.h"
#include "pool/format_member.h"
#include "pool/format_region.h"
#include "pool/step.h"
#include "process/ask.h"
#include "process/device.h"
#include "process/pinned.h"
#include "process/process.h"

/* Behind a copy of a device's, before the helper sleeps: a requester that waited for that asks again, and waking takes as long
 * as a copy. */
#define LINGER_NS 20000ull

static int by_file(uint64_t va, uint8_t *here, uint64_t len_bytes, bool write)
{
	int fd = open("/proc/thread-self/mem", O_RDWR | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	while (len_bytes) {
		/* the last byte last, as in weft_reach_by_kernel */
		uint64_t part = len_bytes > 1 ? len_bytes - 1 : 1;
		ssize_t n = write ? pwrite(fd, here, part, (off_t)va)
				  : pread(fd, here, part, (off_t)va);

		if (n <= 0) {
			err = -EFAULT;
			break;
		}
		here += n;
		va += (uint64_t)n;
		len_bytes -= (uint64_t)n;
	}
	close(fd);
	return err;
}

/* Through the kernel even here: an address that is no longer mapped must not end us. The first thread may
 * have ended. */
static int own_memory(const struct weft_pool *pool, uint64_t va, void *here, uint64_t len_bytes,
		      bool write)
{
	int err = weft_reach_by_kernel(gettid(), pool->self->witness, va, here, len_bytes, write);

	return err && err != -EFAULT ? by_file(va, here, len_bytes, write) : err;
}

/* What is asked, read once. */
struct work {
	uint32_t kind;
	uint64_t id, va, len_bytes, operand[2], bounce_off, grant_off, grant_was;
};

/* The asking thread may have been stopped for long, or its page be damaged. */
static bool is_allowed(struct weft_pool *pool, const struct work *w)
{
	const _Atomic uint64_t *word =
		w->grant_off % sizeof(*word) ? NULL
					     : weft_pool_window(pool, w->grant_off, sizeof(*word));

	return word && atomic_load_explicit(word, memory_order_relaxed) == w->grant_was;
}

/* Whether the region is ours, still there, and has all those bytes. */
static bool is_registered(struct weft_pool *pool, const struct work *w)
{
	uint32_t index = (uint32_t)w->id >> WEFT_KEY_BITS;
	const struct weft_pool_mr *mr = &pool->mrs[index];
	uint64_t start;

	if (!index || weft_pool_see_mr(pool, index) ||
	    atomic_load_explicit(&mr->id, memory_order_acquire) != w->id || mr->owner != pool->me)
		return false;
	start = w->va - mr->va;
	return start <= mr->len_bytes && w->len_bytes <= mr->len_bytes - start;
}

/* The same for memory of a device. */
static int apply_on_device(struct weft_pool *pool, const struct work *w, void *bounce,
			   uint64_t *value)
{
	bool add = w->kind == WEFT_ASK_FETCH_ADD;

	if (w->kind == WEFT_ASK_READ || w->kind == WEFT_ASK_WRITE)
		return bounce ? weft_device_copy(pool, w->id, w->va, bounce, w->len_bytes,
						 w->kind == WEFT_ASK_WRITE)
			      : -EINVAL;
	if ((w->kind != WEFT_ASK_CMP_SWAP && !add) || w->va & 7 || w->len_bytes != sizeof(*value))
		return -EINVAL;
	return weft_device_change(pool, w->id, w->va, add, w->operand[0], w->operand[1], value);
}

/* Whether the grant and the key stand, and so does the region of the asker's in which the bytes lie, which waits for us if it
 * ends now. */
static int may_apply(struct weft_pool *pool, const struct work *w)
{
	if (!is_allowed(pool, w))
		return -ESRCH;
	if (!is_registered(pool, w))
		return -EACCES;
	return w->kind == WEFT_ASK_WRITE && w->operand[0] &&
			       !weft_pinned_is_of(pool, w->operand[0], w->bounce_off, w->len_bytes)
		       ? -ENXIO
		       : 0;
}

static int apply_to_memory(struct weft_pool *pool, const struct work *w, uint64_t *value)
{
	void *bounce = weft_pool_window(pool, w->bounce_off, w->len_bytes);
	_Atomic uint64_t *at = (_Atomic uint64_t *)(uintptr_t)w->va;
	uint64_t word;
	int err = may_apply(pool, w);

	if (err)
		return err;
	if (weft_device_has(pool, w->id))
		return apply_on_device(pool, w, bounce, value);
	switch ((enum weft_ask_kind)w->kind) {
	case WEFT_ASK_READ:
		return bounce ? own_memory(pool, w->va, bounce, w->len_bytes, false) : -EINVAL;
	case WEFT_ASK_WRITE:
		return bounce ? own_memory(pool, w->va, bounce, w->len_bytes, true) : -EINVAL;
	case WEFT_ASK_CMP_SWAP:
	case WEFT_ASK_FETCH_ADD:
		err = own_memory(pool, w->va, &word, sizeof(word), false);
		if (err || w->va & 7 || w->len_bytes != sizeof(word))
			return err ? err : -EINVAL;
		*value = w->operand[0];
		if (w->kind == WEFT_ASK_FETCH_ADD)
			*value = atomic_fetch_add(at, w->operand[0]);
		else
			atomic_compare_exchange_strong(at, value, w->operand[1]);
		return 0;
	case WEFT_ASK_WRITES: /* begin_writes */
	case WEFT_ASK_CHANGE:
	case WEFT_ASK_QP_OPEN:
	case WEFT_ASK_QP_MODIFY:
	case WEFT_ASK_QP_QUERY:
	case WEFT_ASK_QP_CLOSE:
		break;
	}
	return -EINVAL;
}

/* All that write the word are of this host: those of others ask. */
static void change_word(void *at, struct weft_pool_change *c)
{
	_Atomic uint64_t *word = at;
	_Atomic uint32_t *half = at;
	uint64_t was = c->was;

	if (c->bytes == sizeof(*half))
		atomic_store(half, (uint32_t)c->to);
	else if (c->how == WEFT_CHANGE_COMPARE)
		atomic_compare_exchange_strong(word, &was, c->to);
	else if (c->how == WEFT_CHANGE_ADD)
		was = atomic_fetch_add(word, c->to);
	else
		atomic_store(word, c->to);
	c->was = was;
}

static int change_words(struct weft_pool *pool, const struct work *w)
{
	struct weft_pool_change *bounce = weft_pool_window(pool, w->bounce_off, w->len_bytes), c;

	if (w->grant_off && !is_allowed(pool, w))
		return -ESRCH;
	if (!bounce)
		return -EINVAL;
	for (uint64_t i = 0; i < w->len_bytes / sizeof(c); i++) {
		void *at;

		c = bounce[i];
		at = (c.bytes != 4 && c.bytes != 8) || c.off % c.bytes
			     ? NULL
			     : weft_pool_window(pool, c.off, c.bytes);
		if (!at)
			return -EINVAL;
		change_word(at, &c);
		bounce[i].was = c.was;
	}
	return 0;
}

static int apply(struct weft_pool *pool, const struct work *w, uint64_t *value)
{
	if (w->kind == WEFT_ASK_CHANGE)
		return change_words(pool, w);
	return apply_to_memory(pool, w, value);
}

/* The number of what it asks us for; 0: nothing. */
static uint64_t asked(const struct weft_pool *pool, const struct weft_pool_ask *ask)
{
	/* acquire: pairs with the release in ask_member (ask.c) */
	uint64_t seq = atomic_load_explicit(&ask->seq, memory_order_acquire);

	return seq & 1 && ask->target == pool->me &&
			       atomic_load_explicit(&ask->answered, memory_order_relaxed) != seq
		       ? seq
		       : 0;
}

static struct work read_work(const struct weft_pool_ask *ask)
{
	return (struct work){ask->kind,
			     ask->id,
			     ask->va,
			     ask->len_bytes,
			     {ask->operand[0], ask->operand[1]},
			     ask->bounce_off,
			     ask->grant_off,
			     ask->grant_was};
}

static void answer(struct weft_pool *pool, struct weft_pool_ask *ask)
{
	struct work work;
	uint64_t seq;

	/* pairs with the fence in ask_member (ask.c): our visit is seen before we look whether we are still
	 * asked */
	atomic_thread_fence(memory_order_seq_cst);
	seq = asked(pool, ask);
	work = read_work(ask);
	if (!seq)
		return;
	WEFT_STEP(reach_answering);
	WEFT_TURN(reach_answering);
	ask->error = apply(pool, &work, &ask->value);
	WEFT_STEP(reach_applied);
	WEFT_TURN(reach_applied);
	/* release: pairs with the acquire in wait_answer (ask.c) */
	atomic_store_explicit(&ask->answered, seq, memory_order_release);
}

static bool is_call(const struct weft_pool_ask *ask)
{
	return ask->kind >= WEFT_ASK_QP_OPEN;
}

/* Each of the asks that are for us, with its member and that one's incarnation. */
static void for_each(struct weft_pool *pool, bool calls, struct weft_caller *caller,
		     void (*act)(struct weft_pool *pool, uint16_t member, uint64_t incarnation,
				 struct weft_pool_ask *ask, struct weft_caller *caller))
{
	struct weft_pool_member *m;

	for (uint16_t i = 0; (i = weft_pool_next(pool, i)) < WEFT_MEMBERS; i++) {
		m = weft_pool_member(pool, i);
		if (!m)
			continue;
		uint32_t lines = atomic_load_explicit(&m->lines, memory_order_acquire);
		uint64_t incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);

		for (uint32_t k = 0; incarnation && k < lines && k < WEFT_MEMBER_LINES; k++)
			if (asked(pool, &m->ask[k]) && is_call(&m->ask[k]) == calls)
				act(pool, i, incarnation, &m->ask[k], caller);
	}
}

/* ---- Of requests that do not wait, whose process may be asleep ---- */

/* One of those that are answered together: copies of a device's begin before any is waited for. */
struct answering {
	struct weft_pool_ask *ask;
	uint64_t seq, value;
	struct weft_device_copying copying;
	bool begun;
	int err;
};

/* Each in turn, up to the first that is refused: all lie in one region of a device. */
static void begin_writes(struct weft_pool *pool, struct answering *a, const struct work *work)
{
	struct weft_gathered gathered[WEFT_GATHERED_MOST];
	uint64_t n = work->len_bytes;
	const void *list = n <= WEFT_GATHERED_MOST
				   ? weft_pool_window(pool, work->bounce_off, n * sizeof(*gathered))
				   : NULL;

	a->err = list ? 0 : -EINVAL;
	if (a->err)
		return;
	memcpy(gathered, list, n * sizeof(*gathered));
	for (uint64_t i = 0; !a->err && i < n; i++) {
		const struct weft_gathered *g = &gathered[i];
		struct work one = *work;
		void *bounce = weft_pool_window(pool, work->bounce_off + g->at, g->len_bytes);

		one.va = g->va;
		one.len_bytes = g->len_bytes;
		a->err = may_apply(pool, &one);
		if (!a->err)
			a->err = !bounce || !weft_device_has(pool, one.id) ? -EINVAL
				 : i ? weft_device_issue_more(&a->copying, one.va, bounce,
							      one.len_bytes)
				     : weft_device_issue(pool, one.id, one.va, bounce,
							 one.len_bytes, true, &a->copying);
		a->begun |= !a->err;
		a->value = i + !a->err;
	}
}

/* We visit its member, and have fenced. */
static void begin_answer(struct weft_pool *pool, struct answering *a)
{
	struct work work = read_work(a->ask);
	bool write = work.kind == WEFT_ASK_WRITE;
	void *bounce;

	WEFT_STEP(reach_answering);
	WEFT_TURN(reach_answering);
	a->begun = false;
	if (work.kind == WEFT_ASK_WRITES) {
		begin_writes(pool, a, &work);
		return;
	}
	if (!write && work.kind != WEFT_ASK_READ) {
		a->err = apply(pool, &work, &a->value);
		return;
	}
	a->err = may_apply(pool, &work);
	if (a->err)
		return;
	if (!weft_device_has(pool, work.id)) {
		a->err = apply(pool, &work, &a->value);
		return;
	}
	bounce = weft_pool_window(pool, work.bounce_off, work.len_bytes);
	a->err = bounce ? weft_device_issue(pool, work.id, work.va, bounce, work.len_bytes, write,
					    &a->copying)
			: -EINVAL;
	a->begun = !a->err;
}

static void end_answer(struct answering *a)
{
	int err = a->begun ? weft_device_wait(&a->copying) : 0;

	if (err) {
		a->err = err;
		a->value = 0;
	}
	a->ask->value = a->value;
	a->ask->error = a->err;
	WEFT_STEP(reach_applied);
	WEFT_TURN(reach_applied);
	/* release: pairs with the acquire in is_answered (late.c) */
	atomic_store_explicit(&a->ask->answered, a->seq, memory_order_release);
}

/* Whether any of them was a copy of a device's. */
static bool answer_together(struct weft_pool *pool, uint16_t member, struct weft_pool_ask *asks,
			    uint32_t count)
{
	struct answering answering[WEFT_MEMBER_LATE];
	bool begun = false;
	unsigned int n = 0;

	weft_pool_visit(pool, member);
	/* pairs with the fence in end_ask (late.c): our visit is seen before we look whether we are still asked */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t k = 0; k < count; k++) {
		struct answering *a = &answering[n];

		*a = (struct answering){.ask = &asks[k], .seq = asked(pool, &asks[k])};
		if (!a->seq)
			continue;
		begin_answer(pool, a);
		begun |= a->begun;
		n++;
	}
	for (unsigned int i = 0; i < n; i++)
		end_answer(&answering[i]);
	weft_pool_depart(pool);
	return begun;
}

/* Whether any was a copy of a device's. */
static bool answer_late(struct weft_pool *pool, uint16_t member)
{
	struct weft_pool_member *m = weft_pool_member(pool, member);
	/* acquire: pairs with the release in count_asks (late.c) */
	uint32_t late = m ? atomic_load_explicit(&m->late, memory_order_acquire) : 0;
	struct weft_pool_ask *asks;
	bool any = false, begun;

	if (!m || !atomic_load_explicit(&m->incarnation, memory_order_acquire))
		return false;
	asks = &m->ask[WEFT_MEMBER_LINES];
	late = late < WEFT_MEMBER_LATE ? late : WEFT_MEMBER_LATE;
	for (uint32_t k = 0; k < late && !any; k++)
		any = asked(pool, &asks[k]);
	if (!any)
		return false;
	begun = answer_together(pool, member, asks, late);
	weft_pool_signal(pool, member, WEFT_SIGNAL_WORK);
	return begun;
}

static void answer_ask(struct weft_pool *pool, uint16_t member, uint64_t incarnation,
		       struct weft_pool_ask *ask, struct weft_caller *caller)
{
	/* a member that dies now is not recovered before we have done with its memory; one that ends a region here waits
	 * for us */
	weft_pool_visit(pool, member);
	answer(pool, ask);
	weft_pool_depart(pool);
}

void weft_answer_asks(struct weft_pool *pool)
{
	uint64_t until_ns = 0;
	bool copied;

	do {
		copied = false;
		for_each(pool, false, NULL, answer_ask);
		for (uint16_t i = 0; (i = weft_pool_next(pool, i)) < WEFT_MEMBERS; i++)
			copied |= answer_late(pool, i);
		if (copied)
			until_ns = weft_clock_now_ns() + LINGER_NS;
	} while (until_ns && weft_clock_now_ns() < until_ns);
}

/* The message, and in *seq whose; or it is not asked any more: 0. */
static void take_call(struct weft_pool *pool, struct weft_pool_ask *ask, uint64_t *seq,
		      struct work *work, void *message)
{
	const void *bounce;

	atomic_thread_fence(memory_order_seq_cst); /* as in answer() */
	*seq = asked(pool, ask);
	*work = (struct work){.kind = ask->kind, .id = ask->id, .bounce_off = ask->bounce_off};
	bounce = weft_pool_window(pool, work->bounce_off, WEFT_CALL_BYTES);
	if (*seq && bounce)
		memcpy(message, bounce, WEFT_CALL_BYTES);
}

static void give_message_back(struct weft_pool *pool, struct weft_pool_ask *ask, uint64_t seq,
			      const struct work *work, const void *message, int err)
{
	void *bounce = weft_pool_window(pool, work->bounce_off, WEFT_CALL_BYTES);

	atomic_thread_fence(memory_order_seq_cst);
	if (asked(pool, ask) != seq)
		return;
	if (bounce)
		memcpy(bounce, message, WEFT_CALL_BYTES);
	ask->error = err;
	/* release: pairs with the acquire in wait_answer (ask.c) */
	atomic_store_explicit(&ask->answered, seq, memory_order_release);
}

/* It may take long, and wait for others: in between we look at nothing of the member's. */
static void answer_call(struct weft_pool *pool, uint16_t member, uint64_t incarnation,
			struct weft_pool_ask *ask, struct weft_caller *caller)
{
	_Alignas(8) uint8_t message[WEFT_CALL_BYTES] = {0};
	struct work work;
	uint64_t seq;
	int err;

	weft_pool_visit(pool, member);
	take_call(pool, ask, &seq, &work, message);
	weft_pool_depart(pool);
	if (!seq)
		return;
	err = weft_process.api->answer(caller, member, incarnation, (enum weft_ask_kind)work.kind,
				       work.id, message);
	weft_pool_visit(pool, member);
	give_message_back(pool, ask, seq, &work, message, err);
	weft_pool_depart(pool);
}

void weft_answer_calls(struct weft_pool *pool, struct weft_caller *caller)
{
	for_each(pool, true, caller, answer_call);
}
