/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/cli.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/delivery.h"
#include "cli/private.h"
#include "cli/program.h"

const char weft_run_usage[] =
	"Usage: weft run [--pool PATH | --private] [--] PROGRAM [ARGUMENT…]\n"
	"Runs PROGRAM with Weft's libibverbs and librdmacm in place of the system's; its children "
	"inherit them.\n\n"
	"  --pool PATH  the pool to share: a file, created on first use\n"
	"               (default: $WEFT_POOL, else /dev/shm/weft-UID, one per user);\n"
	"               or one of several hosts that weft pool create has made: shm:PATH, "
	"pci:ADDRESS\n"
	"               or dax:PATH, where $WEFT_HOST says which host this is\n"
	"  --private    a pool of its own, removed when PROGRAM and all who use it have ended\n\n"
	"weft becomes PROGRAM: signals, streams and exit status are PROGRAM's own. Without it:\n"
	"2 wrong usage, 125 Weft failed, 126 PROGRAM cannot run over Weft, 127 not found.\n";

struct options {
	const char *pool;
	bool private;
	char **program;
};

/* 0, or the exit status of wrong usage. */
static int parse_run_options(int argc, char **argv, struct options *o)
{
	int i;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--")) {
			i++;
			break;
		}
		if (weft_main_pool_option(argc, argv, &i, &o->pool))
			continue;
		if (!strcmp(argv[i], "--private"))
			o->private = true;
		else
			return weft_main_usage_error("run", "unknown option or nothing behind '%s'",
						     argv[i]);
	}
	if (o->pool && o->private)
		return weft_main_usage_error("run", "--pool and --private exclude each other");
	o->program = argv + i;
	return i < argc ? 0 : weft_main_usage_error("run", "no PROGRAM to run");
}

static int set_variable(const char *name, const char *value)
{
	if (!setenv(name, value, 1))
		return 0;
	fprintf(stderr, "weft run: cannot set %s: %m\n", name);
	return 125;
}

static int refuse_program(const char *path, enum weft_program_fit fit)
{
	fprintf(stderr, "weft run: %s %s\n", path, weft_program_fit_str(fit));
	return fit == WEFT_PROGRAM_MISSING ? 127 : 126;
}

int weft_run_main(int argc, char **argv)
{
	struct options o = {.program = argv + argc};
	struct weft_delivery delivery;
	char path[PATH_MAX], pool[PATH_MAX];
	enum weft_program_fit fit;
	int err;

	err = parse_run_options(argc, argv, &o);
	err = err ?: weft_delivery_find(&delivery);
	err = err ?: weft_delivery_each(&delivery, o.pool, set_variable);
	if (err)
		return err;
	/* With PATH as the program will have it: `weft run rdma` is ours. */
	fit = weft_program_find(o.program[0], path);
	if (fit != WEFT_PROGRAM_FITS)
		return refuse_program(path, fit);
	if (o.private) {
		err = weft_private_make(pool);
		if (err) {
			fprintf(stderr, "weft run: cannot make a private pool in /dev/shm: %s\n",
				strerror(-err));
			return 125;
		}
		err = set_variable("WEFT_POOL", pool);
		if (err)
			return err;
	}
	execvp(o.program[0], o.program);
	err = errno;
	fprintf(stderr, "weft run: cannot run %s: %s\n", o.program[0], strerror(err));
	return err == ENOENT ? 127 : 126;
}
