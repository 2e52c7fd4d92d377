/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A card for one address: the queue pairs that are handed to it, an engine of RoCE v2 for each, and the pool as the
 * engines' world. What a packet may do at a queue pair is what nic/incoming.h lets it; there are no rules here.
 *
 * An engine has its turn while the card's busy line names its queue pair: the line is entered once for each packet
 * that comes and for each share of packets that go. If its owner rehomes meanwhile, what comes is as if lost, and
 * what goes waits.
 *
 * Requests are taken over from the send queue as the engine has room for them, WEFT_CARRIED_MOST of each queue pair;
 * bytes are gathered as their packet is sent, or sent again. So a queue pair takes a bounded room here, whatever it posts and whatever it
 * is asked for.
 *
 * Context: one thread.
 */
#ifndef WEFT_CARD_WIRE_H
#define WEFT_CARD_WIRE_H

#include "card/hand.h"
#include "card/manager.h"
#include "card/out.h"
#include "card/switch.h"
#include "nic/datagram.h"
#include "nic/incoming.h"

/* Requests of a queue pair that its engine has at a time. */
#define WEFT_CARRIED_MOST 128u

/* Queue pairs at a time. */
#define WEFT_WIRE_QPS (1u << 16)

/* Queue pairs of datagrams that are remembered as they were seen last. */
#define WEFT_WIRE_TARGETS  256u

#define WEFT_WIRE_PKEY	   0xffffu

#define WEFT_WIRE_AGAIN_NS 10000000u

/* A copy that only the helper of the memory's owner can make (world.c); what it has reached is the hand's `later`. */
struct weft_late_copy {
	uint64_t about[3]; /* what is copied; one of something else begins anew */
	uint64_t until_ns; /* so long the card waits for it; 0: it has not begun */
};

/* A queue pair and its engine, which comes first. */
struct weft_carried {
	struct weft_roce_qp qp;
	struct weft_switch_port port;
	struct weft_card_hand *hand;
	struct weft_incoming
		message;  /* the SEND that is coming; and by which the line is entered */
	uint64_t base;	  /* the position of the engine's first request */
	uint64_t resumed; /* of the hand, as last seen */
	uint64_t pending_position;
	enum weft_cause
		pending_cause; /* of a request that failed while its queue pair could not be entered */
	enum weft_event pending_event; /* likewise of its responder; COMM_EST: none */
	uint8_t traffic_class;
	bool open;    /* the engine is open: its attributes were read */
	bool entered; /* its busy line is entered */
	bool waits;   /* something could not be done just now */
	bool lost;    /* the receive that a message was going into has been taken away */
	struct weft_late_copy copy[WEFT_COPY_KINDS];
	struct weft_roce_request ring[];
};

struct weft_wire {
	struct weft_card card;
	struct weft_switch sw;
	struct weft_roce_icrc icrc;
	struct weft_out *out;
	bool any_waits, lacks_room;
	uint64_t again_ns; /* then engines that wait are resumed; 0: not set */
	uint8_t address[16];
	uint32_t mtu;
	struct weft_roce_counters gone; /* of queue pairs that are no more */
	struct weft_wqe *request;	/* a copy, with its list, of that in turn */
	struct weft_switch_port **table, **heap;
	uint64_t datagrams; /* sent */
	uint64_t net_ns;    /* the network namespace of the card */
	struct weft_manager manager;
	struct weft_datagram_target target[WEFT_WIRE_TARGETS];
};

/* From now on this member of the pool is the card of that address, which is one of its own. out: packets to the
 * socket; mtu: bytes that a packet may carry through its interface. 0, -ENOMEM. */
int weft_wire_begin(struct weft_wire *wire, struct weft_nic *nic, struct weft_caller *caller,
		    const uint8_t address[16], uint32_t mtu, struct weft_out *out);
void weft_wire_end(struct weft_wire *wire);

/* Engines have their turns (weft_switch_run), and those that could do nothing in one, another after WEFT_WIRE_AGAIN_NS: nothing tells
 * the card that an owner no longer rehomes. */
bool weft_wire_run(struct weft_wire *wire, uint32_t share, uint64_t now_ns);
/* When weft_wire_run is due; 0: when something comes. */
uint64_t weft_wire_deadline_ns(const struct weft_wire *wire);
/* To be called when there is room for packets again: engines that could do nothing have their turns. */
void weft_wire_resume(struct weft_wire *wire);

/* Writes into the member's page what `weft nic list` shows. */
void weft_wire_tell(struct weft_wire *wire);

/* ---- Between the files ---- */

static inline struct weft_wire *weft_wire_of(const struct weft_card_hand *hand)
{
	return (struct weft_wire *)hand->card;
}

/* What the engines ask for (world.c). */
extern const struct weft_roce_world weft_wire_world;

static inline struct weft_wire *weft_wire_with(struct weft_switch *sw)
{
	return (struct weft_wire *)((char *)sw - offsetof(struct weft_wire, sw));
}

/* world.c: a packet, payload and all */
static inline uint32_t weft_wire_bytes(const struct weft_roce_packet *packet)
{
	return weft_roce_head_bytes(packet->opcode) + packet->payload_bytes +
	       weft_roce_pad(packet->payload_bytes) + WEFT_ROCE_ICRC_BYTES;
}

/* The payload of a reserved packet stands at `at`: writes all else of it, and sends it. */
void weft_wire_seal(struct weft_wire *wire, const struct weft_roce_route *route,
		    const struct weft_roce_packet *packet, uint8_t *at, uint16_t id);

/* datagrams.c */
extern const struct weft_manager_calls weft_wire_manager;
bool weft_wire_datagram(struct weft_card *card, const struct weft_pool_datagram *datagram);
void weft_wire_arrived(struct weft_switch *sw, const struct weft_roce_arrival *arrival,
		       const struct weft_roce_packet *packet, uint64_t now_ns);

/* The engine waits: it has its turn at the next weft_wire_resume, or after a while. */
static inline void weft_carried_wait(struct weft_carried *c)
{
	c->waits = weft_wire_of(c->hand)->any_waits = true;
}

/* world.c: the queue pair goes, and takes back what is asked for it. */
void weft_late_end(struct weft_carried *c);

/* carried.c: in a turn */
const struct weft_wqe *weft_carried_request(struct weft_carried *c, uint64_t position);
void weft_carried_tell(struct weft_carried *c, uint64_t position, enum weft_cause cause);
void weft_carried_blame(struct weft_carried *c, enum weft_event event);

#endif
