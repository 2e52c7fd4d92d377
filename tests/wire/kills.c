/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Traffic both ways, over one connection after the other, each until it ends in error: `kills INDEX [HOST]`, the GID's index, and
 * where the other runs. A message is a WRITE and a SEND behind it; the receiver compares each byte of both. Says "running"
 * once a connection has traffic, and, as it has ended, the status of the oldest request that failed, "fatal" if the event of a
 * dead card came, and when all that was heard (ns). Nothing ends by the word of the other program: that may be dead. $PATIENCE: how
 * long a connection lasts at most (s); $ENOUGH: after how many messages each way it runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "talk.h"

#define PORT "18519"
#define SLOTS                                                                                      \
	16u /* of bytes that are written; more than messages that may come before they are looked at */
#define RECEIVES  8u
#define BYTES	  6000u
#define DEPTH	  8u /* messages */
#define ENOUGH	  "20"
#define PATIENCE  "30" /* seconds */
#define SILENT_MS 2000
#define EVENT_MS  100 /* from the last completion */

struct name {
	uint8_t gid[16];
	uint32_t qpn, rkey;
	uint64_t addr;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct name mine, peer;
static uint8_t gid_index;
static struct {
	uint8_t written[SLOTS][BYTES], landing[RECEIVES][BYTES], source[SLOTS][2][BYTES];
} memory;
/* Of this connection: messages, requests, receives. */
static uint64_t told, heard, posted, ended, given, taken;
static enum ibv_wc_status first;

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "wrong, message %llu: %s: %s\n", (unsigned long long)heard, what,
		strerror(errno));
	exit(1);
}

static uint8_t byte_at(uint64_t message, bool of_write, uint32_t i)
{
	return (uint8_t)(message * 31 + i * 7 + (i >> 8) + of_write);
}

static void give_receive(void)
{
	struct ibv_sge sge = {(uintptr_t)memory.landing[given % RECEIVES], BYTES, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = UINT64_MAX, .sg_list = &sge, .num_sge = 1};

	need(!ibv_post_recv(qp, &wr, &bad), "a receive");
	given++;
}

static void open_device(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	context = devices && *devices ? ibv_open_device(*devices) : NULL;
	need(context, "a device");
	ibv_free_device_list(devices);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, &memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	need(pd && cq && mr, "objects");
	fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
}

static void set_up(void)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.send_cq = cq,
					.recv_cq = cq,
					.cap = {2 * DEPTH, RECEIVES, 1, 1, 0},
					.sq_sig_all = 1};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	union ibv_gid gid;

	qp = ibv_create_qp(pd, &init);
	need(qp && !ibv_query_gid(context, 1, gid_index, &gid), "a queue pair");
	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "to INIT");
	told = heard = posted = ended = given = taken = 0;
	first = IBV_WC_SUCCESS;
	while (given < RECEIVES)
		give_receive();
	memcpy(mine.gid, gid.raw, 16);
	mine.qpn = qp->qp_num;
	mine.rkey = mr->rkey;
	mine.addr = (uintptr_t)memory.written;
}

static void join(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer.qpn,
		.rq_psn = 0xfffffe,
		.min_rnr_timer = 4,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = gid_index, .hop_limit = 64}},
	};

	memcpy(attr.ah_attr.grh.dgid.raw, peer.gid, 16);
	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "to RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .sq_psn = 0xfffffe,
				    .timeout = 15,
				    .retry_cnt = 3,
				    .rnr_retry = 7};
	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
	     "to RTS");
}

static void post(enum ibv_wr_opcode opcode, uint8_t *from, uint64_t to)
{
	struct ibv_sge sge = {(uintptr_t)from, BYTES, mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = posted,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .wr.rdma = {to, peer.rkey}};

	need(!ibv_post_send(qp, &wr, &bad), "a request");
	posted++;
}

static void tell(void)
{
	uint8_t(*source)[BYTES] = memory.source[told % SLOTS];

	for (uint32_t i = 0; i < BYTES; i++) {
		source[0][i] = byte_at(told, true, i);
		source[1][i] = byte_at(told, false, i);
	}
	post(IBV_WR_RDMA_WRITE, source[0], peer.addr + told % SLOTS * BYTES);
	post(IBV_WR_SEND, source[1], 0);
	told++;
}

static void hear(void)
{
	const uint8_t *written = memory.written[heard % SLOTS],
		      *landed = memory.landing[heard % RECEIVES];

	for (uint32_t i = 0; i < BYTES; i++)
		need(written[i] == byte_at(heard, true, i) && landed[i] == byte_at(heard, false, i),
		     "a byte");
	heard++;
}

/* In order, each once: successes, then at most one that failed, then what is flushed. */
static void end_request(const struct ibv_wc *wc)
{
	need(wc->wr_id == ended++, "a request completes twice, or not in its turn");
	if (!first)
		first = wc->status;
	else
		need(wc->status == IBV_WC_WR_FLUSH_ERR, "not flushed behind one that failed");
}

static void end_receive(const struct ibv_wc *wc)
{
	taken++;
	if (wc->status == IBV_WC_SUCCESS) {
		need(wc->byte_len == BYTES, "a length");
		hear();
		if (!first)
			give_receive();
	} else {
		need(wc->status == IBV_WC_WR_FLUSH_ERR, "a receive in error");
	}
}

/* Whether all that was posted has ended, in error. */
static bool is_over(void)
{
	return first && ended == posted && taken == given;
}

static uint64_t setting(const char *name, const char *usual)
{
	const char *said = getenv(name);

	return strtoull(said ? said : usual, NULL, 10);
}

static void play(void)
{
	time_t end = time(NULL) + (time_t)setting("PATIENCE", PATIENCE);
	uint64_t enough = setting("ENOUGH", ENOUGH);
	bool says = true;
	struct ibv_wc wc;
	int n;

	while (!is_over()) {
		need(time(NULL) < end, "the connection does not end");
		while (!first && told - ended / 2 < DEPTH)
			tell();
		n = ibv_poll_cq(cq, 1, &wc);
		need(n >= 0, "polling");
		if (!n)
			usleep(100);
		else if (wc.wr_id == UINT64_MAX) /* in error a completion has no opcode */
			end_receive(&wc);
		else
			end_request(&wc);
		if (says && heard > enough && ended > enough) {
			printf("running\n");
			says = false;
		}
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool fatal_came(void)
{
	struct pollfd fd = {context->async_fd, POLLIN, 0};
	struct ibv_async_event event;
	bool fatal = false;

	while (!fatal && poll(&fd, 1, EVENT_MS) > 0 && !ibv_get_async_event(context, &event)) {
		fatal = event.event_type == IBV_EVENT_QP_FATAL;
		ibv_ack_async_event(&event);
	}
	return fatal;
}

/* What was heard of the connection's end, and when. */
static void say_what_came(void)
{
	uint64_t over_ns = now_ns();
	bool fatal = fatal_came();

	printf("%s%s at %llu\n", ibv_wc_status_str(first), fatal ? ", fatal" : "",
	       (unsigned long long)(fatal ? now_ns() : over_ns));
}

/* False: the other program has died, or been started again, before it was ready. */
static bool meet(int fd)
{
	char ready = 'r';

	if (!talk_swap(fd, &mine, &peer, sizeof(mine)))
		return false;
	join();
	return talk_swap(fd, &ready, &ready, 1);
}

static void run_one(const char *host)
{
	int fd;

	set_up();
	fd = talk_open(host, PORT);
	/* else a host that was paused hears what was repeated to it ever more seldom as late again */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &(int){SILENT_MS}, sizeof(int));
	if (meet(fd)) {
		play();
		say_what_came();
	}
	close(fd);
	need(!ibv_destroy_qp(qp), "to destroy");
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: kills INDEX [HOST]\n");
		return 2;
	}
	gid_index = (uint8_t)atoi(argv[1]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_device();
	for (;;)
		run_one(argv[2]);
}
