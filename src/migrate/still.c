/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/still.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#if defined(__x86_64__)

/* The very instructions by which debuggers and unwinders know a signal's frame. */
__asm__(".text\n"
	".type weft_still_restorer, @function\n"
	".hidden weft_still_restorer\n"
	".globl weft_still_restorer\n"
	"	nop\n"
	"weft_still_restorer:\n"
	"	movq $15, %rax\n" /* rt_sigreturn */
	"	syscall\n"
	".size weft_still_restorer, . - weft_still_restorer\n");

void weft_stand_still(_Atomic uint32_t *parked, _Atomic uint32_t *arrivals,
		      const _Atomic uint32_t *now, uint32_t round)
{
	/* the stores are releases, as every store and locked instruction here is */
	__asm__ volatile("	movl %[round], (%[parked])\n"
			 "	lock incl (%[arrivals])\n"
			 "	movl %[futex], %%eax\n"
			 "	movq %[arrivals], %%rdi\n"
			 "	movl %[wake], %%esi\n"
			 "	movl $1, %%edx\n"
			 "	syscall\n"
			 "1:	cmpl %[round], (%[now])\n"
			 "	jne 2f\n"
			 "	movl %[futex], %%eax\n"
			 "	movq %[now], %%rdi\n"
			 "	movl %[wait], %%esi\n"
			 "	movl %[round], %%edx\n"
			 "	xorl %%r10d, %%r10d\n"
			 "	syscall\n"
			 "	jmp 1b\n"
			 "2:\n"
			 :
			 : [parked] "r"(parked), [arrivals] "r"(arrivals), [now] "r"(now),
			   [round] "r"(round), [futex] "i"(SYS_futex),
			   [wake] "i"(FUTEX_WAKE_PRIVATE), [wait] "i"(FUTEX_WAIT_PRIVATE)
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r10", "r11", "cc", "memory");
}

#elif defined(__aarch64__)

void weft_stand_still(_Atomic uint32_t *parked, _Atomic uint32_t *arrivals,
		      const _Atomic uint32_t *now, uint32_t round)
{
	__asm__ volatile("	stlr %w[round], [%[parked]]\n"
			 "3:	ldaxr w1, [%[arrivals]]\n"
			 "	add w1, w1, #1\n"
			 "	stlxr w2, w1, [%[arrivals]]\n"
			 "	cbnz w2, 3b\n"
			 "	mov x8, %[futex]\n"
			 "	mov x0, %[arrivals]\n"
			 "	mov x1, %[wake]\n"
			 "	mov x2, #1\n"
			 "	svc #0\n"
			 "1:	ldar w4, [%[now]]\n"
			 "	cmp w4, %w[round]\n"
			 "	b.ne 2f\n"
			 "	mov x8, %[futex]\n"
			 "	mov x0, %[now]\n"
			 "	mov x1, %[wait]\n"
			 "	mov w2, %w[round]\n"
			 "	mov x3, #0\n"
			 "	svc #0\n"
			 "	b 1b\n"
			 "2:\n"
			 :
			 : [parked] "r"(parked), [arrivals] "r"(arrivals), [now] "r"(now),
			   [round] "r"(round), [futex] "i"(SYS_futex),
			   [wake] "i"(FUTEX_WAKE_PRIVATE), [wait] "i"(FUTEX_WAIT_PRIVATE)
			 : "x0", "x1", "x2", "x3", "x4", "x8", "cc", "memory");
}

#else
#error "how a thread stands still without its stack"
#endif
