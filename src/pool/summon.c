/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/summon.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "pool/still.h"

#define SIGNAL 33
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

/* Whose signals 33 else are. */
static _Atomic(handler_fn *) others;
#define DEFAULT ((handler_fn *)0)
#define IGNORE	((handler_fn *)1)

static void pass_on(int signal, siginfo_t *info, void *context)
{
	/* acquire: pairs with the release in weft_summon_install */
	handler_fn *handler = atomic_load_explicit(&others, memory_order_acquire);
	struct action deadly = { 0 };

	if (handler == IGNORE)
		return;
	if (handler != DEFAULT) {
		handler(signal, info, context);
		return;
	}
	syscall(SYS_rt_sigaction, signal, &deadly, NULL, sizeof(deadly.mask));
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
}

/* Whether a signal waits that the thread does not block. */
static bool is_called_elsewhere(const ucontext_t *context)
{
	uint64_t blocked = *(const uint64_t *)&context->uc_sigmask, pending = 0;

	return syscall(SYS_rt_sigpending, &pending, sizeof(pending)) || (pending & ~blocked);
}

/* Makes the call again that the signal has ended: the thread slept in it when it was called. */
static void sleep_again(ucontext_t *context, const struct weft_asleep *asleep)
{
	mcontext_t *at = &context->uc_mcontext;

	if (asleep->call < 0 || is_called_elsewhere(context))
		return;
#if defined(__x86_64__)
	if (at->gregs[REG_RAX] != -EINTR || (uintptr_t)at->gregs[REG_RIP] != asleep->code ||
	    (uintptr_t)at->gregs[REG_RSP] != asleep->stack)
		return;
	at->gregs[REG_RAX] = asleep->call;
	at->gregs[REG_RIP] -= 2; /* the instruction's length */
#elif defined(__aarch64__)
	if ((long)at->regs[0] != -EINTR || at->pc != asleep->code || at->sp != asleep->stack)
		return;
	at->regs[0] = asleep->first;
	at->regs[8] = (unsigned long)asleep->call;
	at->pc -= 4;
#endif
}

static void stand_still(struct weft_summon *me, uint32_t round, ucontext_t *context)
{
	struct weft_asleep asleep = me->asleep;

	me->stack = (uintptr_t)context->uc_stack.ss_sp;
	me->stack_end = me->stack + context->uc_stack.ss_size;
	weft_stand_still(&me->parked, &weft_summon_arrivals, &weft_summon_round, round);
	sleep_again(context, &asleep);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	uint64_t value = (uintptr_t)info->si_value.sival_ptr;
	uint32_t which = (uint32_t)value, round;
	int saved = errno;

	if (info->si_code != SI_QUEUE || value >> 32 != MAGIC || info->si_pid != getpid()) {
		pass_on(signal, info, context);
	} else {
		/* acquire: pairs with the release in begin (park.c): by then it is settled whose each is */
		round = atomic_load_explicit(&weft_summon_round, memory_order_acquire);
		/* 0: a call from a round that is over */
		if (round && which < WEFT_SUMMON_MOST &&
		    atomic_load(&weft_summons[which].tid) == syscall(SYS_gettid))
			stand_still(&weft_summons[which], round, context);
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
	siginfo_t info = { .si_signo = SIGNAL, .si_code = SI_QUEUE };

	info.si_pid = getpid();
	info.si_value.sival_ptr = (void *)((uintptr_t)MAGIC << 32 | which);
	if (!syscall(SYS_rt_tgsigqueueinfo, getpid(), atomic_load(&weft_summons[which].tid), SIGNAL, &info))
		return 0;
	return -errno; /* -ESRCH: it has ended */
}
