/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * PUT, GET and SEND of every size from each node to each, each byte compared, and guard bytes around.
 * Runs on all nodes of a torus at once, as process 0 on each. With `hold` as argument it waits for a
 * line of input before the PUTs and GETs, and after them, and prints which of the two it waits for.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weft/ape.h"

#define GUARD  0xa5
#define MARGIN 64u
#define MOST   20000u
#define NODES  64u

static const uint32_t sizes[] = {0, 1, 15, 16, 17, 255, 4095, 4096, 4097, 8192, MOST};
#define SIZES (sizeof(sizes) / sizeof(*sizes))

/* What a process tells all others first: where its memory is. */
struct card {
	uint64_t room, source, flags;
};

static struct ape *ape;
static struct ape_info info;
static uint8_t *room, *source; /* for each rank a part; others put, others get */
static uint64_t *flags, *turn; /* for each rank: how far it is */
static struct card of[NODES];
static uint64_t events_seen;

static void fail(const char *what, int err)
{
	fprintf(stderr, "rank %u: %s: %s\n", info.rank, what, ape_strerror(err));
	exit(1);
}

static uint8_t *part(uint8_t *of_all, uint32_t rank)
{
	return of_all + (uint64_t)rank * (MOST + 2 * MARGIN) + MARGIN;
}

static uint8_t byte(uint32_t from, uint32_t to, uint32_t size, uint32_t i)
{
	return (uint8_t)(from * 37 + to * 11 + size * 5 + i * 131 + i / 256 * 29);
}

/* ---- Waiting ---- */

static uint32_t ended, received;

static void take_events(void)
{
	struct ape_event e[16];
	int n;

	while ((n = ape_poll(ape, e, 16)) > 0)
		for (int i = 0; i < n; i++) {
			if (e[i].status != APE_OK) {
				fprintf(stderr, "rank %u: to %u, tag %llu: %s\n", info.rank,
					e[i].rank, (unsigned long long)e[i].tag,
					ape_status_str(e[i].status));
				exit(1);
			}
			if (e[i].kind == APE_SENT)
				ended++;
			else
				received++;
		}
}

static void rest(void)
{
	int err = ape_wait(ape, &events_seen, 20000000000);

	if (err != 1)
		fail(err ? "ape_wait" : "nothing for 20 s", err);
}

static void until_ended(uint32_t count)
{
	for (take_events(); ended < count; take_events())
		rest();
	ended -= count;
}

static void post(int err)
{
	if (err)
		fail("post", err);
}

/* Returns when all ranks have called it. */
static void meet(void)
{
	static uint64_t lap;
	uint32_t posted = 0;

	*turn = ++lap;
	for (uint32_t r = 0; r < info.nodes; r++) {
		if (r == info.rank)
			continue;
		post(ape_put(ape, r, 0, turn, 8, of[r].flags + 8 * info.rank, 1));
		if (++posted == 32) {
			until_ended(posted);
			posted = 0;
		}
	}
	until_ended(posted);
	for (uint32_t r = 0; r < info.nodes; r++)
		while (r != info.rank && __atomic_load_n(&flags[r], __ATOMIC_ACQUIRE) < lap)
			rest();
}

/* ---- Addresses ---- */

static void introduce(void)
{
	struct card *mine = ape_alloc(ape, sizeof(*mine) * (NODES + 1));
	int err;

	if (!mine)
		fail("ape_alloc", -1);
	mine[NODES] = (struct card){(uint64_t)(uintptr_t)room, (uint64_t)(uintptr_t)source,
				    (uint64_t)(uintptr_t)flags};
	/* which rank's address comes first is not known: the receive's event says whose it is */
	for (uint32_t r = 0; r + 1 < info.nodes; r++) {
		err = ape_receive(ape, &mine[r], sizeof(*mine), r);
		if (err < 0)
			fail("ape_receive", err);
	}
	for (uint32_t r = 0; r < info.nodes; r++)
		if (r != info.rank)
			post(ape_send(ape, r, 0, &mine[NODES], sizeof(*mine), 2));
	while (ended < info.nodes - 1 || received < info.nodes - 1) {
		struct ape_event e;

		if (!ape_poll(ape, &e, 1)) {
			rest();
			continue;
		}
		if (e.status != APE_OK)
			fail(ape_status_str(e.status), 0);
		ended += e.kind == APE_SENT;
		if (e.kind == APE_RECEIVED) {
			received++;
			of[e.rank] = mine[e.tag];
			if (e.bytes != sizeof(*mine))
				fail("a SEND of another length", 0);
		}
	}
	of[info.rank] = mine[NODES];
	ended = received = 0;
}

/* ---- Bytes ---- */

static void check(const uint8_t *all, uint32_t from, uint32_t to, uint32_t size, const char *what)
{
	const uint8_t *at = all;

	for (uint32_t i = 0; i < size; i++)
		if (at[i] != byte(from, to, size, i)) {
			fprintf(stderr, "rank %u: %s of %u from %u: byte %u is %02x, not %02x\n",
				info.rank, what, size, from, i, at[i], byte(from, to, size, i));
			exit(1);
		}
	for (uint32_t i = 1; i <= MARGIN; i++)
		if (at[-(int)i] != GUARD || at[size + i - 1] != GUARD) {
			fprintf(stderr, "rank %u: %s of %u: a byte beside it was stored\n",
				info.rank, what, size);
			exit(1);
		}
}

static void fill(uint32_t size)
{
	memset(room, GUARD, (uint64_t)info.nodes * (MOST + 2 * MARGIN));
	for (uint32_t to = 0; to < info.nodes; to++)
		for (uint32_t i = 0; i < size; i++)
			part(source, to)[i] = byte(info.rank, to, size, i);
}

static uint64_t there(uint64_t base, uint32_t rank)
{
	return base + (uint64_t)rank * (MOST + 2 * MARGIN) + MARGIN;
}

static void put_and_get(uint32_t size)
{
	uint32_t posted = 0;

	fill(size);
	meet();
	for (uint32_t r = 0; r < info.nodes; r++, posted++)
		post(ape_put(ape, r, 0, part(source, r), size, there(of[r].room, info.rank), 3));
	until_ended(posted);
	meet();
	for (uint32_t r = 0; r < info.nodes; r++)
		check(part(room, r), r, info.rank, size, "PUT");
	memset(room, GUARD, (uint64_t)info.nodes * (MOST + 2 * MARGIN));
	posted = 0;
	for (uint32_t r = 0; r < info.nodes; r++, posted++)
		post(ape_get(ape, r, 0, part(room, r), size, there(of[r].source, info.rank), 4));
	until_ended(posted);
	for (uint32_t r = 0; r < info.nodes; r++)
		check(part(room, r), r, info.rank, size, "GET");
	meet();
}

static void hold(bool wanted, const char *where)
{
	char line[16];

	if (!wanted)
		return;
	printf("%u %s\n", info.rank, where);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

/* Alone, without other ranks: stays until the card has gone. */
static int stay(void)
{
	int err = 1;

	printf("%u alone\n", info.rank);
	fflush(stdout);
	while (err >= 0)
		err = ape_wait(ape, &events_seen, -1);
	puts(err == -ENETDOWN ? "0 has no card" : ape_strerror(err));
	return 3;
}

int main(int argc, char **argv)
{
	bool holds = argc > 1 && !strcmp(argv[1], "hold");
	uint64_t all = (uint64_t)NODES * (MOST + 2 * MARGIN);
	bool in_place = argc > 1 && !strcmp(argv[1], "place");
	int err = ape_open(NULL, 0, &ape);

	if (err)
		fail("ape_open", err);
	ape_query(ape, &info);
	if (argc > 1 && !strcmp(argv[1], "alone"))
		return stay();
	room = in_place ? malloc(all) : ape_alloc(ape, all);
	source = in_place ? malloc(all) : ape_alloc(ape, all);
	flags = ape_alloc(ape, 2 * NODES * sizeof(*flags));
	turn = flags + NODES;
	if (!room || !source || !flags)
		fail("memory", -1);
	if (ape_register(ape, room, all, APE_MAY_PUT) < 0 ||
	    ape_register(ape, source, all, APE_MAY_GET) < 0 ||
	    ape_register(ape, flags, NODES * sizeof(*flags), APE_MAY_PUT) < 0)
		fail("ape_register", -1);
	introduce();
	meet();
	hold(holds, "begins");
	for (unsigned int i = 0; i < SIZES; i++)
		put_and_get(sizes[i]);
	hold(holds, "ends");
	meet();
	ape_close(ape);
	printf("rank %u: %u nodes, %zu sizes: every byte is right\n", info.rank, info.nodes, SIZES);
	return 0;
}
