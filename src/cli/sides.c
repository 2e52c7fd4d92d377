/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two processes that have nothing in common but a memory, of which they do not know whether it is one: they meet in it, store
 * and look what arrives, add to one word, and tell each other what they have seen.
 */
#include "cli/sides.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "pool/clock.h"
#include "pool/pool.h"

#define MEETING_US	1000u
#define HINT_NS		1000000000ull
#define ROUNDS_OF_BEAT	16u
#define ARRIVES_NS	1000000000ull /* in which the last number has to be there */
#define CHUNKS		100u	      /* of additions: both sides begin each at the same time */
#define CHUNK_ADDITIONS (WEFT_SIDES_ADDITIONS / CHUNKS)
#define LOADS		1000u
#define LOAD_BATCHES	8u

struct trial {
	struct weft_trial_room *room;
	const struct weft_sides_plan *plan;
	struct weft_trial_side *mine, *theirs;
	uint64_t id, peer, pulse, kernel;
	struct weft_sides_one self;
	/* what was seen last of the peer's words; of a word that went back the greater one */
	uint32_t number, word[WEFT_TRIAL_LINES][WEFT_TRIAL_LINE_WORDS];
	bool told;
};

/* ---- What arrives in any case ---- */

/* The line goes to the memory, and this processor's caches have it no more. */
static void flush_line(const void *at)
{
#if defined(__x86_64__)
	__builtin_ia32_mfence();
	__builtin_ia32_clflush(at);
	__builtin_ia32_mfence();
#elif defined(__aarch64__)
	__asm__ volatile("dsb sy\n\tdc civac, %0\n\tdsb sy" : : "r"(at) : "memory");
#endif
}

static void put_word(_Atomic uint64_t *word, uint64_t value)
{
	/* pairs with the acquire in get_word */
	atomic_store_explicit(word, value, memory_order_release);
	flush_line(word);
}

static uint64_t get_word(_Atomic uint64_t *word)
{
	flush_line(word);
	/* pairs with the release in put_word */
	return atomic_load_explicit(word, memory_order_acquire);
}

static void wipe(struct weft_trial_side *side)
{
	_Atomic uint64_t *word = &side->id;
	const size_t words = sizeof(*side) / sizeof(*word);

	put_word(&side->id, 0);
	for (size_t i = 1; i < words; i++)
		atomic_store_explicit(&word[i], 0, memory_order_relaxed);
	for (size_t i = 0; i < words; i += WEFT_TRIAL_LINE_WORDS)
		flush_line(&word[i]);
}

static void give_pulse(struct trial *t)
{
	put_word(&t->mine->pulse, ++t->pulse);
}

/* Until that word of the peer's is so much. */
static int await_peer(struct trial *t, _Atomic uint64_t *word, uint64_t least)
{
	const uint64_t begun_ns = weft_clock_now_ns();
	uint64_t moved_ns = begun_ns, now_ns = begun_ns, pulse = get_word(&t->theirs->pulse), seen;

	while (get_word(word) < least) {
		if (get_word(&t->theirs->id) != t->peer)
			return -ECONNRESET;
		seen = get_word(&t->theirs->pulse);
		if (seen != pulse)
			moved_ns = now_ns;
		else if (now_ns - moved_ns > t->plan->wait_ns)
			return -ETIMEDOUT;
		pulse = seen;
		give_pulse(t);
		weft_pool_pause(now_ns - begun_ns);
		now_ns = weft_clock_now_ns();
	}
	return 0;
}

static int reach_stage(struct trial *t, enum weft_trial_stage stage)
{
	put_word(&t->mine->stage, stage);
	return await_peer(t, &t->theirs->stage, stage);
}

/* ---- Meeting ---- */

static uint64_t number_of_boot(void)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	uint64_t number = 0;
	int c;

	if (!file)
		return 0;
	while ((c = fgetc(file)) != EOF)
		number = number * 1099511628211u + (uint64_t)c;
	fclose(file);
	return number;
}

static struct weft_trial_side *find_place_for(const struct trial *t)
{
	struct weft_trial_side *side = t->room->side;
	uint32_t first = (uint32_t)(t->id >> 32) % WEFT_TRIAL_SIDES;

	for (uint32_t i = 0; i < WEFT_TRIAL_SIDES; i++)
		if (!get_word(&side[(first + i) % WEFT_TRIAL_SIDES].id))
			return &side[(first + i) % WEFT_TRIAL_SIDES];
	return &side[first]; /* of one that was killed, most likely; else it goes elsewhere */
}

static int take_place(struct trial *t)
{
	uint64_t name[WEFT_TRIAL_NAME_WORDS] = {0};

	if (getrandom(&t->id, sizeof(t->id), 0) != sizeof(t->id))
		return -EIO;
	t->id |= 1;
	t->peer = 0;
	t->mine = find_place_for(t);
	wipe(t->mine);
	memcpy(name, t->self.name, sizeof(name));
	for (uint32_t i = 0; i < WEFT_TRIAL_NAME_WORDS; i++)
		put_word(&t->mine->name[i], name[i]);
	put_word(&t->mine->kernel, t->self.kernel);
	put_word(&t->mine->adds, t->plan->adds);
	put_word(&t->mine->id, t->id);
	return 0;
}

struct passer_by {
	uint64_t id, pulse;
};

/* Whether there is one that goes on; *free: and that is our peer, or may become it. */
static bool look_at_place(const struct trial *t, struct weft_trial_side *side,
			  struct passer_by *seen, bool *ours, bool *free)
{
	const uint64_t id = get_word(&side->id), pulse = get_word(&side->pulse),
		       peer = get_word(&side->peer), stage = get_word(&side->stage);

	if (!id || id != seen->id) {
		*seen = (struct passer_by){id, pulse};
		return false;
	}
	*ours = peer == t->id;
	*free = !peer && stage == WEFT_TRIAL_MEETING;
	return pulse != seen->pulse && (*ours || *free);
}

/* Whether there is one that has chosen us, as we have it. */
static bool choose_peer(struct trial *t, struct passer_by seen[WEFT_TRIAL_SIDES])
{
	struct weft_trial_side *found = NULL;
	bool is_ours = false, ours, free;

	for (uint32_t i = 0; i < WEFT_TRIAL_SIDES; i++) {
		struct weft_trial_side *side = &t->room->side[i];

		if (side == t->mine || !look_at_place(t, side, &seen[i], &ours, &free) ||
		    (found && (is_ours || !ours)))
			continue;
		found = side;
		is_ours = ours;
		t->theirs = side;
	}
	const uint64_t peer = found ? seen[found - t->room->side].id : 0;

	if (peer != t->peer)
		put_word(&t->mine->peer, peer);
	t->peer = peer;
	return is_ours;
}

static void hint(struct trial *t)
{
	if (!t->told)
		fputs("weft pool test: waits for the same command on another host\n", stderr);
	t->told = true;
}

static int meet(struct trial *t)
{
	struct passer_by seen[WEFT_TRIAL_SIDES] = {{0}};
	const uint64_t begun_ns = weft_clock_now_ns();
	uint64_t waited_ns = 0;
	int err = take_place(t);

	while (!err && !choose_peer(t, seen)) {
		if (waited_ns > t->plan->wait_ns)
			return -ETIMEDOUT;
		if (waited_ns > HINT_NS)
			hint(t);
		usleep(MEETING_US);
		if (get_word(&t->mine->id) != t->id)
			err = take_place(t);
		give_pulse(t);
		waited_ns = weft_clock_now_ns() - begun_ns;
	}
	return err ?: reach_stage(t, WEFT_TRIAL_MET);
}

/* ---- Numbers ---- */

static uint64_t both_halves(uint32_t n)
{
	return (uint64_t)n << 32 | n;
}

static void store_round(struct trial *t, uint32_t n)
{
	for (uint32_t i = 0; i < WEFT_TRIAL_LINES; i++)
		for (uint32_t j = 0; j < WEFT_TRIAL_LINE_WORDS; j++)
			atomic_store_explicit(&t->mine->line[i].word[j], both_halves(n),
					      memory_order_relaxed);
	/* pairs with the acquire in look_at_numbers */
	atomic_store_explicit(&t->mine->number, both_halves(n), memory_order_release);
}

/* What was loaded, of a word that has had *last, and has to have `least`. */
static void judge_word(struct trial *t, uint64_t value, uint32_t *last, uint32_t least)
{
	const uint32_t n = (uint32_t)value;

	if (value != both_halves(n))
		t->self.found[WEFT_TRIAL_TORN]++;
	else if (n < *last)
		t->self.found[WEFT_TRIAL_BACK]++;
	else if (n < least)
		t->self.found[WEFT_TRIAL_STALE]++;
	if (value == both_halves(n) && n > *last)
		*last = n;
}

/* The peer has stored `least` before. */
static void look_at_numbers(struct trial *t, uint32_t least)
{
	const uint32_t before = t->number;
	uint64_t value;

	/* pairs with the release in store_round */
	value = atomic_load_explicit(&t->theirs->number, memory_order_acquire);
	judge_word(t, value, &t->number, least);
	t->self.found[WEFT_TRIAL_READ] += t->number != before;
	for (uint32_t i = 0; i < WEFT_TRIAL_LINES; i++)
		for (uint32_t j = 0; j < WEFT_TRIAL_LINE_WORDS; j++) {
			value = atomic_load_explicit(&t->theirs->line[i].word[j],
						     memory_order_relaxed);
			judge_word(t, value, &t->word[i][j], t->number);
		}
}

static uint64_t count_missing(struct trial *t, uint64_t last)
{
	uint64_t missing = atomic_load_explicit(&t->theirs->number, memory_order_relaxed) != last;

	for (uint32_t i = 0; i < WEFT_TRIAL_LINES; i++)
		for (uint32_t j = 0; j < WEFT_TRIAL_LINE_WORDS; j++)
			missing += atomic_load_explicit(&t->theirs->line[i].word[j],
							memory_order_relaxed) != last;
	return missing;
}

/* The peer stores no more; its last number has to be in all words soon. */
static void await_last(struct trial *t)
{
	const uint64_t last = both_halves((uint32_t)get_word(&t->theirs->stored)),
		       begun_ns = weft_clock_now_ns();
	uint64_t waited_ns = 0;

	while (count_missing(t, last) && waited_ns < ARRIVES_NS) {
		give_pulse(t);
		weft_pool_pause(waited_ns);
		waited_ns = weft_clock_now_ns() - begun_ns;
	}
	t->self.found[WEFT_TRIAL_MISSING] = count_missing(t, last);
}

static int try_numbers(struct trial *t)
{
	const uint64_t end_ns = weft_clock_now_ns() + t->plan->store_ns;
	uint32_t n = 0, least = 0;
	int err;

	while (n < UINT32_MAX) {
		store_round(t, ++n);
		look_at_numbers(t, least);
		if (n % ROUNDS_OF_BEAT)
			continue;
		give_pulse(t);
		put_word(&t->mine->stored, n);
		least = (uint32_t)get_word(&t->theirs->stored);
		if (weft_clock_now_ns() > end_ns)
			break;
	}
	t->self.stored = n;
	err = reach_stage(t, WEFT_TRIAL_STORED);
	if (!err)
		await_last(t);
	return err;
}

/* ---- One word of both ---- */

static int try_additions(struct trial *t)
{
	_Atomic uint64_t *sum = t->id < t->peer ? &t->mine->sum : &t->theirs->sum;
	uint64_t was, next = 0, met = 0;
	int err = reach_stage(t, WEFT_TRIAL_READY);

	for (uint32_t chunk = 1; !err && chunk <= CHUNKS; chunk++) {
		put_word(&t->mine->chunk, chunk);
		err = await_peer(t, &t->theirs->chunk, chunk);
		for (uint64_t i = 0; !err && i < CHUNK_ADDITIONS; i++) {
			was = atomic_fetch_add_explicit(sum, 1, memory_order_relaxed);
			met += was != next;
			next = was + 1;
		}
	}
	t->self.found[WEFT_TRIAL_MET_ADDS] = met;
	if (!err)
		err = reach_stage(t, WEFT_TRIAL_ADDED);
	t->self.found[WEFT_TRIAL_SUM] = atomic_load_explicit(sum, memory_order_relaxed);
	return err;
}

/* ---- The whole ---- */

static uint64_t load_ns(struct trial *t)
{
	uint64_t least_ns = UINT64_MAX, begun_ns, took_ns;

	for (uint32_t batch = 0; batch < LOAD_BATCHES; batch++) {
		begun_ns = weft_clock_now_ns();
		for (uint32_t i = 0; i < LOADS; i++) {
			(void)atomic_load_explicit(&t->mine->number, memory_order_relaxed);
			atomic_signal_fence(memory_order_seq_cst);
		}
		took_ns = weft_clock_now_ns() - begun_ns;
		least_ns = took_ns < least_ns ? took_ns : least_ns;
	}
	return (least_ns + LOADS / 2) / LOADS;
}

static void read_theirs(struct trial *t, struct weft_sides_one *theirs)
{
	uint64_t name[WEFT_TRIAL_NAME_WORDS];
	char *c;

	for (uint32_t i = 0; i < WEFT_TRIAL_NAME_WORDS; i++)
		name[i] = get_word(&t->theirs->name[i]);
	memcpy(theirs->name, name, sizeof(name));
	for (c = theirs->name; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	theirs->adds = get_word(&t->theirs->adds);
	theirs->kernel = get_word(&t->theirs->kernel);
	theirs->stored = get_word(&t->theirs->stored);
	for (uint32_t i = 0; i < WEFT_TRIAL_FINDINGS; i++)
		theirs->found[i] = get_word(&t->theirs->found[i]);
}

static int exchange_findings(struct trial *t, struct weft_sides_outcome *out)
{
	int err;

	put_word(&t->mine->stored, t->self.stored);
	for (uint32_t i = 0; i < WEFT_TRIAL_FINDINGS; i++)
		put_word(&t->mine->found[i], t->self.found[i]);
	err = reach_stage(t, WEFT_TRIAL_SAID);
	if (err)
		return err;
	read_theirs(t, &out->theirs);
	err = reach_stage(t, WEFT_TRIAL_HEARD);
	/* one that has heard us, too, goes */
	return err == -ECONNRESET ? 0 : err;
}

static int try_all(struct trial *t, struct weft_sides_outcome *out)
{
	int err;

	t->self.found[WEFT_TRIAL_LOAD_NS] = load_ns(t);
	err = try_numbers(t);
	out->added = t->plan->adds && get_word(&t->theirs->adds);
	if (!err && out->added)
		err = try_additions(t);
	if (!err)
		err = exchange_findings(t, out);
	out->mine = t->self;
	return err;
}

int weft_sides_try(struct weft_trial_room *room, const struct weft_sides_plan *plan,
		   struct weft_sides_outcome *out, const char **why)
{
	struct trial t = {.room = room, .plan = plan};
	int err;

	*out = (struct weft_sides_outcome){.added = false};
	t.self.adds = plan->adds;
	t.self.kernel = number_of_boot();
	gethostname(t.self.name, sizeof(t.self.name) - 1);
	put_word(&room->magic, WEFT_TRIAL_MAGIC);
	err = meet(&t);
	*why = t.peer ? "the other side ended, or what it stores does not arrive"
		      : "no other side came: run the same on another host at the same time. If it "
			"ran, what it stores does not arrive here";
	if (!err) {
		err = try_all(&t, out);
		*why = err == -ETIMEDOUT ? "the other side does not go on"
					 : "the other side has ended before the end";
	}
	if (t.mine && get_word(&t.mine->id) == t.id)
		wipe(t.mine);
	return err;
}
