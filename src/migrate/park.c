/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/park.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "migrate/asleep.h"
#include "migrate/summon.h"
#include "migrate/tasks.h"

#define MOST_OPEN   64 /* descriptors */

#define PATIENCE_NS 200000000ll
#define SLICE_NS    1000000ll /* so often threads are looked at again */
#define SPINS	    200

#define HELD_MOST   8 /* rounds */
#define GRACE_NS    100000000ll
#define LOOK_NS	    50000

#define BIT(signal) (1ull << ((signal)-1))

enum state {
	FREE,
	RUNNING, /* for all that is known */
	LEFT,	 /* harmlessly asleep: it has the signal, but does not come */
	PARKED,
	DEAD,
};

/* Of the thread in the same place of weft_summons. It stays from round to round. */
static struct slot {
	int call; /* descriptor, or -1 */
	enum state state;
	bool called; /* in this round */
	bool deaf;   /* has the signal blocked, past libc: it is called once it does not sleep */
	bool listed;
	/* Rounds in a row from which it had not gone on when the next one began. */
	unsigned char held;
} slots[WEFT_SUMMON_MOST];

/* Of the thread that migrates alone. */
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

/* ---- the threads that there are ---- */

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

static void take_thread(unsigned int slot, pid_t tid)
{
	struct weft_summon *summon = &weft_summons[slot];

	slots[slot] = (struct slot){.call = -1, .state = RUNNING, .listed = true};
	atomic_store(&summon->noted, false);
	summon->asleep.call = -1;
	atomic_store(&summon->tid, tid);
}

static void note(pid_t tid)
{
	static unsigned int likely; /* threads are listed in the same order each time */
	unsigned int free = self.count;

	if (tid == self.me)
		return;
	for (unsigned int i = 0; i < self.count; i++) {
		likely = likely + 1 < self.count ? likely + 1 : 0;
		if (is_of(likely, tid)) {
			slots[likely].listed = true;
			return;
		}
		if (slots[likely].state == FREE)
			free = likely;
	}
	if (free == WEFT_SUMMON_MOST) {
		self.full = true;
		return;
	}
	take_thread(free, tid);
	self.count += free == self.count;
}

static void drop_ended(void)
{
	self.alive = 0;
	for (unsigned int i = 0; i < self.count; i++) {
		if (slots[i].listed) {
			self.alive++;
			continue;
		}
		if (slots[i].state == FREE)
			continue;
		close_call(&slots[i]);
		slots[i].state = FREE;
		atomic_store(&weft_summons[i].tid, 0);
	}
}

static void begin_slots(void)
{
	while (self.count && slots[self.count - 1].state == FREE)
		self.count--;
	for (unsigned int i = 0; i < self.count; i++) {
		slots[i].call = -1;
		slots[i].called = false;
		if (slots[i].state != FREE)
			slots[i].state = RUNNING;
	}
	self.alive = self.open = 0;
}

static bool all_known(void)
{
	return weft_tasks_count(self.tasks) == self.alive + 1;
}

static int list_threads(void)
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

/* asleep->call is negative if nothing is known. */
static enum weft_asleep_kind look_at_thread(unsigned int i, struct weft_asleep *asleep)
{
	struct slot *slot = &slots[i];
	char line[WEFT_TASKS_LINE];
	enum weft_asleep_kind kind;

	asleep->call = -1;
	if (slot->call < 0) {
		slot->call = weft_tasks_open_call(self.tasks, atomic_load(&weft_summons[i].tid));
		if (slot->call < 0)
			return WEFT_ASLEEP_NOT; /* not allowed, or ended */
		self.open++;
	}
	kind = weft_tasks_read_call(slot->call, line)
		       ? weft_asleep(line, self.start, self.end, asleep)
		       : WEFT_ASLEEP_NOT;
	if (kind == WEFT_ASLEEP_NOT || self.open > MOST_OPEN)
		close_call(slot);
	return kind;
}

/* Whether it is known that no signal to the thread is put on a stack among the pages. */
static bool is_stack_elsewhere(unsigned int i)
{
	const struct weft_summon *summon = &weft_summons[i];

	/* acquire: pairs with the release in come (summon.c) */
	return atomic_load_explicit(&summon->noted, memory_order_acquire) &&
	       (atomic_load_explicit(&summon->stack, memory_order_relaxed) >= self.end ||
		atomic_load_explicit(&summon->stack_end, memory_order_relaxed) <= self.start);
}

/* Whether the thread, which sleeps harmlessly, need not come: when it wakes up it goes to the signal's handler first,
 * or if it has that blocked, its stores wait. */
static bool may_be_left(unsigned int i)
{
	uint64_t blocked = weft_tasks_blocked(self.tasks, atomic_load(&weft_summons[i].tid));

	/* libc itself blocks all for a moment, but then the thread does not sleep */
	slots[i].deaf = blocked & BIT(WEFT_SUMMON_SIGNAL);
	if (self.hearing && blocked & BIT(SIGSEGV))
		return false;
	return slots[i].deaf || is_stack_elsewhere(i);
}

static bool has_come(unsigned int i)
{
	/* acquire: pairs with the store in weft_stand_still */
	return atomic_load_explicit(&weft_summons[i].parked, memory_order_acquire) ==
	       self.last_round;
}

/* Whether the thread need not be waited for. */
static bool is_settled(unsigned int i)
{
	struct slot *slot = &slots[i];
	struct weft_asleep asleep;
	enum weft_asleep_kind kind;

	if (slot->state == FREE || slot->state == PARKED || slot->state == DEAD)
		return true;
	if (has_come(i)) {
		slot->state = PARKED;
		return true;
	}
	if (slot->called && !self.called_late)
		return false;
	kind = look_at_thread(i, &asleep);
	if (kind == WEFT_ASLEEP_DEAD)
		slot->state = DEAD;
	else if (kind == WEFT_ASLEEP_HARMLESSLY && (slot->called || slot->deaf) && may_be_left(i))
		slot->state = LEFT;
	else
		slot->state = RUNNING;
	if (slot->state == RUNNING && !slot->called)
		weft_summons[i].asleep = asleep;
	return slot->state != RUNNING;
}

/* Looks at all, and calls those that have not been. *waiting: how many are to come. */
static int settle_threads(unsigned int *waiting)
{
	int err = 0;

	*waiting = 0;
	for (unsigned int i = 0; i < self.count && !err; i++) {
		if (is_settled(i))
			continue;
		if (!slots[i].called)
			err = weft_summon_send(i);
		if (err == -ESRCH) {
			err = 0; /* the list will tell */
			continue;
		}
		slots[i].called = true;
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
	const struct timespec slice = {.tv_nsec = SLICE_NS};
	uint32_t seen;

	for (unsigned int spins = 0;; spins++) {
		seen = atomic_load_explicit(&weft_summon_arrivals, memory_order_acquire);
		if (seen - before >= waiting)
			return;
		if (spins > SPINS &&
		    syscall(SYS_futex, &weft_summon_arrivals, FUTEX_WAIT_PRIVATE, seen, &slice,
			    NULL, 0) &&
		    errno == ETIMEDOUT)
			return;
	}
}

static bool is_leaving(unsigned int i)
{
	return atomic_load_explicit(&weft_summons[i].left, memory_order_relaxed) !=
	       atomic_load_explicit(&weft_summons[i].parked, memory_order_relaxed);
}

/*
 * A thread that is let go waits for a core. Called before it has one, it would come at once, without an instruction of the program in between,
 * and one that migrates all the time would keep it standing for as long as others want the cores: so it is let run now and then.
 */
static void let_run(void)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};
	long long until = 0;

	for (unsigned int i = 0; i < self.count; i++) {
		if (!is_leaving(i))
			slots[i].held = 0;
		else if (slots[i].held < HELD_MOST)
			slots[i].held++;
		else
			until = now_ns() + GRACE_NS;
	}
	for (unsigned int i = 0; until && i < self.count; i++) {
		if (slots[i].held < HELD_MOST)
			continue;
		while (is_leaving(i) && now_ns() < until)
			syscall(SYS_nanosleep, &look, NULL);
		slots[i].held = 0;
	}
}

static int begin_parking(void)
{
	int err = weft_summon_install();

	if (err)
		return err;
	self.tasks = weft_tasks_open();
	if (self.tasks < 0)
		return self.tasks;
	self.me = (pid_t)syscall(SYS_gettid);
	let_run();
	begin_slots();
	self.last_round += self.last_round == UINT32_MAX ? 2 : 1; /* never 0 */
	/* release: pairs with the acquire in come (summon.c) */
	atomic_store_explicit(&weft_summon_round, self.last_round, memory_order_release);
	return list_threads();
}

static int gather_threads(void)
{
	long long until = now_ns() + PATIENCE_NS;
	unsigned int waiting;
	int err = 0;

	self.called_late = false;
	while (!err) {
		uint32_t before = atomic_load(&weft_summon_arrivals);
		bool late = false;

		if (!all_known())
			err = list_threads();
		if (!err)
			err = settle_threads(&waiting);
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
		err = begin_parking();
	if (!err)
		err = gather_threads();
	if (err)
		weft_park_end();
	return err;
}

unsigned int weft_park_left(void)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < self.count; i++)
		left += slots[i].state == LEFT;
	return left;
}

bool weft_park_still(void)
{
	struct weft_asleep asleep;

	for (unsigned int i = 0; i < self.count; i++) {
		if (slots[i].state == LEFT && !has_come(i) &&
		    look_at_thread(i, &asleep) != WEFT_ASLEEP_HARMLESSLY)
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
