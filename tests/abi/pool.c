/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEMPLATE "/dev/shm/weft-test-XXXXXX"

static char folder[] = TEMPLATE;
static char path[sizeof(folder) + 8];

int make_pool(void **state)
{
	memcpy(folder, TEMPLATE, sizeof(folder)); /* one may have been made and removed */
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
