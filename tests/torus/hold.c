/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Keeps PUTs under way to a node whose processes have registered nothing, so that a card that answers refuses them at once; says
 * how many have ended so, how many otherwise, and the longest time without any.
 *
 * hold RANK BYTES MILLISECONDS COUNT
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ape/weft/ape.h"

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	unsigned long refused = 0, failed = 0;
	double begun, last, longest = 0;
	uint64_t bytes, seen = 0;
	struct ape_event e;
	struct ape *ape;
	uint32_t rank;
	void *from;
	int err = argc == 5 ? ape_open(NULL, -1, &ape) : -1;

	if (err) {
		fprintf(stderr, "hold: %s\n", ape_strerror(err));
		return 1;
	}
	rank = (uint32_t)atoi(argv[1]);
	bytes = (uint64_t)atoll(argv[2]);
	from = calloc(1, bytes);
	if (!from)
		return 1;
	for (int i = 0; i < atoi(argv[4]) && !err; i++)
		err = ape_put(ape, rank, 0, from, bytes, 4096, 0);
	puts("holds");
	fflush(stdout);
	for (begun = last = now_s(); !err && now_s() - begun < atof(argv[3]) / 1e3;) {
		while (!err && ape_poll(ape, &e, 1) == 1) {
			refused += e.status == APE_REMOTE_RANGE;
			failed += e.status != APE_REMOTE_RANGE;
			longest = now_s() - last > longest ? now_s() - last : longest;
			last = now_s();
			err = ape_put(ape, rank, 0, from, bytes, 4096, 0);
		}
		ape_wait(ape, &seen, 100000000);
	}
	longest = now_s() - last > longest ? now_s() - last : longest;
	printf("%lu %lu %.3f\n", refused, failed, longest);
	return err ? 1 : 0;
}
