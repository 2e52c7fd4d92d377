/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * N processes, each connected to each other one, send M messages to each of them and verify what
 * they receive: which one it is, of which sender, and every byte of it.
 *
 *   crowd N M
 *
 * The processes are forked before any verb. They exchange addresses through shared memory.
 */
#include "end.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST	64
#define DEPTH	16u
#define MESSAGE 64u

struct message {
	uint32_t from, to;
	uint64_t number;
	uint8_t pattern[MESSAGE - 16];
};

static struct {
	struct end_address address[MOST][MOST]; /* [of][for] */
	_Atomic int arrived[3];
} * shared;

struct member {
	struct end end;
	struct ibv_qp *qp[MOST];
	int n, me;
	uint64_t messages;
	uint64_t sent[MOST], done[MOST], received[MOST];
};

static void barrier(int which, int n)
{
	shared->arrived[which]++;
	while (shared->arrived[which] < n)
		sched_yield();
}

/* Receives of a peer stand in the lower half of its slice of the memory, sends in the upper. */
static struct message *slot(const struct member *m, int peer, bool send, uint64_t number)
{
	size_t index = ((size_t)peer * 2 + send) * DEPTH + number % DEPTH;

	return (struct message *)(m->end.memory + index * MESSAGE);
}

static uint8_t pattern(const struct message *msg, size_t i)
{
	return (uint8_t)(msg->from * 7 + msg->to * 31 + msg->number * 13 + i);
}

static void post_receive(struct member *m, int peer, uint64_t number)
{
	struct ibv_sge sge = {(uintptr_t)slot(m, peer, false, number), MESSAGE, m->end.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)peer, .sg_list = &sge, .num_sge = 1}, *bad;

	end_require(!ibv_post_recv(m->qp[peer], &wr, &bad), "ibv_post_recv");
}

static void post_send(struct member *m, int peer)
{
	struct message *msg = slot(m, peer, true, m->sent[peer]);
	struct ibv_sge sge = {(uintptr_t)msg, MESSAGE, m->end.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = (uint64_t)peer,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	msg->from = (uint32_t)m->me;
	msg->to = (uint32_t)peer;
	msg->number = m->sent[peer]++;
	for (size_t i = 0; i < sizeof(msg->pattern); i++)
		msg->pattern[i] = pattern(msg, i);
	end_require(!ibv_post_send(m->qp[peer], &wr, &bad), "ibv_post_send");
}

static void verify(struct member *m, int peer)
{
	const struct message *msg = slot(m, peer, false, m->received[peer]);

	end_require(msg->from == (uint32_t)peer && msg->to == (uint32_t)m->me &&
			    msg->number == m->received[peer],
		    "the next message of that peer");
	for (size_t i = 0; i < sizeof(msg->pattern); i++)
		end_require(msg->pattern[i] == pattern(msg, i), "its bytes");
}

static void join(struct member *m)
{
	end_open(&m->end, (size_t)MOST * 2 * DEPTH * MESSAGE, true);
	end_require(!ibv_resize_cq(m->end.cq, (int)(m->n * 2 * (int)DEPTH)), "ibv_resize_cq");
	for (int peer = 0; peer < m->n; peer++) {
		if (peer == m->me)
			continue;
		m->qp[peer] = end_add_qp(&m->end, DEPTH, true);
		shared->address[m->me][peer] = end_address(&m->end);
		shared->address[m->me][peer].qpn = m->qp[peer]->qp_num;
		for (uint64_t i = 0; i < DEPTH; i++)
			post_receive(m, peer, i);
	}
	barrier(0, m->n);
	for (int peer = 0; peer < m->n; peer++)
		if (peer != m->me)
			end_connect_qp(m->qp[peer], &shared->address[peer][m->me]);
	barrier(1,
		m->n); /* a peer that is not connected yet does not answer, for half a second at most */
}

static void work(struct member *m)
{
	uint64_t left = 2 * m->messages * (uint64_t)(m->n - 1);
	struct ibv_wc wc[32];

	for (int peer = 0; peer < m->n; peer++)
		for (unsigned int i = 0; peer != m->me && i < DEPTH / 2 && i < m->messages; i++)
			post_send(m, peer);
	while (left) {
		int n = ibv_poll_cq(m->end.cq, 32, wc);

		end_require(n >= 0, "ibv_poll_cq");
		for (int i = 0; i < n; i++) {
			int peer = (int)wc[i].wr_id;

			end_require(wc[i].status == IBV_WC_SUCCESS,
				    ibv_wc_status_str(wc[i].status));
			left--;
			if (wc[i].opcode == IBV_WC_RECV) {
				verify(m, peer);
				post_receive(m, peer, m->received[peer]++);
			} else if (m->sent[peer] < m->messages) {
				post_send(m, peer);
			}
		}
	}
	barrier(2, m->n); /* no process leaves while others still send */
	for (int peer = 0; peer < m->n; peer++)
		if (peer != m->me)
			end_require(!ibv_destroy_qp(m->qp[peer]), "ibv_destroy_qp");
	end_close(&m->end);
}

int main(int argc, char **argv)
{
	static struct member m;
	int status, failed = 0;

	m.n = argc == 3 ? atoi(argv[1]) : 0;
	m.messages = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	if (m.n < 2 || m.n > MOST || !m.messages) {
		fprintf(stderr, "usage: crowd PROCESSES MESSAGES\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	end_require(shared != MAP_FAILED, "mmap");
	for (m.me = 0; m.me < m.n; m.me++) {
		if (fork() == 0) {
			join(&m);
			work(&m);
			return 0;
		}
	}
	/* the others would wait for ever for a process that has failed */
	while (wait(&status) > 0) {
		failed |= status;
		if (failed)
			kill(0, SIGTERM);
	}
	if (!failed)
		puts("ok");
	return !!failed;
}
