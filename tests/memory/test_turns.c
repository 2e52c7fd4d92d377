/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Threads that get a core only when the one that registers and deregisters all the time has none to do: it waits for them
 * where they are to stand still, and they must come to run in between, not only to stand again. Argument: how many
 * registrations in each way.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ways.h"

#define THREADS	   2
#define LEN	   4096ul
#define NICE	   5
#define SECONDS	   100 /* an alarm after it ends a test that hangs */
#define STOOD_MOST 24  /* registrations without an instruction of theirs */

static atomic_bool stop;
static atomic_ulong turns[THREADS];

static void *spin(void *arg)
{
	atomic_ulong *mine = arg;

	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
	while (!atomic_load(&stop))
		atomic_fetch_add(mine, 1);
	return NULL;
}

/* All of this process on one core, so that one thread runs at a time. */
static void stay_on_one_core(void)
{
	cpu_set_t allowed, one;

	CPU_ZERO(&one);
	sched_getaffinity(0, sizeof(allowed), &allowed);
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &allowed))
			CPU_SET(i, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static int race(void *registrations)
{
	void *memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long seen[THREADS] = {0}, stood[THREADS] = {0}, longest = 0, now;
	pthread_t thread[THREADS];

	alarm(SECONDS);
	stay_on_one_core();
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, spin, &turns[i]);
	for (unsigned long done = 0; done < *(unsigned long *)registrations; done++) {
		way_migrate_once(memory, LEN);
		for (size_t i = 0; i < THREADS; i++) {
			now = atomic_load(&turns[i]);
			stood[i] = now == seen[i] ? stood[i] + 1 : 0;
			longest = stood[i] > longest ? stood[i] : longest;
			seen[i] = now;
		}
	}
	atomic_store(&stop, true);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("a thread stood for %lu registrations at most\n", longest);
	return longest > STOOD_MOST;
}

int main(int argc, char **argv)
{
	unsigned long registrations = argc > 1 ? strtoul(argv[1], NULL, 0) : 400;
	int failures = 0;

	for (size_t i = 0; i < nways; i++)
		failures += !way_run(&ways[i], race, &registrations);
	return failures != 0;
}
