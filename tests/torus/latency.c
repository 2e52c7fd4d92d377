/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The time of an 8-byte PUT from program to program, half of there and back; and what it is compared with: a
 * token in shared memory that sleeping processes pass round.
 *
 *	latency token PROCESSES ROUNDS	prints ns a hand-over, the median of rounds
 *	latency put ROUNDS		on two nodes of a torus, ranks 0 and the last; rank 0 prints ns one way
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "link/door.h"
#include "weft/ape.h"

#define PROCESSES 16u
#define WARM	  100u

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print_median(uint64_t *ns, unsigned int rounds, unsigned int parts)
{
	qsort(ns, rounds, sizeof(*ns), compare);
	printf("%llu\n", (unsigned long long)(ns[rounds / 2] / parts));
}

/* ---- The token ---- */

struct ring {
	struct {
		_Alignas(64) struct weft_door door;
		_Atomic uint64_t token;
	} at[PROCESSES];
};

static void await_token(struct ring *r, unsigned int me, uint64_t lap)
{
	while (atomic_load(&r->at[me].token) < lap) {
		uint32_t seen = weft_door_lie_down(&r->at[me].door);

		if (atomic_load(&r->at[me].token) < lap)
			weft_door_sleep(&r->at[me].door, seen, -1);
		weft_door_get_up(&r->at[me].door);
	}
}

static void pass(struct ring *r, unsigned int to, uint64_t lap)
{
	atomic_store(&r->at[to].token, lap);
	weft_door_knock(&r->at[to].door);
}

static int token(unsigned int processes, unsigned int rounds)
{
	struct ring *r =
		mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t *ns = calloc(rounds, sizeof(*ns));

	if (r == MAP_FAILED || !ns)
		exit(1);
	for (unsigned int me = 1; me < processes; me++)
		if (!fork()) {
			for (uint64_t lap = 1; lap <= rounds + WARM; lap++) {
				await_token(r, me, lap);
				pass(r, (me + 1) % processes, lap);
			}
			_exit(0);
		}
	for (uint64_t lap = 1; lap <= rounds + WARM; lap++) {
		uint64_t begun = now_ns();

		pass(r, 1, lap);
		await_token(r, 0, lap);
		if (lap > WARM)
			ns[lap - WARM - 1] = now_ns() - begun;
	}
	while (wait(NULL) > 0)
		;
	print_median(ns, rounds, processes);
	free(ns);
	return 0;
}

/* ---- The PUT ---- */

static struct ape *ape;
static uint64_t seen, ended;

static void take_events(void)
{
	struct ape_event e[8];
	int n = ape_poll(ape, e, 8);

	for (int i = 0; i < n; i++) {
		if (e[i].status != APE_OK)
			exit(1);
		ended += e[i].kind == APE_SENT;
	}
}

static void await_word(const uint64_t *word, uint64_t value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value) {
		if (ape_wait(ape, &seen, -1) != 1)
			exit(1);
		take_events();
	}
}

static int put(unsigned int rounds)
{
	uint64_t *ns = calloc(rounds, sizeof(*ns)), *memory, *there;
	struct ape_info info;
	uint32_t other;

	if (!ns || ape_open(NULL, 0, &ape))
		exit(1);
	ape_query(ape, &info);
	memory = ape_alloc(ape, 4096);
	other = info.rank ? 0 : info.nodes - 1;
	/* word 0 is put to, word 1 put from; word 2 gets the address of the other rank's memory */
	if (!memory || ape_register(ape, memory, 4096, APE_MAY_PUT) < 0 ||
	    ape_receive(ape, &memory[2], 8, 0) < 0)
		exit(1);
	memory[3] = (uint64_t)(uintptr_t)memory;
	if (ape_send(ape, other, 0, &memory[3], 8, 0))
		exit(1);
	await_word(&memory[2], 1);
	there = (uint64_t *)(uintptr_t)memory[2];
	for (uint64_t lap = 1; lap <= rounds + WARM; lap++) {
		uint64_t begun = now_ns();

		if (info.rank)
			await_word(memory, lap);
		memory[1] = lap;
		if (ape_put(ape, other, 0, &memory[1], 8, (uint64_t)(uintptr_t)there, 0))
			exit(1);
		if (!info.rank)
			await_word(memory, lap);
		if (lap > WARM)
			ns[lap - WARM - 1] = now_ns() - begun;
	}
	if (!info.rank)
		print_median(ns, rounds, 2);
	/* waits for the end of all PUTs, as ape_close would give up what has not ended */
	for (take_events(); ended < rounds + WARM + 1; take_events())
		if (ape_wait(ape, &seen, -1) != 1)
			exit(1);
	ape_close(ape);
	free(ns);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "token") && atoi(argv[2]) >= 2 &&
	    atoi(argv[2]) <= (int)PROCESSES)
		return token((unsigned int)atoi(argv[2]), (unsigned int)atoi(argv[3]));
	if (argc == 3 && !strcmp(argv[1], "put"))
		return put((unsigned int)atoi(argv[2]));
	fprintf(stderr, "latency token PROCESSES ROUNDS | put ROUNDS\n");
	return 2;
}
