/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * APEphy: beats on 1, 2 or 4 bonded lanes of serial bits, by 8b10b or 64b66b. Equalisation and
 * clock recovery are analogue, and not modelled: a lane's bits arrive in the receiver's own time.
 *
 * A beat is one slot on each lane. By 8b10b beats have 128 bits, and byte i goes to lane i modulo
 * lanes; by 64b66b they have 64 bits a lane, quad i to lane i. A slot without a beat, and one at
 * least in MARKER_EVERY, is a marker: it names its lane and a number, so that lanes are put in
 * order and their skew is taken out. By 8b10b it is K28.5, lane, number, K28.0 …; by 64b66b a
 * control block 0x1e, lane, number, zeros.
 */
#ifndef WEFT_WIRE_APE_LANES_H
#define WEFT_WIRE_APE_LANES_H

#include "wire/ape/b64b66.h"
#include "wire/ape/b8b10.h"
#include "wire/ape/word.h"

#define WEFT_APE_LANES	      4u
#define WEFT_APE_SLOT_BITS    160u /* at most */
#define WEFT_APE_SLOT_BYTES   16u
#define WEFT_APE_MARKER_EVERY 32u
#define WEFT_APE_DESKEW	      16u /* slots */

enum weft_ape_code {
	WEFT_APE_8B10B,
	WEFT_APE_64B66B,
};

struct weft_ape_slot_in {
	bool marker, bad;
	uint8_t bytes[WEFT_APE_SLOT_BYTES];
};

struct weft_ape_lane_rx {
	bool locked;
	uint32_t bits;	 /* of the symbol or block under way */
	uint8_t symbols; /* of the slot */
	uint8_t faults;	 /* leaks away with good symbols */
	bool plus;
	uint16_t shift; /* the last ten bits */
	uint64_t block, state;
	uint8_t header;
	struct weft_ape_block_lock lock;
	struct weft_ape_slot_in now, slot[WEFT_APE_DESKEW];
	uint8_t first, count;
};

struct weft_ape_phy {
	enum weft_ape_code code;
	uint8_t lanes;
	const struct weft_ape_b8b10 *table;
	/* Sending. */
	bool plus[WEFT_APE_LANES];
	uint64_t state[WEFT_APE_LANES];
	uint8_t number, since;
	/* Receiving. */
	struct weft_ape_lane_rx lane[WEFT_APE_LANES];
	uint8_t order[WEFT_APE_LANES]; /* the lane that has lane i's bits */
	bool up;
	uint64_t ups, downs, bad_slots;
};

/* lanes: 1, 2, 4. table: filled, of the caller. */
void weft_ape_phy_init(struct weft_ape_phy *p, enum weft_ape_code code, unsigned int lanes,
		       const struct weft_ape_b8b10 *table);
/* Quads of a beat; bits that a lane has in each slot. */
unsigned int weft_ape_phy_quads(const struct weft_ape_phy *p);
unsigned int weft_ape_phy_bits(const struct weft_ape_phy *p);

/* Whether the next slot has to be a marker: then no beat is taken. */
bool weft_ape_phy_must_mark(const struct weft_ape_phy *p);
/* The bits of one slot on each lane, one a byte; beat: NULL for a marker. */
void weft_ape_phy_send(struct weft_ape_phy *p, const struct weft_ape_beat *beat,
		       uint8_t bits[WEFT_APE_LANES][WEFT_APE_SLOT_BITS]);

/* Bits that have come on a lane, as it is wired. */
void weft_ape_phy_bits_in(struct weft_ape_phy *p, unsigned int lane, const uint8_t *bits,
			  unsigned int count);
/* The bits of one slot, a lane's behind those of the lane before, from the lowest bit of the first quad on. */
void weft_ape_phy_slot_in(struct weft_ape_phy *p, const uint64_t *quad);
/* The next beat; false: there is none. While the channel is not up there is none, and beats from before it went
 * down never come. */
bool weft_ape_phy_receive(struct weft_ape_phy *p, struct weft_ape_beat *beat);

#endif
