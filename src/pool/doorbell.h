/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What members and cards tell each other in their pages: see hand.h. */
#ifndef WEFT_POOL_DOORBELL_H
#define WEFT_POOL_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sizes.h"

#define WEFT_DOORBELLS 64u
/* A doorbell that is not about a queue pair, but about that outbox of the member's. */
#define WEFT_DOORBELL_OUTBOX 0x80000000u
/* Cards to which a member has datagrams, at a time. */
#define WEFT_OUTBOXES 4u

/*
 * The bell of a completion channel, or of a card: what wakes its owner writes 8 bytes into the pipe that is the owner's
 * descriptor `fd`, unless it is told already. The inode says whether a descriptor is still that pipe. The card of a torus's node,
 * which also sleeps for its neighbours, sleeps on `told` itself: it is woken there.
 */
#define WEFT_BELL_WORD (-2)
struct weft_pool_bell {
	_Atomic uint32_t
		told; /* [*] 1 before it is written to, [O] 0 before it looks which queues have news */
	_Atomic int32_t
		fd; /* [O] for reading and writing; -1: the owner's helper has to write; WEFT_BELL_WORD */
	uint64_t dev, ino; /* [O] */
};

_Static_assert(sizeof(struct weft_pool_bell) <= WEFT_LINE, "it is a piece of one line");

/* Which requests a card carries that come from one of its addresses. */
enum weft_card_reach {
	WEFT_CARD_NONE,	  /* the member is no card */
	WEFT_CARD_BEYOND, /* requests to addresses that no member of the pool has */
	WEFT_CARD_ALL,	  /* all, those too that could be reached in the pool: for tests */
};

/* What a card tells of itself: name, column of `weft nic list`. Bytes are those of UDP's payload. */
#define WEFT_CARD_TELLS(X)                                                                         \
	X(MTU, "mtu")                                                                              \
	X(QPS, "queue_pairs")                                                                      \
	X(PACKETS_OUT, "packets_sent")                                                             \
	X(BYTES_OUT, "bytes_sent")                                                                 \
	X(PACKETS_IN, "packets_received")                                                          \
	X(BYTES_IN, "bytes_received")                                                              \
	X(SENT_AGAIN, "sent_again")                                                                \
	X(DUPLICATES, "duplicates")                                                                \
	X(OUT_OF_SEQUENCE, "out_of_sequence")                                                      \
	X(RNR, "receiver_not_ready")                                                               \
	X(TIMEOUTS, "timeouts")                                                                    \
	X(WRONG_ICRC, "wrong_icrc")                                                                \
	X(WEAK_ICRC, "taken_on_16_bits")                                                           \
	X(NO_QP, "for_no_queue_pair")                                                              \
	X(UNSENT, "unsent")

enum weft_card_count {
#define WEFT_CARD_COUNT(name, words) WEFT_CARD_##name,
	WEFT_CARD_TELLS(WEFT_CARD_COUNT)
#undef WEFT_CARD_COUNT
		WEFT_CARD_COUNTS
};

/*
 * Which of its queue pairs have something for a card: ring n stands in doorbell n % WEFT_DOORBELLS until that is
 * overwritten.
 *
 * word       | writer | transition                     | order
 * `doorbell` | owner  | to the queue pair              | release: a card that reads it reads a `rings` of n at least
 * `rings`    | owner  | grows                          | release, after it; then the card is woken: by `bell`, if it
 *            |        |                                | can be, or by its helper
 * `address`  | card   | 0 to the GID that it plays     | before `reach`
 * `bell`     | card   | all but `told`                 | before `reach`
 * `told`     | card   | to 0 before it sleeps          | seq_cst; then it looks once more
 *            | card   | to 1 when it is awake          | relaxed
 *            | owner, | to 1, and writes if it was 0   | seq_cst, after `rings`
 *            | others |                                |
 * `reach`    | card   | NONE to what it carries        | release, last
 *            | card,  | to NONE                        | relaxed; by the recoverer format.h
 *            | [L]    |                                |
 *
 * Stale values. A card that reads an old `rings` is woken after it looked. One that reads a doorbell which was
 * overwritten finds by `rings` that it was, and looks at all queue pairs of the member. A member that reads an old `reach`
 * connects as if there were no card yet, or connects to one that has just ended: then it finds that it is dead.
 */
struct weft_pool_card {
	_Alignas(64) _Atomic uint64_t rings;	   /* [O] so many; stored last */
	_Atomic uint32_t doorbell[WEFT_DOORBELLS]; /* [O] index of a queue pair, or of an outbox */
	_Atomic uint64_t outbox
		[WEFT_OUTBOXES]; /* [O] where they are (outbox.h), [L] a recoverer: 0; none yet */
	_Alignas(64) struct weft_pool_bell
		bell; /* of the thread that has its engines; no inode, no word: only its helper can wake it */
	_Atomic uint32_t reach;	     /* [O] enum weft_card_reach; [L] a recoverer: NONE */
	_Atomic uint64_t address[2]; /* [O] the GID that it plays; 0: all that the member has */
	_Atomic uint64_t told[WEFT_CARD_COUNTS]; /* [O] by enum weft_card_count, now and then */
};

/* Whether a card plays whatever addresses its member has. */
static inline bool weft_card_plays_all(const struct weft_pool_card *card)
{
	return !(atomic_load_explicit(&card->address[0], memory_order_relaxed) |
		 atomic_load_explicit(&card->address[1], memory_order_relaxed));
}

/* Whether a card plays that address; if it plays all, its member must have it. */
static inline bool weft_card_plays(const struct weft_pool_card *card, const uint8_t gid[16])
{
	uint64_t half[2] = {atomic_load_explicit(&card->address[0], memory_order_relaxed),
			    atomic_load_explicit(&card->address[1], memory_order_relaxed)};

	return weft_card_plays_all(card) || !__builtin_memcmp(half, gid, 16);
}

#endif
