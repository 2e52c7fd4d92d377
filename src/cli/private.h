/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A pool for one program.
 *
 * The calling process goes on to become the program, so that signals, status and job control are
 * its own. A janitor, a process that hangs below init in a session of its own and holds none of
 * our files, waits for the end of the calling process and of every member of the pool, however
 * they end, and removes the pool. Process 1 of a namespace, with whose end a janitor would be killed, is the
 * janitor itself: it stays, passes signals on, and ends as the program does, its child. What a janitor that is
 * killed has left behind, the next pool's maker removes.
 */
#ifndef WEFT_CLI_PRIVATE_H
#define WEFT_CLI_PRIVATE_H

#include <limits.h>
#include <stdbool.h>

/* Makes a folder of mode 0700 in /dev/shm and names a file in it that is not there yet, and starts
 * the janitor. 0, in the process that is to become the program, or -errno with nothing left behind. One thread
 * only, as it forks. */
int weft_private_make(char pool[PATH_MAX]);

/* How many private pools of this user have lost program, members and janitor; removes them, too. */
unsigned int weft_private_sweep(bool remove);

#endif
