/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the nic asks of the world: its threads, its memory, its room. A process has one such table; a
 * simulator, a card and a kernel module have others. What concerns the pool (leases, pieces, life,
 * bells, the rare half of the fence) is asked of the pool's own table, struct weft_pool_calls; the
 * frequent half is inline (backing/fence.h). Timers are not asked for: the caller that makes the nic go on says
 * what time it is (weft_nic_progress).
 *
 * Every function may be called from any thread, with locks of the nic held; `context` is the table's.
 */
#ifndef WEFT_NIC_MACHINE_H
#define WEFT_NIC_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/pool.h"

/* What a request may rely on at its peer: the word that ends with the peer's queue pair is still
 * what it was when the request began. */
struct weft_grant {
	const _Atomic uint64_t *word;
	uint64_t was;
	uint16_t member;
	int32_t later; /* see weft_later_of; 0: the caller waits */
};

/*
 * What a request that does not wait has reached, from one look at it to the next. Each look carries the request
 * out anew, keys and all: what has been placed is passed over, and what was asked of the machine is found again by
 * what it was about. All zeros: nothing.
 */
struct weft_later {
	uint64_t seen; /* ATOMIC WRITE: what was there before, as far as is known */
	uint32_t done; /* bytes from its start that have been placed */
	uint32_t at;   /* where the copy begins that the machine is asked for */
	uint16_t ask
		[2]; /* the machine's: to read, or for an atomic; and to write. 0: nothing asked */
	/* While a carrier gathers small WRITEs, one after the other, to ask for all of them together: the bytes of the present one, of
	 * which nothing has been placed; else 0. The machine's: how many it has kept. Each is then carried out anew, in that
	 * order, when `answered` says so. */
	uint16_t gathers, gathered;
};

/* Of the connection that the grant is of; it lies in the same object. NULL: none. */
static inline struct weft_later *weft_later_of(const struct weft_grant *grant)
{
	return grant && grant->later
		       ? (struct weft_later *)((uintptr_t)grant + (uintptr_t)(intptr_t)grant->later)
		       : NULL;
}

static inline void weft_later_attach(struct weft_grant *grant, const struct weft_later *later)
{
	grant->later = (int32_t)((intptr_t)later - (intptr_t)grant);
}

/* Memory of another member that is in place: at `va` of its own, in the region `id`. */
struct weft_in_place {
	const struct weft_grant *grant;
	uint64_t va, id;
	struct weft_later *later; /* NULL: the call may wait */
	uint64_t
		here_id; /* of our region of a device, if `here` is an address of that; 0: it is the host's */
};

/* Where bytes of a region lie. */
enum weft_memory_kind {
	WEFT_MEMORY_POOLED, /* in the pool, at an address of the window */
	WEFT_MEMORY_HERE,   /* in place, in this process */
	WEFT_MEMORY_THERE,  /* in place, in another */
	WEFT_MEMORY_DEVICE, /* of a device, whose owner's machine reaches it, in this process or another */
	WEFT_MEMORY_KINDS,
};

/*
 * How memory of a kind is reached that has no address here. The first two kinds have one: they are
 * copied by `copy`, ordered by releasing stores at the end (weft_copy) and added to by the processor, and
 * have no row. Each call returns only when all that it stored may be seen, and nothing of it is seen after
 * what the caller stores later.
 */
struct weft_memory {
	/*
	 * Copies bytes between here and there, in any order. 0; -EFAULT (not mapped there); -ENXIO (not mapped
	 * here); -EACCES (the key has ended); -ETIMEDOUT (its helper does not answer); -ESRCH (it is gone, or its
	 * queue pair is); -EINPROGRESS (memory->later only: to be called so again when struct weft_machine's
	 * `answered` says so; while the carrier gathers: it may have been kept).
	 */
	int (*copy)(void *context, const struct weft_caller *caller,
		    const struct weft_in_place *memory, void *here, uint64_t len_bytes, bool write);
	/* The same for an atomic of 8 bytes; the old value comes back in *value. -EALREADY: its helper has begun it, and does not answer. */
	int (*atomic)(void *context, const struct weft_caller *caller,
		      const struct weft_in_place *memory, bool add, uint64_t compare_add,
		      uint64_t swap, uint64_t *value);
};

struct weft_machine {
	void *context;

	void *(*alloc)(void *context, size_t bytes); /* zeroed; NULL when there is none */
	void (*free)(void *context, void *at);

	/* as memmove does, in any order; the next 64 bytes are written at once afterwards */
	void (*copy)(uint8_t *to, const uint8_t *from, size_t n);
	struct weft_memory memory[WEFT_MEMORY_KINDS];

	/* Of what was answered -EINPROGRESS. Whether it is worth while to ask again. */
	bool (*answered)(void *context, const struct weft_later *later, uint64_t now_ns);
	/* Whether the atomic that was asked for has been carried out: then the old value. */
	bool (*carried_out)(void *context, const struct weft_later *later, uint64_t *value);
	/* What was gathered is asked for. NULL: nothing is ever kept. */
	void (*ask_gathered)(void *context, struct weft_later *later);
	/* It is not waited for any more: from here on memory of this process is left alone. At once. */
	void (*take_back)(void *context, struct weft_later *later);

	void (*yield)(void *context); /* another thread has what the caller waits for */
	/* The calling thread as locks know it, 0: it has no name yet. */
	uint32_t (*self)(void *context);
	/* There is deferred work; what makes the nic go on should look soon. */
	void (*kick)(void *context);
	/* CLOCK_MONOTONIC, or its like: for completions that bear their time, and for waits that begin. */
	uint64_t (*stamp_ns)(void *context);
};

#endif
