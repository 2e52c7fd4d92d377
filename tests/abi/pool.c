/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEMPLATE "/dev/shm/weft-test-XXXXXX"

static char folder[] = TEMPLATE;
static char path[sizeof(folder) + 8];

/* $WEFT_TEST_HOSTS is the program that makes a pool of two hosts, of which this process is the first; with $WEFT_TEST_PLAIN it
 * has no atomic instructions between them. */
static int make_hosts(void)
{
	char line[256], name[sizeof(path) + 4];
	const char *silence = getenv("WEFT_TEST_SILENCE");

	snprintf(name, sizeof(name), "shm:%s", path);
	snprintf(line, sizeof(line), "'%s' pool create %s --hosts 2 --silence %s %s",
		 getenv("WEFT_TEST_HOSTS"), name, silence ? silence : "3000",
		 getenv("WEFT_TEST_PLAIN") ? "" : "--atomics");
	return system(line) || setenv("WEFT_POOL", name, 1) || setenv("WEFT_HOST", "0", 1);
}

pid_t fork_peer(void)
{
	pid_t pid = fork();

	if (!pid && getenv("WEFT_TEST_HOSTS"))
		setenv("WEFT_HOST", "1", 1);
	return pid;
}

int make_pool(void **state)
{
	/* an earlier pool may have been made and removed */
	memcpy(folder, TEMPLATE, sizeof(folder));
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/pool", folder);
	if (getenv("WEFT_TEST_HOSTS"))
		return make_hosts();
	return setenv("WEFT_POOL", path, 1);
}

/* The pool is removed when this process has ended, as its host lives until then. */
static int remove_hosts(void)
{
	char line[512];

	snprintf(line, sizeof(line),
		 "(while kill -0 $PPID; do sleep 0.2; done; sleep 1; '%s' pool rm --pool shm:%s; "
		 "rmdir %s) >/dev/null 2>&1 &",
		 getenv("WEFT_TEST_HOSTS"), path, folder);
	return system(line);
}

int remove_pool(void **state)
{
	if (getenv("WEFT_TEST_HOSTS"))
		return remove_hosts();
	unlink(path);
	return rmdir(folder);
}
