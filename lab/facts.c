/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What docs/decisions/0067 has numbers of, asked of a memory that two guests share:
 *
 *   facts maps PATH	single pages mapped at fixed addresses, with mremap and fork
 *   facts race PATH	pages moved to and from it by protection while four threads store
 *   facts answer PATH	answers the other guest, until that has asked all
 *   facts ask PATH	asks it, awake and idle
 *   facts cost PATH	models of a request and a revocation, with fences and with asking
 *   facts back PATH	lets a line bounce back to the other guest
 *   facts bounce PATH	how long a line takes to it
 *   facts copy PATH	how fast it is copied within the memory
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fcntl.h>

#define PAGE	 4096u
#define HUGE	 (2u << 20) /* a multiple of what any of them can map */
#define SINGLE	 64u
#define STORERS	 4u
#define MOVES	 500u
#define REQUESTS 10000u
#define LINES	 64u
#define AWAKE	 2000u
#define IDLE	 100u
#define IDLE_NS	 10000000 /* between two looks of a side that is idle */
#define COPIED	 (64u << 10)
#define COPIES	 20000u
#define MB	 0x100000 /* of perftest */

static int device;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void doze(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static void say(const char *what, bool works)
{
	printf("%s\t%s\n", what, works ? "works" : strerror(errno));
}

static void *map(void *at, size_t bytes, size_t off)
{
	return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), device, (off_t)off);
}

static void *must_map(size_t bytes, size_t off)
{
	void *at = map(NULL, bytes, off);

	if (at == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return at;
}

static unsigned mappings(const char *from, size_t bytes)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	while (maps && fgets(line, sizeof(line), maps)) {
		uintptr_t start = strtoull(line, NULL, 16);

		n += start >= (uintptr_t)from && start < (uintptr_t)from + bytes;
	}
	if (maps)
		fclose(maps);
	return n;
}

static void maps(void)
{
	size_t bytes = 2 * SINGLE * PAGE;
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *page, *moved;
	unsigned n = 0;
	int status;
	pid_t child;

	while (n < SINGLE && map(at + (size_t)n * PAGE, PAGE, (size_t)n * PAGE) != MAP_FAILED)
		n++;
	say("a single page at a fixed address", n);
	if (!n)
		return;
	printf("mappings of %u pages side by side, in order\t%u\n", n, mappings(at, (size_t)n * PAGE));
	page = at;
	strcpy(page, "here");
	moved = mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + bytes - PAGE);
	say("mremap to another address", moved != MAP_FAILED && !strcmp(moved, "here"));
	say("mremap to twice the length", mremap(moved, PAGE, (size_t)2 * PAGE, MREMAP_MAYMOVE) != MAP_FAILED);
	page = at + PAGE;
	child = fork();
	if (!child) {
		strcpy(page, "child");
		_exit(0);
	}
	waitpid(child, &status, 0);
	say("a child of fork stores, and its parent sees it", !strcmp(page, "child"));
}

static char *field;	   /* the page that moves */
static atomic_bool over;
static atomic_uint losses;

static void wait_for_it(int number)
{
	(void)number;
	sched_yield(); /* then the store is tried again */
}

static void *store(void *argument)
{
	volatile uint64_t *word = (uint64_t *)(void *)field + 64 * (size_t)(uintptr_t)argument;
	uint64_t n = 0;

	while (!atomic_load(&over)) {
		if (*word != n)
			atomic_fetch_add(&losses, 1);
		*word = ++n;
	}
	if (*word != n)
		atomic_fetch_add(&losses, 1);
	return NULL;
}

/* Its bytes, to a page that takes its place. */
static void move(char *to, bool home)
{
	mprotect(field, PAGE, PROT_READ);
	memcpy(to, field, PAGE);
	if (home)
		mremap(to, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, field);
	else
		map(field, PAGE, 0);
}

static void race(void)
{
	struct sigaction action = { .sa_handler = wait_for_it };
	pthread_t thread[STORERS];
	char *window = must_map(HUGE, 0);

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	memset(window, 0, PAGE);
	field = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map(field, PAGE, 0) == MAP_FAILED) {
		say("pages moved by protection", false);
		return;
	}
	for (uintptr_t i = 0; i < STORERS; i++)
		pthread_create(&thread[i], NULL, store, (void *)i);
	for (unsigned i = 0; i < MOVES; i++) {
		doze(100000);
		move(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), true);
		doze(100000);
		move(window, false);
	}
	atomic_store(&over, true);
	for (unsigned i = 0; i < STORERS; i++)
		pthread_join(thread[i], NULL);
	printf("stores lost in %u moves there and %u back\t%u\n", MOVES, MOVES, atomic_load(&losses));
}

struct table {
	_Alignas(128) _Atomic uint64_t question;
	_Alignas(128) _Atomic uint64_t reply;
	_Alignas(128) _Atomic uint64_t idle, ready;
	struct {
		_Alignas(128) _Atomic uint64_t busy;
	} line[LINES];
};

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Of `count` times, which it sorts. */
static double median(uint64_t *took, size_t count)
{
	const size_t half = count / 2;

	qsort(took, count, sizeof(*took), compare);
	return (double)took[half];
}

static void answer(struct table *t)
{
	uint64_t n = 0, asked;

	atomic_store_explicit(&t->reply, 0, memory_order_relaxed);
	atomic_store_explicit(&t->question, 0, memory_order_relaxed);
	atomic_store_explicit(&t->idle, 0, memory_order_relaxed);
	atomic_store_explicit(&t->ready, 1, memory_order_release);
	while (n < AWAKE + IDLE) {
		asked = atomic_load_explicit(&t->question, memory_order_acquire);
		if (asked != n)
			atomic_store_explicit(&t->reply, n = asked, memory_order_release);
		else if (atomic_load_explicit(&t->idle, memory_order_relaxed))
			doze(IDLE_NS);
		else
			sched_yield();
	}
	atomic_store_explicit(&t->ready, 0, memory_order_release);
}

static void ask_all(struct table *t, uint64_t from, uint64_t count, const char *what)
{
	static uint64_t took[AWAKE];
	const uint64_t most = count * 99 / 100;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t begun;

		if (atomic_load_explicit(&t->idle, memory_order_relaxed))
			doze(3 * IDLE_NS);
		begun = now_ns();
		atomic_store_explicit(&t->question, from + i + 1, memory_order_release);
		while (atomic_load_explicit(&t->reply, memory_order_acquire) != from + i + 1)
			sched_yield();
		took[i] = now_ns() - begun;
	}
	printf("question and answer, %s: median, 99 of 100\t%.1f us, ", what, median(took, count) / 1e3);
	printf("%.1f us\n", (double)took[most] / 1e3);
}

static void ask(struct table *t)
{
	while (atomic_load_explicit(&t->ready, memory_order_acquire) != 1)
		doze(IDLE_NS);
	ask_all(t, 0, AWAKE, "the other awake");
	atomic_store_explicit(&t->idle, 1, memory_order_relaxed);
	ask_all(t, AWAKE, IDLE, "the other idle, looks each 10 ms");
}

/* ---- What the speed of requests between guests is held against (speed.py) ---- */

/* Two lines, one for each way; nobody yields. */
static void bounce(struct table *t, bool asks)
{
	static uint64_t took[AWAKE];
	_Atomic uint64_t *mine = asks ? &t->line[0].busy : &t->line[1].busy;
	_Atomic uint64_t *peers = asks ? &t->line[1].busy : &t->line[0].busy;

	if (!asks) {
		atomic_store_explicit(mine, 0, memory_order_relaxed);
		atomic_store_explicit(peers, 0, memory_order_relaxed);
		atomic_store_explicit(&t->ready, 1, memory_order_release);
	}
	while (asks && atomic_load_explicit(&t->ready, memory_order_acquire) != 1)
		doze(IDLE_NS);
	for (uint64_t i = 1; i <= AWAKE; i++) {
		uint64_t begun = now_ns();

		if (asks)
			atomic_store_explicit(mine, i, memory_order_release);
		while (atomic_load_explicit(peers, memory_order_acquire) != i)
			;
		if (!asks)
			atomic_store_explicit(mine, i, memory_order_release);
		took[i - 1] = now_ns() - begun;
	}
	atomic_store_explicit(&t->ready, 0, memory_order_relaxed);
	if (asks)
		printf("a line, one way: median\t%.3f us\n", median(took, AWAKE) / 2e3);
}

/* From one half of a stretch of the memory to the other; all of them together, as perftest counts what it has written. */
static void copy(uint8_t *memory)
{
	uint64_t begun;

	memset(memory, 1, (size_t)2 * COPIED);
	begun = now_ns();
	for (unsigned i = 0; i < COPIES; i++)
		memcpy(memory + COPIED * (i % 2), memory + COPIED * ((i + 1) % 2), COPIED);
	printf("64 KiB copied: average\t%.1f MB/sec\n", (double)COPIED * COPIES / ((double)(now_ns() - begun) / 1e9) / MB);
}

/* ---- Models ---- */

/* A request as an executor carries it out: its line, the peer's right, the bytes, its line. */
static double request_ns(struct table *lines, struct table *far, bool fences)
{
	uint64_t begun = now_ns();

	for (uint64_t n = 1; n <= REQUESTS; n++) {
		atomic_store_explicit(&lines->line[0].busy, n, memory_order_relaxed);
		if (fences)
			atomic_thread_fence(memory_order_seq_cst);
		else
			atomic_signal_fence(memory_order_seq_cst);
		if (atomic_load_explicit(&far->idle, memory_order_acquire) == UINT64_MAX)
			return 0;
		atomic_store_explicit(&far->question, n, memory_order_relaxed);
		atomic_store_explicit(&lines->line[0].busy, 0, memory_order_release);
	}
	return (double)(now_ns() - begun) / REQUESTS;
}

/* What a revoker does, or for its sake a host that is asked: whether any line is busy. */
static double look_ns(struct table *lines, struct table *far, bool barrier)
{
	uint64_t begun = now_ns(), busy = atomic_load_explicit(&far->idle, memory_order_relaxed);

	for (unsigned n = 0; n < AWAKE; n++) {
		if (barrier)
			syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
		else
			atomic_thread_fence(memory_order_seq_cst);
		for (unsigned i = 0; i < LINES; i++)
			busy += atomic_load_explicit(&lines->line[i].busy, memory_order_acquire);
	}
	return busy == UINT64_MAX ? 0 : (double)(now_ns() - begun) / AWAKE;
}

/* The least of several, as others load the machine. */
static double least_ns(double (*model)(struct table *, struct table *, bool), struct table *lines, struct table *far, bool how)
{
	double least = model(lines, far, how);

	for (int i = 0; i < 10; i++) {
		double ns = model(lines, far, how);

		least = ns < least ? ns : least;
	}
	return least;
}

static void cost(struct table *far)
{
	struct table *near = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	memset(far, 0, sizeof(*far));
	printf("a request, line near, no fence\t%.1f ns\n", least_ns(request_ns, near, far, false));
	printf("a request, line near, fence\t%.1f ns\n", least_ns(request_ns, near, far, true));
	printf("a request, line far, fence\t%.1f ns\n", least_ns(request_ns, far, far, true));
	printf("a revocation by fences: %u lines far\t%.1f ns\n", LINES, least_ns(look_ns, far, far, false));
	printf("a revocation by asking, without the question: membarrier, %u lines near\t%.1f ns\n", LINES,
	       least_ns(look_ns, near, far, true));
}

int main(int argc, char **argv)
{
	const char *what = argc == 3 ? argv[1] : "";

	device = argc == 3 ? open(argv[2], O_RDWR | O_CLOEXEC) : -1;
	if (device < 0) {
		fputs("usage: facts maps|race|answer|ask|cost|bounce|back|copy PATH\n", stderr);
		return 2;
	}
	if (!strcmp(what, "maps"))
		maps();
	else if (!strcmp(what, "race"))
		race();
	else if (!strcmp(what, "answer"))
		answer(must_map(HUGE, 0));
	else if (!strcmp(what, "bounce") || !strcmp(what, "back"))
		bounce(must_map(HUGE, 0), !strcmp(what, "bounce"));
	else if (!strcmp(what, "copy"))
		copy((uint8_t *)must_map(HUGE, 0));
	else if (!strcmp(what, "ask"))
		ask(must_map(HUGE, 0));
	else
		cost(must_map(HUGE, 0));
	return 0;
}
