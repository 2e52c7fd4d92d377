/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The threads of this process as /proc lists them, read while other threads stand still: by plain
 * system calls, without memory of their own.
 */
#ifndef WEFT_MIGRATE_TASKS_H
#define WEFT_MIGRATE_TASKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A descriptor of the list, or -errno. */
int weft_tasks_open(void);
void weft_tasks_close(int fd);

/* How many threads there are, 0 if that cannot be told. */
unsigned int weft_tasks_count(int tasks);

/* Calls fn for each thread. 0 or -errno. */
int weft_tasks_each(int tasks, void (*fn)(pid_t tid));

/* What a thread does is read through a descriptor of its own, which stays open: or -errno. */
int weft_tasks_open_call(int tasks, pid_t tid);

#define WEFT_TASKS_LINE 256
/* Reads the line of such a descriptor. Whether it was there. */
bool weft_tasks_read_call(int fd, char line[WEFT_TASKS_LINE]);

/* The signals that the thread blocks, 1 << (signal - 1) each. 0 if it has ended. */
uint64_t weft_tasks_blocked(int tasks, pid_t tid);

#endif
