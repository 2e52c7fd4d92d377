/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Whether Weft's libraries can come into a program: they need the dynamic loader of this libc. */
#ifndef WEFT_CLI_PROGRAM_H
#define WEFT_CLI_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

enum weft_program_fit {
	WEFT_PROGRAM_FITS,
	WEFT_PROGRAM_MISSING,
	WEFT_PROGRAM_NOT_EXECUTABLE,
	WEFT_PROGRAM_STATIC,  /* no loader runs */
	WEFT_PROGRAM_SETUID,  /* gains rights when started: the loader ignores LD_PRELOAD */
	WEFT_PROGRAM_FOREIGN, /* of another machine, word size or libc than our libraries */
};

/*
 * Looks for a program as execvp(3) would, in the PATH of the environment, and reads its headers;
 * of a script (#!) those of its interpreter. path: the file that was judged, or name. What cannot
 * be read is taken to fit: the loader will say more.
 */
enum weft_program_fit weft_program_find(const char *name, char path[PATH_MAX]);

/* What is wrong and what to do, as the end of a sentence that starts with the path. */
const char *weft_program_fit_str(enum weft_program_fit fit);

#endif
