/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The engine of RoCE v2: one end of a connection (RC, UC, XRC), or a queue pair of datagrams (UD), as a pure state
 * machine. In go requests, packets, the passing of deadlines, and the time; what comes of them is asked of the
 * world, a table of functions: the card, the simulator and the fuzzer have one each.
 *
 * The world calls in this order: weft_roce_open; then, as things come, weft_roce_post,
 * weft_roce_receive, weft_roce_timer; after each batch of these weft_roce_run, which sends. Calls for
 * one queue pair are serialized, and none comes from within a function of the world's table. Nothing is
 * allocated: the caller gives the room.
 */
#ifndef WEFT_WIRE_ROCE_ROCE_H
#define WEFT_WIRE_ROCE_ROCE_H

#include "nic/cause.h"
#include "wire/roce/icrc.h"
#include "wire/roce/packet.h"
#include "wire/roce/rate.h"

struct weft_roce_qp;

/* What functions of the world answer: a cause, WEFT_CAUSE_NONE if all is well, or one of these. */
#define WEFT_ROCE_LATER                                                                            \
	(-1) /* not now: as if the packet were lost; `send`: asked again at the next weft_roce_run */
#define WEFT_ROCE_NO_RECEIVE (-2)

/* READs and atomics under way at a time, each way. */
#define WEFT_ROCE_FETCHES 16u

/* The bytes that a packet carries: packet->payload_bytes of them. */
struct weft_roce_bytes {
	enum { WEFT_ROCE_NO_BYTES, WEFT_ROCE_OF_REQUEST, WEFT_ROCE_OF_MEMORY } from;
	uint64_t position, offset; /* of a request: in its list */
	uint64_t va;		   /* of memory that the peer reads */
	uint32_t rkey, srqn;	   /* likewise; srqn: XRC */
};

/* A receive that is over; cause: one of those named OWN_RECEIVE_*, or none. */
struct weft_roce_received {
	enum weft_cause cause;
	uint64_t bytes; /* of a receive too short: what the message has so far */
	bool by_write, with_imm, with_inv, solicited;
	uint32_t imm;	  /* as it came; with_inv: the key, in host order */
	uint32_t src_qpn; /* of a datagram */
};

struct weft_roce_world {
	/* Sends a packet with these bytes, padded, and its ICRC. The keys of the bytes are checked as they are
	 * taken: LOCAL_KEY, LOCAL_MEMORY of a request, REMOTE_* of memory. */
	int (*send)(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
		    const struct weft_roce_bytes *bytes);

	/* ---- The requester's side ---- */
	/* Do the local keys of all of a request hold? Asked before its first packet. LOCAL_KEY, LOCAL_MEMORY. */
	int (*check)(struct weft_roce_qp *qp, uint64_t position);
	/* Places what a READ or atomic has brought, `offset` bytes behind the start of its list. */
	int (*fetched)(struct weft_roce_qp *qp, uint64_t position, uint64_t offset,
		       const uint8_t *from, uint32_t bytes);
	/* A request is over: in the order of positions, each once. After a cause no more comes: the owner
	 * flushes what is behind it. What a NAK says is only which class of fault: REMOTE_RIGHT, REMOTE_KEY and
	 * REMOTE_MEMORY stand for those. */
	void (*ended)(struct weft_roce_qp *qp, uint64_t position, enum weft_cause cause);

	/* ---- The responder's side ---- */
	/* May the peer do this to [va, va + bytes)? First REMOTE_RIGHT, of the queue pair, then, of more than no
	 * bytes, REMOTE_KEY. */
	int (*allows)(struct weft_roce_qp *qp, uint32_t rkey, uint64_t va, uint64_t bytes,
		      uint8_t access);
	/* Places bytes of a WRITE, the key checked anew, in rising order of address. */
	int (*place)(struct weft_roce_qp *qp, uint32_t rkey, uint64_t va, const uint8_t *from,
		     uint32_t bytes);
	/* Does what the packet, a CMP_SWAP or FETCH_ADD, asks for, on an address that is allowed and aligned. */
	int (*atomic)(struct weft_roce_qp *qp, const struct weft_roce_packet *request,
		      uint64_t *old);
	/* Takes the oldest receive. It stays taken until `received`; if the queue pair fails before, it is flushed
	 * as if it had not been taken. NO_RECEIVE; REMOTE_QUEUE: there is no such queue (XRC, which `allows`, `place`
	 * and `atomic` answer likewise: what they ask is asked of the owner of that queue). */
	int (*take)(struct weft_roce_qp *qp);
	/* Places bytes into the receive that is taken. RECEIVE_LENGTH, RECEIVE_KEY, RECEIVE_MEMORY. */
	int (*fill)(struct weft_roce_qp *qp, uint64_t offset, const uint8_t *from, uint32_t bytes);
	/* Ends a key of this queue pair's peer (SEND with invalidate). REMOTE_INVALIDATE. */
	int (*end_key)(struct weft_roce_qp *qp, uint32_t key);
	void (*received)(struct weft_roce_qp *qp, const struct weft_roce_received *what);

	/* QP_REQ_ERR, QP_ACCESS_ERR, QP_FATAL: the responder has failed, and its NAK is sent: the owner takes
	 * the queue pair to error. COMM_EST: the peer is there. */
	void (*event)(struct weft_roce_qp *qp, enum weft_event event);
};

/* Of a queue pair, from its attributes at RTR and RTS. */
struct weft_roce_config {
	enum weft_roce_service service;
	struct weft_roce_route route; /* from us to the peer; of UD from us */
	uint32_t qpn, dest_qpn;
	uint16_t pkey;
	uint32_t qkey;
	uint32_t mtu; /* bytes of a message in a packet: 256 to 4096, a multiple of 4 */
	uint32_t sq_psn, rq_psn;
	uint8_t timeout;	      /* 4.096 µs · 2^timeout, 0: never */
	uint8_t retry_cnt, rnr_retry; /* rnr_retry 7: for ever */
	uint8_t min_rnr_timer;
	uint8_t max_rd_atomic, max_dest_rd_atomic; /* up to WEFT_ROCE_FETCHES */
};

/* One request, as the send queue has it. */
struct weft_roce_request {
	enum weft_opcode opcode; /* none that is local */
	bool fence, solicited;
	uint32_t imm;	 /* as it goes; SEND_INV: the key, in host order */
	uint64_t length; /* bytes; of a READ or atomic those it brings */
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t compare_add, swap;
	uint32_t srqn; /* XRC: of the receive queue that it names */
	/* UD: where to */
	struct weft_roce_route route;
	uint32_t dest_qpn, qkey;

	uint64_t first, end; /* the engine's: its packet sequence numbers */
};

/* How a packet has come. */
struct weft_roce_arrival {
	struct weft_roce_route route;
	uint8_t traffic_class, hop_limit;
	uint16_t id;	    /* as solved; IPv4 */
	uint16_t udp_bytes; /* of the UDP payload */
};

enum weft_roce_state {
	WEFT_ROCE_IDLE, /* nothing awaits an answer */
	WEFT_ROCE_BUSY,
	WEFT_ROCE_PROBING, /* one packet is sent again, to learn what has come */
	WEFT_ROCE_WAITING, /* for the peer to post a receive */
	WEFT_ROCE_STOPPED, /* a request has failed */
	WEFT_ROCE_STATES,
};

/* PSNs are counted in 64 bits inside; 24 of them travel. */
struct weft_roce_requester {
	enum weft_roce_state state;
	struct weft_roce_request *ring; /* ring_size, a power of two */
	uint32_t ring_size;
	uint64_t posted, at, ended; /* positions: taken over; being sent; over */
	uint64_t end;		    /* PSN behind the last request */
	uint64_t next, top, una;    /* PSNs: to send; never sent; not acknowledged */
	uint64_t gap; /* una for which packets were sent again because of a gap, + 1 */
	struct {
		uint64_t first, end;
	} fetch[WEFT_ROCE_FETCHES]; /* requests that are answered by more than an ACK, the oldest at fetch_head */
	uint32_t fetch_head, fetch_tail;
	uint32_t unasked; /* packets since the last that asked for an ACK */
	uint32_t retry_left, rnr_left, probes;
	enum weft_cause bad; /* of the request at bad_at: ends it when those before have ended */
	uint64_t bad_at;
	uint64_t ack_ns, probe_ns, rnr_ns; /* deadlines; 0: none */
	struct weft_roce_rate rate;
};

/* A READ or atomic that has come, kept until max_dest_rd_atomic newer ones have. */
struct weft_roce_answer {
	uint8_t opcode;		 /* of the request */
	uint32_t srqn;		 /* XRC */
	uint64_t first, end;	 /* its PSNs */
	uint64_t from, at, stop; /* being answered: from there, where it is, up to there */
	bool told;		 /* all of it, once */
	uint64_t va;
	uint32_t rkey, length, msn;
	uint64_t old;
};

enum weft_roce_message {
	WEFT_ROCE_BETWEEN,
	WEFT_ROCE_IN_SEND,
	WEFT_ROCE_IN_WRITE,
	WEFT_ROCE_SKIPPING
};

struct weft_roce_responder {
	enum weft_roce_message message;
	bool stopped; /* takes no more packets */
	bool heard, taken;
	bool named;  /* a NAK has told of the gap, or that there is no receive */
	bool ack;    /* is to be sent */
	uint8_t nak; /* is to be sent: its syndrome, or 0 */
	uint64_t nak_psn;
	enum weft_event fault; /* goes with the NAK, if `stopped` */
	uint64_t expected;
	uint32_t msn;
	uint64_t offset, rest, va; /* of the message that is coming */
	uint32_t rkey, srqn;
	struct weft_roce_answer answer[WEFT_ROCE_FETCHES];
	uint32_t answer_head, answer_tail;
};

/* What has happened; read by anyone. */
struct weft_roce_counters {
	uint64_t sent, received, sent_again, duplicates, out_of_sequence, rnr_sent, rnr_received,
		dropped;
	uint64_t naks_sent, naks_received, timeouts, probes;
};

struct weft_roce_qp {
	const struct weft_roce_world *world;
	struct weft_roce_config config;
	struct weft_roce_requester requester;
	struct weft_roce_responder responder;
	struct weft_roce_counters counters;
	uint64_t
		deadline_ns; /* when weft_roce_timer is to be called; 0: not. Read after each call */
};

/* Begins: all but world and config, which the caller has set, is made new. ring: of ring_size, a power
 * of two and at least as many as are ever posted and not over. */
void weft_roce_open(struct weft_roce_qp *qp, struct weft_roce_request *ring, uint32_t ring_size);

/* The requester alone begins anew, at config.sq_psn: positions count from 0 again. Nothing of it is under way. */
void weft_roce_restart(struct weft_roce_qp *qp);

/* The next request, copied. 0, or -EAGAIN: the ring is full. */
int weft_roce_post(struct weft_roce_qp *qp, const struct weft_roce_request *request);

/* A packet for this queue pair's number whose ICRC holds. What is wrong with it in any other way changes
 * nothing, but that a responder tells the peer of what the specification wants told. */
void weft_roce_receive(struct weft_roce_qp *qp, const struct weft_roce_arrival *arrival,
		       const struct weft_roce_packet *packet, uint64_t now_ns);

/* deadline_ns has passed. */
void weft_roce_timer(struct weft_roce_qp *qp, uint64_t now_ns);

/* Sends what there is, up to `budget` packets: answers and acknowledgements, then requests. Whether there
 * is more: it is called again once others have had their turn. */
bool weft_roce_run(struct weft_roce_qp *qp, uint32_t budget, uint64_t now_ns);

/* Before the queue pair is forgotten: what has been done for the peer is acknowledged, and what was refused is named, if
 * it waits for that. A program ends once it has seen its last completion, and cards have acknowledged by then; what the
 * queue pair refuses makes an end of it, which may be seen before the refusal had its turn. */
void weft_roce_close(struct weft_roce_qp *qp);

/* A request that is not over. */
static inline const struct weft_roce_request *weft_roce_request_at(const struct weft_roce_qp *qp,
								   uint64_t position)
{
	return &qp->requester.ring[position & (qp->requester.ring_size - 1)];
}

const char *weft_roce_state_str(enum weft_roce_state state);

/* 9.7.5.2.8, table 45 */
uint64_t weft_roce_rnr_ns(uint8_t code);

/* The 40 bytes before a datagram, as a card leaves them: the header it came with, of IPv4 behind 20
 * zeros. */
#define WEFT_ROCE_GRH_BYTES 40u
void weft_roce_grh(const struct weft_roce_arrival *arrival, uint8_t grh[WEFT_ROCE_GRH_BYTES]);

#endif
