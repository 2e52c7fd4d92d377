/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The client adds to a counter in the server's memory, a thousand times, and each time learns the value before. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "meet.h"

#define TIMES 1000

int main(int argc, char **argv)
{
	uint64_t *counter = aligned_alloc(4096, 4096);
	struct meeting m;

	must(counter, "allocate memory");
	*counter = 0;
	meet(&m, argc, argv, counter, 4096);
	if (m.is_client) {
		/* the old value comes into our own counter */
		struct ibv_sge piece = {(uintptr_t)counter, sizeof(*counter), m.region->lkey};
		struct ibv_send_wr add = {.sg_list = &piece,
					  .num_sge = 1,
					  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
					  .send_flags = IBV_SEND_SIGNALED,
					  .wr.atomic = {.remote_addr = m.theirs.memory,
							.rkey = m.theirs.rkey,
							.compare_add = 1}};
		struct ibv_send_wr *bad;

		for (uint64_t i = 0; i < TIMES; i++) {
			must(!ibv_post_send(m.queues, &add, &bad), "post a fetch-and-add");
			wait_for_completion(&m);
			must(*counter == i, "count alone: another program has added");
		}
	}
	meet_again(&m);
	if (!m.is_client)
		printf("counted to %" PRIu64 "\n", *counter);
	leave(&m);
	free(counter);
	return 0;
}
