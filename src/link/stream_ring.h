/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A ring of datagrams in a file that two processes map: one writes, the stream that made it reads. Its
 * writer's end is here, the reader's is a link of streams (link/stream.h): "ring:PATH" makes PATH, and
 * PATH.wake, a pipe by which a writer wakes a reader that sleeps.
 */
#ifndef WEFT_LINK_STREAM_RING_H
#define WEFT_LINK_STREAM_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#define WEFT_RING_FILE_MAGIC 0x31676e6972746677ull
#define WEFT_RING_BYTES	     (4u << 20)
#define WEFT_RING_SKIP	     UINT32_MAX /* instead of a length: the next is at the beginning */

/*
 * The file: this, then WEFT_RING_BYTES of datagrams, each at a multiple of 8, behind its length as 32
 * bits, never across the end.
 *
 * word     | writer | transition                       | order
 * `magic`  | reader | 0 to WEFT_RING_FILE_MAGIC        | before the file has its name
 * `head`   | writer | grows                            | release, after the datagram; then a fence, then `asleep` is read
 * `tail`   | reader | grows, up to `head`              | release, when the datagrams given before are done with
 * `asleep` | reader | to 1                             | relaxed; then a fence, then `head` is read once more
 *          | writer | 1 to 0, by exchange              | then it writes into the pipe
 *
 * Stale values. A writer that reads an old `tail` takes the ring for full (-EAGAIN). A reader of an old `head` finds the
 * rest at its next look, before which it does not sleep: it sees the new head behind its fence, or the writer sees it asleep. A reader that found something does
 * not take `asleep` back: the next datagram writes one byte into the pipe, which it reads before it sleeps again.
 */
struct weft_stream_ring_file {
	uint64_t magic;			    /* the reader's */
	alignas(128) _Atomic uint64_t head; /* bytes written so far; the writer's */
	alignas(128) _Atomic uint64_t tail; /* bytes read so far; the reader's */
	alignas(128) _Atomic uint32_t asleep;
	alignas(128) uint8_t bytes[];
};

/* What a datagram takes of it. */
static inline uint32_t weft_ring_room(uint32_t bytes)
{
	return (uint32_t)((4 + (uint64_t)bytes + 7) & ~7ull);
}

struct weft_ring_writer;

/* -EBUSY: it has a writer; -EPROTO: it is no ring; others by errno. */
int weft_ring_writer_open(const char *path, struct weft_ring_writer **writer);
/* -EAGAIN: there is no room; -EPIPE: nor will be, as the reader has gone; -EMSGSIZE: it is longer than any datagram. */
int weft_ring_writer_put(struct weft_ring_writer *writer, const uint8_t *data, uint32_t bytes);
void weft_ring_writer_close(struct weft_ring_writer *writer);

#endif
