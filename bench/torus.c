/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Speeds of a live torus, from program to program by libweft-ape; and what they are compared with: a token in shared
 * memory that sleeping processes pass round, and a stream of TCP over loopback.
 *
 *	torus token PROCESSES ROUNDS	ns a hand-over, the median of rounds
 *	torus put RANK RANK ROUNDS	on both nodes; the first prints ns one way of 8 bytes, the median of rounds
 *	torus stream RANK RANK BYTES MS	on both nodes; the first prints MB/s of PUTs of so many bytes
 *	torus words RANK RANK BYTES COUNT	on both nodes; so many PUTs, before and behind which the first waits for a line
 *	torus tcp BYTES MS		MB/s between two processes, so many bytes a call
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "link/door.h"
#include "weft/ape.h"

#define PROCESSES  16u
#define WARM	   100u
#define UNDER_WAY  16u /* PUTs */
#define PAGE	   4096u
#define MOST_BYTES (64ul << 20)

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "torus: %s\n", what);
	exit(1);
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

static void print_speed(uint64_t bytes, uint64_t begun_ns)
{
	printf("%.1f\n", (double)bytes * 1e3 / (double)(now_ns() - begun_ns));
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
		die("out of memory");
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

/* ---- A pair of programs on two nodes ---- */

struct pair {
	struct ape *ape;
	bool is_first;
	uint32_t other;
	uint64_t seen, posted, ended;
	uint64_t *page;	     /* word 0 is put to, word 1 put from; 2 and 3: addresses */
	uint64_t page_there; /* the other's page */
	uint8_t *block;
	uint64_t block_there;
};

static void take_events(struct pair *p)
{
	struct ape_event e;

	while (ape_poll(p->ape, &e, 1)) {
		if (e.status != APE_OK)
			die(ape_status_str(e.status));
		p->ended += e.kind == APE_SENT;
	}
}

static void sleep_once(struct pair *p)
{
	if (ape_wait(p->ape, &p->seen, -1) != 1)
		die("the card has gone");
	take_events(p);
}

static void await_word(struct pair *p, const uint64_t *word, uint64_t value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
		sleep_once(p);
}

static void await_ends(struct pair *p, uint64_t under_way)
{
	for (take_events(p); p->posted - p->ended > under_way;)
		sleep_once(p);
}

static void put_bytes(struct pair *p, const void *from, uint64_t bytes, uint64_t to)
{
	if (ape_put(p->ape, p->other, 0, from, bytes, to, 0))
		die("a PUT is not taken");
	p->posted++;
}

static void meet(struct pair *p, char **ranks, uint64_t bytes)
{
	struct ape_info info;

	memset(p, 0, sizeof(*p));
	if (ape_open(NULL, 0, &p->ape))
		die("no node of a torus");
	ape_query(p->ape, &info);
	p->is_first = info.rank == (uint32_t)atoi(ranks[0]);
	p->other = (uint32_t)atoi(ranks[p->is_first]);
	p->page = ape_alloc(p->ape, PAGE);
	p->block = ape_alloc(p->ape, bytes);
	if (!p->page || !p->block || ape_register(p->ape, p->page, PAGE, APE_MAY_PUT) < 0 ||
	    ape_register(p->ape, p->block, bytes, APE_MAY_PUT) < 0 ||
	    ape_receive(p->ape, &p->page[4], 16, 0) < 0)
		die("no memory of the node");
	p->page[2] = (uint64_t)(uintptr_t)p->page;
	p->page[3] = (uint64_t)(uintptr_t)p->block;
	if (ape_send(p->ape, p->other, 0, &p->page[2], 16, 0))
		die("a SEND is not taken");
	p->posted++;
	await_word(p, &p->page[5], 1);
	p->page_there = p->page[4];
	p->block_there = p->page[5];
	await_ends(p, 0);
}

/* Waits for the end of all PUTs, as ape_close would give up what has not ended. */
static int part(struct pair *p)
{
	await_ends(p, 0);
	ape_close(p->ape);
	return 0;
}

static int put(char **ranks, unsigned int rounds)
{
	uint64_t *ns = calloc(rounds, sizeof(*ns));
	struct pair p;

	if (!ns)
		die("out of memory");
	meet(&p, ranks, PAGE);
	for (uint64_t lap = 1; lap <= rounds + WARM; lap++) {
		uint64_t begun = now_ns();

		if (!p.is_first)
			await_word(&p, p.page, lap);
		p.page[1] = lap;
		put_bytes(&p, &p.page[1], 8, p.page_there);
		if (p.is_first)
			await_word(&p, p.page, lap);
		if (lap > WARM)
			ns[lap - WARM - 1] = now_ns() - begun;
	}
	if (p.is_first)
		print_median(ns, rounds, 2);
	free(ns);
	return part(&p);
}

static int stream(char **ranks, uint64_t bytes, uint64_t ms)
{
	uint64_t begun, sent = 0;
	struct pair p;

	meet(&p, ranks, bytes);
	if (!p.is_first) {
		await_word(&p, p.page, 1);
		return part(&p);
	}
	memset(p.block, 1, bytes);
	for (begun = now_ns(); now_ns() - begun < ms * 1000000; sent += bytes) {
		await_ends(&p, UNDER_WAY - 1);
		put_bytes(&p, p.block, bytes, p.block_there);
	}
	await_ends(&p, 0);
	print_speed(sent, begun);
	p.page[1] = 1;
	put_bytes(&p, &p.page[1], 8, p.page_there);
	return part(&p);
}

static void await_line(const char *what)
{
	puts(what);
	fflush(stdout);
	if (getchar() == EOF)
		die("no line");
}

static int words(char **ranks, uint64_t bytes, unsigned int count)
{
	struct pair p;

	meet(&p, ranks, bytes);
	if (!p.is_first) {
		await_word(&p, p.page, 1);
		return part(&p);
	}
	memset(p.block, 1, bytes);
	await_line("before");
	while (count--) {
		await_ends(&p, UNDER_WAY - 1);
		put_bytes(&p, p.block, bytes, p.block_there);
	}
	await_ends(&p, 0);
	await_line("behind");
	p.page[1] = 1;
	put_bytes(&p, &p.page[1], 8, p.page_there);
	return part(&p);
}

/* ---- A stream of TCP ---- */

static void take_stream(int listener, uint8_t *memory, size_t bytes)
{
	int fd = accept(listener, NULL, NULL);

	while (read(fd, memory, bytes) > 0)
		;
	/* the sender's clock runs until all has been read */
	if (write(fd, "", 1) != 1)
		_exit(1);
	_exit(0);
}

static int tcp(size_t bytes, uint64_t ms)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t length = sizeof(at);
	uint8_t *memory = malloc(bytes);
	uint64_t begun, sent = 0;
	char end;

	if (!memory || bind(listener, (struct sockaddr *)&at, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &length))
		die("no socket");
	memset(memory, 1, bytes);
	if (!fork())
		take_stream(listener, memory, bytes);
	if (connect(fd, (struct sockaddr *)&at, length))
		die("no connection");
	for (begun = now_ns(); now_ns() - begun < ms * 1000000;) {
		ssize_t done = write(fd, memory, bytes);

		if (done < 0)
			die("the stream breaks");
		sent += (uint64_t)done;
	}
	shutdown(fd, SHUT_WR);
	if (read(fd, &end, 1) != 1)
		die("the stream's end is not read");
	print_speed(sent, begun);
	wait(NULL);
	free(memory);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint64_t size = argc > 3 ? strtoull(argv[argc - 2], NULL, 10) : 0;
	unsigned int count = argc > 3 ? (unsigned int)atoi(argv[argc - 1]) : 0;

	if (argc == 4 && !strcmp(what, "token") && size >= 2 && size <= PROCESSES)
		return token((unsigned int)size, count);
	if (argc == 5 && !strcmp(what, "put"))
		return put(argv + 2, count);
	if (argc == 6 && !strcmp(what, "stream") && size && size <= MOST_BYTES)
		return stream(argv + 2, size, count);
	if (argc == 6 && !strcmp(what, "words") && size && size <= MOST_BYTES)
		return words(argv + 2, size, count);
	if (argc == 4 && !strcmp(what, "tcp") && size && size <= MOST_BYTES)
		return tcp(size, count);
	fputs("torus token PROCESSES ROUNDS | put RANK RANK ROUNDS | stream RANK RANK BYTES MS | "
	      "words RANK RANK BYTES COUNT | tcp BYTES MS\n",
	      stderr);
	return 2;
}
