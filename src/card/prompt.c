/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A card works for microseconds and sleeps. Beside programs that poll, on as many cores, it would get a core only when one of them
 * has used up its slice, milliseconds later: Linux from 6.12 on lets a task that is woken go first where it has asked for
 * shorter slices. Others answer that they know no such thing, and nothing is lost.
 */
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "card/prompt.h"

#define SLICE_NS 100000u /* the shortest that there is */

/* As the kernel has it; libc of Debian 12 has none. */
struct attributes {
	uint32_t bytes, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
	uint32_t least, most;
};

void weft_card_be_prompt(void)
{
	struct attributes a = {.bytes = sizeof(a)};

	if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0))
		return;
	a.runtime_ns = SLICE_NS;
	syscall(SYS_sched_setattr, 0, &a, 0);
}
