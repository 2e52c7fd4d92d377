/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libFuzzer's target for the engine of streams: sources and lists, then datagrams, delays, and buffers that
 * are given back. Whatever comes, each place lies in an open buffer, no byte of it is taken twice, and each
 * datagram is counted in one counter.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/nanet/mgp.h"
#include "wire/nanet/mtp.h"
#include "wire/nanet/nanet.h"

#define LISTS	2u
#define BUFFERS 4u
#define BYTES	1024u
#define MEMORY	65536u

struct input {
	const uint8_t *at, *end;
};

static struct input in;
static struct weft_nanet *engine;
static struct weft_nanet_out out;
static struct weft_clop_options lists[LISTS];
static struct weft_nanet_source_options sources[LISTS];
static uint32_t generation[LISTS][BUFFERS], taken[LISTS][BUFFERS]; /* bytes of payload */
/* the engine has told that a datagram was outside */
static bool outside[LISTS][BUFFERS];
static uint64_t memory[MEMORY / 8], now_ns, arrived;
static uint8_t bytes[LISTS][BUFFERS][BYTES];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static uint8_t next(void)
{
	return in.at < in.end ? *in.at++ : 0;
}

static void require(bool ok)
{
	if (!ok)
		abort();
}

/* The sum of a packet of the torus, which libFuzzer would not find: 0. */
static uint32_t no_sum(uint32_t crc, const void *data, size_t count)
{
	return 0;
}

static void choose(uint32_t i)
{
	uint8_t how = next(), more = next();

	lists[i] = (struct weft_clop_options){.buffers = 1 + (how & 3),
					      .bytes = BYTES,
					      .datagrams = more & 7,
					      .events = more >> 3 & 15,
					      .timeout_ns = more >> 7 ? 100 : 0,
					      .bursts = how & 4};
	if (how & 8) {
		lists[i].slots = 1u << (how >> 4 & 3);
		lists[i].slot_bytes = BYTES / lists[i].slots;
		lists[i].ordered = how >> 6 & 1;
	}
	how = next();
	sources[i] = (struct weft_nanet_source_options){.list = next() % 3,
							.protocol = {.kind = how & 3,
								     .offset = how >> 2 & 3,
								     .bits = 16u << (how >> 4 & 3),
								     .big_endian = how >> 6 & 1,
								     .step = 1 + (how >> 7),
								     .id = WEFT_PROTOCOL_ANY,
								     .crc32c = no_sum},
							.window = next(),
							.history = 64u << (more & 3),
							.jump = 1 + next()};
}

static void follow(void)
{
	for (uint32_t i = 0; i < out.steps; i++) {
		const struct weft_nanet_step *s = &out.step[i];
		uint32_t l = s->kind == WEFT_NANET_PLACE ? s->place.list : s->record.list;
		uint32_t b = s->kind == WEFT_NANET_PLACE ? s->place.buffer : s->record.buffer;

		require(l < LISTS && b < lists[l].buffers && !outside[l][b]);
		if (s->kind == WEFT_NANET_TELL) {
			require(s->record.generation == generation[l][b] && s->record.datagrams);
			require(s->record.bytes <= BYTES && taken[l][b] <= s->record.bytes);
			outside[l][b] = true;
			continue;
		}
		if (s->place.generation != generation[l][b]) {
			require(s->place.generation == generation[l][b] + 1);
			generation[l][b]++;
			memset(bytes[l][b], 0, BYTES);
			taken[l][b] = 0;
		}
		require(s->place.offset + s->place.bytes <= BYTES);
		for (uint32_t k = 0; k < s->place.bytes; k++)
			require(!bytes[l][b][s->place.offset + k]++);
		taken[l][b] += s->place.bytes;
	}
}

/* Hands the engine some bytes of the input, or a valid MGP without events whose number is near the expected
 * one. */
static void receive(uint8_t how)
{
	uint8_t data[512];
	uint32_t count = next() * 2u, segment = how & 0x80 ? 1 + next() : sizeof(data);

	if (how & 0x40) {
		struct weft_mgp mgp = {
			.sequence = next(), .bytes = WEFT_MGP_HEADER, .flags = how & 1};

		count = weft_mgp_write(&mgp, data);
		segment = sizeof(data);
	} else {
		if ((size_t)(in.end - in.at) < count)
			count = (uint32_t)(in.end - in.at);
		memcpy(data, in.at, count);
		in.at += count;
	}
	if (count > segment * WEFT_NANET_RUN)
		count = segment * WEFT_NANET_RUN;
	/* a block of exactly that size, so that the sanitizer sees its end */
	uint8_t *exact = malloc(count + 1);

	require(exact != NULL);
	memcpy(exact + 1, data, count);
	arrived += count ? (count + segment - 1) / segment : 1;
	weft_nanet_receive(engine, how >> 5 & 1, exact + 1, count, segment, now_ns, &out);
	free(exact);
	follow();
}

static void give_back(uint8_t how)
{
	uint32_t l = how & 1, b = (how >> 1 & 3) % lists[l].buffers;

	require(weft_nanet_give_back(engine, l, b, generation[l][b]) == outside[l][b]);
	outside[l][b] = false;
}

static void step(void)
{
	uint8_t how = next();

	switch (how & 3) {
	case 0:
		give_back(how >> 2);
		break;
	case 1:
		now_ns += how >> 2;
		if (weft_nanet_deadline(engine) <= now_ns) {
			weft_nanet_timer(engine, now_ns, &out);
			require(out.steps && weft_nanet_deadline(engine) > now_ns);
			follow();
		}
		if (how == 0xfd) {
			weft_nanet_flush(engine, next() % LISTS, &out);
			follow();
		}
		break;
	default:
		receive(how);
	}
}

static void check(void)
{
	struct weft_nanet_account a;

	weft_nanet_sum(engine, &a);
	require(a.counters.arrived == arrived);
	require(a.counters.arrived == a.counters.placed + a.counters.duplicate + a.counters.late +
					      a.counters.bad + a.counters.no_buffer);
	require(a.sent == a.counters.arrived - a.counters.duplicate + a.lost &&
		a.lost <= a.missing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
	const struct weft_nanet_options options = {LISTS, LISTS, sources, lists};
	struct weft_mtp mtp;

	in = (struct input){data, data + count};
	weft_mtp_parse(data, count, &mtp);
	memset(generation, 0, sizeof(generation));
	memset(outside, 0, sizeof(outside));
	now_ns = 1;
	arrived = 0;
	for (uint32_t i = 0; i < LISTS; i++)
		choose(i);
	if (weft_nanet_wrong(&options))
		return 0;
	require(weft_nanet_bytes(&options) <= MEMORY);
	engine = weft_nanet_begin(&options, memory);
	while (in.at < in.end)
		step();
	check();
	return 0;
}
