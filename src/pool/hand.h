/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A queue pair whose requests a card carries out. Its send queue lies in the pool, too, and posting writes there; what
 * has been posted is told by one word, and what has ended by another. Writers as in format.h; [P] is the card.
 *
 *   posted    [O]  requests handed to the card: those before it, in order
 *   seen      [P]  `posted` at the card's last look. If it has seen all that was posted before, the owner rings the
 *                  doorbell: each stores its own word, fences, and then loads the other's, so that one of them sees
 *   ended     [P]  requests before it have ended well, and the signaled ones stand in the return ring already
 *   verdict   [P]  0; or the request that has failed, and of what: none behind it is begun
 *   resumed   [O]  0; or where the card begins again after its last verdict: position + 1 (queue pairs without
 *                  reliability, after SQE)
 *
 * A stale `posted` costs the card a look: the doorbell comes. A stale `seen` costs a ring of the doorbell for nothing. A
 * stale `ended` keeps what waits for all before it (local operations, SQD) waiting until the next look.
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
