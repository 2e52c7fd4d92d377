/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of the conductor have in common. */
#ifndef WEFT_TESTS_MODEL_FLEET_H
#define WEFT_TESTS_MODEL_FLEET_H

#include "drive.h"

/* Starts processes until there are so many. */
bool fleet_man(struct fleet *f, int processes);
/* Tells the process that an order is on its desk. */
void fleet_ask(struct fleet *f, int process);
/* Waits for the process's report. False: it has died or hangs, as `why` says. */
bool fleet_await(struct fleet *f, int process, char *why, size_t why_bytes);
/* Waits until the card, if there is one, has carried everything that can be carried. False: it has died or
 * hangs, as `why` says. */
bool fleet_settle(struct fleet *f, char *why, size_t why_bytes);

#endif
