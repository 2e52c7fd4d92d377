/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Pages that the kernel holds for later, whatever is mapped at their addresses then: fixed buffers of
 * io_uring, requests under way of io_uring and AIO. The caller holds the mutex of the regions. Other threads may stand
 * still (park.h): it is looked by plain system calls, without memory of its own.
 */
#ifndef WEFT_MIGRATE_PINS_H
#define WEFT_MIGRATE_PINS_H

#include <stdbool.h>

/*
 * Whether the kernel may hold any page of this process: it counts pinned pages, or there is a ring or an
 * AIO context, found by its descriptor or by its mapping. Also true if that cannot be told.
 * Not found: requests under way of a ring that has neither, and pins nothing else.
 */
bool weft_pins_any(void);

#endif
