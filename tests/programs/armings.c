/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * No wake-up is lost: one process arms its queue, looks once more, and sleeps; another completes
 * into it at every moment of that.
 *
 *   armings COUNT	prints how often it armed and how often it slept
 *
 * The producer is a child, forked before any verb. It waits for an acknowledgement by WRITE before
 * it sends again, after a pause of random length, so that the consumer mostly finds nothing.
 */
#include "end.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 2000
#define TOLD 1000000
#define PAUSE 1024u /* at most, in turns of an empty loop */

static void swap_addresses(int fd, const struct end *end, struct end_address *peer)
{
	struct end_address mine = end_address(end);

	end_require(write(fd, &mine, sizeof(mine)) == sizeof(mine), "write of an address");
	end_require(read(fd, peer, sizeof(*peer)) == sizeof(*peer), "read of an address");
}

static void post_receive(struct end *end)
{
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;

	end_require(!ibv_post_recv(end->qp, &wr, &bad), "ibv_post_recv");
}

static void send_empty(struct end *end)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	end_require(!ibv_post_send(end->qp, &wr, &bad), "ibv_post_send");
}

static void produce(int fd, long count)
{
	struct end_address peer;
	struct end end;
	uint32_t random = 1;
	char byte;

	end_open(&end, 4096, true);
	swap_addresses(fd, &end, &peer);
	end_connect(&end, &peer);
	end_require(read(fd, &byte, 1) == 1, "read of ready");
	for (long i = 0; i < count; i++) {
		random = random * 1664525 + 1013904223;
		for (uint32_t pause = random >> 16 & (PAUSE - 1); pause; pause--)
			atomic_signal_fence(memory_order_seq_cst);
		send_empty(&end);
		end_complete(&end);
		for (uint32_t n = 1; atomic_load((_Atomic uint64_t *)end.memory) != (uint64_t)i + 1; n++)
			if (n % 256 == 0)
				sched_yield();
	}
	end_require(read(fd, &byte, 1) == 0, "read of the end");
	end_close(&end);
}

static void acknowledge(struct end *end, const struct end_address *peer, uint64_t number)
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
	end_require(!ibv_post_send(end->qp, &wr, &bad), "ibv_post_send");
}

/* True when the awaited receive completed; the acknowledgements' completions pass by. */
static bool look(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 1) {
		end_require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		if (wc.opcode == IBV_WC_RECV)
			return true;
	}
	return false;
}

static void sleep_for_event(struct ibv_comp_channel *channel)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	end_require(poll(&fd, 1, PATIENCE_MS) == 1, "a wake-up was lost");
	end_require(!ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

static struct ibv_qp *qp_on(struct end *end, struct ibv_cq *cq)
{
	struct ibv_cq *old = end->cq;
	struct ibv_qp *qp;

	end->cq = cq;
	qp = end_add_qp(end, END_DEPTH, false);
	end->cq = old;
	return qp;
}

static void consume(int fd, long count)
{
	struct ibv_comp_channel *channel;
	struct ibv_qp *unused;
	struct end_address peer;
	struct ibv_cq *cq, *plain;
	struct end end;
	long armed = 0, slept = 0;

	end_open(&end, 4096, true);
	channel = ibv_create_comp_channel(end.context);
	end_require(channel, "ibv_create_comp_channel");
	cq = ibv_create_cq(end.context, 2 * END_DEPTH, NULL, channel, 0);
	end_require(cq, "ibv_create_cq");
	plain = end.cq;
	unused = end.qp;
	end.qp = qp_on(&end, cq);
	end.cq = cq;
	swap_addresses(fd, &end, &peer);
	end_connect(&end, &peer);
	post_receive(&end);
	end_require(write(fd, "r", 1) == 1, "write of ready");
	for (long i = 0; i < count; i++) {
		if (i && i % TOLD == 0)
			fprintf(stderr, "armed %ld times, slept %ld times so far\n", armed, slept);
		do {
			end_require(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
			armed++;
			if (look(cq))
				break;
			sleep_for_event(channel);
			slept++;
		} while (!look(cq));
		post_receive(&end);
		acknowledge(&end, &peer, (uint64_t)i + 1);
	}
	printf("armed %ld times, slept %ld times\n", armed, slept);
	end_require(!shutdown(fd, SHUT_WR), "shutdown");
	end_require(!ibv_destroy_qp(end.qp), "ibv_destroy_qp");
	end_require(!ibv_destroy_cq(cq), "ibv_destroy_cq");
	end_require(!ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
	end.qp = unused;
	end.cq = plain;
	end_close(&end);
}

int main(int argc, char **argv)
{
	long count = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
	int pair[2], status;
	pid_t child;

	if (count <= 0) {
		fprintf(stderr, "usage: armings COUNT\n");
		return 2;
	}
	end_require(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* it spins for what a dead consumer never sends */
		close(pair[0]);
		produce(pair[1], count);
		return 0;
	}
	close(pair[1]);
	consume(pair[0], count);
	end_require(waitpid(child, &status, 0) == child && !status, "the producer");
	return 0;
}
