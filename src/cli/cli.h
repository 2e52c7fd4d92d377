/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The seam between `weft` and its commands. Command CMD is src/cli/CMD.c, which exports
 *
 *	const char weft_CMD_usage[]		what `weft CMD --help` prints, ends in a newline
 *	int weft_CMD_main(int argc, char **argv)	argv[0] is CMD; returns the exit status
 *
 * and has one row in the table of main.c. main.c answers --help and -h as the first argument, so
 * that no command needs to. Exit statuses: 0; 1 the work failed; 2 wrong usage
 *(weft_main_usage_error). `run` passes its program's and uses 125 to 127 for its own, as env(1)
 *does.
 */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

/* Says on stderr "weft CMD: message" and where help is; returns 2, the exit status. */
__attribute__((format(printf, 2, 3))) int weft_main_usage_error(const char *cmd, const char *fmt,
								...);

#endif
