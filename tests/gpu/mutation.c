/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cuda/mutation.h"

#include <stdlib.h>
#include <string.h>

bool weft_mutated(const char *name)
{
	const char *wanted = getenv("WEFT_MUTATION");

	return wanted && !strcmp(wanted, name);
}
