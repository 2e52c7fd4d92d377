/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The card's cables: rings of this host, or datagrams; and a thread that listens for datagrams, as the card sleeps elsewhere. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "card/torus/torus.h"
#include "link/udp.h"

#define STARVED_NS     30000000000u    /* so long a neighbour that lives may be silent */
#define DATAGRAMS_ONCE 8u	       /* of a cable, in a turn */
#define PORTS	       WEFT_APE_CABLES /* of a node */

static const uint8_t this_host[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};

/* ---- Opening ---- */

static uint32_t node_index(const struct weft_torus_card *c, struct weft_ape_coord at)
{
	return weft_ape_lattice_index(&c->engine.config.node.lattice, at);
}

/* One for each direction of a cable, that no other has: a step of splitmix64. */
static uint64_t cookie_of(const struct weft_torus_card *c, struct weft_ape_coord at,
			  unsigned int which)
{
	uint64_t z =
		c->shape.cookie + 0x9e3779b97f4a7c15ull * (node_index(c, at) * PORTS + which + 1);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Where a node hears the cable; 0: it says so in its ring, when it is there. */
static uint16_t cable_port(const struct weft_torus_card *c, struct weft_ape_coord at,
			   unsigned int which)
{
	uint32_t node = node_index(c, at), part = weft_torus_part(&c->shape, node);
	uint32_t base = c->shape.at[part].port;

	return base ? (uint16_t)(base + (node - weft_torus_first(&c->shape, part)) * PORTS + which)
		    : 0;
}

static int open_udp(struct weft_torus_card *c, unsigned int which, struct weft_ape_coord other)
{
	struct weft_torus_cable *cable = &c->cable[which];
	struct weft_ape_coord me = c->engine.config.node.me;
	uint32_t part = weft_torus_part(&c->shape, node_index(c, other));
	bool is_here = part == c->shape.part;
	int err;

	cable->udp = malloc(sizeof(*cable->udp));
	if (!cable->udp)
		return -ENOMEM;
	err = weft_cable_udp_open(cable->udp, c->shape.at[c->shape.part].address,
				  cable_port(c, me, which), cable->out.quads);
	if (err)
		return err;
	cable->udp->cookie_out = cookie_of(c, me, which);
	cable->udp->cookie_in = cookie_of(c, other, which ^ 1);
	memcpy(cable->udp->to, is_here ? this_host : c->shape.at[part].address,
	       sizeof(cable->udp->to));
	cable->udp->to_port = cable_port(c, other, which ^ 1);
	cable->carried = cable->out.mine;
	atomic_store_explicit(&cable->out.file->port, weft_udp_port(cable->udp->udp),
			      memory_order_relaxed);
	return 0;
}

static int open_rings(struct weft_torus_card *c, const char *home, unsigned int which,
		      struct weft_ape_coord other)
{
	struct weft_torus_cable *cable = &c->cable[which];
	char path[PATH_MAX];
	int err = weft_torus_cable(home, other.at, which ^ 1, path);

	if (!err)
		err = weft_ring_open(&cable->in, path, true);
	if (!err)
		err = weft_torus_node(home, other.at, "door", path);
	if (err)
		return err;
	if (cable->in.quads != cable->out.quads)
		return -EPROTO;
	cable->door = weft_torus_door_open(path, true, &cable->lock);
	return cable->door ? 0 : -errno;
}

static int open_cable(struct weft_torus_card *c, const char *home, unsigned int which,
		      struct weft_ape_coord other)
{
	struct weft_torus_cable *cable = &c->cable[which];
	bool is_here = weft_torus_is_here(&c->shape, node_index(c, other));
	char path[PATH_MAX];
	int err = weft_torus_cable(home, c->engine.config.node.me.at, which, path);

	if (!err)
		err = weft_ring_open(&cable->out, path, false);
	if (!err && cable->out.quads != weft_torus_ring_quads(&c->shape))
		err = -EPROTO;
	if (!err && is_here)
		err = open_rings(c, home, which, other);
	if (!err && (!is_here || c->shape.link == WEFT_TORUS_UDP))
		err = open_udp(c, which, other);
	if (!err)
		err = weft_torus_lanes_begin(c, cable);
	cable->there = !err;
	if (is_here)
		c->near |= 1u << which;
	return err;
}

/* ---- Datagrams that come while the card sleeps ---- */

static _Atomic bool heard;

static void *listen_for_card(void *card)
{
	struct weft_torus_card *c = card;
	struct epoll_event event;

	while (epoll_wait(c->ear, &event, 1, -1) >= 0 || errno == EINTR) {
		/* release: pairs with the acquire in weft_torus_cables_take */
		atomic_store_explicit(&heard, true, memory_order_release);
		weft_door_knock(&c->door->door);
	}
	return NULL;
}

/* It is told of each datagram that finds the socket without one. */
static int hear_datagrams(struct weft_torus_card *c)
{
	bool any = false;
	int err;

	c->ear = epoll_create1(EPOLL_CLOEXEC);
	if (c->ear < 0)
		return -errno;
	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++) {
		struct epoll_event event = {.events = EPOLLIN | EPOLLET};

		if (!c->cable[i].udp)
			continue;
		any = true;
		if (epoll_ctl(c->ear, EPOLL_CTL_ADD, weft_udp_fd(c->cable[i].udp->udp), &event))
			return -errno;
	}
	err = any ? -pthread_create(&c->listener, NULL, listen_for_card, c) : 0;
	c->listens = any && !err;
	return err;
}

int weft_torus_cables_open(struct weft_torus_card *c, const char *home)
{
	const struct weft_ape_node_config *node = &c->engine.config.node;
	struct weft_ape_coord other;
	int err = 0;

	for (unsigned int i = 0; i < WEFT_APE_CABLES && !err; i++)
		if (weft_ape_lattice_neighbour(&node->lattice, node->me, i, &other))
			err = open_cable(c, home, i, other);
	return err ? err : hear_datagrams(c);
}

/* ---- Beats that come ---- */

static void take_run(struct weft_torus_card *c, unsigned int which, const uint64_t *quad,
		     uint32_t count)
{
	c->cable[which].silent_ns = 0;
	if (c->cable[which].phy)
		weft_torus_lanes_receive(c, which, quad, count);
	else
		weft_ape_ni_beats(&c->engine, which, quad, count, c->now_ns);
}

static bool take_arrivals(struct weft_torus_card *c, unsigned int which)
{
	struct weft_cable_udp *u = c->cable[which].udp;
	uint32_t beats;
	bool more, came = false;

	for (unsigned int n = 0; n < DATAGRAMS_ONCE; n++) {
		beats = weft_cable_udp_receive(u, &more);
		if (!more)
			return came;
		take_run(c, which, u->beats, beats);
		came = true;
	}
	atomic_store_explicit(&heard, true, memory_order_relaxed);
	return came;
}

static bool take_ring(struct weft_torus_card *c, unsigned int which)
{
	struct weft_torus_cable *cable = &c->cable[which];
	uint32_t left, run;
	const uint64_t *quad;

	for (left = WEFT_TORUS_BURST; left; left -= run) {
		run = weft_ring_look(&cable->in, left, &quad);
		if (!run)
			break;
		take_run(c, which, quad, run);
		weft_ring_skip(&cable->in, run);
		cable->took = true;
	}
	return left != WEFT_TORUS_BURST;
}

bool weft_torus_cables_take(struct weft_torus_card *c)
{
	/* acquire: pairs with the release in listen_for_card */
	bool listen = atomic_exchange_explicit(&heard, false, memory_order_acquire);
	bool came = false;

	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++) {
		if (!c->cable[i].there)
			continue;
		if (c->cable[i].udp)
			came |= listen && take_arrivals(c, i);
		else
			came |= take_ring(c, i);
	}
	return came;
}

/* ---- Cuts ---- */

static bool is_cut(const struct weft_cable_ring *ring)
{
	return ring->file && atomic_load_explicit(&ring->file->cut, memory_order_relaxed);
}

/* A cut is in the files, where both ends see it at once: neither waits for what cannot come, nor for room to send what is lost. */
void weft_torus_cables_look_for_cuts(struct weft_torus_card *c)
{
	struct weft_ape_node *n = &c->engine.node;

	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++) {
		if (!c->cable[i].there)
			continue;
		weft_ape_node_sever(n, i, is_cut(&c->cable[i].out));
		if (n->hears >> i & 1 && is_cut(&c->cable[i].in))
			weft_ape_node_down(n, i);
	}
}

/* ---- Beats that go ---- */

/* A burst, with markers between its beats. */
static uint32_t room_wanted(const struct weft_torus_cable *cable)
{
	return cable->phy ? 2 * WEFT_TORUS_BURST : WEFT_TORUS_BURST;
}

/* Cables without room for a burst take no beat in this turn. */
void weft_torus_cables_look_for_room(struct weft_torus_card *c)
{
	c->engine.node.full = 0;
	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++)
		if (c->cable[i].there &&
		    !weft_ring_has_room(&c->cable[i].out, room_wanted(&c->cable[i])))
			c->engine.node.full |= 1u << i;
}

bool weft_torus_cables_have_room(struct weft_torus_card *c)
{
	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++)
		if (c->engine.node.full >> i & 1 &&
		    weft_ring_has_room(&c->cable[i].out, room_wanted(&c->cable[i])))
			return true;
	return false;
}

/* What was shown since is sent; the ring keeps it for those that look at it. */
static void carry(struct weft_torus_cable *cable)
{
	struct weft_cable_ring *out = &cable->out;

	if (cable->carried == out->shown)
		return;
	if (!cable->udp->to_port)
		cable->udp->to_port =
			(uint16_t)atomic_load_explicit(&cable->in.file->port, memory_order_relaxed);
	while (cable->carried != out->shown) {
		uint32_t at = (uint32_t)(cable->carried & (out->beats - 1));
		uint64_t count = out->shown - cable->carried;
		uint32_t run = count < out->beats - at ? (uint32_t)count : out->beats - at;

		weft_cable_udp_send(cable->udp, out->file->quad + (size_t)at * out->quads, run);
		cable->carried += run;
	}
	weft_ring_pass(out);
}

bool weft_torus_cables_exchange(struct weft_torus_card *c)
{
	bool more = atomic_load_explicit(&heard, memory_order_relaxed);
	uint64_t shown;

	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++) {
		struct weft_torus_cable *cable = &c->cable[i];

		if (!cable->there)
			continue;
		shown = cable->out.shown;
		cable->due_ns = weft_ring_show(&cable->out, c->now_ns);
		cable->brought |= cable->out.shown != shown;
		more |= cable->out.shown != shown;
		if (cable->udp)
			carry(cable);
		else
			more |= weft_ring_give_back(&cable->in);
	}
	return more;
}

uint64_t weft_torus_cables_deadline(const struct weft_torus_card *c)
{
	uint64_t first = UINT64_MAX;

	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++)
		if (c->cable[i].due_ns && c->cable[i].due_ns < first)
			first = c->cable[i].due_ns;
	return first;
}

void weft_torus_cables_knock(struct weft_torus_card *c)
{
	/* pairs with the fence in weft_ring_has_room (link/ring.c) */
	atomic_thread_fence(memory_order_seq_cst);
	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++) {
		struct weft_torus_cable *cable = &c->cable[i];

		if (!cable->there || cable->udp || (!cable->brought && !cable->took))
			continue;
		if (cable->brought || weft_ring_is_awaited(&cable->in))
			weft_door_knock(&cable->door->door);
		cable->brought = cable->took = false;
	}
}

/* One that lives waits for a core, with many programs on few, or was stopped. */
void weft_torus_cables_doubt(struct weft_torus_card *c)
{
	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++) {
		struct weft_torus_cable *cable = &c->cable[i];

		if (!(c->engine.node.doubted >> i & 1))
			continue;
		if (!cable->silent_ns)
			cable->silent_ns = c->now_ns;
		if (cable->door && c->now_ns - cable->silent_ns < STARVED_NS &&
		    weft_torus_door_is_locked(cable->lock))
			weft_ape_node_vouch(&c->engine.node, i, c->now_ns);
	}
}

void weft_torus_cables_close(struct weft_torus_card *c)
{
	if (c->listens) {
		pthread_cancel(c->listener);
		pthread_join(c->listener, NULL);
	}
	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++) {
		weft_ring_close(&c->cable[i].out);
		weft_ring_close(&c->cable[i].in);
		if (c->cable[i].door)
			close(c->cable[i].lock);
		if (c->cable[i].udp)
			weft_cable_udp_close(c->cable[i].udp);
		free(c->cable[i].udp);
		free(c->cable[i].phy);
	}
}
