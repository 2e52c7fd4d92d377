/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/nic.h"
#include "owner.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/step.h"
#include "process/process.h"

#define MTU	  4096u
#define DATAGRAMS 32
#define LOOK_US	  50

struct owner_meeting *owner_meeting;

const union ibv_gid owner_group = {.raw = {0xff, 0x0e, [15] = 7}};

static bool is_owner;

/* ---- Holding the owner's helper ---- */

static void come_by(const char *name)
{
	static const char *const names[] = {[OWNER_NOWHERE] = "",
					    [OWNER_ANSWERING] = "reach_answering",
					    [OWNER_APPLIED] = "reach_applied"};

	if (!is_owner || strcmp(name, names[atomic_load(&owner_meeting->place)]))
		return;
	if (atomic_load(&owner_meeting->passes)) {
		atomic_fetch_sub(&owner_meeting->passes, 1);
		return;
	}
	while (atomic_load(&owner_meeting->place) != OWNER_NOWHERE) {
		atomic_store(&owner_meeting->held, 1);
		usleep(LOOK_US);
	}
}

#ifdef WEFT_STEPS
void owner_step(const char *name)
{
	come_by(name);
}
#else
void weft_turn(const char *name)
{
	come_by(name);
}
#endif

void owner_hold_after(enum owner_place place, uint32_t times)
{
	atomic_store(&owner_meeting->held, 0);
	atomic_store(&owner_meeting->passes, times);
	atomic_store(&owner_meeting->place, place);
}

void owner_hold(enum owner_place place)
{
	owner_hold_after(place, 0);
}

void owner_await_held(void)
{
	rig_await(&owner_meeting->held, 1);
}

void owner_let_go(void)
{
	atomic_store(&owner_meeting->place, OWNER_NOWHERE);
}

/* ---- Queue pairs ---- */

int owner_prepare(void)
{
	owner_meeting = mmap(NULL, sizeof(*owner_meeting), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return owner_meeting == MAP_FAILED;
}

static enum ibv_qp_type type_of(int i)
{
	return i == OWNER_UC ? IBV_QPT_UC : i == OWNER_UD ? IBV_QPT_UD : IBV_QPT_RC;
}

static struct ibv_qp *make(const struct rig *rig, struct ibv_cq *cq, struct ibv_srq *srq, int i)
{
	struct ibv_qp_init_attr init = rig_init(cq, cq);
	struct ibv_qp *qp;

	init.qp_type = type_of(i);
	init.srq = i == OWNER_SRQ ? srq : NULL;
	qp = ibv_create_qp(rig->pd, &init);
	assert_non_null(qp);
	return qp;
}

/* domain: of a queue pair that receives; NULL: of one that sends. */
static struct ibv_qp *make_xrc(const struct rig *rig, struct ibv_cq *cq, struct ibv_xrcd *domain)
{
	struct ibv_qp_init_attr_ex from = {.send_cq = cq,
					   .cap = {RIG_DEPTH, 0, 1, 0, 64},
					   .qp_type = IBV_QPT_XRC_SEND,
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = rig->pd},
				   to = {.qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					 .xrcd = domain};
	struct ibv_qp *qp = ibv_create_qp_ex(rig->context, domain ? &to : &from);

	assert_non_null(qp);
	return qp;
}

static void post_shared(struct ibv_srq *srq, const struct ibv_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, OWNER_BYTES, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

/* ---- In the owner's process ---- */

struct own {
	struct rig rig;
	struct ibv_xrcd *domain;
	struct ibv_srq *srq, *queue;
	struct ibv_mr *mr;
	struct ibv_qp *qp[OWNER_ALL];
};

static void make_queues(struct own *o)
{
	struct ibv_srq_init_attr wish = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_xrcd_init_attr domain = {IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1,
					    O_CREAT};
	struct ibv_srq_init_attr_ex queue = {
		.attr = wish.attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = o->rig.pd,
		.cq = o->rig.cq[0],
	};

	o->domain = ibv_open_xrcd(o->rig.context, &domain);
	queue.xrcd = o->domain;
	o->srq = ibv_create_srq(o->rig.pd, &wish);
	o->queue = o->domain ? ibv_create_srq_ex(o->rig.context, &queue) : NULL;
	o->mr = ibv_reg_mr(o->rig.pd, owner_meeting->memory, OWNER_BYTES, RIG_ALL);
	if (!o->srq || !o->mr || !o->queue || ibv_get_srq_num(o->queue, &owner_meeting->queue))
		_exit(1);
	owner_meeting->rkey = o->mr->rkey;
}

static int receive(struct own *o, int i)
{
	if (i != OWNER_UD)
		return rig_receive(o->qp[i], 9, o->mr, o->mr->addr, OWNER_BYTES);
	for (int k = 0; k < DATAGRAMS; k++)
		if (rig_receive(o->qp[i], 9, o->mr, o->mr->addr, MTU))
			return 1;
	return 0;
}

static void post_receives(struct own *o)
{
	post_shared(o->srq, o->mr);
	post_shared(o->queue, o->mr);
	if (receive(o, 0) || receive(o, OWNER_UC) || receive(o, OWNER_UD) ||
	    ibv_attach_mcast(o->qp[OWNER_UD], &owner_group, 0))
		_exit(1);
}

static uint32_t count(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	uint32_t n = 0;

	while (ibv_poll_cq(cq, 1, &wc))
		n += wc.status == IBV_WC_SUCCESS && wc.wr_id == 9;
	return n;
}

static uint32_t obey(struct own *o, enum owner_order order, int i)
{
	switch (order) {
	case OWNER_NOTHING:
		break;
	case OWNER_REHOME:
		weft_nic_hold(&weft_process_nic);
		weft_nic_let_go(&weft_process_nic);
		break;
	case OWNER_RECEIVE:
		return (uint32_t)receive(o, i);
	case OWNER_RECONNECT:
		rig_modify(o->qp[i], IBV_QPS_RESET, 0);
		rig_modify(o->qp[i], IBV_QPS_RTS, owner_meeting->ours[i]);
		break;
	case OWNER_COUNT:
		return count(o->rig.cq[0]);
	}
	return 0;
}

static _Noreturn void be_owner(void)
{
	static struct own o;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	is_owner = true;
	rig_open(&o.rig);
	make_queues(&o);
	for (int i = 0; i < OWNER_ALL; i++) {
		o.qp[i] = i == OWNER_XRC ? make_xrc(&o.rig, NULL, o.domain)
					 : make(&o.rig, o.rig.cq[0], o.srq, i);
		atomic_store(&owner_meeting->theirs[i], o.qp[i]->qp_num);
	}
	atomic_store(&owner_meeting->made, 1);
	for (int i = 0; i < OWNER_ALL; i++)
		rig_modify(o.qp[i], IBV_QPS_RTS, rig_await(&owner_meeting->ours[i], 1));
	post_receives(&o);
	atomic_store(&owner_meeting->connected, 1);
	for (;;) {
		while (!atomic_load(&owner_meeting->order))
			usleep(LOOK_US);
		owner_meeting->result =
			obey(&o, (enum owner_order)owner_meeting->order, (int)owner_meeting->end);
		atomic_store(&owner_meeting->order, OWNER_NOTHING);
		atomic_store(&owner_meeting->done, 1);
	}
}

/* ---- In the test ---- */

void owner_start(struct owner *owner)
{
	memset(owner_meeting, 0, sizeof(*owner_meeting));
	owner->pid = fork();
	assert_true(owner->pid >= 0);
	if (!owner->pid)
		be_owner();
	rig_await(&owner_meeting->made, 1);
}

void owner_connect_some(struct owner *owner, const struct rig *rig, struct ibv_cq *cq, int first,
			int end)
{
	for (int i = first; i < end; i++) {
		owner->qp[i] = i == OWNER_XRC ? make_xrc(rig, cq, NULL) : make(rig, cq, NULL, i);
		rig_modify(owner->qp[i], IBV_QPS_RTS, owner_meeting->theirs[i]);
		atomic_store(&owner_meeting->ours[i], owner->qp[i]->qp_num);
	}
}

void owner_connect(struct owner *owner, const struct rig *rig, struct ibv_cq *cq)
{
	owner_connect_some(owner, rig, cq, 0, OWNER_ALL);
	rig_await(&owner_meeting->connected, 1);
}

void owner_order(enum owner_order order, int end)
{
	atomic_store(&owner_meeting->done, 0);
	owner_meeting->end = (uint32_t)end;
	atomic_store(&owner_meeting->order, order);
}

uint32_t owner_result(void)
{
	rig_await(&owner_meeting->done, 1);
	return owner_meeting->result;
}

uint32_t owner_do(enum owner_order order, int end)
{
	owner_order(order, end);
	return owner_result();
}

void owner_stop(const struct owner *owner)
{
	assert_int_equal(kill(owner->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(owner->pid, NULL, WUNTRACED), owner->pid);
}

void owner_continue(const struct owner *owner)
{
	assert_int_equal(kill(owner->pid, SIGCONT), 0);
}

void owner_end(struct owner *owner)
{
	for (int i = 0; i < OWNER_ALL; i++)
		if (owner->qp[i])
			assert_int_equal(ibv_destroy_qp(owner->qp[i]), 0);
	memset(owner->qp, 0, sizeof(owner->qp));
	owner_let_go();
	kill(owner->pid, SIGKILL);
	waitpid(owner->pid, NULL, 0);
}
