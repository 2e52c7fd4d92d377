/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Virtual time: events happen in the order of their times, and those of one time in the order in
 * which they were set. One seed gives one run, whatever the machine does meanwhile. Everything is
 * called from one thread.
 *
 * A device under simulation embeds a struct weft_sim_event for each timer or message that it has
 * under way; nothing is allocated for an event but a place in the clock's heap.
 */
#ifndef WEFT_SIM_CLOCK_H
#define WEFT_SIM_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weft_sim;
struct weft_sim_event;

/* Called when the event's time has come. The event is unset by then, and may be set again. */
typedef void weft_sim_fn(struct weft_sim *sim, struct weft_sim_event *event);

/* The caller owns it, sets `happen`, and leaves the rest zero. It is freed only while it is not set. */
struct weft_sim_event {
	weft_sim_fn *happen;
	uint64_t at_ns;
	uint64_t order; /* among those of one time; 0: not set */
	size_t place;	/* in the heap */
};

struct weft_sim {
	uint64_t now_ns;
	uint64_t random; /* state of weft_sim_random; the seed to begin with */
	uint64_t happened;
	uint64_t orders;
	struct weft_sim_event **heap;
	size_t count, room;
};

/* Time begins at 1 ns: deadlines of 0 mean that there is none. */
void weft_sim_begin(struct weft_sim *sim, uint64_t seed);
/* Forgets all events that are set, which are the callers'. */
void weft_sim_end(struct weft_sim *sim);

/* Sets the event, or sets it anew. A time that has passed is now. 0, or -ENOMEM: as it was. */
int weft_sim_at(struct weft_sim *sim, struct weft_sim_event *event, uint64_t at_ns);
/* Unsets the event, if it is set. */
void weft_sim_cancel(struct weft_sim *sim, struct weft_sim_event *event);
static inline bool weft_sim_is_set(const struct weft_sim_event *event)
{
	return event->order;
}

/* Makes the next event happen, if its time is until_ns or before. Returns whether there was one. */
bool weft_sim_step(struct weft_sim *sim, uint64_t until_ns);
/* Makes all events until then happen; then it is until_ns. The number of those that happened. */
uint64_t weft_sim_run(struct weft_sim *sim, uint64_t until_ns);

/* The next 64 bits that the seed decides. */
uint64_t weft_sim_random(struct weft_sim *sim);
/* Evenly among 0 … limit - 1, limit > 0; off by less than limit / 2^64. */
uint64_t weft_sim_below(struct weft_sim *sim, uint64_t limit);

#endif
