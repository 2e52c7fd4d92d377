/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests and receives that are drawn by chance, told by what() (world.h), and posted. */
#ifndef WEFT_TESTS_DIFFERENTIAL_REQUEST_H
#define WEFT_TESTS_DIFFERENTIAL_REQUEST_H

#include "world.h"

#define MAX_SGE	     3
#define PACKET_BYTES 1024
#define SIZES	     10

extern const uint32_t sizes[SIZES]; /* lengths of messages and receives */

struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge[MAX_SGE];
	uint32_t bytes;
	/* an atomic that has no place for its result: cards notice that when it was carried out */
	bool half_done;
};

enum fault { NO_FAULT, FAULT, SINGLE_FAULT };

bool request_is_atomic(const struct ibv_send_wr *wr);
/* Makes a key, or an address in the buffer, a wrong one; returns in which way. */
const char *spoil_key(struct world *world, enum buffer buffer, uint32_t *key, uint64_t *at);
/* Draws the elements of a request, whose opcode is set; each has one of the first `kinds` sizes. */
void pick_sges(struct world *world, struct request *request, uint32_t slot, uint32_t kinds);
void pick_flags(struct world *world, struct request *request);
/* Draws a request of a connection of that type, with wr_id slot + 1. */
void pick_request(struct world *world, enum ibv_qp_type type, struct request *request,
		  uint32_t slot, enum fault fault);
/* Posts a receive at that end: large enough for all messages, small, or wrong; its wr_id is FIRST_RECV +
 * slot. */
void post_receive(struct world *world, struct pair *pair, int end, uint32_t slot);
/* Runs a whole case between connected queue pairs (traffic.c). */
void run_traffic(struct world *world, struct wish wish);
/* The same with datagrams (datagram.c). */
void run_datagrams(struct world *world, struct wish wish);
/* Tells that the queues are extended, if they are (extended.c). */
void what_extended(const struct wish *wish);
/* Posts the requests as one list to queue pair 0; returns the wr_id of the last one that was taken. */
uint64_t post_list(struct pair *pair, struct request *requests, uint32_t count);

#endif
