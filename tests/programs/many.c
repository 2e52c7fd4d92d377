/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Many queue pairs in one process, connected in couples.
 *
 *   many COUNT	prints, as a JSON object: bytes of memory an idle, connected queue pair takes
 *		(process and pool), and the time of a SEND and its receive in ns with one queue
 *		pair that is alone, with one of COUNT active, and round-robin over all
 */
#include "end.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEPTH	16u
#define BYTES	8u
#define ROUNDS	20000u
#define BATCHES 21

static struct end end;
static struct ibv_qp **qps;

static void post_receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)end.memory, BYTES, end.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	end_require(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

static void send_one(struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_sge sge = {(uintptr_t)end.memory + 64, BYTES, end.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	post_receive(to);
	end_require(!ibv_post_send(from, &wr, &bad), "ibv_post_send");
	end_complete(&end);
	end_complete(&end);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The time of a SEND and its receive over the first `n` couples in turn: the median of batches, in ns. */
static double time_sends(unsigned int n)
{
	double batch[BATCHES];
	struct timespec start, stop;

	for (int b = 0; b < BATCHES; b++) {
		clock_gettime(CLOCK_MONOTONIC, &start);
		for (unsigned int i = 0; i < ROUNDS; i++)
			send_one(qps[i % n * 2], qps[i % n * 2 + 1]);
		clock_gettime(CLOCK_MONOTONIC, &stop);
		batch[b] = ((double)(stop.tv_sec - start.tv_sec) * 1e9 +
			    (double)(stop.tv_nsec - start.tv_nsec)) /
			   ROUNDS;
	}
	qsort(batch, BATCHES, sizeof(*batch), compare);
	return batch[BATCHES / 2];
}

/* The memory of this process and of the pool's file; pages of the pool that this process maps count once. */
static long memory_bytes(void)
{
	long size = 0, resident = 0, shared = 0;
	const char *pool = getenv("WEFT_POOL");
	struct stat st = {0};
	FILE *f = fopen("/proc/self/statm", "r");

	end_require(f && fscanf(f, "%ld %ld %ld", &size, &resident, &shared) == 3, "statm");
	fclose(f);
	end_require(pool && !stat(pool, &st), "stat of $WEFT_POOL");
	return (resident - shared) * sysconf(_SC_PAGESIZE) + st.st_blocks * 512;
}

static void add(unsigned int from, unsigned int to)
{
	struct end_address address = end_address(&end);

	for (unsigned int i = from; i < to; i++)
		qps[i] = end_add_qp(&end, DEPTH, true);
	for (unsigned int i = from; i < to; i++) {
		address.qpn = qps[i ^ 1]->qp_num;
		end_connect_qp(qps[i], &address);
	}
}

int main(int argc, char **argv)
{
	unsigned int count = argc == 2 ? (unsigned int)atoi(argv[1]) : 0;
	double alone, active, all;
	long before, after;

	if (count < 4 || count % 2) {
		fprintf(stderr, "usage: many COUNT (even, at least 4)\n");
		return 2;
	}
	qps = calloc(count, sizeof(*qps));
	end_require(qps, "calloc");
	end_open(&end, 4096, true);
	add(0, 2);
	alone = time_sends(1);
	before = memory_bytes();
	add(2, count);
	after = memory_bytes();
	active = time_sends(1);
	all = time_sends(count / 2);
	printf("{\"bytes\": %.0f, \"alone_ns\": %.1f, \"one_active_ns\": %.1f, \"all_ns\": %.1f}\n",
	       (double)(after - before) / (count - 2), alone, active, all);
	for (unsigned int i = 0; i < count; i++)
		end_require(!ibv_destroy_qp(qps[i]), "ibv_destroy_qp");
	end_close(&end);
	return 0;
}
