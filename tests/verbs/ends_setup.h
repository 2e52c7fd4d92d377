/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The two ends of a test program, and what opens and closes them for each of its tests. */
#ifndef WEFT_TESTS_VERBS_ENDS_SETUP_H
#define WEFT_TESTS_VERBS_ENDS_SETUP_H

#include "ends.h"

static struct end near;
static struct peer peer;

static int setup_here(void **state)
{
	ends_open(&near, &peer, false);
	return 0;
}

static int setup_other_process(void **state)
{
	ends_open(&near, &peer, true);
	return 0;
}

static int teardown(void **state)
{
	ends_close(&near, &peer);
	return 0;
}

#endif
