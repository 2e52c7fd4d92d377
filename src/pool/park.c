/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/park.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pool/asleep.h"
#include "pool/summon.h"
#include "pool/tasks.h"

#define MOST_OPEN    64 /* descriptors */

#define PATIENCE_NS  200000000ll
#define SLICE_NS     1000000ll /* so often threads are looked at again */
#define SPINS	     200

enum state {
	NEW,
	ASLEEP, /* harmlessly */
	CALLED, /* has been sent the signal */
	PARKED,
	ENDED, /* its slot stays empty, as the signal may still be on its way */
};

/* Of the thread in the same place of weft_summons. They stay from round to round. */
static struct slot {
	int call; /* descriptor, or -1 */
	enum state state;
	bool known; /* has been parked: where its signals' stack is, is known */
	bool listed;
} slots[WEFT_SUMMON_MOST];

/* Of the mover alone. */
static struct {
	uint32_t last_round;
	int tasks;			 /* the list's descriptor */
	unsigned int count, alive, open; /* slots, threads in them, descriptors */
	pid_t me;
	bool full; /* more threads than slots */
	uintptr_t start, end;
	bool hearing;
	bool called_late; /* those called have had time to come */
} self;

/* ---- who there is ---- */

static void close_call(struct slot *slot)
{
	if (slot->call < 0)
		return;
	weft_tasks_close(slot->call);
	slot->call = -1;
	self.open--;
}

static bool is_of(unsigned int slot, pid_t tid)
{
	return atomic_load_explicit(&weft_summons[slot].tid, memory_order_relaxed) == tid;
}

static void note(pid_t tid)
{
	static unsigned int likely; /* threads are listed in the same order each time */

	if (tid == self.me)
		return;
	for (unsigned int i = 0; i < self.count; i++) {
		likely = likely + 1 < self.count ? likely + 1 : 0;
		if (is_of(likely, tid)) {
			slots[likely].listed = true;
			return;
		}
	}
	if (self.count == WEFT_SUMMON_MOST) {
		self.full = true;
		return;
	}
	slots[self.count] = (struct slot){ .call = -1, .state = NEW, .listed = true };
	atomic_store(&weft_summons[self.count].tid, tid);
	self.count++;
}

static void drop_ended(void)
{
	self.alive = 0;
	for (unsigned int i = 0; i < self.count; i++) {
		if (slots[i].listed) {
			self.alive++;
			continue;
		}
		close_call(&slots[i]);
		slots[i].state = ENDED;
		atomic_store(&weft_summons[i].tid, 0);
	}
}

/* Between rounds: the slots of those who have ended are free. */
static void close_ranks(void)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < self.count; i++) {
		if (slots[i].state == ENDED)
			continue;
		slots[left] = (struct slot){ .call = -1, .state = NEW, .known = slots[i].known };
		weft_summons[left].stack = weft_summons[i].stack;
		weft_summons[left].stack_end = weft_summons[i].stack_end;
		atomic_store(&weft_summons[left].tid, atomic_load(&weft_summons[i].tid));
		left++;
	}
	self.count = left;
	self.alive = self.open = 0;
}

static bool all_known(void)
{
	return weft_tasks_count(self.tasks) == self.alive + 1;
}

static int list(void)
{
	int err;

	for (unsigned int i = 0; i < self.count; i++)
		slots[i].listed = false;
	self.full = false;
	err = weft_tasks_each(self.tasks, note);
	if (!err && self.full)
		err = -EAGAIN;
	if (!err)
		drop_ended();
	return err;
}

/* ---- what they do ---- */

/* Whether the thread sleeps harmlessly; *asleep is set. */
static bool is_asleep(unsigned int i, struct weft_asleep *asleep)
{
	struct slot *slot = &slots[i];
	char line[WEFT_TASKS_LINE];
	bool harmless;

	asleep->call = -1;
	if (slot->call < 0) {
		slot->call = weft_tasks_open_call(self.tasks, atomic_load(&weft_summons[i].tid));
		if (slot->call < 0)
			return false; /* not allowed, or ended */
		self.open++;
	}
	harmless = weft_tasks_read_call(slot->call, line) &&
		   weft_asleep_harmless(line, self.start, self.end, asleep);
	if (!harmless || self.open > MOST_OPEN)
		close_call(slot);
	return harmless;
}

/*
 * Whether the thread may be left asleep: not if a signal would be put on a stack among the pages. And if
 * that is not known yet, it stands still once.
 */
static bool may_sleep(unsigned int i)
{
	const struct weft_summon *summon = &weft_summons[i];

	if (!slots[i].known || (summon->stack < self.end && summon->stack_end > self.start))
		return false;
	return !self.hearing || !weft_tasks_is_deaf(self.tasks, atomic_load(&summon->tid));
}

/* Whether the thread need not be waited for. */
static bool is_settled(unsigned int i)
{
	struct slot *slot = &slots[i];
	struct weft_asleep asleep;

	if (slot->state == ENDED)
		return true;
	/* acquire: pairs with the store in weft_stand_still */
	if (atomic_load_explicit(&weft_summons[i].parked, memory_order_acquire) == self.last_round) {
		slot->state = PARKED;
		slot->known = true;
		return true;
	}
	if (slot->state == CALLED && !self.called_late)
		return false;
	if (!is_asleep(i, &asleep)) {
		if (slot->state != CALLED)
			weft_summons[i].asleep.call = -1;
		return false;
	}
	if (slot->state == CALLED) {
		slot->known = true; /* one that sleeps for so long has the signal blocked, or has died */
		return true;
	}
	if (may_sleep(i)) {
		slot->state = ASLEEP;
		return true;
	}
	weft_summons[i].asleep = asleep;
	return false;
}

/* Looks at all, and calls those who have not been. *waiting: how many are to come. */
static int settle(unsigned int *waiting)
{
	int err = 0;

	*waiting = 0;
	for (unsigned int i = 0; i < self.count && !err; i++) {
		if (is_settled(i))
			continue;
		if (slots[i].state != CALLED)
			err = weft_summon_send(i);
		if (err == -ESRCH) {
			err = 0; /* the list will tell */
			continue;
		}
		slots[i].state = CALLED;
		++*waiting;
	}
	return err;
}

static long long now_ns(void)
{
	struct timespec ts;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts); /* not libc's, which sanitizers watch */
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Until `waiting` more have arrived than before, or for a slice of time. */
static void await(uint32_t before, unsigned int waiting)
{
	const struct timespec slice = { .tv_nsec = SLICE_NS };
	uint32_t seen;

	for (unsigned int spins = 0;; spins++) {
		seen = atomic_load_explicit(&weft_summon_arrivals, memory_order_acquire);
		if (seen - before >= waiting)
			return;
		if (spins > SPINS &&
		    syscall(SYS_futex, &weft_summon_arrivals, FUTEX_WAIT_PRIVATE, seen, &slice, NULL, 0) &&
		    errno == ETIMEDOUT)
			return;
	}
}

static int begin(void)
{
	int err = weft_summon_install();

	if (err)
		return err;
	self.tasks = weft_tasks_open();
	if (self.tasks < 0)
		return self.tasks;
	self.me = (pid_t)syscall(SYS_gettid);
	close_ranks();
	self.last_round += self.last_round == UINT32_MAX ? 2 : 1; /* never 0 */
	/* release: pairs with the acquire in on_signal (summon.c) */
	atomic_store_explicit(&weft_summon_round, self.last_round, memory_order_release);
	return list();
}

static int gather(void)
{
	long long until = now_ns() + PATIENCE_NS;
	unsigned int waiting;
	int err = 0;

	self.called_late = false;
	while (!err) {
		uint32_t before = atomic_load(&weft_summon_arrivals);
		bool late = false;

		if (!all_known())
			err = list();
		if (!err)
			err = settle(&waiting);
		if (!err && !waiting && all_known())
			return 0;
		late = now_ns() >= until;
		if (!err && late)
			err = -EAGAIN;
		if (!err && waiting) {
			await(before, waiting);
			self.called_late = now_ns() > until - PATIENCE_NS + 2 * SLICE_NS;
		}
	}
	return err;
}

int weft_park(uintptr_t start, uintptr_t end, bool hearing)
{
	int err = 0;

	self.start = start;
	self.end = end;
	self.hearing = hearing;
	if (!atomic_load(&weft_summon_round))
		err = begin();
	if (!err)
		err = gather();
	if (err)
		weft_park_end();
	return err;
}

static bool is_left(const struct slot *slot)
{
	return slot->state != PARKED && slot->state != ENDED;
}

unsigned int weft_park_left(void)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < self.count; i++)
		left += is_left(&slots[i]);
	return left;
}

bool weft_park_still(void)
{
	struct weft_asleep asleep;

	for (unsigned int i = 0; i < self.count; i++) {
		if (is_left(&slots[i]) && !is_asleep(i, &asleep))
			return false;
	}
	return all_known();
}

void weft_park_end(void)
{
	if (!atomic_load(&weft_summon_round))
		return;
	atomic_store(&weft_summon_round, 0);
	syscall(SYS_futex, &weft_summon_round, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
	for (unsigned int i = 0; i < self.count; i++)
		close_call(&slots[i]);
	weft_tasks_close(self.tasks);
}
