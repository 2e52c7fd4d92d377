/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests and receives drawn by chance, told as `what` (world.h), and posted. */
#ifndef WEFT_TESTS_DIFFERENTIAL_REQUEST_H
#define WEFT_TESTS_DIFFERENTIAL_REQUEST_H

#include "world.h"

#define MAX_SGE	     3
#define PACKET_BYTES 1024
#define SIZES	     10

extern const uint32_t sizes[SIZES]; /* that messages and receives have */

struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge[MAX_SGE];
	uint32_t bytes;
	bool half_done; /* an atomic without a place for its answer: cards notice at the end */
};

enum fault { NO_FAULT, FAULT, SINGLE_FAULT };

bool request_is_atomic(const struct ibv_send_wr *wr);
/* Makes a key or a place of the buffer a wrong one; its kind. */
const char *spoil_key(struct world *world, enum buffer buffer, uint32_t *key, uint64_t *at);
/* The parts of a request, whose opcode is set; each has one of the first `kinds` sizes. */
void pick_sges(struct world *world, struct request *request, uint32_t slot, uint32_t kinds);
void pick_flags(struct world *world, struct request *request);
/* One of a connection of that type; wr_id is slot + 1. */
void pick_request(struct world *world, enum ibv_qp_type type, struct request *request,
		  uint32_t slot, enum fault fault);
/* A receive for that end: large enough for all, small, or wrong; wr_id is FIRST_RECV + slot. */
void post_receive(struct world *world, struct pair *pair, int end, uint32_t slot);
/* A whole case between connected queue pairs (traffic.c). */
void run_traffic(struct world *world, struct wish wish);
/* The same of datagrams (datagram.c). */
void run_datagrams(struct world *world, struct wish wish);
/* Tells of extended queues, if it wishes them (extended.c). */
void what_extended(const struct wish *wish);
/* Posts them as one list to queue pair 0; the wr_id of the last that was taken. */
uint64_t post_list(struct pair *pair, struct request *requests, uint32_t count);

#endif
