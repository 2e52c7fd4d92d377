/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The signal is the one by which glibc changes the user of all threads: a program cannot block it.
 * glibc's own come with another code, and go on to its handler.
 */
#include "pool/park.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pool/asleep.h"
#include "pool/still.h"
#include "pool/tasks.h"

#define SIGNAL	     33
#define MAGIC	     0x77656674u /* in the upper half of our signals' value; below is the slot */
#define MOST_THREADS 16384u
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

/* Of a thread. In its handler it reads its own tid, and stores the round in which it has parked. */
static struct slot {
	_Atomic pid_t tid;
	_Atomic uint32_t parked;
	int call; /* descriptor, or -1 */
	enum state state;
	bool listed;
} slots[MOST_THREADS];

static _Atomic uint32_t round_now; /* 0 while nobody is to stand still */
static _Atomic uint32_t arrivals;  /* in rounds of all times */

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

/* ---- the signal ---- */

typedef void handler_fn(int signal, siginfo_t *info, void *context);

/* The kernel's struct: libc's sigaction refuses this signal. */
struct action {
	handler_fn *handler;
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

/* Whose signals 33 else are. */
static _Atomic(handler_fn *) others;
#define DEFAULT ((handler_fn *)0)
#define IGNORE	((handler_fn *)1)

static void pass_on(int signal, siginfo_t *info, void *context)
{
	/* acquire: pairs with the release in install */
	handler_fn *handler = atomic_load_explicit(&others, memory_order_acquire);
	struct action deadly = {0};

	if (handler == IGNORE)
		return;
	if (handler != DEFAULT) {
		handler(signal, info, context);
		return;
	}
	syscall(SYS_rt_sigaction, signal, &deadly, NULL, sizeof(deadly.mask));
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	uint64_t value = (uintptr_t)info->si_value.sival_ptr;
	uint32_t slot = (uint32_t)value, round;
	int saved = errno;

	if (info->si_code != SI_QUEUE || value >> 32 != MAGIC || info->si_pid != getpid()) {
		pass_on(signal, info, context);
	} else if (slot < MOST_THREADS && atomic_load(&slots[slot].tid) == syscall(SYS_gettid)) {
		/* acquire: pairs with the release in begin; 0: a call from a round that is over */
		round = atomic_load_explicit(&round_now, memory_order_acquire);
		if (round)
			weft_stand_still(&slots[slot].parked, &arrivals, &round_now, round);
	}
	errno = saved;
}

/* Libc installs its handler when it needs it first; so each time. 0 or -errno. */
static int install(void)
{
	struct action now,
		ours = {
			.handler = on_signal,
			/* on the stack that the program gave for signals, since there are threads
			   with small ones */
			.flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | WEFT_STILL_RESTORER_FLAG,
			.restorer = WEFT_STILL_RESTORER,
			.mask = ~0ull,
		};

	if (syscall(SYS_rt_sigaction, SIGNAL, NULL, &now, sizeof(now.mask)))
		return -errno;
	if (now.handler == on_signal)
		return 0;
	/* release: pairs with the acquire in pass_on */
	atomic_store_explicit(&others, now.handler, memory_order_release);
	return syscall(SYS_rt_sigaction, SIGNAL, &ours, NULL, sizeof(ours.mask)) ? -errno : 0;
}

static int call(unsigned int slot)
{
	siginfo_t info = {.si_signo = SIGNAL, .si_code = SI_QUEUE};

	info.si_pid = getpid();
	info.si_value.sival_ptr = (void *)((uintptr_t)MAGIC << 32 | slot);
	if (!syscall(SYS_rt_tgsigqueueinfo, getpid(), atomic_load(&slots[slot].tid), SIGNAL, &info))
		return 0;
	return -errno; /* -ESRCH: it has ended */
}

/* ---- who there is ---- */

static void close_call(struct slot *slot)
{
	if (slot->call < 0)
		return;
	weft_tasks_close(slot->call);
	slot->call = -1;
	self.open--;
}

static void note(pid_t tid)
{
	static unsigned int likely; /* threads are listed in the same order each time */
	struct slot *slot;

	if (tid == self.me)
		return;
	for (unsigned int i = 0; i < self.count; i++) {
		likely = likely + 1 < self.count ? likely + 1 : 0;
		if (atomic_load_explicit(&slots[likely].tid, memory_order_relaxed) == tid) {
			slots[likely].listed = true;
			return;
		}
	}
	if (self.count == MOST_THREADS) {
		self.full = true;
		return;
	}
	slot = &slots[self.count++];
	slot->state = NEW;
	slot->call = -1;
	slot->listed = true;
	atomic_store(&slot->tid, tid);
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
		atomic_store(&slots[i].tid, 0);
	}
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

static bool is_asleep(struct slot *slot, bool hearing)
{
	char line[WEFT_TASKS_LINE];
	pid_t tid = atomic_load_explicit(&slot->tid, memory_order_relaxed);
	bool harmless;

	if (slot->call < 0) {
		slot->call = weft_tasks_open_call(self.tasks, tid);
		if (slot->call < 0)
			return false; /* not allowed, or ended */
		self.open++;
	}
	harmless = weft_tasks_read_call(slot->call, line) &&
		   weft_asleep_harmless(line, self.start, self.end);
	if (!harmless || self.open > MOST_OPEN)
		close_call(slot);
	/* the dead, which are in no call, hear nothing */
	return harmless && (!hearing || line[0] == '-' || !weft_tasks_is_deaf(self.tasks, tid));
}

/* Whether the thread need not be waited for. */
static bool is_settled(struct slot *slot)
{
	if (slot->state == ENDED)
		return true;
	/* acquire: pairs with the store in weft_stand_still */
	if (atomic_load_explicit(&slot->parked, memory_order_acquire) == self.last_round) {
		slot->state = PARKED;
		return true;
	}
	/* one that was called and sleeps for so long has the signal blocked */
	if (slot->state == CALLED && !self.called_late)
		return false;
	if (!is_asleep(slot, self.hearing))
		return false;
	if (slot->state == NEW)
		slot->state = ASLEEP;
	return true;
}

/* Looks at all, and calls those who have not been. *waiting: how many are to come. */
static int settle(unsigned int *waiting)
{
	int err = 0;

	*waiting = 0;
	for (unsigned int i = 0; i < self.count && !err; i++) {
		if (is_settled(&slots[i]))
			continue;
		if (slots[i].state != CALLED)
			err = call(i);
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
	const struct timespec slice = {.tv_nsec = SLICE_NS};
	uint32_t seen;

	for (unsigned int spins = 0;; spins++) {
		seen = atomic_load_explicit(&arrivals, memory_order_acquire);
		if (seen - before >= waiting)
			return;
		if (spins > SPINS &&
		    syscall(SYS_futex, &arrivals, FUTEX_WAIT_PRIVATE, seen, &slice, NULL, 0) &&
		    errno == ETIMEDOUT)
			return;
	}
}

static int begin(void)
{
	int err = install();

	if (err)
		return err;
	self.tasks = weft_tasks_open();
	if (self.tasks < 0)
		return self.tasks;
	self.me = (pid_t)syscall(SYS_gettid);
	self.count = self.alive = self.open = 0;
	self.last_round += self.last_round == UINT32_MAX ? 2 : 1; /* never 0 */
	/* release: pairs with the acquire in on_signal */
	atomic_store_explicit(&round_now, self.last_round, memory_order_release);
	return list();
}

static int gather(void)
{
	long long until = now_ns() + PATIENCE_NS;
	unsigned int waiting;
	int err = 0;

	self.called_late = false;
	while (!err) {
		uint32_t before = atomic_load(&arrivals);
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
	if (!atomic_load(&round_now))
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
	for (unsigned int i = 0; i < self.count; i++) {
		if (is_left(&slots[i]) && !is_asleep(&slots[i], false))
			return false;
	}
	return all_known();
}

void weft_park_end(void)
{
	if (!atomic_load(&round_now))
		return;
	atomic_store(&round_now, 0);
	syscall(SYS_futex, &round_now, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
	for (unsigned int i = 0; i < self.count; i++)
		close_call(&slots[i]);
	weft_tasks_close(self.tasks);
}
