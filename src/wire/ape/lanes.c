/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/lanes.h"

#define BLOCK_TYPE 0x1eu
#define FAULT	   8u
#define FAULTS_MAX 32u /* four bad symbols close together */

void weft_ape_phy_init(struct weft_ape_phy *p, enum weft_ape_code code, unsigned int lanes,
		       const struct weft_ape_b8b10 *table)
{
	*p = (struct weft_ape_phy){.code = code, .lanes = lanes, .table = table};
}

unsigned int weft_ape_phy_quads(const struct weft_ape_phy *p)
{
	return p->code == WEFT_APE_8B10B ? 2 : p->lanes;
}

static unsigned int slot_bytes(const struct weft_ape_phy *p)
{
	return weft_ape_phy_quads(p) * 8 / p->lanes;
}

unsigned int weft_ape_phy_bits(const struct weft_ape_phy *p)
{
	return p->code == WEFT_APE_8B10B ? 10 * slot_bytes(p) : WEFT_APE_BLOCK_BITS;
}

/* Byte i of a lane's slot, in the beat. */
static unsigned int place_in_beat(const struct weft_ape_phy *p, unsigned int lane, unsigned int i)
{
	return p->code == WEFT_APE_8B10B ? i * p->lanes + lane : 8 * lane + i;
}

/* ---- Sending ---- */

bool weft_ape_phy_must_mark(const struct weft_ape_phy *p)
{
	return p->since + 1u >= WEFT_APE_MARKER_EVERY;
}

static void send_symbols(struct weft_ape_phy *p, unsigned int lane, const uint8_t *bytes,
			 bool marker, uint8_t *bits)
{
	for (unsigned int i = 0; i < slot_bytes(p); i++) {
		unsigned int value = bytes[i];
		uint16_t symbol;

		if (marker && i != 1 && i != 2)
			value = i ? WEFT_APE_FILLER : WEFT_APE_COMMA;
		symbol = weft_ape_b8b10_encode(p->table, value, &p->plus[lane]);
		for (unsigned int b = 0; b < 10; b++)
			*bits++ = symbol >> b & 1;
	}
}

static void send_block(struct weft_ape_phy *p, unsigned int lane, const uint8_t *bytes, bool marker,
		       uint8_t *bits)
{
	uint64_t block = 0;

	for (unsigned int i = 0; i < 8; i++)
		block |= (uint64_t)bytes[i] << 8 * i;
	block = weft_ape_scramble(&p->state[lane], block);
	bits[0] = marker;
	bits[1] = !marker;
	for (unsigned int b = 0; b < 64; b++)
		bits[2 + b] = block >> b & 1;
}

void weft_ape_phy_send(struct weft_ape_phy *p, const struct weft_ape_beat *beat,
		       uint8_t bits[WEFT_APE_LANES][WEFT_APE_SLOT_BITS])
{
	p->number++;
	p->since = beat ? p->since + 1 : 0;
	for (unsigned int lane = 0; lane < p->lanes; lane++) {
		uint8_t bytes[WEFT_APE_SLOT_BYTES] = {BLOCK_TYPE, lane, p->number};

		for (unsigned int i = 0; beat && i < slot_bytes(p); i++) {
			unsigned int at = place_in_beat(p, lane, i);

			bytes[i] = beat->quad[at / 8] >> at % 8 * 8;
		}
		if (p->code == WEFT_APE_8B10B)
			send_symbols(p, lane, bytes, !beat, bits[lane]);
		else
			send_block(p, lane, bytes, !beat, bits[lane]);
	}
}

/* ---- The channel ---- */

static void go_down(struct weft_ape_phy *p)
{
	p->downs += p->up;
	p->up = false;
	for (unsigned int i = 0; i < p->lanes; i++)
		p->lane[i].count = 0;
}

static void lose(struct weft_ape_phy *p, struct weft_ape_lane_rx *l)
{
	l->locked = false;
	l->symbols = l->faults = 0;
	l->bits = 0;
	l->lock = (struct weft_ape_block_lock){0};
	go_down(p);
}

static void slot_in(struct weft_ape_phy *p, struct weft_ape_lane_rx *l)
{
	/* Another lane has stopped, or the skew between the two is larger than can be taken out. */
	if (l->count == WEFT_APE_DESKEW)
		go_down(p);
	l->slot[(l->first + l->count++) % WEFT_APE_DESKEW] = l->now;
	l->now = (struct weft_ape_slot_in){0};
}

static struct weft_ape_slot_in *head(struct weft_ape_lane_rx *l)
{
	return &l->slot[l->first];
}

static void pop_slot(struct weft_ape_lane_rx *l)
{
	l->first = (l->first + 1) % WEFT_APE_DESKEW;
	l->count--;
}

/* ---- Lanes ---- */

static void symbol_in(struct weft_ape_phy *p, struct weft_ape_lane_rx *l)
{
	uint16_t value;
	enum weft_ape_symbol kind = weft_ape_b8b10_decode(p->table, l->shift, &l->plus, &value);

	if (kind != WEFT_APE_SYMBOL_GOOD) {
		l->now.bad = true;
		l->faults += FAULT;
	} else if (l->faults) {
		l->faults--;
	}
	if (l->faults >= FAULTS_MAX || (value == WEFT_APE_COMMA && l->symbols)) {
		lose(p, l);
		return;
	}
	if (value == WEFT_APE_COMMA)
		l->now.marker = true;
	else if (value > 255 && !l->now.marker)
		l->now.bad = true;
	l->now.bytes[l->symbols++] = value;
	if (l->symbols == slot_bytes(p)) {
		l->symbols = 0;
		slot_in(p, l);
	}
}

/* A comma shows where symbols begin, and slots. */
static void find_comma(struct weft_ape_phy *p, struct weft_ape_lane_rx *l)
{
	for (unsigned int plus = 0; plus < 2; plus++)
		if (l->shift == p->table->code[plus][WEFT_APE_COMMA]) {
			l->locked = true;
			l->plus = plus;
			l->bits = 0;
			l->now = (struct weft_ape_slot_in){0};
			symbol_in(p, l);
		}
}

static void bit_of_symbols(struct weft_ape_phy *p, struct weft_ape_lane_rx *l, unsigned int bit)
{
	l->shift = l->shift >> 1 | bit << 9;
	if (!l->locked) {
		find_comma(p, l);
	} else if (++l->bits == 10) {
		l->bits = 0;
		symbol_in(p, l);
	}
}

static void block_in(struct weft_ape_phy *p, struct weft_ape_lane_rx *l)
{
	uint64_t block = weft_ape_descramble(&l->state, l->block);
	enum weft_ape_lock_step step = weft_ape_block_lock(&l->lock, l->header);

	if (step == WEFT_APE_LOCK_LOST)
		lose(p, l);
	if (step == WEFT_APE_LOCK_SLIP) {
		/* One bit is skipped. */
		l->bits = UINT32_MAX;
		return;
	}
	if (!l->lock.locked)
		return;
	l->locked = true;
	for (unsigned int i = 0; i < 8; i++)
		l->now.bytes[i] = block >> 8 * i;
	l->now.marker = l->header == WEFT_APE_BLOCK_CONTROL;
	l->now.bad = l->header != WEFT_APE_BLOCK_CONTROL && l->header != WEFT_APE_BLOCK_DATA;
	if (l->now.marker && l->now.bytes[0] != BLOCK_TYPE)
		l->now.bad = true;
	slot_in(p, l);
}

static void bit_of_blocks(struct weft_ape_phy *p, struct weft_ape_lane_rx *l, unsigned int bit)
{
	if (l->bits == UINT32_MAX) {
		l->bits = 0;
		return;
	}
	if (l->bits < 2)
		l->header = l->bits ? l->header | bit << 1 : bit;
	else
		l->block = l->block >> 1 | (uint64_t)bit << 63;
	if (++l->bits == WEFT_APE_BLOCK_BITS) {
		l->bits = 0;
		block_in(p, l);
	}
}

void weft_ape_phy_bits_in(struct weft_ape_phy *p, unsigned int lane, const uint8_t *bits,
			  unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (p->code == WEFT_APE_8B10B)
			bit_of_symbols(p, &p->lane[lane], bits[i]);
		else
			bit_of_blocks(p, &p->lane[lane], bits[i]);
}

/* ---- Bonding ---- */

/* Markers in front of all lanes: the lane that is behind the others goes on. */
static bool align(struct weft_ape_phy *p)
{
	unsigned int seen = 0;
	uint8_t number;

	for (unsigned int i = 0; i < p->lanes; i++) {
		struct weft_ape_lane_rx *l = &p->lane[i];

		while (l->count && (!head(l)->marker || head(l)->bad))
			pop_slot(l);
		if (!l->locked || !l->count)
			return false;
	}
	number = head(&p->lane[0])->bytes[2];
	for (unsigned int i = 1; i < p->lanes; i++)
		if ((int8_t)(head(&p->lane[i])->bytes[2] - number) > 0)
			number = head(&p->lane[i])->bytes[2];
	for (unsigned int i = 0; i < p->lanes; i++) {
		struct weft_ape_lane_rx *l = &p->lane[i];
		unsigned int lane = head(l)->bytes[1] % WEFT_APE_LANES;

		if (head(l)->bytes[2] != number) {
			pop_slot(l);
			return false;
		}
		p->order[lane] = i;
		seen |= 1u << lane;
	}
	p->up = seen == (1u << p->lanes) - 1;
	p->ups += p->up;
	return p->up;
}

/* One slot of each lane. A marker among them must be one on all, with the same number. */
static bool slots_agree(struct weft_ape_phy *p, bool *marker, bool *bad)
{
	struct weft_ape_slot_in *first = head(&p->lane[p->order[0]]);

	*marker = first->marker;
	*bad = false;
	for (unsigned int i = 0; i < p->lanes; i++) {
		struct weft_ape_slot_in *s = head(&p->lane[p->order[i]]);

		*bad |= s->bad;
		if (!s->bad && !first->bad &&
		    (s->marker != first->marker ||
		     (s->marker && (s->bytes[1] != i || s->bytes[2] != first->bytes[2]))))
			return false;
	}
	return true;
}

void weft_ape_phy_slot_in(struct weft_ape_phy *p, const uint64_t *quad)
{
	unsigned int of_lane = weft_ape_phy_bits(p), at = 0;
	uint8_t bits[WEFT_APE_SLOT_BITS];

	for (unsigned int lane = 0; lane < p->lanes; lane++) {
		for (unsigned int i = 0; i < of_lane; i++, at++)
			bits[i] = quad[at / 64] >> at % 64 & 1;
		weft_ape_phy_bits_in(p, lane, bits, of_lane);
	}
}

bool weft_ape_phy_receive(struct weft_ape_phy *p, struct weft_ape_beat *beat)
{
	bool marker, bad, all;

	for (;;) {
		all = p->up || align(p);
		for (unsigned int i = 0; i < p->lanes; i++)
			all &= p->lane[i].count != 0;
		if (!all)
			return false;
		if (!slots_agree(p, &marker, &bad)) {
			go_down(p);
			return false;
		}
		*beat = (struct weft_ape_beat){{0}};
		for (unsigned int i = 0; i < p->lanes; i++) {
			struct weft_ape_lane_rx *l = &p->lane[p->order[i]];

			for (unsigned int b = 0; b < slot_bytes(p); b++) {
				unsigned int at = place_in_beat(p, i, b);

				beat->quad[at / 8] |= (uint64_t)head(l)->bytes[b] << at % 8 * 8;
			}
			pop_slot(l);
		}
		p->bad_slots += bad;
		if (!marker && !bad)
			return true;
	}
}
