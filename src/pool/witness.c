/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/witness.h"

#include <stddef.h>
#include <sys/random.h>

#include "backing/unhooked.h"

#define PAGE	  4096ul
#define TRIES	  16
#define HIGH_BITS 46 /* of addresses, or at least LOW_BITS */
#define LOW_BITS  38

static void *map_page(uint64_t at)
{
	void *page = weft_unhooked_mmap((void *)(uintptr_t)at, PAGE, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	return page == MAP_FAILED ? NULL : page;
}

uint64_t weft_witness(void)
{
	static void *page; /* a child of a fork has it, too */
	uint64_t number;

	for (int i = 0; !page && i < TRIES; i++) {
		if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
			break;
		number >>= 64 - (i % 2 ? LOW_BITS : HIGH_BITS);
		page = map_page(number & ~(PAGE - 1));
	}
	return (uint64_t)(uintptr_t)page;
}
