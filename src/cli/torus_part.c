/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A torus whose nodes are on several hosts, or at least behind several networks: parts, joined by UDP. */
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "cli/torus.h"

#define FNV_BASIS 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

static void peer_address(const struct sockaddr *name, uint8_t address[16])
{
	memset(address, 0, 16);
	if (name->sa_family == AF_INET6) {
		memcpy(address, &((const struct sockaddr_in6 *)name)->sin6_addr, 16);
		return;
	}
	address[10] = address[11] = 0xff;
	memcpy(address + 12, &((const struct sockaddr_in *)name)->sin_addr, 4);
}

bool weft_torus_add_peer(struct weft_torus_options *o, const char *text)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
	const char *colon = strrchr(text, ':');
	struct addrinfo *found;
	unsigned long port;
	char host[256], *end;

	if (!colon || o->peers == WEFT_TORUS_PARTS - 1 || (size_t)(colon - text) >= sizeof(host))
		return false;
	port = strtoul(colon + 1, &end, 10);
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = '\0';
	if (!port || *end || port > UINT16_MAX || getaddrinfo(host, NULL, &hints, &found))
		return false;
	peer_address(found->ai_addr, o->peer[o->peers].address);
	o->peer[o->peers++].port = (uint16_t)port;
	freeaddrinfo(found);
	return true;
}

/* The same on all hosts: of the name, and of what the lattice is. */
static uint64_t common_cookie(const struct weft_torus_options *o)
{
	const struct weft_torus_shape *s = &o->shape;
	const uint32_t all[] = {s->size[0],  s->size[1],  s->size[2],  s->line[0],  s->line[1],
				s->line[2],  s->order[0], s->order[1], s->order[2], s->tie,
				s->channels, s->quads,	  s->phy,      s->lanes,    s->parts};
	uint64_t hash = FNV_BASIS;

	for (const char *c = o->name; *c; c++)
		hash = (hash ^ (uint8_t)*c) * FNV_PRIME;
	for (unsigned int i = 0; i < sizeof(all) / sizeof(*all); i++)
		hash = (hash ^ all[i]) * FNV_PRIME;
	return hash;
}

/* One part alone has its ends at this host's own address, and any ports. */
void weft_torus_place_parts(struct weft_torus_options *o)
{
	static const uint8_t here[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
	static const uint8_t any[16] = {[10] = 0xff, [11] = 0xff};
	struct weft_torus_shape *s = &o->shape;
	uint32_t peer = 0;

	s->cookie = common_cookie(o);
	for (uint32_t i = 0; i < s->parts; i++)
		if (i != s->part)
			s->at[i] = o->peer[peer++];
	memcpy(s->at[s->part].address, s->parts > 1 ? any : here, sizeof(any));
	s->at[s->part].port = s->parts > 1 ? (uint16_t)o->port : 0;
}
