/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Registers a large region and then a small one, writes through both to itself, prints their keys,
 * and sleeps until it is killed.
 *
 *   room LARGE_MIB SMALL_KIB
 */
#include "end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ibv_mr *add(struct end *end, size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	end_require(memory != MAP_FAILED, "mmap");
	memset(memory, 1, bytes);
	mr = ibv_reg_mr(end->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	end_require(mr, "ibv_reg_mr");
	return mr;
}

/* The last page of the region becomes the first one of the other memory. */
static void write_end(struct end *end, struct ibv_mr *mr)
{
	uint8_t *last = (uint8_t *)mr->addr + mr->length - 4096;
	struct ibv_sge sge = {(uintptr_t)end->memory, 4096, end->mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.rdma = {(uintptr_t)last, mr->rkey}},
			   *bad;

	memset(end->memory, 42, 4096);
	end_require(!ibv_post_send(end->qp, &wr, &bad), "ibv_post_send");
	end_complete(end);
	end_require(!memcmp(last, end->memory, 4096), "the bytes written");
}

int main(int argc, char **argv)
{
	struct end_address self;
	struct ibv_mr *large, *small;
	struct end end;

	if (argc != 3)
		return 2;
	end_open(&end, 4096, true);
	self = end_address(&end);
	end_connect(&end, &self);
	large = add(&end, strtoul(argv[1], NULL, 10) << 20);
	small = add(&end, strtoul(argv[2], NULL, 10) << 10);
	write_end(&end, large);
	write_end(&end, small);
	printf("%u %u\n", large->rkey, small->rkey);
	fflush(stdout);
	pause();
	return 0;
}
