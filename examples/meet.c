/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "meet.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CARD_PORT 1
#define RIGHTS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "cannot %s\n", what);
	exit(1);
}

static int tcp_connection(const char *port, const char *server)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_family = AF_INET,
				 .ai_flags = server ? 0 : AI_PASSIVE};
	struct addrinfo *found;
	int listener, yes = 1, sock;

	must(!getaddrinfo(server, port, &hints, &found), "resolve the server's name");
	sock = socket(found->ai_family, found->ai_socktype, 0);
	must(sock >= 0, "make a socket");
	if (server) {
		must(!connect(sock, found->ai_addr, found->ai_addrlen), "connect to the server");
	} else {
		listener = sock;
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
		must(!bind(listener, found->ai_addr, found->ai_addrlen), "bind to the port");
		must(!listen(listener, 1), "listen");
		sock = accept(listener, NULL, NULL);
		must(sock >= 0, "accept a client");
		close(listener);
	}
	freeaddrinfo(found);
	return sock;
}

static void open_card(struct meeting *m)
{
	struct ibv_device **cards = ibv_get_device_list(NULL);

	must(cards && cards[0], "find an RDMA card");
	m->card = ibv_open_device(cards[0]);
	must(m->card, "open the card");
	ibv_free_device_list(cards);
}

static void make_queues(struct meeting *m, void *memory, size_t bytes)
{
	struct ibv_qp_init_attr queues = {.qp_type = IBV_QPT_RC,
					  .cap = {.max_send_wr = 16,
						  .max_recv_wr = 16,
						  .max_send_sge = 1,
						  .max_recv_sge = 1}};
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = CARD_PORT, .qp_access_flags = RIGHTS};

	m->domain = ibv_alloc_pd(m->card);
	must(m->domain, "allocate a protection domain");
	m->region = ibv_reg_mr(m->domain, memory, bytes, RIGHTS);
	must(m->region, "register memory");
	m->completions = ibv_create_cq(m->card, 32, NULL, NULL, 0);
	must(m->completions, "create a completion queue");
	queues.send_cq = queues.recv_cq = m->completions;
	m->queues = ibv_create_qp(m->domain, &queues);
	must(m->queues, "create a queue pair");
	must(!ibv_modify_qp(m->queues, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "move to INIT");
}

/* Both sides may be of different byte orders: numbers travel with their big end first. */
static void exchange_addresses(struct meeting *m, int gid_index)
{
	struct ibv_port_attr port;
	struct address out;

	must(!ibv_query_port(m->card, CARD_PORT, &port), "query the port");
	m->mine = (struct address){.qpn = m->queues->qp_num,
				   .lid = port.lid,
				   .rkey = m->region->rkey,
				   .memory = (uintptr_t)m->region->addr};
	must(!ibv_query_gid(m->card, CARD_PORT, gid_index, &m->mine.gid), "query the GID");
	out = (struct address){.qpn = htonl(m->mine.qpn),
			       .lid = htons(m->mine.lid),
			       .gid = m->mine.gid,
			       .rkey = htonl(m->mine.rkey),
			       .memory = htobe64(m->mine.memory)};
	must(write(m->tcp, &out, sizeof(out)) == sizeof(out), "tell my address");
	must(recv(m->tcp, &m->theirs, sizeof(out), MSG_WAITALL) == sizeof(out), "hear the other's");
	m->theirs.qpn = ntohl(m->theirs.qpn);
	m->theirs.lid = ntohs(m->theirs.lid);
	m->theirs.rkey = ntohl(m->theirs.rkey);
	m->theirs.memory = be64toh(m->theirs.memory);
}

static void connect_queues(struct meeting *m, int gid_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = m->theirs.qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .dlid = m->theirs.lid,
			    .port_num = CARD_PORT,
			    .grh = {.dgid = m->theirs.gid,
				    .sgid_index = (uint8_t)gid_index,
				    .hop_limit = 64}},
	};

	must(!ibv_modify_qp(m->queues, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "move to RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1};
	must(!ibv_modify_qp(m->queues, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "move to RTS");
}

void meet(struct meeting *m, int argc, char **argv, void *memory, size_t bytes)
{
	if (argc < 3 || argc > 4) {
		fprintf(stderr, "Usage: %s GID-INDEX PORT [SERVER]\n", argv[0]);
		exit(2);
	}
	*m = (struct meeting){.is_client = argc == 4};
	open_card(m);
	make_queues(m, memory, bytes);
	m->tcp = tcp_connection(argv[2], argv[3]);
	exchange_addresses(m, atoi(argv[1]));
	connect_queues(m, atoi(argv[1]));
	meet_again(m); /* the side that sends first must find the other connected */
}

void meet_again(struct meeting *m)
{
	char byte = 0;

	must(write(m->tcp, &byte, 1) == 1 && read(m->tcp, &byte, 1) == 1, "meet the other side");
}

void wait_for_completion(struct meeting *m)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(m->completions, 1, &wc)))
		;
	must(n > 0, "poll the completion queue");
	must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
}

void leave(struct meeting *m)
{
	must(!ibv_destroy_qp(m->queues), "destroy the queue pair");
	must(!ibv_destroy_cq(m->completions), "destroy the completion queue");
	must(!ibv_dereg_mr(m->region), "deregister the memory");
	must(!ibv_dealloc_pd(m->domain), "free the protection domain");
	must(!ibv_close_device(m->card), "close the card");
	close(m->tcp);
}
