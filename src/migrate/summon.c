/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/summon.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "migrate/again.h"
#include "migrate/still.h"

#define SIGNAL WEFT_SUMMON_SIGNAL
#define MAGIC  0x77656674u /* in the upper half of our signals' value; below is the thread */

struct weft_summon weft_summons[WEFT_SUMMON_MOST];
_Atomic uint32_t weft_summon_round;
_Atomic uint32_t weft_summon_arrivals;

typedef void handler_fn(int signal, siginfo_t *info, void *context);

/* The kernel's struct: libc's sigaction refuses this signal. */
struct action {
	handler_fn *handler;
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

/* The handler of signals 33 that are not ours: glibc's. */
static _Atomic(handler_fn *) others;
#define DEFAULT ((handler_fn *)0)
#define IGNORE	((handler_fn *)1)

static void pass_on(int signal, siginfo_t *info, void *context)
{
	/* acquire: pairs with the release in weft_summon_install */
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

static void come(struct weft_summon *me, const ucontext_t *context)
{
	/* acquire: pairs with the release in begin_parking (park.c) */
	uint32_t round = atomic_load_explicit(&weft_summon_round, memory_order_acquire);
	uintptr_t stack = (uintptr_t)context->uc_stack.ss_sp;

	atomic_store_explicit(&me->stack, stack, memory_order_relaxed);
	atomic_store_explicit(&me->stack_end, stack + context->uc_stack.ss_size,
			      memory_order_relaxed);
	/* release: pairs with the acquire in is_stack_elsewhere (park.c) */
	atomic_store_explicit(&me->noted, true, memory_order_release);
	if (round) /* else the round that has called it is over */
		weft_stand_still(&me->parked, &weft_summon_arrivals, &weft_summon_round, round);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	uint64_t value = (uintptr_t)info->si_value.sival_ptr;
	uint32_t which = (uint32_t)value;
	int saved = errno;

	if (info->si_code != SI_QUEUE || value >> 32 != MAGIC || info->si_pid != getpid()) {
		pass_on(signal, info, context);
	} else if (which < WEFT_SUMMON_MOST &&
		   atomic_load(&weft_summons[which].tid) == syscall(SYS_gettid)) {
		long long since_ns = weft_again_now();
		struct weft_asleep asleep =
			weft_summons[which].asleep; /* before it may be written again */

		come(&weft_summons[which], context);
		weft_again(context, &asleep, since_ns);
		atomic_store_explicit(
			&weft_summons[which].left,
			atomic_load_explicit(&weft_summons[which].parked, memory_order_relaxed),
			memory_order_relaxed);
	}
	errno = saved;
}

int weft_summon_install(void)
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

int weft_summon_send(unsigned int which)
{
	siginfo_t info = {.si_signo = SIGNAL, .si_code = SI_QUEUE};

	info.si_pid = getpid();
	info.si_value.sival_ptr = (void *)((uintptr_t)MAGIC << 32 | which);
	if (!syscall(SYS_rt_tgsigqueueinfo, getpid(), atomic_load(&weft_summons[which].tid), SIGNAL,
		     &info))
		return 0;
	return -errno; /* -ESRCH: it has ended */
}
