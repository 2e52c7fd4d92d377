/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Posts and polls COUNT signaled WRITEs, READs, fetch-and-adds, and then SENDs, of 8 bytes between two queue
 * pairs of one process. To be run under callgrind, which counts the instructions of post_all(), read_all(),
 * add_all(), send_all(), and of poll_all(), which polls the WRITEs' completions.
 *
 *   posts COUNT
 */
#include "end.h"

#include <stdio.h>
#include <stdlib.h>

#define BURST (END_DEPTH / 2)

/* A function that callgrind sees as one. */
#ifdef __clang__
#define COUNTED __attribute__((__noinline__))
#else
#define COUNTED __attribute__((__noipa__))
#endif

static inline __attribute__((always_inline)) void post(struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	for (unsigned int i = 0; i < BURST; i++)
		end_require(!ibv_post_send(end->qp, wr, &bad), "ibv_post_send");
}

COUNTED static void post_all(struct end *end, struct ibv_send_wr *wr)
{
	post(end, wr);
}

COUNTED static void read_all(struct end *end, struct ibv_send_wr *wr)
{
	post(end, wr);
}

COUNTED static void add_all(struct end *end, struct ibv_send_wr *wr)
{
	post(end, wr);
}

COUNTED static void send_all(struct end *end, struct ibv_send_wr *wr)
{
	post(end, wr);
}

static void receive_all(struct end *end, struct ibv_sge *sge)
{
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 1}, *bad;

	for (unsigned int i = 0; i < BURST; i++)
		end_require(!ibv_post_recv(end->qp, &wr, &bad), "ibv_post_recv");
}

COUNTED static void poll_all(struct end *end)
{
	for (unsigned int i = 0; i < BURST; i++)
		end_complete(end);
}

/* Polls as many completions, in a function that is not counted. */
static void drain(struct end *end)
{
	for (unsigned int i = 0; i < BURST; i++)
		end_complete(end);
}

int main(int argc, char **argv)
{
	long count = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
	struct end_address here, there;
	struct end from, to;
	struct ibv_sge sge, into;
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};

	if (count <= 0 || count % BURST) {
		fprintf(stderr, "usage: posts COUNT (a multiple of %d)\n", BURST);
		return 2;
	}
	end_open(&from, 4096, true);
	end_open(&to, 4096, true);
	here = end_address(&from);
	there = end_address(&to);
	end_connect(&from, &there);
	end_connect(&to, &here);
	sge = (struct ibv_sge){(uintptr_t)from.memory, 8, from.mr->lkey};
	wr.wr.rdma.remote_addr = there.memory;
	wr.wr.rdma.rkey = there.rkey;
	for (long i = 0; i < count / BURST; i++) {
		post_all(&from, &wr);
		poll_all(&from);
	}
	wr.opcode = IBV_WR_RDMA_READ;
	for (long i = 0; i < count / BURST; i++) {
		read_all(&from, &wr);
		drain(&from);
	}
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = there.memory;
	wr.wr.atomic.rkey = there.rkey;
	wr.wr.atomic.compare_add = 1;
	for (long i = 0; i < count / BURST; i++) {
		add_all(&from, &wr);
		drain(&from);
	}
	into = (struct ibv_sge){(uintptr_t)to.memory, 8, to.mr->lkey};
	wr.opcode = IBV_WR_SEND;
	for (long i = 0; i < count / BURST; i++) {
		receive_all(&to, &into);
		send_all(&from, &wr);
		drain(&from);
		drain(&to);
	}
	end_close(&from);
	end_close(&to);
	return 0;
}
