/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * So many connections to a host, over which nothing goes: `idle INDEX COUNT [HOST]`, the index of the GID, and where the other runs,
 * which sends. Over each one message has gone once. Says "idle", and stays until it is killed.
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "talk.h"

#define PORT	 "18522"
#define PATIENCE 60 /* seconds */
#define MOST	 4096u

struct name {
	uint8_t gid[16];
	uint32_t qpn[MOST];
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp[MOST];
static struct name mine, peer;
static uint32_t count, memory[MOST];
static uint8_t gid_index;

static void set_up(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	union ibv_gid gid;

	talk_need(devices && *devices, "devices");
	context = ibv_open_device(*devices);
	talk_need(context, "the device");
	ibv_free_device_list(devices);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, (int)count, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	talk_need(pd && cq && mr && !ibv_query_gid(context, 1, gid_index, &gid), "objects");
	memcpy(mine.gid, gid.raw, 16);
	for (uint32_t i = 0; i < count; i++) {
		struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
						.send_cq = cq,
						.recv_cq = cq,
						.cap = {1, 1, 1, 1, 0},
						.sq_sig_all = 1};
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

		qp[i] = ibv_create_qp(pd, &init);
		talk_need(qp[i] && !ibv_modify_qp(qp[i], &attr,
						  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
							  IBV_QP_ACCESS_FLAGS),
			  "a queue pair");
		mine.qpn[i] = qp[i]->qp_num;
	}
}

static void join(uint32_t i)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer.qpn[i],
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = gid_index, .hop_limit = 64}},
	};

	memcpy(attr.ah_attr.grh.dgid.raw, peer.gid, 16);
	talk_need(!ibv_modify_qp(qp[i], &attr,
				 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					 IBV_QP_MIN_RNR_TIMER),
		  "to RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 20,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1};
	talk_need(!ibv_modify_qp(qp[i], &attr,
				 IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
		  "to RTS");
}

static void await_all(void)
{
	time_t end = time(NULL) + PATIENCE;
	struct ibv_wc wc;

	for (uint32_t n = 0; n < count;) {
		int got = ibv_poll_cq(cq, 1, &wc);

		talk_need(time(NULL) < end, "a completion");
		talk_need(got <= 0 || !wc.status, "a message");
		n += got > 0;
	}
}

static void exchange(bool sends)
{
	for (uint32_t i = 0; i < count; i++) {
		struct ibv_sge sge = {(uintptr_t)&memory[i], sizeof(memory[i]), mr->lkey};
		struct ibv_send_wr *bad,
			wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

		if (sends)
			memory[i] = i + 7;
		talk_need(!sends || !ibv_post_send(qp[i], &wr, &bad), "a request");
	}
	await_all();
	for (uint32_t i = 0; i < count; i++)
		talk_need(memory[i] == i + 7, "a message's bytes");
}

int main(int argc, char **argv)
{
	const bool sends = argc == 4;
	int fd;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: idle INDEX COUNT [HOST]\n");
		return 2;
	}
	gid_index = (uint8_t)atoi(argv[1]);
	count = (uint32_t)atoi(argv[2]);
	talk_need(count && count <= MOST, "how many?");
	set_up();
	fd = talk_open(argv[3], PORT);
	talk_put(fd, &mine, sizeof(mine));
	talk_get(fd, &peer, sizeof(peer));
	for (uint32_t i = 0; i < count; i++) {
		struct ibv_sge sge = {(uintptr_t)&memory[i], sizeof(memory[i]), mr->lkey};
		struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

		join(i);
		talk_need(sends || !ibv_post_recv(qp[i], &wr, &bad), "a receive");
	}
	talk_put(fd, "r", 1);
	talk_get(fd, (char[1]){0}, 1);
	exchange(sends);
	printf("idle\n");
	fflush(stdout);
	for (;;)
		pause();
}
