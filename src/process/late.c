/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What only the helper of the memory's owner can do, for requests that do not wait for it: each such request
 * has an ask of its own, to read or for an atomic, and another to write. It is carried out anew at each look
 * (struct weft_later), and finds by these what it has asked before.
 *
 * An ask, by its state; the thread is one that holds the lock of the request's queue pair:
 *   FREE -> USED    a thread that needs one
 *   USED -> FREE    the same, if nothing is asked or that was answered
 *   USED -> LEFT    the same, taken back without an answer: the helper may be in the middle of it, and at its
 *                   bounce buffer, unless its member has died
 *   LEFT -> USED    a thread that needs one, and sees that the helper is not, or is dead
 *   USED -> LEFT    that thread, if it sees that the helper is
 *
 * The state is written with release and read with acquire. A thread that reads an old one loses its exchange, or passes
 * over an ask that has just become free.
 */
#include <errno.h>
#include <string.h>

#include "pool/clock.h"
#include "pool/format_home.h"
#include "pool/format_member.h"
#include "pool/step.h"
#include "process/device.h"
#include "process/pinned.h"
#include "process/process.h"

#define ALIVE_EACH_NS 1000000ull /* how often it is looked whether the other lives */

/* The helper of a device's owner takes as many from the region in which they lie, not out of a bounce buffer. */
#define DIRECT_LEAST_BYTES 16384u
#define DIRECT_MOST_BYTES  (256ull << 20) /* in one go */
/* Of a device's memory, which takes a driver long to begin. Bytes that are read do not go to where they shall lie: the helper
 * would go on with that after the request has ended in error. */
#define DEVICE_BOUNCE_BYTES (1ull << 20)

enum { FREE, USED, LEFT };

static struct weft_pool_ask *ask_of(struct weft_pool *pool, const struct weft_late *late)
{
	return &pool->self->ask[WEFT_MEMBER_LINES + (late - weft_process.late)];
}

static struct weft_late *late_of(const struct weft_later *later, bool write)
{
	return later->ask[write] ? &weft_process.late[later->ask[write] - 1] : NULL;
}

static bool is_answered(struct weft_pool *pool, const struct weft_late *late)
{
	const struct weft_pool_ask *ask = ask_of(pool, late);

	/* acquire: pairs with the release in answer (answer.c) */
	return atomic_load_explicit(&ask->answered, memory_order_acquire) ==
	       atomic_load_explicit(&ask->seq, memory_order_relaxed);
}

/* ---- An ask to use ---- */

/* Whether that member looks at memory of ours, on behalf of its helper or not. */
static bool is_at_ours(struct weft_pool *pool, const struct weft_pool_member *m,
		       const struct weft_pool_near *near)
{
	uint32_t lines = atomic_load_explicit(&m->lines, memory_order_acquire);

	for (uint32_t k = 0; k < lines && k < WEFT_MEMBER_LINES; k++)
		/* acquire: pairs with the release in weft_pool_depart */
		if (weft_busy_member(atomic_load_explicit(&near->line[k].busy,
							  memory_order_acquire)) == pool->me + 1u)
			return true;
	return false;
}

/* It was taken back, after which comes a fence that pairs with that in answer (answer.c): the helper that we do not
 * see at ours sees that nothing is asked. */
static bool is_left_alone(struct weft_pool *pool, const struct weft_late *late)
{
	const struct weft_pool_member *m = weft_pool_member(pool, late->member);
	const struct weft_pool_near *near = weft_pool_near(pool, late->member);

	return !m || !near || !is_at_ours(pool, m, near) ||
	       !weft_pool_alive(pool, late->member, late->incarnation);
}

static bool try_take(struct weft_pool *pool, struct weft_late *late)
{
	uint32_t state = atomic_load_explicit(&late->state, memory_order_acquire);

	/* acquire: pairs with the release in end_ask */
	return state != USED &&
	       atomic_compare_exchange_strong_explicit(
		       &late->state, &state, USED, memory_order_acquire, memory_order_relaxed) &&
	       (state == FREE || is_left_alone(pool, late) ||
		(atomic_store_explicit(&late->state, LEFT, memory_order_release), false));
}

/* Helpers look at those below. */
static void count_asks(struct weft_pool *pool, uint32_t used)
{
	_Atomic uint32_t *late = &pool->self->late;
	uint32_t was = atomic_load_explicit(late, memory_order_relaxed);

	/* release: the ask is idle before it counts */
	while (was < used && !atomic_compare_exchange_weak_explicit(
				     late, &was, used, memory_order_release, memory_order_relaxed))
		;
}

/* NULL: all are in use. */
static struct weft_late *take_ask(struct weft_pool *pool, struct weft_later *later, bool write)
{
	for (uint16_t i = 0; i < WEFT_MEMBER_LATE; i++)
		if (try_take(pool, &weft_process.late[i])) {
			later->ask[write] = (uint16_t)(i + 1);
			count_asks(pool, i + 1u);
			return &weft_process.late[i];
		}
	return NULL;
}

static void end_ask(struct weft_pool *pool, struct weft_late *late)
{
	_Atomic uint64_t *seq = &ask_of(pool, late)->seq;
	bool open = late->asked && !is_answered(pool, late);
	uint64_t was = atomic_load_explicit(seq, memory_order_relaxed);

	if (was & 1)
		atomic_store_explicit(seq, was + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst); /* see is_left_alone */
	late->asked = false;
	WEFT_STEP(late_taken_back);
	atomic_store_explicit(&late->state, open ? LEFT : FREE, memory_order_release);
}

void weft_late_take_back(void *context, struct weft_later *later)
{
	for (int write = 0; write < 2; write++)
		if (later->ask[write]) {
			end_ask(((struct weft_process *)context)->pool, late_of(later, write));
			later->ask[write] = 0;
		}
}

/* ---- What was asked ---- */

static bool asks_the_same(const struct weft_late *a, const struct weft_late *b)
{
	return a->kind == b->kind && a->id == b->id && a->va == b->va &&
	       a->len_bytes == b->len_bytes && a->at == b->at && a->operand[0] == b->operand[0] &&
	       a->operand[1] == b->operand[1];
}

/* Where that was asked before, or a new one. NULL: all are in use. */
static struct weft_late *find_asked(struct weft_pool *pool, struct weft_later *later, bool write,
				    const struct weft_late *wanted)
{
	struct weft_late *late = late_of(later, write);

	if (late && asks_the_same(late, wanted))
		return late;
	if (late)
		end_ask(pool, late);
	later->ask[write] = 0;
	late = take_ask(pool, later, write);
	if (!late)
		return NULL;
	late->kind = wanted->kind;
	late->id = wanted->id;
	late->va = wanted->va;
	late->len_bytes = wanted->len_bytes;
	late->at = wanted->at;
	late->operand[0] = wanted->operand[0];
	late->operand[1] = wanted->operand[1];
	late->done = 0;
	late->gone = false;
	return late;
}

static void set_ask(struct weft_pool *pool, struct weft_late *late,
		    const struct weft_in_place *memory, uint64_t len_bytes)
{
	struct weft_pool_ask *ask = ask_of(pool, late);
	const struct weft_pool_member *m = weft_pool_member(pool, memory->grant->member);

	/* a thread that is stopped here may ask when its grant has ended: the helper looks once more */
	WEFT_TURN(reach_checked);
	late->member = memory->grant->member;
	late->incarnation = m ? atomic_load_explicit(&m->incarnation, memory_order_acquire) : 0;
	late->gone = !late->incarnation;
	late->looked_ns = 0;
	ask->target = late->member;
	ask->kind = late->kind;
	ask->id = late->id;
	ask->va = late->va + late->done;
	ask->len_bytes = len_bytes;
	ask->operand[0] = late->operand[0];
	ask->operand[1] = late->operand[1];
	ask->grant_off = (uint64_t)((const uint8_t *)memory->grant->word - pool->base);
	ask->grant_was = memory->grant->was;
}

static void send_ask(struct weft_pool *pool, struct weft_late *late)
{
	struct weft_pool_ask *ask = ask_of(pool, late);

	late->asked = true;
	/* release: pairs with the acquire in asked (answer.c); an answered one is odd still */
	atomic_store_explicit(&ask->seq,
			      (atomic_load_explicit(&ask->seq, memory_order_relaxed) | 1) + 2,
			      memory_order_release);
	WEFT_STEP(late_asked);
	weft_pool_signal(pool, late->member, WEFT_SIGNAL_ASK);
}

/* -EINPROGRESS, even if the answer is there by then: a request that is done at once leaves nothing behind. */
static int ask_for(struct weft_pool *pool, struct weft_late *late,
		   const struct weft_in_place *memory, uint64_t len_bytes)
{
	set_ask(pool, late, memory, len_bytes);
	send_ask(pool, late);
	return -EINPROGRESS;
}

/* The answer to what was asked last: 0 or -errno; -EINPROGRESS. */
static int hear(struct weft_pool *pool, struct weft_late *late)
{
	if (is_answered(pool, late))
		return (int)ask_of(pool, late)->error;
	return late->gone ? -ESRCH : -EINPROGRESS;
}

static uint64_t next_bytes(const struct weft_late *late)
{
	uint64_t left = late->len_bytes - late->done;
	uint64_t most = late->operand[0] ? DIRECT_MOST_BYTES : late->bounce_bytes;

	return left < most ? left : most;
}

/* The id of our region in which they lie; 0: they are asked for through a bounce buffer. */
static uint64_t direct_source(struct weft_pool *pool, const struct weft_in_place *memory,
			      const uint8_t *here, uint64_t len_bytes, bool write)
{
	uint64_t id;

	return write && len_bytes >= DIRECT_LEAST_BYTES && !memory->here_id &&
			       weft_device_has(pool, memory->id) &&
			       weft_pinned_source(pool, here, len_bytes, &id)
		       ? id
		       : 0;
}

static int make_bounce(struct weft_pool *pool, struct weft_late *late)
{
	uint64_t bytes = weft_device_has(pool, late->id) && late->len_bytes > WEFT_BOUNCE_BYTES
				 ? DEVICE_BOUNCE_BYTES
				 : WEFT_BOUNCE_BYTES;
	uint64_t off;

	if (late->operand[0] || late->bounce_bytes >= bytes)
		return 0;
	if (weft_pool_alloc(pool, bytes, &off))
		return late->bounce_off ? 0 : -ENOMEM;
	if (late->bounce_off)
		weft_pool_free(pool, late->bounce_off, late->bounce_bytes);
	late->bounce_off = off;
	late->bounce_bytes = bytes;
	return 0;
}

/* Where the helper finds the next bytes, or leaves them. 0; -ENXIO: not mapped here. */
static int place_next(struct weft_pool *pool, struct weft_late *late,
		      const struct weft_in_place *memory, uint8_t *here, uint64_t len_bytes,
		      bool write)
{
	if (late->operand[0]) {
		ask_of(pool, late)->bounce_off = (uint64_t)(here - pool->base);
		return 0;
	}
	ask_of(pool, late)->bounce_off = late->bounce_off;
	return write ? weft_reach_fill(pool, memory, pool->base + late->bounce_off, here, len_bytes,
				       true)
		     : 0;
}

/* ---- Several small WRITEs in one ask ---- */

#define GATHERED_FROM                                                                              \
	(WEFT_GATHERED_MOST * sizeof(struct weft_gathered)) /* the bytes of all follow */

static struct weft_gathered *gathered_of(struct weft_pool *pool, const struct weft_late *late,
					 uint32_t i)
{
	return (struct weft_gathered *)(pool->base + late->bounce_off) + i;
}

/* One ask for all, that has room for one more. NULL: there is none. */
static struct weft_late *find_gathering(struct weft_pool *pool, const struct weft_in_place *memory)
{
	struct weft_later *later = memory->later;
	struct weft_late *late = late_of(later, true);

	if (late)
		return late->id == memory->id && late->kept < WEFT_GATHERED_MOST ? late : NULL;
	late = take_ask(pool, later, true);
	if (!late)
		return NULL;
	late->kind = WEFT_ASK_WRITES;
	late->id = memory->id;
	late->len_bytes = late->operand[0] = late->operand[1] = 0;
	late->kept = late->ended = 0;
	late->filled = GATHERED_FROM;
	if (make_bounce(pool, late)) {
		end_ask(pool, late);
		later->ask[1] = 0;
		return NULL;
	}
	ask_of(pool, late)->bounce_off = late->bounce_off;
	return late;
}

/* Keeps the bytes of a request that has no others, for the helper of a device. -EINPROGRESS, kept or not. */
static int keep_small(struct weft_pool *pool, const struct weft_in_place *memory, uint8_t *here,
		      uint64_t len_bytes)
{
	struct weft_later *later = memory->later;
	struct weft_late *late;

	if (len_bytes != later->gathers || later->at || memory->here_id ||
	    !weft_device_has(pool, memory->id))
		return -EINPROGRESS;
	late = find_gathering(pool, memory);
	if (!late || len_bytes > WEFT_BOUNCE_BYTES - late->filled)
		return -EINPROGRESS;
	*gathered_of(pool, late, late->kept) =
		(struct weft_gathered){memory->va, (uint32_t)len_bytes, late->filled};
	memcpy(pool->base + late->bounce_off + late->filled, here, len_bytes);
	late->filled += (uint32_t)(len_bytes + 7) & ~7u;
	set_ask(pool, late, memory, ++late->kept);
	later->gathered++;
	return -EINPROGRESS;
}

void weft_late_ask_gathered(void *context, struct weft_later *later)
{
	send_ask(((struct weft_process *)context)->pool, late_of(later, true));
}

/* The next of those that were gathered is carried out anew. What the helper has found of it; -EINPROGRESS also if it is another
 * than it was: then it is not among them. */
static int hear_gathered(struct weft_pool *pool, struct weft_late *late,
			 const struct weft_in_place *memory, uint64_t len_bytes)
{
	const struct weft_gathered *g = gathered_of(pool, late, late->ended);
	int err = hear(pool, late);

	if (err == -EINPROGRESS || (late->gone && err == -ESRCH))
		return err;
	if (late->ended >= late->kept || g->va != memory->va || g->len_bytes != len_bytes ||
	    memory->later->at || late->id != memory->id)
		return -EINPROGRESS;
	if (late->ended == ask_of(pool, late)->value)
		return err ? err : -EINPROGRESS;
	late->ended++;
	return 0;
}

static int copy_alone(struct weft_pool *pool, const struct weft_in_place *memory, uint8_t *here,
		      uint64_t len_bytes, bool write)
{
	const struct weft_late wanted = {
		.kind = write ? WEFT_ASK_WRITE : WEFT_ASK_READ,
		.id = memory->id,
		.va = memory->va,
		.len_bytes = len_bytes,
		.at = memory->later->at,
		.operand = {direct_source(pool, memory, here, len_bytes, write)}};
	struct weft_late *late = find_asked(pool, memory->later, write, &wanted);
	bool again = true;
	uint64_t n;
	int err = 0;

	if (!late)
		return -EINPROGRESS;
	if (!late->asked && make_bounce(pool, late)) {
		end_ask(pool, late);
		memory->later->ask[write] = 0;
		return -ENOMEM;
	}
	for (; late->done < len_bytes; late->done += n) {
		n = next_bytes(late);
		if (!late->asked)
			err = place_next(pool, late, memory, here + late->done, n, write);
		if (err)
			return err;
		err = late->asked ? hear(pool, late) : ask_for(pool, late, memory, n);
		if (err)
			return err;
		late->asked = false;
		if (!write)
			err = weft_reach_fill(pool, memory, pool->base + late->bounce_off,
					      here + late->done, n, false);
		if (err)
			return err;
		again = false;
	}
	/* where the bytes go on from here by another ask, they are asked for at each look */
	if (!write && again && len_bytes <= late->bounce_bytes)
		err = weft_reach_fill(pool, memory, pool->base + late->bounce_off, here, len_bytes,
				      false);
	return err;
}

int weft_late_copy(struct weft_pool *pool, const struct weft_in_place *memory, uint8_t *here,
		   uint64_t len_bytes, bool write)
{
	struct weft_late *late = late_of(memory->later, true);

	if (memory->later->gathers)
		return keep_small(pool, memory, here, len_bytes);
	if (write && late && late->asked && late->kind == WEFT_ASK_WRITES)
		return hear_gathered(pool, late, memory, len_bytes);
	return copy_alone(pool, memory, here, len_bytes, write);
}

int weft_late_atomic(struct weft_pool *pool, const struct weft_in_place *memory,
		     enum weft_ask_kind kind, const uint64_t operand[2], uint64_t *value)
{
	const struct weft_late wanted = {.kind = kind,
					 .id = memory->id,
					 .va = memory->va,
					 .len_bytes = 8,
					 .at = memory->later->at,
					 .operand = {operand[0], operand[1]}};
	struct weft_late *late = find_asked(pool, memory->later, false, &wanted);
	int err;

	if (!late)
		return -EINPROGRESS;
	if (!late->asked)
		return ask_for(pool, late, memory, 8);
	err = hear(pool, late);
	*value = ask_of(pool, late)->value;
	return err;
}

/* ---- Looking after it ---- */

/* Also of what is not asked any more, or of one that has died. */
static bool is_worth_a_look(struct weft_pool *pool, struct weft_late *late, uint64_t now_ns)
{
	if (!late->asked || late->gone || is_answered(pool, late))
		return true;
	if (now_ns < late->looked_ns + ALIVE_EACH_NS)
		return false;
	late->looked_ns = now_ns;
	late->gone = !weft_pool_alive(pool, late->member, late->incarnation);
	return late->gone;
}

bool weft_late_answered(void *context, const struct weft_later *later, uint64_t now_ns)
{
	struct weft_pool *pool = ((struct weft_process *)context)->pool;

	for (int write = 0; write < 2; write++)
		if (later->ask[write] && !is_worth_a_look(pool, late_of(later, write), now_ns))
			return false;
	return true;
}

bool weft_late_carried_out(void *context, const struct weft_later *later, uint64_t *value)
{
	struct weft_pool *pool = ((struct weft_process *)context)->pool;
	const struct weft_late *late = late_of(later, false);

	if (!late || !late->asked || !is_answered(pool, late) || ask_of(pool, late)->error)
		return false;
	*value = ask_of(pool, late)->value;
	return true;
}
