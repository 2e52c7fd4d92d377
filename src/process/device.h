/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory of devices that this process has registered: which plugin has it (plugin.h), and how it is reached, from
 * here by that, from elsewhere by our helper. A region of it says so in its entry, with a number (weft_mr_on_device).
 */
#ifndef WEFT_PROCESS_DEVICE_H
#define WEFT_PROCESS_DEVICE_H

#include "migrate/migratable.h"
#include "nic/machine.h"

struct weft_device;
struct weft_pinned;
struct weft_pool;

/*
 * 0, and *device stands for that memory as it is now; its region has `weft_device_off` of it. -ENOENT: it is no
 * device's. -EFAULT, -ENOMEM, -EIO: see struct weft_plugin. -ENOPKG: a driver of devices is in the process, but its
 * plugin is missing: whose the memory is cannot be told. Any thread; may load a library.
 */
int weft_device_begin(struct weft_pool *pool, uint64_t va, uint64_t len_bytes,
		      struct weft_device **device);
/* Its region has ended. quiet: no executor is in the middle of a copy; otherwise it stays for ever. */
void weft_device_end(struct weft_pool *pool, struct weft_device *device, bool quiet);
uint64_t weft_device_off(const struct weft_device *device);
/* Such as gpu0: at least 16 bytes. */
void weft_device_name(const struct weft_device *device, char *name);
/* Whether memory of devices can be registered in this process. May load a library. */
bool weft_device_any(void);
/* As weft_region_ask wants it; without a plugin that has been loaded all may be pinned. Loads none: the caller has the mutex of the
 * regions, and a thread that loads a library may want that. */
bool weft_device_pins(uintptr_t start, uintptr_t end, struct weft_run *pinned);
/* What is missing where weft_device_begin says -ENOPKG. */
const char *weft_device_missing(void);

/* As struct weft_memory has them. */
int weft_device_reach(struct weft_pool *pool, const struct weft_caller *caller,
		      const struct weft_in_place *memory, void *here, uint64_t len_bytes,
		      bool write);
int weft_device_atomic(struct weft_pool *pool, const struct weft_caller *caller,
		       const struct weft_in_place *memory, bool add, uint64_t compare_add,
		       uint64_t swap, uint64_t *value);

/*
 * Of our region with that id, for an executor that has a busy line since before the id was seen to stand: its end waits for
 * that. Whether it is a device's; bytes of it, from or to memory of the host; an atomic, of which this process carries
 * out one at a time. 0 or -EFAULT.
 */
bool weft_device_has(const struct weft_pool *pool, uint64_t id);
int weft_device_copy(struct weft_pool *pool, uint64_t id, uint64_t va, void *here,
		     uint64_t len_bytes, bool write);
/* The same in two parts: the second is due if the first gives 0, and what `copying` has is the caller's in between. */
struct weft_device_copying {
	struct weft_device *device;
	struct weft_pinned *pinned;
};
int weft_device_issue(struct weft_pool *pool, uint64_t id, uint64_t va, void *here,
		      uint64_t len_bytes, bool write, struct weft_device_copying *copying);
/* Behind the first, of the same region and to it: small ones, which are not worth pinning. The one wait is for all, due though this
 * fails. */
int weft_device_issue_more(const struct weft_device_copying *copying, uint64_t va, void *here,
			   uint64_t len_bytes);
int weft_device_wait(struct weft_device_copying *copying);
int weft_device_change(struct weft_pool *pool, uint64_t id, uint64_t va, bool add,
		       uint64_t compare_add, uint64_t swap, uint64_t *value);

/* Lets go of other processes' memory of devices whose regions have ended, and tells others what has been freed here. */
void weft_device_tidy(struct weft_pool *pool);
void weft_device_forget(void); /* in a fork's child: drivers of devices do not survive one */

#endif
