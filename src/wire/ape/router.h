/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * APErouter: packets from FIFOs to cables and intra-tile ports. Virtual cut-through: a packet is
 * granted when the next FIFO has room for all of it, and goes on before its end has come; its
 * output is its own until then, so that packets never mix.
 *
 * What cannot go on (no way, too many hops, a header at odds with where it is, a cable that is
 * down) is taken out of its FIFO as it comes and counted: the network drains.
 */
#ifndef WEFT_WIRE_APE_ROUTER_H
#define WEFT_WIRE_APE_ROUTER_H

#include "wire/ape/frames.h"
#include "wire/ape/route.h"

/* Sources: each cable's two virtual channels, then the intra-tile ports. */
#define WEFT_APE_LOCAL_SOURCE (WEFT_APE_CABLES * WEFT_APE_CHANNELS)
#define WEFT_APE_SOURCES      (WEFT_APE_LOCAL_SOURCE + WEFT_APE_LOCALS)

enum weft_ape_source_state {
	WEFT_APE_SOURCE_EMPTY,
	WEFT_APE_SOURCE_WAITING,
	WEFT_APE_SOURCE_MOVING,
	WEFT_APE_SOURCE_DROPPING,
};

enum weft_ape_drop {
	WEFT_APE_DROP_HOPS,
	WEFT_APE_DROP_NOWHERE, /* outside the lattice, or no such intra-tile port */
	WEFT_APE_DROP_ODD,     /* *last* is not what it must be here */
	WEFT_APE_DROP_DOWN,
	WEFT_APE_DROPS,
};

struct weft_ape_source {
	struct weft_ape_queue queue;
	enum weft_ape_source_state state;
	uint8_t port, vc;	  /* where it goes */
	bool header_only, headed; /* its header has gone */
	uint16_t words, words_left;
	struct weft_ape_word header; /* as the next node gets it */
};

/* Where words of a packet for this node go; they are taken whatever happens. */
typedef void weft_ape_deliver_fn(void *owner, unsigned int local, struct weft_ape_word word,
				 bool end);

/* The same for a packet, with bursts: its payload is the front of a FIFO, from which it is taken. */
typedef void weft_ape_deliver_packet_fn(void *owner, unsigned int local,
					struct weft_ape_word header, struct weft_ape_fifo *payload,
					unsigned int words, struct weft_ape_word footer);

struct weft_ape_router {
	const struct weft_ape_lattice *lattice;
	struct weft_ape_coord me;
	uint8_t locals;	 /* intra-tile ports */
	uint8_t enabled; /* cables, as bits */
	uint8_t up;	 /* cables that are up, as bits */
	bool fixed;	 /* arbitration by number, not in turn */
	bool bursts;	 /* a packet goes on in one step, where that can be, not a word */
	weft_ape_deliver_fn *deliver;
	weft_ape_deliver_packet_fn *deliver_packet; /* with bursts, instead */
	void *owner;
	struct weft_ape_tx *tx; /* one for each cable */
	struct weft_ape_source source[WEFT_APE_SOURCES];
	uint32_t waiting[WEFT_APE_PORTS]; /* sources, as bits */
	uint8_t holder[WEFT_APE_PORTS];	  /* a source, or WEFT_APE_SOURCES */
	uint8_t turn[WEFT_APE_PORTS];
	uint32_t fronts; /* sources, as bits, in front of which something may have changed */
	uint32_t wanted; /* ports, as bits, for which a packet waits, or that one has */
	uint64_t passed[WEFT_APE_PORTS], dropped[WEFT_APE_DROPS];
	uint8_t stirred; /* cables, as bits, whose sender may have something to say since the owner cleared this */
};

/* The owner has set the fields up to tx, and the memory and depths of the sources' queues. */
void weft_ape_router_init(struct weft_ape_router *r);
/* Something has come into the queues of a source; `sources`: bits. */
static inline void weft_ape_router_came(struct weft_ape_router *r, uint32_t sources)
{
	r->fronts |= sources;
}
/* One word time; whether anything moved. */
bool weft_ape_router_step(struct weft_ape_router *r);
/* Whether a packet waits for the port, a cable's number first, or goes by it. */
bool weft_ape_router_is_wanted(const struct weft_ape_router *r, unsigned int port);
/* The cable is down: what holds it or waits for it is dropped. */
void weft_ape_router_down(struct weft_ape_router *r, unsigned int cable);

#endif
