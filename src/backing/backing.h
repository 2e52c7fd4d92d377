/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a pool stands on: a memory that all members share, and the little that members need of
 * whatever shares it with them: locks that end with their owner, a proof of life, sleep, the rare
 * half of a fence. Each kind of it is one row of this table; the pool above sees offsets, and never
 * asks which row it has.
 *
 * The frequent half of the fence is inline (backing/fence.h).
 *
 * Context: any thread, unless said otherwise. No function takes a lock of the pool's.
 */
#ifndef WEFT_BACKING_BACKING_H
#define WEFT_BACKING_BACKING_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backing/atomic.h"
#include "backing/fence.h"

/* One memory, open; each row has its own. */
struct weft_backed;

enum weft_backing_can {
	/* its pages are a device's: userfaultfd takes none of them, and mappings of neighbours stay two */
	WEFT_BACKING_DEVICE = 1,
	/* read-modify-write holds among all members */
	WEFT_BACKING_ATOMICS = 2,
	/* what one member stores all others load, with no more done about it than fences */
	WEFT_BACKING_COHERENT = 4,
	/* `barrier` reaches every member of the host: the frequent half of the fence needs no instruction */
	WEFT_BACKING_REACHES_ALL = 8,
	/* the pool's protocols as they stand do not work without */
	WEFT_BACKING_NEEDED =
		WEFT_BACKING_ATOMICS | WEFT_BACKING_COHERENT | WEFT_BACKING_REACHES_ALL,
};

/* What to do about the process that holds the lock. */
#define WEFT_BACKING_ADVICE    "continue it (kill -CONT, docker unpause, the debugger) or end it"
#define WEFT_BACKING_HAS_HOSTS "the pool has several hosts: name it shm:PATH"
#define WEFT_BACKING_STUCK     "its lock is held by a process that does not go on"

/* What a pool of several hosts is made with. */
struct weft_backing_plan {
	uint32_t hosts; /* a power of two */
	uint64_t bytes; /* 0: as new_bytes */
	uint32_t silence_ms;
	uint32_t flags; /* enum weft_pool_flag */
};

/* A mapping of a part of the memory itself. */
struct weft_pages {
	void *at; /* what was asked for; NULL: there is none so far in it, or it cannot be mapped */
	void *mapped;
	uint64_t mapped_bytes;
};

struct weft_backing {
	const char *name;
	uint32_t can; /* enum weft_backing_can */

	/* ---- Which ---- */

	/* The path that the user means; NULL: $WEFT_POOL, or the user's own, which *own says.
	 * -ENAMETOOLONG. */
	int (*choose)(const char *path, char chosen[PATH_MAX], bool *own);
	/*
	 * Opens it, made if need be; *bytes: its size. `signature` tells whether those that made it
	 * lay it out as we do. -EPROTO (no pool, or another version or layout), -EPERM (not the
	 * user's own), -EFBIG (the process may not make so large a one), -ENOSPC, -ENOMEM,
	 * -ETIMEDOUT (see `enter`), or open(2)'s. *why says it in a sentence, good until the
	 * thread's next call.
	 */
	int (*open)(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
		    uint64_t *bytes, const char **why);
	/* After unmap. What this process has locked or claimed ends. */
	void (*close)(struct weft_backed *b);
	/* In a fork's child, which has no part in it. Async-signal-safe. */
	void (*forget)(struct weft_backed *b);
	/* Two numbers that every process has alike that has the same memory open. Of a path: 0 or
	 * stat(2)'s. */
	void (*identity)(const struct weft_backed *b, uint64_t identity[2]);
	int (*identify)(const char *path, uint64_t identity[2]);
	/* Makes one of several hosts, in place of one that no process uses; path as `choose` gives it. NULL: such a memory has
	 * one, made at first use. -EINVAL, -EBUSY (a host lives), -EPROTO, -ENOSPC, or open(2)'s. */
	int (*create)(const char *path, const struct weft_backing_plan *plan, uint64_t signature,
		      const char **why);
	/* Ends one that no process uses, of whatever version. -EBUSY, -EPROTO (it is none), -ETIMEDOUT,
	 * or unlink(2)'s. */
	int (*remove)(const char *path, bool own, const char **why);
	/* The size that a new one has here. */
	uint64_t (*new_bytes)(void);

	/* ---- Its bytes ---- */

	/* Address space for all of it, of which nothing can be touched yet. A child does not
	 * inherit it. */
	int (*map)(struct weft_backed *b, uint8_t **base);
	void (*unmap)(struct weft_backed *b);
	/* From now on that range may be touched where it is reserved. Whole pages. */
	int (*touch)(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
	/* Touches every page of a reserved range now, rather than at the first access. */
	void (*populate)(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
	/* Pages that may be touched without a signal, zeroed if they were released or never used.
	 * -ENOSPC. */
	int (*reserve)(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
	/* They go back to the system. 0; or -errno: none did. */
	int (*release)(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
	/* What may still be reserved here before the system kills a process for it; UINT64_MAX: no limit. */
	uint64_t (*head_room)(void);
	/* What maps its pages at any address, so that the memory of programs can migrate into it; good until the program
	 * closes it. Negative: -errno. NULL: there is no such thing. */
	int (*descriptor)(struct weft_backed *b);
	/* What an offset of a segment is greater than that in what `descriptor` is of. NULL: nothing. */
	uint64_t (*shift)(const struct weft_backed *b);

	/* ---- Life ---- */

	/*
	 * Makes this process the one that has that number, until it ends, however it ends.
	 * After map, once. -EAGAIN (another has it), -ESTALE (the memory has lost its name: a member that
	 * comes now would not meet us).
	 */
	int (*prove)(struct weft_backed *b, uint16_t member);
	/* Whether another process proves it. True where it cannot be told. Takes 0.3 µs or more. */
	bool (*lives)(struct weft_backed *b, uint16_t member);
	/* The number of a member that has died, for the one that gives back what it held: test and
	 * claim are one step, and it comes free if that one dies, too. A key for `leave`; -EAGAIN
	 * (it lives, or another has claimed it). */
	int (*claim)(struct weft_backed *b, uint16_t member);

	/* ---- The lock ---- */

	/*
	 * One owner among all processes and all threads of each; it ends with the process. A key
	 * for `leave`; or -ETIMEDOUT: the process that holds it has not gone on for ten seconds. After two
	 * it says on stderr which process that is.
	 */
	int (*enter)(struct weft_backed *b);
	/* The same beside a claim, by its key. -EAGAIN if it is not to wait. */
	int (*enter_too)(struct weft_backed *b, int key, bool wait);
	/* Lets go of all that the key stands for. */
	void (*leave)(struct weft_backed *b, int key);

	/* ---- Sleep, and the fence ---- */

	/* Until `wake` of the same word, or not at all unless it is `value`; timeout_ns negative:
	 * no timeout. May return without a reason. */
	void (*sleep)(struct weft_backed *b, _Atomic uint32_t *word, uint32_t value,
		      int64_t timeout_ns);
	void (*wake)(struct weft_backed *b, _Atomic uint32_t *word);
	/* The rare half: see backing/fence.h. Full for the caller, too. */
	void (*barrier)(struct weft_backed *b);

	/* ---- From outside, by a process that is no member: one thread. A memory of several hosts has no lock for all ---- */

	/* What its mappings are multiples of. NULL: pages. */
	uint64_t (*grain)(const struct weft_backed *b);
	/* For reading only. -ENOENT (there is none yet), or as open. *locked: no process enters until
	 * it is closed. */
	int (*look)(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
		    uint64_t *bytes, bool *locked, const char **why);
	/* Others enter again. */
	void (*unlock)(struct weft_backed *b);
	bool (*read)(const struct weft_backed *b, void *to, uint64_t bytes, uint64_t off);
	/* The same of the home of that host. False, too: it is elsewhere, or not ours to look at. */
	bool (*read_home)(const struct weft_backed *b, uint32_t host, void *to, uint64_t bytes,
			  uint64_t off);
	/* Whether a process proves that number by that home: 0 or 1; -errno where read_home says false. */
	int (*proven)(struct weft_backed *b, uint32_t host, uint16_t member);
	uint64_t (*allocated)(const struct weft_backed *b);
	/* The process that holds the lock, in words. */
	void (*lock_owner)(const struct weft_backed *b, char *text, size_t text_bytes);
	/* The first bytes of the memory itself, whatever lies there, for loads and stores; path as `choose` gives it. NULL: such
	 * a memory has one host. -ENOSPC (there are not so many, or cannot be), -EINVAL, -EPROTO, or open(2)'s. */
	int (*expose)(const char *path, uint64_t bytes, struct weft_pages *pages, const char **why);
	void (*cover)(const struct weft_pages *pages);
};

/* Between two looks for what another does, that long after the first: gives the core away, after a
 * millisecond by sleeping for a sixteenth of that, a millisecond at most. */
void weft_pause(uint64_t waited_ns);

/* The rows: a sparse file that all members map, in /dev/shm or where the user says. */
extern const struct weft_backing weft_backing_file;
/* The same with a home for each of several hosts: shm:PATH. */
extern const struct weft_backing weft_backing_shm;
/* The same in the window of a PCIe device, which hosts with a kernel each have: pci:ADDRESS. */
extern const struct weft_backing weft_backing_pci;
/* The same in the memory of a device-dax: dax:PATH. */
extern const struct weft_backing weft_backing_dax;

#endif
