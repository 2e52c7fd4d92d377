/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A child process with a CUDA of its own, and what the stand-in says of it on stderr. */
#ifndef WEFT_TESTS_GPU_CHILD_H
#define WEFT_TESTS_GPU_CHILD_H

#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

/* Runs it in a child: what that wrote to stderr, until the next call, and its status in *status. */
const char *child_said(void (*run)(void), int *status);
/* Runs it in a child, which must end well, and leave nothing of CUDA behind. */
void child_ok(void (*run)(void));
/* Runs it in a child, which the stand-in must end, with these words. */
void child_dies(void (*run)(void), const char *words);

/* Waits for the child: how it ended, 0 if well. */
int child_status(pid_t pid);

/* An assertion for code that runs in a child. */
#define WANT(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%d: not %s\n", __LINE__, #condition);                     \
			_exit(4);                                                                  \
		}                                                                                  \
	} while (0)

#endif
