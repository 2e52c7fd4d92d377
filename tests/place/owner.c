/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "owner.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct owner_meeting *owner_meeting;

int owner_prepare(void)
{
	owner_meeting = mmap(NULL, sizeof(*owner_meeting), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return owner_meeting == MAP_FAILED;
}

static struct ibv_qp *make(const struct rig *rig, struct ibv_cq *cq, struct ibv_srq *srq, int i)
{
	struct ibv_qp_init_attr init = rig_init(cq, cq);
	struct ibv_qp *qp;

	init.qp_type = i == OWNER_UC ? IBV_QPT_UC : IBV_QPT_RC;
	init.srq = i == OWNER_SRQ ? srq : NULL;
	qp = ibv_create_qp(rig->pd, &init);
	assert_non_null(qp);
	return qp;
}

static void post_shared(struct ibv_srq *srq, const struct ibv_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, OWNER_BYTES, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static _Noreturn void be_owner(void)
{
	struct ibv_srq_init_attr wish = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp *qp[OWNER_ENDS];
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct rig rig;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rig_open(&rig);
	srq = ibv_create_srq(rig.pd, &wish);
	mr = ibv_reg_mr(rig.pd, owner_meeting->memory, OWNER_BYTES, RIG_ALL);
	if (!srq || !mr)
		_exit(1);
	owner_meeting->rkey = mr->rkey;
	for (int i = 0; i < OWNER_ENDS; i++) {
		qp[i] = make(&rig, rig.cq[0], srq, i);
		atomic_store(&owner_meeting->theirs[i], qp[i]->qp_num);
	}
	atomic_store(&owner_meeting->made, 1);
	for (int i = 0; i < OWNER_ENDS; i++)
		rig_move(qp[i], IBV_QPS_RTS, rig_await(&owner_meeting->ours[i], 1));
	post_shared(srq, mr);
	if (rig_receive(qp[0], 9, mr, mr->addr, OWNER_BYTES) ||
	    rig_receive(qp[OWNER_UC], 9, mr, mr->addr, OWNER_BYTES))
		_exit(1);
	atomic_store(&owner_meeting->connected, 1);
	for (;;)
		pause();
}

void owner_start(struct owner *owner)
{
	memset(owner_meeting, 0, sizeof(*owner_meeting));
	owner->pid = fork();
	assert_true(owner->pid >= 0);
	if (!owner->pid)
		be_owner();
	rig_await(&owner_meeting->made, 1);
}

void owner_connect(struct owner *owner, const struct rig *rig, struct ibv_cq *cq)
{
	for (int i = 0; i < OWNER_ENDS; i++) {
		owner->qp[i] = make(rig, cq, NULL, i);
		rig_move(owner->qp[i], IBV_QPS_RTS, owner_meeting->theirs[i]);
		atomic_store(&owner_meeting->ours[i], owner->qp[i]->qp_num);
	}
	rig_await(&owner_meeting->connected, 1);
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
	for (int i = 0; i < OWNER_ENDS; i++)
		assert_int_equal(ibv_destroy_qp(owner->qp[i]), 0);
	kill(owner->pid, SIGKILL);
	waitpid(owner->pid, NULL, 0);
}
