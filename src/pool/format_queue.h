/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Receives, and the queue from which many members take them. Writers: as in format.h. */
#ifndef WEFT_POOL_FORMAT_QUEUE_H
#define WEFT_POOL_FORMAT_QUEUE_H

#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sge.h"
#include "pool/sizes.h"

/* A receive as posted. Written by the owner before rq_posted grows; read by the connected peer. */
struct weft_pool_recv {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t reserved;
	struct weft_pool_sge sge[];
};

/*
 * A receive queue from which many members take, each receive for one message of its own: that of a
 * UD queue pair, or one that queue pairs share. The receive of position n stands in slot n % size
 * and is there if the slot's state says {FREE, n's lap}; positions without are passed over. A taker that
 * wants it makes claim n % size, of another lap until then, {TAKEN, lap, member}, by compare-and-swap as
 * others may want it, too; places the bytes; writes the slot's `taken`; and makes the state {DONE, lap}, by
 * compare-and-swap again, for the owner may have given up on it; then its claim DONE. The owner makes a
 * completion of that, and the slot EMPTY. It waits looking at the oldest slot alone, which is written
 * once for each message. So a taker that completes behind one of which it does not know that it is complete tells
 * by `late` before: then the owner looks at claims, to go past those that are TAKEN.
 * Where hosts share no atomic instructions, the owner's helper makes each exchange, and stores `late` and `fault`, for the takers of other
 * hosts, which ask it (struct weft_pool_change).
 */
/*
 * word              | writer   | transition                                | order
 * slot's state      | owner    | EMPTY to {FREE, lap}                      | release, after the receive, before `posted`
 *                   | taker    | {FREE, lap} to {DONE, lap}, by exchange   | release, after the bytes, the slot's `taken`
 *                   |          |                                           | and `late`
 *                   | owner    | {DONE, lap} to EMPTY: polled, or of no    | relaxed; before the receive is posted again
 *                   |          | connection any more                       |
 *                   | owner    | {FREE, lap} to EMPTY: its taker is dead   | relaxed; likewise. The claim was read with
 *                   |          | or has let go of it                       | acquire, behind the taker's last bytes
 *                   | owner    | any to EMPTY: withdrawn, as the queue     | relaxed, after takers are shut out
 *                   |          | pair that has the queue is reset or fails |
 * claim             | takers   | older lap to {TAKEN, lap, member}, by     | acquire and release: what stood in the slot
 *                   |          | exchange                                  | while it was free is the receive that is taken
 *                   | taker    | TAKEN to DONE, by exchange                | release, after the state
 *                   | taker    | its own TAKEN to that of no member, by    | release, after what it has placed: the owner
 *                   |          | exchange: nothing comes                   | posts the receive again, and others place there
 * `posted`          | owner    | grows                                     | release, after the slot
 * `taken` (a hint)  | takers   | grows by one, by exchange                 | release, after the claim that it passes
 * `late`            | taker    | any to LATE                               | release, before its state
 *                   | owner    | LATE to SEEN, by exchange                 | acquire, before it looks at claims
 *                   | owner    | SEEN to 0, by exchange                    | relaxed, after that, if it found none that is
 *                   |          |                                           | DONE and went past none that is TAKEN
 * `limit`           | owner    | armed; to 0, when it was reached          | relaxed, then a barrier on all threads, then
 *                   |          |                                           | it counts; takers read it after their claim
 * `fault`           | taker    | to the tag of the queue pair at fault     | release, after the completion in error
 *                   | owner    | that tag to 0, by exchange; to 0 at RESET | acquire
 * `next_off`        | owner    | 0 to the next stretch                     | release, after the last `posted` of this one
 *
 * Stale values. A taker that reads an old `posted` finds nothing, which is an RNR NAK, and tries again. One that
 * reads an old `taken` looks at claims of this lap, and passes over them. One that reads an old claim loses its
 * exchange. An owner that reads an old state has the completion at its next poll. A taker that
 * the owner has given up on fails at its exchange of the state, which is EMPTY or of another lap: no completion
 * comes of a message that was never acknowledged. A taker that reads `limit` 0 has claimed before the barrier of the
 * arming owner, which counts its claim; one that reads an old limit signals the owner, which counts, and finds that
 * there are enough. A taker that reads an old `fault` completes one more receive of a queue pair that is
 * about to fail, as if its datagram had come a moment earlier. An owner that looks for receives to be posted again, and
 * reads an old claim, finds the new one at its next look, half a second later.
 */
enum weft_claim {
	WEFT_CLAIM_EMPTY,
	WEFT_CLAIM_FREE,
	WEFT_CLAIM_TAKEN,
	WEFT_CLAIM_DONE,
};

#define WEFT_LAP_BITS	      24u
#define WEFT_INCARNATION_BITS 28u
#define WEFT_CLAIM(what, lap) ((uint64_t)(lap) << 40 | (what))
#define WEFT_CLAIM_WHO(member, incarnation)                                                        \
	((uint64_t)(member) << 2 | ((incarnation) & ((1ull << WEFT_INCARNATION_BITS) - 1)) << 12)

static inline uint32_t weft_claim_lap(uint64_t claim)
{
	return (uint32_t)(claim >> 40);
}

static inline enum weft_claim weft_claim_what(uint64_t claim)
{
	return (enum weft_claim)(claim & 3);
}

static inline uint16_t weft_claim_member(uint64_t claim)
{
	return claim >> 2 & 1023;
}

static inline uint32_t weft_claim_incarnation(uint64_t claim)
{
	return claim >> 12 & ((1u << WEFT_INCARNATION_BITS) - 1);
}

struct weft_pool_taken {
	uint32_t tag; /* the queue pair it came for, as in a weft_pool_cqe; 0: nothing came */
	uint32_t byte_len;
	uint32_t imm;
	uint32_t src_qpn; /* and above it the service level */
	uint8_t status, opcode;
	uint8_t flags, solicited;
};

struct weft_pool_slot {
	_Atomic uint64_t state;	      /* [O] EMPTY, FREE; [P] the member that has TAKEN it: DONE */
	struct weft_pool_taken taken; /* [P] the member that has TAKEN it */
	uint32_t told;		      /* [O] its completion does not end the arming of its queue */
	struct weft_pool_recv recv;   /* [O] */
};

#define WEFT_LATE      1u
#define WEFT_LATE_SEEN 2u

struct weft_pool_srq {
	uint32_t size, stride;	/* [O] a power of two of slots, of so many bytes */
	uint32_t pd;		/* [O] whose memory the receives may name */
	_Atomic uint32_t limit; /* [O] with fewer left its owner is signalled; 0: never */
	_Atomic uint32_t
		fault; /* [P] the tag of the UD queue pair, a receive of which gave no access to its buffer; [O] 0 */
	/* [O] the longer queue into which it was posted afterwards, or 0. Stored after the last `posted`.
	 * Of those, the limit and the fault are the first one's; it keeps its place while they last */
	_Atomic uint64_t next_off;
	_Alignas(WEFT_LINE) _Atomic uint64_t posted; /* [O] positions ever used are below it */
	/* [P] WEFT_LATE: one was completed out of turn; [O] WEFT_LATE_SEEN, and 0 again. The first one's, too */
	_Atomic uint32_t late;
	/* [P] takers: nothing is free below it. A hint: it may lag behind */
	_Alignas(WEFT_LINE) _Atomic uint64_t taken;
	/* then as many claims, [P] takers; and times of completion, [P] the member that has TAKEN it, if they are wanted
	 * (struct weft_pool_ring) */
	_Alignas(WEFT_LINE) uint8_t slots[];
};

static inline uint64_t weft_pool_srq_bytes(uint32_t size, uint32_t stride)
{
	return sizeof(struct weft_pool_srq) + (uint64_t)size * (stride + 2 * sizeof(uint64_t));
}

static inline _Atomic uint64_t *weft_pool_claims(struct weft_pool_srq *at, uint32_t size,
						 uint32_t stride)
{
	return (_Atomic uint64_t *)(at->slots + (uint64_t)size * stride);
}

static inline uint64_t *weft_pool_srq_stamps(struct weft_pool_srq *at, uint32_t size,
					     uint32_t stride)
{
	return (uint64_t *)(weft_pool_claims(at, size, stride) + size);
}

_Static_assert(sizeof(struct weft_pool_slot) + sizeof(struct weft_pool_sge) == WEFT_LINE,
	       "a receive of one element and its completion are one line");

#endif
