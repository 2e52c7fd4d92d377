/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Asking the helper of another member, and waiting for its answer: a part of its memory at a time, by a bounce buffer
 * in the pool, an atomic, or a call of the api's. What does not wait asks in late.c.
 */
#include <errno.h>
#include <string.h>

#include "pool/clock.h"
#include "pool/format_home.h"
#include "pool/format_member.h"
#include "pool/step.h"
#include "process/ask.h"
#include "process/process.h"

#define PATIENCE_NS 1000000000ull
#define LEFT_SPINS  64

/* ---- Asked in vain ---- */

/*
 * An ask that its thread has given up: the helper that was asked may be in the middle of it still, read the bytes
 * of its bounce buffer, or write an answer there. The thread's next ask waits for that helper.
 */
static void note_left(struct weft_pool *pool, const struct weft_pool_ask *ask, uint64_t incarnation)
{
	weft_process.left[ask - pool->self->ask] =
		(struct weft_left){(uint16_t)ask->target, incarnation};
}

/* Until what it does at ours now is over. */
static int await_line(struct weft_pool *pool, const struct weft_left *left,
		      const _Atomic uint64_t *busy, uint64_t begun_ns)
{
	/* acquire: pairs with the release in weft_pool_depart */
	uint64_t was = atomic_load_explicit(busy, memory_order_acquire), waited_ns;

	if (weft_busy_member(was) != pool->me + 1u)
		return 0;
	for (unsigned int spins = 1; atomic_load_explicit(busy, memory_order_acquire) == was;
	     spins++) {
		if (spins % LEFT_SPINS)
			continue;
		pool->meanwhile(pool);
		if (!weft_pool_alive(pool, left->member, left->incarnation))
			return 0;
		waited_ns = weft_clock_now_ns() - begun_ns;
		if (waited_ns > PATIENCE_NS)
			return -ETIMEDOUT;
		weft_pool_pause(waited_ns);
	}
	return 0;
}

/* Before anything of the ask, or its bounce buffer, is used anew: until no helper is at it. 0; -ETIMEDOUT: one is, and it
 * may not be used. */
static int await_left(struct weft_pool *pool, const struct weft_pool_ask *ask)
{
	struct weft_left *left = &weft_process.left[ask - pool->self->ask];
	const struct weft_pool_member *m;
	const struct weft_pool_near *near;
	uint64_t begun_ns;
	uint32_t lines;
	int err = 0;

	if (!left->incarnation)
		return 0;
	m = weft_pool_member(pool, left->member);
	near = weft_pool_near(pool, left->member);
	lines = m && near ? atomic_load_explicit(&m->lines, memory_order_acquire) : 0;
	begun_ns = weft_clock_now_ns();
	/* which of them is the helper's is not known here */
	for (uint32_t k = 0; !err && k < lines && k < WEFT_MEMBER_LINES; k++)
		err = await_line(pool, left, &near->line[k].busy, begun_ns);
	if (!near && weft_pool_alive(pool, left->member, left->incarnation))
		err = weft_pool_ask_hosts(pool);
	if (!err)
		left->incarnation = 0;
	return err;
}

/* ---- Asking ---- */

static int wait_answer(struct weft_pool *pool, struct weft_pool_ask *ask, uint64_t seq,
		       uint16_t member, uint64_t incarnation)
{
	uint64_t begun_ns = weft_clock_now_ns(), waited_ns;

	for (unsigned int spins = 1;; spins++) {
		/* acquire: pairs with the release in answer (answer.c) */
		if (atomic_load_explicit(&ask->answered, memory_order_acquire) == seq)
			return (int)ask->error;
		if (spins % 64)
			continue;
		pool->meanwhile(pool);
		if (spins % 4096 == 0 && !weft_pool_alive(pool, member, incarnation))
			return -ESRCH;
		waited_ns = weft_clock_now_ns() - begun_ns;
		if (waited_ns > PATIENCE_NS)
			return -ETIMEDOUT;
		weft_pool_pause(waited_ns);
	}
}

/* An atomic may not be carried out twice: given up while a helper is in the middle of it, it is done or not once that helper has
 * left, and the answer tells. A helper that stands still there for longer leaves it open: -EALREADY, and it may not be asked again. */
static int answer_of_late(struct weft_pool *pool, const struct weft_pool_ask *ask, uint64_t seq)
{
	bool is_atomic = ask->kind == WEFT_ASK_CMP_SWAP || ask->kind == WEFT_ASK_FETCH_ADD;

	if (!is_atomic && ask->kind != WEFT_ASK_CHANGE)
		return -ETIMEDOUT;
	if (await_left(pool, ask))
		return is_atomic ? -EALREADY : -ETIMEDOUT;
	return atomic_load_explicit(&ask->answered, memory_order_acquire) == seq ? (int)ask->error
										 : -ETIMEDOUT;
}

/* The ask of this thread is free: it waits for each answer, or gives that number up, and await_left comes before the
 * next. */
static int ask_member(struct weft_pool *pool, struct weft_pool_ask *ask, uint16_t member,
		      uint64_t id, enum weft_signal_reason reason)
{
	struct weft_pool_member *m = weft_pool_member(pool, member);
	uint64_t seq = atomic_load_explicit(&ask->seq, memory_order_relaxed) + 1;
	uint64_t incarnation;
	int err;

	if (!m)
		return -ESRCH;
	incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);
	ask->target = member;
	ask->id = id;
	/* release: pairs with the acquire in asked (answer.c) */
	atomic_store_explicit(&ask->seq, seq, memory_order_release);
	WEFT_STEP(reach_asked);
	weft_pool_signal(pool, member, reason);
	err = wait_answer(pool, ask, seq, member, incarnation);
	WEFT_STEP(reach_answer_got);
	atomic_store_explicit(&ask->seq, seq + 1, memory_order_relaxed);
	/* pairs with the fence in answer (answer.c): either that sees it, or the revoker that sees our line idle, and the
	 * next ask of ours, see that helper at work */
	if (err) {
		atomic_thread_fence(memory_order_seq_cst);
		note_left(pool, ask, incarnation);
	}
	return err == -ETIMEDOUT ? answer_of_late(pool, ask, seq) : err;
}

/* A thread that is stopped before it asks may ask when its grant has ended: the helper looks once more. */
static int ask_helper(struct weft_pool *pool, struct weft_pool_ask *ask,
		      const struct weft_in_place *memory)
{
	int err = weft_reach_check(pool, memory);

	WEFT_TURN(reach_checked);
	ask->grant_off = (uint64_t)((const uint8_t *)memory->grant->word - pool->base);
	ask->grant_was = memory->grant->was;
	return err ? err
		   : ask_member(pool, ask, memory->grant->member, memory->id, WEFT_SIGNAL_ASK);
}

/* Makes the ask of a thread ready for one more: with a bounce buffer, and no helper at either. */
static int ready_ask(struct weft_pool *pool, const struct weft_caller *caller,
		     enum weft_ask_kind kind)
{
	uint64_t *kept = &weft_process.bounce_off[caller->index], off = *kept;
	int err = off ? 0 : weft_pool_alloc(pool, WEFT_BOUNCE_BYTES, &off);

	if (err)
		return err;
	*kept = off;
	err = await_left(pool, caller->ask);
	if (err)
		return err;
	caller->ask->kind = kind;
	caller->ask->bounce_off = off;
	return 0;
}

/* The message comes back as the helper has left it. */
static int ask_by_message(struct weft_pool *pool, struct weft_pool_ask *ask, uint16_t member,
			  uint64_t id, enum weft_signal_reason reason, void *message)
{
	uint8_t *bounce = pool->base + ask->bounce_off;
	int err;

	memcpy(bounce, message, ask->len_bytes);
	err = ask_member(pool, ask, member, id, reason);
	if (!err)
		memcpy(message, bounce, ask->len_bytes);
	return err;
}

int weft_ask_call(struct weft_pool *pool, uint16_t member, enum weft_ask_kind kind, uint64_t id,
		  void *message, uint64_t len_bytes)
{
	const struct weft_caller *caller = weft_caller();
	int err = ready_ask(pool, caller, kind);

	if (err)
		return err;
	caller->ask->len_bytes = len_bytes;
	return ask_by_message(pool, caller->ask, member, id, WEFT_SIGNAL_CALL, message);
}

int weft_ask_copy(struct weft_pool *pool, const struct weft_caller *caller,
		  const struct weft_in_place *memory, uint8_t *here, uint64_t len_bytes, bool write)
{
	struct weft_pool_ask *ask = caller->ask;
	int err = ready_ask(pool, caller, write ? WEFT_ASK_WRITE : WEFT_ASK_READ);

	if (err)
		return err;
	for (uint64_t done = 0; done < len_bytes; done += ask->len_bytes) {
		uint8_t *bounce = pool->base + ask->bounce_off;

		WEFT_STEP(reach_bounce_made);
		ask->va = memory->va + done;
		ask->len_bytes =
			len_bytes - done < WEFT_BOUNCE_BYTES ? len_bytes - done : WEFT_BOUNCE_BYTES;
		ask->operand[0] = 0; /* no region of ours */
		err = write ? weft_reach_fill(pool, memory, bounce, here + done, ask->len_bytes,
					      true)
			    : 0;
		err = err ? err : ask_helper(pool, ask, memory);
		if (!err && !write)
			err = weft_reach_fill(pool, memory, bounce, here + done, ask->len_bytes,
					      false);
		if (err)
			return err;
	}
	return 0;
}

int weft_ask_atomic(struct weft_pool *pool, const struct weft_caller *caller,
		    const struct weft_in_place *memory, enum weft_ask_kind kind,
		    const uint64_t operand[2], uint64_t *value)
{
	struct weft_pool_ask *ask = caller->ask;
	int err = await_left(pool, ask);

	if (err)
		return err;
	ask->kind = kind;
	ask->va = memory->va;
	ask->len_bytes = 8;
	ask->operand[0] = operand[0];
	ask->operand[1] = operand[1];
	err = ask_helper(pool, ask, memory);
	*value = ask->value;
	return err;
}

static bool is_member(struct weft_pool *pool, uint16_t member)
{
	const struct weft_pool_member *m = weft_pool_member(pool, member);
	uint64_t incarnation = m ? atomic_load_explicit(&m->incarnation, memory_order_acquire) : 0;

	return incarnation && weft_pool_alive(pool, member, incarnation);
}

int weft_ask_change(struct weft_pool *pool, const struct weft_grant *grant, uint16_t owner,
		    struct weft_pool_change *changes, uint32_t n)
{
	const struct weft_caller *caller = weft_helper_caller() ?: weft_caller();
	struct weft_pool_ask *ask = caller->ask;
	int err = is_member(pool, owner) ? ready_ask(pool, caller, WEFT_ASK_CHANGE) : -ESRCH;

	if (err)
		return err;
	ask->len_bytes = n * sizeof(*changes);
	ask->grant_off = grant ? (uint64_t)((const uint8_t *)grant->word - pool->base) : 0;
	ask->grant_was = grant ? grant->was : 0;
	return ask_by_message(pool, ask, owner, 0, WEFT_SIGNAL_ASK, changes);
}
