/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One direction of a cable in virtual time: what is sent arrives after its delay, in order, at most
 * one beat a word time, or it is lost, flipped or doubled as the seed decides. The reader's event
 * is set for each arrival.
 */
#ifndef WEFT_SIM_CABLE_H
#define WEFT_SIM_CABLE_H

#include "clock.h"

#define WEFT_SIM_BEAT_QUADS 4u

struct weft_sim_beat {
	uint64_t quad[WEFT_SIM_BEAT_QUADS];
};

/* The owner sets the fields up to the empty line, and leaves the rest zero. */
struct weft_sim_cable {
	uint64_t delay_ns;
	unsigned int quads;
	struct weft_sim_event *reader;	 /* happens when something has arrived */
	uint32_t flips, losses, doubles; /* of a million beats */
	bool cut;			 /* all is lost */

	struct arrival {
		uint64_t at_ns;
		struct weft_sim_beat beat;
	} * ring;
	size_t first, count, room;
	uint64_t sent, lost, flipped, doubled;
};

/* 0, or -ENOMEM: the beat is lost. */
int weft_sim_cable_send(struct weft_sim *sim, struct weft_sim_cable *cable,
			const struct weft_sim_beat *beat);
/* Takes the next beat that has arrived by now. Where more are under way the reader's event is set.
 */
bool weft_sim_cable_take(struct weft_sim *sim, struct weft_sim_cable *cable,
			 struct weft_sim_beat *beat);
void weft_sim_cable_end(struct weft_sim_cable *cable);

#endif
