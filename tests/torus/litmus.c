/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A buffer's counter, or its last bytes, say that all of a message is there: rank 0 puts, the rank
 * that is named looks at every byte, and answers by a PUT.
 *
 *	litmus RANK ROUNDS count|last
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/ape.h"

#define BYTES 9000u /* three packets */
#define WORDS (BYTES / 8)

static struct ape *ape;
static struct ape_info info;
static uint64_t *area; /* WORDS that are put to; then: the answer, the other's address, our own */
static uint64_t seen, ended;

static void take_events(void)
{
	struct ape_event e[8];
	int n = ape_poll(ape, e, 8);

	for (int i = 0; i < n; i++) {
		if (e[i].status != APE_OK) {
			fprintf(stderr, "litmus: %s\n", ape_status_str(e[i].status));
			exit(1);
		}
		ended += e[i].kind == APE_SENT;
	}
}

static void rest(void)
{
	if (ape_wait(ape, &seen, 20000000000) != 1) {
		fprintf(stderr, "litmus: nothing comes\n");
		exit(1);
	}
	take_events();
}

static void put(uint32_t rank, const uint64_t *from, uint64_t words, uint64_t to)
{
	if (ape_put(ape, rank, 0, from, 8 * words, to, 0)) {
		fprintf(stderr, "litmus: cannot post\n");
		exit(1);
	}
}

static void look(uint64_t round, uint64_t words)
{
	for (uint64_t i = 0; i < words; i++)
		if (area[i] != round * WORDS + i) {
			fprintf(stderr, "round %llu: word %llu is of another\n",
				(unsigned long long)round, (unsigned long long)i);
			exit(1);
		}
}

int main(int argc, char **argv)
{
	uint32_t other = argc == 4 ? (uint32_t)atoi(argv[1]) : 0;
	uint64_t rounds = argc == 4 ? strtoull(argv[2], NULL, 10) : 0, to;
	int by_count = argc == 4 && !strcmp(argv[3], "count"), buffer;
	uint64_t *source;

	if (!rounds || !other || ape_open(NULL, 0, &ape))
		return 2;
	ape_query(ape, &info);
	other = info.rank ? 0 : other;
	area = ape_alloc(ape, 2 * 8 * (WORDS + 4));
	source = area + WORDS + 4;
	buffer = ape_register(ape, area, 8 * WORDS, APE_MAY_PUT);
	if (buffer < 0 || ape_register(ape, &area[WORDS], 8, APE_MAY_PUT) < 0 ||
	    ape_receive(ape, &area[WORDS + 1], 8, 0) < 0)
		return 2;
	area[WORDS + 2] = (uint64_t)(uintptr_t)area;
	if (ape_send(ape, other, 0, &area[WORDS + 2], 8, 0))
		return 2;
	while (!__atomic_load_n(&area[WORDS + 1], __ATOMIC_ACQUIRE))
		rest();
	to = area[WORDS + 1];
	for (uint64_t round = 1; round <= rounds; round++) {
		/* of every length, so that the last packet has every form */
		uint64_t words = round % WORDS + 1;

		if (!info.rank) {
			for (uint64_t i = 0; i < words; i++)
				source[i] = round * WORDS + i;
			put(other, source, words, to);
			while (__atomic_load_n(&area[WORDS], __ATOMIC_ACQUIRE) < round)
				rest();
			continue;
		}
		if (by_count)
			while (ape_count(ape, buffer) < round)
				rest();
		else
			while (__atomic_load_n(&area[words - 1], __ATOMIC_ACQUIRE) !=
			       round * WORDS + words - 1)
				rest();
		look(round, words);
		area[WORDS + 3] = round;
		put(0, &area[WORDS + 3], 1, to + 8 * WORDS);
	}
	while (ended < rounds + 1)
		rest();
	ape_close(ape);
	return 0;
}
