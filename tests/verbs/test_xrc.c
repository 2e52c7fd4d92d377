/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Extended reliable connections: domains and their errors, every operation by way of a numbered receive
 * queue, and what is refused.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"

#define BYTES  512u
#define QUEUES 2

struct ends {
	struct rig rig;
	struct ibv_xrcd *domain;
	struct ibv_srq *srq[QUEUES];
	uint32_t number[QUEUES];
	struct ibv_qp *from, *to;
	struct ibv_mr *mr;
};

static struct ibv_xrcd *open_domain(struct ibv_context *context, int fd, int oflags)
{
	struct ibv_xrcd_init_attr init = {IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd,
					  oflags};

	return ibv_open_xrcd(context, &init);
}

static struct ibv_srq *make_queue(struct ends *e, struct ibv_xrcd *domain)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = {16, 1, 0},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = e->rig.pd,
		.xrcd = domain,
		.cq = e->rig.cq[1],
	};

	return ibv_create_srq_ex(e->rig.context, &init);
}

static void connect_ends(struct ends *e)
{
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr attr = rig_attr(e->rig.context, s, e->to->qp_num);

		assert_int_equal(ibv_modify_qp(e->from, &attr, rig_mask(IBV_QPT_RC, s)), 0);
		attr = rig_attr(e->rig.context, s, e->from->qp_num);
		assert_int_equal(ibv_modify_qp(e->to, &attr, rig_mask(IBV_QPT_RC, s)), 0);
	}
}

static int setup(void **state)
{
	static struct ends e;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = NULL,
		.cap = {RIG_DEPTH, 0, 2, 0, 64},
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};

	rig_open(&e.rig);
	e.domain = open_domain(e.rig.context, -1, O_CREAT);
	assert_non_null(e.domain);
	for (int i = 0; i < QUEUES; i++) {
		e.srq[i] = make_queue(&e, e.domain);
		assert_non_null(e.srq[i]);
		assert_int_equal(ibv_get_srq_num(e.srq[i], &e.number[i]), 0);
	}
	init.send_cq = e.rig.cq[0];
	init.pd = e.rig.pd;
	e.from = ibv_create_qp_ex(e.rig.context, &init);
	assert_non_null(e.from);
	init = (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = e.domain};
	e.to = ibv_create_qp_ex(e.rig.context, &init);
	assert_non_null(e.to);
	connect_ends(&e);
	e.mr = rig_region(e.rig.pd, 3 * 4096);
	memset(e.mr->addr, 7, BYTES);
	*state = &e;
	return 0;
}

static int teardown(void **state)
{
	struct ends *e = *state;

	assert_int_equal(ibv_close_xrcd(e->domain), EBUSY);
	assert_int_equal(ibv_destroy_qp(e->from), 0);
	assert_int_equal(ibv_destroy_qp(e->to), 0);
	for (int i = 0; i < QUEUES; i++)
		assert_int_equal(ibv_destroy_srq(e->srq[i]), 0);
	assert_int_equal(ibv_close_xrcd(e->domain), 0);
	rig_region_end(e->mr);
	rig_close(&e->rig);
	return 0;
}

static char *at_peer(const struct ends *e)
{
	return (char *)e->mr->addr + 4096;
}

static void post_receive(struct ends *e, int queue, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)at_peer(e), BYTES, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	memset(at_peer(e), 0, BYTES);
	assert_int_equal(ibv_post_srq_recv(e->srq[queue], &wr, &bad), 0);
}

static void post(struct ends *e, enum ibv_wr_opcode opcode, uint32_t len, uint32_t number,
		 uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)e->mr->addr, len, e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = 0x1234,
				 .qp_type.xrc.remote_srqn = number},
			   *bad;

	if (opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = (uintptr_t)at_peer(e);
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 9;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)at_peer(e);
		wr.wr.rdma.rkey = rkey;
	}
	assert_int_equal(ibv_post_send(e->from, &wr, &bad), 0);
}

static void refuse_domain(struct ibv_context *context, int fd, int oflags, int error)
{
	errno = 0;
	assert_null(open_domain(context, fd, oflags));
	assert_int_equal(errno, error);
}

/* rdma-core's header dereferences the pointers of these verbs before Weft sees them: none can be null or
 * gone. */
static void domains(void **state)
{
	struct ends *e = *state;
	int fd = open("/dev/null", O_RDONLY);
	struct ibv_xrcd *d;
	uint32_t number;

	refuse_domain(e->rig.context, -1, 0, EINVAL);
	refuse_domain(e->rig.context, -1, O_CREAT | O_APPEND, EINVAL);
	refuse_domain(e->rig.context, 999999, O_CREAT, EBADF);
	d = open_domain(e->rig.context, fd, O_CREAT);
	assert_non_null(d);
	refuse_domain(e->rig.context, fd, O_CREAT | O_EXCL, EEXIST);
	assert_int_equal(ibv_close_xrcd(d), 0);
	RIG_REFUSED(ibv_get_srq_num((struct ibv_srq *)e->rig.pd, &number));
	errno = 0;
	assert_null(make_queue(e, d));
	assert_int_equal(errno, EINVAL);
	close(fd);
}

/* A SEND goes to the shared receive queue that it names; its completion says by way of which queue pair. */
static void sends(void **state)
{
	struct ends *e = *state;

	for (uint64_t i = 0; i < 100; i++) {
		struct ibv_wc wc;

		post_receive(e, i % QUEUES, i);
		post(e, IBV_WR_SEND_WITH_IMM, BYTES, e->number[i % QUEUES], 0);
		rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, 7);
		wc = rig_expect(e->rig.cq[1], IBV_WC_SUCCESS, i);
		assert_int_equal(wc.qp_num, e->to->qp_num);
		assert_int_equal(wc.src_qp, e->from->qp_num);
		assert_int_equal(wc.imm_data, 0x1234);
		assert_memory_equal(at_peer(e), e->mr->addr, BYTES);
	}
	rig_none(e->rig.cq[1]);
}

static void one_sided(void **state)
{
	struct ends *e = *state;
	uint64_t word = 5;

	memset(at_peer(e), 0, BYTES);
	post(e, IBV_WR_RDMA_WRITE, BYTES, e->number[0], e->mr->rkey);
	rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, 7);
	assert_memory_equal(at_peer(e), e->mr->addr, BYTES);
	post_receive(e, 1, 3);
	post(e, IBV_WR_RDMA_WRITE_WITH_IMM, BYTES, e->number[1], e->mr->rkey);
	rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, 7);
	assert_int_equal(rig_expect(e->rig.cq[1], IBV_WC_SUCCESS, 3).opcode,
			 IBV_WC_RECV_RDMA_WITH_IMM);
	memset(at_peer(e), 9, BYTES);
	post(e, IBV_WR_RDMA_READ, BYTES, e->number[0], e->mr->rkey);
	rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, 7);
	assert_memory_equal(at_peer(e), e->mr->addr, BYTES);
	memcpy(at_peer(e), &word, 8);
	post(e, IBV_WR_ATOMIC_CMP_AND_SWP, 8, e->number[0], e->mr->rkey);
	rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, 7);
	memcpy(&word, at_peer(e), 8);
	assert_int_equal(word, 9);
	post(e, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, e->number[0], e->mr->rkey);
	rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, 7);
	memcpy(&word, at_peer(e), 8);
	assert_int_equal(word, 14);
}

static void refused(struct ends *e, uint32_t number, uint32_t rkey, enum ibv_wc_status status)
{
	post(e, IBV_WR_RDMA_WRITE, 8, number, rkey);
	rig_expect(e->rig.cq[0], status, 7);
	rig_await_state(e->to, IBV_QPS_ERR);
	rig_modify(e->from, IBV_QPS_RESET, 0);
	rig_modify(e->to, IBV_QPS_RESET, 0);
	connect_ends(e);
}

/* A number of no queue, of a queue of another domain, of a destroyed queue; a wrong key. */
static void wrong(void **state)
{
	struct ends *e = *state;
	struct ibv_xrcd *other = open_domain(e->rig.context, -1, O_CREAT);
	struct ibv_srq *srq = make_queue(e, other);
	struct ibv_pd *pd = ibv_alloc_pd(e->rig.context);
	struct ibv_mr *mr = rig_region(pd, 4096);
	uint32_t number;

	assert_int_equal(ibv_get_srq_num(srq, &number), 0);
	refused(e, number, e->mr->rkey, IBV_WC_REM_INV_REQ_ERR);
	refused(e, e->number[0] ^ 0x40000, e->mr->rkey, IBV_WC_REM_INV_REQ_ERR);
	refused(e, e->from->qp_num, e->mr->rkey, IBV_WC_REM_INV_REQ_ERR);
	refused(e, e->number[0], mr->rkey, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	refused(e, number, e->mr->rkey, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(ibv_close_xrcd(other), 0);
	rig_region_end(mr);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* ---- Queue pairs that are opened ---- */

#define OPEN_ALL (IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE)

static struct ibv_qp *open_qp(struct ibv_context *context, struct ibv_xrcd *domain, uint32_t number,
			      void *qp_context)
{
	struct ibv_qp_open_attr attr = {OPEN_ALL | IBV_QP_OPEN_ATTR_CONTEXT, number, domain,
					qp_context, IBV_QPT_XRC_RECV};

	return ibv_open_qp(context, &attr);
}

static void refuse_open(struct ibv_context *context, struct ibv_qp_open_attr attr)
{
	errno = 0;
	assert_null(ibv_open_qp(context, &attr));
	assert_int_equal(errno, EINVAL);
}

static void refused_opens(void **state)
{
	struct ends *e = *state;
	struct ibv_qp_open_attr good = {OPEN_ALL, e->to->qp_num, e->domain, NULL, IBV_QPT_XRC_RECV},
				attr;
	struct ibv_xrcd *other = open_domain(e->rig.context, -1, O_CREAT);

	for (uint32_t bit = 1; bit <= IBV_QP_OPEN_ATTR_TYPE; bit <<= 1) {
		attr = good;
		attr.comp_mask &= ~bit;
		if (attr.comp_mask != OPEN_ALL)
			refuse_open(e->rig.context, attr);
	}
	attr = good;
	attr.comp_mask |= IBV_QP_OPEN_ATTR_RESERVED;
	refuse_open(e->rig.context, attr);
	attr = good;
	attr.qp_num ^= 0x40000;
	refuse_open(e->rig.context, attr);
	attr = good;
	attr.qp_num = e->from->qp_num;
	refuse_open(e->rig.context, attr);
	attr = good;
	attr.qp_type = IBV_QPT_XRC_SEND;
	refuse_open(e->rig.context, attr);
	attr = good;
	attr.xrcd = (struct ibv_xrcd *)e->rig.pd;
	refuse_open(e->rig.context, attr);
	attr = good;
	attr.xrcd = other;
	refuse_open(e->rig.context, attr);
	errno = 0;
	assert_null(ibv_open_qp(e->rig.context, NULL));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_close_xrcd(other), 0);
}

static struct ibv_qp *make_receiver(struct ibv_context *context, struct ibv_xrcd *domain)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = domain};

	return ibv_create_qp_ex(context, &init);
}

/* By another context, in the domain of a file. The handle that made the queue pair may be destroyed first. */
static void opened(void **state)
{
	struct ends *e = *state;
	int fd = memfd_create("domain", MFD_CLOEXEC);
	struct ibv_context *context = rig_context();
	struct ibv_xrcd *mine = open_domain(e->rig.context, fd, O_CREAT);
	struct ibv_xrcd *other = open_domain(context, fd, 0);
	struct ibv_qp *made = make_receiver(e->rig.context, mine), *qp[2], *old = e->to;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_srq *srq = make_queue(e, mine);
	uint32_t number;

	assert_non_null(made);
	number = made->qp_num;
	for (int i = 0; i < 2; i++) {
		qp[i] = open_qp(context, other, made->qp_num, &qp[i]);
		assert_non_null(qp[i]);
		assert_int_equal(qp[i]->qp_num, made->qp_num);
		assert_ptr_equal(qp[i]->qp_context, &qp[i]);
	}
	rig_modify(e->from, IBV_QPS_RESET, 0);
	e->to = qp[0]; /* whose state the handle changes that did not make it */
	connect_ends(e);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_query_qp(qp[i], &attr, IBV_QP_STATE, &init), 0);
		assert_int_equal(attr.qp_state, IBV_QPS_RTS);
		assert_int_equal(attr.dest_qp_num, e->from->qp_num);
		assert_ptr_equal(init.qp_context, &qp[i]);
	}
	assert_int_equal(ibv_destroy_qp(made), 0);
	assert_int_equal(ibv_close_xrcd(other), EBUSY);
	assert_int_equal(ibv_get_srq_num(srq, &e->number[0]), 0);
	post(e, IBV_WR_RDMA_WRITE, BYTES, e->number[0], e->mr->rkey);
	rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, 7);
	/* each handle gets the event */
	post(e, IBV_WR_RDMA_WRITE, BYTES, e->number[0], e->mr->rkey ^ 0xff);
	rig_expect(e->rig.cq[0], IBV_WC_REM_ACCESS_ERR, 7);
	rig_event(context, IBV_EVENT_QP_ACCESS_ERR, qp[1]);
	rig_event(context, IBV_EVENT_QP_ACCESS_ERR, qp[0]);
	assert_int_equal(rig_state(qp[1]), IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(qp[1]), 0);
	RIG_REFUSED(ibv_destroy_qp(qp[1]));
	assert_int_equal(rig_state(qp[0]), IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(qp[0]), 0);
	errno = 0;
	assert_null(open_qp(context, other, number,
			    NULL)); /* with its last handle the queue pair is gone */
	assert_int_equal(errno, EINVAL);
	e->to = old;
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(other), 0);
	assert_int_equal(ibv_close_xrcd(mine), 0);
	assert_int_equal(ibv_close_device(context), 0);
	close(fd);
}

/* ---- Two processes, and a domain that both open by a file ---- */

enum command {
	WAIT,
	EXPECT_EVENT,
	CLOSE,
	OPEN, /* the queue pair `number`, which this process has made */
};

struct peer_side {
	_Atomic uint32_t number, receiver, received;
	_Atomic uint32_t command, done;
};

static void tell(struct peer_side *shared, enum command command)
{
	shared->done = 0;
	shared->command = command;
	while (!shared->done)
		usleep(1000);
}

static void obey(struct peer_side *shared, struct ends *e, struct ibv_qp *qp)
{
	switch ((enum command)shared->command) {
	case WAIT:
		return;
	case EXPECT_EVENT:
		rig_event(e->rig.context, IBV_EVENT_QP_ACCESS_ERR, qp);
		break;
	case CLOSE:
		assert_int_equal(ibv_destroy_qp(qp), 0);
		break;
	case OPEN:
		assert_non_null(open_qp(e->rig.context, e->domain, shared->number, NULL));
		break;
	}
	shared->command = WAIT;
	shared->done = 1;
}

/* The process that owns a receive queue and a queue pair. */
static void other_process(struct peer_side *shared, int fd)
{
	struct ends e = {0};
	struct ibv_qp *qp;
	struct ibv_wc wc;
	uint32_t number;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rig_open(&e.rig);
	e.domain = open_domain(e.rig.context, fd, O_CREAT);
	e.srq[0] = make_queue(&e, e.domain);
	qp = make_receiver(e.rig.context, e.domain);
	e.mr = rig_region(e.rig.pd, 3 * 4096);
	if (!e.srq[0] || !qp || ibv_get_srq_num(e.srq[0], &number))
		_exit(1);
	for (uint64_t i = 0; i < 16; i++)
		post_receive(&e, 0, i);
	shared->receiver = qp->qp_num;
	shared->number = number;
	for (;;) {
		if (ibv_poll_cq(e.rig.cq[1], 1, &wc))
			shared->received += wc.status == IBV_WC_SUCCESS;
		obey(shared, &e, qp);
	}
}

struct two {
	struct ends *e;
	struct peer_side *shared;
	int fd;
	pid_t pid;
	struct ibv_xrcd *domain;
	struct ibv_qp *old;
};

static int setup_two(void **state)
{
	static struct two t;

	t.shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset((void *)t.shared, 0, sizeof(*t.shared));
	t.fd = memfd_create("domain", MFD_CLOEXEC);
	t.pid = fork_peer();
	if (!t.pid)
		other_process(t.shared, t.fd);
	setup(state);
	t.e = *state;
	t.old = t.e->to;
	t.domain = open_domain(t.e->rig.context, t.fd, O_CREAT);
	while (!t.shared->number)
		usleep(1000);
	*state = &t;
	return 0;
}

static int teardown_two(void **state)
{
	struct two *t = *state;

	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	t->e->to = t->old;
	assert_int_equal(ibv_close_xrcd(t->domain), 0);
	*state = t->e;
	teardown(state);
	close(t->fd);
	munmap(t->shared, 4096);
	return 0;
}

static void connect_to(struct two *t, struct ibv_qp *qp)
{
	t->e->to = qp;
	rig_modify(t->e->from, IBV_QPS_RESET, 0);
	connect_ends(t->e);
}

static void expect_traffic(struct two *t)
{
	for (uint32_t i = 0, had = t->shared->received; i < 4; i++) {
		post(t->e, IBV_WR_SEND, BYTES, t->shared->number, 0);
		rig_expect(t->e->rig.cq[0], IBV_WC_SUCCESS, 7);
		while (t->shared->received != had + i + 1)
			usleep(1000);
	}
}

/* By way of this process's queue pair into another process's queue and memory, until that process is
 * killed. */
static void queue_of_another(void **state)
{
	struct two *t = *state;
	struct ibv_qp *qp = make_receiver(t->e->rig.context, t->domain);
	uint64_t deadline = rig_now_ns() + 20000000000u;
	struct ibv_wc wc;

	connect_to(t, qp);
	expect_traffic(t);
	assert_int_equal(kill(t->pid, SIGKILL), 0);
	assert_int_equal(waitpid(t->pid, NULL, 0), t->pid);
	do { /* the death is noticed before long */
		post(t->e, IBV_WR_RDMA_WRITE, 0, t->shared->number, 0);
		wc = rig_next(t->e->rig.cq[0]);
		usleep(1000);
	} while (wc.status == IBV_WC_SUCCESS && rig_now_ns() < deadline);
	assert_true(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_RETRY_EXC_ERR ||
		    wc.status == IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* A queue pair is taken through its states, and queried, by another process than the one that made it. That
 * one destroys its handle, and the queue pair stays. */
static void opened_by_another(void **state)
{
	struct two *t = *state;
	struct ibv_context *context = t->e->rig.context;
	struct ibv_qp *qp = open_qp(context, t->domain, t->shared->receiver, t);
	struct ibv_qp *again = open_qp(context, t->domain, t->shared->receiver, NULL);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};

	assert_true(qp && again);
	errno = 0;
	assert_null(open_qp(context, t->e->domain, t->shared->receiver, NULL)); /* another domain */
	assert_int_equal(errno, EINVAL);
	assert_null(open_qp(context, t->domain, t->shared->receiver ^ 0x40000, NULL));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rig_state(qp), IBV_QPS_RESET);
	RIG_REFUSED(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	connect_to(t, qp);
	assert_int_equal(ibv_query_qp(again, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, t->e->from->qp_num);
	expect_traffic(t);
	post(t->e, IBV_WR_RDMA_WRITE, 8, t->shared->number, 0x123400);
	rig_expect(t->e->rig.cq[0], IBV_WC_REM_ACCESS_ERR, 7);
	tell(t->shared, EXPECT_EVENT);
	for (int i = 0; i < 2; i++) {
		struct ibv_async_event event;

		assert_int_equal(ibv_get_async_event(context, &event), 0);
		assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
		assert_true(event.element.qp == qp || event.element.qp == again);
		ibv_ack_async_event(&event);
	}
	tell(t->shared, CLOSE);
	assert_int_equal(rig_state(qp), IBV_QPS_ERR);
	rig_modify(qp, IBV_QPS_RESET, 0);
	connect_to(t, again);
	expect_traffic(t);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	expect_traffic(t);
	assert_int_equal(ibv_destroy_qp(again), 0);
	assert_null(open_qp(context, t->domain, t->shared->receiver, NULL));
	assert_int_equal(errno, EINVAL);
}

/* A queue pair ends with the process that has made it; other processes can still destroy their handles. */
static void maker_killed(void **state)
{
	struct two *t = *state;
	struct ibv_qp *qp = open_qp(t->e->rig.context, t->domain, t->shared->receiver, NULL);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_non_null(qp);
	connect_to(t, qp);
	assert_int_equal(kill(t->pid, SIGKILL), 0);
	assert_int_equal(waitpid(t->pid, NULL, 0), t->pid);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), EIO);
	attr = rig_attr(t->e->rig.context, IBV_QPS_RESET, 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EIO);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* When the process that held the last handle is killed, the queue pair is gone. */
static void opener_killed(void **state)
{
	struct two *t = *state;
	struct ibv_context *context = t->e->rig.context;
	struct ibv_qp *qp = make_receiver(context, t->domain);
	uint64_t deadline = rig_now_ns() + 20000000000u;
	uint32_t number = qp->qp_num;

	t->shared->number = number;
	tell(t->shared, OPEN);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	qp = open_qp(context, t->domain, number, NULL);
	assert_non_null(qp); /* the other process still has it open */
	assert_int_equal(kill(t->pid, SIGKILL), 0);
	assert_int_equal(waitpid(t->pid, NULL, 0), t->pid);
	while (qp) {
		assert_true(rig_now_ns() < deadline);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		usleep(100000);
		qp = open_qp(context, t->domain, number, NULL);
	}
	assert_int_equal(errno, EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(domains, setup, teardown),
		cmocka_unit_test_setup_teardown(sends, setup, teardown),
		cmocka_unit_test_setup_teardown(one_sided, setup, teardown),
		cmocka_unit_test_setup_teardown(wrong, setup, teardown),
		cmocka_unit_test_setup_teardown(refused_opens, setup, teardown),
		cmocka_unit_test_setup_teardown(opened, setup, teardown),
		cmocka_unit_test_setup_teardown(queue_of_another, setup_two, teardown_two),
		cmocka_unit_test_setup_teardown(opened_by_another, setup_two, teardown_two),
		cmocka_unit_test_setup_teardown(maker_killed, setup_two, teardown_two),
		cmocka_unit_test_setup_teardown(opener_killed, setup_two, teardown_two),
	};

	return cmocka_run_group_tests_name("xrc", tests, make_pool, remove_pool);
}
