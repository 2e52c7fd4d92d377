/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the network interface asks of the world, and what it is asked by programs. The card, the
 * simulator and a fuzzer each have such a table. All functions are called from within those of the
 * engine, by its thread; none calls back. Time is an argument everywhere.
 */
#ifndef WEFT_WIRE_APE_WORLD_H
#define WEFT_WIRE_APE_WORLD_H

#include "wire/ape/node.h"

#define WEFT_APE_PROCESSES     64u
#define WEFT_APE_MESSAGE_BYTES (1ull << 31)
#define WEFT_APE_ENGINES       8u

/* How a descriptor ended, and what is wrong with one. */
enum weft_ape_status {
	WEFT_APE_OK,
	/* found when it is posted: nothing was done */
	WEFT_APE_BAD_OPCODE,
	WEFT_APE_BAD_FLAGS, /* bits that have no meaning */
	WEFT_APE_BAD_NODE,  /* outside the lattice */
	WEFT_APE_BAD_CHANNEL,
	WEFT_APE_BAD_LENGTH, /* above 2 GiB */
	WEFT_APE_BAD_REMOTE, /* the range does not fit into 48 bits */
	WEFT_APE_BAD_LOCAL,  /* the range wraps */
	WEFT_APE_NO_PEER,    /* the card speaks with as many nodes as it can */
	/* found later */
	WEFT_APE_LOCAL_FAULT,  /* the process's own memory is not there */
	WEFT_APE_REMOTE_RANGE, /* no buffer with that right covers it */
	WEFT_APE_REMOTE_FAULT, /* the memory of that buffer is not there */
	WEFT_APE_TOO_LONG,     /* for the receive that it met */
	WEFT_APE_NOT_READY,    /* no receive, for as long as patience lasts */
	WEFT_APE_UNREACHABLE,  /* no answer */
	WEFT_APE_RESTARTED,    /* the other card began anew */
	WEFT_APE_STATUSES,
};

const char *weft_ape_status_str(enum weft_ape_status status);

enum weft_ape_opcode {
	WEFT_APE_OP_PUT,
	WEFT_APE_OP_GET,
	WEFT_APE_OP_SEND,
	WEFT_APE_OPS,
};

/* A TX descriptor. Its 64 bytes in a ring are little-endian: opcode 0, flags (0) 1, channel 2–3,
 * packed coordinate of the node 4–5, zeros 6–7, bytes 8–15, local 16–23, remote 24–31, tag 32–39,
 * zeros to the end. */
#define WEFT_APE_DESCRIPTOR_BYTES 64u

struct weft_ape_descriptor {
	uint8_t opcode, flags; /* flags: whatever of the bytes that must be 0 is not */
	uint16_t channel;      /* the process there */
	struct weft_ape_coord to;
	uint64_t bytes, local, remote;
	uint64_t tag; /* comes back with the event */
};

void weft_ape_descriptor_load(const uint8_t bytes[WEFT_APE_DESCRIPTOR_BYTES],
			      struct weft_ape_descriptor *d);

enum weft_ape_event_kind {
	WEFT_APE_SENT,	   /* a descriptor is done; status, tag */
	WEFT_APE_RECEIVED, /* a SEND came; tag of the buffer, bytes, from, channel */
};

struct weft_ape_event {
	enum weft_ape_event_kind kind;
	enum weft_ape_status status;
	uint64_t tag, bytes;
	struct weft_ape_coord from;
	uint16_t channel; /* the process there */
};

struct weft_ape_world {
	/* A beat onto a cable. */
	weft_ape_send_fn *send;
	weft_ape_send_words_fn *send_words; /* NULL: `send` has all */
	/* Bytes of a process. False: they are not there; then nothing of a place is stored. */
	bool (*read)(void *owner, unsigned int process, uint64_t addr, void *to, uint32_t bytes);
	bool (*place)(void *owner, unsigned int process, uint64_t addr, const void *from,
		      uint32_t bytes);
	weft_ape_crc_fn *crc32c;
	/* The buffer's counter, behind all bytes of the message that it counts. */
	void (*count)(void *owner, unsigned int process, uint32_t buffer, uint64_t count);
	/* A packet of verbs has come; NULL: it is dropped. */
	void (*verbs)(void *owner, struct weft_ape_coord from, const uint8_t *payload,
		      uint32_t bytes);
	/* Into the ring of events; the world has room, or counts what it loses. */
	void (*event)(void *owner, unsigned int process, const struct weft_ape_event *event);
};

#endif
