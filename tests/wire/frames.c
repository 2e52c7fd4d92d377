/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Frames for decoders that are not ours: `frames FILE.pcap` writes one of each opcode over IPv4 and over IPv6, and all of a game of
 * the simulator; `frames FROM TO` sends one of each opcode from that address of this host to the other. Both say, a line a frame,
 * what they have put there.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "link/udp.h"
#include "memory.h"

#define PAYLOAD 256u

static FILE *pcap;
static struct weft_udp *out; /* NULL: frames are written */
static struct weft_roce_icrc icrc;

static const uint8_t opcodes[] = {
#define OPCODE(opcode, name, verb, place, headers, length) opcode,
	WEFT_ROCE_OPCODES(OPCODE)
#undef OPCODE
};

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint32_t sum_of(const uint8_t *at, size_t bytes)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < bytes; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	return (sum & 0xffff) + (sum >> 16);
}

/* The headers of Ethernet, IP and UDP; how many bytes they are. */
static size_t put_headers(uint8_t *at, const struct weft_roce_route *route, uint16_t id,
			  size_t bytes)
{
	bool four = weft_roce_is_ipv4(route);
	size_t ip_bytes = four ? 20 : 40;
	uint8_t *ip = at + 14, *udp = ip + ip_bytes;

	memset(at, 0, 14 + ip_bytes + 8);
	memcpy(at, "\2\0\0\0\0\2\2\0\0\0\0\1", 12);
	put16(at + 12, four ? 0x0800 : 0x86dd);
	if (four) {
		ip[0] = 0x45;
		ip[1] = 0x12;
		put16(ip + 2, (uint32_t)(28 + bytes));
		put16(ip + 4, id);
		ip[6] = 0x40;
		ip[8] = 64;
		ip[9] = 17;
		memcpy(ip + 12, route->src + 12, 4);
		memcpy(ip + 16, route->dst + 12, 4);
		put16(ip + 10, ~sum_of(ip, 20));
	} else {
		put16(ip, 0x6120);
		put16(ip + 4, (uint32_t)(8 + bytes));
		ip[6] = 17;
		ip[7] = 64;
		memcpy(ip + 8, route->src, 16);
		memcpy(ip + 24, route->dst, 16);
	}
	put16(udp, route->src_port);
	put16(udp + 2, route->dst_port);
	put16(udp + 4, (uint32_t)(8 + bytes));
	return 14 + ip_bytes + 8;
}

/* Little-endian, times in microseconds, Ethernet. */
static void frame(const struct weft_roce_route *route, uint16_t id, const uint8_t *at, size_t bytes)
{
	uint8_t headers[62];
	size_t n = put_headers(headers, route, id, bytes);
	static uint32_t time;
	const uint32_t record[] = {++time, 0, (uint32_t)(n + bytes), (uint32_t)(n + bytes)};

	fwrite(record, sizeof(record), 1, pcap);
	fwrite(headers, n, 1, pcap);
	fwrite(at, bytes, 1, pcap);
}

static void say(const struct weft_roce_packet *p)
{
	const uint8_t headers = weft_roce_row(p->opcode)->headers;

	printf("opcode=%u se=%u m=%u padcnt=%u pkey=%u destqp=%u a=%u psn=%u", p->opcode,
	       p->solicited, p->migrated, weft_roce_pad(p->payload_bytes), p->pkey, p->dest_qpn,
	       p->ack_requested, p->psn);
	if (headers & WEFT_ROCE_XRCETH)
		printf(" srqn=%u", p->srqn);
	if (headers & WEFT_ROCE_DETH)
		printf(" q_key=%u srcqp=%u", p->qkey, p->src_qpn);
	if (headers & WEFT_ROCE_RETH)
		printf(" va=%llu r_key=%u dmalen=%u", (unsigned long long)p->va, p->rkey,
		       p->length);
	if (headers & WEFT_ROCE_ATOMIC)
		printf(" va=%llu r_key=%u swapdt=%llu cmpdt=%llu", (unsigned long long)p->va,
		       p->rkey, (unsigned long long)p->swap_add, (unsigned long long)p->compare);
	if (headers & WEFT_ROCE_AETH)
		printf(" syndrome=%u msn=%u", p->syndrome, p->msn);
	if (headers & WEFT_ROCE_ATOMIC_ACK)
		printf(" origremdt=%llu", (unsigned long long)p->old);
	printf("\n");
}

static void tap(struct game *g, struct side *from, uint16_t id, const uint8_t *at, size_t bytes)
{
	struct weft_roce_packet p;

	if (weft_roce_parse(at, bytes, &p))
		abort();
	say(&p);
	frame(&from->qp.config.route, id, at, bytes);
}

static struct weft_roce_route route(bool six)
{
	struct weft_roce_route r = {.src_port = 0xc0de, .dst_port = WEFT_ROCE_PORT};

	if (six) {
		memcpy(r.src, "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
		memcpy(r.dst, "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\2", 16);
	} else {
		memcpy(r.src, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\1", 16);
		memcpy(r.dst, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\2", 16);
	}
	return r;
}

static void send_datagram(const struct weft_roce_route *r, const uint8_t *at, size_t bytes)
{
	const struct iovec piece = {(void *)at, bytes};
	struct weft_udp_message message = {.port = r->dst_port, .pieces = &piece, .count = 1};

	memcpy(message.to, r->dst, 16);
	if (weft_udp_send(out, &message, 1) != 1)
		abort();
}

static void each_opcode(const struct weft_roce_route *r, uint16_t first_id)
{
	for (uint32_t i = 0; i < sizeof(opcodes); i++) {
		enum weft_roce_length rule =
			(enum weft_roce_length)weft_roce_row(opcodes[i])->length;
		struct weft_roce_packet p = {
			.opcode = opcodes[i],
			.solicited = i & 1,
			.ack_requested = i & 2,
			.migrated = true,
			.pkey = 0xffff,
			.dest_qpn = 0x123400 + i,
			.psn = 0xabcd00 + i,
			.qkey = 0x11110000 + i,
			.src_qpn = 0x654300 + i,
			.srqn = 0x767600 + i,
			.va = 0x1122334455667700ull + i,
			.rkey = 0x99887700 + i,
			.length = 0x01020300 + i,
			.swap_add = 0x0102030405060700ull + i,
			.compare = 0x1112131415161700ull + i,
			.syndrome = 0x1f,
			.msn = 0x445500 + i,
			.old = 0x2122232425262700ull + i,
			.imm = 0x01020304,
			.ended_key = 0x55667700 + i,
			.payload_bytes = rule == WEFT_ROCE_NONE	   ? 0
					 : rule == WEFT_ROCE_FULL  ? PAYLOAD
					 : rule == WEFT_ROCE_EIGHT ? 8
								   : 1 + i % 9,
		};
		uint8_t at[SEALED_BYTES], *payload = seal_begin(&p, at);
		uint16_t id = (uint16_t)(first_id ? first_id + i : 0);
		size_t bytes;
		uint32_t crc;

		for (uint32_t k = 0; k < p.payload_bytes; k++)
			payload[k] = (uint8_t)(k + i);
		say(&p);
		bytes = seal_end(&icrc, r, id, &p, at, &crc);
		if (out)
			send_datagram(r, at, bytes);
		else
			frame(r, id, at, bytes);
	}
}

static void a_game(bool six)
{
	struct game *g = calloc(1, sizeof(*g));
	uint64_t seed = 11;

	if (!g)
		abort();
	weft_sim_begin(&g->sim, 11);
	g->pairs = 1;
	g->most = REQUESTS;
	g->mtu = 256;
	g->receive_bytes = 4 * g->mtu;
	g->counts = !six;
	g->tap = tap;
	g->wire[0].delay_ns = g->wire[1].delay_ns = 1000;
	g->wire[0].lost = 2000;
	host_begin(g);

	struct weft_roce_config config[2] = {
		{.route = route(six),
		 .qpn = 0x100,
		 .dest_qpn = 0x101,
		 .pkey = 0xffff,
		 .mtu = g->mtu,
		 .sq_psn = 0xfffff0,
		 .rq_psn = 5,
		 .timeout = 8,
		 .retry_cnt = 7,
		 .rnr_retry = 7,
		 .min_rnr_timer = 1,
		 .max_rd_atomic = 4,
		 .max_dest_rd_atomic = 4},
	};
	config[1] = config[0];
	memcpy(config[1].route.src, config[0].route.dst, 16);
	memcpy(config[1].route.dst, config[0].route.src, 16);
	config[1].qpn = 0x101;
	config[1].dest_qpn = 0x100;
	config[1].sq_psn = 5;
	config[1].rq_psn = 0xfffff0;
	host_connect(g, 0, config);
	plan_fill(&g->side[0][0], &seed);
	plan_fill(&g->side[1][0], &seed);
	weft_sim_run(&g->sim, 100000000);
	if (g->wrong)
		abort();
	host_end(g);
	free(g);
}

static bool read_address(const char *text, uint8_t address[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	memcpy(address, mapped, 12);
	return inet_pton(AF_INET, text, address + 12) == 1 ||
	       inet_pton(AF_INET6, text, address) == 1;
}

static int send_all(const char *from, const char *to)
{
	struct weft_roce_route r = {.src_port = WEFT_ROCE_PORT, .dst_port = WEFT_ROCE_PORT};
	struct weft_udp_config config = {.port = WEFT_ROCE_PORT};

	if (!read_address(from, r.src) || !read_address(to, r.dst))
		return 2;
	memcpy(config.address, r.src, 16);
	if (weft_udp_open(&config, &out))
		abort();
	each_opcode(&r, 0);
	weft_udp_close(out);
	return 0;
}

static int write_all(const char *path)
{
	const uint32_t header[] = {0xa1b2c3d4, 2 | 4 << 16, 0, 0, 65535, 1};

	pcap = fopen(path, "wb");
	if (!pcap)
		return 2;
	fwrite(header, sizeof(header), 1, pcap);
	for (int six = 0; six < 2; six++) {
		const struct weft_roce_route r = route(six);

		each_opcode(&r, six ? 0 : 0x4200);
		a_game(six);
	}
	return fclose(pcap) ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: frames FILE.pcap | FROM TO\n");
		return 2;
	}
	weft_roce_icrc_init(&icrc, &plain_math);
	return argc == 3 ? send_all(argv[1], argv[2]) : write_all(argv[1]);
}
