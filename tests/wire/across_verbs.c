/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "across.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "across_memory.h"
#include "talk.h"

#define ENDS	 (2 * ACROSS_DEPTH)
#define LIST	 3u /* pieces of a message */
#define EVENT_MS 10000
#define NONE_MS	 300 /* after which no event comes */
#define TURN_NS	 20000

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct across_memory memory;
static const char *memory_kind = "plain";
static struct across_config mine;
static uint8_t gid_index;
static bool is_rxe;

bool end_is_rxe(void)
{
	return is_rxe;
}

void end_kind(const char *kind)
{
	memory_kind = kind;
}

uint8_t *end_begin(const char *where, const char *interface, uint64_t bytes)
{
	across_memory_make(&memory, memory_kind, bytes);
	is_rxe = !strncmp(ibv_get_device_name(memory.context->device), "rxe", 3);
	talk_need(fcntl(memory.context->async_fd, F_SETFL, O_NONBLOCK) != -1, "events");
	gid_index = (uint8_t)atoi(where);
	cq = ibv_create_cq(memory.context, 2 * ENDS, NULL, NULL, 0);
	talk_need(cq, "objects");
	return memory.at;
}

void end_pull(void)
{
	across_memory_pull(&memory);
}

void end_push(void)
{
	across_memory_push(&memory);
}

void end_spoil(const char *how)
{
	fprintf(stderr, "the wire is not ours\n");
	exit(2);
}

static void to_init(uint8_t rights)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = rights};

	talk_need(!ibv_modify_qp(qp, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					 IBV_QP_ACCESS_FLAGS),
		  "to INIT");
}

void end_open(const struct across_config *config, struct across_name *name)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {ENDS, ENDS, LIST, LIST,
			across_memory_is(&memory, "inline") ? ACROSS_INLINE : 0},
		.qp_type = config->unreliable ? IBV_QPT_UC : IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	union ibv_gid gid;

	mine = *config;
	across_memory_register(&memory, IBV_ACCESS_LOCAL_WRITE | config->key_rights);
	qp = ibv_create_qp(memory.pd, &init);
	talk_need(qp && !ibv_query_gid(memory.context, 1, gid_index, &gid), "a queue pair");
	to_init(config->rights);
	*name = (struct across_name){.va = memory.va,
				     .rkey = memory.mr->rkey,
				     .qpn = qp->qp_num,
				     .psn = 0xfffff7,
				     .is_rxe = is_rxe};
	memcpy(name->gid, gid.raw, 16);
	if (config->silent)
		name->qpn ^= 0x1000;
}

void end_connect(const struct across_name *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)(__builtin_ctz(mine.mtu) - 7),
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = mine.max_dest_rd_atomic,
		.min_rnr_timer = 8,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = gid_index, .hop_limit = 64}},
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, 16);
	if (!mine.unreliable)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	talk_need(!ibv_modify_qp(qp, &attr, mask), "to RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 0xfffff7,
		/* a peer that answers late, on a machine with much other work, is not silent */
		.timeout = mine.timeout,
		.retry_cnt = mine.retry_cnt,
		.rnr_retry = mine.rnr_retry,
		.max_rd_atomic = 16,
	};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (!mine.unreliable)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	talk_need(!ibv_modify_qp(qp, &attr, mask), "to RTS");
}

void end_close(void)
{
	struct ibv_wc wc;

	talk_need(!ibv_destroy_qp(qp), "destroying");
	across_memory_deregister(&memory);
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}

static bool goes_inline(const struct across_request *request)
{
	return across_memory_is(&memory, "inline") && !weft_op_fetches(request->opcode) &&
	       request->length <= ACROSS_INLINE;
}

/* Cuts the bytes into a list, at odd places; how many pieces it has. Eight may be an atomic's. */
static int cut(struct ibv_sge sge[LIST], uint64_t addr, uint64_t bytes)
{
	uint32_t rest = (uint32_t)bytes, first = rest == 8 || rest < LIST ? rest : rest / LIST | 1;
	int n = 0;

	for (; rest; n++) {
		uint32_t piece = n == LIST - 1 || rest < first ? rest : first;

		sge[n] = (struct ibv_sge){addr, piece, memory.mr->lkey};
		addr += piece;
		rest -= piece;
	}
	return n;
}

bool end_send(const struct across_request *request)
{
	bool is_inline = goes_inline(request);
	struct ibv_sge sge[LIST];
	int pieces = cut(sge, (is_inline ? (uintptr_t)memory.at : memory.va) + request->at,
			 request->length);
	struct ibv_send_wr *bad, wr = {
					 .sg_list = sge,
					 .num_sge = pieces,
					 .send_flags = is_inline ? IBV_SEND_INLINE : 0,
					 .opcode = (enum ibv_wr_opcode)request->opcode,
					 .imm_data = request->imm,
				 };

	if (weft_op_is_atomic(request->opcode)) {
		wr.wr.atomic.remote_addr = request->remote_addr;
		wr.wr.atomic.rkey = request->rkey;
		wr.wr.atomic.compare_add = request->compare_add;
		wr.wr.atomic.swap = request->swap;
	} else {
		wr.wr.rdma.remote_addr = request->remote_addr;
		wr.wr.rdma.rkey = request->rkey;
	}
	return !ibv_post_send(qp, &wr, &bad);
}

void end_receive(uint64_t at, uint64_t bytes)
{
	struct ibv_sge sge[LIST];
	int pieces = cut(sge, memory.va + at, bytes);
	struct ibv_recv_wr *bad, wr = {.sg_list = sge, .num_sge = pieces};

	talk_need(!ibv_post_recv(qp, &wr, &bad), "a receive");
}

bool end_poll(struct across_done *done)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(cq, 1, &wc) <= 0)
		return false;
	*done = (struct across_done){
		.receive = wc.opcode & IBV_WC_RECV,
		.with_imm = wc.wc_flags & IBV_WC_WITH_IMM,
		.status = wc.status,
		.bytes = wc.byte_len,
		.imm = wc.imm_data,
	};
	/* IBV_WC_RECV_RDMA_WITH_IMM: what was written */
	return true;
}

/* What only looks whether there is a completion leaves the core meanwhile: the card may need it. */
bool end_turn(int fd)
{
	struct pollfd wait = {fd, POLLIN, 0};

	if (fd < 0)
		nanosleep(&(struct timespec){.tv_nsec = TURN_NS}, NULL);
	return fd >= 0 && poll(&wait, 1, 100) > 0;
}

enum weft_event end_event(enum weft_event expected)
{
	struct pollfd told = {memory.context->async_fd, POLLIN, 0};
	struct ibv_async_event event;
	int ms = expected == WEFT_EVENT_COMM_EST ? NONE_MS : EVENT_MS;

	while (poll(&told, 1, ms) > 0 && !ibv_get_async_event(memory.context, &event)) {
		ibv_ack_async_event(&event);
		if (event.event_type != IBV_EVENT_COMM_EST)
			return (enum weft_event)event.event_type;
	}
	return WEFT_EVENT_COMM_EST;
}

void end_say(void)
{
}
