/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One end of a connection, or of a lookup of a datagram service: the states of InfiniBand volume 1,
 * 12.9.5 to 12.9.7 and 12.11, and what each message, call and timer does in them. Pure: time is an
 * argument, what is to be sent and told comes back. The caller sends it, finds the end that a
 * message is for, and serializes all calls on one end.
 */
#ifndef WEFT_WIRE_CM_CONN_H
#define WEFT_WIRE_CM_CONN_H

#include <stdbool.h>

#include "wire/cm/mad.h"

/* The end that asks is active. MRA: the other end asked for more time. */
enum weft_conn_state {
	WEFT_CONN_IDLE,
	WEFT_CONN_REQ_SENT,
	WEFT_CONN_REQ_RCVD,
	WEFT_CONN_MRA_REQ_SENT,
	WEFT_CONN_MRA_REQ_RCVD,
	WEFT_CONN_REP_SENT,
	WEFT_CONN_REP_RCVD,
	WEFT_CONN_MRA_REP_SENT,
	WEFT_CONN_MRA_REP_RCVD,
	WEFT_CONN_ESTABLISHED,
	WEFT_CONN_DREQ_SENT,
	WEFT_CONN_DREQ_RCVD,
	WEFT_CONN_TIMEWAIT,
	WEFT_CONN_SIDR_REQ_SENT,
	WEFT_CONN_SIDR_REQ_RCVD,
	WEFT_CONN_STATES,
};

/* What the owner of an end is told. */
enum weft_conn_event {
	WEFT_CONN_QUIET,
	WEFT_CONN_RESPONDED,  /* active: REP came; establish or reject */
	WEFT_CONN_OPEN,	      /* passive: RTU came */
	WEFT_CONN_REJECTED,   /* status: a reason */
	WEFT_CONN_UNANSWERED, /* REQ, REP or SIDR_REQ; status: -ETIMEDOUT, or why it was not sent */
	WEFT_CONN_CLOSED,     /* status: 0, or -ETIMEDOUT when DREQ had no answer */
	WEFT_CONN_RELEASED,   /* nothing of it is under way any more */
	WEFT_CONN_LOOKED_UP,  /* SIDR_REP came; status: its own */
};

struct weft_conn {
	enum weft_conn_state state;
	bool active;
	uint32_t local_id, remote_id;
	uint64_t tid;
	uint32_t service, ext;
	uint32_t local_qpn, remote_qpn, remote_qkey;
	uint32_t local_psn,
		remote_psn; /* with which the other end begins to send to it (Starting PSN, 12.7) */
	uint32_t responder_resources, initiator_depth; /* what this end gives and uses */
	uint32_t retries, rnr_retries;		       /* of the queue pair */
	uint32_t mtu, ack_timeout;
	uint32_t cm_retries, retries_left;
	uint64_t answer_ns;	      /* how long to wait for an answer */
	uint64_t deadline_ns;	      /* 0: no timer runs */
	uint8_t sent[WEFT_MAD_BYTES]; /* REQ, REP, DREQ, SIDR_REQ: to be sent again */
};

/* What comes of an input: at most one datagram and one event. */
struct weft_conn_out {
	bool send;
	uint8_t wire[WEFT_MAD_BYTES];
	enum weft_conn_event event;
	int status;
};

const char *weft_conn_state_str(enum weft_conn_state state);
/*
 * The code of a queue pair's time-out: the way there and back, and what the other end takes before it answers (12.7.34), of both the codes.
 * A code doubles: it is the larger one's, or the next where the other is at least half of that, as Linux has it. way 0: for ever.
 */
uint32_t weft_conn_ack_timeout(uint32_t way, uint32_t delay);

/* Calls of the owner. All: 0, or -EINVAL, which changes nothing: not in this state. */

/* IDLE: sends *req, a REQ or SIDR_REQ complete but for its ids. */
int weft_conn_connect(struct weft_conn *c, struct weft_mad *req, uint64_t now_ns,
		      struct weft_conn_out *out);
/* IDLE: becomes the passive end of a REQ or SIDR_REQ that came. */
int weft_conn_requested(struct weft_conn *c, const struct weft_mad *req);
/* REQ_RCVD: answers *rep, a REP or SIDR_REP complete but for its ids. */
int weft_conn_accept(struct weft_conn *c, struct weft_mad *rep, uint64_t now_ns,
		     struct weft_conn_out *out);
/* REP_RCVD: the queue pair is ready; RTU. */
int weft_conn_establish(struct weft_conn *c, struct weft_conn_out *out);
/* REP_SENT: what was received says that the peer is there; tells OPEN. */
int weft_conn_notice(struct weft_conn *c, struct weft_conn_out *out);
/* *rej: a REJ or SIDR_REP complete but for its ids and what it is about. */
int weft_conn_reject(struct weft_conn *c, struct weft_mad *rej, uint64_t now_ns,
		     struct weft_conn_out *out);
/* ESTABLISHED, DREQ_RCVD */
int weft_conn_disconnect(struct weft_conn *c, uint64_t now_ns, struct weft_conn_out *out);
/* The owner lets go, in any state; out says what the peer must know. */
void weft_conn_abandon(struct weft_conn *c, struct weft_conn_out *out);

/* What comes from outside. */
void weft_conn_receive(struct weft_conn *c, const struct weft_mad *mad, uint64_t now_ns,
		       struct weft_conn_out *out);
/* deadline_ns has passed. */
void weft_conn_timer(struct weft_conn *c, uint64_t now_ns, struct weft_conn_out *out);
/* What asks, and was to be sent, cannot be: err, as weft_port_find said it. */
void weft_conn_unsent(struct weft_conn *c, int err, struct weft_conn_out *out);
/* The peer's process has died: as if it had abandoned its end. */
void weft_conn_lost(struct weft_conn *c, uint64_t now_ns, struct weft_conn_out *out);

/* Answers to messages for which there is no end (12.9.8): whether out has one. */
bool weft_conn_answer_stray(const struct weft_mad *mad, struct weft_conn_out *out);

#endif
