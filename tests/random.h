/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* splitmix64, for programs that are built without the tree's include path, too. */
#ifndef WEFT_TESTS_RANDOM_H
#define WEFT_TESTS_RANDOM_H

#include "../src/stream/random.h"

#endif
