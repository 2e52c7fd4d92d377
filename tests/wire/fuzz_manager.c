/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libFuzzer's target for queue pair 1 of a card: a list of datagrams from other hosts and from members, of delays, deaths and whims.
 * Datagrams are built of fields near right ones, or of raw bytes. The pool is played here. Whatever came, each datagram is answered
 * once at most, none goes to a member that is dead, what is remembered is counted, and all of it is forgotten when members die.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "card/manager.h"
#include "mailbox/port.h"

#define HOSTS	4u
#define MEMBERS 4u
#define ID_BITS 22u
#define PORT	0x01060000ull
#define LONG_NS 70000000000ull /* so long that what was begun is forgotten */

static const uint8_t *at, *end;

/* ---- The world ---- */

static struct {
	uint64_t now_ns, incarnation[MEMBERS]; /* 0: dead */
	int listener;			       /* what weft_port_find says; 0: the first member */
	uint32_t room;			       /* of the mailbox */
	uint32_t sent, allocated;
	bool no_memory;
	struct weft_address from; /* of what a member sends */
	uint8_t bytes[WEFT_DATAGRAM_BYTES];
	bool sends;
} world;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok)
{
	if (!ok)
		abort();
}

int weft_port_find(struct weft_pool *pool, const struct weft_pool_port *wanted,
		   struct weft_address *owner)
{
	if (!world.listener && !world.incarnation[0])
		return -ECONNREFUSED;
	*owner = (struct weft_address){.incarnation = world.incarnation[0]};
	return world.listener;
}

struct weft_address weft_mailbox_address(struct weft_pool *pool, uint16_t member)
{
	return (struct weft_address){
		.member = member, .incarnation = member < MEMBERS ? world.incarnation[member] : 0};
}

int weft_mailbox_post(struct weft_pool *pool, struct weft_address to,
		      const uint8_t bytes[WEFT_DATAGRAM_BYTES], uint64_t now_ns)
{
	require(to.member < MEMBERS && to.incarnation && now_ns == world.now_ns);
	if (to.incarnation != world.incarnation[to.member])
		return -ESRCH;
	if (!world.room)
		return -EAGAIN;
	world.room--;
	return 0;
}

bool weft_mailbox_take(struct weft_pool *pool, struct weft_address *from,
		       uint8_t bytes[WEFT_DATAGRAM_BYTES])
{
	bool any = world.sends;

	*from = world.from;
	memcpy(bytes, world.bytes, WEFT_DATAGRAM_BYTES);
	world.sends = false;
	return any;
}

static void note_sent(struct weft_manager *manager, const uint8_t to[16],
		      const uint8_t bytes[WEFT_MAD_BYTES])
{
	world.sent++;
}

static void *alloc_zeros(struct weft_manager *manager, size_t bytes)
{
	if (world.no_memory)
		return NULL;
	world.allocated++;
	return calloc(1, bytes);
}

static void free_one(struct weft_manager *manager, void *what)
{
	world.allocated--;
	free(what);
}

static const struct weft_manager_calls calls = {
	.send = note_sent, .alloc = alloc_zeros, .free = free_one};

/* ---- Datagrams ---- */

static uint8_t next(void)
{
	return at < end ? *at++ : 0;
}

static void name_host(uint8_t gid[16], uint8_t host)
{
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	gid[15] = host % HOSTS;
}

static void make_bytes(uint8_t bytes[WEFT_MAD_BYTES])
{
	size_t n = (size_t)(end - at) < WEFT_MAD_BYTES ? (size_t)(end - at) : WEFT_MAD_BYTES;

	memset(bytes, 0, WEFT_MAD_BYTES);
	memcpy(bytes, at, n);
	at += n;
}

/* Ids of members have the member above. */
static void make_fields(uint8_t bytes[WEFT_MAD_BYTES], bool comes)
{
	static const enum weft_mad_kind kinds[] = {
		WEFT_MAD_REQ,  WEFT_MAD_REP,  WEFT_MAD_RTU,	 WEFT_MAD_REJ,	   WEFT_MAD_MRA,
		WEFT_MAD_DREQ, WEFT_MAD_DREP, WEFT_MAD_SIDR_REQ, WEFT_MAD_SIDR_REP};
	uint8_t how = next(), ids = next(), spoilt = next();
	uint32_t its = 1 + (ids & 7), ours = (uint32_t)(ids >> 3 & 7) << ID_BITS | ids >> 6;
	struct weft_mad mad = {.kind = kinds[how % (sizeof(kinds) / sizeof(kinds[0]))],
			       .local_id = comes ? its : ours,
			       .remote_id = comes ? ours : its};

	if (mad.kind == WEFT_MAD_REQ || mad.kind == WEFT_MAD_SIDR_REQ) {
		struct weft_mad_ip ip = {.port = 40000};
		uint64_t service = PORT | how >> 6 | (uint64_t)(how == 255) << 40;

		if (mad.kind == WEFT_MAD_REQ)
			mad.req.service_id = service;
		else
			mad.sidr_req.service_id = service;
		name_host(ip.src, how);
		name_host(ip.dst, 0);
		weft_mad_put_ip(mad.private_data, &ip);
	}
	weft_mad_encode(&mad, bytes);
	if (spoilt & 1)
		bytes[next()] ^= spoilt;
}

static void arrive(struct weft_manager *g, bool raw)
{
	uint8_t bytes[WEFT_MAD_BYTES], from[16], to[16];
	uint32_t sent = world.sent;

	name_host(from, next());
	name_host(to, 0);
	if (raw)
		make_bytes(bytes);
	else
		make_fields(bytes, true);
	weft_manager_arrived(g, from, to, bytes, world.now_ns);
	require(world.sent - sent <= 1);
}

static void member_sends(struct weft_manager *g)
{
	uint8_t which = next();

	world.from = (struct weft_address){.member = which % MEMBERS,
					   .incarnation = world.incarnation[which % MEMBERS]};
	name_host(world.from.far, which >> 2);
	name_host(world.from.near, 0);
	memset(world.bytes, 0, sizeof(world.bytes));
	make_fields(world.bytes, false);
	world.sends = world.from.incarnation;
	weft_manager_look(g, world.now_ns);
}

static void whim(void)
{
	static const int listeners[] = {0, 0, -ECONNREFUSED, -EAGAIN};
	uint8_t how = next();

	world.listener = listeners[how & 3];
	world.room = how >> 2 & 7;
	world.no_memory = how >> 5 == 7;
}

/* One dies, or one that is dead is followed by another. */
static void die(uint8_t which)
{
	static uint64_t lives = 100;
	uint64_t *incarnation = &world.incarnation[which % MEMBERS];

	*incarnation = *incarnation ? 0 : ++lives;
}

static void step(struct weft_manager *g)
{
	uint8_t op = next();

	switch (op & 7) {
	case 0:
		arrive(g, true);
		break;
	case 1:
	case 2:
	case 3:
		arrive(g, false);
		break;
	case 4:
		member_sends(g);
		break;
	case 5:
		whim();
		break;
	case 6:
		world.now_ns += (uint64_t)next() << (op >> 3);
		weft_manager_try(g, world.now_ns);
		weft_manager_watch(g, world.now_ns);
		break;
	case 7:
		die(op >> 3);
		break;
	}
	require(g->held_count <= WEFT_MANAGER_HELD && !g->held == !g->held_count);
	require(world.allocated == g->count + g->held_count);
}

/* All that were members die. */
static void end_all(struct weft_manager *g)
{
	memset(world.incarnation, 0, sizeof(world.incarnation));
	world.listener = -ECONNREFUSED;
	for (int i = 0; i < 30 && (g->count || g->held); i++) {
		world.now_ns += 300000000;
		weft_manager_try(g, world.now_ns);
		weft_manager_watch(g, world.now_ns);
	}
	world.now_ns += LONG_NS;
	weft_manager_watch(g, world.now_ns);
	require(!g->count && !g->held && !world.allocated);
	weft_manager_end(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct weft_manager g;

	at = data;
	end = data + bytes;
	g = (struct weft_manager){.calls = &calls};
	memset(&world, 0, sizeof(world));
	world.now_ns = 1000000000;
	world.room = 4;
	for (uint64_t i = 0; i < MEMBERS; i++)
		world.incarnation[i] = i + 1;
	while (at < end)
		step(&g);
	end_all(&g);
	return 0;
}
