/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The seam between the receiver of streams and what brings datagrams to it: a row of the table in
 * link/stream.c for each kind. A link is named by "KIND:WHERE".
 *
 * Context: one thread for each link. Nothing blocks.
 */
#ifndef WEFT_LINK_STREAM_H
#define WEFT_LINK_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_STREAM_RUN	    64u /* datagrams in a run, and runs that one call gives */
#define WEFT_STREAM_LONGEST 65536u
#define WEFT_STREAM_NOWHERE UINT32_MAX
#define WEFT_STREAM_BEHIND  (UINT32_MAX - 1) /* in one of the rests */

/* A datagram, or several behind each other, of `segment` bytes each; the last may be shorter. */
struct weft_stream_run {
	uint8_t *at;
	uint32_t bytes, segment; /* segment > 0; ≥ bytes: it is one */
	uint32_t
		place; /* where it lies: one of those offered, WEFT_STREAM_BEHIND or WEFT_STREAM_NOWHERE */
};

/* Places of `bytes` each that a link may have the kernel put datagrams into, whole, one in each: what
 * does not fit there lies elsewhere, and behind all that fits. Of a packed list there are no places but rests, of which joined datagrams
 * may fill the first and then the second, none of them cut. */
struct weft_stream_places {
	uint8_t *at[WEFT_STREAM_RUN];
	uint32_t count, bytes;
	uint32_t rests;
	struct {
		uint8_t *at;
		uint32_t bytes;
	} rest[2];
};

struct weft_stream_link_options {
	uint32_t socket_bytes; /* 0: the system's default */
	const char *wrong;     /* what is wrong, of -EINVAL */
};

struct weft_stream_link;

struct weft_stream_link_kind {
	const char *name;
	/* -EINVAL: `where` is no such place; others by errno. */
	int (*open)(const char *where, struct weft_stream_link_options *options,
		    struct weft_stream_link **link);
	/* Takes what has come: the number of runs, at most WEFT_STREAM_RUN, or -errno. They, and the
	 * bytes that lie nowhere of the caller's, are good until the next call. */
	int (*receive)(struct weft_stream_link *link, const struct weft_stream_places *places,
		       struct weft_stream_run run[]);
	/* Before the caller sleeps on the descriptor: false, something has come meanwhile. NULL: the
	 * descriptor is always right. */
	bool (*sleep)(struct weft_stream_link *link);
	/* Asks the system for link->dropped: no datagram may come any more that tells it. NULL: the system drops none. */
	void (*ask)(struct weft_stream_link *link);
	void (*close)(struct weft_stream_link *link);
};

/* What each link begins with. */
struct weft_stream_link {
	const struct weft_stream_link_kind *kind;
	int fd;		  /* readable: there may be something */
	uint64_t dropped; /* datagrams that the system had no room for, as far as is known */
	uint64_t
		copied; /* bytes that were copied once more, as the kernel had put them in the wrong place */
};

extern const struct weft_stream_link_kind weft_stream_udp, weft_stream_ring, weft_stream_packet,
	weft_stream_torus;

/* The name of a kind, from 0 on; NULL: there are no more. */
const char *weft_stream_link_name(unsigned int which);
/* -EPROTONOSUPPORT: there is no such kind. */
int weft_stream_link_open(const char *from, struct weft_stream_link_options *options,
			  struct weft_stream_link **link);

/* Parses "ADDRESS:PORT"; the address is numeric, in brackets if it is of IPv6, and may be left out: any of IPv4. Returns whether
 * the text is that. */
bool weft_stream_address(const char *text, uint8_t address[16], uint16_t *port);

#endif
