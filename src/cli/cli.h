/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The seam between `weft` and its commands. Command CMD is a row of the table below and the file
 * CMD.c beside this one, which defines
 *
 *	const char weft_CMD_usage[]: what `weft CMD --help` prints, ends in a newline
 *	int weft_CMD_main(int argc, char **argv): argv[0] is CMD; returns the exit status
 *
 * --help and -h as the first argument are answered for it, and behind its verb if it has verbs. Exit statuses: 0; 1 the work failed;
 * 2 wrong usage. `run` passes its program's and uses 125, 126 and 127 for its own, as env(1) does.
 */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include <stdbool.h>

#define WEFT_COMMANDS(X)                                                                           \
	X(run, false, "run a program over Weft")                                                   \
	X(env, false, "print what a shell has to export so that its programs run over Weft")       \
	X(info, false, "show a pool: members, queue pairs, memory regions, counters")              \
	X(doctor, false, "say what is wrong on this machine and what to do")                       \
	X(pool, true,                                                                              \
	  "list, create, test and remove pools, give back what dead programs left in one")         \
	X(host, true, "hosts of a pool that several machines share: list them, become one")        \
	X(nic, true, "cards: list those that carry requests to other hosts, start and end them")   \
	X(torus, true, "a torus of software cards on this host")                                   \
	X(stream, true, "make, send, receive and judge streams of a detector")                     \
	X(bench, false, "measure Weft beside this machine's limits and other transports")

#define X(cmd, verbs, help)                                                                        \
	extern const char weft_##cmd##_usage[];                                                    \
	int weft_##cmd##_main(int argc, char **argv);
WEFT_COMMANDS(X)
#undef X

/* Says on stderr "weft CMD: message" and where help is; returns 2, the exit status. */
/* Whether argv[*i] is `--pool PATH` or `--pool=PATH`; takes the path and moves *i to its last word. What
 * begins with '-' is no path: an option or `--` stands where the path was forgotten. */
bool weft_main_pool_option(int argc, char **argv, int *i, const char **path);

__attribute__((format(printf, 2, 3))) int weft_main_usage_error(const char *cmd, const char *fmt,
								...);

#endif
