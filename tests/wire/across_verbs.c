/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "across.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENDS	 (2 * ACROSS_DEPTH)
#define EVENT_MS 300

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static uint8_t *memory;
static uint64_t memory_bytes;
static const char *memory_kind = "plain";
static struct across_config mine;
static uint8_t gid_index;
static bool is_rxe;

bool end_is_rxe(void)
{
	return is_rxe;
}

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* plain; shared: a mapping of a file, which stays where it is; half: its second half is; demand: registered so. */
void end_kind(const char *kind)
{
	memory_kind = kind;
}

static bool is_of_kind(const char *kind)
{
	return !strcmp(memory_kind, kind);
}

static void share_memory(uint64_t from, uint64_t bytes)
{
	int fd = memfd_create("across", MFD_CLOEXEC);

	need(fd >= 0 && !ftruncate(fd, (off_t)bytes), "a file");
	need(mmap(memory + from, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
		     MAP_FAILED,
	     "a mapping");
	close(fd);
}

static void make_memory(uint64_t bytes)
{
	uint64_t half = (bytes / 2 + 4095) / 4096 * 4096;

	memory = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(memory != MAP_FAILED, "memory");
	if (is_of_kind("shared"))
		share_memory(0, 2 * half);
	else if (is_of_kind("half"))
		share_memory(half, half);
}

uint8_t *end_begin(const char *where, const char *interface, uint64_t bytes)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	need(devices && *devices, "devices");
	context = ibv_open_device(*devices);
	need(context, "the device");
	is_rxe = !strncmp(ibv_get_device_name(*devices), "rxe", 3);
	need(fcntl(context->async_fd, F_SETFL, O_NONBLOCK) != -1, "events");
	ibv_free_device_list(devices);
	gid_index = (uint8_t)atoi(where);
	memory_bytes = bytes;
	make_memory(bytes);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 2 * ENDS, NULL, NULL, 0);
	need(pd && cq, "objects");
	return memory;
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

	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "to INIT");
}

void end_open(const struct across_config *config, struct across_name *name)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {ENDS, ENDS, 1, 1, 0},
		.qp_type = config->unreliable ? IBV_QPT_UC : IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	union ibv_gid gid;

	mine = *config;
	mr = ibv_reg_mr(pd, memory, memory_bytes,
			IBV_ACCESS_LOCAL_WRITE | config->key_rights |
				(is_of_kind("demand") ? IBV_ACCESS_ON_DEMAND : 0));
	qp = ibv_create_qp(pd, &init);
	need(mr && qp && !ibv_query_gid(context, 1, gid_index, &gid), "a queue pair");
	to_init(config->rights);
	*name = (struct across_name){.va = (uintptr_t)memory,
				     .rkey = mr->rkey,
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
	need(!ibv_modify_qp(qp, &attr, mask), "to RTR");
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
	need(!ibv_modify_qp(qp, &attr, mask), "to RTS");
}

void end_close(void)
{
	struct ibv_wc wc;

	need(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr), "destroying");
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}

bool end_send(const struct across_request *request)
{
	struct ibv_sge sge = {(uintptr_t)memory + request->at, (uint32_t)request->length, mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = request->length ? 1 : 0,
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
	struct ibv_sge sge = {(uintptr_t)memory + at, (uint32_t)bytes, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = bytes ? 1 : 0};

	need(!ibv_post_recv(qp, &wr, &bad), "a receive");
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

bool end_turn(int fd)
{
	struct pollfd wait = {fd, POLLIN, 0};

	return poll(&wait, fd >= 0, fd >= 0 ? 100 : 0) > 0;
}

enum weft_event end_event(void)
{
	struct pollfd told = {context->async_fd, POLLIN, 0};
	struct ibv_async_event event;

	while (poll(&told, 1, EVENT_MS) > 0 && !ibv_get_async_event(context, &event)) {
		ibv_ack_async_event(&event);
		if (event.event_type != IBV_EVENT_COMM_EST)
			return (enum weft_event)event.event_type;
	}
	return WEFT_EVENT_COMM_EST;
}

void end_say(void)
{
}
