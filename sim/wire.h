/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One direction of a link in virtual time: it carries datagrams, and loses, doubles, reorders, delays
 * and corrupts them as often as it is told, by the clock's random numbers; or stops.
 */
#ifndef WEFT_SIM_WIRE_H
#define WEFT_SIM_WIRE_H

#include "clock.h"

struct weft_sim_wire;

typedef void weft_sim_deliver(struct weft_sim_wire *wire, uint8_t *at, size_t bytes);

struct weft_sim_wire {
	struct weft_sim *sim;
	weft_sim_deliver *deliver; /* has the bytes only until it returns, and may change them */
	void *user;
	uint64_t delay_ns;
	uint64_t ns_per_byte_1024; /* in 1,024ths; 0: any number at once */
	/* of 65,536 datagrams */
	uint32_t lost, doubled, late, corrupted;
	uint64_t late_ns; /* a late one comes up to that much later than it would */
	bool stopped;

	uint64_t free_ns, last_ns;
	uint64_t sent, delivered;
	struct weft_sim_carried *under_way; /* the wire's own */
};

/* Copies the bytes. 0, or -ENOMEM. */
int weft_sim_wire_send(struct weft_sim_wire *wire, const uint8_t *at, size_t bytes);
/* Forgets all that is under way. */
void weft_sim_wire_end(struct weft_sim_wire *wire);

#endif
