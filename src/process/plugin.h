/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a plugin offers that reaches memory of devices: a shared library of its own beside ours, loaded when the
 * driver that it calls is in the process (device.c). It knows the driver; nothing else does.
 */
#ifndef WEFT_PROCESS_PLUGIN_H
#define WEFT_PROCESS_PLUGIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WEFT_PLUGIN_VERSION 9u
#define WEFT_PLUGIN_SYMBOL  "weft_plugin"

/* How another process finds memory of a device; it stands in the pool, written before the region has its key. `kind` becomes 0
 * when its owner finds the memory freed: relaxed, since a peer that reads the old one reaches what nobody else has. */
struct weft_share {
	uint64_t start, len_bytes; /* of all that is shared, in its owner */
	uint8_t device[16];	   /* no two have the same */
	uint8_t handle[64];	   /* the rest is the plugin's */
	_Atomic uint32_t kind;	   /* 0: only its owner reaches it */
	int32_t pid, fd;
	char name[16]; /* for people, as `name` gives it */
};

/* Bytes at the same place of the host's room and of the memory. */
struct weft_plugin_part {
	uint64_t offset, len_bytes;
};

/* A kernel that judges events: what it needs of each thread of the GPU, and which algorithm (stream/rich/rings.h); the detector; for how
 * many events of a buffer there is room; how many buffers may be under way, as lanes. */
struct weft_plugin_judge {
	const void *detector;
	uint64_t detector_bytes, work_bytes, room;
	uint32_t algorithm, drop;
	uint32_t lanes;
};

/* What it has decided: an array of struct weft_decision, until the lane has the next buffer. */
struct weft_plugin_judged {
	const void *decisions;
	uint64_t events;
	uint64_t sent_ns; /* by the first datagram that has it, or 0 */
	bool wrong;	  /* not all are datagrams: none counts */
};

/* Any thread; no call takes a lock that a program's thread could hold while it waits for Weft. */
struct weft_plugin {
	uint32_t version;

	/* A function that the driver in this process has not, though it is needed; NULL: none. */
	const char *(*lacks)(void);

	/*
	 * Looks at [va, va + len_bytes) of this process. 0, and *memory stands for what is there now, until `end`;
	 * -ENOENT: it is the host's, which has addresses of its own; -EFAULT: partly a device's and partly not, or of two;
	 * -ENOMEM; -EIO: the driver does not answer.
	 */
	int (*begin)(uint64_t va, uint64_t len_bytes, void **memory);
	void (*end)(void *memory);
	/* Whether it is still what it was: not freed, nor its addresses given to others. */
	bool (*is_still)(void *memory);
	/* Whether no CPU reads it. */
	bool (*is_apart)(const void *memory);
	/* Whether `copy` of it may name memory of a device at `here` that is `other`: what others than its own device do not reach
	 * goes by way of the host. */
	bool (*reaches)(const void *memory, const void *other);
	/*
	 * Copies bytes of it, which begin() has looked at, from or to `here`: memory of the host, or of a device.
	 * Returns when all that use the device see all of them. The last eight bytes come last. 0; -EFAULT: it is
	 * not what it was, or the driver refuses.
	 */
	int (*copy)(void *memory, uint64_t va, void *here, uint64_t len_bytes, bool write);
	/* In two parts, so that several wait together: `wait` is for all that was issued for that memory by then, and due even
	 * if that failed. */
	int (*issue)(void *memory, uint64_t va, void *here, uint64_t len_bytes, bool write);
	/* Parts of the host's room to the same places of it, one after the other. */
	int (*issue_parts)(void *memory, uint64_t va, void *host,
			   const struct weft_plugin_part part[], uint32_t parts);
	int (*wait)(void *memory);
	/* Whether `wait` would return at once: 0, -EAGAIN or -EFAULT. */
	int (*ask)(void *memory);
	/* Such as gpu0, for people: at least 16 bytes. */
	void (*name)(const void *memory, char *name);

	/*
	 * Whole pages of the host, which stay where they are until unpin: the driver's engine reaches them without a detour,
	 * for all memory of devices in this process. Ends also with what the driver needs for it; unpin is due all the same, and waits as
	 * close of a view does. 0, or -errno: they are not pinned.
	 */
	int (*pin)(void *memory, void *at, uint64_t len_bytes, void **pin);
	void (*unpin)(void *pin);

	/*
	 * Whether the driver may have pinned any byte of the host's memory [va, va + len_bytes), whole pages: then it goes on with
	 * those pages, whatever is mapped there. [*from, *end): the first run of such pages, which others may follow. What
	 * the driver does not know is not pinned; if it does not answer, all may be.
	 */
	bool (*pins)(uint64_t va, uint64_t len_bytes, uint64_t *from, uint64_t *end);

	/*
	 * A kernel of ours that copies from `host`, which is pinned and has as many bytes, to the memory at va, which `begin` has looked
	 * at. It stays from pull_start to pull_stop, and whatever waits for all of its context waits as long: so all kernels of a context
	 * are begun before the first starts, and ended when the last has stopped. pull_begin: -ENOTSUP, there is no such kernel for this
	 * device; -ENOMEM; -EIO. pull_start: -EIO. pull_put gives it two parts, and a word that it stores behind them, at an offset:
	 * what a kernel that acquires that word then sees, whether what was given before is there or not. pull_wait: until all that was given is there. Both 0 or -EFAULT:
	 * the kernel has died, or its context. pull_done: how many of those given since pull_begin are there, with all before them; it does
	 * not see that a kernel has died. One thread's at a time.
	 */
	int (*pull_begin)(void *memory, uint64_t va, void *host, uint64_t len_bytes, void **pull);
	int (*pull_start)(void *pull);
	int (*pull_put)(void *pull, const struct weft_plugin_part part[2], uint64_t word_at,
			uint64_t word);
	int (*pull_wait)(void *pull);
	uint64_t (*pull_done)(void *pull);
	void (*pull_stop)(void *pull);
	void (*pull_end)(void *pull);

	/* Memory of a device, in its primary context, which stays as long. 0; -ENODEV: there is no such device; -ENOMEM. */
	int (*allocate)(uint32_t device, uint64_t len_bytes, uint64_t *va);
	void (*free)(uint32_t device, uint64_t va);

	/*
	 * A kernel of ours that judges events in memory, which `begin` has looked at; begun and ended as pull_begin says.
	 * judge_begin: -ENOTSUP, there is no such kernel for this device; -ENOMEM; -EIO. judge_put: a buffer of packed datagrams for a
	 * lane, whose last was taken; -EFAULT. judge_take: 0; -EAGAIN, not yet; -EFAULT, never. Each lane one thread's at a time.
	 */
	int (*judge_begin)(void *memory, const struct weft_plugin_judge *options, void **judge);
	int (*judge_put)(void *judge, uint32_t lane, uint64_t va, uint64_t len_bytes);
	int (*judge_take)(void *judge, uint32_t lane, struct weft_plugin_judged *judged);
	void (*judge_end)(void *judge);

	/* How others find it, until `end`. */
	void (*share)(void *memory, struct weft_share *share);
	/*
	 * Another process's memory, for copies from and to `ours`, which stays until the view is closed. 0; -ENOTSUP; -ENOMEM.
	 * The caller looks afterwards whether it still is that one's. copy_view as copy: `theirs` is an address in its owner.
	 * close_waits: whether close waits for the program's kernels, and holds up all copies meanwhile.
	 */
	int (*open)(void *ours, const struct weft_share *theirs, void **view);
	void (*close)(void *view);
	bool (*close_waits)(const void *view);
	int (*copy_view)(void *view, uint64_t theirs, uint64_t ours, uint64_t len_bytes,
			 bool write);
};

/*
 * The plugin, loaded at first if its driver is among the process's objects; it stays. 0; -ENOENT: there is no such driver;
 * -ENOPKG: the plugin is missing, or the driver too old for it, weft_plugin_missing says why. The caller serializes both.
 */
int weft_plugin_load(const struct weft_plugin **found);
/* The same, if it has been loaded already; else NULL. Any thread, no lock. */
const struct weft_plugin *weft_plugin_loaded(void);
const char *weft_plugin_missing(void);

#endif
