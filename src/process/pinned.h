/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Parts of the pool that a device's driver has pinned, so that its engine copies between them and memory of the device
 * without a detour. A driver goes on with the pages that it has found, whatever the pool's file has there since: so a part is
 * used as long as the region in it is the one that it was, which is looked at before each copy.
 *
 * To let go of what is pinned takes some drivers until all kernels have ended that run, and holds up all their copies meanwhile; one of
 * the program's may be waiting for a copy of ours. So what is of regions that have ended stays pinned until the process has no
 * memory of devices registered any more.
 */
#ifndef WEFT_PROCESS_PINNED_H
#define WEFT_PROCESS_PINNED_H

#include <stdbool.h>
#include <stdint.h>

struct weft_pinned;
struct weft_plugin;
struct weft_pool;

/*
 * Before the plugin copies between `memory` and [*here, *here + len_bytes), whose owner waits for the caller before the pages
 * there become others'. What is there is pinned if that is worth its time; *here is then where the driver knows it. What
 * it gives, NULL too, goes to weft_pinned_end behind the copy. Any thread; takes no lock of the nic's.
 */
struct weft_pinned *weft_pinned_begin(struct weft_pool *pool, const struct weft_plugin *plugin,
				      void *memory, void **here, uint64_t len_bytes);
void weft_pinned_end(struct weft_pinned *pinned);

/*
 * A region of our own, and its id, that has all those bytes in the pool, none of them in a list of pieces. False: there is none. Any
 * thread.
 */
bool weft_pinned_source(struct weft_pool *pool, const void *here, uint64_t len_bytes, uint64_t *id);
/* Whether the region with that id stands, and has all of [off, off + len_bytes) of the pool. */
bool weft_pinned_is_of(struct weft_pool *pool, uint64_t id, uint64_t off, uint64_t len_bytes);

/* Lets go of all that no copy uses: may wait for the program's kernels. */
void weft_pinned_end_all(void);
void weft_pinned_forget(void); /* in a fork's child */

#endif
