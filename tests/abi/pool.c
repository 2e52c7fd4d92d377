/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/dev/shm/weft-test-XXXXXX";
static char path[sizeof(folder) + 8];

int make_pool(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/pool", folder);
	return setenv("WEFT_POOL", path, 1);
}

int remove_pool(void **state)
{
	unlink(path);
	return rmdir(folder);
}
