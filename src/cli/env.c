/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "cli/delivery.h"

const char weft_env_usage[] =
	"Usage: eval \"$(weft env [--pool PATH])\"\n"
	"Prints what makes a shell's programs run over Weft, as `weft run` does for one.\n\n"
	"  --pool PATH  the pool to share: a file, created on first use\n";

/* In single quotes a shell takes everything as it is, but the single quote itself. */
static int print_export(const char *name, const char *value)
{
	printf("export %s='", name);
	for (; *value; value++) {
		if (*value == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*value);
	}
	puts("'");
	return 0;
}

int weft_env_main(int argc, char **argv)
{
	struct weft_delivery delivery;
	const char *pool = NULL;
	int err;

	for (int i = 1; i < argc; i++)
		if (!weft_main_pool_option(argc, argv, &i, &pool))
			return weft_main_usage_error("env", "takes only --pool PATH");
	err = weft_delivery_find(&delivery);
	return err ?: weft_delivery_each(&delivery, pool, print_export);
}
