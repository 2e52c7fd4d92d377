/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What each example begins with: two programs open their cards, tell each other their addresses over
 * TCP, and connect a queue pair. Nothing here is Weft's: it is the same for any RDMA card.
 *
 * Any failure ends the program with a message: these are examples.
 */
#ifndef EXAMPLES_MEET_H
#define EXAMPLES_MEET_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* What one side has to know of the other. */
struct address {
	uint32_t qpn;	   /* its queue pair */
	uint16_t lid;	   /* its port, on InfiniBand */
	union ibv_gid gid; /* its port */
	uint32_t rkey;	   /* its memory: the key */
	uint64_t memory;   /* and where it begins */
};

struct meeting {
	bool is_client;
	int tcp;
	struct ibv_context *card;
	struct ibv_pd *domain;
	struct ibv_cq *completions;
	struct ibv_qp *queues;
	struct ibv_mr *region;
	struct address mine, theirs;
};

/*
 * The words of the command line are GID-INDEX PORT [SERVER]: which of the card's addresses to use, and
 * the TCP port to meet on. Without SERVER, it waits for a client. The memory is registered so that
 * the other side may read it, write it and do atomic operations on it.
 */
void meet(struct meeting *m, int argc, char **argv, void *memory, size_t bytes);
/* Returns when both sides have called it. */
void meet_again(struct meeting *m);
/* Waits for the next completion, which must be a success. */
void wait_for_completion(struct meeting *m);
void leave(struct meeting *m);
/* Ends the program unless `ok`. */
void must(bool ok, const char *what);

#endif
