/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef WEFT_TESTS_MODEL_SHRINK_H
#define WEFT_TESTS_MODEL_SHRINK_H

#include "drive.h"

/*
 * Makes a sequence that has failed as short as it can be while it fails in the same way; `why` is the last
 * failure's message. False: it does not fail again, and is unchanged.
 */
bool shrink_sequence(struct fleet *f, struct sequence *s, char *why, size_t why_bytes);

#endif
