/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* 8b10b (IEEE 802.3, clause 36): bytes and 12 control characters as symbols of 10 bits, bit 0,
 * which is a, sent first. */
#ifndef WEFT_WIRE_APE_B8B10_H
#define WEFT_WIRE_APE_B8B10_H

#include <stdbool.h>
#include <stdint.h>

/* Values: 0 to 255 are bytes, then control characters as K. */
#define WEFT_APE_K(x, y)  (256u | (y) << 5 | (x))
#define WEFT_APE_VALUES	  512u
#define WEFT_APE_NO_VALUE UINT16_MAX
#define WEFT_APE_COMMA	  WEFT_APE_K(28, 5)
#define WEFT_APE_FILLER	  WEFT_APE_K(28, 0)

/* Index 0: at disparity −, 1: at +. Filled once, then constant. */
struct weft_ape_b8b10 {
	uint16_t code[2][WEFT_APE_VALUES];
	uint16_t value[2][1024]; /* WEFT_APE_NO_VALUE: none at this disparity */
};

void weft_ape_b8b10_init(struct weft_ape_b8b10 *t);
/* *plus: the running disparity. The value is a byte or one of the 12. */
uint16_t weft_ape_b8b10_encode(const struct weft_ape_b8b10 *t, unsigned int value, bool *plus);

enum weft_ape_symbol {
	WEFT_APE_SYMBOL_GOOD,
	WEFT_APE_SYMBOL_DISPARITY, /* a symbol of the other disparity; *value is what it would be */
	WEFT_APE_SYMBOL_BAD,
};
enum weft_ape_symbol weft_ape_b8b10_decode(const struct weft_ape_b8b10 *t, uint16_t symbol,
					   bool *plus, uint16_t *value);

#endif
