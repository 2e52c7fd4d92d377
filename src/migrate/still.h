/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Standing still in a signal handler without storing anything: the thread's stack, which the
 * handler may run on, may be among the pages that change their place.
 */
#ifndef WEFT_MIGRATE_STILL_H
#define WEFT_MIGRATE_STILL_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Stores round to *parked (release), counts *arrivals up, wakes the thread that sleeps on that, and returns
 * when *now is no longer round. In between no store but these two, and no system call but futex.
 */
void weft_stand_still(_Atomic uint32_t *parked, _Atomic uint32_t *arrivals,
		      const _Atomic uint32_t *now, uint32_t round);

/* What the kernel needs to know to let a handler return, where libc does not install it. */
#ifdef __x86_64__
void weft_still_restorer(void);
#define WEFT_STILL_RESTORER	 weft_still_restorer
#define WEFT_STILL_RESTORER_FLAG 0x04000000ul
#else
#define WEFT_STILL_RESTORER	 NULL /* the kernel has its own */
#define WEFT_STILL_RESTORER_FLAG 0ul
#endif

#endif
