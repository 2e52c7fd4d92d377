/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Packets that are no good, to the card of a host: `rubbish FROM TO RATE [QPN]...`, so many a second, from an address of this host,
 * until it is killed. A third is random bytes, a third has random fields, and a third of these, too, is for those queue pairs, or for
 * queue pair 1; of both three in four have an ICRC that holds. Says, a line a second, how many have gone.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../random.h"
#include "card/math.h"
#include "link/udp.h"
#include "wire/roce/packet.h"

#define BURST	 20u
#define MOST	 300u
#define NS_A_SEC 1000000000ull

static struct weft_udp *udp;
static struct weft_roce_icrc icrc;
static struct weft_roce_route route = {.dst_port = WEFT_ROCE_PORT};
static uint64_t seed = 23;
static uint32_t qpns[16] = {1}, qpn_count = 1;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_A_SEC + (uint64_t)t.tv_nsec;
}

static uint64_t draw(void)
{
	return splitmix64(&seed);
}

static size_t make_bytes(uint8_t at[MOST])
{
	size_t bytes = draw() % MOST;

	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)draw();
	return bytes;
}

/* With the headers that its opcode has, and a length that may be right. */
static size_t make_packet(uint8_t at[MOST], bool aimed)
{
	struct weft_roce_packet p = {.opcode = (uint8_t)draw(),
				     .pkey = 0xffff,
				     .psn = draw() & 0xffffff,
				     .dest_qpn = draw() & 0xffffff,
				     .src_qpn = draw() & 0xffffff,
				     .qkey = draw() & 1 ? 0x80010000 : (uint32_t)draw(),
				     .ack_requested = true,
				     .va = draw(),
				     .rkey = (uint32_t)draw(),
				     .length = (uint32_t)draw(),
				     .swap_add = draw(),
				     .syndrome = (uint8_t)draw()};
	size_t bytes;
	uint32_t crc;

	while (!weft_roce_row(p.opcode)->name)
		p.opcode = (uint8_t)draw();
	if (aimed)
		p.dest_qpn = qpns[draw() % qpn_count];
	bytes = weft_roce_build(&p, at);
	for (size_t rest = draw() % 64 * 4; rest && bytes < MOST - 8; rest--)
		at[bytes++] = (uint8_t)draw();
	bytes &= ~(size_t)3;
	crc = weft_roce_icrc(&icrc, &route, 0, at, bytes, NULL, bytes + 4);
	if (!(draw() & 3))
		crc = (uint32_t)draw();
	memcpy(at + bytes, &crc, 4);
	return bytes + 4;
}

static void send_one(void)
{
	uint8_t at[MOST];
	size_t bytes = draw() % 3 ? make_packet(at, draw() & 1) : make_bytes(at);
	struct iovec piece = {at, bytes};
	struct weft_udp_message message = {.port = WEFT_ROCE_PORT, .pieces = &piece, .count = 1};

	memcpy(message.to, route.dst, 16);
	weft_udp_send(udp, &message, 1);
}

static void flood(uint64_t rate)
{
	uint64_t begun_ns = now_ns(), told_ns = begun_ns;

	for (uint64_t sent = 0;; sent += BURST) {
		const struct timespec a_while = {.tv_nsec = 300000};

		while ((now_ns() - begun_ns) / 1000 * rate / 1000000 < sent)
			nanosleep(&a_while, NULL);
		for (uint32_t i = 0; i < BURST; i++)
			send_one();
		if (now_ns() - told_ns < NS_A_SEC)
			continue;
		told_ns += NS_A_SEC;
		printf("%lu\n", (unsigned long)sent);
		fflush(stdout);
	}
}

static void read_address(const char *text, uint8_t address[16])
{
	memset(address, 0, 16);
	memset(address + 10, 0xff, 2);
	if (inet_pton(AF_INET, text, address + 12) != 1)
		exit(2);
}

int main(int argc, char **argv)
{
	struct weft_udp_config config = {.port = 0};

	if (argc < 4) {
		fprintf(stderr, "usage: rubbish FROM TO RATE [QPN]...\n");
		return 2;
	}
	read_address(argv[1], route.src);
	read_address(argv[2], route.dst);
	for (int i = 4; i < argc && qpn_count < 16; i++)
		qpns[qpn_count++] = (uint32_t)strtoul(argv[i], NULL, 0);
	memcpy(config.address, route.src, 16);
	if (weft_udp_open(&config, &udp)) {
		fprintf(stderr, "no socket\n");
		return 1;
	}
	route.src_port = weft_udp_port(udp);
	weft_roce_icrc_init(&icrc, &weft_card_math);
	flood(strtoull(argv[3], NULL, 0));
	return 0;
}
