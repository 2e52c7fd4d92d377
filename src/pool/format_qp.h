/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A queue pair, as its peer sees it: QPN = index | generation << 18 (weft_qp_number). Writers: as in format.h. */
#ifndef WEFT_POOL_FORMAT_QP_H
#define WEFT_POOL_FORMAT_QP_H

#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sizes.h"

/*
 * The responder's side of a queue pair as peers see it.
 * conn: destination QPN (24 bits), weft_pool_conn (8 bits), and above them a sequence that grows
 * with every change of this line, so that a peer compares one word to know that all it has read
 * before still holds.
 */
enum weft_pool_conn {
	WEFT_CONN_NONE = 0,	/* RESET or INIT, or no queue pair */
	WEFT_CONN_READY = 1,	/* takes requests */
	WEFT_CONN_ERROR = 2,	/* nothing is answered */
	WEFT_CONN_REHOMING = 3, /* its owner rehomes: READY again soon */
	/* no queue pair: its owner has died while it was READY or rehomed. Until the entry is another's */
	WEFT_CONN_DIED = 4,
};

#define WEFT_ANY_PSN UINT32_MAX

/*
 * word                 | writer           | transition                        | order
 * conn                 | owner            | any to NONE, the next sequence    | relaxed, then a release fence, then the line
 *                      | owner            | that to any state, the sequence   | release, after the line; where peers could
 *                      |                  | after it                          | execute before, then a barrier on all
 *                      |                  |                                   | threads, and a wait for executors
 *                      | recoverer        | any to NONE or DIED, the next     | format.h
 *                      |                  | sequence                          |
 * `qpn`                | owner            | 0 to the number; the number to 0  | release, after conn; relaxed, before conn is
 *                      |                  |                                   | NONE for good
 * `rq_posted`          | owner            | grows                             | release, after the receive
 * `rq_start`,          | owner            | grow, when the queue is emptied   | while conn is NONE
 * `rq_epoch`           |                  |                                   |
 * `rq_taken`, with     | owner, of the    | grows with each receive used      | relaxed: read by the owner itself, and by
 * its epoch and QPN    | peer's receives  |                                   | `weft info`
 * `rq_left`            | peer             | to {epoch, used}, by exchange     | before the peer connects anew, in the same
 *                      |                  |                                   | epoch only
 * `fault_conn`         | owner, as the    | to the peer's conn word           | release, after `fault_code` and `fault_qpn`
 *                      | executor at it   |                                   |
 * `events`             | owner            | one event more                    | release
 *
 * Stale values. A peer that reads an old conn executes under its busy line, for which the owner waits behind the
 * barrier. One that reads a conn that has changed meanwhile, also the NONE between two states, finds no responder, and
 * tries again until the queue pair's timers end the request. An old `rq_posted` is an RNR NAK. An owner that reads an
 * old `fault_conn` goes on until its helper is signalled for it; a fault of an older connection has a smaller sequence
 * than the owner's word when it connected, and is none. A member that has the queue pair open and reads old
 * `events` is told of the new ones at its next look; when there were more than four meanwhile the oldest are lost.
 */

struct weft_pool_qp {
	_Atomic uint64_t conn; /* [O] stored last */
	_Atomic uint32_t qpn;  /* [O] 0: free */
	_Atomic uint32_t pd;   /* [O] all of this line; read between two equal looks at conn */
	/* of the receive ring, rq_size slots of rq_stride bytes; or, with rq_size 0, of a struct
	 * weft_pool_srq */
	_Atomic uint64_t rq_off;
	/* of the completion ring that the connected peer fills; then without entries */
	_Atomic uint64_t ring_off;
	_Atomic uint32_t rq_size, rq_stride;
	_Atomic uint16_t owner;
	_Atomic uint8_t type, state; /* state: for `weft info` */
	_Atomic uint8_t access, min_rnr_timer;
	_Atomic uint8_t generation; /* survives the queue pair */
	_Atomic uint8_t connection; /* grows when one ends: what its peer still completes is void */
	_Atomic uint32_t rq_epoch;  /* grows when the receive queue is emptied */
	_Atomic uint32_t qkey;	    /* of XRC: the domain */
	/* of XRC_RECV, for others that have it open: the last four asynchronous events (enum weft_event), eight
	 * bits each, and in the upper half how many there were. Not guarded by conn */
	_Atomic uint64_t events;

	/* [O] receives ever posted, over all queue pairs that had the entry; what lies before rq_start is void */
	_Alignas(WEFT_LINE) _Atomic uint64_t rq_posted;
	_Atomic uint64_t rq_start;
	/* of the first request that it takes; read as the line above. WEFT_ANY_PSN: of any */
	_Atomic uint32_t rq_psn;
	/* of its struct weft_pool_hand, read as that; 0: no card carries its requests */
	_Atomic uint64_t hand_off;

	/* [O] too, but about the peer: how many of its receives this queue pair has used, in which epoch of which QPN */
	_Alignas(WEFT_LINE) _Atomic uint64_t rq_taken;
	_Atomic uint32_t rq_taken_epoch, rq_taken_qpn;
	/* [P] the peer, as it disconnects: how many receives of this queue pair it had used (lower half), in which epoch */
	_Atomic uint64_t rq_left;
	/* the peer's conn word at which it was found at fault by requests of this queue pair, why (enum weft_event), and its
	 * QPN: the peer's owner derives its state from it, even when this queue pair has gone */
	_Atomic uint64_t fault_conn;
	_Atomic uint32_t fault_code, fault_qpn;
};

_Static_assert(sizeof(struct weft_pool_qp) == 3 * WEFT_LINE, "one line a writer");

#endif
