/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * hosts-wrong-side FILE HOW: a side of `weft pool test` on a memory that is made wrong, so that the other side, which is as
 * installed, has something to find. HOW:
 *
 * none       it is as it is
 * incoherent this process has the tried pages for itself: its plain stores reach no other, and it sees none of theirs
 * back       a number of both sides goes back now and then
 * torn       half a word of both sides is stored now and then
 * lost       the sum is stored as it was before the last addition, again and again
 * die        this process kills itself in the middle of storing
 * stand      it stands still then, for ever
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/sides.h"
#include "pool/pool.h"

#define NOW_AND_THEN_US 2000
#define STORE_NS	500000000ull
#define WAIT_NS		20000000000ull

static struct weft_trial_room *room;
static const char *how;
static int fd;

static void take_pages(struct weft_trial_side *side)
{
	_Atomic uint64_t *page = &side->number;
	const off_t at = (off_t)(WEFT_OFF_TRIAL + (uint64_t)((uint8_t *)page - (uint8_t *)room));

	if (mmap((void *)page, WEFT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
		 at) == MAP_FAILED)
		_exit(3);
	/* from its first store on the page is a copy */
	atomic_store_explicit(page, atomic_load_explicit(page, memory_order_relaxed),
			      memory_order_relaxed);
}

static void harm_word(_Atomic uint64_t *word)
{
	uint64_t value = atomic_load_explicit(word, memory_order_relaxed);

	if (!strcmp(how, "back") && value)
		atomic_store_explicit(word, 1ull << 32 | 1, memory_order_relaxed);
	if (!strcmp(how, "torn"))
		atomic_store_explicit(word, value ^ 1ull << 40, memory_order_relaxed);
}

static void harm(struct weft_trial_side *side)
{
	uint64_t sum = atomic_load_explicit(&side->sum, memory_order_relaxed);

	harm_word(&side->line[5].word[3]);
	if (strcmp(how, "lost") || !sum)
		return;
	while (atomic_load_explicit(&side->sum, memory_order_relaxed) == sum)
		sched_yield();
	atomic_store_explicit(&side->sum, sum, memory_order_relaxed);
}

static bool has_stored(const struct weft_trial_side *side)
{
	return atomic_load_explicit(&side->id, memory_order_relaxed) &&
	       atomic_load_explicit(&side->stage, memory_order_relaxed) == WEFT_TRIAL_MET &&
	       atomic_load_explicit(&side->stored, memory_order_relaxed) > 100;
}

static void *work(void *nothing)
{
	for (;;) {
		for (uint32_t i = 0; i < WEFT_TRIAL_SIDES; i++) {
			harm(&room->side[i]);
			if (!strcmp(how, "die") && has_stored(&room->side[i]))
				kill(getpid(), SIGKILL);
			if (!strcmp(how, "stand") && has_stored(&room->side[i]))
				kill(getpid(), SIGSTOP);
		}
		usleep(strcmp(how, "lost") ? NOW_AND_THEN_US : 0);
	}
	return nothing;
}

int main(int argc, char **argv)
{
	const struct weft_sides_plan plan = {STORE_NS, WAIT_NS, true};
	struct weft_sides_outcome outcome;
	const char *why = "usage: hosts-wrong-side FILE HOW";
	pthread_t thread;
	int err = -1;

	fd = argc == 3 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
	if (fd >= 0) {
		how = argv[2];
		room = mmap(NULL, sizeof(*room), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			    WEFT_OFF_TRIAL);
		for (uint32_t i = 0; !strcmp(how, "incoherent") && i < WEFT_TRIAL_SIDES; i++)
			take_pages(&room->side[i]);
		pthread_create(&thread, NULL, work, NULL);
		err = weft_sides_try(room, &plan, &outcome, &why);
	}
	if (err)
		fprintf(stderr, "%s\n", why);
	return err ? 2 : 0;
}
