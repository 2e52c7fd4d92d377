/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The engines behind one address: what comes goes to the one that it is for, what is due is done, and each may
 * send in its turn. Pure: datagrams and the time go in, the engines' world sends. Nothing is allocated; the
 * owner gives the room.
 *
 * Context: as the engines': one thread, and no call from within their world.
 */
#ifndef WEFT_CARD_SWITCH_H
#define WEFT_CARD_SWITCH_H

#include "link/udp.h"
#include "wire/roce/roce.h"

/* Peers whose identifications are followed; one more takes the place of that which was silent longest. */
#define WEFT_SWITCH_SOURCES 64u

/* One engine that takes part; in the owner's object beside it. */
struct weft_switch_port {
	struct weft_roce_qp *qp;
	struct weft_switch_port *next_same;		  /* of its hash */
	struct weft_switch_port *next_ready, *prev_ready; /* a ring; NULL: it has nothing to do */
	uint32_t place; /* in the heap of deadlines, from 1; 0: none */
};

struct weft_switch;

/* What the owner of the engines has to do with each turn of one. It removes none meanwhile. */
struct weft_switch_calls {
	/* A packet has come for a number that no engine has. Returns whether one has been added now. */
	bool (*find)(struct weft_switch *sw, uint32_t qpn);
	/* Called before and after a turn; packet: which has come, or NULL. False: that is as if lost; the engine has its turn all the
	 * same. */
	bool (*enter)(struct weft_switch *sw, struct weft_switch_port *port,
		      const struct weft_roce_packet *packet);
	void (*leave)(struct weft_switch *sw, struct weft_switch_port *port);
	/* A packet of UD has come, for whatever number. NULL: such packets go to engines, as all others. */
	void (*datagram)(struct weft_switch *sw, const struct weft_roce_arrival *arrival,
			 const struct weft_roce_packet *packet, uint64_t now_ns);
};

struct weft_switch_counters {
	uint64_t came, came_bytes, foreign, wrong_icrc, weak_icrc, no_qp;
};

struct weft_switch {
	const struct weft_roce_icrc *icrc;     /* NULL: packets come whole, with zeros for it */
	const struct weft_switch_calls *calls; /* NULL: the engines need none */
	struct weft_switch_port *
		*table; /* by number of the queue pair; `size` of them, a power of two */
	struct weft_switch_port **heap; /* the first deadline at 1; size + 1 of them */
	uint32_t size, count, timed;
	struct weft_switch_port *ready;
	struct weft_switch_counters counters;
	struct {
		uint8_t from[16], to[16];
		uint64_t last_ns;
		struct weft_roce_source source;
	} sources[WEFT_SWITCH_SOURCES];
};

/* table: size, heap: size + 1; zeros. */
void weft_switch_begin(struct weft_switch *sw, const struct weft_roce_icrc *icrc,
		       struct weft_switch_port **table, struct weft_switch_port **heap,
		       uint32_t size);

/* 0, or -ENOSPC: there are `size` of them; -EEXIST: one with that number is there. port->qp is open. */
int weft_switch_add(struct weft_switch *sw, struct weft_switch_port *port);
void weft_switch_remove(struct weft_switch *sw, struct weft_switch_port *port);

/* A packet that has come, and not before since_ns, goes to its engine, if its ICRC holds. */
void weft_switch_receive(struct weft_switch *sw, const struct weft_udp_datagram *datagram,
			 uint64_t since_ns, uint64_t now_ns);
/* Something was posted, or may be tried again. */
void weft_switch_stir(struct weft_switch *sw, struct weft_switch_port *port);
/* Does what is due, then lets each that has something send up to `share` packets. Whether there is more. */
bool weft_switch_run(struct weft_switch *sw, uint32_t share, uint64_t now_ns);
/* When something is due; 0: nothing is. */
uint64_t weft_switch_deadline_ns(const struct weft_switch *sw);

#endif
