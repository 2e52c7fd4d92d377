/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A pool for one program.
 *
 * The calling process goes on to become the program, so that signals, status and job control are
 * its own. A janitor, a process that hangs below init in a session of its own and holds none of
 * our files, waits for the end of the calling process and of every member of the pool, however
 * they end, and removes the pool. A janitor that is killed leaves the pool behind.
 */
#ifndef WEFT_CLI_PRIVATE_H
#define WEFT_CLI_PRIVATE_H

#include <limits.h>
#include <stdbool.h>

/* Makes a folder of mode 0700 in /dev/shm and names a file in it that is not there yet, and starts
 * the janitor. 0 or -errno with nothing left behind. One thread only, as it forks. */
int weft_private_make(char pool[PATH_MAX]);

/* How many private pools of this user have lost program, members and janitor; removes them, too. */
unsigned int weft_private_sweep(bool remove);

#endif
