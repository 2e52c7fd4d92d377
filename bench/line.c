/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The limit of this machine for a message of one cache line: two processes, each spinning on a line
 * of its own and answering on the other's. Prints the median over batches of half a round trip in
 * nanoseconds, and the rate of the time stamp counter, in which perftest can report.
 *
 *   line CORE CORE
 */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define BATCHES 101u
#define ROUNDS	2000u

struct lines {
	_Alignas(128) _Atomic uint64_t there; /* written by the caller, read by the answerer */
	_Alignas(128) _Atomic uint64_t back;  /* written by the answerer, read by the caller */
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t cycles(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#else
	return now_ns();
#endif
}

static void pin(const char *core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(strtoul(core, NULL, 10), &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror(core);
		exit(1);
	}
}

/* Each release of a line pairs with the other side's acquire of it. */
static void answer(struct lines *l)
{
	for (uint64_t n = 1; n <= (uint64_t)BATCHES * ROUNDS; n++) {
		while (atomic_load_explicit(&l->there, memory_order_acquire) != n)
			;
		atomic_store_explicit(&l->back, n, memory_order_release);
	}
}

static void call(struct lines *l, uint64_t n)
{
	atomic_store_explicit(&l->there, n, memory_order_release);
	while (atomic_load_explicit(&l->back, memory_order_acquire) != n)
		;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static double batch[BATCHES];
	uint64_t begin_ns, begin_cycles, n = 0;
	struct lines *l;
	double mhz;

	if (argc != 3) {
		fprintf(stderr, "usage: line CORE CORE\n");
		return 2;
	}
	l = mmap(NULL, sizeof(*l), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (l == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(argv[1]);
		answer(l);
		return 0;
	}
	pin(argv[2]);
	begin_ns = now_ns();
	begin_cycles = cycles();
	for (unsigned int i = 0; i < BATCHES; i++) {
		uint64_t start_ns = now_ns();

		for (unsigned int j = 0; j < ROUNDS; j++)
			call(l, ++n);
		batch[i] = (double)(now_ns() - start_ns) / ROUNDS / 2;
	}
	mhz = (double)(cycles() - begin_cycles) * 1e3 / (double)(now_ns() - begin_ns);
	wait(NULL);
	qsort(batch, BATCHES, sizeof(*batch), compare);
	printf("{\"line_ns\": %.2f, \"cycles_per_us\": %.3f}\n", batch[BATCHES / 2], mhz);
	return 0;
}
