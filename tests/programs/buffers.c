/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a WRITE of 64 bytes takes into buffers of another process, by where that process got them: pages that it has mapped, and blocks
 * of malloc. Prints a line for each place: its name, and nanoseconds (the median of rounds that take turns).
 */
#include "end.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LARGE  (1ul << 20)
#define SMALL  (64ul << 10)
#define PAGE   4096ul
#define BYTES  64ul
#define EACH   64
#define ROUNDS 301

/* All at the same place in a cache line, as malloc's blocks begin. */
enum place {
	PAGES,	     /* mapped by the program */
	LARGE_FIRST, /* a block that malloc has mapped for itself: its first page, its last */
	LARGE_LAST,
	SMALL_MIDDLE, /* a block among others: a page of its own; one that it shares */
	SMALL_FIRST,
	PLACES,
};

static const char *const names[] = {"pages", "large, first", "large, last", "small, middle",
				    "small, first"};

static struct {
	struct end_address address[2];
	uint64_t at[PLACES];
	uint32_t rkey[PLACES];
	_Atomic int ready, over;
} * shared;

static void offer(enum place place, const struct ibv_mr *mr, const uint8_t *at)
{
	end_require(mr, "ibv_reg_mr");
	shared->at[place] = (uintptr_t)at;
	shared->rkey[place] = mr->rkey;
}

static void own(void)
{
	int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	uint8_t *pages, *large, *small;
	struct end end;
	struct ibv_mr *mr;

	end_open(&end, PAGE, true);
	large = malloc(LARGE);
	free(calloc(1, SMALL)); /* so that the block below is not the first of its size */
	small = calloc(1, SMALL);
	pages = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	end_require(large && small && pages != MAP_FAILED, "memory");
	offer(PAGES, ibv_reg_mr(end.pd, pages, LARGE, rights), pages + 16);
	mr = ibv_reg_mr(end.pd, large, LARGE, rights);
	offer(LARGE_FIRST, mr, large);
	offer(LARGE_LAST, mr, large + LARGE - BYTES);
	mr = ibv_reg_mr(end.pd, small, SMALL, rights);
	offer(SMALL_MIDDLE, mr, small + (SMALL / 2 - ((uintptr_t)small + SMALL / 2) % PAGE) + 16);
	offer(SMALL_FIRST, mr, small);
	shared->address[0] = end_address(&end);
	atomic_store(&shared->ready, 1);
	while (atomic_load(&shared->ready) < 2)
		usleep(1000);
	end_connect(&end, &shared->address[1]);
	atomic_store(&shared->ready, 3);
	while (!atomic_load(&shared->over))
		usleep(1000);
}

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void write_to(struct end *end, enum place place)
{
	struct ibv_sge sge = {(uintptr_t)end->memory, BYTES, end->mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .wr.rdma = {shared->at[place], shared->rkey[place]}};

	end_require(!ibv_post_send(end->qp, &wr, &bad), "ibv_post_send");
	end_complete(end);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(struct end *end)
{
	static double ns[PLACES][ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		for (int place = 0; place < PLACES; place++) {
			double began = now_ns();

			for (int i = 0; i < EACH; i++)
				write_to(end, (enum place)place);
			ns[place][round] = (now_ns() - began) / EACH;
		}
	}
	for (int place = 0; place < PLACES; place++) {
		qsort(ns[place], ROUNDS, sizeof(ns[place][0]), compare);
		printf("%s\t%.1f\n", names[place], ns[place][ROUNDS / 2]);
	}
}

static void write_all(void)
{
	struct end end;

	end_open(&end, PAGE, true);
	shared->address[1] = end_address(&end);
	while (atomic_load(&shared->ready) < 1)
		usleep(1000);
	atomic_store(&shared->ready, 2);
	end_connect(&end, &shared->address[0]);
	while (atomic_load(&shared->ready) < 3)
		usleep(1000);
	measure(&end);
}

int main(void)
{
	pid_t owner;
	int status;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	end_require(shared != MAP_FAILED, "mmap");
	owner = fork();
	if (!owner) {
		own();
		_exit(0);
	}
	write_all();
	atomic_store(&shared->over, 1);
	end_require(waitpid(owner, &status, 0) == owner && !status, "the other process");
	return 0;
}
