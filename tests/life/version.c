/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Opens the pool that its argument names and says so, or why it cannot; then stays until its input ends.
 * Built with this version of the format, and with the versions before and after it (meson.build). */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pool/pool.h"

int main(int argc, char **argv)
{
	struct weft_pool *pool;
	char where[PATH_MAX], byte;
	const char *why = NULL;
	int err;

	if (argc != 2)
		return 2;
	err = weft_pool_get(argv[1], &pool, where, &why);
	printf("%" PRIu32 " %s\n", (uint32_t)WEFT_POOL_VERSION,
	       err ? (why ? why : strerror(-err)) : "taken");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	if (!err)
		weft_pool_put(pool);
	return !!err;
}
