/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The events are a binary heap: each comes before the two at twice its place, plus one and two. */
#include <errno.h>
#include <stdlib.h>

#include "clock.h"
#include "stream/random.h"

static bool before(const struct weft_sim_event *a, const struct weft_sim_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void put(struct weft_sim *sim, struct weft_sim_event *event, size_t place)
{
	sim->heap[place] = event;
	event->place = place;
}

/* Puts the event where its time belongs, up or down the heap from the place, which is empty. */
static void settle(struct weft_sim *sim, struct weft_sim_event *event, size_t place)
{
	while (place && before(event, sim->heap[(place - 1) / 2])) {
		put(sim, sim->heap[(place - 1) / 2], place);
		place = (place - 1) / 2;
	}
	for (;;) {
		size_t next = 2 * place + 1;

		if (next + 1 < sim->count && before(sim->heap[next + 1], sim->heap[next]))
			next++;
		if (next >= sim->count || before(event, sim->heap[next]))
			break;
		put(sim, sim->heap[next], place);
		place = next;
	}
	put(sim, event, place);
}

void weft_sim_begin(struct weft_sim *sim, uint64_t seed)
{
	*sim = (struct weft_sim){.now_ns = 1, .random = seed};
}

void weft_sim_end(struct weft_sim *sim)
{
	for (size_t i = 0; i < sim->count; i++)
		sim->heap[i]->order = 0;
	free(sim->heap);
	*sim = (struct weft_sim){0};
}

int weft_sim_at(struct weft_sim *sim, struct weft_sim_event *event, uint64_t at_ns)
{
	if (!weft_sim_is_set(event) && sim->count == sim->room) {
		size_t room = sim->room ? 2 * sim->room : 64;
		struct weft_sim_event **heap = realloc(sim->heap, room * sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		sim->heap = heap;
		sim->room = room;
	}
	size_t place = weft_sim_is_set(event) ? event->place : sim->count++;

	event->at_ns = at_ns < sim->now_ns ? sim->now_ns : at_ns;
	event->order = ++sim->orders;
	settle(sim, event, place);
	return 0;
}

void weft_sim_cancel(struct weft_sim *sim, struct weft_sim_event *event)
{
	if (!weft_sim_is_set(event))
		return;
	struct weft_sim_event *last = sim->heap[--sim->count];

	event->order = 0;
	if (last != event)
		settle(sim, last, event->place);
}

bool weft_sim_step(struct weft_sim *sim, uint64_t until_ns)
{
	if (!sim->count || sim->heap[0]->at_ns > until_ns)
		return false;
	struct weft_sim_event *event = sim->heap[0];

	weft_sim_cancel(sim, event);
	sim->now_ns = event->at_ns;
	sim->happened++;
	event->happen(sim, event);
	return true;
}

uint64_t weft_sim_run(struct weft_sim *sim, uint64_t until_ns)
{
	uint64_t before_it = sim->happened;

	while (weft_sim_step(sim, until_ns))
		;
	if (sim->now_ns < until_ns)
		sim->now_ns = until_ns;
	return sim->happened - before_it;
}

uint64_t weft_sim_random(struct weft_sim *sim)
{
	return splitmix64(&sim->random);
}

uint64_t weft_sim_below(struct weft_sim *sim, uint64_t limit)
{
	return (uint64_t)((unsigned __int128)weft_sim_random(sim) * limit >> 64);
}
