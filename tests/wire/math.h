/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The engine's arithmetic by the definition, for its tests: nothing here is shared with a card. */
#ifndef WEFT_TESTS_WIRE_MATH_H
#define WEFT_TESTS_WIRE_MATH_H

#include "wire/roce/icrc.h"

extern const struct weft_roce_math plain_math;

#endif
