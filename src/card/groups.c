/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "card/groups.h"

#include <string.h>

#include "pool/address.h"
#include "pool/format_member.h"
#include "pool/slice.h"
#include "process/card.h"
#include "process/gid.h"
#include "wire/roce/packet.h"

#define BUFFER_BYTES (1u << 20)

/* ---- Whose it is to join ---- */

/* Whether that member is a card that would hear the same: of the same network namespace, version of IP and interface. */
static bool is_like_us(const struct weft_groups *g, const struct weft_pool_member *m)
{
	uint8_t address[16];

	if (!weft_card_is_ours(m) || !atomic_load_explicit(&m->incarnation, memory_order_acquire))
		return false;
	for (int i = 0; i < 2; i++) {
		uint64_t half = atomic_load_explicit(&m->card.address[i], memory_order_relaxed);

		memcpy(address + 8 * i, &half, sizeof(half));
	}
	return weft_address_is_ipv4(address) == weft_address_is_ipv4(g->address) &&
	       weft_gid_interface(address) == g->interface;
}

/* The next of this host from *i on, whose number is *i then; NULL: there is none. */
static const struct weft_pool_member *next_beside(const struct weft_groups *g, uint16_t *i)
{
	while ((*i = weft_pool_next(g->pool, *i)) < WEFT_MEMBERS && !weft_is_near(g->pool, *i))
		++*i;
	return weft_pool_member(g->pool, *i);
}

/* Of all cards that would hear the same the first joins. */
static bool is_ours_to_join(const struct weft_groups *g)
{
	const struct weft_pool_member *m;

	for (uint16_t i = 0; (m = next_beside(g, &i)) && i < g->pool->me; i++)
		if (is_like_us(g, m))
			return false;
	return true;
}

/* ---- Joining ---- */

static void want(struct weft_groups *g, const uint8_t gid[16])
{
	struct weft_udp_config config = {
		.port = WEFT_ROCE_PORT, .interface = g->interface, .buffer_bytes = BUFFER_BYTES};

	for (uint32_t i = 0; i < g->count; i++)
		if (!memcmp(g->group[i].gid, gid, 16)) {
			g->group[i].wanted = true;
			return;
		}
	memcpy(config.address, gid, 16);
	if (g->count == WEFT_GROUPS || weft_udp_open(&config, &g->group[g->count].udp))
		return;
	memcpy(g->group[g->count].gid, gid, 16);
	g->group[g->count].empty_ns = 0;
	g->group[g->count++].wanted = true;
}

static void want_those_of(struct weft_groups *g, const struct weft_pool_member *m)
{
	uint8_t gid[16];
	/* acquire: pairs with the release in listen_to_group (mcast.c) */
	uint32_t n = atomic_load_explicit(&m->groups, memory_order_acquire);

	if (m->net_ns != g->pool->self->net_ns ||
	    !atomic_load_explicit(&m->incarnation, memory_order_acquire))
		return;
	for (uint32_t k = 0; k < n && k < WEFT_MEMBER_GROUPS; k++)
		if (weft_group_read(&m->group[k], gid) &&
		    weft_address_is_ipv4(gid) == weft_address_is_ipv4(g->address))
			want(g, gid);
}

static bool any_group(const struct weft_groups *g)
{
	const struct weft_pool_member *m;

	for (uint16_t i = 0; (m = next_beside(g, &i)); i++)
		if (atomic_load_explicit(&m->groups, memory_order_relaxed))
			return true;
	return false;
}

static void leave_others(struct weft_groups *g)
{
	for (uint32_t i = 0; i < g->count;) {
		if (g->group[i].wanted) {
			i++;
			continue;
		}
		weft_udp_close(g->group[i].udp);
		g->group[i] = g->group[--g->count];
	}
}

void weft_groups_look(struct weft_groups *g)
{
	const struct weft_pool_member *m;

	if (!g->count && !any_group(g))
		return;
	for (uint32_t i = 0; i < g->count; i++)
		g->group[i].wanted = false;
	if (is_ours_to_join(g))
		for (uint16_t i = 0; (m = next_beside(g, &i)); i++)
			want_those_of(g, m);
	leave_others(g);
}

void weft_groups_end(struct weft_groups *g)
{
	while (g->count)
		weft_udp_close(g->group[--g->count].udp);
}
