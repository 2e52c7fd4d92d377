/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Making a system call again that our signal has ended with EINTR: some are not, whatever SA_RESTART says, and no
 * program expects EINTR where it has not asked for signals.
 */
#ifndef WEFT_MIGRATE_AGAIN_H
#define WEFT_MIGRATE_AGAIN_H

#include "migrate/asleep.h"

/* Finds libc, in which calls are told by their instructions. Before the first signal. */
void weft_again_begin(void);

/* The time by which it measures, by a plain system call. */
long long weft_again_now(void);

/*
 * In the signal's handler, at its end. context: its ucontext_t; asleep: in what the thread slept when it was called;
 * since_ns: when the handler began. If a call that may be made again has been ended, and by no other signal, the thread
 * makes it again when the handler returns, with what is left of its timeout. How long it slept before it was disturbed
 * only the kernel knows, and it does not always tell: by that much it sleeps longer, once. (With a timeout that is not libc's,
 * but the program's own code's: each time.)
 */
void weft_again(void *context, const struct weft_asleep *asleep, long long since_ns);

#endif
