/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The order of events in virtual time, against a model that looks through all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "clock.h"

#define EVENTS 200u
#define ROUNDS 20000u

struct game {
	struct weft_sim sim;
	struct weft_sim_event event[EVENTS];
	uint64_t at_ns[EVENTS], order[EVENTS]; /* of the model; order 0: the event is not set */
	uint64_t orders;
	uint64_t trace;
};

static struct game *game_of(struct weft_sim *sim)
{
	return (struct game *)sim;
}

static size_t next_of(const struct game *g)
{
	size_t next = EVENTS;

	for (size_t i = 0; i < EVENTS; i++)
		if (g->order[i] &&
		    (next == EVENTS || g->at_ns[i] < g->at_ns[next] ||
		     (g->at_ns[i] == g->at_ns[next] && g->order[i] < g->order[next])))
			next = i;
	return next;
}

static void set(struct game *g, size_t i, uint64_t at_ns)
{
	assert_int_equal(weft_sim_at(&g->sim, &g->event[i], at_ns), 0);
	g->at_ns[i] = at_ns < g->sim.now_ns ? g->sim.now_ns : at_ns;
	g->order[i] = ++g->orders;
}

static void happen(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct game *g = game_of(sim);
	size_t i = event - g->event;

	assert_int_equal(i, next_of(g));
	assert_int_equal(sim->now_ns, g->at_ns[i]);
	assert_false(weft_sim_is_set(event));
	g->order[i] = 0;
	g->trace = g->trace * 31 + i;
	if (!weft_sim_below(sim, 4))
		set(g, i, sim->now_ns + weft_sim_below(sim, 50));
}

static uint64_t play(uint64_t seed)
{
	struct game *g = calloc(1, sizeof(*g));

	assert_non_null(g);
	weft_sim_begin(&g->sim, seed);
	for (size_t i = 0; i < EVENTS; i++)
		g->event[i].happen = happen;
	for (unsigned int round = 0; round < ROUNDS; round++) {
		size_t i = weft_sim_below(&g->sim, EVENTS);

		switch (weft_sim_below(&g->sim, 4)) {
		case 0:
			weft_sim_cancel(&g->sim, &g->event[i]);
			g->order[i] = 0;
			break;
		case 1:
			weft_sim_run(&g->sim, g->sim.now_ns + weft_sim_below(&g->sim, 20));
			break;
		default:
			set(g, i, weft_sim_below(&g->sim, g->sim.now_ns + 100));
		}
		for (size_t k = 0; k < EVENTS; k++)
			assert_int_equal(weft_sim_is_set(&g->event[k]), g->order[k] != 0);
	}
	uint64_t trace = g->trace;

	weft_sim_end(&g->sim);
	free(g);
	return trace;
}

static void order(void **state)
{
	for (uint64_t seed = 1; seed < 20; seed++)
		play(seed);
}

static void same_by_seed(void **state)
{
	assert_int_equal(play(7), play(7));
	assert_int_not_equal(play(7), play(8));
}

static void time_passes(void **state)
{
	struct weft_sim sim;

	weft_sim_begin(&sim, 1);
	assert_int_equal(weft_sim_run(&sim, 1000), 0);
	assert_int_equal(sim.now_ns, 1000);
	assert_int_equal(weft_sim_run(&sim, 10), 0);
	assert_int_equal(sim.now_ns, 1000);
	for (uint64_t limit = 1; limit < 100; limit++)
		assert_true(weft_sim_below(&sim, limit) < limit);
	weft_sim_end(&sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order),
		cmocka_unit_test(same_by_seed),
		cmocka_unit_test(time_passes),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
