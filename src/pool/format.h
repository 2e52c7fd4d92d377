/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The format of a pool: one file that every member maps. Offsets and handles, never pointers;
 * fixed widths; each field names its one writer. Freestanding: user space, kernel and tools share it.
 *
 *   0        header, then the lease tables
 *   512 KiB  room to try the memory (format_trial.h)
 *   1 MiB    members (format_member.h: their addresses, what they ask; format_mailbox.h)
 *   34 MiB   hosts, where there are several (format_host.h)
 *   38 MiB   the home (format_home.h: the lock's page, then members' lines, and what wakes them)
 *   48 MiB   queue pairs (format_qp.h)
 *   96 MiB   memory regions (format_region.h)
 *   192 MiB  the card of a torus and its programs (format_ape.h)
 *   208 MiB  segments of 16 MiB, or less, leased to members: extents of regions, queues (format_queue.h), rings
 *            (format_ring.h)
 *
 * A memory of several hosts has of each table the first entries alone, and these parts one behind the other without
 * what lies between (backing/parts.c).
 *
 * Ownership is by lease: a segment, a block of queue pairs or a block of regions belongs to one
 * member, which alone writes in it and keeps its own books in private memory. A lease is one
 * 8-byte word: it is taken under the pool's file lock, and ended by the member itself or by the
 * recoverer that has claimed its death. Recovering a dead member is giving back its leases.
 *
 * Writers: [L] the process that holds the file lock, [O] the owner of the lease or the member itself,
 * [P] the one peer that the text names, [*] anyone, always the same value.
 */
#ifndef WEFT_POOL_FORMAT_H
#define WEFT_POOL_FORMAT_H

#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sizes.h"

#define WEFT_POOL_MAGIC	  0x4c4f4f5054464557ull /* "WEFTPOOL" */
#define WEFT_POOL_MAKING  0x454b414d54464557ull /* "WEFTMAKE": the first bytes of all */
#define WEFT_POOL_VERSION 22u

#define WEFT_OFF_LEASES	  WEFT_PAGE
#define WEFT_OFF_MEMBERS  (1ull << 20)
#define WEFT_OFF_QPS	  (48ull << 20)
#define WEFT_OFF_MRS	  (96ull << 20)
#define WEFT_OFF_OBJECTS  (160ull << 20)

/* A command that looks for a beat waits that long. */
#define WEFT_SILENCE_MOST_MS 60000u

enum weft_pool_flag {
	WEFT_POOL_ATOMICS = 1,	/* a read-modify-write holds between its hosts */
	WEFT_POOL_COHERENT = 2, /* what one stores all load, as its maker says */
};

struct weft_pool_header {
	uint64_t magic;	    /* [L] written last when the pool is made */
	uint32_t version;   /* [L] */
	uint32_t hosts;	    /* [L] a power of two; 1: the home is here */
	uint64_t signature; /* [L] of the layout (signature.c) */
	uint64_t
		file_bytes; /* [L] of the memory; the pool's offsets go further (backing/parts.c) */
	uint64_t pool_id;   /* [L] random; 0: it has one host, and its home here */
	uint32_t
		silence_ms; /* [L] a host whose beat stands still for so long is silent: at most WEFT_SILENCE_MOST_MS */
	uint32_t flags; /* [L] enum weft_pool_flag; of a pool with its home in itself 0 */
	/* [L] each host has WEFT_MEMBERS >> slice_bits members, and as much less of the other tables. 0: it has one */
	uint32_t slice_bits;
	uint32_t
		cut_bits; /* [L] a segment has WEFT_SEGMENT >> cut_bits bytes, at most WEFT_CUT_BITS */
	/* [L] by host: members ever used in its slice are below this; their pages stay */
	_Atomic uint64_t members_end[WEFT_HOSTS];
};

/*
 * A death. Each step may be done again by the next recoverer, for the claim of a death ends with the process that has it.
 * A member that leaves does the same for itself, without a claim.
 *
 * word                  | writer    | transition                         | order
 * proof of life         | kernel    | ends with the process              | first
 * claim of the death    | recoverer | test of the proof and claim in one | before all that follows
 * member's `leaves`,    | recoverer | to 1; to nothing: no mailbox, no   | relaxed, before the barrier below, which
 * `mailbox_off`, ports, |           | port, no card, nothing asked (an   | those that visit the member fence against
 * card's `reach`, asks  |           | ask's `seq` becomes even)          | (pool/visit.c)
 * conn of its queue     | recoverer | to NONE or DIED, the next sequence;| relaxed; release. Behind all of them a barrier
 * pairs; then `qpn`     |           | then to 0                          | on all threads, and a wait for executors at it
 * id of its regions,    | recoverer | {n, key} to {n, 0}                 | release; before the same barrier
 * windows and objects   |           |                                    |
 * leases                | recoverer | to 0                               | release, after that wait
 * `merged`, `merging`,  | recoverer | counters of the dead go to         | under the file lock, as all below; `merging`
 * `departed`            |           | `departed`, all or nothing         | names it between the two halves: done again, the
 *                       |           |                                    | sum is the same
 * busy lines, `also`,   | recoverer | to 0; `rehomings` to the next NONE     | relaxed, before the incarnation
 * `lines`, `rehomings`      |           |                                    |
 * member's incarnation  | recoverer | to 0: the number is free           | release, last
 *
 * Where an executor at the dead member stands still the wait ends without result: its rights have ended, and its leases
 * and its number stay as they are until a later recoverer finds the executor gone.
 *
 * Stale values. A peer that still reads READY executes under a busy line for which the recoverer waits; its bytes
 * go into memory that has no new owner yet. A member that reads the old incarnation asks for its proof of life, and is
 * told that there is none. A reader of an old lease finds entries without key or number there. A revoker that waits for
 * a busy line of the dead finds another word there, or asks for the proof of life of the incarnation that it has noted.
 */

/*
 * Leases: 0 free, else member index + 1 in the low 16 bits and its incarnation above.
 * A run of segments that holds one large extent is leased segment by segment.
 *
 * word    | writer              | transition        | order
 * a lease | the next owner, [L] | 0 to its own word | acquire of the 0; of a block release, after its pages are
 *         |                     |                   | reserved; a segment's pages are reserved as they are used
 *         | owner               | to 0              | release, after its last store there; without the lock
 *         | recoverer           | to 0              | release, as above; pages of segments are given back before
 *
 * Stale values. A member that looks for a free lease and reads an old word passes over one that has just become free. A
 * reader that has once seen a block leased may look at its entries for ever: the pages of tables stay.
 */
struct weft_pool_leases {
	_Atomic uint64_t segment[WEFT_SEGMENTS];    /* as above */
	_Atomic uint64_t qp_block[WEFT_BLOCKS];	    /* as above */
	_Atomic uint64_t mr_block[WEFT_BLOCKS];	    /* as above */
	_Atomic uint64_t object_block[WEFT_BLOCKS]; /* as above */
	_Atomic uint32_t
		numbers; /* [L] where QPNs begin, and what is added to each; 0: none was leased */
};

/* A number from another pool, or from before, is not likely to hit a queue pair here. */
#define WEFT_NUMBERS(random)  ((random) | 1u << 31)
#define WEFT_NUMBERS_BLOCK(n) ((n) % WEFT_BLOCKS)
#define WEFT_NUMBERS_ADDED(n) ((n) >> 12 & 63)

#endif
