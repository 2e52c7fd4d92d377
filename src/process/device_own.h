/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What device.c and device_reach.c share: the memory of devices that this process has registered. */
#ifndef WEFT_PROCESS_DEVICE_OWN_H
#define WEFT_PROCESS_DEVICE_OWN_H

#include <pthread.h>

#include "pool/format_region.h"
#include "process/device.h"
#include "process/plugin.h"

/* Another process's memory, as one of ours reaches it. */
struct weft_device_view {
	uint64_t id;  /* of the region, which may have ended since */
	void *opened; /* NULL: it cannot be */
	unsigned int users;
	struct weft_device_view *next;
};

struct weft_device {
	const struct weft_plugin *plugin;
	void *memory;
	uint64_t off; /* of its struct weft_share */
	uint64_t start, len_bytes;
	unsigned int users; /* that reach others' memory through it, and have no key of its own */
	struct weft_device_view *views;
	struct weft_device *next;
};

extern pthread_mutex_t weft_device_mutex; /* guards all of these */
extern struct weft_device *weft_devices;

/* That of our region with that id, or NULL. */
struct weft_device *weft_device_of(const struct weft_pool *pool, uint64_t id);
/* How others find it, or NULL: there is no such place in the pool. */
struct weft_share *weft_device_share(struct weft_pool *pool, uint64_t off);

#endif
