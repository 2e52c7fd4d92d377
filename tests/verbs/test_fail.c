/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Error completions: for each cause the status at the requester, what the responder sees, the
 * states of both queue pairs afterwards, and that all that was outstanding is flushed in order.
 */
#include "rig.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "../abi/pool.h"

#define BYTES 8192u
#define NO_EVENT ((enum ibv_event_type)-1)

static struct ibv_mr *memory;	/* all rights */
static struct ibv_mr *read_only; /* no right but to be read here */
static struct ibv_mr *local;	/* local write only */
static struct ibv_mr *foreign;	/* of another domain */
static struct ibv_pd *other;
static uint32_t stale; /* key of a region that has ended */

static int setup(void **state)
{
	struct rig *rig;
	struct ibv_mr *gone;

	rig_setup(state);
	rig = *state;
	other = ibv_alloc_pd(rig->context);
	memory = rig_region(rig->pd, BYTES);
	read_only = ibv_reg_mr(rig->pd, memory->addr, BYTES, 0);
	local = ibv_reg_mr(rig->pd, memory->addr, BYTES, IBV_ACCESS_LOCAL_WRITE);
	foreign = ibv_reg_mr(other, memory->addr, BYTES, RIG_ALL);
	gone = ibv_reg_mr(rig->pd, memory->addr, BYTES, RIG_ALL);
	assert_true(read_only && local && foreign && gone);
	stale = gone->rkey;
	assert_int_equal(ibv_dereg_mr(gone), 0);
	memset(memory->addr, 0x5a, BYTES);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(ibv_dereg_mr(read_only), 0);
	assert_int_equal(ibv_dereg_mr(local), 0);
	assert_int_equal(ibv_dereg_mr(foreign), 0);
	rig_region_end(memory);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	return rig_teardown(state);
}

/* ---- The cases ---- */

enum key { GOOD, BAD, ZERO, READ_ONLY, LOCAL, FOREIGN, STALE };

static uint32_t key_of(enum key key)
{
	switch (key) {
	case GOOD:
		return memory->rkey;
	case BAD:
		return memory->rkey ^ 0x800;
	case ZERO:
		return 0;
	case READ_ONLY:
		return read_only->rkey;
	case LOCAL:
		return local->rkey;
	case FOREIGN:
		return foreign->rkey;
	case STALE:
		return stale;
	}
	return 0;
}

struct failure {
	const char *what;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_status status;	/* at the requester */
	enum ibv_event_type event;	/* at the responder, or NO_EVENT: its queue pair lives on */
	enum key here, there;		/* `there` is the receive's for SEND */
	int from, length;		/* here, relative to the region */
	int to, room;			/* there; room: of the receive */
	unsigned int access;		/* of the responder's queue pair; 0: all */
	enum ibv_wc_status receive;	/* of the responder's receive that was used up */
};

#define HERE(text, op, key, from, length)                                                          \
	{ text, op, IBV_WC_LOC_PROT_ERR, NO_EVENT, key, GOOD, from, length, 0, 64, 0, 0 }
#define REMOTE(text, op, key, to, length)                                                          \
	{ text, op, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, GOOD, key, 0, length, to, 64, 0, 0 }
#define RIGHT(text, op, access)                                                                    \
	{ text, op, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, GOOD, GOOD, 0, 8, 0, 64, access, 0 }
#define WRITE IBV_WR_RDMA_WRITE
#define READ  IBV_WR_RDMA_READ
#define SWAP  IBV_WR_ATOMIC_CMP_AND_SWP
#define ADD   IBV_WR_ATOMIC_FETCH_AND_ADD

static const struct failure failures[] = {
	HERE("SEND with a bad key", IBV_WR_SEND, BAD, 0, 8),
	HERE("SEND with key 0", IBV_WR_SEND, ZERO, 0, 8),
	HERE("SEND with another domain's key", IBV_WR_SEND, FOREIGN, 0, 8),
	HERE("SEND with a stale key", IBV_WR_SEND, STALE, 0, 8),
	HERE("SEND from before the region", IBV_WR_SEND, GOOD, -1, 8),
	HERE("SEND from beyond the region", IBV_WR_SEND, GOOD, BYTES - 7, 8),
	HERE("WRITE with a bad key", WRITE, BAD, 0, 8),
	HERE("WRITE with another domain's key", WRITE, FOREIGN, 0, 8),
	HERE("WRITE from beyond the region", WRITE, GOOD, BYTES, 1),
	HERE("WRITE of more than the region", WRITE, GOOD, 0, BYTES + 1),
	HERE("WRITE_IMM with a stale key", IBV_WR_RDMA_WRITE_WITH_IMM, STALE, 0, 8),
	HERE("READ with a bad key", READ, BAD, 0, 8),
	HERE("READ into what may not be written", READ, READ_ONLY, 0, 8),
	HERE("READ beyond the region", READ, GOOD, BYTES - 7, 8),
	HERE("swap into what may not be written", SWAP, READ_ONLY, 0, 8),
	HERE("addition with another domain's key", ADD, FOREIGN, 0, 8),
	{ "swap of 4 bytes", SWAP, IBV_WC_LOC_LEN_ERR, NO_EVENT, GOOD, GOOD, 0, 4, 0, 64, 0, 0 },
	{ "addition to 16 bytes", ADD, IBV_WC_LOC_LEN_ERR, NO_EVENT, GOOD, GOOD, 0, 16, 0, 64, 0, 0 },

	REMOTE("WRITE with a bad rkey", WRITE, BAD, 0, 8),
	REMOTE("WRITE with rkey 0", WRITE, ZERO, 0, 8),
	REMOTE("WRITE with a stale rkey", WRITE, STALE, 0, 8),
	REMOTE("WRITE with another domain's rkey", WRITE, FOREIGN, 0, 8),
	REMOTE("WRITE to what may not be", WRITE, LOCAL, 0, 8),
	REMOTE("WRITE before the region", WRITE, GOOD, -1, 8),
	REMOTE("WRITE beyond the region", WRITE, GOOD, BYTES - 7, 8),
	REMOTE("WRITE_IMM with a bad rkey", IBV_WR_RDMA_WRITE_WITH_IMM, BAD, 0, 8),
	REMOTE("WRITE_IMM beyond the region", IBV_WR_RDMA_WRITE_WITH_IMM, GOOD, BYTES, 8),
	REMOTE("READ with a bad rkey", READ, BAD, 0, 8),
	REMOTE("READ with a stale rkey", READ, STALE, 0, 8),
	REMOTE("READ of what may not be", READ, LOCAL, 0, 8),
	REMOTE("READ beyond the region", READ, GOOD, BYTES - 7, 8),
	REMOTE("swap with a bad rkey", SWAP, BAD, 0, 8),
	REMOTE("swap where it may not be", SWAP, LOCAL, 0, 8),
	REMOTE("addition beyond the region", ADD, GOOD, BYTES, 8),
	REMOTE("addition with a stale rkey", ADD, STALE, 0, 8),

	RIGHT("WRITE to a queue pair without it", WRITE,
	      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
	RIGHT("WRITE_IMM to a queue pair without it", IBV_WR_RDMA_WRITE_WITH_IMM,
	      IBV_ACCESS_REMOTE_READ),
	RIGHT("READ from a queue pair without it", READ,
	      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC),
	RIGHT("swap at a queue pair without it", SWAP,
	      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ),
	RIGHT("addition at a queue pair without any", ADD, IBV_ACCESS_LOCAL_WRITE),
	{ "unaligned swap", SWAP, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, GOOD, GOOD, 0, 8, 4,
	  64, 0, 0 },
	{ "unaligned addition", ADD, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, GOOD, GOOD, 0, 8,
	  1, 64, 0, 0 },
	{ "SEND longer than the receive", IBV_WR_SEND, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR,
	  GOOD, GOOD, 0, 65, 0, 64, 0, IBV_WC_LOC_LEN_ERR },
	{ "SEND with immediate, too long", IBV_WR_SEND_WITH_IMM, IBV_WC_REM_INV_REQ_ERR,
	  IBV_EVENT_QP_REQ_ERR, GOOD, GOOD, 0, 1, 0, 0, 0, IBV_WC_LOC_LEN_ERR },
	{ "SEND to a receive with a bad key", IBV_WR_SEND, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL,
	  GOOD, BAD, 0, 8, 0, 64, 0, IBV_WC_LOC_PROT_ERR },
	{ "SEND to a receive of another domain", IBV_WR_SEND, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL,
	  GOOD, FOREIGN, 0, 8, 0, 64, 0, IBV_WC_LOC_PROT_ERR },
	{ "SEND to what may not be written", IBV_WR_SEND, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL, GOOD,
	  READ_ONLY, 0, 8, 0, 64, 0, IBV_WC_LOC_PROT_ERR },
	{ "SEND to beyond a region", IBV_WR_SEND, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL, GOOD, GOOD,
	  0, 8, BYTES - 7, 64, 0, IBV_WC_LOC_PROT_ERR },
};

/* ---- Carrying them out ---- */

static bool is_send(const struct failure *f)
{
	return f->opcode == IBV_WR_SEND || f->opcode == IBV_WR_SEND_WITH_IMM;
}

static void post_receives(struct rig *rig, const struct failure *f)
{
	struct ibv_sge sge = { (uintptr_t)memory->addr + 4096 + (uintptr_t)(intptr_t)f->to,
			       (uint32_t)f->room, is_send(f) ? key_of(f->there) : memory->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (f->to > 4096)
		sge.addr = (uintptr_t)memory->addr + (uintptr_t)f->to;
	for (wr.wr_id = 100; wr.wr_id < 104; wr.wr_id++)
		assert_int_equal(ibv_post_recv(rig->qp[1], &wr, &bad), 0);
}

/* A good request before it, and four behind it in the same list. */
static void post_sends(struct rig *rig, const struct failure *f)
{
	struct ibv_sge sge = { (uintptr_t)memory->addr + (uintptr_t)(intptr_t)f->from,
			       (uint32_t)f->length, key_of(f->here) };
	struct ibv_send_wr wr[5], *bad;
	uint64_t remote = (uintptr_t)memory->addr + (uintptr_t)(intptr_t)f->to;
	uint32_t rkey = is_send(f) ? 0 : key_of(f->there);

	for (size_t i = 0; i < COUNT(wr); i++) {
		wr[i] = (struct ibv_send_wr){ .wr_id = i,
					      .next = i < 4 ? &wr[i + 1] : NULL,
					      .sg_list = &sge,
					      .num_sge = 1,
					      .opcode = f->opcode };
		if (f->opcode == SWAP || f->opcode == ADD) {
			wr[i].wr.atomic.remote_addr = remote;
			wr[i].wr.atomic.rkey = rkey;
			wr[i].wr.atomic.compare_add = 1;
		} else {
			wr[i].wr.rdma.remote_addr = remote;
			wr[i].wr.rdma.rkey = rkey;
		}
	}
	assert_int_equal(rig_send(rig->qp[1], 50, NULL, NULL, 0), 0); /* waits: no receive */
	assert_int_equal(ibv_post_send(rig->qp[0], wr, &bad), 0);
}

static void check_event(struct rig *rig, enum ibv_event_type type)
{
	struct pollfd fd = { rig->context->async_fd, POLLIN, 0 };
	struct ibv_async_event event;

	assert_int_equal(poll(&fd, 1, 10000), 1);
	assert_int_equal(ibv_get_async_event(rig->context, &event), 0);
	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.qp, rig->qp[1]);
	ibv_ack_async_event(&event);
}

static void no_event(struct rig *rig)
{
	struct pollfd fd = { rig->context->async_fd, POLLIN, 0 };

	assert_int_equal(poll(&fd, 1, 0), 0);
}

static void check_responder(struct rig *rig, const struct failure *f)
{
	uint64_t receive = 100;

	if (f->event == NO_EVENT) {
		assert_int_equal(rig_state(rig->qp[1]), IBV_QPS_RTS);
		rig_none(rig->cq[1]);
		no_event(rig);
		return;
	}
	check_event(rig, f->event);
	assert_int_equal(rig_state(rig->qp[1]), IBV_QPS_ERR);
	if (f->receive)
		rig_expect(rig->cq[1], f->receive, receive++);
	/* receives and sends are flushed each in their order, between them in any */
	for (uint64_t send = 50; receive < 104 || send < 51;) {
		struct ibv_wc wc = rig_next(rig->cq[1]);

		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		if (wc.wr_id >= 100)
			assert_int_equal(wc.wr_id, receive++);
		else
			assert_int_equal(wc.wr_id, send++);
		assert_int_equal(wc.qp_num, rig->qp[1]->qp_num);
	}
	rig_none(rig->cq[1]);
	no_event(rig);
}

static void check_requester(struct rig *rig, const struct failure *f)
{
	assert_int_equal(rig_expect(rig->cq[0], f->status, 0).qp_num, rig->qp[0]->qp_num);
	for (uint64_t i = 1; i < 5; i++)
		rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, i);
	assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_ERR);
	rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, 60); /* a receive of its own */
	rig_none(rig->cq[0]);
	/* what is posted from now on is flushed as well */
	assert_int_equal(rig_send(rig->qp[0], 7, NULL, NULL, 0), 0);
	assert_int_equal(rig_receive(rig->qp[0], 8, NULL, NULL, 0), 0);
	rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, 7);
	rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, 8);
}

/* The memory of either side is as it was: what fails moves nothing. */
static void check_memory(void)
{
	const uint8_t *at = memory->addr;

	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(at[i], 0x5a);
}

/* Both ways out of the error are the same: RESET, and connected anew all works. */
static void check_recovery(struct rig *rig)
{
	for (int i = 0; i < 2; i++)
		rig_move(rig->qp[i], IBV_QPS_RESET, 0);
	rig_connect(rig, &(struct rig_wish){ 0 });
	assert_int_equal(rig_receive(rig->qp[1], 2, NULL, NULL, 0), 0);
	assert_int_equal(rig_send(rig->qp[0], 1, NULL, NULL, 0), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 2);
	rig_none(rig->cq[0]);
	rig_none(rig->cq[1]);
}

static void every_failure(void **state)
{
	struct rig *rig = *state;

	for (size_t i = 0; i < COUNT(failures); i++) {
		const struct failure *f = &failures[i];

		print_message("%s\n", f->what);
		for (int q = 0; q < 2; q++)
			rig_move(rig->qp[q], IBV_QPS_RESET, 0);
		rig_connect(rig, &(struct rig_wish){ .access = f->access });
		post_receives(rig, f);
		post_sends(rig, f);
		assert_int_equal(rig_receive(rig->qp[0], 60, NULL, NULL, 0), 0);
		check_responder(rig, f);
		check_requester(rig, f);
		check_memory();
		check_recovery(rig);
	}
}

static void write_with_bad_key(struct ibv_qp *qp)
{
	assert_int_equal(rig_rdma(qp, IBV_WR_RDMA_WRITE, 1, memory, memory->addr, 8,
				  (uintptr_t)memory->addr, memory->rkey ^ 0x800),
			 0);
}

/* The responder is found at fault and moves on at the same instant: it ends in error. */
static void fault_while_moving(void **state)
{
	struct rig *rig = *state;

	for (int round = 0; round < 400; round++) {
		struct ibv_qp_attr attr;
		int err;

		for (int i = 0; i < 2; i++)
			rig_move(rig->qp[i], IBV_QPS_RESET, 0);
		rig_move(rig->qp[1], IBV_QPS_RTR, rig->qp[0]->qp_num);
		rig_move(rig->qp[0], IBV_QPS_RTS, rig->qp[1]->qp_num);
		attr = rig_attr(rig->context, IBV_QPS_RTS, 0);
		write_with_bad_key(rig->qp[0]);
		for (int i = 0; i < round % 100; i++)
			rig_state(rig->qp[1]); /* so that the engine has more and more time */
		err = ibv_modify_qp(rig->qp[1], &attr, RIG_RTS_MASK);
		assert_true(!err || err == EINVAL);
		rig_expect(rig->cq[0], IBV_WC_REM_ACCESS_ERR, 1);
		check_event(rig, IBV_EVENT_QP_ACCESS_ERR);
		assert_int_equal(rig_state(rig->qp[1]), IBV_QPS_ERR);
		no_event(rig);
	}
}

/* A requester that leaves as soon as it has failed does not take the news with it. */
static void fault_by_who_has_gone(void **state)
{
	struct rig *rig = *state;

	for (int round = 0; round < 100; round++) {
		struct ibv_qp_init_attr init = rig_init(rig->cq[0], rig->cq[0]);
		struct ibv_qp *qp = ibv_create_qp(rig->pd, &init);

		assert_non_null(qp);
		rig_move(rig->qp[1], IBV_QPS_RESET, 0);
		rig_move(rig->qp[1], IBV_QPS_RTS, qp->qp_num);
		rig_move(qp, IBV_QPS_RTS, rig->qp[1]->qp_num);
		write_with_bad_key(qp);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		check_event(rig, IBV_EVENT_QP_ACCESS_ERR);
		assert_int_equal(rig_state(rig->qp[1]), IBV_QPS_ERR);
	}
}

/* Only its own connection's faults count, not those of an earlier one between the same two. */
static void fault_of_an_earlier_connection(void **state)
{
	struct rig *rig = *state;

	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < 2; i++)
			rig_move(rig->qp[i], IBV_QPS_RESET, 0);
		rig_connect(rig, &(struct rig_wish){ 0 });
		write_with_bad_key(rig->qp[0]);
		for (int i = 1; i >= 0; i--)
			rig_move(rig->qp[i], IBV_QPS_RESET, 0);
		rig_connect(rig, &(struct rig_wish){ 0 });
		assert_int_equal(rig_receive(rig->qp[1], 2, NULL, NULL, 0), 0);
		assert_int_equal(rig_send(rig->qp[0], 1, NULL, NULL, 0), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, 2);
		assert_int_equal(rig_state(rig->qp[1]), IBV_QPS_RTS);
	}
}

/* Another queue pair's death does not disturb those that share its completion queues. */
static void bystanders(void **state)
{
	struct rig *rig = *state, spare = { 0 };

	rig_connect(rig, &(struct rig_wish){ 0 });
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = rig_init(rig->cq[i], rig->cq[i]);

		spare.context = rig->context;
		spare.qp[i] = ibv_create_qp(rig->pd, &init);
		assert_non_null(spare.qp[i]);
	}
	rig_connect(&spare, &(struct rig_wish){ 0 });
	for (uint64_t i = 0; i < 10; i++) {
		assert_int_equal(rig_receive(rig->qp[1], 10 + i, NULL, NULL, 0), 0);
		assert_int_equal(rig_receive(spare.qp[1], 20 + i, NULL, NULL, 0), 0);
		assert_int_equal(rig_send(rig->qp[0], 10 + i, NULL, NULL, 0), 0);
		assert_int_equal(rig_send(spare.qp[0], 20 + i, NULL, NULL, 0), 0);
	}
	write_with_bad_key(spare.qp[0]);
	check_event(&(struct rig){ .context = rig->context, .qp = { NULL, spare.qp[1] } },
		    IBV_EVENT_QP_ACCESS_ERR);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(spare.qp[i]), 0);
	for (uint64_t i = 0; i < 10; i++) {
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 10 + i);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, 10 + i);
	}
	rig_none(rig->cq[0]);
	rig_none(rig->cq[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(fault_while_moving, setup, teardown),
		cmocka_unit_test_setup_teardown(fault_by_who_has_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(fault_of_an_earlier_connection, setup, teardown),
		cmocka_unit_test_setup_teardown(bystanders, setup, teardown),
		cmocka_unit_test_setup_teardown(every_failure, setup, teardown),
	};

	return cmocka_run_group_tests_name("fail", tests, make_pool, remove_pool);
}
