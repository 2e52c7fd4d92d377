/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/again.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

#define MARK	  0x77656674ul
#define NS_PER_S  1000000000ll
#define NS_PER_MS 1000000ll

enum unit {
	NO_TIMEOUT, /* or one that does not begin anew */
	MS,
	SPEC, /* points to a struct timespec */
	KEPT, /* the same, and the kernel stores there what is left */
};

/*
 * The calls that fail with EINTR if a handler has run, whatever its flags; or that do so with a timeout. EINTR from
 * these says that nothing has happened.
 */
static const struct known {
	short call;
	uint8_t unit, timeout; /* argument */
	/* SPEC: the argument that says where the kernel stores what is left, if at all; 0: none does.
	   KEPT: an argument of 32 bits */
	uint8_t other;
} known[] = {
	{SYS_accept}, /* sockets may have a timeout of their own: it begins anew */
	{SYS_accept4},
	{SYS_clock_nanosleep, SPEC, 2, 3},
	{SYS_connect},
	{SYS_epoll_pwait, MS, 3},
#ifdef SYS_epoll_pwait2
	{SYS_epoll_pwait2, SPEC, 3},
#endif
	{SYS_futex, SPEC, 3},
	{SYS_msgrcv},
	{SYS_msgsnd},
	{SYS_nanosleep, SPEC, 0, 1},
	{SYS_ppoll, KEPT, 2, 1},
	{SYS_pselect6, KEPT, 4, 0},
	{SYS_read},
	{SYS_recvfrom},
	{SYS_recvmsg},
	{SYS_rt_sigsuspend},
	{SYS_rt_sigtimedwait, SPEC, 2},
	{SYS_semop},
	{SYS_semtimedop, SPEC, 3},
	{SYS_sendmsg},
	{SYS_sendto},
	{SYS_write},
#ifdef SYS_epoll_wait /* the machine has the older calls, too */
	{SYS_epoll_wait, MS, 3},
	{SYS_pause},
	{SYS_poll, MS, 2},
	{SYS_select},
#endif
};

/* Where libc's instructions are. */
static uintptr_t libc_start, libc_end;

static int find_libc(struct dl_phdr_info *info, size_t size, void *inside)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_LOAD && (uintptr_t)inside - start < part->p_memsz) {
			libc_start = start;
			libc_end = start + part->p_memsz;
			return 1;
		}
	}
	return 0;
}

void weft_again_begin(void)
{
#if defined(__GLIBC__)
	/* a function of which no sanitizer has its own */
	dl_iterate_phdr(find_libc, (void *)(uintptr_t)gnu_get_libc_version);
#endif
}

static bool is_of_libc(uintptr_t code)
{
	return code - libc_start < libc_end - libc_start;
}

/* ---- the call ---- */

struct call {
	long number;
	uintptr_t code; /* behind it */
	uintptr_t arg[WEFT_ASLEEP_ARGUMENTS];
};

#if defined(__x86_64__)

#define CALL_BYTES 2 /* the instruction's length */

static const int registers[WEFT_ASLEEP_ARGUMENTS] = {REG_RDI, REG_RSI, REG_RDX,
						     REG_R10, REG_R8,  REG_R9};

/* The length of an instruction that moves something to another register than eax, or 0. */
static size_t len_of_move(const uint8_t *text)
{
	bool prefixed = (text[0] & 0xf0) == 0x40;
	uint8_t rex = prefixed ? text[0] : 0, code = text[prefixed], to = text[prefixed + 1];
	uint8_t mode = to >> 6, from = to & 7, target = code == 0x8b ? (to >> 3) & 7 : from;
	bool extended = rex & (code == 0x8b ? 4 : 1); /* one of the upper eight */

	if ((code & 0xf8) == 0xb8) /* a number */
		return rex & 8 || (code == 0xb8 && !(rex & 1)) ? 0 : 5ul + prefixed;
	if ((code != 0x8b && code != 0x89) || (code == 0x89 && mode != 3) || (!target && !extended))
		return 0;
	if (mode == 3)
		return 2ul + prefixed;
	/* from memory: eight bits behind a register */
	return mode == 1		? 3ul + (from == 4) + prefixed
	       : mode == 0 && from == 4 ? 3ul + prefixed
					: 0;
}

static bool leads_to(const uint8_t *text, const uint8_t *end)
{
	size_t len = 1;

	for (; text < end && len; text += len)
		len = len_of_move(text);
	return text == end;
}

#define FAR_BYTES 24

/*
 * By libc's instructions: the call's number to eax, arguments to others, call. -1: they are not so. The number's may
 * be taken for another one's end only if that, too, names a call, by chance.
 */
static long number_before(uintptr_t code)
{
	const uint8_t *end = (const uint8_t *)code - CALL_BYTES;
	uint32_t number;

	if (!is_of_libc(code) || !is_of_libc(code - FAR_BYTES) || end[0] != 0x0f || end[1] != 0x05)
		return -1;
	for (const uint8_t *text = end - 5; text > end - FAR_BYTES + CALL_BYTES; text--) {
		if (text[0] == 0xb8 && (text[-1] & 0xf0) != 0x40 && leads_to(text + 5, end)) {
			memcpy(&number, text + 1, sizeof(number));
			return (long)number;
		}
	}
	return -1;
}

/* Whether the thread is where it slept, or that call's instruction is its next one. */
static bool is_as_it_slept(const mcontext_t *at, const struct weft_asleep *asleep, bool next)
{
	if (asleep->call < 0 || (uintptr_t)at->gregs[REG_RSP] != asleep->stack ||
	    (uintptr_t)at->gregs[REG_RIP] != asleep->code - (next ? CALL_BYTES : 0))
		return false;
	for (unsigned int i = 0; i < WEFT_ASLEEP_ARGUMENTS; i++) {
		if ((uintptr_t)at->gregs[registers[i]] != asleep->arg[i])
			return false;
	}
	return !next || at->gregs[REG_RAX] == asleep->call;
}

/* Whether the call is one that a signal has ended. */
static bool read_call(const mcontext_t *at, const struct weft_asleep *asleep, struct call *call)
{
	if (at->gregs[REG_RAX] != -EINTR)
		return false;
	call->code = (uintptr_t)at->gregs[REG_RIP];
	for (unsigned int i = 0; i < WEFT_ASLEEP_ARGUMENTS; i++)
		call->arg[i] = (uintptr_t)at->gregs[registers[i]];
	call->number = is_as_it_slept(at, asleep, false) ? asleep->call : number_before(call->code);
	return true;
}

/* Whether the next instruction makes a call: the one that the kernel begins anew, or one that has not begun. */
static bool is_before_call(const mcontext_t *at, const struct weft_asleep *asleep)
{
	return is_as_it_slept(at, asleep, true) ||
	       number_before((uintptr_t)at->gregs[REG_RIP] + CALL_BYTES) == at->gregs[REG_RAX];
}

static void end_call(mcontext_t *at)
{
	at->gregs[REG_RAX] = -EINTR;
	at->gregs[REG_RIP] += CALL_BYTES;
}

static void make_call(mcontext_t *at, const struct call *call)
{
	for (unsigned int i = 0; i < WEFT_ASLEEP_ARGUMENTS; i++)
		at->gregs[registers[i]] = (greg_t)call->arg[i];
	at->gregs[REG_RAX] = call->number;
	at->gregs[REG_RIP] = (greg_t)(call->code - CALL_BYTES);
}

#elif defined(__aarch64__)

#define CALL_BYTES 4

static bool is_as_it_slept(const mcontext_t *at, const struct weft_asleep *asleep, bool next)
{
	if (asleep->call < 0 || at->sp != asleep->stack ||
	    at->pc != asleep->code - (next ? CALL_BYTES : 0) || (long)at->regs[8] != asleep->call)
		return false;
	for (unsigned int i = 1; i < WEFT_ASLEEP_ARGUMENTS; i++) {
		if (at->regs[i] != asleep->arg[i])
			return false;
	}
	return !next || at->regs[0] == asleep->arg[0];
}

/* The first argument has made room for the result: only if the thread slept then, it is known. */
static bool read_call(const mcontext_t *at, const struct weft_asleep *asleep, struct call *call)
{
	if ((long)at->regs[0] != -EINTR || !is_as_it_slept(at, asleep, false))
		return false;
	*call = (struct call){.number = asleep->call, .code = at->pc};
	memcpy(call->arg, asleep->arg, sizeof(call->arg));
	return true;
}

static bool is_before_call(const mcontext_t *at, const struct weft_asleep *asleep)
{
	return is_as_it_slept(at, asleep, true);
}

static void end_call(mcontext_t *at)
{
	at->regs[0] = (unsigned long)-EINTR;
	at->pc += CALL_BYTES;
}

static void make_call(mcontext_t *at, const struct call *call)
{
	for (unsigned int i = 0; i < WEFT_ASLEEP_ARGUMENTS; i++)
		at->regs[i] = call->arg[i];
	at->pc = call->code - CALL_BYTES;
}

#endif

/* ---- what is left of its timeout ---- */

/* The kernel looks at the lower half of an argument of 32 bits. */
#define HALF 32
#define LOW  0xfffffffful

/*
 * Of this thread's last call that was made again with another timeout: as long as `mark` is in its argument, it is
 * that one still. initial-exec: the handler must not allocate thread-local storage.
 */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
	uintptr_t mark;
	long long until_ns;
	struct timespec left;
} last;

static long long ns_of(const struct timespec *spec)
{
	if (spec->tv_sec > LLONG_MAX / NS_PER_S / 4)
		return LLONG_MAX / 4; /* a lifetime */
	return spec->tv_sec * NS_PER_S + spec->tv_nsec;
}

static struct timespec spec_of(long long ns)
{
	return (struct timespec){ns / NS_PER_S, ns % NS_PER_S};
}

/* How much is left until the call is to end: it had so much when it was disturbed, unless it carries the mark. */
static long long left_of(uintptr_t marked, long long had_ns, long long since_ns)
{
	long long left;

	if (!last.mark || marked != last.mark)
		last.until_ns = since_ns + had_ns;
	left = last.until_ns - weft_again_now();
	return left > 0 ? left : 0;
}

static void keep_ms(uintptr_t *timeout, long long since_ns)
{
	long long had_ms = (int)*timeout, left_ns;

	if (had_ms <= 0)
		return; /* for ever, or not at all */
	left_ns = left_of(*timeout, had_ms * NS_PER_MS, since_ns);
	last.mark = MARK << HALF | (uintptr_t)((left_ns + NS_PER_MS - 1) / NS_PER_MS);
	*timeout = last.mark;
}

/* left: what the kernel says was left, or NULL. */
static void keep_spec(uintptr_t *timeout, const struct timespec *left, long long since_ns)
{
	const struct timespec *given = (const struct timespec *)*timeout;

	if (!given)
		return;
	last.left = spec_of(left_of(*timeout, ns_of(left ? left : given), since_ns));
	last.mark = *timeout = (uintptr_t)&last.left;
}

static void keep_kept(struct timespec *timeout, uintptr_t *marked, long long since_ns)
{
	if (!timeout)
		return;
	*timeout = spec_of(left_of(*marked, ns_of(timeout), since_ns));
	last.mark = *marked = MARK << HALF | (*marked & LOW);
}

static bool is_until_a_time(const struct call *call)
{
	return (call->number == SYS_futex && (call->arg[1] & FUTEX_CMD_MASK) != FUTEX_WAIT) ||
	       (call->number == SYS_clock_nanosleep && call->arg[1] & TIMER_ABSTIME);
}

static void keep_timeout(struct call *call, const struct known *known_call, long long since_ns)
{
	uintptr_t *timeout = &call->arg[known_call->timeout],
		  *other = &call->arg[known_call->other];

	/* only libc's functions surely use no argument's register after the call, and have a timeout for themselves */
	if (!is_of_libc(call->code) || is_until_a_time(call))
		return;
	switch ((enum unit)known_call->unit) {
	case NO_TIMEOUT:
		break;
	case MS:
		keep_ms(timeout, since_ns);
		break;
	case SPEC:
		keep_spec(timeout, known_call->other ? (const struct timespec *)*other : NULL,
			  since_ns);
		break;
	case KEPT:
		keep_kept((struct timespec *)*timeout, other, since_ns);
		break;
	}
}

/* ---- */

/* The signals that wait, and that the thread does not block. */
static uint64_t waiting(const ucontext_t *context)
{
	uint64_t blocked = *(const uint64_t *)&context->uc_sigmask, pending = 0;

	syscall(SYS_rt_sigpending, &pending, sizeof(pending));
	return pending & ~blocked;
}

/* Whether one of them has a handler after which no call is made again. */
static bool is_to_end_calls(uint64_t signals)
{
	struct {
		uintptr_t handler;
		unsigned long flags, restorer;
		uint64_t mask;
	} action;

	for (int signal = 1; signals; signal++, signals >>= 1) {
		if (signals & 1 &&
		    !syscall(SYS_rt_sigaction, signal, NULL, &action, sizeof(action.mask)) &&
		    action.handler > 1 && !(action.flags & SA_RESTART))
			return true;
	}
	return false;
}

static const struct known *find_known_call(long number)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (known[i].call == number)
			return &known[i];
	}
	return NULL;
}

long long weft_again_now(void)
{
	struct timespec ts;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts); /* not libc's, which sanitizers watch */
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

void weft_again(void *context, const struct weft_asleep *asleep, long long since_ns)
{
	mcontext_t *at = &((ucontext_t *)context)->uc_mcontext;
	const struct known *known_call;
	struct call call;

	/* the kernel begins it anew after ours, which it would not have done after that other signal */
	if (is_before_call(at, asleep) && is_to_end_calls(waiting(context)))
		end_call(at);
	if (!read_call(at, asleep, &call))
		return;
	known_call = find_known_call(call.number);
	if (!known_call || waiting(context))
		return;
	keep_timeout(&call, known_call, since_ns);
	make_call(at, &call);
}
