/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

struct command {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *usage;
	const char *help; /* one line */
	bool verbs;
};

#define X(cmd, verbs, help) {#cmd, weft_##cmd##_main, weft_##cmd##_usage, help, verbs},
static const struct command commands[] = {
	WEFT_COMMANDS(X){NULL, NULL, NULL, NULL, false},
};
#undef X

static void print_help(FILE *to)
{
	fputs("Usage: weft COMMAND [ARGUMENT…]\n"
	      "An RDMA network in software: runs RDMA programs unmodified, with no RDMA card.\n\n"
	      "Commands:\n",
	      to);
	for (const struct command *c = commands; c->name; c++)
		fprintf(to, "  %-8s %s\n", c->name, c->help);
	fputs("\n`weft COMMAND --help` says more; `weft --version` prints the version.\n", to);
}

static const struct command *find_command(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

static int is_help(const char *arg)
{
	return arg && (!strcmp(arg, "--help") || !strcmp(arg, "-h"));
}

bool weft_main_pool_option(int argc, char **argv, int *i, const char **path)
{
	const char *word = argv[*i], *value = NULL;

	if (!strncmp(word, "--pool=", 7))
		value = word + 7;
	else if (!strcmp(word, "--pool") && *i + 1 < argc)
		value = argv[*i + 1];
	if (!value || !*value || *value == '-')
		return false;
	*path = value;
	*i += word[6] != '=';
	return true;
}

int weft_main_usage_error(const char *cmd, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "weft%s%s: ", cmd ? " " : "", cmd ? cmd : "");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nTry `weft%s%s --help`.\n", cmd ? " " : "", cmd ? cmd : "");
	return 2;
}

static int dispatch(int argc, char **argv)
{
	const struct command *c;

	if (argc < 2) {
		print_help(stderr);
		return 2;
	}
	if (is_help(argv[1]) || (!strcmp(argv[1], "help") && argc == 2)) {
		print_help(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("weft " WEFT_VERSION);
		return 0;
	}
	c = find_command(!strcmp(argv[1], "help") ? argv[2] : argv[1]);
	if (!c)
		return weft_main_usage_error(NULL, "there is no command '%s'",
					     argv[!strcmp(argv[1], "help") ? 2 : 1]);
	if (!strcmp(argv[1], "help") || is_help(argv[2]) ||
	    (c->verbs && argc > 3 && is_help(argv[3]))) {
		fputs(c->usage, stdout);
		return 0;
	}
	return c->main(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int status = dispatch(argc, argv);

	/* A full disk or a closed pipe behind stdout must not look like success. */
	if (fflush(stdout) || ferror(stdout)) {
		perror("weft: standard output");
		return status ? status : 1;
	}
	return status;
}
