/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sources, and a network that loses, doubles, delays, cuts and changes what they send, in virtual
 * time: of each datagram that arrives it knows what became of it, without looking at it. A source may
 * begin its numbers anew; the first and the last datagram of each numbering arrive well and in time,
 * so that what was sent is what a receiver can know of.
 */
#ifndef WEFT_TESTS_NANET_NETWORK_H
#define WEFT_TESTS_NANET_NETWORK_H

#include "clock.h"
#include "wire/nanet/mgp.h"
#include "wire/nanet/protocol.h"

#define NETWORK_SOURCES 3u
#define NETWORK_RUNS	3u    /* numberings of a source */
#define NETWORK_SENDS	2600u /* in each, at most */
#define NETWORK_BYTES	400u
#define NETWORK_FAR	9000u /* numberings are that far from each other, and more */

struct network_faults { /* of 1024 datagrams */
	uint32_t lost, doubled, delayed, cut, changed;
	uint32_t deep;	 /* how far a delayed one is behind */
	bool bad_copies; /* copies may be spoilt, too */
};

struct network_source {
	struct weft_sim_event event; /* the next is sent */
	struct network *network;
	struct weft_protocol protocol;
	uint32_t runs, sends[NETWORK_RUNS];
	uint64_t first[NETWORK_RUNS]; /* number, in steps */
	uint64_t spacing_ns;
	uint32_t run, sent;	     /* now */
	uint64_t lost[NETWORK_RUNS]; /* that nothing arrived of */
};

/* One copy of a datagram, under way. */
struct network_arrival {
	struct weft_sim_event event;
	struct network *network;
	struct network_arrival *next; /* free */
	uint32_t source, run, index;
	bool bad;	 /* it is none of the protocol, and any receiver can see that */
	uint32_t events; /* in it */
	bool last;	 /* of a burst */
	uint32_t bytes;
	uint8_t data[NETWORK_BYTES];
};

struct network {
	struct weft_sim *sim;
	struct network_faults faults;
	uint32_t sources;
	struct network_source source[NETWORK_SOURCES];
	struct network_arrival *free;
	void (*arrive)(struct network *network, const struct network_arrival *arrival);
};

/* Chooses sources and faults by the seed of the clock, and begins to send. At most `count` datagrams may be under way, in
 * `arrivals`. */
void network_begin(struct network *network, struct weft_sim *sim, struct network_arrival *arrivals,
		   uint32_t count);

/* The field of a datagram of that number. */
uint64_t network_field(const struct network_source *source, uint32_t run, uint32_t index);

#endif
