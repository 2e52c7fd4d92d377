/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The links and the router of one node. Pure: the owner calls weft_ape_node_beat for each beat that
 * has come by a cable, weft_ape_node_step once a word time while it says that something moved, and
 * again when something came, when something was given, or at weft_ape_node_deadline.
 */
#ifndef WEFT_WIRE_APE_NODE_H
#define WEFT_WIRE_APE_NODE_H

#include "wire/ape/router.h"

/* Puts the beat onto the cable. */
typedef void weft_ape_send_fn(void *owner, unsigned int cable, const struct weft_ape_beat *beat);

/* The same for words of payload, which fill their beats. */
typedef void weft_ape_send_words_fn(void *owner, unsigned int cable,
				    const struct weft_ape_word *words, unsigned int count);

struct weft_ape_node_config {
	struct weft_ape_lattice lattice;
	struct weft_ape_coord me;
	struct weft_ape_link_config link;
	uint16_t header_depth, data_depth; /* of the FIFOs of cables */
	uint8_t locals;			   /* intra-tile ports, 1 to 8 */
	uint8_t loopback;		   /* cables whose words come back, as bits; register 68 */
	bool fixed;			   /* arbitration */
	/* A cable that says nothing for so long, and for half as long when that was found, is down; 0: never. A node that stood
	 * still itself finds silence behind it, and hears the others before it judges them. */
	uint64_t silence_ns;
};

/* FIFO of an intra-tile port, towards the router. */
#define WEFT_APE_LOCAL_HEADERS 8u
#define WEFT_APE_LOCAL_DATA    512u

struct weft_ape_node {
	struct weft_ape_node_config config;
	weft_ape_send_fn *send;
	weft_ape_send_words_fn *send_words; /* NULL: `send` has all */
	void *owner;
	struct weft_ape_word
		*own_data[WEFT_APE_LOCALS]; /* the memory of its ports' FIFOs of payload */
	struct weft_ape_router router;
	struct weft_ape_tx tx[WEFT_APE_CABLES];
	struct weft_ape_rx rx[WEFT_APE_CABLES];
	uint64_t heard_ns[WEFT_APE_CABLES];
	uint8_t hears;	 /* cables, as bits */
	uint8_t doubted; /* of those, which were silent once, since something was heard of them */
	uint8_t severed; /* cables that lose whatever is sent, as bits */
	uint8_t full; /* cables that take no beat now, as bits; the owner's, also from within its `send` */
	/* Cables, as bits, that had nothing to send and have no reason to before calm_ns: most of a node's, most of the time. */
	uint8_t calm;
	uint64_t calm_ns;
	uint64_t went_down[WEFT_APE_CABLES];
};

/* How deep FIFOs may be of which a cable's credits tell. */
uint32_t weft_ape_depth_told(const struct weft_ape_link_config *link);
/* Whether a node can have this configuration: sizes, place, depths that credits can tell, thresholds within them. */
bool weft_ape_node_config_holds(const struct weft_ape_node_config *config);
/* The words that its FIFOs want. */
size_t weft_ape_node_words(const struct weft_ape_node_config *config);
/* config holds. Cables are down until both ends hear each other. */
void weft_ape_node_init(struct weft_ape_node *n, const struct weft_ape_node_config *config,
			struct weft_ape_word *memory, weft_ape_send_fn *send, void *owner,
			weft_ape_deliver_fn *deliver, void *taker);

void weft_ape_node_beat(struct weft_ape_node *n, unsigned int cable,
			const struct weft_ape_beat *beat, uint64_t now_ns);
/* The same for `count` beats, one behind the other. */
void weft_ape_node_beats(struct weft_ape_node *n, unsigned int cable, const uint64_t *quad,
			 unsigned int count, uint64_t now_ns);
/* One word time. Returns whether anything moved. */
bool weft_ape_node_step(struct weft_ape_node *n, uint64_t now_ns);
/* When to call it although nothing came and nothing moves; UINT64_MAX: never. */
uint64_t weft_ape_node_deadline(const struct weft_ape_node *n);

/* The other end of a cable that is doubted is known to live: as if it had said something, unless packets wait for it, behind which
 * others wait. */
void weft_ape_node_vouch(struct weft_ape_node *n, unsigned int cable, uint64_t now_ns);
/* The cable is known to be gone. It is up again when something is heard of it. */
void weft_ape_node_down(struct weft_ape_node *n, unsigned int cable);

/* The cable is known to lose whatever is sent, from now on or no more: what is for it is dropped, and nothing waits behind that. */
void weft_ape_node_sever(struct weft_ape_node *n, unsigned int cable, bool severed);

/* Packets that wait at an intra-tile port to leave; at most one should, beside the one that leaves.
 */
static inline unsigned int weft_ape_node_waiting(const struct weft_ape_node *n, unsigned int local)
{
	return n->router.source[WEFT_APE_LOCAL_SOURCE + local].queue.headers.count / 2;
}
/* Whether the port has room for the longest packet: while it is lent a payload, it has none. */
bool weft_ape_node_has_room(struct weft_ape_node *n, unsigned int local);
/* Where the port, which has room, may have the payload of its next packet: side by side for the longest; else NULL. */
static inline uint8_t *weft_ape_node_place(const struct weft_ape_node *n, unsigned int local)
{
	return weft_ape_fifo_place(&n->router.source[WEFT_APE_LOCAL_SOURCE + local].queue.data,
				   WEFT_APE_PAYLOAD_WORDS);
}
/* Gives a whole packet to the router; there is room. A header alone has no footer. The payload may lie in weft_ape_node_place. */
void weft_ape_node_give(struct weft_ape_node *n, unsigned int local, struct weft_ape_word header,
			const uint8_t *payload, unsigned int words, struct weft_ape_word footer);
/* The same, but that the payload stays where it is, if it can: until it has left, or weft_ape_node_keep. */
void weft_ape_node_lend(struct weft_ape_node *n, unsigned int local, struct weft_ape_word header,
			const uint8_t *payload, unsigned int words, struct weft_ape_word footer);
/* Copies what has not left of a payload that the port was lent, which may change from now on. */
void weft_ape_node_keep(struct weft_ape_node *n, unsigned int local);

#endif
