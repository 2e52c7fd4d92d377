/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What one of two kernels may see of what the other stores: `lab-order WHAT ROUNDS [HOST]`, the owner of the memory, and
 * the writer, which is told where the owner listens.
 *
 * revoke: in each round the owner registers memory, the writer writes into it until it is refused, and the owner revokes at a
 *   random moment: by deregistering, or by taking the queue pair to ERR or RESET. From then on no byte changes.
 * last: WRITEs of one number in all words. The owner, which polls the last one, finds no older number before it.
 * completion: the same with immediate data. Once the receive has completed all words have that number.
 *
 * Says what was seen, and ends with 1 where something was wrong.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../wire/talk.h"

#define PORT	     "18531"
#define GID_INDEX    1
#define BYTES	     8192u
#define WORDS	     (BYTES / sizeof(uint64_t))
#define GUARD	     0xa5a5a5a5a5a5a5a5ull
#define DEPTH	     16
#define MOST_SPINS   40000u
#define WATCHES	     20u
#define PATIENCE_S   60
#define FIRST_NUMBER 1u

enum how { DEREG, TO_ERR, TO_RESET, HOWS };

/* What each tells the other. */
struct name {
	uint8_t gid[16];
	uint32_t qpn, rkey;
	uint64_t addr;
};

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static volatile uint64_t *memory;
static union ibv_gid gid;
static uint32_t chance = 1;
static unsigned long wrong;
static int fd;
static bool patient = true;

static uint32_t draw(uint32_t below)
{
	chance = chance * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)chance * below) >> 32);
}

static void spin(uint32_t turns)
{
	for (volatile uint32_t i = 0; i < turns; i++)
		;
}

static void set_up(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && *devices ? ibv_open_device(*devices) : NULL;

	pd = context ? ibv_alloc_pd(context) : NULL;
	talk_need(pd, "a device");
	cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	talk_need(cq && memory != MAP_FAILED && !ibv_query_gid(context, 1, GID_INDEX, &gid),
		  "objects");
}

static void register_memory(void)
{
	mr = ibv_reg_mr(pd, (void *)memory, BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	talk_need(mr, "a region");
}

static void make_qp(void)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.send_cq = cq,
					.recv_cq = cq,
					.cap = {DEPTH, DEPTH, 1, 1, 0},
					.sq_sig_all = 1};

	qp = ibv_create_qp(pd, &init);
	talk_need(qp, "a queue pair");
}

static void change(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	talk_need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "a change of state");
}

static void connect_to(const struct name *peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	talk_need(!ibv_modify_qp(qp, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					 IBV_QP_ACCESS_FLAGS),
		  "to INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = GID_INDEX, .hop_limit = 64}},
	};
	memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, 16);
	talk_need(!ibv_modify_qp(qp, &attr,
				 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					 IBV_QP_MIN_RNR_TIMER),
		  "to RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = patient ? 18 : 8,
				    .retry_cnt = patient ? 7 : 1,
				    .rnr_retry = 7};
	talk_need(!ibv_modify_qp(qp, &attr,
				 IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
		  "to RTS");
}

/* Of the round: both connect, and the writer knows where to write. */
static struct name meet(void)
{
	struct name mine = {.qpn = qp->qp_num, .rkey = mr->rkey, .addr = (uintptr_t)memory}, peer;
	char ready = 'r';

	memcpy(mine.gid, gid.raw, 16);
	talk_need(talk_swap(fd, &mine, &peer, sizeof(mine)), "the peer");
	connect_to(&peer);
	talk_need(talk_swap(fd, &ready, &ready, 1), "the peer");
	return peer;
}

static void fill(uint64_t number)
{
	for (size_t i = 0; i < WORDS; i++)
		memory[i] = number;
}

static int post_write(const struct name *to, uint64_t number, uint32_t bytes,
		      enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {(uintptr_t)memory, bytes, mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = number,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .imm_data = (uint32_t)number,
				       .wr = {.rdma = {to->addr, to->rkey}}};

	fill(number);
	return ibv_post_send(qp, &wr, &bad);
}

static enum ibv_wc_status next_status(uint32_t *imm)
{
	time_t end = time(NULL) + PATIENCE_S;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		talk_need(time(NULL) < end, "a completion");
	talk_need(n == 1, "ibv_poll_cq");
	*imm = wc.imm_data;
	return wc.status;
}

static void drain(void)
{
	struct ibv_wc wc[DEPTH];

	while (ibv_poll_cq(cq, DEPTH, wc) > 0)
		;
}

/* Whether there is to be another: both end when something was wrong. */
static bool end_round(void)
{
	char good = !wrong, peers;

	talk_need(talk_swap(fd, &good, &peers, 1), "the peer");
	return good && peers;
}

/* ---- revoke ---- */

static void take_away(enum how how)
{
	switch (how) {
	case DEREG:
		talk_need(!ibv_dereg_mr(mr), "deregistering");
		mr = NULL;
		break;
	case TO_ERR:
		change(IBV_QPS_ERR);
		break;
	case TO_RESET:
		change(IBV_QPS_RESET);
		break;
	case HOWS:
		break;
	}
}

/* Whether a word is not the owner's; they are looked at for a while. */
static bool is_changed(void)
{
	for (uint32_t watch = 0; watch < WATCHES; watch++) {
		for (size_t i = 0; i < WORDS; i++)
			if (memory[i] != GUARD)
				return true;
		spin(draw(2000));
	}
	return false;
}

static void own_revoked(unsigned long rounds)
{
	static const char *const names[HOWS] = {"deregistered", "to ERR", "to RESET"};
	unsigned long written = 0, round = 0;

	/* for its sake the pages stay where a late store would be seen */
	talk_need(ibv_reg_mr(pd, (void *)memory, BYTES, IBV_ACCESS_LOCAL_WRITE), "a region");

	for (; round < rounds && !wrong; round++) {
		enum how how = (enum how)(round % HOWS);
		bool changed;

		memory[0] = 0;
		register_memory();
		make_qp();
		meet();
		/* half of the time at any moment, as before the writer's first store; else amid them */
		for (uint32_t tries = draw(2) ? 50000000 : 0; tries && !memory[0]; tries--)
			;
		spin(draw(MOST_SPINS));
		take_away(how);
		written += memory[0] != 0;
		fill(GUARD);
		changed = is_changed();
		end_round();
		if (changed || is_changed()) {
			wrong++;
			printf("round %lu, %s: a store after it was revoked\n", round, names[how]);
		}
		end_round();
		talk_need(!ibv_destroy_qp(qp) && (!mr || !ibv_dereg_mr(mr)), "the end of a round");
		drain();
	}
	printf("%lu rounds, in %lu the writer had begun, %lu wrong\n", round, written, wrong);
}

static void write_until_refused(unsigned long rounds)
{
	unsigned long writes = 0, round = 0;
	bool goes_on = true;

	for (; round < rounds && goes_on; round++) {
		struct name owner;
		uint32_t imm;

		register_memory();
		make_qp();
		owner = meet();
		for (uint64_t number = FIRST_NUMBER;; number++, writes++)
			if (post_write(&owner, number, BYTES, IBV_WR_RDMA_WRITE) ||
			    next_status(&imm) != IBV_WC_SUCCESS)
				break;
		end_round();
		goes_on = end_round();
		talk_need(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr), "the end of a round");
		drain();
	}
	printf("%lu rounds, %lu writes\n", round, writes);
}

/* ---- last, completion ---- */

static void give_receive(void)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = 0};

	talk_need(!ibv_post_recv(qp, &wr, &bad), "a receive");
}

static uint32_t words_of(uint64_t number)
{
	return (uint32_t)(number * 37 % WORDS) + 1;
}

static void look(uint64_t number, uint32_t words)
{
	for (uint32_t i = words; i--;)
		if (memory[i] < number) {
			wrong++;
			printf("number %lu of %u words: word %u is older\n", (unsigned long)number,
			       words, i);
			return;
		}
}

/* The writer goes on when this number was looked at. */
static void own_ordered(unsigned long rounds, bool completes)
{
	register_memory();
	make_qp();
	meet();
	for (uint64_t number = FIRST_NUMBER; number < FIRST_NUMBER + rounds; number++) {
		const uint32_t words = words_of(number);
		time_t end = time(NULL) + PATIENCE_S;
		uint32_t imm = 0;

		if (completes) {
			give_receive();
			talk_put(fd, "g", 1);
			talk_need(next_status(&imm) == IBV_WC_SUCCESS, "a receive");
			wrong += imm != (uint32_t)number;
		} else {
			talk_put(fd, "g", 1);
			while (memory[words - 1] < number)
				talk_need(time(NULL) < end, "a write");
		}
		look(number, words);
	}
	printf("%lu rounds, %lu wrong\n", rounds, wrong);
	end_round();
}

static void write_ordered(unsigned long rounds, bool completes)
{
	struct name owner;
	uint32_t imm;
	char go;

	register_memory();
	make_qp();
	owner = meet();
	for (uint64_t number = FIRST_NUMBER; number < FIRST_NUMBER + rounds; number++) {
		talk_get(fd, &go, 1);
		talk_need(!post_write(&owner, number, words_of(number) * 8,
				      completes ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE) &&
				  next_status(&imm) == IBV_WC_SUCCESS,
			  "a write");
	}
	end_round();
}

int main(int argc, char **argv)
{
	bool writes = argc > 3, completes;
	unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

	if (!rounds) {
		fprintf(stderr, "usage: lab-order revoke|last|completion ROUNDS [HOST]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	set_up();
	fd = talk_open(writes ? argv[3] : NULL, PORT);
	completes = !strcmp(argv[1], "completion");
	/* an owner that has gone to RESET answers nothing */
	patient = strcmp(argv[1], "revoke") != 0;
	if (!patient)
		(writes ? write_until_refused : own_revoked)(rounds);
	else
		(writes ? write_ordered : own_ordered)(rounds, completes);
	return wrong != 0;
}
