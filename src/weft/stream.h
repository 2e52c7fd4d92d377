/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Streams into memory: datagrams of sources go into circular lists of buffers, in a thread of this
 * process; the application is told of buffers that are full, and gives them back.
 *
 *	weft_stream_open, weft_stream_register for each list, weft_stream_bind for each source,
 *	weft_stream_start, then weft_stream_wait and weft_stream_give_back until weft_stream_stop,
 *	which tells of what is left, and weft_stream_close
 *
 * Functions return 0 or -errno, and give back what they say through pointers. What is told may be
 * taken, and given back, by any thread, and by a child of fork, whose parent's thread receives; all
 * else is for one thread at a time of the process that opened.
 */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weft_stream;

/* Of a list; flags. */
#define WEFT_STREAM_ORDERED                                                                        \
	1u /* the place of a datagram is that of its number: one numbered source */
#define WEFT_STREAM_BURSTS 2u /* the end of a burst ends a buffer */
#define WEFT_STREAM_WORDS  4u /* told by words alone: weft_stream_wait knows nothing of it */
#define WEFT_STREAM_STAMPS 8u /* the last bytes of each place say when what was done: slots only */
#define WEFT_STREAM_GPU	   16u /* the memory is the caller's, and a GPU's: struct weft_stream_layout */
/* Of one with WEFT_STREAM_GPU: a kernel of ours fills it, and stays from start to stop in the context of the memory; what waits for
 * all of that context (cuCtxSynchronize, cuMemFree) waits as long. */
#define WEFT_STREAM_PULL 32u
#define WEFT_STREAM_FLAGS                                                                          \
	(WEFT_STREAM_ORDERED | WEFT_STREAM_BURSTS | WEFT_STREAM_WORDS | WEFT_STREAM_STAMPS |       \
	 WEFT_STREAM_GPU | WEFT_STREAM_PULL)

/* At the end of a datagram's place, whatever its length: in ns of CLOCK_MONOTONIC, none less than the one before. A
 * datagram may have as many bytes less. */
#define WEFT_STREAM_STAMPS_BYTES 32u
struct weft_stream_stamps {
	uint64_t taken_ns;     /* out of the kernel, or off the link */
	uint64_t resolved_ns;  /* its place is known */
	uint64_t placed_ns;    /* its bytes are there */
	uint64_t signalled_ns; /* its buffer is told of */
};

struct weft_stream_list {
	uint32_t buffers;
	uint32_t bytes; /* of each */
	uint32_t slots; /* places of slot_bytes in each, one for a datagram; 0: packed */
	uint32_t slot_bytes;
	uint32_t flags;
	/* a buffer is told of when it is full, and: */
	uint32_t datagrams;  /* holds so many; 0: however many */
	uint32_t events;     /* holds so many of the protocol, or more; 0: however many */
	uint64_t timeout_ns; /* so long after its first byte; 0: never */
	void *memory;	     /* buffers × bytes of the caller's, until close; NULL: it is made */
};

/*
 * What the memory of a list with WEFT_STREAM_GPU holds: the buffers, behind each other; at `words` a word for each, as
 * weft_stream_words has it; at `datagrams`, if it has slots, what weft_stream_datagrams has, buffer after buffer. A
 * kernel that reads a buffer's word by an acquire load of the system's scope, and finds a new generation, finds
 * all else of that buffer, too. Offsets and sizes are in bytes.
 */
struct weft_stream_layout {
	uint64_t words, datagrams;
	uint64_t bytes; /* of all */
};

enum weft_stream_protocol {
	WEFT_STREAM_RAW,       /* nothing is known of datagrams */
	WEFT_STREAM_SEQUENCED, /* an unsigned field is their number */
	WEFT_STREAM_MGP,       /* events: docs/stream.md */
	WEFT_STREAM_APE,       /* packets of the torus: docs/ape.md */
};

struct weft_stream_source {
	const char *
		from; /* "udp:ADDRESS:PORT", "ring:PATH", "packet:INTERFACE:PORT"; docs/stream.md */
	uint32_t list;
	enum weft_stream_protocol protocol;
	/* SEQUENCED: of 16, 32 or 64 bits at an offset; it grows by step, 0: 1 */
	uint32_t offset, bits, big_endian;
	uint64_t step;
	/* MGP: source × 256 + sub-source; APE: the sending node, x + 64 y + 2,048 z. Others are bad; -1: any */
	int32_t id;
	/* How far behind the highest number a datagram may be; of how many it is known whether they
	 * came, a power of two, 64 at least; how many may be missing in one piece. 0: 1,024; 4,096; 2²⁰, or what
	 * the list and the field have room for. */
	uint32_t window, history;
	uint64_t jump;
	uint32_t
		socket_bytes; /* of the socket's buffer, forced if the process may; 0: the default */
};

enum weft_stream_why {
	WEFT_STREAM_FULL,
	WEFT_STREAM_DATAGRAMS,
	WEFT_STREAM_EVENTS,
	WEFT_STREAM_TIME,
	WEFT_STREAM_BURST,
	WEFT_STREAM_FLUSHED,
	WEFT_STREAM_RESTARTED, /* the numbers of the next begin anew */
};

/* What is told of a buffer. Times are CLOCK_MONOTONIC's. Sequences and what is missing between them:
 * of lists with one numbered source, else 0. */
struct weft_stream_event {
	uint32_t list, buffer, generation;
	uint32_t why;
	uint32_t
		bytes; /* up to where there are payloads; of slots: would be, if none had been refused */
	uint32_t datagrams, events, reserved;
	uint64_t first_sequence, last_sequence, missing;
	uint64_t first_ns, last_ns;
};

/* Of a buffer of slots: where the datagram of each place lies. */
struct weft_stream_datagram {
	uint32_t offset, bytes; /* in the buffer */
	uint32_t source;
	uint32_t generation; /* the event's, or there is none in this place */
	uint64_t number;
	uint64_t time_ns;
};

/* In datagrams but for bytes and events:
 *	arrived = placed + duplicate + late + bad + no_buffer
 *	sent    = arrived - duplicate + lost
 * dropped, by the kernel for want of room, are of the lost, unless they were duplicates, bad or without numbers. */
struct weft_stream_counters {
	uint64_t arrived, placed, duplicate, late, bad, no_buffer;
	uint64_t reordered, bytes, events;
	uint64_t missing, lost, sent, restarts, wraps;
	uint64_t dropped;
	uint64_t copied; /* bytes of payload that this process copied, once each */
	uint64_t calls;	 /* of the link that brought something */
	uint64_t failed; /* errno of what ended the link, or the list's memory of a GPU; or 0 */
};

#define WEFT_STREAM_ALL UINT32_MAX /* sources, in sum */

/* spin_ns: how long the thread looks for datagrams before it sleeps. -ENOMEM. */
int weft_stream_open(uint64_t spin_ns, struct weft_stream **stream);
/* -EINVAL: it makes no sense; -EBUSY: the stream has started; -ENOSPC: of lists there are 64; -ENOMEM; with
 * WEFT_STREAM_GPU -ENOTSUP: there is no libcuda in this process, or Weft's part for it, or the kernel, is missing; -EIO: it does
 * not answer.
 * *number: the list's; *memory: its buffers, behind each other. Either may be NULL. */
int weft_stream_register(struct weft_stream *stream, const struct weft_stream_list *list,
			 uint32_t *number, void **memory);
void weft_stream_lay_out(const struct weft_stream_list *list, struct weft_stream_layout *layout);
/* -EINVAL, -EBUSY, -ENOSPC, -ENOMEM as above; -EPROTONOSUPPORT: no such link; and the link's. */
int weft_stream_bind(struct weft_stream *stream, const struct weft_stream_source *source,
		     uint32_t *number);
/* -EINVAL: lists and sources do not fit: weft_stream_wrong says what; -EBUSY: it has started; -EIO: a kernel does not begin. */
int weft_stream_start(struct weft_stream *stream);
/* What was wrong with the last call that answered -EINVAL, as a constant text, or NULL. */
const char *weft_stream_wrong(const struct weft_stream *stream);

/* The next event, waited for as long: < 0 for ever. -EAGAIN: there is none; -ESHUTDOWN: nor will
 * there be, as the stream has been stopped; -EINTR: a signal came. */
int weft_stream_wait(struct weft_stream *stream, struct weft_stream_event *event, int timeout_ms);
/* A descriptor that becomes readable, once, when something is told after weft_stream_arm. That
 * answers -EAGAIN when something can be taken already: then it is not armed. One sleeper at a time. */
int weft_stream_fd(const struct weft_stream *stream);
int weft_stream_arm(struct weft_stream *stream);
/* A word for each buffer of the list, 0 at first: generation << 32 | bytes of what was told last, for
 * pollers that read it with acquire. NULL: there is no such list, or it has not started. */
const uint64_t *weft_stream_words(const struct weft_stream *stream, uint32_t list);
/* Of a buffer of slots that was told of: the datagram of each place. NULL: there is no such buffer. */
const struct weft_stream_datagram *weft_stream_datagrams(const struct weft_stream *stream,
							 uint32_t list, uint32_t buffer);
/* -EINVAL: no such buffer; -ESTALE: it is not out with that generation; -EBUSY: its event has not
 * been taken. */
int weft_stream_give_back(struct weft_stream *stream, uint32_t list, uint32_t buffer,
			  uint32_t generation);
/* Tells of what is in the list, soon. -EINVAL: no such list, or it has not started. */
int weft_stream_flush(struct weft_stream *stream, uint32_t list);

/* Of one source, or WEFT_STREAM_ALL, at one instant of each. -EINVAL: no such source. */
int weft_stream_counters(const struct weft_stream *stream, uint32_t source,
			 struct weft_stream_counters *counters);

/* Ends the thread; what is open is told of. Nothing if it has not started. */
void weft_stream_stop(struct weft_stream *stream);
void weft_stream_close(struct weft_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
