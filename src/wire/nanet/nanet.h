/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The engine of streams: datagrams of sources go into lists of buffers (clop.h), each counted once as
 * what it was. Pure: in go datagrams and the time; out come places to copy them to, records of buffers
 * that are to be told of, and when to call again. It has no memory but what it was given.
 *
 * Of a source at any instant, in datagrams:
 *
 *	arrived = placed + duplicate + late + bad + no_buffer
 *	sent    = arrived − duplicate + lost
 *
 * where sent and lost count from the lowest to the highest number that came, and start anew
 * where the source does. A bad datagram has no number that could be believed: so its number is among those
 * that are missing, and lost is what is missing beyond the bad ones. A bad copy of a datagram that also came well
 * is thereby taken for another datagram; missing is exact then, too.
 *
 * Context: one thread, or the caller serializes all calls.
 */
#ifndef WEFT_WIRE_NANET_NANET_H
#define WEFT_WIRE_NANET_NANET_H

#include "wire/nanet/clop.h"
#include "wire/nanet/protocol.h"
#include "wire/nanet/sequence.h"

#define WEFT_NANET_RUN	 64u /* datagrams in one call */
#define WEFT_NANET_STEPS (WEFT_NANET_RUN * (1 + 2 * WEFT_CLOP_OPEN + WEFT_CLOP_OPEN))

struct weft_nanet_source_options {
	uint32_t list;
	struct weft_protocol protocol;
	/* Of numbered ones. window: how far behind the highest a datagram may be, which for an ordered
	 * list is less than its slots; history, jump: wire/nanet/sequence.h. */
	uint32_t window, history;
	uint64_t jump;
};

struct weft_nanet_options {
	uint32_t sources, lists;
	const struct weft_nanet_source_options *source;
	const struct weft_clop_options *list;
};

/* name, what it counts; in datagrams but where it says something else */
#define WEFT_NANET_COUNTERS(X)                                                                     \
	X(arrived, "came")                                                                         \
	X(placed, "have a place")                                                                  \
	X(duplicate, "came before")                                                                \
	X(late, "came behind the window, or when their buffer had been told of")                   \
	X(bad, "are not what the protocol says, or longer than a buffer's place")                  \
	X(no_buffer, "came while no buffer was free")                                              \
	X(reordered, "came behind a higher number, of those placed")                               \
	X(bytes, "of payload placed, in bytes")                                                    \
	X(events, "of the protocol placed")

struct weft_nanet_counters {
#define X(name, what) uint64_t name;
	WEFT_NANET_COUNTERS(X)
#undef X
};

/* What follows from the counters and the numbers. */
struct weft_nanet_account {
	struct weft_nanet_counters counters;
	uint64_t missing; /* numbers that did not come in a good datagram */
	uint64_t lost, sent;
	uint64_t restarts, wraps;
};

enum weft_nanet_kind {
	WEFT_NANET_PLACE,
	WEFT_NANET_TELL,
};

/* What is to be done, in this order: a buffer is told of when the bytes before are in their places. */
struct weft_nanet_step {
	enum weft_nanet_kind kind;
	union {
		struct {
			uint32_t source, list, buffer, slot, offset;
			uint32_t from, bytes; /* in what was given */
			uint32_t generation;
			uint64_t number; /* unwrapped; 0 of those without */
		} place;
		struct weft_clop_record record;
	};
};

struct weft_nanet_out {
	uint32_t steps;
	struct weft_nanet_step step[WEFT_NANET_STEPS];
};

struct weft_nanet;

/* NULL, or what does not make sense. */
const char *weft_nanet_wrong(const struct weft_nanet_options *options);
/* The memory that an engine needs, aligned to 8; the options make sense. */
size_t weft_nanet_bytes(const struct weft_nanet_options *options);
struct weft_nanet *weft_nanet_begin(const struct weft_nanet_options *options, void *memory);

/* Takes a datagram, or a run of at most WEFT_NANET_RUN behind each other, each of `segment` bytes, the last maybe shorter;
 * segment ≥ bytes: it is one. If the deadline has passed, weft_nanet_timer must have been called before. */
void weft_nanet_receive(struct weft_nanet *n, uint32_t source, const uint8_t *data, uint32_t bytes,
			uint32_t segment, uint64_t now_ns, struct weft_nanet_out *out);
/* When to call weft_nanet_timer, or UINT64_MAX. */
uint64_t weft_nanet_deadline(struct weft_nanet *n);
/* Tells of buffers whose time is up; as many as out has room for, so look at the deadline again. */
void weft_nanet_timer(struct weft_nanet *n, uint64_t now_ns, struct weft_nanet_out *out);
/* Tells of what is in the list now. */
void weft_nanet_flush(struct weft_nanet *n, uint32_t list, struct weft_nanet_out *out);
/* Whether the buffer was told of, with that generation, and not given back yet. */
bool weft_nanet_give_back(struct weft_nanet *n, uint32_t list, uint32_t buffer,
			  uint32_t generation);

/* weft_clop_expect of the list. */
uint32_t weft_nanet_expect(const struct weft_nanet *n, uint32_t list, uint32_t *buffer);
/* weft_clop_rests of the list. */
uint32_t weft_nanet_rests(const struct weft_nanet *n, uint32_t list, struct weft_clop_rest rest[2]);

void weft_nanet_account(const struct weft_nanet *n, uint32_t source,
			struct weft_nanet_account *account);
/* Of all sources. */
void weft_nanet_sum(const struct weft_nanet *n, struct weft_nanet_account *account);

/* One 64-bit word for a buffer that was told of: a poller that sees the upper half change has the
 * length in the lower. */
static inline uint64_t weft_nanet_word(const struct weft_clop_record *record)
{
	return (uint64_t)record->generation << 32 | record->bytes;
}

#endif
