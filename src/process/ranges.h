/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Addresses of registered memory that no CPU reads, for those that are about to read what a program has named. */
#ifndef WEFT_PROCESS_RANGES_H
#define WEFT_PROCESS_RANGES_H

#include <stdbool.h>
#include <stdint.h>

struct weft_range {
	uint64_t start, end;
};

/* All there are from now on, in any order: they are put into one, and joined where they meet. 0; -ENOMEM: nothing has changed. The
 * caller serializes. */
int weft_ranges_set(struct weft_range *ranges, uint32_t count);
/* Whether any of those bytes is in one. Any thread; takes no lock, and no longer for more ranges than a search of halves. */
bool weft_ranges_have(uint64_t at, uint64_t len_bytes);
void weft_ranges_forget(void); /* in a fork's child */

#endif
