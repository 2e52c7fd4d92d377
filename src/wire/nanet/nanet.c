/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/nanet/nanet.h"

struct source {
	struct weft_nanet_source_options options;
	struct weft_nanet_counters counters;
	struct weft_sequence sequence;
};

struct list {
	struct weft_clop clop;
	bool numbered; /* it has one source, which is */
};

struct weft_nanet {
	struct source *source;
	struct list *list;
	uint32_t sources, lists;
	uint64_t deadline_ns;
	bool deadline_stale;
};

/* ---- Set-up ---- */

static struct weft_sequence_options sequence_options(const struct weft_nanet_source_options *o)
{
	return (struct weft_sequence_options){.bits = o->protocol.bits,
					      .step = o->protocol.step,
					      .window = o->window,
					      .history = o->history,
					      .jump = o->jump};
}

static bool settle_options(const struct weft_nanet_source_options *given,
			   struct weft_nanet_source_options *o)
{
	*o = *given;
	return weft_protocol_settle(&o->protocol);
}

static uint32_t sources_of(const struct weft_nanet_options *o, uint32_t list)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < o->sources; i++)
		count += o->source[i].list == list;
	return count;
}

static const char *wrong_source(const struct weft_nanet_options *options, uint32_t i)
{
	struct weft_nanet_source_options o;

	if (!settle_options(&options->source[i], &o))
		return "a protocol has no such kind, or a field of no such width or step";
	if (o.list >= options->lists)
		return "a source is bound to a list that is not there";
	const struct weft_clop_options *list = &options->list[o.list];
	struct weft_sequence_options sequence = sequence_options(&o);

	if (weft_protocol_is_numbered(&o.protocol) && !weft_sequence_valid(&sequence))
		return "the history is no power of two from 64 on, less than the window, or too "
		       "large "
		       "for the field; or the jump is";
	if (list->ordered &&
	    (!weft_protocol_is_numbered(&o.protocol) || sources_of(options, o.list) > 1))
		return "an ordered list has one source, that is numbered";
	if (list->ordered && o.window >= list->slots)
		return "the window of an ordered list is not less than its slots";
	return NULL;
}

const char *weft_nanet_wrong(const struct weft_nanet_options *options)
{
	const char *wrong;

	if (!options->sources || !options->lists)
		return "there is no source, or no list";
	for (uint32_t i = 0; i < options->lists; i++)
		if (!weft_clop_valid(&options->list[i]))
			return "a list has no buffers, no bytes, or no room for its slots; or an "
			       "ordered one ends by number";
	for (uint32_t i = 0; i < options->sources; i++)
		if ((wrong = wrong_source(options, i)))
			return wrong;
	return NULL;
}

static size_t memory_of_source(const struct weft_nanet_source_options *given)
{
	struct weft_nanet_source_options o;
	struct weft_sequence_options sequence;

	if (!settle_options(given, &o) || !weft_protocol_is_numbered(&o.protocol))
		return 0;
	sequence = sequence_options(&o);
	return weft_sequence_bytes(&sequence);
}

size_t weft_nanet_bytes(const struct weft_nanet_options *options)
{
	size_t bytes = sizeof(struct weft_nanet) + options->sources * sizeof(struct source) +
		       options->lists * sizeof(struct list);

	for (uint32_t i = 0; i < options->lists; i++)
		bytes += weft_clop_bytes(&options->list[i]);
	for (uint32_t i = 0; i < options->sources; i++)
		bytes += memory_of_source(&options->source[i]);
	return bytes;
}

static void begin_source(struct source *s, const struct weft_nanet_source_options *given,
			 void *memory)
{
	struct weft_sequence_options sequence;

	*s = (struct source){0};
	settle_options(given, &s->options);
	sequence = sequence_options(&s->options);
	if (weft_protocol_is_numbered(&s->options.protocol))
		weft_sequence_begin(&s->sequence, &sequence, memory);
}

struct weft_nanet *weft_nanet_begin(const struct weft_nanet_options *options, void *memory)
{
	struct weft_nanet *n = memory;
	uint8_t *at;

	*n = (struct weft_nanet){
		.sources = options->sources, .lists = options->lists, .deadline_ns = UINT64_MAX};
	n->source = (struct source *)(n + 1);
	n->list = (struct list *)(n->source + n->sources);
	at = (uint8_t *)(n->list + n->lists);
	for (uint32_t i = 0; i < n->lists; i++) {
		weft_clop_begin(&n->list[i].clop, &options->list[i], at);
		at += weft_clop_bytes(&options->list[i]);
		n->list[i].numbered = sources_of(options, i) == 1;
	}
	for (uint32_t i = 0; i < n->sources; i++) {
		begin_source(&n->source[i], &options->source[i], at);
		at += memory_of_source(&options->source[i]);
		if (!weft_protocol_is_numbered(&n->source[i].options.protocol))
			n->list[n->source[i].options.list].numbered = false;
	}
	return n;
}

/* ---- Receiving ---- */

static void add_records(struct weft_nanet *n, uint32_t list, uint32_t count,
			const struct weft_clop_record record[], struct weft_nanet_out *out)
{
	n->deadline_stale |= count;
	for (uint32_t i = 0; i < count; i++) {
		struct weft_nanet_step *step = &out->step[out->steps++];

		step->kind = WEFT_NANET_TELL;
		step->record = record[i];
		step->record.list = list;
	}
}

struct arrival {
	const uint8_t *data;
	uint32_t from, bytes;
	struct weft_nanet_datagram parsed;
	struct weft_sequence_judged judged;
};

/* Whether the datagram is to be placed; otherwise it has been counted as what it is. */
static bool judge_arrival(struct weft_nanet *n, struct source *s, struct arrival *a)
{
	const struct weft_clop *clop = &n->list[s->options.list].clop;

	s->counters.arrived++;
	if (!weft_protocol_parse(&s->options.protocol, a->data, a->bytes, &a->parsed) ||
	    !weft_clop_takes(clop, a->bytes)) {
		s->counters.bad++;
		return false;
	}
	a->judged = (struct weft_sequence_judged){0};
	if (weft_protocol_is_numbered(&s->options.protocol))
		weft_sequence_judge(&s->sequence, a->parsed.field, &a->judged);
	s->counters.duplicate += a->judged.verdict == WEFT_SEQUENCE_AGAIN;
	s->counters.late += a->judged.verdict == WEFT_SEQUENCE_LATE;
	return a->judged.verdict == WEFT_SEQUENCE_NEW;
}

static void add_place(const struct weft_nanet *n, const struct source *s, const struct arrival *a,
		      const struct weft_clop_place *place, struct weft_nanet_out *out)
{
	struct weft_nanet_step *step = &out->step[out->steps++];
	uint32_t list = s->options.list;

	step->kind = WEFT_NANET_PLACE;
	step->place.source = (uint32_t)(s - n->source);
	step->place.list = list;
	step->place.buffer = place->buffer;
	step->place.slot = place->slot;
	step->place.offset = place->offset;
	step->place.from = a->from;
	step->place.bytes = a->bytes;
	step->place.generation = n->list[list].clop.buffer[place->buffer].generation;
	step->place.number = a->judged.number;
}

static void put_arrival(struct weft_nanet *n, struct source *s, const struct arrival *a,
			uint64_t now_ns, struct weft_nanet_out *out)
{
	struct list *list = &n->list[s->options.list];
	struct weft_clop_datagram d = {.bytes = a->bytes,
				       .events = a->parsed.events,
				       .last = a->parsed.last,
				       .numbered = list->numbered && !a->judged.straggler,
				       .number = a->judged.number};
	struct weft_clop_out put_out;
	uint32_t opened = list->clop.opened;

	if (a->judged.restarted && list->numbered)
		add_records(n, s->options.list,
			    weft_clop_end(&list->clop, WEFT_CLOP_RESTARTED, put_out.record),
			    put_out.record, out);
	weft_clop_put(&list->clop, &d, now_ns, &put_out);
	n->deadline_stale |= list->clop.opened != opened;
	add_records(n, s->options.list, put_out.before, put_out.record, out);
	if (put_out.verdict == WEFT_CLOP_PLACED) {
		add_place(n, s, a, &put_out.place, out);
		s->counters.placed++;
		s->counters.reordered += a->judged.behind;
		s->counters.bytes += a->bytes;
		s->counters.events += a->parsed.events;
	} else {
		s->counters.no_buffer += put_out.verdict == WEFT_CLOP_NO_BUFFER;
		s->counters.late += put_out.verdict == WEFT_CLOP_TOO_LATE;
	}
	add_records(n, s->options.list, put_out.after, put_out.record + put_out.before, out);
}

void weft_nanet_receive(struct weft_nanet *n, uint32_t source, const uint8_t *data, uint32_t bytes,
			uint32_t segment, uint64_t now_ns, struct weft_nanet_out *out)
{
	struct arrival a = {.data = data};

	out->steps = 0;
	do {
		a.bytes = bytes - a.from < segment ? bytes - a.from : segment;
		a.data = data + a.from;
		if (judge_arrival(n, &n->source[source], &a))
			put_arrival(n, &n->source[source], &a, now_ns, out);
		a.from += a.bytes;
	} while (a.from < bytes);
}

/* ---- Time, and the application ---- */

uint64_t weft_nanet_deadline(struct weft_nanet *n)
{
	if (!n->deadline_stale)
		return n->deadline_ns;
	n->deadline_stale = false;
	n->deadline_ns = UINT64_MAX;
	for (uint32_t i = 0; i < n->lists; i++) {
		uint64_t at = weft_clop_deadline(&n->list[i].clop);

		n->deadline_ns = at < n->deadline_ns ? at : n->deadline_ns;
	}
	return n->deadline_ns;
}

void weft_nanet_timer(struct weft_nanet *n, uint64_t now_ns, struct weft_nanet_out *out)
{
	struct weft_clop_record record;

	out->steps = 0;
	for (uint32_t i = 0; i < n->lists; i++)
		while (out->steps < WEFT_NANET_STEPS &&
		       weft_clop_expire(&n->list[i].clop, now_ns, &record))
			add_records(n, i, 1, &record, out);
}

void weft_nanet_flush(struct weft_nanet *n, uint32_t list, struct weft_nanet_out *out)
{
	struct weft_clop_record record[WEFT_CLOP_OPEN];

	out->steps = 0;
	add_records(n, list, weft_clop_end(&n->list[list].clop, WEFT_CLOP_FLUSHED, record), record,
		    out);
}

bool weft_nanet_give_back(struct weft_nanet *n, uint32_t list, uint32_t buffer, uint32_t generation)
{
	return weft_clop_give_back(&n->list[list].clop, buffer, generation);
}

uint32_t weft_nanet_expect(const struct weft_nanet *n, uint32_t list, uint32_t *buffer)
{
	return weft_clop_expect(&n->list[list].clop, buffer);
}

uint32_t weft_nanet_rests(const struct weft_nanet *n, uint32_t list, struct weft_clop_rest rest[2])
{
	return weft_clop_rests(&n->list[list].clop, rest);
}

/* ---- Accounts ---- */

void weft_nanet_account(const struct weft_nanet *n, uint32_t source,
			struct weft_nanet_account *account)
{
	const struct source *s = &n->source[source];

	*account = (struct weft_nanet_account){.counters = s->counters,
					       .restarts = s->sequence.restarts,
					       .wraps = s->sequence.wraps};
	if (weft_protocol_is_numbered(&s->options.protocol))
		account->missing = weft_sequence_missing(&s->sequence);
	account->lost = account->missing > s->counters.bad ? account->missing - s->counters.bad : 0;
	account->sent = s->counters.arrived - s->counters.duplicate + account->lost;
}

void weft_nanet_sum(const struct weft_nanet *n, struct weft_nanet_account *account)
{
	*account = (struct weft_nanet_account){0};
	for (uint32_t i = 0; i < n->sources; i++) {
		struct weft_nanet_account one;

		weft_nanet_account(n, i, &one);
#define X(name, what) account->counters.name += one.counters.name;
		WEFT_NANET_COUNTERS(X)
#undef X
		account->missing += one.missing;
		account->lost += one.lost;
		account->sent += one.sent;
		account->restarts += one.restarts;
		account->wraps += one.wraps;
	}
}
