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
	WEFT_CONN_REHOMING = 3, /* its owner's memory moves: READY again soon */
};

#define WEFT_ANY_PSN UINT32_MAX

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

	/* [O] receives ever posted; it never goes back, and what lies before rq_start is void */
	_Alignas(WEFT_LINE) _Atomic uint64_t rq_posted;
	_Atomic uint64_t rq_start;
	/* of the first request that it takes; read as the line above. WEFT_ANY_PSN: of any */
	_Atomic uint32_t rq_psn;
	/* of its struct weft_pool_hand, read as that; 0: no card carries its requests */
	_Atomic uint64_t hand_off;

	/* [O] too, but about the peer: how many of its receives I have used, in which epoch of whose */
	_Alignas(WEFT_LINE) _Atomic uint64_t rq_taken;
	_Atomic uint32_t rq_taken_epoch, rq_taken_qpn;
	/* [P] the peer, as it goes: how many of my receives it had used (lower half), in which epoch of mine */
	_Atomic uint64_t rq_left;
	/* the peer's conn word at which I found it at fault, why (enum weft_event), and its QPN: the
	 * peer's owner derives its state from it, even when I have gone */
	_Atomic uint64_t fault_conn;
	_Atomic uint32_t fault_code, fault_qpn;
};

_Static_assert(sizeof(struct weft_pool_qp) == 3 * WEFT_LINE, "one line a writer");

#endif
