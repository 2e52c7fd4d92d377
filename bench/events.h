/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Requests and answers between programs that sleep (events.c): what TCP and verbs have in common there. A message is `bytes` long
 * and begins with its number. Any failure ends the process. Context: one thread a process.
 */
#ifndef WEFT_BENCH_EVENTS_H
#define WEFT_BENCH_EVENTS_H

#include "end.h"

struct options {
	uint32_t clients, processes, in_flight, bytes;
	double seconds;	   /* or, not 0: */
	uint64_t requests; /* of all clients together */
	int server_core, client_core;
	bool gather; /* TCP: what is answered to one read goes by one send */
	bool epoll;  /* clients use it even if they have one connection */
	bool refuse; /* this process and its children may not call pidfd_getfd */
};

struct conn {
	const struct options *options;
	int socket; /* by it the two met */
	int epoll;
	bool alone; /* its process has no other, and waits in the calls that take messages, without epoll */
	uint64_t sent, answered;
	void (*message)(struct conn *c, uint64_t number);
	/* of TCP */
	uint8_t *in, *out;
	size_t in_bytes, in_room, out_bytes, out_done;
	bool waits; /* for room to send */
	/* of verbs */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint8_t *slots; /* in_flight to receive into, and as many to send from */
};

/* How messages travel. */
struct way {
	/* Called before the first connection, with the number that there will be. */
	void (*open)(const struct options *o, uint32_t conns);
	/* The two ends have met by `socket`. The descriptor to wait for in the connection's epoll. */
	int (*connect)(struct conn *c, uint32_t index);
	/* That descriptor can be read, or written to: calls message() for each message that has come. False: the other end has gone. */
	bool (*ready)(struct conn *c, uint32_t events);
	void (*send)(struct conn *c, uint64_t number);
	/* Sends what send() was given outside of ready(). */
	void (*flush)(struct conn *c);
};

extern const struct way tcp, verbs;

#endif
