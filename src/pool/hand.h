/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A queue pair whose requests a card carries out. Its send queue lies in the pool, too, and posting writes there; what
 * has been posted is told by one word, and what has ended by another. Writers as in format.h; [P] is the card.
 *
 * word      | writer | transition                              | order
 * `posted`  | owner  | grows: requests before it are handed on | release, after the request; then a fence, then `seen` is
 *           |        |                                         | read: if the card has seen all that was posted before,
 *           |        |                                         | the owner rings its doorbell (doorbell.h)
 * `seen`    | card   | to the `posted` that it has read        | relaxed; then a fence, then `posted` is read once more
 * `ended`   | card   | grows: requests before it have ended    | release, after the entry of a signaled one in the return
 *           |        | well                                    | ring; then the owner is woken if it is armed
 * `verdict` | card   | to the request that has failed, and of  | release, after the `ended` of those before it; then the
 *           |        | what: none behind it is begun           | owner's helper is signalled
 * `resumed` | owner  | to the position + 1 where the card      | release, before `posted`
 *           |        | begins again after its last verdict     |
 *           |        | (queue pairs without reliability, after |
 *           |        | SQE)                                    |
 * `line`    | card   | to the entry that it has for the peer   | release, after the entry; before anything arrives
 *
 * Stale values. A card that reads an old `posted` has stored an old `seen`: it reads the new one behind its fence, or the
 * owner reads that `seen`, and rings. An owner that reads an old `seen` does not ring: then the card has yet to pass its
 * fence, and reads the new `posted` behind it; if it reads the newest, the ring may be for nothing. An owner that reads an
 * old `ended` keeps what waits for all before it (local operations, SQD) waiting until its next look; one that reads
 * an old `verdict` is signalled after it looked. Of a card that has died the owner reads what it stored last, and the
 * return ring, which may be one entry ahead of `ended`.
 *
 * The card touches all of it, and the send queue, only while its busy line names this queue pair, and after it has seen
 * that conn says READY and the connection is the one that it knows: so the owner takes it back as it revokes
 * anything else.
 */
#ifndef WEFT_POOL_HAND_H
#define WEFT_POOL_HAND_H

#include "backing/atomic.h"
#include "pool/sizes.h"

/* What a connection has been told, as far as its requests need it. */
struct weft_pool_path {
	uint32_t dest_qpn, sq_psn, flow_label;
	uint8_t sgid[16], dgid[16];
	uint8_t path_mtu, hop_limit, traffic_class, service_level;
	uint8_t rnr_retry, retry_cnt, timeout; /* codes of 11.2.5.2 */
	uint8_t max_rd_atomic, max_dest_rd_atomic;
};

struct weft_pool_hand {
	/* [O] before conn says READY */
	uint64_t sq_off;     /* of the send queue: slots as struct weft_wqe has them */
	uint64_t return_off; /* of the ring of successes, in the completion queue of requests */
	uint32_t sq_size, sq_stride;
	uint32_t tag; /* of its entries */
	uint16_t card;
	uint8_t signal_all;
	struct weft_pool_path path; /* [O] while nothing is handed that has not ended */

	_Alignas(WEFT_LINE) _Atomic uint64_t posted;
	_Atomic uint64_t resumed;

	_Alignas(WEFT_LINE) _Atomic uint64_t seen;
	_Atomic uint64_t ended;
	_Atomic uint64_t verdict;
	_Atomic uint32_t
		line; /* entry of the table of queue pairs that the card has in place of the peer's; 0: none */
};

#define WEFT_VERDICT_CAUSE_BITS 8u

/* cause: enum weft_cause */
static inline uint64_t weft_verdict(uint64_t position, uint32_t cause)
{
	return (position + 1) << WEFT_VERDICT_CAUSE_BITS | cause;
}

static inline uint64_t weft_verdict_position(uint64_t verdict)
{
	return (verdict >> WEFT_VERDICT_CAUSE_BITS) - 1;
}

static inline uint32_t weft_verdict_cause(uint64_t verdict)
{
	return verdict & ((1u << WEFT_VERDICT_CAUSE_BITS) - 1);
}

#endif
