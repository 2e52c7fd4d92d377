/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The thread of a stream: from links through the engine into buffers, one batch after the other. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "pool/clock.h"
#include "stream/internal.h"

/* How many buffers one batch can end at most. */
#define TOLDS (WEFT_STREAM_RUN * 8 + 64)
/* How many batches of each source are taken after the stop, at most. */
#define LAST 4096u
/*
 * Moderation, as network cards moderate interrupts: a thread that would be woken this often in a
 * window's time sleeps for so long instead, whatever comes meanwhile, and takes it at one go. It
 * returns to being woken when a rest brought too little.
 */
#define WINDOW_NS  1000000u
#define OFTEN	   20u
#define REST_NS	   100000u
#define REST_LEAST 3u
/* Looks at a buffer on its way, in vain, before it is waited for, which finds that a kernel has died. */
#define LOOKS 65536u

/* carried: of its list's ferry, when this buffer was the last. */
struct crossing {
	struct weft_clop_record record;
	uint64_t carried;
};

struct weft_stream_receiver {
	uint32_t *told; /* each buffer: the generation last told */
	uint32_t tolds;
	bool landed; /* some of this batch landed: buffers are told of when all of it has been copied */
	uint64_t window_ns, runs, runs_rested; /* the window's end; all runs, and before the rest */
	uint32_t sleeps;		       /* in this window */
	bool rests;
	/* Buffers on their way to a GPU, a ring in the order of telling: those from `crossed` to `crossings`. */
	struct crossing *crossing;
	uint64_t crossings, crossed;
	uint32_t looks; /* in vain, at the first of them */
	struct weft_nanet_out out;
	struct weft_stream_run run[WEFT_STREAM_RUN];
	struct weft_stream_places places;
	uint32_t rest_buffer; /* that of the first rest */
	struct weft_stream_run
		*endangered; /* it lies in the second, and may be stored over; or NULL */
	struct weft_clop_record waiting[TOLDS];
	uint8_t *
		aside; /* room for datagrams that landed in a wrong place: WEFT_STREAM_RUN of the longest */
};

#define ASIDE_BYTES ((size_t)WEFT_STREAM_RUN * WEFT_STREAM_LONGEST)

int weft_stream_receiver_begin(struct weft_stream *s)
{
	struct weft_stream_receiver *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	explicit_bzero(&r->out, sizeof(r->out)); /* with their pages: none is to be made later */
	explicit_bzero(r->waiting, sizeof(r->waiting));
	r->told = calloc(s->tell.buffers, sizeof(*r->told));
	r->crossing = calloc(s->tell.buffers, sizeof(*r->crossing));
	r->aside =
		mmap(NULL, ASIDE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	s->receiver = r;
	if (r->told && r->crossing && r->aside != MAP_FAILED)
		return 0;
	weft_stream_receiver_end(s);
	return -ENOMEM;
}

void weft_stream_receiver_end(struct weft_stream *s)
{
	if (s->receiver->aside != MAP_FAILED)
		munmap(s->receiver->aside, ASIDE_BYTES);
	free(s->receiver->told);
	free(s->receiver->crossing);
	free(s->receiver);
	s->receiver = NULL;
}

/* ---- Stamps ---- */

static uint8_t *stamps_of(const struct weft_stream *s, uint32_t list, uint32_t buffer,
			  uint32_t slot)
{
	const struct weft_clop_options *o = &s->clop[list];
	const struct weft_stream_datagram *d =
		&s->list[list].datagram[(uint64_t)buffer * o->slots + slot];

	return s->list[list].memory + (size_t)buffer * o->bytes + d->offset + o->slot_bytes -
	       WEFT_STREAM_STAMPS_BYTES;
}

/* Stamps all datagrams of the buffer, just before it is told of. */
static void stamp_signalled(struct weft_stream *s, const struct weft_clop_record *c)
{
	const struct weft_stream_datagram *d =
		&s->list[c->list].datagram[(uint64_t)c->buffer * s->clop[c->list].slots];
	uint64_t now_ns = weft_clock_now_ns();

	for (uint32_t i = 0; i < s->clop[c->list].slots; i++)
		if (d[i].generation == c->generation)
			memcpy(stamps_of(s, c->list, c->buffer, i) +
				       offsetof(struct weft_stream_stamps, signalled_ns),
			       &now_ns, sizeof(now_ns));
}

/* ---- What the engine says ---- */

static void tell_now(struct weft_stream *s, const struct weft_clop_record *c)
{
	const struct weft_stream_event event = {
		.list = c->list,
		.buffer = c->buffer,
		.generation = c->generation,
		.why = (uint32_t)c->why,
		.bytes = c->bytes,
		.datagrams = c->datagrams,
		.events = c->events,
		.first_sequence = c->first_sequence,
		.last_sequence = c->last_sequence,
		.missing = c->missing,
		.first_ns = c->first_ns,
		.last_ns = c->last_ns,
	};

	if (s->list[c->list].flags & WEFT_STREAM_STAMPS)
		stamp_signalled(s, c);
	weft_landing_reset(&s->list[c->list].landing, c->buffer);
	s->receiver->told[s->base[c->list] + c->buffer] = c->generation;
	weft_tell_put(&s->tell, s->base[c->list] + c->buffer, &event,
		      s->list[c->list].flags & WEFT_STREAM_WORDS);
}

/* ---- Buffers of a GPU ---- */

/* Up to where there are payloads, wherever the datagrams of slots lie. */
static uint64_t used_bytes(const struct weft_stream *s, const struct weft_clop_record *c)
{
	const struct weft_clop_options *o = &s->clop[c->list];
	const struct weft_stream_datagram *d =
		s->list[c->list].datagram + (uint64_t)c->buffer * o->slots;
	uint64_t used = 0;

	if (!o->slots)
		return c->bytes;
	for (uint32_t i = 0; i < o->slots; i++)
		if (d[i].generation == c->generation && (uint64_t)d[i].offset + d[i].bytes > used)
			used = (uint64_t)d[i].offset + d[i].bytes;
	return used;
}

/* The bytes, what is in the slots, and behind all that the word. 0 or -EFAULT. */
static int issue_buffer(struct weft_stream *s, const struct weft_clop_record *c)
{
	const struct weft_clop_options *o = &s->clop[c->list];
	const struct weft_stream_list_of *list = &s->list[c->list];
	uint64_t word = weft_nanet_word(c), words = list->layout.words + 8ull * c->buffer,
		 datagrams = (uint64_t)o->slots * sizeof(*list->datagram);
	const struct weft_plugin_part part[2] = {
		{(uint64_t)c->buffer * o->bytes, used_bytes(s, c)},
		{list->layout.datagrams + c->buffer * datagrams, datagrams},
	};

	memcpy(list->memory + words, &word, sizeof(word));
	return weft_ferry_carry(list->ferry, part, words);
}

/* Its sources end with an error, as they do with a link's; what was placed stays counted as that. */
static void lose_list(struct weft_stream *s, uint32_t list)
{
	s->list[list].lost = true;
	for (uint32_t i = 0; i < s->sources; i++)
		if (s->source_options[i].list == list) {
			s->source[i].failed = EFAULT;
			s->source[i].changed = true;
		}
}

/* Whether that buffer has arrived, or never will, as its list is lost; wait: until one of both. */
static bool has_crossed(struct weft_stream *s, const struct crossing *c, bool wait)
{
	const struct weft_stream_list_of *list = &s->list[c->record.list];

	if (list->lost || weft_ferry_done(list->ferry) >= c->carried)
		return true;
	if (wait && weft_ferry_wait(list->ferry))
		lose_list(s, c->record.list);
	return wait;
}

/* Tells of the buffers that have arrived; wait: of all that are on their way. */
static void end_crossings(struct weft_stream *s, bool wait)
{
	struct weft_stream_receiver *r = s->receiver;

	for (; r->crossed != r->crossings; r->crossed++) {
		const struct crossing *c = &r->crossing[r->crossed % s->tell.buffers];

		if (!has_crossed(s, c, wait || r->looks == LOOKS)) {
			r->looks++;
			return;
		}
		r->looks = 0;
		if (!s->list[c->record.list].lost)
			tell_now(s, &c->record);
	}
}

static void tell_event(struct weft_stream *s, const struct weft_clop_record *c)
{
	struct weft_stream_receiver *r = s->receiver;
	const struct weft_stream_list_of *list = &s->list[c->list];

	if (!list->ferry) {
		tell_now(s, c);
	} else if (!list->lost && issue_buffer(s, c)) {
		weft_ferry_wait(list->ferry);
		lose_list(s, c->list);
	} else if (!list->lost) {
		r->crossing[r->crossings++ % s->tell.buffers] =
			(struct crossing){*c, weft_ferry_carried(list->ferry)};
	}
}

/* ---- Places ---- */

static inline __attribute__((always_inline)) void place_datagram(struct weft_stream *s,
								 const struct weft_stream_run *run,
								 const struct weft_nanet_step *step,
								 uint64_t now_ns)
{
	struct weft_stream_list_of *list = &s->list[step->place.list];
	const struct weft_clop_options *o = &s->clop[step->place.list];
	uint32_t offset = step->place.offset;
	const uint8_t *from;
	bool lies = false;
	uint8_t *to;

	if (o->slots) {
		uint64_t index = (uint64_t)step->place.buffer * o->slots + step->place.slot;

		offset = o->slot_bytes *
			 weft_landing_take(&list->landing, step->place.buffer, run->place, &lies);
		list->datagram[index] = (struct weft_stream_datagram){
			.offset = offset,
			.bytes = step->place.bytes,
			.source = step->place.source,
			.generation = step->place.generation,
			.number = step->place.number,
			.time_ns = now_ns,
		};
	}
	if (lies)
		return;
	to = list->memory + (size_t)step->place.buffer * o->bytes + offset;
	from = run->at + step->place.from;
	if (to == from)
		return;
	/* of one that lies behind others in a rest, both may overlap: never with what comes later */
	memmove(to, from, step->place.bytes);
	s->source[step->place.source].copied += step->place.bytes;
}

static void tell_or_wait(struct weft_stream *s, const struct weft_clop_record *record)
{
	struct weft_stream_receiver *r = s->receiver;

	if (r->landed)
		r->waiting[r->tolds++] = *record;
	else
		tell_event(s, record);
}

static void follow_stamped(struct weft_stream *s, const struct weft_stream_run *run,
			   uint64_t taken_ns)
{
	const struct weft_nanet_out *out = &s->receiver->out;
	struct weft_stream_stamps stamps = {.taken_ns = taken_ns,
					    .resolved_ns = weft_clock_now_ns()};

	for (uint32_t i = 0; i < out->steps; i++) {
		const struct weft_nanet_step *step = &out->step[i];

		if (step->kind == WEFT_NANET_TELL) {
			tell_or_wait(s, &step->record);
			continue;
		}
		place_datagram(s, run, step, taken_ns);
		stamps.placed_ns = weft_clock_now_ns();
		memcpy(stamps_of(s, step->place.list, step->place.buffer, step->place.slot),
		       &stamps, sizeof(stamps));
	}
}

static void follow_steps(struct weft_stream *s, const struct weft_stream_run *run, uint64_t now_ns)
{
	const struct weft_nanet_out *out = &s->receiver->out;

	for (uint32_t i = 0; i < out->steps; i++)
		if (out->step[i].kind == WEFT_NANET_PLACE)
			place_datagram(s, run, &out->step[i], now_ns);
		else
			tell_or_wait(s, &out->step[i].record);
}

/* Tells of each buffer that the engine says, when no datagram was given and there is nothing to copy. */
static void tell_steps(struct weft_stream *s)
{
	for (uint32_t i = 0; i < s->receiver->out.steps; i++)
		tell_or_wait(s, &s->receiver->out.step[i].record);
}

static void tell_waiting(struct weft_stream *s)
{
	struct weft_stream_receiver *r = s->receiver;

	for (uint32_t i = 0; i < r->tolds; i++)
		tell_event(s, &r->waiting[i]);
	r->tolds = 0;
	r->landed = false;
}

static void see_to_time(struct weft_stream *s, uint64_t now_ns)
{
	while (weft_nanet_deadline(s->engine) <= now_ns) {
		weft_nanet_timer(s->engine, now_ns, &s->receiver->out);
		tell_steps(s);
	}
}

/* ---- A batch ---- */

static void put_one_aside(struct weft_stream *s, uint32_t source, struct weft_stream_run *run)
{
	uint8_t *to = s->receiver->aside + (size_t)(run - s->receiver->run) * WEFT_STREAM_LONGEST;

	memcpy(to, run->at, run->bytes);
	s->source[source].copied += run->bytes;
	run->at = to;
	run->place = WEFT_STREAM_NOWHERE;
}

/* Where runs that have landed come behind one that has not, all are copied aside, as the latter may need the places of the former. */
static void put_aside(struct weft_stream *s, uint32_t source, uint32_t runs)
{
	struct weft_stream_receiver *r = s->receiver;
	uint32_t landed = 0, ahead = 0;

	for (uint32_t i = 0; i < runs; i++)
		landed += r->run[i].place != WEFT_STREAM_NOWHERE;
	while (ahead < runs && r->run[ahead].place != WEFT_STREAM_NOWHERE)
		ahead++;
	r->landed = landed && landed == ahead;
	if (landed == ahead)
		return;
	for (uint32_t i = 0; i < runs; i++)
		if (r->run[i].place != WEFT_STREAM_NOWHERE)
			put_one_aside(s, source, &r->run[i]);
}

/* The buffer of the second rest is stored to before what lies there has been looked at, as the first ended otherwise than was
 * expected. */
static void rescue(struct weft_stream *s, uint32_t source)
{
	struct weft_stream_receiver *r = s->receiver;

	for (uint32_t i = 0; i < r->out.steps && r->endangered; i++)
		if (r->out.step[i].kind == WEFT_NANET_PLACE &&
		    r->out.step[i].place.buffer != r->rest_buffer) {
			put_one_aside(s, source, r->endangered);
			r->endangered = NULL;
		}
}

static inline __attribute__((always_inline)) void
put_run(struct weft_stream *s, uint32_t source, const struct weft_stream_run *run, uint64_t now_ns,
	void (*follow)(struct weft_stream *s, const struct weft_stream_run *run, uint64_t now_ns))
{
	uint32_t most = run->segment < run->bytes ? run->segment * WEFT_NANET_RUN : run->bytes;
	struct weft_stream_run part = *run;
	uint32_t left = run->bytes;

	do {
		part.bytes = left < most ? left : most;
		weft_nanet_receive(s->engine, source, part.at, part.bytes, part.segment, now_ns,
				   &s->receiver->out);
		if (s->receiver->endangered)
			rescue(s, source);
		follow(s, &part, now_ns);
		part.at += part.bytes;
		left -= part.bytes;
	} while (left);
}

static inline __attribute__((always_inline)) void
put_each(struct weft_stream *s, uint32_t source, uint32_t runs, uint64_t now_ns,
	 void (*follow)(struct weft_stream *s, const struct weft_stream_run *run, uint64_t now_ns))
{
	struct weft_stream_receiver *r = s->receiver;
	struct weft_landing *landing = &s->list[s->source_options[source].list].landing;

	for (uint32_t i = 0; i < runs; i++) {
		if (r->run[i].place == WEFT_STREAM_NOWHERE)
			weft_landing_settle(landing);
		r->endangered = r->run[i].place == WEFT_STREAM_BEHIND && i + 1 < runs &&
						r->run[i + 1].place == WEFT_STREAM_BEHIND
					? &r->run[i + 1]
					: NULL;
		put_run(s, source, &r->run[i], now_ns, follow);
	}
	r->endangered = NULL;
}

/* Whether the list has stamps is asked once for all runs, so that it costs a datagram nothing. */
static void put_runs(struct weft_stream *s, uint32_t source, uint32_t runs, uint64_t now_ns)
{
	if (s->list[s->source_options[source].list].flags & WEFT_STREAM_STAMPS)
		put_each(s, source, runs, now_ns, follow_stamped);
	else
		put_each(s, source, runs, now_ns, follow_steps);
}

/* What is left of packed buffers. */
static const struct weft_stream_places *offer_rests(struct weft_stream *s, uint32_t list)
{
	struct weft_stream_places *places = &s->receiver->places;
	struct weft_clop_rest rest[2];

	places->rests = weft_nanet_rests(s->engine, list, rest);
	if (!places->rests)
		return NULL;
	s->receiver->rest_buffer = rest[0].buffer;
	for (uint32_t i = 0; i < places->rests; i++) {
		places->rest[i].at = s->list[list].memory +
				     (size_t)rest[i].buffer * s->clop[list].bytes + rest[i].offset;
		places->rest[i].bytes = rest[i].bytes;
	}
	return places;
}

static const struct weft_stream_places *offer_places(struct weft_stream *s, uint32_t list)
{
	struct weft_stream_receiver *r = s->receiver;
	uint32_t buffer, most;

	r->places.count = r->places.rests = 0;
	if (!s->clop[list].slots)
		return offer_rests(s, list);
	if (!(most = weft_nanet_expect(s->engine, list, &buffer)))
		return NULL;
	weft_landing_offer(&s->list[list].landing, buffer, most, &r->places);
	return &r->places;
}

/* Takes what has come from the source. Returns whether there was anything. */
static bool receive_batch(struct weft_stream *s, uint32_t source)
{
	struct weft_stream_receiver *r = s->receiver;
	struct weft_stream_source_of *from = &s->source[source];
	uint32_t list = s->source_options[source].list;
	const struct weft_stream_places *places = offer_places(s, list);
	int runs = from->link->kind->receive(from->link, places, r->run);
	uint64_t now_ns;

	/* half of the list on its way is waited for, so that the rest is free for what comes next */
	end_crossings(s, r->crossings - r->crossed >= s->clop[list].buffers / 2);
	if (runs < 0)
		from->failed = (uint64_t)-runs;
	if (runs) {
		from->changed = from->unasked = true;
		from->calls++;
	}
	if (runs > 0) {
		r->runs += (uint32_t)runs;
		now_ns = weft_clock_now_ns();
		if (places)
			put_aside(s, source, (uint32_t)runs);
		if (places && !r->landed)
			weft_landing_withdraw(&s->list[list].landing);
		see_to_time(s, now_ns);
		put_runs(s, source, (uint32_t)runs, now_ns);
	}
	if (places)
		weft_landing_settle(&s->list[list].landing);
	tell_waiting(s);
	if (s->list[list].ferry)
		weft_ferry_send(s->list[list].ferry);
	return runs > 0;
}

/* ---- The thread ---- */

static void publish_counters(struct weft_stream *s, uint32_t source, bool ask)
{
	struct weft_stream_source_of *from = &s->source[source];
	struct weft_stream_snapshot *to = &s->shared->snapshot[source];
	struct weft_nanet_account a;
	uint64_t turn = atomic_load_explicit(&to->turn, memory_order_relaxed);
	uint64_t words[sizeof(struct weft_stream_counters) / 8];
	struct weft_stream_counters c;

	if (ask && from->link->kind->ask)
		from->link->kind->ask(from->link);
	weft_nanet_account(s->engine, source, &a);
	c = (struct weft_stream_counters){
#define X(name, what) .name = a.counters.name,
		WEFT_NANET_COUNTERS(X)
#undef X
			.missing = a.missing,
		.lost = a.lost,
		.sent = a.sent,
		.restarts = a.restarts,
		.wraps = a.wraps,
		.dropped = from->link->dropped,
		.copied = from->copied + from->link->copied,
		.calls = from->calls,
		.failed = from->failed,
	};
	from->changed = false;
	from->unasked = from->unasked && !ask;
	memcpy(words, &c, sizeof(words));
	atomic_store_explicit(&to->turn, turn + 1, memory_order_relaxed);
	atomic_thread_fence(
		memory_order_release); /* with the fence in read_snapshot (stream/stream.c) */
	for (size_t i = 0; i < sizeof(words) / 8; i++)
		atomic_store_explicit(&to->word[i], words[i], memory_order_relaxed);
	/* with the acquire in read_snapshot (stream/stream.c) */
	atomic_store_explicit(&to->turn, turn + 2, memory_order_release);
}

static void free_buffer(void *context, uint32_t number)
{
	struct weft_stream *s = context;
	uint32_t list = 0;

	while (list + 1 < s->lists && s->base[list + 1] <= number)
		list++;
	weft_nanet_give_back(s->engine, list, number - s->base[list], s->receiver->told[number]);
}

static void flush_lists(struct weft_stream *s, uint64_t lists)
{
	for (; lists; lists &= lists - 1) {
		weft_nanet_flush(s->engine, (uint32_t)__builtin_ctzll(lists), &s->receiver->out);
		tell_steps(s);
	}
}

/* Moderation: returns whether it slept, while datagrams gathered. */
static bool moderate(struct weft_stream *s)
{
	static const struct timespec rest = {.tv_nsec = REST_NS};
	struct weft_stream_receiver *r = s->receiver;
	uint64_t now_ns = weft_clock_now_ns();

	if (r->rests && r->runs - r->runs_rested < REST_LEAST)
		r->rests = false;
	r->sleeps++;
	if (now_ns >= r->window_ns) {
		r->rests |= r->sleeps >= OFTEN;
		r->window_ns = now_ns + WINDOW_NS;
		r->sleeps = 0;
	}
	r->runs_rested = r->runs;
	if (!r->rests || weft_nanet_deadline(s->engine) < now_ns + REST_NS)
		return false;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, NULL);
	return true;
}

/* Sleeps until a link may have something, time is up, or the application wakes it. */
static void sleep_now(struct weft_stream *s)
{
	struct pollfd wait[WEFT_STREAM_SOURCES + 1];
	uint64_t deadline_ns = weft_nanet_deadline(s->engine), now_ns = weft_clock_now_ns();
	struct timespec until = {0};
	uint32_t count = 0;
	eventfd_t kicks;

	for (uint32_t i = 0; i < s->sources; i++) {
		struct weft_stream_link *link = s->source[i].link;

		if (s->source[i].failed)
			continue;
		if (link->kind->sleep && !link->kind->sleep(link))
			return;
		wait[count++] = (struct pollfd){.fd = link->fd, .events = POLLIN};
	}
	wait[count] = (struct pollfd){.fd = s->kick, .events = POLLIN};
	if (deadline_ns > now_ns && deadline_ns != UINT64_MAX)
		until = (struct timespec){.tv_sec = (time_t)((deadline_ns - now_ns) / 1000000000),
					  .tv_nsec = (long)((deadline_ns - now_ns) % 1000000000)};
	ppoll(wait, count + 1, deadline_ns == UINT64_MAX ? NULL : &until, NULL);
	if (wait[count].revents)
		eventfd_read(s->kick, &kicks);
}

static bool receive_all(struct weft_stream *s)
{
	bool came = false;

	for (uint32_t i = 0; i < s->sources; i++)
		if (!s->source[i].failed)
			came |= receive_batch(s, i);
	see_to_time(s, weft_clock_now_ns());
	return came;
}

static void publish_all(struct weft_stream *s, bool ask)
{
	for (uint32_t i = 0; i < s->sources; i++)
		if (s->source[i].changed || (ask && s->source[i].unasked))
			publish_counters(s, i, ask);
}

void *weft_stream_receiver_run(void *stream)
{
	struct weft_stream *s = stream;
	uint64_t last_ns = weft_clock_now_ns(), now_ns;

	prctl(PR_SET_NAME, "weft-stream");
	prctl(PR_SET_TIMERSLACK, 1ul);
	while (!atomic_load_explicit(&s->shared->stop, memory_order_acquire)) {
		weft_tell_returned(&s->tell, free_buffer, s);
		if (atomic_load_explicit(&s->shared->flush, memory_order_relaxed))
			flush_lists(s, atomic_exchange(&s->shared->flush, 0));
		if (receive_all(s)) {
			last_ns = s->spin_ns ? weft_clock_now_ns() : 0;
			publish_all(s, false);
			continue;
		}
		now_ns = s->spin_ns ? weft_clock_now_ns() : 0;
		if (now_ns - last_ns < s->spin_ns)
			continue;
		end_crossings(s, true);
		publish_all(s, true);
		if (!moderate(s))
			sleep_now(s);
	}
	for (uint32_t i = 0; i < LAST && receive_all(s); i++)
		weft_tell_returned(&s->tell, free_buffer, s);
	for (uint32_t i = 0; i < s->lists; i++)
		flush_lists(s, 1ull << i);
	end_crossings(s, true);
	for (uint32_t i = 0; i < s->sources; i++)
		publish_counters(s, i, true);
	weft_tell_stop(&s->tell);
	return NULL;
}
