/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A child process with a CUDA of its own, and what the stand-in says of it on stderr. */
#ifndef WEFT_TESTS_GPU_CHILD_H
#define WEFT_TESTS_GPU_CHILD_H

#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

/* Until the next call; its status in *status. */
const char *child_said(void (*run)(void), int *status);
/* It ends well, and leaves nothing behind. */
void child_ok(void (*run)(void));
/* The stand-in ends it, with these words. */
void child_dies(void (*run)(void), const char *words);

/* Waits for it: how it ended, 0 if well. */
int child_status(pid_t pid);

/* In a child. */
#define WANT(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%d: not %s\n", __LINE__, #condition);                     \
			_exit(4);                                                                  \
		}                                                                                  \
	} while (0)

#endif
