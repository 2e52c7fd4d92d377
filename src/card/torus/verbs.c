/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Verbs over the torus: the queue pairs that programs of the node hand to the card, with an engine of
 * RoCE v2 for each as over a wire (card/wire.h); but that what an engine sends goes as packets of verbs to the node that has
 * the address (wire/ape/verbs.h), and what comes of them goes to the engines.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "card/torus/torus.h"
#include "card/wire.h"
#include "pool/format_member.h"
#include "process/client.h"
#include "process/node.h"
#include "process/process.h"
#include "wire/ape/verbs.h"
#include "wire/roce/packet.h"

#define SHARE	32u /* packets that a queue pair sends before others have their turn */
#define LOOK_NS 100000000ull
/* A doorbell of a queue pair that its owner is just changing is heard only later. */
#define LISTEN_NS 20000000ull
#define AGAIN_NS  2000000ull

struct weft_torus_verbs {
	struct weft_torus_card *card;
	struct weft_wire wire;
	struct weft_out out;	  /* into the torus */
	uint8_t *memory;	  /* of packets on their way */
	struct weft_ape_coord to; /* where the packet goes that is being written */
	uint8_t *written;	  /* it */
	bool ready;		  /* an engine has more to send */
	bool awake;		  /* doorbells are looked for, whether one was heard or not */
	bool watches; /* there is something of a program that the card looks after now and then */
	bool can_listen; /* the kernel lets a thread sleep at two words */
	bool hung;	 /* programs ring the bell */
	uint64_t look_ns;
	uint64_t
		listen_ns; /* until then doorbells are looked for again, as one could not be heard at once */
};

/* ---- The way of packets to other nodes ---- */

static struct weft_torus_verbs *verbs_with(struct weft_out *out)
{
	return (struct weft_torus_verbs *)((char *)out - offsetof(struct weft_torus_verbs, out));
}

static uint8_t *reserve(struct weft_out *out, const uint8_t to[16], uint32_t bytes)
{
	struct weft_torus_verbs *v = verbs_with(out);

	if (bytes > WEFT_APE_PAYLOAD_BYTES || !weft_node_of_gid(to, v->to.at))
		return NULL;
	v->written = weft_ape_verbs_room(&v->card->engine, v->to);
	return v->written;
}

/* By its headers: the opcode comes first in BTH, and the syndrome in AETH behind that. A NAK is waited for. */
static enum weft_ape_verbs_kind kind_of(const uint8_t *packet)
{
	switch (weft_roce_row(packet[0])->verb) {
	case WEFT_ROCE_ACK:
		return packet[WEFT_ROCE_BTH_BYTES] & WEFT_ROCE_SYNDROME_KIND
			       ? WEFT_APE_VERBS_RESPONSE
			       : WEFT_APE_VERBS_ACK;
	case WEFT_ROCE_RESPONSE:
	case WEFT_ROCE_ATOMIC_RESPONSE:
		return WEFT_APE_VERBS_RESPONSE;
	default:
		return WEFT_APE_VERBS_REQUEST;
	}
}

static void commit(struct weft_out *out, uint32_t bytes)
{
	struct weft_torus_verbs *v = verbs_with(out);

	weft_ape_verbs_put(&v->card->engine, v->to, (uint16_t)bytes, kind_of(v->written),
			   v->card->now_ns);
}

static const struct weft_out_medium torus = {
	.reserve = reserve,
	.commit = commit,
	.message_bytes = WEFT_ROCE_TORUS_MTU,
	.checks = true, /* by the CRC-32C of its footer */
};

void weft_torus_verbs_receive(struct weft_torus_card *c, struct weft_ape_coord from,
			      const uint8_t *payload, uint32_t bytes)
{
	struct weft_udp_datagram d = {.from_port = WEFT_ROCE_PORT,
				      .to_port = WEFT_ROCE_PORT,
				      .at = payload,
				      .bytes = bytes};

	weft_node_gid(from.at, d.from);
	memcpy(d.to, c->verbs->wire.address, sizeof(d.to));
	weft_switch_receive(&c->verbs->wire.sw, &d, c->now_ns, c->now_ns);
}

/* ---- Turns ---- */

static _Atomic bool rung;
static struct weft_torus_door *own_door;

/* The helper's thread. */
static uint64_t knock_own(uint64_t now_ns)
{
	atomic_store_explicit(&rung, true, memory_order_relaxed);
	weft_door_knock(&own_door->door);
	return UINT64_MAX;
}

static const struct weft_helper_client client = {.run = knock_own};

/* That programs ring, where the kernel lets a thread sleep at two words; else they wake the helper. */
static struct weft_pool_bell *own_bell(const struct weft_torus_card *c)
{
	return &c->pool->self->card.bell;
}

static void hang_bell(struct weft_torus_card *c)
{
	if (c->verbs->hung || !c->verbs->can_listen)
		return;
	c->verbs->hung = true;
	c->bell = &own_bell(c)->told;
	/* nothing wakes the card while it is awake */
	atomic_store_explicit(c->bell, 1, memory_order_relaxed);
	atomic_store_explicit(&own_bell(c)->fd, WEFT_BELL_WORD, memory_order_relaxed);
}

static void take_bell_down(struct weft_torus_card *c)
{
	atomic_store_explicit(&own_bell(c)->fd, -1, memory_order_relaxed);
	c->verbs->hung = false;
}

/*
 * Sleep at two words takes the kernel a third longer than at one, so that the bell hangs only while there are programs with
 * verbs. One that has found it just before it is taken down rings it still: it is listened to until the next look.
 */
static void keep_bell(struct weft_torus_card *c)
{
	if (c->verbs->watches)
		hang_bell(c);
	else if (c->verbs->hung)
		take_bell_down(c);
	else
		c->bell = NULL;
}

static bool look_for_rings(struct weft_torus_verbs *v)
{
	bool any = weft_card_look(&v->wire.card);

	v->watches |= any;
	if (v->wire.card.behind)
		v->listen_ns = v->card->now_ns + LISTEN_NS;
	return any;
}

bool weft_torus_verbs_listen(struct weft_torus_card *c)
{
	if (!c->bell)
		return false;
	atomic_store_explicit(c->bell, 0, memory_order_seq_cst);
	/* pairs with the exchange in wake_by_word (pool/wake.c): this card sees what was rung, or is woken */
	atomic_thread_fence(memory_order_seq_cst);
	return look_for_rings(c->verbs);
}

void weft_torus_verbs_get_up(struct weft_torus_card *c)
{
	if (c->bell)
		atomic_store_explicit(c->bell, 1, memory_order_relaxed);
}

bool weft_torus_verbs_wants(const struct weft_torus_card *c)
{
	return c->verbs->wire.sw.ready || c->engine.verbs_room;
}

bool weft_torus_verbs_serve(struct weft_torus_card *c)
{
	struct weft_torus_verbs *v = c->verbs;
	uint64_t before = v->out.packets;
	bool any = false;

	/* before the looks: what rings behind it is heard at the next */
	if (atomic_exchange_explicit(&rung, false, memory_order_seq_cst)) {
		v->listen_ns = c->now_ns + LISTEN_NS;
		v->watches = true; /* until weft_torus_verbs_look finds nothing to look after */
		keep_bell(c);
		weft_manager_look(&v->wire.manager, c->now_ns);
	}
	weft_manager_try(&v->wire.manager, c->now_ns);
	if (c->bell || v->awake || c->now_ns < v->listen_ns || c->now_ns >= v->look_ns) {
		any = look_for_rings(v);
		v->awake = true;
	}
	if (c->engine.verbs_room) {
		c->engine.verbs_room = false;
		weft_wire_resume(&v->wire);
	}
	v->ready = weft_wire_run(&v->wire, SHARE, c->now_ns);
	return any || v->out.packets != before;
}

/* Whether there is anything of a program that the card has to look after: too long a search for each sleep. */
static bool has_anybody(struct weft_wire *wire)
{
	return wire->card.hands || wire->manager.count || weft_card_has_outbox(&wire->card);
}

uint64_t weft_torus_verbs_deadline(const struct weft_torus_card *c)
{
	struct weft_torus_verbs *v = c->verbs;
	uint64_t at_ns = weft_wire_deadline_ns(&v->wire);

	if (v->ready || c->engine.verbs_room || atomic_load_explicit(&rung, memory_order_relaxed))
		return c->now_ns;
	at_ns = at_ns ? at_ns : UINT64_MAX;
	if (c->now_ns < v->listen_ns && c->now_ns + AGAIN_NS < at_ns)
		at_ns = c->now_ns + AGAIN_NS;
	if (v->wire.manager.held && c->now_ns + WEFT_MANAGER_TRY_NS < at_ns)
		at_ns = c->now_ns + WEFT_MANAGER_TRY_NS;
	return v->watches && v->look_ns < at_ns ? v->look_ns : at_ns;
}

void weft_torus_verbs_look(struct weft_torus_card *c)
{
	struct weft_torus_verbs *v = c->verbs;

	v->awake = false;
	if (c->now_ns < v->look_ns)
		return;
	v->look_ns = c->now_ns + LOOK_NS;
	weft_card_sweep(&v->wire.card);
	weft_manager_look(&v->wire.manager, c->now_ns);
	weft_manager_watch(&v->wire.manager, c->now_ns);
	weft_wire_tell(&v->wire);
	weft_pool_watch(c->pool);
	v->watches = has_anybody(&v->wire);
	keep_bell(c);
}

/* ---- Coming and going ---- */

int weft_torus_verbs_begin(struct weft_torus_card *c)
{
	struct weft_torus_verbs *v = calloc(1, sizeof(*v));
	uint8_t gid[16];
	int err;

	if (!v)
		return -ENOMEM;
	v->memory = calloc(1, WEFT_APE_VERBS_MEMORY);
	weft_node_gid(c->engine.config.node.me.at, gid);
	v->out.medium = &torus;
	own_door = c->door;
	weft_helper_serve(&client);
	err = v->memory ? weft_helper_start() : -ENOMEM;
	if (!err)
		err = weft_wire_begin(&v->wire, &weft_process_nic, weft_caller(), gid,
				      128u << WEFT_NODE_MTU, &v->out);
	if (err) {
		weft_helper_serve(NULL);
		weft_helper_stop();
		free(v->memory);
		free(v);
		return err;
	}
	v->card = c;
	weft_ape_verbs_begin(&c->engine, v->memory);
	c->verbs = v;
	v->can_listen = weft_door_can_sleep_beside();
	return 0;
}

void weft_torus_verbs_end(struct weft_torus_card *c)
{
	struct weft_torus_verbs *v = c->verbs;

	take_bell_down(c);
	c->bell = NULL;
	weft_helper_serve(NULL);
	weft_helper_stop();
	weft_wire_tell(&v->wire);
	weft_wire_end(&v->wire);
	weft_ape_verbs_begin(&c->engine, NULL);
	free(v->memory);
	free(v);
	c->verbs = NULL;
}
