/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Two ends of one cable, a delay of words each way, and what gives and takes packets at them. */
#ifndef WEFT_TESTS_APE_ENDS_H
#define WEFT_TESTS_APE_ENDS_H

#include "../random.h"
#include "wire/ape/frames.h"

#define DELAY_MAX 10000u

struct packet {
	struct weft_ape_word word[2 + WEFT_APE_PAYLOAD_WORDS];
	unsigned int words;
};

struct end {
	struct weft_ape_queue queue[WEFT_APE_CHANNELS];
	struct weft_ape_word header_word[WEFT_APE_CHANNELS][WEFT_APE_HEADERS_MAX];
	struct weft_ape_word data_word[WEFT_APE_CHANNELS][WEFT_APE_DEPTH_MAX];
	struct weft_ape_rx rx;
	struct weft_ape_tx tx;
	/* The packet that is given, and the one that is taken. */
	struct packet giving, taking;
	unsigned int given, taking_vc;
	bool busy_giving, busy_taking;
};

struct cable {
	struct weft_ape_beat beat[DELAY_MAX + 1];
	bool there[DELAY_MAX + 1];
	unsigned int delay, at;
};

struct pair {
	struct weft_ape_link_config config;
	struct end end[2];
	struct cable cable[2]; /* from each */
	uint64_t now_ns;
	/* May change or drop what end i sends, or NULL. */
	bool (*meddle)(struct pair *p, unsigned int i, struct weft_ape_beat *beat);
};

void pair_begin(struct pair *p, const struct weft_ape_link_config *config, unsigned int delay);
/* The end's receiver begins anew. */
void end_begin(struct pair *p, struct end *e);
/* A copy of what the sender has for the cable in this word time, if anything. */
bool end_send(struct weft_ape_tx *tx, uint64_t now_ns, struct weft_ape_beat *beat);
/* One word time. */
void pair_step(struct pair *p);
/* Whether end i has no packet to give; pair_give gives it one, whose words pair_feed sends. */
bool pair_may_give(const struct pair *p, unsigned int i);
void pair_give(struct pair *p, unsigned int i, const struct packet *packet);
/* Gives up to so many further words of the packet. */
void pair_feed(struct pair *p, unsigned int i, unsigned int words);
/* Takes up to so many words. Returns whether a whole packet is in end[i].taking. */
bool pair_take(struct pair *p, unsigned int i, unsigned int words);
/* Makes a packet: a header that parses, and words that the seed decides. */
void packet_make(struct packet *packet, unsigned int vc, unsigned int payload_words,
		 uint64_t *seed);
uint64_t sum_of(const uint64_t beats[WEFT_APE_KINDS]);

#endif
