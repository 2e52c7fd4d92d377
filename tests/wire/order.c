/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Questions and answers over one completion queue: `order INDEX [HOST]`, the GID's index, and where the other runs. An answer
 * comes after the question has been acknowledged, and programs count on it: the completion of the SEND is polled first. Each
 * side is slow to poll, so that both are there by then.
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "talk.h"

#define PORT	 "18518"
#define ROUNDS	 300u
#define RECEIVES 4u
#define PATIENCE 20 /* seconds */

struct name {
	uint8_t gid[16];
	uint32_t qpn;
};

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint32_t memory[2 * RECEIVES];

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static void give_receive(uint32_t i)
{
	struct ibv_sge sge = {(uintptr_t)&memory[i % RECEIVES], sizeof(memory[0]), mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	need(!ibv_post_recv(qp, &wr, &bad), "a receive");
}

static void set_up(uint8_t index, struct name *mine)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && *devices ? ibv_open_device(*devices) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .cap = {4, RECEIVES, 1, 1, 0}, .sq_sig_all = 1};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	union ibv_gid gid;

	need(pd, "a device");
	init.send_cq = init.recv_cq = cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	need(cq && mr, "objects");
	qp = ibv_create_qp(pd, &init);
	need(qp && !ibv_query_gid(context, 1, index, &gid), "a queue pair");
	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "to INIT");
	for (uint32_t i = 0; i < RECEIVES; i++)
		give_receive(i);
	memcpy(mine->gid, gid.raw, 16);
	mine->qpn = qp->qp_num;
}

static void connect_to(uint8_t index, const struct name *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.min_rnr_timer = 8,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = index, .hop_limit = 64}},
	};

	memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, 16);
	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "to RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7};
	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
	     "to RTS");
}

static void expect(enum ibv_wc_opcode opcode, const char *otherwise)
{
	time_t end = time(NULL) + PATIENCE;
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) <= 0)
		need(time(NULL) < end, "no completion");
	need(wc.status == IBV_WC_SUCCESS, "a completion in error");
	need(wc.opcode == opcode, otherwise);
}

static void tell(uint32_t i)
{
	struct ibv_sge sge = {(uintptr_t)&memory[RECEIVES + i % RECEIVES], sizeof(memory[0]),
			      mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	need(!ibv_post_send(qp, &wr, &bad), "a request");
}

static void hear(uint32_t i)
{
	expect(IBV_WC_RECV, "a SEND's completion, but none was sent");
	give_receive(i);
}

/* Either side: what was sent last completes before what it was answered with. */
static void sent(uint32_t i)
{
	usleep(i * 37 % 600);
	expect(IBV_WC_SEND, "an answer came before its question had been sent");
}

int main(int argc, char **argv)
{
	uint8_t index = argc > 1 ? (uint8_t)atoi(argv[1]) : 0;
	bool asks = argc > 2;
	struct name mine, peer;
	char ready = 'r';
	int fd;

	if (argc < 2) {
		fprintf(stderr, "usage: order INDEX [HOST]\n");
		return 2;
	}
	set_up(index, &mine);
	fd = talk_open(argv[2], PORT);
	talk_put(fd, &mine, sizeof(mine));
	talk_get(fd, &peer, sizeof(peer));
	connect_to(index, &peer);
	talk_put(fd, &ready, 1);
	talk_get(fd, &ready, 1);
	if (!asks)
		hear(0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		tell(i);
		if (!asks && i + 1 == ROUNDS)
			break;
		sent(i);
		hear(i + 1);
	}
	talk_put(fd, &ready, 1);
	talk_get(fd, &ready, 1);
	return 0;
}
