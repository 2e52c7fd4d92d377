/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "mailbox/port.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "pool/address.h"
#include "pool/clock.h"
#include "pool/internal.h"
#include "pool/step.h"
#include "pool/format_mailbox.h"
#include "pool/format_member.h"

/* As Linux has it (ip_local_port_range). */
#define EPHEMERAL_FIRST 32768u
#define EPHEMERAL_PORTS 28232u

#define PORTS_AT_FIRST	64u

#define FLAGS		((1u << WEFT_PORT_LEFT_SHIFT) - 1u)

/* ---- The lock ---- */

static int lock(struct weft_attachment *a, int *key)
{
	*key = weft_enter(a);
	return *key < 0 ? *key : 0;
}

static void unlock(struct weft_attachment *a, int key)
{
	weft_leave(a, key);
}

/* ---- Ports that were left ---- */

static uint32_t left_now(void)
{
	return (uint32_t)(weft_clock_now_ns() >> WEFT_PORT_LEFT_UNIT) << WEFT_PORT_LEFT_SHIFT;
}

/* The times of another host are its own. */
static bool left_lately(const struct weft_pool *pool, uint16_t member, uint32_t flags)
{
	uint32_t units = (left_now() - (flags & ~FLAGS)) >> WEFT_PORT_LEFT_SHIFT;

	return weft_is_near(pool, member) && units <= WEFT_PORT_HELD_NS >> WEFT_PORT_LEFT_UNIT;
}

/* ---- Walking: every port of every member that seems to be there ---- */

struct walk {
	struct weft_pool *pool;
	uint32_t sought; /* ports with one of these flags */
	uint16_t member;
	uint32_t index; /* of the next */
	struct weft_pool_member *m;
	uint64_t incarnation;
	struct weft_pool_port *ports; /* so many, of a member that is visited; else NULL */
	uint32_t count;
};

static void visit(struct walk *w)
{
	w->incarnation = atomic_load_explicit(&w->m->incarnation, memory_order_acquire);
	if (!w->incarnation || !w->m->ports)
		return;
	weft_pool_visit(w->pool, w->member);
	w->index = 0;
	w->count = w->m->ports;
	if (w->count)
		w->ports = weft_pool_window(w->pool, w->m->ports_off, w->count * sizeof(*w->ports));
	if (!w->ports)
		weft_pool_depart(w->pool);
}

/* For a caller that does not walk to the end. */
static void end_walk(struct walk *w)
{
	if (w->ports)
		weft_pool_depart(w->pool);
	w->ports = NULL;
}

static bool next_member(struct walk *w)
{
	end_walk(w);
	w->member = w->m ? w->member + 1 : 0;
	for (; (w->member = weft_pool_next(w->pool, w->member)) < WEFT_MEMBERS; w->member++) {
		w->m = weft_pool_member(w->pool, w->member);
		if (!w->m)
			return false;
		visit(w);
		if (w->ports)
			return true;
	}
	return false;
}

static struct weft_pool_port *next_port(struct walk *w)
{
	do {
		while (w->ports && w->index < w->count) {
			struct weft_pool_port *p = &w->ports[w->index++];

			/* acquire: pairs with the release in take_entry */
			if (atomic_load_explicit(&p->flags, memory_order_acquire) & w->sought)
				return p;
		}
	} while (next_member(w));
	return NULL;
}

/* Whether the member is in our network namespace: numbers of namespaces are a kernel's own. */
static bool is_beside(const struct walk *w)
{
	return weft_is_near(w->pool, w->member) && w->m->net_ns == w->pool->self->net_ns;
}

/* ---- Binding ---- */

/* Whether two ports of the same number and space stand in each other's way; 0 or why. */
static int clash(const struct weft_pool_port *a, const struct weft_pool_port *b)
{
	uint32_t both = a->flags & b->flags, either = a->flags | b->flags;

	if (both & WEFT_PORT_SHARED && !(either & WEFT_PORT_LISTENS))
		return 0;
	if (both & WEFT_PORT_ONE_FAMILY &&
	    weft_address_is_ipv4(a->addr) != weft_address_is_ipv4(b->addr))
		return 0;
	if (weft_address_is_any(a->addr) || weft_address_is_any(b->addr))
		return -EADDRNOTAVAIL;
	return memcmp(a->addr, b->addr, 16) ? 0 : -EADDRINUSE;
}

static int find_clash(struct weft_pool *pool, const struct weft_pool_port *want,
		      const struct weft_pool_port *self)
{
	struct walk w = {.pool = pool, .sought = WEFT_PORT_BOUND};
	const struct weft_pool_port *p;

	int err = 0;

	while (!err && (p = next_port(&w))) {
		if (p == self || p->port != want->port || p->space != want->space || !is_beside(&w))
			continue;
		err = clash(p, want);
		if (err && !weft_pool_alive(pool, w.member, w.incarnation))
			err = 0;
	}
	end_walk(&w);
	return err;
}

static int find_ephemeral(struct weft_pool *pool, struct weft_pool_port *want)
{
	uint32_t start = 0;

	if (getrandom(&start, sizeof(start), GRND_NONBLOCK) < 0)
		start = pool->me * 64u;
	for (uint32_t i = 0; i < EPHEMERAL_PORTS; i++) {
		want->port = (uint16_t)(EPHEMERAL_FIRST + (start + i) % EPHEMERAL_PORTS);
		if (!find_clash(pool, want, NULL))
			return 0;
	}
	want->port = 0;
	return -EADDRNOTAVAIL;
}

static struct weft_pool_port *own(struct weft_pool *pool, uint32_t index)
{
	return (struct weft_pool_port *)(pool->base + weft_attachment(pool)->ports_off) + index;
}

/* Twice as many entries as `old`. The allocator takes the file lock itself. */
static int grow(struct weft_pool *pool, uint32_t old)
{
	struct weft_attachment *a = weft_attachment(pool);
	struct weft_pool_member *self = pool->self;
	uint32_t ports = old ? old * 2 : PORTS_AT_FIRST;
	uint64_t off, spare;
	int key, err = weft_pool_alloc(pool, ports * sizeof(struct weft_pool_port), &off);

	if (err)
		return err;
	spare = off;
	err = lock(a, &key);
	if (!err && a->ports == old) {
		spare = a->ports_off;
		if (old)
			memcpy(pool->base + off, pool->base + spare,
			       old * sizeof(struct weft_pool_port));
		self->ports_off = a->ports_off = off;
		WEFT_STEP(port_table_half);
		self->ports = a->ports = ports;
		ports = old;
	}
	if (!err)
		unlock(a, key);
	if (ports)
		weft_pool_free(pool, spare, ports * sizeof(struct weft_pool_port));
	return err;
}

/* -EOVERFLOW: there is no entry left. */
static int take_entry(struct weft_pool *pool, const struct weft_pool_port *want, uint32_t *index)
{
	for (uint32_t i = 0; i < weft_attachment(pool)->ports; i++) {
		struct weft_pool_port *p = own(pool, i);

		if (p->flags && !(p->flags & WEFT_PORT_LEFT))
			continue;
		*p = *want;
		WEFT_STEP(port_written);
		/* release: pairs with the acquire in next_port */
		atomic_store_explicit(&p->flags, p->flags | WEFT_PORT_BOUND, memory_order_release);
		WEFT_STEP(port_bound);
		*index = i;
		return 0;
	}
	return -EOVERFLOW;
}

int weft_port_bind(struct weft_pool *pool, struct weft_pool_port *want, uint32_t *index)
{
	struct weft_attachment *a = weft_attachment(pool);
	uint16_t port = want->port;
	uint32_t entries;
	int key, err;

	do {
		err = lock(a, &key);
		if (err)
			return err;
		err = port ? find_clash(pool, want, NULL) : find_ephemeral(pool, want);
		if (!err)
			err = take_entry(pool, want, index);
		entries = a->ports;
		unlock(a, key);
	} while (err == -EOVERFLOW && !grow(pool, entries));
	return err == -EOVERFLOW ? -ENOMEM : err;
}

int weft_port_listen(struct weft_pool *pool, uint32_t index)
{
	struct weft_attachment *a = weft_attachment(pool);
	struct weft_pool_port listening;
	int key, err = lock(a, &key);

	if (err)
		return err;
	listening = *own(pool, index);
	weft_store(&listening.flags, listening.flags | WEFT_PORT_LISTENS);
	err = find_clash(pool, &listening, own(pool, index));
	if (!err)
		weft_store(&own(pool, index)->flags, listening.flags);
	WEFT_STEP(port_listening);
	unlock(a, key);
	return err;
}

void weft_port_release(struct weft_pool *pool, uint32_t index)
{
	struct weft_pool_port *p = own(pool, index);
	uint32_t flags = atomic_load_explicit(&p->flags, memory_order_relaxed), left = 0;

	if (flags & WEFT_PORT_LISTENS)
		left = left_now() | WEFT_PORT_LEFT | (flags & WEFT_PORT_ONE_FAMILY);
	WEFT_STEP(port_releasing);
	/* one store: a member that looks at it meanwhile, with the lock, finds a port just before or just after */
	atomic_store_explicit(&p->flags, left, memory_order_relaxed);
}

/* ---- Finding ---- */

static bool is_here(struct weft_pool *pool, const uint8_t addr[16])
{
	return weft_address_is_loopback(addr) || weft_member_has_gid(pool->self, addr);
}

/* How well a port fits, a listening one better. */
enum fit {
	FITS_NOT,
	FITS_UNHEARD,
	FITS_ANY,
	FITS_EXACTLY,
};

static enum fit fit(const struct weft_pool_port *p, const struct weft_pool_port *wanted)
{
	bool any = weft_address_is_any(p->addr);

	if (p->port != wanted->port || p->space != wanted->space ||
	    (!any && memcmp(p->addr, wanted->addr, 16)) ||
	    (any && p->flags & WEFT_PORT_ONE_FAMILY &&
	     weft_address_is_ipv4(p->addr) != weft_address_is_ipv4(wanted->addr)))
		return FITS_NOT;
	if (!(p->flags & WEFT_PORT_LISTENS))
		return FITS_UNHEARD;
	return any ? FITS_ANY : FITS_EXACTLY;
}

/* Whether an address means the member. One of ours may be another host's, too: ours comes first. */
enum meant {
	MEANT_NOT,
	MEANT_ELSEWHERE,
	MEANT,
};

static enum meant meant_by(const struct walk *w, const uint8_t addr[16], bool here)
{
	if (here && is_beside(w))
		return MEANT;
	if (here && (weft_is_near(w->pool, w->member) || weft_address_is_loopback(addr)))
		return MEANT_NOT;
	if (!weft_member_has_gid(w->m, addr))
		return MEANT_NOT;
	return here ? MEANT_ELSEWHERE : MEANT;
}

/* The best that was found so far. */
struct found {
	enum fit fit;
	enum meant meant;
	struct weft_address owner;
	bool also_elsewhere; /* another host has one as good */
};

/* A listener where the address is meant comes before any of another host that has it, too, and that before
 * none. */
static int order(enum fit fit, enum meant meant)
{
	return fit <= FITS_UNHEARD ? (int)fit : (int)meant * (FITS_EXACTLY + 1) + (int)fit;
}

static void consider(struct weft_pool *pool, struct found *f, const struct walk *w, enum fit fit,
		     enum meant meant)
{
	int now = order(fit, meant), best = order(f->fit, f->meant);

	if (fit == FITS_NOT || !meant || now < best ||
	    !weft_pool_alive(pool, w->member, w->incarnation))
		return;
	if (now == best) {
		f->also_elsewhere |=
			weft_host_of(pool, w->member) != weft_host_of(pool, f->owner.member);
		return;
	}
	*f = (struct found){
		fit, meant, {.member = w->member, .incarnation = w->incarnation}, false};
}

int weft_port_find(struct weft_pool *pool, const struct weft_pool_port *wanted,
		   struct weft_address *owner)
{
	struct weft_attachment *a = weft_attachment(pool);
	bool here = is_here(pool, wanted->addr);
	struct walk w = {.pool = pool, .sought = WEFT_PORT_BOUND | WEFT_PORT_LEFT};
	struct found found = {.fit = FITS_NOT};
	const struct weft_pool_port *p;
	int key, err = lock(a, &key);

	if (err)
		return err;
	while ((p = next_port(&w)))
		if (!(p->flags & WEFT_PORT_LEFT) || left_lately(pool, w.member, p->flags))
			consider(pool, &found, &w, fit(p, wanted),
				 meant_by(&w, wanted->addr, here));
	unlock(a, key);
	*owner = found.owner;
	if (found.fit <= FITS_UNHEARD)
		return found.fit == FITS_UNHEARD ? -EAGAIN : -ECONNREFUSED;
	return found.also_elsewhere ? -ENOTUNIQ : 0;
}

bool weft_port_reachable(struct weft_pool *pool, const uint8_t addr[16])
{
	bool found = is_here(pool, addr);

	for (uint16_t i = 0; !found && (i = weft_pool_next(pool, i)) < WEFT_MEMBERS; i++) {
		struct weft_pool_member *m = weft_pool_member(pool, i);
		uint64_t incarnation =
			m ? atomic_load_explicit(&m->incarnation, memory_order_acquire) : 0;

		found = incarnation && weft_member_has_gid(m, addr) &&
			weft_pool_alive(pool, i, incarnation);
	}
	return found;
}
