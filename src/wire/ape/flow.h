/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A flow: packets from one node to another, each taken exactly once and in order, whatever cables
 * and routers do. Two classes a pair of nodes: requests, and answers, which are always taken, so
 * that neither waits for the other. Here are its numbers and timers alone; ni.c makes packets of
 * slots and gives those that are taken to the one that places them.
 *
 * Sequences have 24 bits and are compared as serial numbers. The sender opens with HELLO, which
 * says with which sequence it begins; the receiver never goes back, so that an old HELLO does
 * nothing. A sender that gave up opens again behind all that it ever sent.
 */
#ifndef WEFT_WIRE_APE_FLOW_H
#define WEFT_WIRE_APE_FLOW_H

#include "wire/ape/late.h"
#include "wire/ape/packet.h"

#define WEFT_APE_WINDOW	    128u /* packets under way at most */
#define WEFT_APE_ACK_EVERY  8u
#define WEFT_APE_SMALL	    16u /* bytes of a packet that has no memory behind it */
#define WEFT_APE_NO_MESSAGE UINT16_MAX

enum weft_ape_class {
	WEFT_APE_REQUESTS,
	WEFT_APE_ANSWERS,
	WEFT_APE_CLASSES,
};

/* A packet that is not acknowledged yet: what it takes to make it again. */
struct weft_ape_slot {
	uint8_t type;
	uint16_t channel, bytes, process;
	uint16_t message; /* whose it is; WEFT_APE_NO_MESSAGE */
	uint64_t addr;	  /* of the header */
	uint64_t from;	  /* in the process */
	bool is_small;	  /* the payload stands here */
	uint8_t small[WEFT_APE_SMALL];
};

enum weft_ape_flow_state {
	WEFT_APE_FLOW_CLOSED,
	WEFT_APE_FLOW_OPENING, /* HELLO was sent */
	WEFT_APE_FLOW_OPEN,
};

struct weft_ape_flow {
	/* Sending. */
	enum weft_ape_flow_state state;
	uint32_t una, next;   /* the oldest that is under way; the next new one */
	uint32_t resend;      /* what is sent next: una to next */
	uint64_t progress_ns; /* when something was acknowledged last, or begun */
	uint64_t again_ns;    /* when it is sent again; 0: nothing is under way */
	uint8_t backoff;
	bool hello_due;
	struct weft_ape_slot slot[WEFT_APE_WINDOW];
	/* Receiving. */
	bool heard; /* a HELLO */
	uint32_t expect;
	uint8_t unacked;
	bool welcome_due, ack_due, nak_due, nak_sent;
	bool refusing; /* the packet `expect` was refused, and its sender has not yet sent NOTHING in its place */
	struct weft_ape_late late; /* acknowledgements that go with the next packet to the peer */
	/* Counters. */
	uint64_t sent, again, taken, old, early, timeouts;
};

struct weft_ape_flow_times {
	uint64_t again_ns;   /* without an acknowledgement; doubled each time, up to 64 times it */
	uint64_t give_up_ns; /* after so long without one */
	/* So long an acknowledgement may wait for a packet that takes it along (0: none waits), where messages were answered
	 * within soon_ns. */
	uint64_t late_ns, soon_ns;
};

/* How far a is ahead of b, as serial numbers; positive: a comes later. */
static inline int32_t weft_ape_seq_ahead(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << (32 - WEFT_APE_SEQ_BITS)) >> (32 - WEFT_APE_SEQ_BITS);
}

static inline uint32_t weft_ape_seq_add(uint32_t seq, uint32_t n)
{
	return (seq + n) & WEFT_APE_SEQ_MASK;
}

static inline struct weft_ape_slot *weft_ape_flow_slot(struct weft_ape_flow *f, uint32_t seq)
{
	return &f->slot[seq % WEFT_APE_WINDOW];
}

static inline bool weft_ape_flow_has_room(const struct weft_ape_flow *f)
{
	return weft_ape_seq_ahead(f->next, f->una) < (int32_t)WEFT_APE_WINDOW;
}

/* At most one packet of a flow waits to be sent, so that flows with more take turns. */
static inline bool weft_ape_flow_takes(const struct weft_ape_flow *f)
{
	return f->resend == f->next && weft_ape_flow_has_room(f);
}

/* Nothing was acknowledged for so long that packets were sent again, and it takes no more: it may be long until it does. */
static inline bool weft_ape_flow_stands_still(const struct weft_ape_flow *f)
{
	return f->backoff && !weft_ape_flow_takes(f);
}

/* Puts a packet behind the others; there is room. Opens the flow if it is closed. since_ns: where none is before it, it is given up
 * so long after that. */
void weft_ape_flow_push(struct weft_ape_flow *f, const struct weft_ape_slot *slot,
			uint64_t since_ns);
/* Whether a packet is to be sent now; then *seq is its number, and it counts as sent. */
bool weft_ape_flow_next(struct weft_ape_flow *f, const struct weft_ape_flow_times *times,
			uint64_t now_ns, uint32_t *seq);
/* To be called when HELLO was sent, with una as its sequence. */
void weft_ape_flow_asked(struct weft_ape_flow *f, const struct weft_ape_flow_times *times,
			 uint64_t now_ns);
/* The peer has taken the flow on. */
void weft_ape_flow_welcome(struct weft_ape_flow *f, uint32_t ack, uint64_t now_ns);
/* Takes an acknowledgement: una moves; returns how many packets it has passed. */
uint32_t weft_ape_flow_acked(struct weft_ape_flow *f, uint32_t ack,
			     const struct weft_ape_flow_times *times, uint64_t now_ns);
/* All behind una is sent again. */
void weft_ape_flow_go_back(struct weft_ape_flow *f);

enum weft_ape_flow_timer {
	WEFT_APE_FLOW_QUIET,
	WEFT_APE_FLOW_AGAIN,   /* something is to be sent */
	WEFT_APE_FLOW_GIVE_UP, /* the peer answers no more; weft_ape_flow_close is the owner's */
};
enum weft_ape_flow_timer weft_ape_flow_timer(struct weft_ape_flow *f,
					     const struct weft_ape_flow_times *times,
					     uint64_t now_ns);
/* Nothing is under way any more; the next packet opens it again. */
void weft_ape_flow_close(struct weft_ape_flow *f);

enum weft_ape_arrival {
	WEFT_APE_TAKE,	/* it is the next one; weft_ape_flow_taken, if it was */
	WEFT_APE_OLD,	/* it was taken; its sender is told */
	WEFT_APE_EARLY, /* one before it is missing; its sender is told once */
	WEFT_APE_UNKNOWN,
};
enum weft_ape_arrival weft_ape_flow_arrived(struct weft_ape_flow *f, uint32_t seq);
/* The packet `expect` was taken; end: it is the last of a message, and acknowledged at once, or soon (late_ns). */
void weft_ape_flow_taken(struct weft_ape_flow *f, bool end, const struct weft_ape_flow_times *times,
			 uint64_t now_ns);
/* A packet that acknowledges goes; content: it would go anyway. */
void weft_ape_flow_acks(struct weft_ape_flow *f, bool content,
			const struct weft_ape_flow_times *times, uint64_t now_ns);
/* Whether a late acknowledgement has waited long enough: then it is due. */
bool weft_ape_flow_late(struct weft_ape_flow *f, uint64_t now_ns);
/* HELLO: whether it begins something new, so that what was half received is void. */
bool weft_ape_flow_hello(struct weft_ape_flow *f, uint32_t seq);

#endif
