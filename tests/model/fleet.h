/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Between the files of the conductor. */
#ifndef WEFT_TESTS_MODEL_FLEET_H
#define WEFT_TESTS_MODEL_FLEET_H

#include "drive.h"

/* So many processes are there. */
bool fleet_man(struct fleet *f, int processes);
/* The order on its desk is for that process. */
void fleet_ask(struct fleet *f, int process);
/* Its report is there; false: it has died or hangs, as `why` says. */
bool fleet_await(struct fleet *f, int process, char *why, size_t why_bytes);
/* The card, if there is one, has carried all that can be carried; false: as above. */
bool fleet_settle(struct fleet *f, char *why, size_t why_bytes);

#endif
