/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The network interface: PUT, GET and SEND of processes, cut into packets of flows, and placed at
 * the other end. Owns the node's links and router. Everything is bounded; what has no room is not
 * taken, and is asked for again by its sender. What arrives is never kept waiting.
 *
 * The owner calls weft_ape_ni_beat, weft_ape_ni_step and weft_ape_ni_deadline as it would
 * those of the node (wire/ape/node.h).
 */
#ifndef WEFT_WIRE_APE_NI_H
#define WEFT_WIRE_APE_NI_H

#include "wire/ape/flow.h"
#include "wire/ape/world.h"

#define WEFT_APE_PEERS	    64u
#define WEFT_APE_MESSAGES   64u
#define WEFT_APE_SHARE	    48u /* of them, those of one process at most */
#define WEFT_APE_JOBS	    16u
#define WEFT_APE_POSTED	    16u /* descriptors of a process that wait */
#define WEFT_APE_BUFFERS    64u /* of a process */
#define WEFT_APE_LIFE_MAX   0xfffeu
#define WEFT_APE_VERBS_RING 128u /* packets of verbs to a peer (wire/ape/verbs.h) */
#define WEFT_APE_VERBS_AHEAD                                                                       \
	32u /* of those, that are not in the flow yet: what waited longer would be out of the cache when it goes */

struct weft_ape_ni_config {
	struct weft_ape_node_config node;
	uint16_t life;	 /* grows with each life of the card; 1 to WEFT_APE_LIFE_MAX */
	uint8_t engines; /* 1 to 8; all feed the port that the flow has */
	struct weft_ape_flow_times times;
	uint64_t not_ready_ns; /* until a SEND is tried again */
	uint64_t patience_ns;  /* after which it fails */
};

enum weft_ape_rights {
	WEFT_APE_MAY_PUT = 1,
	WEFT_APE_MAY_GET = 2,
	WEFT_APE_RECEIVES = 4, /* one SEND, in the order of posting; then it is free */
};

struct weft_ape_buffer {
	uint8_t rights; /* 0: free */
	bool taken;	/* by a SEND that is coming in */
	uint64_t addr, bytes, tag;
	uint64_t order, count;
};

struct weft_ape_process {
	struct weft_ape_descriptor posted[WEFT_APE_POSTED];
	uint64_t posted_ns[WEFT_APE_POSTED];
	uint8_t first, waiting;
	bool stalled; /* a SEND is under way: what is behind it waits */
	struct weft_ape_buffer buffer[WEFT_APE_BUFFERS];
	/* A process has one SEND under way at a time; these are the ones that are coming in. */
};

struct weft_ape_message {
	bool used, cut; /* all of it has become packets */
	uint8_t opcode, process, generation;
	uint8_t peer;
	uint16_t channel, under_way; /* packets */
	enum weft_ape_status status;
	uint64_t bytes, local, remote, tag;
	uint64_t done; /* bytes that have become packets; for a GET, bytes that have come */
	uint64_t posted_ns, begun_ns, progress_ns;
	uint64_t retry_ns; /* of a SEND: when it is tried again; 0: not waiting */
};

struct weft_ape_reception {
	bool used;
	uint8_t peer, process, channel, buffer;
	uint64_t done;
};

/* A GET of another node's. */
struct weft_ape_job {
	uint8_t peer, process;
	uint16_t id;
	uint64_t addr, bytes, done;
};

/* Numbers of packets: place n of the ring is n % WEFT_APE_VERBS_RING. */
struct weft_ape_verbs {
	uint32_t written, cut, done; /* by the owner; into the flow; acknowledged */
	uint16_t bytes[WEFT_APE_VERBS_RING];
	bool full; /* the owner has found no room */
	struct weft_ape_late
		late; /* acknowledgements that go with the next request: all that is not cut */
};

struct weft_ape_peer {
	struct weft_ape_coord at;
	uint16_t life; /* 0: not known */
	uint8_t port;
	/* What comes from there has made so many hops, the last on that channel. */
	uint8_t vc;
	uint16_t hops;
	struct weft_ape_flow flow[WEFT_APE_CLASSES];
	struct weft_ape_verbs verbs;
};

struct weft_ape_incoming {
	bool within;
	struct weft_ape_word header;
	uint16_t words;
	uint8_t payload[WEFT_APE_PAYLOAD_BYTES];
};

struct weft_ape_counters {
	uint64_t packets, filler, bad_crc, bad_way, bad_life, refused, no_room, put_bytes,
		get_bytes, send_bytes, verbs_bytes;
};

struct weft_ape_ni {
	struct weft_ape_ni_config config;
	const struct weft_ape_world *world;
	void *owner;
	struct weft_ape_node node;
	struct weft_ape_process process[WEFT_APE_PROCESSES];
	struct weft_ape_message message[WEFT_APE_MESSAGES];
	struct weft_ape_reception reception[WEFT_APE_MESSAGES];
	struct weft_ape_job job[WEFT_APE_JOBS];
	/* Which peers, messages and jobs are used, and of which processes descriptors wait, as bits: the others are not even looked
	 * at. */
	uint64_t peers, messages, posters, jobs;
	uint16_t engine[WEFT_APE_ENGINES]; /* messages, or WEFT_APE_NO_MESSAGE */
	struct weft_ape_incoming incoming[WEFT_APE_LOCALS];
	uint8_t next_process, next_peer, turn;
	uint64_t orders;
	uint64_t now_ns, wake_ns;
	uint8_t payload
		[WEFT_APE_PAYLOAD_BYTES]; /* of a packet that is made, where its port has no place side by side */
	uint8_t *verbs_memory;
	uint32_t verbs_waiting; /* packets of verbs that are in no flow yet */
	uint8_t next_verbs;
	bool verbs_room;
	bool quiet; /* nothing is to be sent, until something happens */
	uint8_t dry; /* ports, as bits, whose flows had nothing to send when they were asked last, and have not since */
	struct weft_ape_counters counters;
	struct weft_ape_peer peer[WEFT_APE_PEERS]; /* 20 KB each: what is not used is not touched */
};

_Static_assert(WEFT_APE_PEERS == 64 && WEFT_APE_MESSAGES == 64 && WEFT_APE_PROCESSES == 64,
	       "their sets are of 64 bits");

/* Bit `first` becomes the lowest, those before it the highest. */
static inline uint64_t weft_ape_turned(uint64_t bits, unsigned int first)
{
	return bits >> first % 64 | bits << (64 - first % 64) % 64;
}

/* Takes the lowest bit out, and says which it was. */
static inline unsigned int weft_ape_next_bit(uint64_t *bits)
{
	unsigned int which = (unsigned int)__builtin_ctzll(*bits);

	*bits &= *bits - 1;
	return which;
}

bool weft_ape_ni_config_holds(const struct weft_ape_ni_config *config);
/* memory: weft_ape_node_words(&config->node) words. */
void weft_ape_ni_init(struct weft_ape_ni *c, const struct weft_ape_ni_config *config,
		      struct weft_ape_word *memory, const struct weft_ape_world *world,
		      void *owner);

void weft_ape_ni_beat(struct weft_ape_ni *c, unsigned int cable, const struct weft_ape_beat *beat,
		      uint64_t now_ns);
/* The same for `count` beats, one behind the other. */
void weft_ape_ni_beats(struct weft_ape_ni *c, unsigned int cable, const uint64_t *quad,
		       unsigned int count, uint64_t now_ns);
bool weft_ape_ni_step(struct weft_ape_ni *c, uint64_t now_ns);
uint64_t weft_ape_ni_deadline(const struct weft_ape_ni *c);

/* Takes a descriptor. False: the process has as many as can wait. One that is wrong gives its
 * event, and nothing else happens. */
bool weft_ape_ni_post(struct weft_ape_ni *c, unsigned int process,
		      const struct weft_ape_descriptor *d, uint64_t now_ns);
/* Registers a range for other nodes. Returns the buffer's number, or -1: there is no room, or it is no range. */
int weft_ape_ni_register(struct weft_ape_ni *c, unsigned int process, uint8_t rights, uint64_t addr,
			 uint64_t bytes, uint64_t tag);
/* The same with a number of the caller's; false: it is not free, or there is no such range. */
bool weft_ape_ni_register_at(struct weft_ape_ni *c, unsigned int process, unsigned int buffer,
			     uint8_t rights, uint64_t addr, uint64_t bytes, uint64_t tag);
/* When it has returned, no byte comes into the buffer any more. False: a SEND is coming into it, or there is no such buffer. */
bool weft_ape_ni_unregister(struct weft_ape_ni *c, unsigned int process, unsigned int buffer);
/* The same also while a SEND is coming into it: that is refused, and tried again by its sender. False: there
 * is no such buffer. */
bool weft_ape_ni_withdraw(struct weft_ape_ni *c, unsigned int process, unsigned int buffer);
/* The process has gone: what it has posted ends, and nothing comes into its memory any more. */
void weft_ape_ni_leave(struct weft_ape_ni *c, unsigned int process);
/* Whether nothing that the process has posted is under way. */
bool weft_ape_ni_is_quiet(const struct weft_ape_ni *c, unsigned int process);

/* ---- Between the files of the network interface ---- */

/* Its timers are looked at by then. */
static inline void weft_ape_ni_wake(struct weft_ape_ni *c, uint64_t at_ns)
{
	if (at_ns < c->wake_ns)
		c->wake_ns = at_ns;
}

/* Flows may have something to send. */
static inline void weft_ape_ni_stir(struct weft_ape_ni *c)
{
	c->quiet = false;
	c->dry = 0;
}

/* The peer at this node, or NULL: there is no room for another. */
struct weft_ape_peer *weft_ape_ni_peer(struct weft_ape_ni *c, struct weft_ape_coord at);
void weft_ape_ni_deliver(void *card, unsigned int local, struct weft_ape_word word, bool end);
void weft_ape_ni_deliver_packet(void *card, unsigned int local, struct weft_ape_word header,
				struct weft_ape_fifo *payload, unsigned int words,
				struct weft_ape_word footer);
/* Fails a message; its packets become nothing, and its event comes when none is under way. */
void weft_ape_message_fail(struct weft_ape_ni *c, struct weft_ape_message *m,
			   enum weft_ape_status status);
/* All that is under way to or from the peer ends. */
void weft_ape_peer_fail(struct weft_ape_ni *c, struct weft_ape_peer *p, enum weft_ape_class class,
			enum weft_ape_status status);
/* The peer has acknowledged so many packets of the flow, the first `from`. */
void weft_ape_message_acked(struct weft_ape_ni *c, struct weft_ape_flow *f, uint32_t from,
			    uint32_t count);
void weft_ape_message_end(struct weft_ape_ni *c, struct weft_ape_message *m,
			  enum weft_ape_status status);
/* Refuses a request of the peer's by its sequence, or a GET by its id. False: the flow of answers has no room.
 */
bool weft_ape_refuse(struct weft_ape_ni *c, struct weft_ape_peer *p, bool is_get, uint32_t what,
		     enum weft_ape_status status);

#endif
