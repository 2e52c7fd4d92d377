/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A request that arrives in parts, whichever transport brings them: *begin* gives the verdict on all of it,
 * *place* copies the bytes from an offset on, in any order and again if need be, *end* tells the responder. Each
 * of these stands between *enter* and *leave*, which is when a busy line names the responder's owner; in between
 * nothing is held, the owner may revoke what it likes, and each part is checked anew. A request that is under way
 * has a line of its own: its thread may be at work elsewhere, and the revoker waits for either.
 *
 * One request of a requester arrives at a time, under a lock of the carrier's. Atomics are not
 * parted: they are what nic/arrive.h says, at `at`, between enter and leave. The whole of a request in
 * one call is there, too.
 */
#ifndef WEFT_NIC_INCOMING_H
#define WEFT_NIC_INCOMING_H

#include "nic/cause.h"
#include "nic/place.h"
#include "nic/responder.h"
#include "nic/transport.h"
#include "nic/wqe.h"

struct weft_incoming {
	struct weft_responder *to;    /* that is connected */
	struct weft_responder *at;    /* whose keys and receives it is about; from enter to leave */
	struct weft_xrc_queue *queue; /* that it names; NULL: it is not of XRC */
	struct weft_caller *caller;   /* whose line it is, from enter to leave */
	uint64_t next;		      /* of that line */
	uint64_t len_bytes;	      /* of all parts */
	uint64_t wr_id;		      /* of the receive that it goes into */
	uint64_t binding;	      /* of the window that it ends */
	uint32_t tag;		      /* of the connection in which it began */
	bool begun;
	bool lost; /* the receive that it went into is gone, which the next call tells */
	struct weft_wqe request; /* its header; last, as elements may follow such a one */
};

/* A request, of which nothing is done yet. The responder was found (weft_responder_find). */
void weft_incoming_prepare(struct weft_incoming *in, struct weft_responder *to,
			   const struct weft_wqe *request, uint64_t len_bytes);
/* The same of XRC. queue: the carrier's, the same for all requests of the connection; what is held there is let
 * go of (weft_responder_drop) when that ends. */
void weft_incoming_prepare_xrc(struct weft_incoming *in, struct weft_responder *to,
			       struct weft_xrc_queue *queue, const struct weft_wqe *request,
			       uint64_t len_bytes);

/*
 * The outcomes of these: WEFT_DONE; WEFT_FAILED, with *cause, and the responder knows it, too;
 * WEFT_NO_ANSWER (of an unreliable connection: it is dropped) or WEFT_REHOMING: the same again, later;
 * WEFT_NO_RECEIVE: there is none, or the one that it went into is gone: it has to begin anew.
 */

/* The line of `caller` is idle, and so it is again after anything but WEFT_DONE. `at` is NULL if XRC names a queue that
 * there is not: beginning fails then. */
enum weft_outcome weft_incoming_enter(struct weft_incoming *in, struct weft_caller *caller);
void weft_incoming_leave(struct weft_incoming *in);

enum weft_outcome weft_incoming_begin(struct weft_incoming *in, enum weft_cause *cause);
/* here: the requester's bytes of this part, which lie at that offset of all; if they are found by a
 * key, since `enter`. */
enum weft_outcome weft_incoming_place(struct weft_incoming *in, uint64_t offset,
				      const struct weft_spans *here, enum weft_cause *cause);
void weft_incoming_end(struct weft_incoming *in);

#endif
