/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The engine behind a network with faults, in virtual time. A model that remembers everything says of
 * each datagram what it is; each counter, each place, each record and its time must be that. The
 * arguments are the first seed and how many; what fails names its seed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"
#include "wire/nanet/nanet.h"

#define ARRIVALS	 4000u
#define BUFFERS		 8u
#define BYTES		 8192u
#define SLOTS		 64u
#define BUFFER_DATAGRAMS 1024u

/* What a buffer of a list must hold, by the model. */
struct held {
	struct weft_sim_event give_back;
	struct game *game;
	uint32_t list, buffer;
	enum weft_clop_state state;
	uint32_t generation, used, datagrams, events;
	uint64_t first_ns, last_ns;
	uint32_t numbers;
	__int128 number[BUFFER_DATAGRAMS], block;
	bool taken[SLOTS];
};

struct list {
	struct weft_clop_options options;
	struct held held[BUFFERS];
	uint8_t memory[BUFFERS][BYTES];
	uint32_t sources, next;
	bool numbered, has_closed;
	__int128 closed;
};

struct source {
	struct weft_nanet_source_options options;
	bool seen[NETWORK_RUNS][NETWORK_SENDS], came[NETWORK_RUNS], begun;
	uint32_t run, low[NETWORK_RUNS], high[NETWORK_RUNS], first[NETWORK_RUNS];
	struct weft_nanet_counters counters;
	uint64_t restarts;
};

struct game {
	struct weft_sim sim;
	struct network network;
	struct network_arrival arrival[ARRIVALS];
	struct source source[NETWORK_SOURCES];
	struct list list[NETWORK_SOURCES];
	struct weft_nanet_options options;
	struct weft_nanet *engine;
	struct weft_nanet_out out;
	struct weft_sim_event timer, batch_event;
	struct network_arrival batch[WEFT_NANET_RUN];
	uint32_t batched;
	uint64_t seed, told, trace;
};

static struct game *game;
static uint64_t accounts; /* compared with what the sender knows */

static void require_at(bool ok, const char *what, int line)
{
	if (ok)
		return;
	printf("not ok: seed %llu, %llu ns, line %d: %s\n", (unsigned long long)game->seed,
	       (unsigned long long)game->sim.now_ns, line, what);
	exit(1);
}
#define require(ok) require_at(ok, #ok, __LINE__)

static uint64_t below(uint64_t limit)
{
	return weft_sim_below(&game->sim, limit);
}

static void trace(const void *data, size_t bytes)
{
	const uint8_t *at = data;

	while (bytes--)
		game->trace = (game->trace ^ *at++) * 0x100000001b3ull;
}

/* ---- What a datagram is, by the model ---- */

enum what { PLACE, BAD, DUPLICATE, LATE, NO_BUFFER };

static __int128 floor_div(__int128 a, __int128 b)
{
	return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static __int128 number_of(const struct source *s, const struct network_arrival *a)
{
	uint64_t field = network_field(&game->network.source[a->source], a->run, s->first[a->run]);

	return (__int128)(field / s->options.protocol.step) + a->index - s->first[a->run];
}

/* Judges a datagram by its number, and says whether it begins a numbering, is of the one before, or behind the highest. */
static enum what judge_number(struct source *s, const struct network_arrival *a, bool *restarted,
			      bool *straggler, bool *behind)
{
	*restarted = s->begun && a->run > s->run;
	*straggler = s->begun && a->run < s->run;
	if (!s->begun || *restarted) {
		s->begun = s->came[a->run] = true;
		s->run = a->run;
		s->restarts += *restarted;
		s->low[a->run] = s->high[a->run] = s->first[a->run] = a->index;
		s->seen[a->run][a->index] = true;
		return PLACE;
	}
	if (s->seen[a->run][a->index])
		return DUPLICATE;
	s->seen[a->run][a->index] = true;
	*behind = a->index < s->high[a->run];
	if (a->index < s->low[a->run])
		s->low[a->run] = a->index;
	if (a->index > s->high[a->run])
		s->high[a->run] = a->index;
	return s->high[a->run] - a->index > s->options.window ? LATE : PLACE;
}

static uint32_t free_of(const struct list *l)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < l->options.buffers; i++)
		count += l->held[i].state == WEFT_CLOP_STATE_FREE;
	return count;
}

static struct held *open_of(struct list *l, __int128 block)
{
	for (uint32_t i = 0; i < l->options.buffers; i++)
		if (l->held[i].state == WEFT_CLOP_STATE_OPEN &&
		    (!l->options.ordered || l->held[i].block == block))
			return &l->held[i];
	return NULL;
}

/* ---- What the engine says ---- */

static void give_back(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct held *h = (struct held *)event;

	require(!weft_nanet_give_back(h->game->engine, h->list, h->buffer, h->generation + 1));
	require(weft_nanet_give_back(h->game->engine, h->list, h->buffer, h->generation));
	require(!weft_nanet_give_back(h->game->engine, h->list, h->buffer, h->generation));
	h->state = WEFT_CLOP_STATE_FREE;
}

static void check_numbers(const struct list *l, const struct held *h,
			  const struct weft_clop_record *r)
{
	__int128 low = 0, high = 0;

	for (uint32_t i = 0; i < h->numbers; i++) {
		low = !i || h->number[i] < low ? h->number[i] : low;
		high = !i || h->number[i] > high ? h->number[i] : high;
	}
	require(r->first_sequence == (uint64_t)low && r->last_sequence == (uint64_t)high);
	require(r->missing == (h->numbers ? (uint64_t)(high - low) + 1 - h->numbers : 0));
}

static void check_why(const struct list *l, const struct held *h, const struct weft_clop_record *r)
{
	const struct weft_clop_options *o = &l->options;

	require((r->why == WEFT_CLOP_TIME) ==
		(o->timeout_ns && game->sim.now_ns == h->first_ns + o->timeout_ns &&
		 !game->batched));
	if (r->why == WEFT_CLOP_DATAGRAMS)
		require(o->datagrams && h->datagrams == o->datagrams);
	if (r->why == WEFT_CLOP_EVENTS)
		require(o->events && h->events >= o->events);
	if (r->why == WEFT_CLOP_FULL && o->slots && !o->ordered)
		require(h->datagrams == o->slots);
}

static void check_record(const struct weft_clop_record *r)
{
	struct list *l = &game->list[r->list];
	struct held *h = &l->held[r->buffer];

	require(r->list < game->options.lists && r->buffer < l->options.buffers);
	require(h->state == WEFT_CLOP_STATE_OPEN && r->generation == h->generation && h->datagrams);
	require(r->bytes == h->used && r->datagrams == h->datagrams && r->events == h->events);
	require(r->first_ns == h->first_ns && r->last_ns == h->last_ns);
	require(weft_nanet_word(r) == ((uint64_t)h->generation << 32 | h->used));
	check_numbers(l, h, r);
	check_why(l, h, r);
	trace(r, sizeof(*r));
	trace(l->memory[r->buffer], r->bytes);
	h->state = WEFT_CLOP_STATE_OUT;
	if (!l->has_closed || h->block > l->closed)
		l->closed = h->block;
	l->has_closed = r->why != WEFT_CLOP_RESTARTED;
	game->told++;
	if (weft_sim_at(&game->sim, &h->give_back,
			game->sim.now_ns + 1 + below(below(8) ? 30000 : 400000)))
		abort();
}

static void check_place(const struct weft_nanet_step *step, const struct network_arrival *a,
			bool straggler)
{
	struct source *s = &game->source[a->source];
	struct list *l = &game->list[s->options.list];
	bool numbered = weft_protocol_is_numbered(&s->options.protocol);
	__int128 number = numbered ? number_of(s, a) : 0;
	struct held *h = &l->held[step->place.buffer];
	uint32_t slot = h->datagrams, offset = h->used;

	require(step->place.source == a->source && step->place.list == s->options.list);
	require(step->place.buffer < l->options.buffers && step->place.bytes == a->bytes);
	require(h->state != WEFT_CLOP_STATE_OUT && step->place.number == (uint64_t)number);
	if (h->state == WEFT_CLOP_STATE_FREE) {
		uint32_t next = l->next; /* in the circle */

		while (l->held[next].state != WEFT_CLOP_STATE_FREE)
			next = (next + 1) % l->options.buffers;
		require(step->place.buffer == next);
		l->next = (next + 1) % l->options.buffers;
		require(!open_of(l, l->options.ordered ? floor_div(number, l->options.slots) : 0));
		h->state = WEFT_CLOP_STATE_OPEN;
		h->generation++;
		h->used = h->datagrams = h->events = h->numbers = slot = offset = 0;
		h->first_ns = game->sim.now_ns;
		memset(h->taken, 0, sizeof(h->taken));
		h->block = l->options.ordered ? floor_div(number, l->options.slots) : 0;
	}
	if (l->options.ordered) {
		slot = (uint32_t)(number - h->block * l->options.slots);
		require(slot < l->options.slots && !h->taken[slot]);
		h->taken[slot] = true;
	}
	if (l->options.slots)
		offset = slot * l->options.slot_bytes;
	require(step->place.slot == slot && step->place.offset == offset);
	require(step->place.generation == h->generation && offset + a->bytes <= l->options.bytes);
	memcpy(l->memory[step->place.buffer] + offset, a->data, a->bytes);
	h->used = offset + a->bytes > h->used ? offset + a->bytes : h->used;
	h->datagrams++;
	h->events += a->events;
	h->last_ns = game->sim.now_ns;
	if (l->numbered && !straggler) {
		require(h->numbers < BUFFER_DATAGRAMS);
		h->number[h->numbers++] = number;
	}
}

/* Buffers that the engine tells of before it looks at a datagram: whether each has a reason. */
static uint32_t check_tells(uint32_t step)
{
	while (step < game->out.steps && game->out.step[step].kind == WEFT_NANET_TELL)
		check_record(&game->out.step[step++].record);
	return step;
}

static bool fits(const struct list *l, const struct held *h, uint32_t bytes)
{
	return l->options.slots || h->used + bytes <= l->options.bytes;
}

/* Compares what the engine did for one datagram: its steps begin at *step. */
static void check_arrival(const struct network_arrival *a, uint32_t *step)
{
	struct source *s = &game->source[a->source];
	struct list *l = &game->list[s->options.list];
	bool restarted = false, straggler = false, behind = false;
	uint32_t most = l->options.slots ? l->options.slot_bytes : l->options.bytes;
	enum what what = PLACE;

	s->counters.arrived++;
	if (a->bad || a->bytes > most)
		what = BAD;
	else if (weft_protocol_is_numbered(&s->options.protocol))
		what = judge_number(s, a, &restarted, &straggler, &behind);
	__int128 block = l->options.ordered && what == PLACE
				 ? floor_div(number_of(s, a), l->options.slots)
				 : 0;

	restarted &= l->numbered; /* to the list */
	if (what == PLACE && restarted)
		l->has_closed = false;
	if (what == PLACE && l->options.ordered &&
	    (straggler || (!open_of(l, block) && l->has_closed && block <= l->closed)))
		what = LATE;
	if (what == PLACE) {
		/* buffers that end before this datagram, and without it */
		while (*step < game->out.steps && game->out.step[*step].kind == WEFT_NANET_TELL) {
			const struct weft_clop_record *r = &game->out.step[*step].record;
			const struct held *h = &l->held[r->buffer];

			if (r->list != s->options.list ||
			    !(restarted ? r->why == WEFT_CLOP_RESTARTED
			      : l->options.ordered
				      ? r->why == WEFT_CLOP_FULL && h->block < block - 1
				      : r->why == WEFT_CLOP_FULL && !fits(l, h, a->bytes)))
				break; /* a datagram behind this one, of the same run, may end it */
			check_record(&game->out.step[(*step)++].record);
			if (restarted)
				l->has_closed = false;
		}
		struct held *open = open_of(l, block);

		require(!open || fits(l, open, a->bytes));
		if (!open && !free_of(l))
			what = NO_BUFFER;
	}
	s->counters.bad += what == BAD;
	s->counters.duplicate += what == DUPLICATE;
	s->counters.late += what == LATE;
	s->counters.no_buffer += what == NO_BUFFER;
	if (what != PLACE)
		return;
	s->counters.placed++;
	s->counters.reordered += behind;
	s->counters.bytes += a->bytes;
	s->counters.events += a->events;
	require(*step < game->out.steps && game->out.step[*step].kind == WEFT_NANET_PLACE);
	check_place(&game->out.step[(*step)++], a, straggler);
	/* buffers that end with this datagram: all that are full */
	struct held *open = open_of(l, block);
	const struct weft_clop_options *o = &l->options;
	bool ends = open->datagrams == (o->slots ?: UINT32_MAX) ||
		    (!o->slots && open->used == o->bytes) ||
		    (o->datagrams && open->datagrams >= o->datagrams) ||
		    (o->events && open->events >= o->events) || (o->bursts && a->last);

	while (ends && open->state == WEFT_CLOP_STATE_OPEN) {
		require(*step < game->out.steps && game->out.step[*step].kind == WEFT_NANET_TELL);
		check_record(&game->out.step[(*step)++].record);
	}
}

static void check_counters(void)
{
	struct weft_nanet_account sum, total = {0}, one;

	for (uint32_t i = 0; i < game->options.sources; i++) {
		const struct source *s = &game->source[i];
		uint64_t missing = 0;

		weft_nanet_account(game->engine, i, &one);
		require(!memcmp(&one.counters, &s->counters, sizeof(s->counters)));
		require(one.counters.arrived == one.counters.placed + one.counters.duplicate +
							one.counters.late + one.counters.bad +
							one.counters.no_buffer);
		for (uint32_t run = 0; s->begun && run <= s->run; run++)
			for (uint32_t k = s->low[run]; s->came[run] && k <= s->high[run]; k++)
				missing += !s->seen[run][k];
		require(one.missing == missing && one.restarts == s->restarts);
		require(one.sent == one.counters.arrived - one.counters.duplicate + one.lost);
#define X(name, what) total.counters.name += one.counters.name;
		WEFT_NANET_COUNTERS(X)
#undef X
		total.missing += one.missing;
		total.sent += one.sent;
		total.lost += one.lost;
	}
	weft_nanet_sum(game->engine, &sum);
	require(!memcmp(&sum.counters, &total.counters, sizeof(sum.counters)));
	require(sum.missing == total.missing && sum.sent == total.sent && sum.lost == total.lost);
}

/* ---- Events ---- */

static void set_timer(void)
{
	uint64_t at_ns = weft_nanet_deadline(game->engine), first = UINT64_MAX;

	for (uint32_t i = 0; i < game->options.lists; i++)
		for (uint32_t k = 0; k < game->list[i].options.buffers; k++) {
			const struct held *h = &game->list[i].held[k];
			uint64_t timeout_ns = game->list[i].options.timeout_ns;

			if (h->state == WEFT_CLOP_STATE_OPEN && timeout_ns &&
			    h->first_ns + timeout_ns < first)
				first = h->first_ns + timeout_ns;
		}
	require(at_ns == first);
	weft_sim_cancel(&game->sim, &game->timer);
	if (at_ns != UINT64_MAX && weft_sim_at(&game->sim, &game->timer, at_ns))
		abort();
}

static void timer(struct weft_sim *sim, struct weft_sim_event *event)
{
	uint32_t batched = game->batched;

	game->batched = 0; /* they come later */
	weft_nanet_timer(game->engine, sim->now_ns, &game->out);
	require(game->out.steps);
	require(check_tells(0) == game->out.steps);
	game->batched = batched;
	set_timer();
}

static void receive_batch(struct weft_sim *sim, struct weft_sim_event *event)
{
	uint8_t data[WEFT_NANET_RUN * NETWORK_BYTES];
	uint32_t bytes = 0, step = 0;

	if (!game->batched)
		return;
	for (uint32_t i = 0; i < game->batched; i++) {
		memcpy(data + bytes, game->batch[i].data, game->batch[i].bytes);
		bytes += game->batch[i].bytes;
	}
	uint32_t segment = game->batch[0].bytes;

	if (weft_sim_is_set(&game->timer) && game->timer.at_ns <= game->sim.now_ns) {
		weft_sim_cancel(&game->sim, &game->timer);
		timer(&game->sim, NULL);
	}
	weft_nanet_receive(game->engine, game->batch[0].source, data, bytes, segment ?: 1,
			   game->sim.now_ns, &game->out);
	for (uint32_t i = 0; i < game->batched; i++)
		check_arrival(&game->batch[i], &step);
	require(step == game->out.steps);
	game->batched = 0;
	weft_sim_cancel(&game->sim, &game->batch_event);
	set_timer();
	if (!below(64))
		check_counters();
}

/* A datagram arrives: it is given to the engine alone, or gathered into a run with those before it. */
static void arrive(struct network *network, const struct network_arrival *a)
{
	const struct network_arrival *first = &game->batch[0],
				     *last = &game->batch[game->batched ? game->batched - 1 : 0];

	if (game->batched &&
	    (first->source != a->source || game->batched == WEFT_NANET_RUN || !first->bytes ||
	     !a->bytes || last->bytes < first->bytes || a->bytes > first->bytes))
		receive_batch(&game->sim, NULL);
	game->batch[game->batched++] = *a;
	if (below(4))
		receive_batch(&game->sim, NULL);
	else if (!weft_sim_is_set(&game->batch_event) &&
		 weft_sim_at(&game->sim, &game->batch_event, game->sim.now_ns + below(3000)))
		abort();
}

/* ---- A game ---- */

static void choose_list(struct list *l, uint32_t index)
{
	static const uint32_t slot_bytes[] = {100, 128};
	bool slots = below(2), ordered = slots && below(2);

	l->options = (struct weft_clop_options){.buffers = 2 + (uint32_t)below(BUFFERS - 1),
						.bytes = 600 + (uint32_t)below(BYTES - 600),
						.ordered = ordered,
						.bursts = below(2),
						.timeout_ns = below(2) * (1 + below(40000))};
	if (slots) {
		l->options.slot_bytes = below(2) ? NETWORK_BYTES : slot_bytes[below(2)];
		l->options.slots = ordered ? 16u << below(3) : 1 + (uint32_t)below(SLOTS);
		l->options.bytes = BYTES;
		if (l->options.slots * l->options.slot_bytes > BYTES)
			l->options.slot_bytes = BYTES / l->options.slots;
	}
	if (!ordered) {
		l->options.datagrams = (uint32_t)below(2) * (uint32_t)below(30);
		l->options.events = (uint32_t)below(2) * (uint32_t)below(60);
	}
	for (uint32_t i = 0; i < BUFFERS; i++) {
		l->held[i].game = game;
		l->held[i].give_back.happen = give_back;
		l->held[i].list = index;
		l->held[i].buffer = i;
	}
}

static void choose_source(struct source *s, uint32_t i)
{
	uint32_t history = game->network.faults.deep < 64 ? 64u << below(6) : 2048;
	struct list *l;

	s->options =
		(struct weft_nanet_source_options){.list = (uint32_t)below(game->options.lists),
						   .protocol = game->network.source[i].protocol,
						   .history = history,
						   .window = (uint32_t)below(history + 1),
						   .jump = 4096};
	l = &game->list[s->options.list];
	l->numbered = !l->sources++ && weft_protocol_is_numbered(&s->options.protocol);
	if (l->options.ordered)
		s->options.window = (uint32_t)below(l->options.slots);
}

/* False: these sources and lists do not go together, and the engine has refused them, too. */
static bool begin(uint64_t seed)
{
	static struct weft_nanet_source_options sources[NETWORK_SOURCES];
	static struct weft_clop_options lists[NETWORK_SOURCES];
	bool fit = true;

	memset(game, 0, sizeof(*game));
	game->seed = seed;
	weft_sim_begin(&game->sim, seed);
	network_begin(&game->network, &game->sim, game->arrival, ARRIVALS);
	game->network.arrive = arrive;
	game->timer.happen = timer;
	game->batch_event.happen = receive_batch;
	game->options = (struct weft_nanet_options){.sources = game->network.sources,
						    .lists = 1 + (uint32_t)below(NETWORK_SOURCES),
						    .source = sources,
						    .list = lists};
	for (uint32_t i = 0; i < game->options.lists; i++) {
		choose_list(&game->list[i], i);
		lists[i] = game->list[i].options;
	}
	for (uint32_t i = 0; i < game->options.sources; i++) {
		choose_source(&game->source[i], i);
		sources[i] = game->source[i].options;
	}
	for (uint32_t i = 0; i < game->options.sources; i++) {
		const struct list *l = &game->list[sources[i].list];

		fit &= !l->options.ordered || l->numbered;
	}
	require(!weft_nanet_wrong(&game->options) == fit);
	return fit;
}

static void end(void)
{
	receive_batch(&game->sim, NULL);
	for (uint32_t i = 0; i < game->options.lists; i++) {
		weft_nanet_flush(game->engine, i, &game->out);
		require(check_tells(0) == game->out.steps && !open_of(&game->list[i], 0));
	}
	check_counters();
	trace(game->source, sizeof(game->source));
	for (uint32_t i = 0; i < game->options.sources; i++) {
		const struct network_source *n = &game->network.source[i];
		struct weft_nanet_account account;
		uint64_t sent = 0, lost = 0;

		weft_nanet_account(game->engine, i, &account);
		for (uint32_t run = 0; run < n->runs; run++) {
			sent += n->sends[run];
			lost += n->lost[run];
		}
		/* compared with what the sender knows, unless there were bad copies: a receiver cannot know that these are copies */
		const struct weft_clop_options *o =
			&game->list[game->source[i].options.list].options;

		if (weft_protocol_is_numbered(&n->protocol) && !game->network.faults.bad_copies &&
		    (o->slots ? o->slot_bytes : o->bytes) >= NETWORK_BYTES) {
			require(account.restarts == n->runs - 1);
			require(account.sent == sent && account.lost == lost);
			accounts++;
		}
	}
}

/* Plays a game: a number into which all went that was told and counted. */
static uint64_t play(uint64_t seed)
{
	while (!begin(seed)) {
		weft_sim_end(&game->sim);
		seed += 1ull << 40;
	}
	void *memory = malloc(weft_nanet_bytes(&game->options));

	require(memory != NULL);
	game->engine = weft_nanet_begin(&game->options, memory);
	weft_sim_run(&game->sim, UINT64_MAX);
	end();
	weft_sim_end(&game->sim);
	free(memory);
	return game->trace;
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 0) : 1000, told = 0, datagrams = 0;

	game = malloc(sizeof(*game));
	if (!game)
		return 1;
	for (uint64_t seed = first; seed < first + count; seed++) {
		uint64_t once = play(seed);

		told += game->told;
		for (uint32_t i = 0; i < game->options.sources; i++)
			datagrams += game->source[i].counters.arrived;
		if (seed - first < 50)
			require(play(seed) == once);
	}
	printf("1..1\nok 1 - every_counter_over_seeds\n# %llu seeds, %llu datagrams, %llu buffers, "
	       "%llu accounts\n",
	       (unsigned long long)count, (unsigned long long)datagrams, (unsigned long long)told,
	       (unsigned long long)accounts);
	free(game);
	return 0;
}
