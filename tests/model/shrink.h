/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef WEFT_TESTS_MODEL_SHRINK_H
#define WEFT_TESTS_MODEL_SHRINK_H

#include "drive.h"

/*
 * A sequence that failed, made as short as it can be and still fail, in whichever way. `why` is
 * that of the last failure. False: it does not fail again; then it is as it was.
 */
bool shrink_sequence(struct fleet *f, struct sequence *s, char *why, size_t why_bytes);

#endif
