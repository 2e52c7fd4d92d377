/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The arithmetic that the engine of RoCE v2 asks of its world (CRC-32, carry-less products), as fast as this processor can. Any
 * thread. */
#ifndef WEFT_CARD_MATH_H
#define WEFT_CARD_MATH_H

#include "wire/roce/icrc.h"

extern const struct weft_roce_math weft_card_math;

#endif
