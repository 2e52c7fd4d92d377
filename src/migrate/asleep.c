/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/asleep.h"

#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/poll.h>
#include <sys/syscall.h>

/* A signal's frame, with all registers that processors have today, and what the ABI keeps free below a stack. */
#define FRAME (16ul << 10)

/* What a call stores as it ends: `size` bytes where argument `at` points to, or so many times what
 * argument `times` says. */
struct output {
	uint8_t at, times;
	uint16_t size;
};

#define ONCE 0xff
#define ALL                                                                                        \
	{                                                                                          \
		0                                                                                  \
	} /* no more */

/*
 * Those that programs sleep in, and that a signal may end late, or not at all. Pages that a call only reads may migrate:
 * it finds the same bytes elsewhere, or goes on with those of before.
 */
static const struct known {
	short call;
	struct output out[4];
} known[] = {
	{SYS_accept, {{1, ONCE, 128}, {2, ONCE, 4}}},
	{SYS_accept4, {{1, ONCE, 128}, {2, ONCE, 4}}},
	{SYS_clock_nanosleep, {{3, ONCE, 16}}},
	{SYS_close, {ALL}},
	{SYS_connect, {ALL}},
	{SYS_epoll_pwait, {{1, 2, sizeof(struct epoll_event)}}},
	{SYS_fdatasync, {ALL}},
	{SYS_flock, {ALL}},
	{SYS_fsync, {ALL}},
	{SYS_msgrcv, {{1, 2, 1}, {1, ONCE, 8}}},
	{SYS_msgsnd, {ALL}},
	{SYS_nanosleep, {{1, ONCE, 16}}},
	{SYS_openat, {ALL}},
	{SYS_ppoll, {{0, 1, sizeof(struct pollfd)}, {2, ONCE, 16}}},
	{SYS_pread64, {{1, 2, 1}}},
	{SYS_pselect6, {{1, ONCE, 128}, {2, ONCE, 128}, {3, ONCE, 128}, {4, ONCE, 16}}},
	{SYS_pwrite64, {ALL}},
	{SYS_pwritev, {ALL}},
	{SYS_read, {{1, 2, 1}}},
	{SYS_recvfrom, {{1, 2, 1}, {4, ONCE, 128}, {5, ONCE, 4}}},
	{SYS_rt_sigsuspend, {ALL}},
	{SYS_rt_sigtimedwait, {{1, ONCE, 128}}},
	{SYS_semop, {ALL}},
	{SYS_semtimedop, {ALL}},
	{SYS_sendmsg, {ALL}},
	{SYS_sendto, {ALL}},
	{SYS_wait4, {{1, ONCE, 4}, {3, ONCE, 144}}},
	{SYS_waitid, {{2, ONCE, 128}, {4, ONCE, 144}}},
	{SYS_write, {ALL}},
	{SYS_writev, {ALL}},
#ifdef SYS_epoll_wait /* the machine has the older calls, too */
	{SYS_epoll_wait, {{1, 2, sizeof(struct epoll_event)}}},
	{SYS_open, {ALL}},
	{SYS_pause, {ALL}},
	{SYS_poll, {{0, 1, sizeof(struct pollfd)}}},
	{SYS_select, {{1, ONCE, 128}, {2, ONCE, 128}, {3, ONCE, 128}, {4, ONCE, 16}}},
#endif
};

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads a number behind spaces. NULL: there is none. */
static const char *spaced_number(const char *at, unsigned int base, uintptr_t *value)
{
	bool any = false;

	while (*at == ' ')
		at++;
	if (base == 16 && at[0] == '0' && at[1] == 'x')
		at += 2;
	for (*value = 0; digit(*at) >= 0 && (unsigned int)digit(*at) < base; at++, any = true)
		*value = *value * base + (unsigned int)digit(*at);
	return any ? at : NULL;
}

/* "call argument... stack instruction" */
static bool parse_asleep(const char *line, struct weft_asleep *asleep)
{
	uintptr_t call;

	line = spaced_number(line, 10, &call);
	for (int i = 0; line && i < WEFT_ASLEEP_ARGUMENTS; i++)
		line = spaced_number(line, 16, &asleep->arg[i]);
	if (line)
		line = spaced_number(line, 16, &asleep->stack);
	if (line)
		line = spaced_number(line, 16, &asleep->code);
	asleep->call = (long)call;
	return line != NULL;
}

static bool ranges_overlap(uintptr_t at, size_t size, uintptr_t start, uintptr_t end)
{
	return at && at < end && (at >= start || size > start - at);
}

static bool stores(const struct weft_asleep *asleep, const struct output *out, uintptr_t start,
		   uintptr_t end)
{
	size_t times = out->times == ONCE ? 1 : asleep->arg[out->times];

	if (out->size > 1)
		times = (uint32_t)times; /* of a count the kernel looks at so much */
	if (times > UINT32_MAX)
		times = UINT32_MAX; /* more than a call stores; the product stays in bounds */
	return out->size && ranges_overlap(asleep->arg[out->at], times * out->size, start, end);
}

/* The kernel finds a private one by its address, but a shared one by its page. */
static bool futex_is_harmless(const struct weft_asleep *asleep, uintptr_t start, uintptr_t end)
{
	unsigned int op = (unsigned int)asleep->arg[1];
	bool waits =
		(op & FUTEX_CMD_MASK) == FUTEX_WAIT || (op & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;

	if (waits && op & FUTEX_PRIVATE_FLAG)
		return true;
	return !ranges_overlap(asleep->arg[0], 4, start, end) &&
	       (waits || !ranges_overlap(asleep->arg[4], 4, start, end));
}

static bool says_dead(const char *line)
{
	const char *dead = "-1 0x0 0x0";

	while (*dead && *dead == *line)
		dead++, line++;
	return !*dead;
}

static const struct known *find_sleeping_call(long call)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (known[i].call == call)
			return &known[i];
	}
	return NULL;
}

static bool call_is_harmless(const struct weft_asleep *asleep, const struct known *call,
			     uintptr_t start, uintptr_t end)
{
	if (asleep->call == SYS_futex)
		return futex_is_harmless(asleep, start, end);
	for (size_t i = 0; call && i < sizeof(call->out) / sizeof(call->out[0]); i++) {
		if (stores(asleep, &call->out[i], start, end))
			return false;
	}
	return call != NULL;
}

enum weft_asleep_kind weft_asleep(const char *line, uintptr_t start, uintptr_t end,
				  struct weft_asleep *asleep)
{
	bool harmless;

	if (says_dead(line))
		return WEFT_ASLEEP_DEAD;
	if (!parse_asleep(line, asleep)) {
		asleep->call = -1;
		return WEFT_ASLEEP_NOT;
	}
	harmless = !ranges_overlap(asleep->stack - FRAME, FRAME + 1, start, end) &&
		   call_is_harmless(asleep, find_sleeping_call(asleep->call), start, end);
	return harmless ? WEFT_ASLEEP_HARMLESSLY : WEFT_ASLEEP_NOT;
}
