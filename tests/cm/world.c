/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "world.h"
#include "pool/format_mailbox.h"
#include "pool/format_member.h"

#include <errno.h>
#include <string.h>

#define KEPT 256u

struct datagram {
	uint16_t member;
	uint8_t wire[WEFT_MAD_BYTES];
};

struct world world;
struct weft_cm weft_cm = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct weft_pool_member self;
static struct weft_pool pool = {.self = &self, .me = WORLD_US, .incarnation = WORLD_US};
static struct ibv_context verbs;
static struct ibv_pd pd = {.context = &verbs};
static struct datagram posted[KEPT], arrived;
static uint32_t first_posted, nposted, last_random;
static bool has_arrived;

/* ---- In place of device.c ---- */

uint64_t weft_cm_now_ns(void)
{
	return world.now_ns;
}

uint32_t weft_cm_random(void)
{
	return ++last_random * 2654435761u;
}

int weft_cm_start(void)
{
	return 0;
}

/* ---- In place of the pool ---- */

static struct weft_address address_of(uint16_t member)
{
	return (struct weft_address){.member = member,
				     .incarnation = member + world.before[member] * WORLD_PEERS};
}

static bool alive(struct weft_pool *unused, uint16_t member, uint64_t incarnation)
{
	return member < WORLD_PEERS && incarnation == address_of(member).incarnation &&
	       !world.dead[member];
}

static void kick(void)
{
}

static void follow(void)
{
}

static int post(struct weft_pool *unused, struct weft_address to,
		const uint8_t bytes[WEFT_DATAGRAM_BYTES], uint64_t now_ns)
{
	struct datagram *d = &posted[(first_posted + nposted) % KEPT];

	if (!alive(unused, to.member, to.incarnation))
		return -ESRCH;
	if (world.full || nposted == KEPT)
		return -EAGAIN;
	d->member = to.member;
	memcpy(d->wire, bytes, sizeof(d->wire));
	nposted++;
	return 0;
}

static bool take(struct weft_pool *unused, struct weft_address *from,
		 uint8_t bytes[WEFT_DATAGRAM_BYTES])
{
	if (!has_arrived)
		return false;
	has_arrived = false;
	*from = address_of(arrived.member);
	memcpy(bytes, arrived.wire, sizeof(arrived.wire));
	return true;
}

static int port_bind(struct weft_pool *unused, struct weft_pool_port *want, uint32_t *index)
{
	*index = world.ports++;
	if (!want->port)
		want->port = (uint16_t)(32768 + *index);
	return 0;
}

static int port_listen(struct weft_pool *unused, uint32_t index)
{
	return 0;
}

static void port_release(struct weft_pool *unused, uint32_t index)
{
	world.ports--;
}

static int port_find(struct weft_pool *unused, const struct weft_pool_port *wanted,
		     struct weft_address *owner)
{
	*owner = address_of(WORLD_PEER);
	return world.found;
}

static bool reachable(struct weft_pool *unused, const uint8_t addr[16])
{
	return true;
}

static bool beyond(const uint8_t sgid[16], const uint8_t dgid[16], struct weft_address *card)
{
	return false;
}

static bool source(const uint8_t dgid[16], uint8_t sgid[16])
{
	return false;
}

static uint8_t mtu(const uint8_t sgid[16])
{
	return 5;
}

static bool explains(void)
{
	return false;
}

static const struct weft_service service = {
	.kick = kick,
	.follow = follow,
	.post = post,
	.take = take,
	.alive = alive,
	.port_bind = port_bind,
	.port_listen = port_listen,
	.port_release = port_release,
	.port_find = port_find,
	.reachable = reachable,
	.beyond = beyond,
	.source = source,
	.mtu = mtu,
	.explains = explains,
};

/* ---- For the test ---- */

void world_reset(void)
{
	static const uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};

	/* far from zero, as a real clock is */
	world = (struct world){.now_ns = 1000000000000};
	self.ngids = 1;
	memcpy(self.gid[0].half, gid, sizeof(gid));
	self.gid[0].guard = 1;
	weft_cm.service = &service;
	weft_cm.pool = &pool;
	weft_cm.verbs = &verbs;
	weft_cm.pd = &pd;
	first_posted = nposted = last_random = 0;
	has_arrived = false;
	weft_agent_forget();
}

void world_pass(uint64_t ns)
{
	uint64_t until_ns = world.now_ns + ns, due_ns;

	while ((due_ns = weft_agent_run(world.now_ns)) <= until_ns)
		world.now_ns = due_ns > world.now_ns ? due_ns : world.now_ns;
	world.now_ns = until_ns;
}

void world_arrive(uint16_t from, const uint8_t wire[WEFT_MAD_BYTES])
{
	has_arrived = true;
	arrived.member = from;
	memcpy(arrived.wire, wire, sizeof(arrived.wire));
	weft_agent_run(world.now_ns);
}

bool world_posted(uint16_t *to, uint8_t wire[WEFT_MAD_BYTES])
{
	const struct datagram *d = &posted[first_posted % KEPT];

	if (!nposted)
		return false;
	*to = d->member;
	memcpy(wire, d->wire, sizeof(d->wire));
	first_posted++;
	nposted--;
	return true;
}
