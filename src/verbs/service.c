/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <string.h>

#include "verbs/explain.h"
#include "verbs/service.h"

#include "pool/ape.h"
#include "pool/clock.h"
#include "process/card.h"
#include "process/gids.h"
#include "process/interface.h"
#include "process/node.h"
#include "process/process.h"

static int start(const struct weft_helper_client *client, struct weft_pool **pool)
{
	*pool = weft_process.pool;
	weft_helper_serve(client);
	return weft_helper_start();
}

/* Signals always: a helper that ticks looks for requests that wait, not for what the client has. */
static void kick(void)
{
	weft_pool_signal(weft_process.pool, weft_process.pool->me, WEFT_SIGNAL_WORK);
}

/* Whether that is the address of a node that the lattice of this node's torus has not. */
static bool is_off_lattice(const uint8_t gid[16])
{
	const struct weft_pool_ape *ape;
	uint8_t here[3], there[3];

	if (!weft_node_here(here) || !weft_node_of_gid(gid, there))
		return false;
	ape = weft_pool_ape(weft_process.pool);
	/* acquire: pairs with the release of the card that has begun */
	if (!ape || !atomic_load_explicit(&ape->card.word, memory_order_acquire))
		return false;
	for (unsigned int d = 0; d < 3; d++)
		if (there[d] >= ape->card.size[d])
			return true;
	return false;
}

static bool find_beyond(const uint8_t sgid[16], const uint8_t dgid[16], struct weft_address *card)
{
	uint16_t member;

	if (is_off_lattice(dgid))
		return false;
	if (!weft_card_summon(sgid, dgid) || !weft_card_with(sgid, &member))
		return false;
	*card = weft_mailbox_address(weft_process.pool, member);
	memcpy(card->far, dgid, 16);
	memcpy(card->near, sgid, 16);
	return card->incarnation;
}

const struct weft_service weft_service = {
	.magic = WEFT_SERVICE_MAGIC,
	.start = start,
	.kick = kick,
	.follow = weft_gids_follow,
	.now_ns = weft_clock_now_ns,
	.post = weft_mailbox_post,
	.take = weft_mailbox_take,
	.alive = weft_pool_alive,
	.port_bind = weft_port_bind,
	.port_listen = weft_port_listen,
	.port_release = weft_port_release,
	.port_find = weft_port_find,
	.reachable = weft_port_reachable,
	.beyond = find_beyond,
	.source = weft_node_source,
	.mtu = weft_interface_mtu,
	.explains = weft_explain_wanted,
};
