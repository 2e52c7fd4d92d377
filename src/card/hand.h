/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The card's half of requests that are handed over (pool/hand.h): which queue pairs it carries, what they have posted,
 * their bytes, and telling them what has ended. Where the requests go, it does not know.
 *
 * What is touched of a queue pair is touched between `enter` and `leave`, when the busy line of the card's thread names
 * its owner and the queue pair; what arrives for it goes by nic/incoming.h to `to`, when that line names it likewise.
 * Never both at once: bytes are gathered into memory of the card's, and placed from there. A pass from enter to leave
 * is short, as revocations wait for it.
 *
 * Context: one thread for each card. Nothing is kept in the pool's words that the thread needs again, so that a card
 * that is killed leaves each queue pair with what it was told last.
 */
#ifndef WEFT_CARD_HAND_H
#define WEFT_CARD_HAND_H

#include "nic/responder.h"
#include "pool/doorbell.h"
#include "pool/hand.h"

struct weft_card;
struct weft_pool_datagram;

/* What is copied of a queue pair: arrivals, answers to READs, bytes of requests, what those fetch. */
enum weft_copy_kind {
	WEFT_COPY_ARRIVES,
	WEFT_COPY_ANSWERS,
	WEFT_COPY_GATHERS,
	WEFT_COPY_FETCHES,
	WEFT_COPY_KINDS,
};

/* A queue pair that is handed to this card, in one connection. */
struct weft_card_hand {
	struct weft_card *card;
	struct weft_card_hand *next, **at_prev; /* of the card's */
	uint32_t index, qpn, tag, connection;
	uint8_t type;
	uint64_t next_busy; /* of the line, from enter to leave */
	struct weft_grant grant;
	struct weft_pool_qp *slot;
	struct weft_pool_hand *hand;
	struct weft_pool_ring *returns;
	uint8_t *sq;
	uint32_t sq_mask, sq_stride, returns_mask;
	uint8_t returns_bits;
	bool signal_all;
	bool stopped;	 /* it was told of an error, and has not resumed */
	uint64_t posted; /* as last seen */
	uint64_t resumed;
	uint64_t begun;		  /* requests before it have ended, or are being carried out */
	uint32_t line;		  /* the entry in the peer's stead */
	struct weft_responder to; /* what arrives for it */
	/* XRC: the receive queues that what arrives, and what is answered, has named last */
	struct weft_xrc_queue named, answered;
	/* The carrier's, of copies that take their time: in one object with the grants that they are attached to. */
	struct weft_later later[WEFT_COPY_KINDS];
	void *carried; /* the carrier's own */
};

struct weft_card {
	struct weft_nic *nic;
	struct weft_caller *caller;
	struct weft_card_hand *hands;
	struct weft_card_hand **by_index; /* WEFT_QPS of them */
	/* By member: so many rings of its doorbells were heard, of that incarnation. */
	struct weft_card_heard {
		uint64_t incarnation, rings;
	} * heard;
	bool behind; /* not all could be heard at the last look */
	/* Set by the carrier, or NULL: a queue pair has come; one is about to go. */
	void (*comes)(struct weft_card_hand *hand);
	void (*goes)(struct weft_card_hand *hand);
	/* Likewise: its doorbell has rung. The line is idle. */
	void (*rang)(struct weft_card_hand *hand);
	/* A datagram is to go, which may be read until this returns. False: not now. The line names its owner. */
	bool (*datagram)(struct weft_card *card, const struct weft_pool_datagram *datagram);
};

/* The nic's member is a card from now on, for the addresses that it has. card: zeros, but for the three calls. 0,
 * -ENOMEM. */
int weft_card_begin(struct weft_card *card, struct weft_nic *nic, struct weft_caller *caller,
		    enum weft_card_reach reach);
void weft_card_end(struct weft_card *card);

/* Looks at the queue pairs for which a doorbell has rung. Returns whether one was looked at. One whose owner is changing it, or
 * rehomes, and those behind it of the same member, wait for the next call. */
bool weft_card_look(struct weft_card *card);
/* For the files of the card: the datagrams in that outbox of a member. False: the carrier takes no more just now. The line is
 * idle. */
bool weft_card_take_datagrams(struct weft_card *card, uint16_t member, uint64_t incarnation,
			      uint32_t i);
/* Whether a member has, or had, datagrams for this card. The line is idle. */
bool weft_card_has_outbox(struct weft_card *card);
/* Forgets queue pairs that have gone without ringing. To be called now and then. */
void weft_card_sweep(struct weft_card *card);
/* The queue pair of that number, if it is handed to this card; else NULL. The line is idle. */
struct weft_card_hand *weft_card_find(struct weft_card *card, uint32_t qpn);
/* For the files of the card: the same by index alone, whatever its number is now. */
struct weft_card_hand *weft_card_at_index(struct weft_card *card, uint32_t index);
/* When weft_card_find has found none: whether it may find one soon, as the owner is just changing what the queue pair's line says. */
bool weft_card_comes_later(const struct weft_card *card, uint32_t index);

/* WEFT_DONE; WEFT_REHOMING: its owner rehomes: the same again, later; WEFT_NO_ANSWER: the connection is over, and
 * the hand was forgotten. The line is idle, and so it is again after anything but WEFT_DONE. */
enum weft_outcome weft_card_enter(struct weft_card_hand *hand);
void weft_card_leave(struct weft_card_hand *hand);
/* As weft_card_enter, but a hand whose connection is over is not forgotten: a later look does that. */
enum weft_outcome weft_card_try(struct weft_card_hand *hand);
/* For a carrier that has entered the queue pair for what arrives at it (weft_incoming_enter), by which the line names it already:
 * whether it may touch the requester's side, too. The line stays as it is. */
enum weft_outcome weft_card_look_at(struct weft_card_hand *hand);

/* ---- From enter to leave ---- */

/* Whether there is a request behind those that were begun, at position hand->begun. */
static inline bool weft_card_has_next(const struct weft_card_hand *hand)
{
	return hand->begun < hand->posted && !hand->stopped;
}

/* The request at that position of the send queue, which stays while the line is entered. Header and list have hand->sq_stride bytes
 * at most. */
const struct weft_wqe *weft_card_request(const struct weft_card_hand *hand, uint64_t position);

/*
 * Copies bytes of the request from `offset` on between the requester and here; request: a copy of it. bytes 0:
 * looks at its keys alone. WEFT_DONE; WEFT_FAILED with *cause; WEFT_REHOMING: later.
 */
enum weft_outcome weft_card_gather(struct weft_card_hand *hand, uint64_t position,
				   const struct weft_wqe *request, uint64_t offset, void *here,
				   uint64_t bytes, enum weft_cause *cause);
enum weft_outcome weft_card_scatter(struct weft_card_hand *hand, const struct weft_wqe *request,
				    uint64_t offset, void *here, uint64_t bytes,
				    enum weft_cause *cause);

/*
 * Ends the oldest request that has not ended: well, or with that cause. After a cause none behind it is begun; and with
 * a reliable connection nothing arrives for the queue pair any more either (hand->stopped), as its owner would take a fault that is
 * found there for older than the request's.
 */
void weft_card_succeed(struct weft_card_hand *hand, uint64_t position,
		       const struct weft_wqe *request);
void weft_card_fail(struct weft_card_hand *hand, uint64_t position, enum weft_cause cause);

#endif
