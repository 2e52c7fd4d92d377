/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The api of a card's process: a member of the pool without objects of verbs, so that there is nothing to tell. */
#ifndef WEFT_CARD_ALONE_H
#define WEFT_CARD_ALONE_H

#include "process/process.h"

extern const struct weft_process_api weft_alone_api;

#endif
