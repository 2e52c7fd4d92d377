/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

struct weft_sim_carried {
	struct weft_sim_event event;
	struct weft_sim_wire *wire;
	struct weft_sim_carried *next, **at;
	size_t bytes;
	uint8_t data[];
};

static bool chance(struct weft_sim *sim, uint32_t of_65536)
{
	return of_65536 && weft_sim_below(sim, 65536) < of_65536;
}

static void unlink_it(struct weft_sim_carried *c)
{
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
}

static void arrive(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct weft_sim_carried *c = (struct weft_sim_carried *)event;

	unlink_it(c);
	c->wire->delivered++;
	c->wire->deliver(c->wire, c->data, c->bytes);
	free(c);
}

/* Changes one to four bits of the datagram. */
static void corrupt(struct weft_sim *sim, uint8_t *at, size_t bytes)
{
	for (uint64_t n = 1 + weft_sim_below(sim, 4); n && bytes; n--)
		at[weft_sim_below(sim, bytes)] ^= (uint8_t)(1 << weft_sim_below(sim, 8));
}

/* When a datagram arrives: those that are not drawn to be late keep their order. */
static uint64_t arrival(struct weft_sim_wire *wire, size_t bytes)
{
	struct weft_sim *sim = wire->sim;
	uint64_t at_ns = wire->free_ns > sim->now_ns ? wire->free_ns : sim->now_ns;

	wire->free_ns = at_ns + (bytes * wire->ns_per_byte_1024 >> 10);
	at_ns = wire->free_ns + wire->delay_ns;
	if (chance(sim, wire->late))
		return at_ns + weft_sim_below(sim, wire->late_ns + 1);
	if (at_ns < wire->last_ns)
		at_ns = wire->last_ns;
	wire->last_ns = at_ns;
	return at_ns;
}

static int carry(struct weft_sim_wire *wire, const uint8_t *at, size_t bytes)
{
	struct weft_sim_carried *c = malloc(sizeof(*c) + bytes);

	if (!c)
		return -ENOMEM;
	c->event = (struct weft_sim_event){.happen = arrive};
	c->wire = wire;
	c->bytes = bytes;
	memcpy(c->data, at, bytes);
	if (chance(wire->sim, wire->corrupted))
		corrupt(wire->sim, c->data, bytes);
	if (weft_sim_at(wire->sim, &c->event, arrival(wire, bytes))) {
		free(c);
		return -ENOMEM;
	}
	c->at = &wire->under_way;
	c->next = wire->under_way;
	if (c->next)
		c->next->at = &c->next;
	wire->under_way = c;
	return 0;
}

int weft_sim_wire_send(struct weft_sim_wire *wire, const uint8_t *at, size_t bytes)
{
	wire->sent++;
	if (wire->stopped || chance(wire->sim, wire->lost))
		return 0;
	if (chance(wire->sim, wire->doubled) && carry(wire, at, bytes))
		return -ENOMEM;
	return carry(wire, at, bytes);
}

void weft_sim_wire_end(struct weft_sim_wire *wire)
{
	struct weft_sim_carried *next;

	for (struct weft_sim_carried *c = wire->under_way; c; c = next) {
		next = c->next;
		weft_sim_cancel(wire->sim, &c->event);
		free(c);
	}
	wire->under_way = NULL;
}
