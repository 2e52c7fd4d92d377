/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The commands below `weft stream`: VERB is a row of the table and the file src/cli/stream_VERB.c,
 * which defines int weft_stream_VERB(int argc, char **argv); argv[0] is VERB, the exit status comes
 * back as of any command (cli/cli.h).
 */
#ifndef WEFT_CLI_STREAM_H
#define WEFT_CLI_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#define WEFT_STREAM_VERBS(X) X(generate)

#define X(verb) int weft_stream_##verb(int argc, char **argv);
WEFT_STREAM_VERBS(X)
#undef X

/* Numbers of options: whether text is one, within the limits. */
bool weft_stream_number(const char *text, uint64_t least, uint64_t most, uint64_t *value);
bool weft_stream_real(const char *text, double least, double most, double *value);

/* Says "weft stream VERB: what: why" on stderr; 1, the exit status. */
int weft_stream_fail(const char *verb, const char *what, const char *why);

#endif
