/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "cable.h"

#define MILLION 1000000u

static int grow(struct weft_sim_cable *c)
{
	size_t room = c->room ? 2 * c->room : 16;
	struct arrival *ring = malloc(room * sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	for (size_t i = 0; i < c->count; i++)
		ring[i] = c->ring[(c->first + i) % c->room];
	free(c->ring);
	c->ring = ring;
	c->room = room;
	c->first = 0;
	return 0;
}

static int wake(struct weft_sim *sim, struct weft_sim_event *reader, uint64_t at_ns)
{
	if (weft_sim_is_set(reader) && reader->at_ns <= at_ns)
		return 0;
	return weft_sim_at(sim, reader, at_ns);
}

static int put(struct weft_sim *sim, struct weft_sim_cable *c, const struct weft_sim_beat *beat)
{
	uint64_t at_ns = sim->now_ns + c->delay_ns;

	if (c->count == c->room && grow(c))
		return -ENOMEM;
	c->ring[(c->first + c->count++) % c->room] = (struct arrival){at_ns, *beat};
	return wake(sim, c->reader, at_ns);
}

int weft_sim_cable_send(struct weft_sim *sim, struct weft_sim_cable *c,
			const struct weft_sim_beat *beat)
{
	struct weft_sim_beat sent = *beat;
	int err;

	c->sent++;
	if (c->cut || (c->losses && weft_sim_below(sim, MILLION) < c->losses)) {
		c->lost++;
		return 0;
	}
	if (c->flips && weft_sim_below(sim, MILLION) < c->flips) {
		uint64_t bit = weft_sim_below(sim, 64 * c->quads);

		c->flipped++;
		sent.quad[bit / 64] ^= 1ull << bit % 64;
	}
	err = put(sim, c, &sent);
	if (!err && c->doubles && weft_sim_below(sim, MILLION) < c->doubles) {
		c->doubled++;
		err = put(sim, c, &sent);
	}
	return err;
}

bool weft_sim_cable_take(struct weft_sim *sim, struct weft_sim_cable *c, struct weft_sim_beat *beat)
{
	if (!c->count)
		return false;
	if (c->ring[c->first].at_ns > sim->now_ns) {
		wake(sim, c->reader, c->ring[c->first].at_ns);
		return false;
	}
	*beat = c->ring[c->first].beat;
	c->first = (c->first + 1) % c->room;
	c->count--;
	return true;
}

void weft_sim_cable_end(struct weft_sim_cable *c)
{
	free(c->ring);
	c->ring = NULL;
	c->count = c->room = 0;
}
