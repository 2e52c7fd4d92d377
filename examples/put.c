/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The client writes into the server's memory, and the server takes no part: it looks at the last byte
 * until that has changed. Cards place the last byte last, and so does Weft.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meet.h"

#define BYTES 65536

int main(int argc, char **argv)
{
	char *memory = aligned_alloc(4096, BYTES);
	_Atomic char *last = (_Atomic char *)memory + BYTES - 1;
	struct meeting m;

	must(memory, "allocate memory");
	memset(memory, 0, BYTES);
	meet(&m, argc, argv, memory, BYTES);
	if (m.is_client) {
		struct ibv_sge piece = {(uintptr_t)memory, BYTES, m.region->lkey};
		struct ibv_send_wr put = {.sg_list = &piece,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED,
					  .wr.rdma = {m.theirs.memory, m.theirs.rkey}},
				   *bad;

		memset(memory, 'x', BYTES);
		must(!ibv_post_send(m.queues, &put, &bad), "post a write");
		wait_for_completion(&m);
	} else {
		size_t n = 0;

		/* acquire: the other bytes are looked at afterwards */
		while (!atomic_load_explicit(last, memory_order_acquire))
			;
		while (n < BYTES && memory[n] == 'x')
			n++;
		printf("%zu bytes came\n", n);
	}
	meet_again(&m); /* the memory of either side is there until both are done */
	leave(&m);
	free(memory);
	return 0;
}
