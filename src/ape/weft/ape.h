/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libweft-ape: programs on a node of Weft's torus. PUT and GET reach memory that the other side has
 * registered, SEND what it has posted as a receive. Each ends in an event; a PUT also in the
 * counter of the buffer that it went to.
 *
 * A node is named by its rank, X first: x + size[0] * (y + size[1] * z); a process of it by its
 * number there, 0 to 63.
 *
 * Functions return 0 or more, or -errno; ape_strerror() says either. All may be called by several
 * threads at once, but for ape_close(). A child made by fork() has none of it.
 */
#ifndef WEFT_APE_H
#define WEFT_APE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define APE_BUFFERS	64 /* of a process */
#define APE_MESSAGE_MAX (UINT64_C(1) << 31)

struct ape;

struct ape_info {
	uint32_t size[3], at[3];
	uint32_t line[3]; /* not 0: there is no way round in this dimension */
	uint32_t rank, nodes, process;
};

enum ape_rights {
	APE_MAY_PUT = 1, /* others may put into it */
	APE_MAY_GET = 2, /* others may get from it */
};

/* How what was posted has ended. */
enum ape_status {
	APE_OK = 0,
	APE_BAD_OPCODE,
	APE_BAD_FLAGS,
	APE_BAD_NODE,
	APE_BAD_PROCESS,
	APE_BAD_LENGTH,	  /* above APE_MESSAGE_MAX */
	APE_BAD_REMOTE,	  /* beyond 48 bits */
	APE_BAD_LOCAL,	  /* the range wraps */
	APE_NO_PEER,	  /* the card speaks with as many nodes as it can */
	APE_LOCAL_FAULT,  /* the own memory is not there */
	APE_REMOTE_RANGE, /* no buffer with that right covers it */
	APE_REMOTE_FAULT, /* the memory of that buffer is not there */
	APE_TOO_LONG,	  /* for the receive that it met */
	APE_NOT_READY,	  /* no receive, for as long as the card tries */
	APE_UNREACHABLE,  /* the node does not answer */
	APE_RESTARTED,	  /* the other node's card began a new life */
};

enum ape_kind {
	APE_SENT,     /* what was posted is done; tag as posted */
	APE_RECEIVED, /* a SEND has come; tag of the receive */
};

struct ape_event {
	enum ape_kind kind;
	enum ape_status status;
	uint64_t tag, bytes;
	uint32_t rank, process; /* of the other side */
};

/*
 * node: NULL, the one that $WEFT_TORUS_NODE names (as `weft torus run` sets it); or NAME:X,Y,Z.
 * process: the number that it is to have, or -1. -EINVAL (no such name), -ENOENT (no such node),
 * -ENETDOWN (its card does not run), -EBUSY (the number is taken, or the process has another node
 * open), -ENOSPC (64 are there), -ENAMETOOLONG, -EACCES (another user's), -EPROTO (another version's), -ETIMEDOUT (a
 * process that stands still holds it up), -EMFILE, -ENOMEM.
 */
int ape_open(const char *node, int process, struct ape **ape);
/* Gives up what has not ended. */
void ape_close(struct ape *ape);
void ape_query(const struct ape *ape, struct ape_info *info);
uint32_t ape_rank(const struct ape *ape, uint32_t x, uint32_t y, uint32_t z);

/* Memory that the card reaches fastest, zeroed; NULL: there is none left. */
void *ape_alloc(struct ape *ape, uint64_t bytes);
void ape_free(struct ape *ape, void *at, uint64_t bytes);

/* Lets others at a range; the buffer's number. -EINVAL, -ENOSPC (64 are there), -ENETDOWN. */
int ape_register(struct ape *ape, void *at, uint64_t bytes, unsigned int rights);
/* When it has returned, no byte comes into the buffer any more. For a receive, -ENOENT: a SEND has taken it, and its event is there. */
int ape_unregister(struct ape *ape, int buffer);
/* How many messages have come into the buffer; the bytes that they brought can be read. */
uint64_t ape_count(const struct ape *ape, int buffer);

/* The memory `local` must stay as it is until the event. -EAGAIN: as many wait as can; poll first.
 * -ENETDOWN: the card has gone. */
int ape_put(struct ape *ape, uint32_t rank, uint32_t process, const void *local, uint64_t bytes,
	    uint64_t remote, uint64_t tag);
int ape_get(struct ape *ape, uint32_t rank, uint32_t process, void *local, uint64_t bytes,
	    uint64_t remote, uint64_t tag);
int ape_send(struct ape *ape, uint32_t rank, uint32_t process, const void *local, uint64_t bytes,
	     uint64_t tag);
/* Posts memory for one SEND; receives are taken in the order of posting. Returns the buffer's number, which is free again when its
 * event was polled. -EINVAL, -ENOSPC, -EAGAIN, -ENETDOWN. */
int ape_receive(struct ape *ape, void *at, uint64_t bytes, uint64_t tag);

/* Takes up to `most` events; returns how many. */
int ape_poll(struct ape *ape, struct ape_event *event, int most);
/*
 * Sleeps until something has happened since *seen, a count that it then brings up to date; 0 at first. timeout_ns
 * negative: for ever. Returns 1; 0: the time is over; -ENETDOWN.
 */
int ape_wait(struct ape *ape, uint64_t *seen, int64_t timeout_ns);
/*
 * A descriptor for epoll and its like, the same each time, closed by ape_close(): readable when something has happened since
 * it was read last. Read its 8 bytes, then poll until nothing comes. Not for reading by several threads. -EMFILE, -EAGAIN (no
 * thread for it).
 */
int ape_fd(struct ape *ape);

const char *ape_strerror(int error);
const char *ape_status_str(enum ape_status status);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
