/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "arming.h"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#define PAUSE 1024u /* at most, in turns of an empty loop */

void arming_swap(int fd, const struct end *end, struct end_address *peer)
{
	struct end_address mine = end_address(end);

	end_require(write(fd, &mine, sizeof(mine)) == sizeof(mine), "write of an address");
	end_require(read(fd, peer, sizeof(*peer)) == sizeof(*peer), "read of an address");
}

/* ---- The producer ---- */

void arming_send(struct end *end, struct arming_sent *sent, uint32_t *random)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	uint64_t number = atomic_load(&sent->begun) + 1;

	*random = *random * 1664525 + 1013904223;
	for (uint32_t pause = *random >> 16 & (PAUSE - 1); pause; pause--)
		atomic_signal_fence(memory_order_seq_cst);
	atomic_store(&sent->begun, number);
	end_require(!ibv_post_send(end->qp, &wr, &bad), "ibv_post_send");
	atomic_store(&sent->ended, number);
	end_complete(end);
	for (uint32_t n = 1; atomic_load((_Atomic uint64_t *)end->memory) != number; n++)
		if (n % 256 == 0)
			sched_yield();
}

/* ---- The consumer ---- */

struct ibv_qp *arming_add_qp(struct arming *a)
{
	struct ibv_qp *qp;

	a->end.cq = a->cq;
	qp = end_add_qp(&a->end, END_DEPTH, false);
	a->end.cq = a->plain;
	return qp;
}

void arming_open(struct arming *a)
{
	end_open(&a->end, 4096, true);
	a->channel = ibv_create_comp_channel(a->end.context);
	end_require(a->channel, "ibv_create_comp_channel");
	a->cq = ibv_create_cq(a->end.context, 2 * END_DEPTH, NULL, a->channel, 0);
	end_require(a->cq, "ibv_create_cq");
	a->plain = a->end.cq;
	a->unused = a->end.qp;
	a->end.qp = NULL;
}

void arming_close(struct arming *a)
{
	end_require(!ibv_destroy_cq(a->cq), "ibv_destroy_cq");
	end_require(!ibv_destroy_comp_channel(a->channel), "ibv_destroy_comp_channel");
	a->end.qp = a->unused;
	end_close(&a->end);
}

void arming_receive(struct arming *a)
{
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;

	end_require(!ibv_post_recv(a->end.qp, &wr, &bad), "ibv_post_recv");
}

void arming_acknowledge(struct arming *a, const struct end_address *peer, uint64_t number)
{
	struct ibv_sge sge = {(uintptr_t)&number, sizeof(number), 0};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_INLINE,
				 .wr.rdma = {peer->memory, peer->rkey}},
			   *bad;

	if (number % (END_DEPTH / 2) == 0)
		wr.send_flags |= IBV_SEND_SIGNALED;
	end_require(!ibv_post_send(a->end.qp, &wr, &bad), "ibv_post_send");
}

bool arming_look(struct arming *a, bool dies)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(a->cq, 1, &wc) == 1) {
		end_require(dies || wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		if (wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV)
			return true;
	}
	return false;
}

bool arming_readable(const struct arming *a, int timeout_ms)
{
	struct pollfd fd = {.fd = a->channel->fd, .events = POLLIN};

	return poll(&fd, 1, timeout_ms) == 1;
}
