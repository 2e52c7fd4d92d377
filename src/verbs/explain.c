/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/explain.h"

bool weft_explain_wanted(void)
{
	static _Atomic signed char wanted; /* 0: not looked yet */

	if (!wanted) {
		const char *value = getenv("WEFT_EXPLAIN");

		wanted = value && *value && strcmp(value, "0") != 0 ? 1 : -1;
	}
	return wanted > 0;
}
