/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The client sends a message; the server has posted a receive, and says what came. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meet.h"

#define BYTES 4096

int main(int argc, char **argv)
{
	char *text = aligned_alloc(4096, BYTES);
	struct meeting m;
	struct ibv_sge piece;
	struct ibv_recv_wr receive = {.sg_list = &piece, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr send = {.sg_list = &piece,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad_send;

	must(text, "allocate memory");
	meet(&m, argc, argv, text, BYTES);
	piece = (struct ibv_sge){(uintptr_t)text, BYTES, m.region->lkey};
	if (m.is_client) {
		meet_again(&m); /* returns when the server has posted the receive */
		piece.length =
			(uint32_t)snprintf(text, BYTES, "hello, queue pair %u", m.theirs.qpn) + 1;
		must(!ibv_post_send(m.queues, &send, &bad_send), "post a send");
		wait_for_completion(&m);
	} else {
		must(!ibv_post_recv(m.queues, &receive, &bad_receive), "post a receive");
		meet_again(&m);
		wait_for_completion(&m);
		printf("%s\n", text);
	}
	leave(&m);
	free(text);
	return 0;
}
