/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Messages over a wire that loses some: `lossy INDEX [-t] [HOST]`, the GID's index, and where the other runs, which sends. First
 * over UC, SEND and WRITE in turn, then as datagrams. Each that comes is compared byte by byte; over UC it must come once, and
 * behind those before it. Says how many came, and of datagrams how many came twice, or behind a later one. With -t the wire is that of
 * lossy.h: every message of UC comes but those of which a packet was lost.
 */
#include "lossy.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "talk.h"

#define PORT	   "18521"
#define QKEY	   0x10557u
#define GRH	   40u
#define MTU	   1024u
#define MOST	   (LOSSY_PARTS * MTU)
#define COUNT	   200u /* messages */
#define IN_TURN	   (4 * LOSSY_PARTS)
#define CHUNK	   8u  /* messages that are under way at once */
#define DEPTH	   64u /* receives, and places of WRITEs */
#define SILENCE_MS 30
#define END_MS	   300
#define PATIENCE   30 /* seconds, where something must come */

struct name {
	uint8_t gid[16];
	uint32_t qpn[2], rkey;
	uint64_t addr;
};

enum service { UC, UD };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static struct name mine, peer;
static uint8_t gid_index;
static bool in_turn;
static struct {
	uint8_t landing[DEPTH][GRH + MOST], written[DEPTH][MOST], source[MOST];
} memory;

/* ---- Queue pairs ---- */

static void set_up(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	union ibv_gid gid;

	talk_need(devices && *devices, "devices");
	context = ibv_open_device(*devices);
	talk_need(context, "the device");
	ibv_free_device_list(devices);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, &memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	talk_need(pd && cq && mr && !ibv_query_gid(context, 1, gid_index, &gid), "objects");
	memcpy(mine.gid, gid.raw, 16);
	mine.rkey = mr->rkey;
	mine.addr = (uintptr_t)memory.written;
	for (enum service s = UC; s <= UD; s++) {
		struct ibv_qp_init_attr init = {.qp_type = s == UC ? IBV_QPT_UC : IBV_QPT_UD,
						.send_cq = cq,
						.recv_cq = cq,
						.cap = {CHUNK, DEPTH, 1, 1, 0},
						.sq_sig_all = 1};
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
					   .port_num = 1,
					   .qkey = QKEY,
					   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

		qp[s] = ibv_create_qp(pd, &init);
		talk_need(qp[s] && !ibv_modify_qp(
					   qp[s], &attr,
					   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						   (s == UC ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY)),
			  "a queue pair");
		mine.qpn[s] = qp[s]->qp_num;
	}
}

static void join(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer.qpn[UC],
		.rq_psn = LOSSY_PSN,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = gid_index, .hop_limit = 64}},
	};

	memcpy(attr.ah_attr.grh.dgid.raw, peer.gid, 16);
	talk_need(!ibv_modify_qp(qp[UC], &attr,
				 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					 IBV_QP_RQ_PSN) &&
			  !ibv_modify_qp(qp[UD], &attr, IBV_QP_STATE),
		  "to RTR");
	ah = ibv_create_ah(pd, &attr.ah_attr);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = LOSSY_PSN};
	talk_need(ah && !ibv_modify_qp(qp[UC], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) &&
			  !ibv_modify_qp(qp[UD], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN),
		  "to RTS");
}

/* ---- Messages ---- */

static uint8_t byte_at(uint32_t message, uint32_t i)
{
	return (uint8_t)(message * 31 + i * 7 + (i >> 8));
}

static uint32_t bytes_of(enum service s, uint32_t message)
{
	if (s == UC && in_turn)
		return MOST;
	return message * 997 % (s == UC ? 5 * MTU : MTU + 1);
}

static bool is_written(enum service s, uint32_t message)
{
	return s == UC && message / (in_turn ? 2 * LOSSY_PARTS : 2) % 2;
}

static uint32_t count_of(enum service s)
{
	return s == UC && in_turn ? IN_TURN : COUNT;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* The next completion, if one comes before. */
static bool poll_until(uint64_t until_ms, struct ibv_wc *wc)
{
	int n;

	while (!(n = ibv_poll_cq(cq, 1, wc)) && now_ms() < until_ms)
		usleep(20);
	talk_need(n >= 0, "polling");
	if (n)
		talk_need(wc->status == IBV_WC_SUCCESS, "a completion in error");
	return n;
}

static void send_one(enum service s, uint32_t message)
{
	struct ibv_sge sge = {(uintptr_t)memory.source, bytes_of(s, message), mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = is_written(s, message) ? IBV_WR_RDMA_WRITE_WITH_IMM
									: IBV_WR_SEND_WITH_IMM,
				       .imm_data = message};
	struct ibv_wc wc;

	if (s == UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = peer.qpn[UD];
		wr.wr.ud.remote_qkey = QKEY;
	} else {
		wr.wr.rdma.remote_addr = peer.addr + message % DEPTH * MOST;
		wr.wr.rdma.rkey = peer.rkey;
	}
	for (uint32_t i = 0; i < sge.length; i++)
		memory.source[i] = byte_at(message, i);
	talk_need(!ibv_post_send(qp[s], &wr, &bad), "a request");
	talk_need(poll_until(now_ms() + PATIENCE * 1000, &wc), "no completion");
}

static void give_receive(enum service s, uint32_t i)
{
	struct ibv_sge sge = {(uintptr_t)memory.landing[i], GRH + MOST, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

	talk_need(!ibv_post_recv(qp[s], &wr, &bad), "a receive");
}

/* ---- One side sends, the other counts ---- */

static void send_all(int fd, enum service s)
{
	uint32_t chunk = s == UC && in_turn ? 2 : CHUNK;
	char word;

	for (uint32_t i = 0; i < count_of(s);) {
		for (uint32_t end = i + chunk; i < end; i++)
			send_one(s, i);
		talk_put(fd, "c", 1);
		talk_get(fd, &word, 1);
	}
}

struct came {
	uint32_t all, twice, late;
	uint32_t next; /* behind the last of all */
	bool seen[COUNT];
};

static void count_one(struct came *came, enum service s, const struct ibv_wc *wc)
{
	uint32_t message = wc->imm_data, grh = s == UD ? GRH : 0, bytes;
	const uint8_t *at = is_written(s, message) ? memory.written[message % DEPTH]
						   : memory.landing[wc->wr_id] + grh;

	talk_need(wc->wc_flags & IBV_WC_WITH_IMM && message < count_of(s), "a message's number");
	bytes = bytes_of(s, message);
	talk_need(wc->byte_len == grh + bytes, "a length");
	for (uint32_t i = 0; i < bytes; i++)
		talk_need(at[i] == byte_at(message, i), "a byte");
	came->twice += came->seen[message];
	came->late += !came->seen[message] && message < came->next;
	talk_need(s == UD || message >= came->next, "a message comes twice, or behind a later one");
	came->all += !came->seen[message];
	came->seen[message] = true;
	if (message >= came->next)
		came->next = message + 1;
	give_receive(s, (uint32_t)wc->wr_id);
}

/* Until nothing has come for a while, or all has. */
static void count_some(struct came *came, enum service s, uint32_t all, int patience_ms)
{
	struct ibv_wc wc;

	while (came->all < all && poll_until(now_ms() + (uint64_t)patience_ms, &wc))
		count_one(came, s, &wc);
}

static void count_all(int fd, enum service s)
{
	uint32_t chunk = s == UC && in_turn ? 2 : CHUNK, before;
	struct came came = {0};
	char word;

	for (uint32_t i = 0; i < count_of(s); i += chunk) {
		talk_get(fd, &word, 1);
		before = came.all;
		if (s == UC && in_turn)
			count_some(&came, s, before + 1, PATIENCE * 1000);
		else
			count_some(&came, s, before + CHUNK, SILENCE_MS);
		talk_need(s == UD || !in_turn || came.next == i + 1, "a whole message is missing");
		talk_put(fd, "a", 1);
	}
	count_some(&came, s, UINT32_MAX, END_MS);
	printf("%s: %u of %u came, %u twice, %u late\n", s == UC ? "UC" : "UD", came.all,
	       count_of(s), came.twice, came.late);
}

int main(int argc, char **argv)
{
	const char *host;
	int option, fd;
	char word = 'r';

	while ((option = getopt(argc, argv, "t")) == 't')
		in_turn = true;
	if (option != -1 || optind == argc) {
		fprintf(stderr, "usage: lossy INDEX [-t] [HOST]\n");
		return 2;
	}
	gid_index = (uint8_t)atoi(argv[optind]);
	host = argv[optind + 1];
	set_up();
	fd = talk_open(host, PORT);
	talk_put(fd, &mine, sizeof(mine));
	talk_get(fd, &peer, sizeof(peer));
	join();
	for (enum service s = UC; s <= UD; s++) {
		for (uint32_t i = 0; i < DEPTH && !host; i++)
			give_receive(s, i);
		talk_put(fd, &word, 1);
		talk_get(fd, &word, 1);
		if (host)
			send_all(fd, s);
		else
			count_all(fd, s);
	}
	return 0;
}
