/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/frames.h"

static const char *const names[WEFT_APE_RX_STATES] = {
	[WEFT_APE_RX_OFF] = "off",
	[WEFT_APE_RX_IDLE] = "idle",
	[WEFT_APE_RX_START] = "start",
	[WEFT_APE_RX_HEADER] = "header",
	[WEFT_APE_RX_DATA] = "data",
	[WEFT_APE_RX_FOOTER] = "footer",
	[WEFT_APE_RX_HEADER_CREDIT] = "credit in header",
	[WEFT_APE_RX_DATA_CREDIT] = "credit in data",
	[WEFT_APE_RX_FOOTER_CREDIT] = "credit in footer",
	[WEFT_APE_RX_ERROR] = "error",
};

const char *weft_ape_rx_state_str(enum weft_ape_rx_state state)
{
	return names[state];
}

void weft_ape_link_defaults(struct weft_ape_link_config *config)
{
	*config = (struct weft_ape_link_config){
		.quads = 2,
		.check_headers = true,
		.check_credits = true,
		.cycle = 255,
		.margin = 64,
		.threshold = {.data = 384, .headers = 96},
		.refresh_ns = 100000000,
	};
}

void weft_ape_rx_init(struct weft_ape_rx *rx, const struct weft_ape_link_config *config,
		      struct weft_ape_queue *const queue[WEFT_APE_CHANNELS],
		      struct weft_ape_ledger *ledger)
{
	*rx = (struct weft_ape_rx){.config = config, .ledger = ledger};
	for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++)
		rx->queue[vc] = queue[vc];
}

/* ---- Credits ---- */

static enum weft_ape_checked check_word(struct weft_ape_word *w, bool wanted)
{
	return wanted ? weft_ape_secded_check(w) : WEFT_APE_INTACT;
}

static bool take_credit_word(struct weft_ape_rx *rx, uint64_t lo, uint64_t hi)
{
	struct weft_ape_word w = {lo, hi};
	struct weft_ape_credit credit;
	enum weft_ape_checked checked = check_word(&w, rx->config->check_credits);

	if (checked == WEFT_APE_SPOILT && rx->state != WEFT_APE_RX_ERROR)
		rx->credits_dropped++;
	if (checked == WEFT_APE_SPOILT || !weft_ape_credit_parse(w, rx->config->shift, &credit))
		return false;
	if (checked == WEFT_APE_CORRECTED)
		rx->credits_corrected++;
	rx->seen = credit.mark;
	rx->unheard = credit.deaf;
	rx->between = credit.between;
	rx->asks += credit.wants;
	weft_ape_ledger_credit(rx->ledger, &credit);
	return true;
}

static void count_credit(struct weft_ape_rx *rx, bool taken, unsigned int beats)
{
	if (taken)
		rx->beats[WEFT_APE_K_CREDIT] += beats;
	else
		rx->skipped += beats;
	if (taken && rx->state == WEFT_APE_RX_ERROR)
		rx->state = WEFT_APE_RX_IDLE;
}

/* A beat of 128 bits and more. Of the two copies in one of 256 either is enough. */
static void take_credit(struct weft_ape_rx *rx, const struct weft_ape_beat *beat)
{
	const uint64_t *quad = beat->quad;

	count_credit(rx,
		     take_credit_word(rx, quad[0], quad[1]) ||
			     (rx->config->quads == 4 && take_credit_word(rx, quad[2], quad[3])),
		     1);
}

/* Looks for a credit outside of packets, where any beat may be one; of 64 bits any two. */
static void look_for_credit(struct weft_ape_rx *rx, const struct weft_ape_beat *beat)
{
	bool taken;

	if (rx->config->quads > 1) {
		take_credit(rx, beat);
		return;
	}
	taken = rx->half_credit && take_credit_word(rx, rx->first_of_credit, beat->quad[0]);
	if (taken)
		count_credit(rx, true, 2);
	else if (rx->half_credit)
		count_credit(rx, false, 1);
	rx->half_credit = !taken;
	rx->first_of_credit = beat->quad[0];
}

/* ---- Content ---- */

static void take_header(struct weft_ape_rx *rx, struct weft_ape_word w)
{
	struct weft_ape_header h;
	enum weft_ape_checked checked = check_word(&w, rx->config->check_headers);
	struct weft_ape_queue *q;

	rx->state = WEFT_APE_RX_ERROR;
	if (checked == WEFT_APE_SPOILT) {
		rx->headers_dropped++;
		return;
	}
	if (!weft_ape_header_parse(w, &h)) {
		rx->headers_refused++;
		return;
	}
	q = rx->queue[h.vc];
	rx->words_left = weft_ape_payload_words(h.bytes);
	if (!weft_ape_queue_has_room(q, rx->words_left)) {
		rx->no_room++;
		return;
	}
	if (checked == WEFT_APE_CORRECTED)
		rx->headers_corrected++;
	rx->vc = h.vc;
	weft_ape_fifo_push(&q->headers, w);
	rx->taken[h.vc].headers++;
	if (weft_ape_is_header_only(h.type)) {
		rx->packets++;
		rx->state = WEFT_APE_RX_IDLE;
	} else {
		rx->state = rx->words_left ? WEFT_APE_RX_DATA : WEFT_APE_RX_FOOTER;
	}
}

static void take_word(struct weft_ape_rx *rx, struct weft_ape_word w)
{
	struct weft_ape_queue *q = rx->queue[rx->vc];

	if (rx->state == WEFT_APE_RX_HEADER) {
		take_header(rx, w);
	} else if (rx->state == WEFT_APE_RX_DATA) {
		weft_ape_fifo_push(&q->data, w);
		rx->taken[rx->vc].data++;
		if (!--rx->words_left)
			rx->state = WEFT_APE_RX_FOOTER;
	} else if (rx->state == WEFT_APE_RX_FOOTER) {
		weft_ape_fifo_push(&q->headers, w);
		rx->taken[rx->vc].headers++;
		rx->packets++;
		rx->state = WEFT_APE_RX_IDLE;
	}
}

/* Fills the rest of a packet that was cut; there is room for it, since there was when the header came. */
static void finish(struct weft_ape_rx *rx)
{
	if (rx->state != WEFT_APE_RX_DATA && rx->state != WEFT_APE_RX_FOOTER)
		return;
	rx->cut++;
	while (rx->state == WEFT_APE_RX_DATA)
		take_word(rx, (struct weft_ape_word){0});
	take_word(rx, weft_ape_footer_filler());
}

static void content(struct weft_ape_rx *rx, const struct weft_ape_beat *beat)
{
	enum weft_ape_kind kind = rx->state == WEFT_APE_RX_HEADER ? WEFT_APE_K_HEADER
				  : rx->state == WEFT_APE_RX_DATA ? WEFT_APE_K_DATA
								  : WEFT_APE_K_FOOTER;

	rx->beats[kind]++;
	if (rx->config->quads > 1) {
		for (unsigned int i = 0; i < rx->config->quads; i += 2)
			take_word(rx, (struct weft_ape_word){beat->quad[i], beat->quad[i + 1]});
	} else if (rx->half) {
		rx->half = false;
		take_word(rx, (struct weft_ape_word){rx->first, beat->quad[0]});
	} else {
		rx->half = true;
		rx->first = beat->quad[0];
	}
}

/* ---- States ---- */

static void begin_link(struct weft_ape_rx *rx)
{
	rx->beats[WEFT_APE_K_START]++;
	rx->half = false;
	rx->half_credit = false;
	rx->state = WEFT_APE_RX_HEADER;
}

static void idle(struct weft_ape_rx *rx, const struct weft_ape_beat *beat, bool magic, bool start)
{
	if (magic) {
		rx->beats[WEFT_APE_K_MAGIC]++;
		rx->state = WEFT_APE_RX_START;
		rx->half_credit = false;
	} else if (start && rx->config->no_lead) {
		begin_link(rx);
	} else {
		look_for_credit(rx, beat);
	}
}

/* MAGIC MAGIC is content of a packet whose beginning was lost: START behind it is none. */
static void expect_start(struct weft_ape_rx *rx, const struct weft_ape_beat *beat, bool magic,
			 bool start)
{
	if (start) {
		begin_link(rx);
		return;
	}
	rx->state = WEFT_APE_RX_IDLE;
	if (magic)
		rx->skipped++;
	else
		look_for_credit(rx, beat);
}

/* A credit has come within a packet that says that its sender is between packets: words of the packet were lost, and it ends. */
static void end_lost(struct weft_ape_rx *rx)
{
	if (!rx->between)
		return;
	finish(rx);
	rx->state = WEFT_APE_RX_IDLE;
}

/* The second half of a credit, which may look like anything. */
static void end_credit(struct weft_ape_rx *rx, const struct weft_ape_beat *beat)
{
	count_credit(rx, take_credit_word(rx, rx->first_of_credit, beat->quad[0]), 2);
	rx->half_credit = false;
	end_lost(rx);
}

/* Behind MAGIC within a packet. */
static void within(struct weft_ape_rx *rx, const struct weft_ape_beat *beat, bool magic, bool start)
{
	enum weft_ape_rx_state credit = rx->state;

	rx->between = false;
	rx->state -= WEFT_APE_RX_HEADER_CREDIT - WEFT_APE_RX_HEADER;
	if (rx->half_credit) {
		end_credit(rx, beat);
	} else if (magic) {
		rx->beats[WEFT_APE_K_MAGIC]--;
		rx->beats[WEFT_APE_K_ESCAPE]++;
		content(rx, beat);
	} else if (start && !rx->config->no_lead) {
		finish(rx);
		begin_link(rx);
	} else if (rx->config->quads == 1) {
		rx->half_credit = true;
		rx->first_of_credit = beat->quad[0];
		rx->state = credit;
	} else {
		take_credit(rx, beat);
		end_lost(rx);
	}
}

void weft_ape_rx_beat(struct weft_ape_rx *rx, const struct weft_ape_beat *beat)
{
	bool magic = weft_ape_beat_is(beat, WEFT_APE_MAGIC, rx->config->quads);
	bool start = weft_ape_beat_is(beat, WEFT_APE_START, rx->config->quads);

	switch (rx->state) {
	case WEFT_APE_RX_STATES:
	case WEFT_APE_RX_OFF:
		rx->skipped++;
		return;
	case WEFT_APE_RX_ERROR:
	case WEFT_APE_RX_IDLE:
		idle(rx, beat, magic, start);
		return;
	case WEFT_APE_RX_START:
		expect_start(rx, beat, magic, start);
		return;
	case WEFT_APE_RX_HEADER:
	case WEFT_APE_RX_DATA:
	case WEFT_APE_RX_FOOTER:
		if (magic) {
			rx->beats[WEFT_APE_K_MAGIC]++;
			rx->state += WEFT_APE_RX_HEADER_CREDIT - WEFT_APE_RX_HEADER;
		} else {
			content(rx, beat);
		}
		return;
	case WEFT_APE_RX_HEADER_CREDIT:
	case WEFT_APE_RX_DATA_CREDIT:
	case WEFT_APE_RX_FOOTER_CREDIT:
		within(rx, beat, magic, start);
		return;
	}
}

/* Copies the words of full beats, each read once; how many stand before one that is MAGIC. What is copied beyond lies in free room. */
static unsigned int copy_words(struct weft_ape_word *to, const uint64_t *quad, unsigned int count,
			       unsigned int words)
{
	unsigned int n;

	__builtin_memcpy(to, quad, (size_t)count * WEFT_APE_WORD_BYTES);
	n = weft_ape_before_magic(to, count);
	return n - n % words;
}

unsigned int weft_ape_rx_run(struct weft_ape_rx *rx, const uint64_t *quad, unsigned int count)
{
	unsigned int quads = rx->config->quads, words = quads / 2, n = 0;
	struct weft_ape_fifo *f = &rx->queue[rx->vc]->data;

	if (rx->state != WEFT_APE_RX_DATA || !words)
		return 0;
	count = weft_ape_least(count, rx->words_left / words);
	while (n < count) {
		uint32_t place = weft_ape_fifo_end(f);
		unsigned int room = weft_ape_least((count - n) * words, f->depth - place);
		unsigned int run = copy_words(f->word + place, quad + (size_t)n * quads,
					      room - room % words, words);

		f->count += run;
		n += run / words;
		if (run != room)
			break;
	}
	if (f->count > f->deepest)
		f->deepest = f->count;
	rx->words_left -= n * words;
	rx->beats[WEFT_APE_K_DATA] += n;
	rx->taken[rx->vc].data += n * words;
	if (!rx->words_left)
		rx->state = WEFT_APE_RX_FOOTER;
	return n;
}

/* ---- The cable ---- */

void weft_ape_rx_down(struct weft_ape_rx *rx)
{
	if (rx->state >= WEFT_APE_RX_HEADER_CREDIT && rx->state <= WEFT_APE_RX_FOOTER_CREDIT)
		rx->state -= WEFT_APE_RX_HEADER_CREDIT - WEFT_APE_RX_HEADER;
	finish(rx);
	rx->state = WEFT_APE_RX_OFF;
}

bool weft_ape_rx_is_within(const struct weft_ape_rx *rx)
{
	return rx->state >= WEFT_APE_RX_DATA && rx->state <= WEFT_APE_RX_FOOTER_CREDIT &&
	       rx->state != WEFT_APE_RX_HEADER_CREDIT;
}

void weft_ape_rx_up(struct weft_ape_rx *rx)
{
	rx->state = WEFT_APE_RX_IDLE;
	rx->half_credit = false;
}

void weft_ape_rx_report(const struct weft_ape_rx *rx, struct weft_ape_credit *credit)
{
	for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++) {
		const struct weft_ape_queue *q = rx->queue[vc];

		credit->used[vc].data = q->data.count + rx->config->margin;
		credit->used[vc].headers = q->headers.count + rx->config->margin;
		credit->taken[vc] = rx->taken[vc];
	}
	credit->shift = rx->config->shift;
	credit->seen = rx->seen;
	credit->deaf = rx->state == WEFT_APE_RX_OFF;
}
