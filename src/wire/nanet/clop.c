/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/nanet/clop.h"

const char *weft_clop_why_str(enum weft_clop_why why)
{
	static const char *const names[WEFT_CLOP_WHYS] = {
		[WEFT_CLOP_FULL] = "full",	     [WEFT_CLOP_DATAGRAMS] = "datagrams",
		[WEFT_CLOP_EVENTS] = "events",	     [WEFT_CLOP_TIME] = "time",
		[WEFT_CLOP_BURST] = "burst",	     [WEFT_CLOP_FLUSHED] = "flushed",
		[WEFT_CLOP_RESTARTED] = "restarted",
	};

	return names[why];
}

bool weft_clop_valid(const struct weft_clop_options *o)
{
	if (!o->buffers || !o->bytes || o->bytes > 1u << 30 || o->buffers > 1u << 20)
		return false;
	if (!o->slots)
		return !o->ordered && !o->footer_bytes;
	if (o->slot_bytes <= o->footer_bytes || (uint64_t)o->slots * o->slot_bytes > o->bytes)
		return false;
	/* two buffers of an ordered list are open at a time: neither can end by a number of datagrams */
	return !o->ordered || (!(o->slots & (o->slots - 1)) && !o->datagrams && !o->events &&
			       o->buffers >= WEFT_CLOP_OPEN);
}

size_t weft_clop_bytes(const struct weft_clop_options *o)
{
	return o->buffers * sizeof(struct weft_clop_buffer);
}

void weft_clop_begin(struct weft_clop *c, const struct weft_clop_options *o, void *memory)
{
	*c = (struct weft_clop){.options = *o,
				.longest = o->slots ? o->slot_bytes - o->footer_bytes : o->bytes,
				.buffer = memory,
				.free = o->buffers};
	for (uint32_t i = 0; i < o->buffers; i++)
		c->buffer[i] = (struct weft_clop_buffer){0};
}

/* Blocks are numbers without their lowest bits, and wrap with them: how far a is ahead of b. */
static int64_t block_ahead(const struct weft_clop *c, uint64_t a, uint64_t b)
{
	unsigned int low = c->options.ordered ? (unsigned int)__builtin_ctz(c->options.slots) : 0;

	return (int64_t)((a - b) << low) >> low;
}

/* ---- Opening and telling ---- */

/* The next free buffer in the circle; there is one. */
static uint32_t next_free(const struct weft_clop *c)
{
	uint32_t i = c->next;

	while (c->buffer[i].state != WEFT_CLOP_STATE_FREE)
		i = i + 1 < c->options.buffers ? i + 1 : 0;
	return i;
}

/* Opens the next free buffer; NULL if none is free. */
static struct weft_clop_buffer *open_next(struct weft_clop *c, uint64_t now_ns)
{
	uint32_t i;

	if (!c->free || c->opened == WEFT_CLOP_OPEN)
		return NULL;
	i = next_free(c);
	c->next = i + 1 < c->options.buffers ? i + 1 : 0;
	c->free--;
	c->open[c->opened++] = i;
	c->buffer[i] = (struct weft_clop_buffer){
		.state = WEFT_CLOP_STATE_OPEN,
		.generation = c->buffer[i].generation + 1,
		.first_ns = now_ns,
	};
	return &c->buffer[i];
}

/* Ends the buffer at that place of c->open, and makes its record: it is out. */
static void hand_out(struct weft_clop *c, uint32_t which, enum weft_clop_why why,
		     struct weft_clop_record *record)
{
	struct weft_clop_buffer *b = &c->buffer[c->open[which]];

	*record = (struct weft_clop_record){
		.buffer = c->open[which],
		.generation = b->generation,
		.why = why,
		.bytes = b->used,
		.datagrams = b->datagrams,
		.events = b->events,
		.first_ns = b->first_ns,
		.last_ns = b->last_ns,
	};
	if (b->numbered) {
		record->first_sequence = b->low;
		record->last_sequence = b->high;
		record->missing = b->high - b->low + 1 - b->numbered;
	}
	if (!c->has_closed || block_ahead(c, b->block, c->closed) > 0)
		c->closed = b->block;
	c->has_closed = true;
	b->state = WEFT_CLOP_STATE_OUT;
	c->opened--;
	for (uint32_t i = which; i < c->opened; i++)
		c->open[i] = c->open[i + 1];
}

uint32_t weft_clop_end(struct weft_clop *c, enum weft_clop_why why,
		       struct weft_clop_record record[])
{
	uint32_t count = c->opened;

	for (uint32_t i = 0; i < count; i++)
		hand_out(c, 0, why, &record[i]);
	if (why == WEFT_CLOP_RESTARTED)
		c->has_closed = false;
	return count;
}

uint64_t weft_clop_deadline(const struct weft_clop *c)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < c->opened && c->options.timeout_ns; i++) {
		uint64_t at = c->buffer[c->open[i]].first_ns + c->options.timeout_ns;

		first = at < first ? at : first;
	}
	return first;
}

bool weft_clop_expire(struct weft_clop *c, uint64_t now_ns, struct weft_clop_record *record)
{
	for (uint32_t i = 0; i < c->opened && c->options.timeout_ns; i++)
		if (c->buffer[c->open[i]].first_ns + c->options.timeout_ns <= now_ns) {
			hand_out(c, i, WEFT_CLOP_TIME, record);
			return true;
		}
	return false;
}

bool weft_clop_give_back(struct weft_clop *c, uint32_t buffer, uint32_t generation)
{
	if (buffer >= c->options.buffers || c->buffer[buffer].state != WEFT_CLOP_STATE_OUT ||
	    c->buffer[buffer].generation != generation)
		return false;
	c->buffer[buffer].state = WEFT_CLOP_STATE_FREE;
	c->free++;
	return true;
}

/* ---- Placing ---- */

static void count_datagram(struct weft_clop_buffer *b, const struct weft_clop_datagram *d,
			   uint64_t now_ns)
{
	b->bytes += d->bytes;
	b->datagrams++;
	b->events += d->events;
	b->last_ns = now_ns;
	if (!d->numbered)
		return;
	if (!b->numbered || (int64_t)(d->number - b->low) < 0)
		b->low = d->number;
	if (!b->numbered || (int64_t)(d->number - b->high) > 0)
		b->high = d->number;
	b->numbered++;
}

static void tell_before(struct weft_clop *c, uint32_t which, struct weft_clop_out *out)
{
	hand_out(c, which, WEFT_CLOP_FULL, &out->record[out->before++]);
}

/* The buffer for a datagram of a packed list, or of slots one after the other: at most one is open. */
static struct weft_clop_buffer *find_next(struct weft_clop *c, const struct weft_clop_datagram *d,
					  uint64_t now_ns, struct weft_clop_out *out)
{
	const struct weft_clop_options *o = &c->options;
	struct weft_clop_buffer *b;

	if (c->opened && !o->slots && o->bytes - c->buffer[c->open[0]].used < d->bytes)
		tell_before(c, 0, out);
	b = c->opened ? &c->buffer[c->open[0]] : open_next(c, now_ns);
	if (!b) {
		out->verdict = WEFT_CLOP_NO_BUFFER;
		return NULL;
	}
	out->place.slot = b->datagrams;
	out->place.offset = o->slots ? b->datagrams * o->slot_bytes : b->used;
	return b;
}

/* The buffer for a block of an ordered list; the oldest one is told of before, if it has to make room. */
static struct weft_clop_buffer *find_block(struct weft_clop *c, const struct weft_clop_datagram *d,
					   uint64_t now_ns, struct weft_clop_out *out)
{
	uint64_t block = d->number / c->options.slots;
	struct weft_clop_buffer *b;

	/* A straggler's block ended with its numbering. One of the same number that is open is of another, and may have its slot in use. */
	out->verdict = WEFT_CLOP_TOO_LATE;
	if (!d->numbered)
		return NULL;
	out->place.slot = (uint32_t)(d->number % c->options.slots);
	out->place.offset = out->place.slot * c->options.slot_bytes;
	for (uint32_t i = 0; i < c->opened; i++)
		if (c->buffer[c->open[i]].block == block)
			return &c->buffer[c->open[i]];
	if (c->has_closed && block_ahead(c, block, c->closed) <= 0)
		return NULL;
	/* nothing below the last block but one can come any more */
	while (c->opened && block_ahead(c, block, c->buffer[c->open[0]].block) > 1)
		tell_before(c, 0, out);
	out->verdict = WEFT_CLOP_NO_BUFFER;
	b = open_next(c, now_ns);
	if (!b)
		return NULL;
	b->block = block;
	if (c->opened == 2 && block_ahead(c, block, c->buffer[c->open[0]].block) < 0) {
		uint32_t younger = c->open[0];

		c->open[0] = c->open[1];
		c->open[1] = younger;
	}
	return b;
}

uint32_t weft_clop_expect(const struct weft_clop *c, uint32_t *buffer)
{
	const struct weft_clop_options *o = &c->options;
	const struct weft_clop_buffer *b;
	uint32_t taken, most = o->datagrams && o->datagrams < o->slots ? o->datagrams : o->slots;

	if (c->opened) {
		*buffer = c->open[c->opened - 1];
		b = &c->buffer[*buffer];
		taken = o->ordered ? (uint32_t)(b->high % o->slots) + 1 : b->datagrams;
		if (taken < most)
			return most - taken;
	}
	if (!c->free)
		return 0;
	*buffer = next_free(c);
	return most;
}

uint32_t weft_clop_rests(const struct weft_clop *c, struct weft_clop_rest rest[2])
{
	const struct weft_clop_options *o = &c->options;
	uint32_t count = 0;

	if (o->slots)
		return 0;
	if (c->opened) {
		uint32_t used = c->buffer[c->open[0]].used;

		rest[count++] = (struct weft_clop_rest){c->open[0], used, o->bytes - used};
	}
	if (c->free)
		rest[count++] = (struct weft_clop_rest){next_free(c), 0, o->bytes};
	return count;
}

static bool is_full(const struct weft_clop *c, const struct weft_clop_buffer *b)
{
	return c->options.slots ? b->datagrams == c->options.slots : b->used == c->options.bytes;
}

/* Tells of the buffers that have ended with this datagram, in the order of their opening. */
static void tell_after(struct weft_clop *c, struct weft_clop_buffer *b,
		       const struct weft_clop_datagram *d, struct weft_clop_out *out)
{
	const struct weft_clop_options *o = &c->options;
	struct weft_clop_record *record = out->record + out->before;
	enum weft_clop_why why;

	if (is_full(c, b))
		why = WEFT_CLOP_FULL;
	else if (o->datagrams && b->datagrams >= o->datagrams)
		why = WEFT_CLOP_DATAGRAMS;
	else if (o->events && b->events >= o->events)
		why = WEFT_CLOP_EVENTS;
	else if (o->bursts && d->last)
		why = WEFT_CLOP_BURST;
	else
		return;
	while (c->opened && &c->buffer[c->open[0]] != b)
		hand_out(c, 0, WEFT_CLOP_FULL, &record[out->after++]);
	hand_out(c, 0, why, &record[out->after++]);
}

void weft_clop_put(struct weft_clop *c, const struct weft_clop_datagram *d, uint64_t now_ns,
		   struct weft_clop_out *out)
{
	struct weft_clop_buffer *b;

	out->before = out->after = 0;
	out->verdict = WEFT_CLOP_PLACED;
	b = c->options.ordered ? find_block(c, d, now_ns, out) : find_next(c, d, now_ns, out);
	if (!b)
		return;
	out->verdict = WEFT_CLOP_PLACED;
	out->place.buffer = (uint32_t)(b - c->buffer);
	if (out->place.offset + d->bytes > b->used)
		b->used = out->place.offset + d->bytes;
	count_datagram(b, d, now_ns);
	tell_after(c, b, d, out);
}
