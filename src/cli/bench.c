/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/delivery.h"

const char weft_bench_usage[] =
	"Usage: weft bench [OPTION…]\n"
	"Measures programs over Weft beside the limits of this machine, and UCX over Weft beside\n"
	"UCX's own shared memory, libfabric's, and TCP; all of them in turn, between two cores.\n\n"
	"  --only LIST   of limits, put, am, tag (default: all)\n"
	"  --sizes LIST  of messages, in bytes, K or M: 8,4K,1M\n"
	"  --rounds N    how often each is measured (default: 5)\n"
	"  --quick       one round of two sizes: holds nothing to its bound\n"
	"  --events      instead of all that: programs that sleep on completion channels, beside "
	"TCP\n"
	"  --gpu         instead of all that: verbs on memory of GPUs, beside CUDA's own copies\n"
	"  --torus       instead of all that: a torus of 2x2x2 nodes on this host, beside "
	"hand-overs of\n"
	"                sleeping processes, and TCP\n"
	"  --wire        instead of all that: programs between two hosts, beside iperf3 and qperf\n"
	"  --json [FILE] all values of all rounds: in FILE, or on stdout instead of the tables\n"
	"  --svg FILE    a picture: latency and bandwidth against size\n\n"
	"Exit status: 0; 1 a bound was missed or a program failed over Weft; 2 wrong usage.\n";

/* The work is that of Python: it starts programs, reads what they print and writes tables. */
int weft_bench_main(int argc, char **argv)
{
	struct weft_delivery delivery;
	char script[PATH_MAX + 32];
	char **words = calloc((size_t)argc + 4, sizeof(*words));

	if (!words || weft_delivery_find(&delivery)) {
		free(words);
		return 1;
	}
	snprintf(script, sizeof(script), "%s/bench/bench.py", delivery.libs);
	words[0] = "python3";
	words[1] = "-B"; /* leaves nothing beside what is installed */
	words[2] = script;
	words[3] = delivery.self;
	for (int i = 1; i < argc; i++)
		words[3 + i] = argv[i];
	execvp(words[0], words);
	if (errno == ENOENT)
		fputs("weft bench: python3 is not installed: apt install python3\n", stderr);
	else
		fprintf(stderr, "weft bench: cannot run python3: %m\n");
	free(words);
	return 1;
}
