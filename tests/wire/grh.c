/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Datagrams there and back: `grh INDEX HOST` on one side, `grh INDEX` on the other; INDEX: of a GID. Each compares the 40 bytes
 * of header before what it gets with what the wire carried, and every byte behind; the answer goes to what
 * ibv_create_ah_from_wc makes of the header.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "talk.h"

#define PORT	 "18516"
#define QKEY	 0x1234567
#define GRH	 40u
#define MOST	 1024u
#define TRAFFIC	 0x24 /* a class of service; the two bits of ECN are the wire's */
#define PATIENCE 30   /* seconds */
#define IMM	 0x01020304
#define UDP	 17
/* Of UDP, BTH, DETH and ICRC. */
#define AROUND (8u + 12u + 8u + 4u)

struct name {
	uint8_t gid[16];
	uint32_t qpn;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint8_t memory[2][GRH + MOST]; /* sent, taken */
static struct name mine, peer;
static uint8_t gid_index;

static void set_up(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD, .cap = {4, 4, 1, 1, 0}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	union ibv_gid gid;

	talk_need(devices && *devices, "devices");
	context = ibv_open_device(*devices);
	talk_need(context, "the device");
	ibv_free_device_list(devices);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	talk_need(pd && cq && mr, "objects");
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(pd, &init);
	talk_need(qp && !ibv_query_gid(context, 1, gid_index, &gid), "a queue pair");
	talk_need(!ibv_modify_qp(qp, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		  "to INIT");
	attr.qp_state = IBV_QPS_RTR;
	talk_need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "to RTR");
	attr.qp_state = IBV_QPS_RTS;
	talk_need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
	memcpy(mine.gid, gid.raw, 16);
	mine.qpn = qp->qp_num;
}

/* ---- What must stand before the bytes ---- */

static void wrong(const char *what, const uint8_t grh[GRH])
{
	fprintf(stderr, "wrong: %s:", what);
	for (uint32_t i = 0; i < GRH; i++)
		fprintf(stderr, " %02x", grh[i]);
	fprintf(stderr, "\n");
	exit(1);
}

static uint32_t get16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static void check_four(const uint8_t grh[GRH], uint32_t bytes)
{
	static const uint8_t zero[20];
	const uint8_t *ip = grh + 20;
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += get16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	if (memcmp(grh, zero, 20))
		wrong("bytes before IPv4's header", grh);
	if (ip[0] != 0x45 || ip[1] != TRAFFIC || get16(ip + 2) != 20 + bytes)
		wrong("version, class or length", grh);
	if (ip[8] != 64 || ip[9] != UDP || sum != 0xffff)
		wrong("time to live, protocol or checksum", grh);
	if (memcmp(ip + 12, peer.gid + 12, 4) || memcmp(ip + 16, mine.gid + 12, 4))
		wrong("addresses", grh);
}

static void check_six(const uint8_t grh[GRH], uint32_t bytes)
{
	if (grh[0] >> 4 != 6 || (get16(grh) >> 4 & 0xff) != TRAFFIC || get16(grh + 4) != bytes)
		wrong("version, class or length", grh);
	if (grh[6] != UDP || grh[7] != 64)
		wrong("next header or hop limit", grh);
	if (memcmp(grh + 8, peer.gid, 16) || memcmp(grh + 24, mine.gid, 16))
		wrong("addresses", grh);
}

static void check_grh(const uint8_t grh[GRH], uint32_t payload, bool imm)
{
	uint32_t bytes = AROUND + (payload + 3) / 4 * 4 + (imm ? 4 : 0);

	if (!memcmp(mine.gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12))
		check_four(grh, bytes);
	else
		check_six(grh, bytes);
}

/* ---- One ---- */

static uint8_t byte_of(uint32_t length, uint32_t i)
{
	return (uint8_t)(length * 7 + i * 13 + 1);
}

static void give_receive(void)
{
	struct ibv_sge sge = {(uintptr_t)memory[1], GRH + MOST, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	memset(memory[1], 0xee, sizeof(memory[1]));
	talk_need(!ibv_post_recv(qp, &wr, &bad), "a receive");
}

/* The next completion, of a receive or of a send; one of the other sort that comes first is kept. */
static struct ibv_wc await(bool receive)
{
	static struct ibv_wc kept[2];
	static bool is_kept[2];
	time_t end = time(NULL) + PATIENCE;
	struct ibv_wc wc;

	while (!is_kept[receive] && time(NULL) < end) {
		if (ibv_poll_cq(cq, 1, &wc) <= 0)
			continue;
		if (wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "a completion: %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
		kept[wc.opcode == IBV_WC_RECV] = wc;
		is_kept[wc.opcode == IBV_WC_RECV] = true;
	}
	talk_need(is_kept[receive], receive ? "no datagram comes" : "no completion");
	is_kept[receive] = false;
	return kept[receive];
}

static void send_to(struct ibv_ah *ah, uint32_t length, bool imm)
{
	struct ibv_sge sge = {(uintptr_t)memory[0], length, mr->lkey};
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
		      .num_sge = 1,
		      .opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
		      .send_flags = IBV_SEND_SIGNALED,
		      .imm_data = IMM,
		      .wr.ud = {.ah = ah, .remote_qpn = peer.qpn, .remote_qkey = QKEY}};

	for (uint32_t i = 0; i < length; i++)
		memory[0][i] = byte_of(length, i);
	talk_need(!ibv_post_send(qp, &wr, &bad), "a request");
	await(false);
}

/* The address handle for an answer. */
static struct ibv_ah *take(uint32_t length, bool imm)
{
	struct ibv_wc wc = await(true);
	struct ibv_grh grh;

	if (wc.byte_len != GRH + length || wc.src_qp != peer.qpn || !(wc.wc_flags & IBV_WC_GRH) ||
	    !(wc.wc_flags & IBV_WC_WITH_IMM) == imm || (imm && wc.imm_data != IMM))
		wrong("the completion", memory[1]);
	check_grh(memory[1], length, imm);
	for (uint32_t i = 0; i < MOST; i++)
		if (memory[1][GRH + i] != (i < length ? byte_of(length, i) : 0xee))
			wrong("a byte behind the header", memory[1]);
	memcpy(&grh, memory[1], sizeof(grh));
	return ibv_create_ah_from_wc(pd, &wc, &grh, 1);
}

static struct ibv_ah *make_ah(void)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.sgid_index = gid_index,
			.hop_limit =
				77, /* is not sent: the host's route has the hop limit of packets */
			.traffic_class = TRAFFIC}};

	memcpy(attr.grh.dgid.raw, peer.gid, 16);
	return ibv_create_ah(pd, &attr);
}

int main(int argc, char **argv)
{
	static const uint32_t lengths[] = {0, 1, 2, 3, 4, 7, 255, 1000, MOST};
	uint32_t times = 0;
	char word = 'r';
	bool asks = argc > 2;
	struct ibv_ah *first, *back;
	int fd;

	if (argc < 2)
		return 2;
	gid_index = (uint8_t)atoi(argv[1]);
	set_up();
	fd = talk_open(asks ? argv[2] : NULL, PORT);
	talk_put(fd, &mine, sizeof(mine));
	talk_get(fd, &peer, sizeof(peer));
	/* which starts a card: a program that only listens does not start it */
	first = make_ah();
	talk_need(first, "the address handle");
	for (uint32_t i = 0; i < 2 * sizeof(lengths) / sizeof(*lengths); i++) {
		uint32_t length = lengths[i / 2];

		give_receive();
		talk_put(fd, &word, 1);
		talk_get(fd, &word, 1);
		if (asks)
			send_to(first, length, i & 1);
		back = take(length, i & 1);
		talk_need(back, "an address handle of what has come");
		if (!asks)
			send_to(back, length, i & 1);
		talk_need(!ibv_destroy_ah(back), "destroying it");
		times++;
	}
	ibv_destroy_ah(first);
	printf("%u datagrams there and back\n", times);
	return 0;
}
