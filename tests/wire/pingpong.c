/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The engine in the place of ibv_{rc,uc,ud}_pingpong -c, towards the same program elsewhere: it
 *speaks their exchange of a line of text over TCP, and compares every byte that comes.
 *
 *	wire-pingpong rc|uc|ud ADDRESS [-i INTERFACE] [-m MTU] [-n TIMES] [-s BYTES] [HOST]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lan.h"
#include "pool/address.h"
#include "talk.h"

#define PORT	    "18515"
#define LINE	    sizeof("0000:000000:000000:00000000000000000000000000000000")
#define QKEY	    0x11111111u /* theirs */
#define DEPTH	    16u
#define PATIENCE_NS 60000000000ull

struct game {
	struct lan lan;
	struct lan_qp *q;
	enum weft_roce_service service;
	const char *host, *interface;
	uint32_t mtu, times, size;
	uint8_t *bytes; /* what is sent, and after it what comes */
	uint32_t sent, received;
};

static _Noreturn void wrong(const char *what)
{
	fprintf(stderr, "wrong: %s\n", what);
	exit(1);
}

/* What their option -c has in a message. */
static uint8_t filling(uint32_t at)
{
	return at % 4096 ? 0x7b : 0;
}

static uint32_t head_of(const struct game *g)
{
	return g->service == WEFT_ROCE_UD ? WEFT_ROCE_GRH_BYTES : 0;
}

static uint8_t *slot(const struct game *g, uint64_t i)
{
	return g->bytes + g->size + (i % DEPTH) * (g->size + WEFT_ROCE_GRH_BYTES);
}

/* ---- The two ends, and which is which ---- */

static void tell(int fd, const struct weft_roce_config *c, const uint8_t gid[16])
{
	char line[LINE];
	int n = snprintf(line, sizeof(line), "%04x:%06x:%06x:", 0, c->qpn, c->sq_psn);

	for (int i = 0; i < 16; i++)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "%02x", gid[i]);
	talk_put(fd, line, sizeof(line));
}

static void hear(int fd, struct weft_roce_config *c)
{
	char line[LINE], gid[33];

	talk_get(fd, line, sizeof(line));
	if (sscanf(line, "%*x:%x:%x:%32s", &c->dest_qpn, &c->rq_psn, gid) != 3)
		wrong("what the peer says of itself");
	for (int i = 0; i < 16; i++)
		sscanf(gid + 2 * i, "%2hhx", &c->route.dst[i]);
}

static void meet(struct game *g)
{
	struct weft_roce_config c = {
		.service = g->service,
		.qpn = 0x4242,
		.pkey = 0xffff,
		.qkey = QKEY,
		.mtu = g->mtu,
		.sq_psn = 0xfffffd,
		.timeout = 17,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 12,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
	};
	int fd = talk_open(g->host, PORT);
	char done[5] = "done";

	if (g->host)
		tell(fd, &c, g->lan.address);
	hear(fd, &c);
	g->q = lan_connect(&g->lan, &c, NULL);
	for (uint32_t i = 0; i < DEPTH; i++)
		lan_receive(g->q, slot(g, i), g->size + head_of(g), i);
	if (!g->host)
		tell(fd, &c, g->lan.address);
	if (g->host)
		talk_put(fd, done, sizeof(done));
	else
		talk_get(fd, done, sizeof(done));
	close(fd);
}

/* ---- To and fro ---- */

static void send_one(struct game *g)
{
	const struct weft_roce_config *c = &g->q->qp.config;
	const struct weft_roce_request request = {
		.opcode = WEFT_OP_SEND,
		.length = g->size,
		.route = c->route,
		.dest_qpn = c->dest_qpn,
		.qkey = c->qkey,
	};

	if (!lan_post(g->q, &request, g->bytes, 0))
		wrong("the send queue is full");
}

static void compare(struct game *g, const struct lan_done *done)
{
	const uint8_t *at = slot(g, done->id);

	if (done->what.bytes != g->size + head_of(g))
		wrong("the length");
	for (uint32_t i = 0; i < g->size; i++)
		if (at[head_of(g) + i] != filling(i))
			wrong("a byte");
	if (!head_of(g))
		return;
	if (weft_address_is_ipv4(g->lan.address)
		    ? at[20] != 0x45 || memcmp(at + 36, g->lan.address + 12, 4)
		    : at[0] >> 4 != 6 || memcmp(at + 24, g->lan.address, 16))
		wrong("the header before a datagram");
}

static void play(struct game *g)
{
	uint64_t end_ns = lan_now_ns() + PATIENCE_NS;
	bool sending = g->host, waiting = true;
	struct lan_done done;

	if (sending)
		send_one(g);
	while (g->sent < g->times || g->received < g->times) {
		lan_turn(&g->lan, -1, 1000);
		if (lan_now_ns() > end_ns)
			wrong("it never ends");
		while (lan_poll(g->q, &done)) {
			if (done.cause) {
				lan_say(&g->lan);
				fprintf(stderr, "after %u sent and %u received: cause %d\n",
					g->sent, g->received, done.cause);
				wrong("a request has failed");
			}
			if (done.receive) {
				compare(g, &done);
				lan_receive(g->q, slot(g, done.id), g->size + head_of(g), done.id);
				g->received++;
				waiting = false;
			} else {
				g->sent++;
				sending = false;
			}
			if (!sending && !waiting && g->sent < g->times) {
				send_one(g);
				sending = waiting = true;
			}
		}
	}
}

static void arguments(struct game *g, int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "i:m:n:s:")) != -1) {
		uint32_t value = optarg ? (uint32_t)strtoul(optarg, NULL, 0) : 0;

		if (option == 'i')
			g->interface = optarg;
		else if (option == 'm')
			g->mtu = value;
		else if (option == 'n')
			g->times = value;
		else if (option == 's')
			g->size = value;
		else
			exit(2);
	}
	if (argc - optind < 2) {
		fprintf(stderr, "usage: wire-pingpong rc|uc|ud ADDRESS [OPTION]... [HOST]\n");
		exit(2);
	}
	g->service = !strcmp(argv[optind], "uc")   ? WEFT_ROCE_UC
		     : !strcmp(argv[optind], "ud") ? WEFT_ROCE_UD
						   : WEFT_ROCE_RC;
	g->host = argc - optind > 2 ? argv[optind + 2] : NULL;
	lan_open(&g->lan, argv[optind + 1], g->interface);
}

int main(int argc, char **argv)
{
	static struct game game = {.mtu = 1024, .times = 1000, .size = 4096};
	struct game *g = &game;

	arguments(g, argc, argv);
	g->bytes = malloc(g->size + (size_t)DEPTH * (g->size + WEFT_ROCE_GRH_BYTES));
	if (!g->bytes)
		wrong("memory");
	for (uint32_t i = 0; i < g->size; i++)
		g->bytes[i] = filling(i);
	meet(g);
	play(g);
	lan_turn(&g->lan, -1, 50);
	lan_say(&g->lan);
	lan_close(&g->lan);
	free(g->bytes);
	return 0;
}
