/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "causes.h"

#define BIT(verb) (1u << (verb))
#define SENDS	  (BIT(SEND) | BIT(SEND_IMM))
#define WRITES	  (BIT(WRITE) | BIT(WRITE_IMM))
#define ATOMICS	  (BIT(CMP_SWAP) | BIT(FETCH_ADD))
#define READS	  (BIT(READ) | ATOMICS)
#define ONE_SIDED (WRITES | READS)
#define TAKING	  (SENDS | BIT(WRITE_IMM)) /* that take a receive */
#define MESSAGES  (SENDS | WRITES | BIT(READ))
#define POSTED	  (SENDS | ONE_SIDED)
#define TOO_LONG  0x80000001u

const char *const verb_name[VERBS] = {"SEND", "SEND_IMM", "WRITE",     "WRITE_IMM",
				      "READ", "CMP_SWAP", "FETCH_ADD", "RECV"};

enum ibv_wr_opcode opcode_of(enum verb verb)
{
	static const enum ibv_wr_opcode opcodes[VERBS] = {IBV_WR_SEND,
							  IBV_WR_SEND_WITH_IMM,
							  IBV_WR_RDMA_WRITE,
							  IBV_WR_RDMA_WRITE_WITH_IMM,
							  IBV_WR_RDMA_READ,
							  IBV_WR_ATOMIC_CMP_AND_SWP,
							  IBV_WR_ATOMIC_FETCH_AND_ADD};

	return opcodes[verb];
}

unsigned int right_of(enum verb verb)
{
	if (BIT(verb) & WRITES)
		return IBV_ACCESS_REMOTE_WRITE;
	if (BIT(verb) & ATOMICS)
		return IBV_ACCESS_REMOTE_ATOMIC;
	return verb == READ ? IBV_ACCESS_REMOTE_READ : 0;
}

/* ---- What happens to the queue pairs ---- */

static void fails(struct rig *rig)
{
	rig_modify(rig->qp[0], IBV_QPS_ERR, 0);
}

static void peer_resets(struct rig *rig)
{
	rig_modify(rig->qp[1], IBV_QPS_RESET, 0);
}

static void peer_in_init(struct rig *rig)
{
	rig_modify(rig->qp[1], IBV_QPS_RESET, 0);
	rig_modify(rig->qp[1], IBV_QPS_INIT, 0);
}

static void peer_fails(struct rig *rig)
{
	rig_modify(rig->qp[1], IBV_QPS_ERR, 0);
}

static void peer_with_another(struct rig *rig)
{
	rig_modify(rig->qp[1], IBV_QPS_RESET, 0);
	rig_modify(rig->qp[1], IBV_QPS_RTS, rig->qp[1]->qp_num);
}

static void peer_destroyed(struct rig *rig)
{
	assert_int_equal(ibv_destroy_qp(rig->qp[1]), 0);
	rig->qp[1] = NULL;
}

static void aim_elsewhere(struct rig *rig, uint32_t qpn, uint8_t gid_change, uint32_t psn_change)
{
	struct ibv_qp_attr attr = rig_attr(rig->context, IBV_QPS_RTR, qpn);

	rig_modify(rig->qp[0], IBV_QPS_RESET, 0);
	rig_modify(rig->qp[0], IBV_QPS_INIT, 0);
	attr.ah_attr.grh.dgid.raw[15] ^= gid_change;
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, RIG_RTR_MASK), 0);
	attr = rig_attr(rig->context, IBV_QPS_RTS, 0);
	attr.timeout = 1;
	attr.sq_psn ^= psn_change;
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, RIG_RTS_MASK), 0);
}

static void number_of_no_queue_pair(struct rig *rig)
{
	aim_elsewhere(rig, 0xfffff0, 0, 0);
}

static void address_of_no_member(struct rig *rig)
{
	aim_elsewhere(rig, rig->qp[1]->qp_num, 0x55, 0);
}

static void psn_that_differs(struct rig *rig)
{
	aim_elsewhere(rig, rig->qp[1]->qp_num, 0, 1);
}

/* ---- The causes ---- */

const struct cause causes[] = {
	/* local length, operation, protection */
	{"more than 2 GiB", MESSAGES, .length = TOO_LONG},
	{"atomic of 4 bytes", ATOMICS, .length = 4},
	{"atomic of 16 bytes", ATOMICS, .length = 16},
	{"max_rd_atomic 0", READS, .no_reads = 1},
	{"lkey garbled", POSTED, GARBLED},
	{"lkey 0", POSTED, ZERO},
	{"lkey stale", POSTED, STALE},
	{"lkey of another domain", POSTED, FOREIGN},
	{"lkey of the second element garbled", POSTED, GARBLED, .split = true},
	{"from before the region", POSTED, .from = -1},
	{"from beyond the region", POSTED, .from = CAUSES_BYTES - 7},
	{"more than the region", MESSAGES, .length = CAUSES_BYTES + 1},
	{"into what may not be written", READS, READ_ONLY},

	/* remote access */
	{"rkey garbled", ONE_SIDED, .there = GARBLED},
	{"rkey 0", ONE_SIDED, .there = ZERO},
	{"rkey stale", ONE_SIDED, .there = STALE},
	{"rkey of another domain", ONE_SIDED, .there = FOREIGN},
	{"rkey without the right", ONE_SIDED, .there = LOCAL},
	{"to before the region", ONE_SIDED, .to = -8},
	{"to beyond the region", ONE_SIDED, .to = CAUSES_BYTES - 7},
	{"to far beyond the region", ONE_SIDED, .to = CAUSES_BYTES * 4},

	/* remote invalid request */
	{"peer without the right", ONE_SIDED, .no_right = true},
	{"peer's max_dest_rd_atomic 0", READS, .no_reads = 2},
	{"unaligned by 4", ATOMICS, .to = 4},
	{"unaligned by 1", ATOMICS, .to = 1},
	{"longer than the receive", SENDS, .length = 65},
	{"receive of no bytes", SENDS, .length = 1, .room = NO_ROOM},

	/* remote operation: the receive is at fault */
	{"receive's lkey garbled", SENDS, .receive = GARBLED},
	{"receive's lkey 0", SENDS, .receive = ZERO},
	{"receive's lkey stale", SENDS, .receive = STALE},
	{"receive's lkey of another domain", SENDS, .receive = FOREIGN},
	{"receive in what may not be written", SENDS, .receive = READ_ONLY},
	{"receive beyond the region", SENDS, .receive_at = CAUSES_BYTES - 7},

	/* of a SEND the memory of the receive, of others the memory at the peer */
	{CAUSE_UNMAPPED, POSTED},

	/* retries */
	{"no receive, rnr_retry 0", TAKING, .no_receive = true, .rnr_retry = RIG_NO_RNR_RETRY},
	{"no receive, rnr_retry 6", TAKING, .no_receive = true, .rnr_retry = 6},
	{"peer in RESET", POSTED, .before = peer_resets},
	{"peer in INIT", POSTED, .before = peer_in_init},
	{"peer in ERR", POSTED, .before = peer_fails},
	{"peer connected to another", POSTED, .before = peer_with_another},
	{"peer destroyed", POSTED, .before = peer_destroyed},
	{"number of no queue pair", POSTED, .before = number_of_no_queue_pair},
	{CAUSE_NO_ADDRESS, POSTED, .before = address_of_no_member},
	{CAUSE_PSN, POSTED, .before = psn_that_differs},

	/* flushes */
	{"queue pair in ERR", POSTED | BIT(RECV), .before = fails},
	{"queue pair goes to ERR", POSTED | BIT(RECV), .before = peer_in_init, .after = fails,
	 .forever = 1},
	{CAUSE_FULL_QUEUE, POSTED},
	{CAUSE_SHARED_QUEUE, BIT(RECV)},

	/* several causes at once: which one is told shows the order of the checks */
	{"more than 2 GiB; lkey garbled", MESSAGES, GARBLED, .length = TOO_LONG},
	{"atomic of 4 bytes; lkey garbled", ATOMICS, GARBLED, .length = 4},
	{"atomic of 4 bytes; max_rd_atomic 0", ATOMICS, .length = 4, .no_reads = 1},
	{"max_rd_atomic 0; lkey garbled", READS, GARBLED, .no_reads = 1},
	{"max_rd_atomic 0; peer's max_dest_rd_atomic 0", READS, .no_reads = 3},
	{"lkey garbled; rkey garbled", ONE_SIDED, GARBLED, GARBLED},
	{"lkey garbled; peer without the right", ONE_SIDED, GARBLED, .no_right = true},
	{"lkey garbled; no receive", TAKING, GARBLED, .no_receive = true,
	 .rnr_retry = RIG_NO_RNR_RETRY},
	{"lkey garbled; longer than the receive", SENDS, GARBLED, .length = 65},
	{"lkey garbled; peer in RESET", POSTED, GARBLED, .before = peer_resets},
	{"lkey garbled; queue pair in ERR", POSTED, GARBLED, .before = fails},
	{"peer without the right; rkey garbled", ONE_SIDED, .there = GARBLED, .no_right = true},
	{"peer's max_dest_rd_atomic 0; rkey garbled", READS, .there = GARBLED, .no_reads = 2},
	{"peer without the right; no receive", BIT(WRITE_IMM), .no_right = true, .no_receive = true,
	 .rnr_retry = RIG_NO_RNR_RETRY},
	{"rkey garbled; no receive", BIT(WRITE_IMM), .there = GARBLED, .no_receive = true,
	 .rnr_retry = RIG_NO_RNR_RETRY},
	{"rkey garbled; unaligned by 4", ATOMICS, .there = GARBLED, .to = 4},
	{"rkey garbled; peer in RESET", ONE_SIDED, .there = GARBLED, .before = peer_resets},
	{"longer than the receive; its lkey garbled", SENDS, .receive = GARBLED, .length = 65},
	{"no receive; peer in RESET", TAKING, .no_receive = true, .rnr_retry = RIG_NO_RNR_RETRY,
	 .before = peer_resets},
};
const size_t ncauses = COUNT(causes);
