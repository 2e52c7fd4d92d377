/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One message, and what became of it: `choice SERVICE INDEX MTU WHERE`. SERVICE: rc, uc, ud, or key, which is ud with an L_Key that is
 * none; INDEX: of the GID it is sent from; MTU: of the path, or bytes of a datagram. WHERE: `listen`; a host on which one listens; or a GID at which none does. Says
 * "refused", or the status of the request; and, of what listens, "arrived". A GID may be a group's, to which `+GID` listens: says
 * "listens", and "arrived" of each datagram, until it is killed. With FULL in the environment it has no free descriptor as it chooses.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "talk.h"

#define PORT	  "18517"
#define MOST	  4200u
#define GRH	  40u
#define QKEY	  0x1ee7u
#define MULTICAST 0xffffffu

struct name {
	uint8_t gid[16];
	uint32_t qpn;
};

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static uint8_t memory[GRH + MOST];
static enum ibv_qp_type service;
static uint8_t gid_index;
static uint32_t mtu, wrong_key; /* what is added to the key */
static time_t patience = 20;	/* seconds */

static void set_up(struct name *mine)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_qp_init_attr init = {.qp_type = service, .cap = {4, 4, 1, 1, 0}};
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
	talk_need(
		!ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       (service == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
		"to INIT");
	memcpy(mine->gid, gid.raw, 16);
	mine->qpn = qp->qp_num;
}

static struct ibv_ah_attr path_to(const struct name *peer)
{
	struct ibv_ah_attr path = {
		.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .hop_limit = 64}};

	memcpy(path.grh.dgid.raw, peer->gid, 16);
	return path;
}

/* 0, or what refuses the peer. */
static int choose(const struct name *peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = (enum ibv_mtu)(ffs((int)mtu) - 8),
				   .dest_qp_num = peer->qpn,
				   .min_rnr_timer = 8,
				   .ah_attr = path_to(peer)};
	int mask = IBV_QP_STATE, refused;

	if (service != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (service == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	refused = ibv_modify_qp(qp, &attr, mask);
	if (refused || service != IBV_QPT_UD)
		return refused;
	ah = ibv_create_ah(pd, &attr.ah_attr);
	return ah ? 0 : errno;
}

static void to_rts(bool alone)
{
	/* where no host is, that is soon found; else what answers late is not */
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
				   .timeout = alone ? 14 : 20,
				   .retry_cnt = alone ? 1 : 7,
				   .rnr_retry = 7};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (service == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	talk_need(!ibv_modify_qp(qp, &attr, mask), "to RTS");
}

static struct ibv_wc await(void)
{
	time_t end = time(NULL) + patience;
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) <= 0)
		talk_need(time(NULL) < end, "no completion");
	return wc;
}

static void send_one(const struct name *peer)
{
	struct ibv_sge sge = {(uintptr_t)memory, service == IBV_QPT_UD ? mtu : MOST,
			      mr->lkey + wrong_key};
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
		      .num_sge = 1,
		      .opcode = IBV_WR_SEND,
		      .send_flags = IBV_SEND_SIGNALED,
		      .wr.ud = {.ah = ah, .remote_qpn = peer->qpn, .remote_qkey = QKEY}};

	for (uint32_t i = 0; i < sge.length; i++)
		memory[i] = (uint8_t)(i * 7 + 1);
	talk_need(!ibv_post_send(qp, &wr, &bad), "a request");
}

static void listen_for_one(void)
{
	uint32_t grh = service == IBV_QPT_UD ? GRH : 0;
	struct ibv_wc wc = await();
	uint32_t bytes = wc.byte_len - grh;

	talk_need(wc.status == IBV_WC_SUCCESS && bytes <= MOST, "the receive");
	for (uint32_t i = 0; i < bytes; i++)
		talk_need(memory[grh + i] == (uint8_t)(i * 7 + 1), "a byte");
	printf("arrived\n");
}

/* The other side says whether one is under way, and hears when it is there. */
static void hear_of_one(int fd)
{
	char sent;

	talk_get(fd, &sent, 1);
	if (sent != 's')
		return;
	listen_for_one();
	talk_put(fd, "a", 1);
}

/* Where there is no other side, it tells how long that took, too. */
static void tell_of_one(int fd, const struct name *peer)
{
	struct timespec begun, ended;
	enum ibv_wc_status status;
	char word;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	send_one(peer);
	status = await().status;
	clock_gettime(CLOCK_MONOTONIC, &ended);
	printf("%s\n", ibv_wc_status_str(status));
	if (fd < 0) {
		fprintf(stderr, "after %ld us\n",
			(ended.tv_sec - begun.tv_sec) * 1000000 +
				(ended.tv_nsec - begun.tv_nsec) / 1000);
		return;
	}
	talk_put(fd, status == IBV_WC_SUCCESS ? "s" : "f", 1);
	if (status == IBV_WC_SUCCESS)
		talk_get(fd, &word, 1);
}

static void give_receive(void)
{
	struct ibv_sge sge = {(uintptr_t)memory, sizeof(memory), mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	talk_need(!ibv_post_recv(qp, &wr, &bad), "a receive");
}

/* Of both sides: once each has chosen. Whether a message comes. */
static bool agree(int fd, bool chosen)
{
	char word = chosen ? 'c' : 'x', heard;

	talk_put(fd, &word, 1);
	talk_get(fd, &heard, 1);
	return chosen && heard == 'c';
}

/* Of IPv4 or IPv6. */
static bool is_group(const char *where)
{
	return !strncmp(where, "ff", 2) || !strncmp(where, "::ffff:239.", 11);
}

static void listen_to_group(const char *where)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	union ibv_gid group;

	talk_need(inet_pton(AF_INET6, where, group.raw) == 1, "the GID");
	talk_need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE) && !ibv_attach_mcast(qp, &group, 0),
		  "to listen");
	setvbuf(stdout, NULL, _IOLBF, 0);
	give_receive();
	give_receive();
	printf("listens\n");
	for (patience = 3600;; give_receive())
		listen_for_one();
}

static void play(const struct name *mine, const char *where)
{
	bool alone = strchr(where, ':'), listens = !strcmp(where, "listen");
	struct name peer = {.qpn = is_group(where) ? MULTICAST : mine->qpn ^ 0x1000};
	int fd = alone ? -1 : talk_open(listens ? NULL : where, PORT), refused, last = -1, more;

	if (alone) {
		talk_need(inet_pton(AF_INET6, where, peer.gid) == 1, "the GID");
	} else {
		talk_put(fd, mine, sizeof(*mine));
		talk_get(fd, &peer, sizeof(peer));
	}
	if (listens)
		give_receive();
	while (getenv("FULL") && (more = open("/dev/null", O_RDONLY)) >= 0)
		last = more;
	refused = choose(&peer);
	close(last);
	if (refused)
		printf("refused: %s\n", refused == EINVAL ? "EINVAL" : strerror(refused));
	else
		to_rts(alone);
	if (alone ? refused : !agree(fd, !refused))
		return;
	if (listens)
		hear_of_one(fd);
	else
		tell_of_one(fd, &peer);
}

int main(int argc, char **argv)
{
	struct name mine;

	if (argc != 5) {
		fprintf(stderr, "usage: choice rc|uc|ud|key INDEX MTU listen|HOST|[+]GID\n");
		return 2;
	}
	service = !strcmp(argv[1], "rc")   ? IBV_QPT_RC
		  : !strcmp(argv[1], "uc") ? IBV_QPT_UC
					   : IBV_QPT_UD;
	wrong_key = strcmp(argv[1], "key") ? 0 : 256;
	gid_index = (uint8_t)atoi(argv[2]);
	mtu = (uint32_t)atoi(argv[3]);
	set_up(&mine);
	if (argv[4][0] == '+')
		listen_to_group(argv[4] + 1);
	play(&mine, argv[4]);
	return 0;
}
