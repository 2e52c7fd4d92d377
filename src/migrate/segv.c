/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Holding stores back by protection: a thread that stores into the chunk lands in our handler and
 * yields until the chunk has changed its place, then stores again.
 *
 * The handler stays installed once it was needed. Taking it away after each migration would race with a
 * thread whose fault the kernel has already turned into a signal, but not yet delivered.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "migrate/fork.h"
#include "migrate/hold.h"
#include "pool/step.h"
#include "backing/unhooked.h"

/* The chunk that is protected now, 0 if none. It may be shorter than WEFT_HOLD_MOST: a fault
 * behind its end then waits for nothing, which is harmless. */
static _Atomic uintptr_t window;
/* How often a window was opened or closed. */
static _Atomic uint64_t turns;
/* initial-exec: the handler must not allocate thread-local storage */
#define HANDLER_LOCAL static _Thread_local __attribute__((tls_model("initial-exec")))
HANDLER_LOCAL uint64_t retried; /* `turns` when this thread last tried again */

static bool in_window(uintptr_t addr)
{
	/* acquire: pairs with the release in close_window, after which the store succeeds */
	uintptr_t start = atomic_load_explicit(&window, memory_order_acquire);

	return start && addr >= start && addr < start + WEFT_HOLD_MOST;
}

/*
 * Whether the fault may be our doing. Seen outside the window it may still stem from one that has
 * closed meanwhile; but only if there was a turn since this thread last tried again. Then trying
 * once more tells.
 */
static bool may_be_ours(uintptr_t addr)
{
	bool waited = false;
	uint64_t seen;

	while (in_window(addr)) {
		waited = true;
		sched_yield();
	}
	seen = atomic_load_explicit(&turns, memory_order_relaxed);
	if (!waited && seen == retried)
		return false;
	retried = seen;
	return true;
}

/*
 * What ours stands over: when it was first installed, and now. In between the program may have
 * installed a handler that calls ours in turn. Then going on to that one again would never end, so
 * `first` is next.
 */
static struct sigaction first, latest;

/* Runs the handler that ours has replaced, as the kernel would. */
static void chain(struct sigaction *next, int signal, siginfo_t *info, void *context)
{
	struct sigaction action = *next;
	bool function = action.sa_flags & SA_SIGINFO ||
			(action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
	bool sent = info->si_code <= 0; /* by kill, not by a fault */

	if (sent && action.sa_handler == SIG_IGN)
		return;
	if (!function || action.sa_flags & SA_RESETHAND)
		*next = (struct sigaction){.sa_handler = SIG_DFL};
	if (!function) {
		sigaction(signal, next, NULL);
		if (sent)
			raise(signal);
		return; /* else the same instruction faults again */
	}
	sigaddset(&action.sa_mask, signal);
	pthread_sigmask(SIG_BLOCK, &action.sa_mask, NULL);
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(signal, info, context);
	else
		action.sa_handler(signal);
}

static void on_segv(int signal, siginfo_t *info, void *context)
{
	int saved = errno;

	if (!weft_fork_rescue() &&
	    (info->si_code != SEGV_ACCERR || !may_be_ours((uintptr_t)info->si_addr))) {
		sigset_t mask;

		/* the kernel does not call us with the signal blocked, but a chained handler does
		 */
		pthread_sigmask(SIG_BLOCK, NULL, &mask);
		chain(sigismember(&mask, signal) ? &first : &latest, signal, info, context);
	}
	errno = saved;
}

bool weft_segv_install(void)
{
	static bool before;
	struct sigaction action = {
		.sa_sigaction = on_segv,
		/* not blocked inside, else a waiter would seem deaf to it */
		.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER,
	};
	struct sigaction now;

	sigaction(SIGSEGV, NULL, &now);
	if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_segv)
		return false;
	if (!before)
		first = now;
	before = true;
	latest = now;
	sigaction(SIGSEGV, &action, NULL);
	return true;
}

void weft_segv_uninstall(void)
{
	sigaction(SIGSEGV, &latest, NULL);
}

static int segv_begin(void)
{
	weft_segv_install();
	return 0;
}

static void open_window(uintptr_t start)
{
	/* no barrier: the fault comes after mprotect, which is one */
	atomic_store_explicit(&window, start, memory_order_relaxed);
	atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed);
}

static void close_window(void)
{
	atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed);
	/* release: pairs with the acquire in in_window; a thread that sees it closed sees the turn, too, and
	 * its store succeeds */
	atomic_store_explicit(&window, 0, memory_order_release);
}

static void segv_let_go(const struct weft_migrate *chunk, bool migrated)
{
	if (!migrated)
		weft_unhooked_mprotect((void *)chunk->va, chunk->len_bytes, chunk->prot);
	WEFT_STEP(segv_released);
	close_window();
}

static int segv_hold(const struct weft_migrate *chunk)
{
	open_window(chunk->va);
	if (!weft_unhooked_mprotect((void *)chunk->va, chunk->len_bytes,
				    chunk->prot & ~PROT_WRITE)) {
		WEFT_STEP(segv_held);
		return 0;
	}
	segv_let_go(chunk, false);
	return -ENOMEM;
}

const struct weft_hold weft_segv_hold = {
	.begin = segv_begin,
	.hold = segv_hold,
	.let_go = segv_let_go,
	.by_signal = true,
};
