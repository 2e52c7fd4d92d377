/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The two ends of what a test plays with the process's connection manager (world.h): identifiers and events
 * here, and the peer's datagrams. An event or datagram other than the expected one fails the running test.
 */
#ifndef WEFT_TESTS_CM_ENDS_H
#define WEFT_TESTS_CM_ENDS_H

#include "world.h"

#define SECOND	1000000000ull
#define MSECOND 1000000ull
#define PORT	7471
#define QPN	0x1234

extern struct rdma_event_channel *channel; /* its descriptor does not block */
extern struct rdma_conn_param param;

/* A fixture: an empty world, and the channel. */
int ends_begin(void **state);

struct sockaddr *loopback(uint16_t port);

/* Returns the next event, which must be that one; it is not acknowledged. */
struct rdma_cm_event *next_event(enum rdma_cm_event_type type, int status);
void expect_event(enum rdma_cm_event_type type, int status); /* the same, and acknowledges it */
void expect_no_event(void);

/* Returns the oldest datagram that this process has posted, which must be of that kind and to the peer. */
struct weft_mad expect_sent(enum weft_mad_kind kind);
void expect_silence(void);
/* A datagram from the peer arrives. */
void arrive(const struct weft_mad *mad);
/* Makes the peer's answer of that kind to a datagram that this process has sent. */
struct weft_mad answer(enum weft_mad_kind kind, const struct weft_mad *to);
void arrive_answer(enum weft_mad_kind kind, const struct weft_mad *to);

/* Identifiers: a new one; one with a route to the peer; one that has sent its REQ; one that is connected. */
struct rdma_cm_id *make_id(enum rdma_port_space ps);
struct rdma_cm_id *resolve(enum rdma_port_space ps);
struct rdma_cm_id *request(struct weft_mad *req);
struct rdma_cm_id *open_active(struct weft_mad *req);

#endif
