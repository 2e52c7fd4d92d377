/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Posts COUNT WRITEs of 8 bytes inline, in a process that has registered as many regions of a GPU's memory, none of which has these
 * bytes. To be run under callgrind, which counts the instructions of post_inline().
 *
 *   inline COUNT REGIONS
 */
#include <stdio.h>
#include <stdlib.h>

#include "../abi/pool.h"
#include "../verbs/rig.h"
#include "gpu.h"

#define BURST (RIG_DEPTH / 2)
#define BYTES 4096ul

__attribute__((noinline)) static void post_inline(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	for (unsigned int i = 0; i < BURST; i++)
		if (ibv_post_send(qp, wr, &bad))
			exit(4);
}

/* Registers every other page of a GPU's memory, each as a region of its own. */
static void register_pages(struct rig *rig, unsigned long regions)
{
	weft_cu_ptr at;

	if (!gpu_load())
		exit(3);
	gpu_context();
	GPU_OK(cu.cuMemAlloc_v2(&at, 2 * regions * BYTES));
	for (unsigned long i = 0; i < regions; i++)
		if (!ibv_reg_mr(rig->pd, (void *)(uintptr_t)(at + 2 * i * BYTES), BYTES, RIG_ALL))
			exit(4);
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long regions = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	void *state = NULL;
	struct ibv_mr *mr;
	struct rig rig;

	if (make_pool(&state))
		return 2;
	rig_open(&rig);
	rig_connect(&rig, &(struct rig_wish){0});
	mr = rig_region(rig.pd, BYTES);
	if (regions)
		register_pages(&rig, regions);
	for (unsigned long done = 0; done < count; done += BURST) {
		struct ibv_sge sge = {(uintptr_t)mr->addr, 8, 0};
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
					 .wr.rdma = {(uintptr_t)mr->addr + 64, mr->rkey}};

		post_inline(rig.qp[0], &wr);
		for (unsigned int i = 0; i < BURST; i++)
			if (rig_next(rig.cq[0]).status != IBV_WC_SUCCESS)
				return 4;
	}
	return remove_pool(&state);
}
