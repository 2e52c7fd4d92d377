/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "rig.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* As ibv_modify_qp has it: 67 ms a try; 1 s where copies of a GPU's memory are the owner's thread's, which may wait for a core. */
#ifdef WITH_GPU
#define TIMEOUT 18
#else
#define TIMEOUT 14
#endif
#define PATIENCE_NS 10000000000ull

uint64_t rig_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t); /* a clock that clock.c does not replace */
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Objects ---- */

struct ibv_context *rig_context(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	assert_non_null(list);
	assert_string_equal(ibv_get_device_name(list[0]), "weft0");
	context = ibv_open_device(list[0]);
	assert_non_null(context);
	ibv_free_device_list(list);
	return context;
}

struct ibv_qp_init_attr rig_init(struct ibv_cq *send_cq, struct ibv_cq *recv_cq)
{
	return (struct ibv_qp_init_attr){
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.cap = {RIG_DEPTH, RIG_DEPTH, RIG_SGE, RIG_SGE, RIG_INLINE},
		.qp_type = IBV_QPT_RC,
	};
}

static void make_pairs(struct rig *rig, uint32_t depth, const struct rig_wish *wish)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = rig_init(rig->cq[i], rig->cq[i]);

		init.cap.max_send_wr = init.cap.max_recv_wr = depth;
		init.sq_sig_all = wish->signal_all;
		init.qp_type = wish->type ? wish->type : IBV_QPT_RC;
		rig->qp[i] = ibv_create_qp(rig->pd, &init);
		assert_non_null(rig->qp[i]);
	}
}

void rig_open(struct rig *rig)
{
	rig->context = rig_context();
	rig->pd = ibv_alloc_pd(rig->context);
	rig->channel = ibv_create_comp_channel(rig->context);
	assert_non_null(rig->pd);
	assert_non_null(rig->channel);
	for (int i = 0; i < 2; i++) {
		rig->cq[i] = ibv_create_cq(rig->context, 4 * RIG_DEPTH, rig, rig->channel, 0);
		assert_non_null(rig->cq[i]);
	}
	make_pairs(rig, RIG_DEPTH, &(struct rig_wish){0});
}

void rig_close(struct rig *rig)
{
	for (int i = 0; i < 2; i++)
		if (rig->qp[i])
			assert_int_equal(ibv_destroy_qp(rig->qp[i]), 0);
	for (int i = 0; i < 2; i++)
		if (rig->cq[i])
			assert_int_equal(ibv_destroy_cq(rig->cq[i]), 0);
	assert_int_equal(ibv_destroy_comp_channel(rig->channel), 0);
	assert_int_equal(ibv_dealloc_pd(rig->pd), 0);
	assert_int_equal(ibv_close_device(rig->context), 0);
}

int rig_setup(void **state)
{
	static struct rig rig;

	rig = (struct rig){0};
	rig_open(&rig);
	*state = &rig;
	return 0;
}

int rig_setup_connected(void **state)
{
	rig_setup(state);
	rig_connect(*state, &(struct rig_wish){0});
	return 0;
}

int rig_teardown(void **state)
{
	rig_close(*state);
	return 0;
}

/* ---- States ---- */

struct ibv_qp_attr rig_attr(struct ibv_context *context, enum ibv_qp_state to, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = to,
		.port_num = 1,
		.qkey = RIG_QKEY,
		.qp_access_flags = RIG_ALL,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = 0x123456,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1, /* 10 µs */
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = 1, .hop_limit = 1}},
		.timeout = TIMEOUT,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.sq_psn = 0x123456,
		.max_rd_atomic = 16,
	};

	assert_int_equal(ibv_query_gid(context, 1, 1, &attr.ah_attr.grh.dgid), 0);
	return attr;
}

int rig_mask(enum ibv_qp_type type, enum ibv_qp_state to)
{
	bool uc = type == IBV_QPT_UC;

	if (type == IBV_QPT_UD)
		return to == IBV_QPS_INIT  ? RIG_UD_INIT_MASK
		       : to == IBV_QPS_RTS ? RIG_UC_RTS_MASK
					   : IBV_QP_STATE;
	return to == IBV_QPS_INIT  ? RIG_INIT_MASK
	       : to == IBV_QPS_RTR ? (uc ? RIG_UC_RTR_MASK : RIG_RTR_MASK)
	       : to == IBV_QPS_RTS ? (uc ? RIG_UC_RTS_MASK : RIG_RTS_MASK)
				   : IBV_QP_STATE;
}

void rig_modify(struct ibv_qp *qp, enum ibv_qp_state to, uint32_t dest_qpn)
{
	enum ibv_qp_state s = qp->state == IBV_QPS_RESET ? IBV_QPS_INIT : IBV_QPS_UNKNOWN;

	for (; s <= IBV_QPS_RTS && s <= to; s++) {
		struct ibv_qp_attr attr = rig_attr(qp->context, s, dest_qpn);

		assert_int_equal(ibv_modify_qp(qp, &attr, rig_mask(qp->qp_type, s)), 0);
	}
	if (to == IBV_QPS_RESET || to > IBV_QPS_RTS) {
		struct ibv_qp_attr attr = {.qp_state = to};

		assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	}
}

static void move_as_wished(struct rig *rig, int i, enum ibv_qp_state to,
			   const struct rig_wish *wish)
{
	struct ibv_qp_attr attr = rig_attr(rig->context, to, rig->qp[!i]->qp_num);

	if (i == 1 && wish->access)
		attr.qp_access_flags = wish->access == IBV_ACCESS_LOCAL_WRITE ? 0 : wish->access;
	if (i == 0 && wish->timeout) {
		attr.timeout = wish->timeout;
		attr.retry_cnt = wish->retry_cnt;
	}
	if (wish->no_reads & 1u << i)
		attr.max_rd_atomic = attr.max_dest_rd_atomic = 0;
	if (wish->forever & 1u << i)
		attr.timeout = 0;
	if (i == 0 && wish->rnr_retry)
		attr.rnr_retry = wish->rnr_retry == RIG_NO_RNR_RETRY ? 0 : wish->rnr_retry;
	assert_int_equal(ibv_modify_qp(rig->qp[i], &attr, rig_mask(rig->qp[i]->qp_type, to)), 0);
}

void rig_connect(struct rig *rig, const struct rig_wish *wish)
{
	if (wish->depth || wish->signal_all || wish->type) {
		for (int i = 0; i < 2; i++)
			assert_int_equal(ibv_destroy_qp(rig->qp[i]), 0);
		make_pairs(rig, wish->depth ? wish->depth : RIG_DEPTH, wish);
	}
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		for (int i = 0; i < 2; i++)
			move_as_wished(rig, i, s, wish);
}

void rig_reconnect(struct rig *rig, const struct rig_wish *wish)
{
	for (int i = 0; i < 2; i++)
		rig_modify(rig->qp[i], IBV_QPS_RESET, 0);
	rig_connect(rig, wish);
}

enum ibv_qp_state rig_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, qp->state);
	return attr.qp_state;
}

void rig_await_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	uint64_t deadline = rig_now_ns() + PATIENCE_NS;

	while (rig_state(qp) != state) {
		assert_true(rig_now_ns() < deadline);
		sched_yield();
	}
}

/* ---- Completions ---- */

unsigned int rig_errors;

struct ibv_wc rig_next(struct ibv_cq *cq)
{
	uint64_t deadline = rig_now_ns() + PATIENCE_NS;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		if (rig_now_ns() > deadline)
			fail_msg("no completion came");
	assert_int_equal(n, 1);
	rig_errors += wc.status != IBV_WC_SUCCESS;
	return wc;
}

struct ibv_wc rig_expect(struct ibv_cq *cq, enum ibv_wc_status status, uint64_t wr_id)
{
	struct ibv_wc wc = rig_next(cq);

	if (wc.status != status)
		fail_msg("request %lu: %s, expected %s", (unsigned long)wc.wr_id,
			 ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
	assert_int_equal(wc.wr_id, wr_id);
	return wc;
}

void rig_none(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

/* ---- Requests ---- */

void rig_event(struct ibv_context *context, enum ibv_event_type type, const void *element)
{
	struct pollfd fd = {context->async_fd, POLLIN, 0};
	struct ibv_async_event event;

	assert_int_equal(poll(&fd, 1, 10000), 1);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.qp, element); /* element is a union of pointers */
	ibv_ack_async_event(&event);
}

int rig_receive(struct ibv_qp *qp, uint64_t wr_id, const struct ibv_mr *mr, void *at, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)at, len, mr ? mr->lkey : 0};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = mr ? 1 : 0}, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

int rig_rdma(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id, const struct ibv_mr *mr,
	     void *at, uint32_t len, uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)at, len, mr ? mr->lkey : 0};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = mr ? 1 : 0,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(qp, &wr, &bad);
}

int rig_send(struct ibv_qp *qp, uint64_t wr_id, const struct ibv_mr *mr, void *at, uint32_t len)
{
	return rig_rdma(qp, IBV_WR_SEND, wr_id, mr, at, len, 0, 0);
}

/* ---- Memory ---- */

void *rig_pages(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

struct ibv_mr *rig_region(struct ibv_pd *pd, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, rig_pages(bytes), bytes, RIG_ALL);

	assert_non_null(mr);
	return mr;
}

void rig_region_end(struct ibv_mr *mr)
{
	void *at = mr->addr;
	size_t bytes = mr->length;

	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(munmap(at, bytes), 0);
}

uint32_t rig_await(const _Atomic uint32_t *word, uint32_t least)
{
	for (int i = 0; atomic_load(word) < least; i++) {
		assert_in_range(i, 0, 200000);
		usleep(100);
	}
	return atomic_load(word);
}

/* ---- What a container's seccomp profile may do ---- */

void rig_forbid_process_vm(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {COUNT(filter), filter};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}
