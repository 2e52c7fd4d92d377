/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Threads sleep on semaphores, conditions, mutexes, barriers and locks, private ones and those that processes
 * share, and take signals on a stack, all in memory that is registered and deregistered meanwhile: each wakes
 * when it should, and none ends the program. Argument: how many migrations in each way.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ways.h"

#define PAGE	     4096ul
#define SIGNAL_STACK (4 * PAGE)
#define SECONDS	     60 /* more than any wait; an alarm after it ends a test that hangs */
#define LEAST_ROUNDS 20

/* Two threads take turns by each of these objects. */
struct shared {
	sem_t turn[2];
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	pthread_barrier_t barrier;
	pthread_rwlock_t lock;
	sem_t end; /* a third thread sleeps on it until the test ends */
	unsigned int whose;
	uint64_t counted, guarded[2];
};

/* Each member lies on pages of its own. */
static struct memory {
	/* one that is private to the process, one that processes may share */
	_Alignas(PAGE) struct shared group[2];
	_Alignas(PAGE) uint8_t stack[SIGNAL_STACK];
} * memory;

static atomic_bool stop;
static atomic_ulong wrong, rounds[2], signals;

static void make(struct shared *s, int pshared)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;
	pthread_barrierattr_t barrier;
	pthread_rwlockattr_t lock;

	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, pshared);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, pshared);
	pthread_barrierattr_init(&barrier);
	pthread_barrierattr_setpshared(&barrier, pshared);
	pthread_rwlockattr_init(&lock);
	pthread_rwlockattr_setpshared(&lock, pshared);
	sem_init(&s->turn[0], pshared, 0);
	sem_init(&s->turn[1], pshared, 0);
	sem_init(&s->end, pshared, 0);
	pthread_mutex_init(&s->mutex, &mutex);
	pthread_cond_init(&s->cond, &cond);
	pthread_barrier_init(&s->barrier, &barrier, 2);
	pthread_rwlock_init(&s->lock, &lock);
}

static void expect(bool right)
{
	if (!right)
		atomic_fetch_add(&wrong, 1);
}

static void by_semaphore(struct shared *s, unsigned int me)
{
	expect(!sem_post(&s->turn[!me]));
	expect(!sem_wait(&s->turn[me]));
}

static void by_condition(struct shared *s, unsigned int me)
{
	expect(!pthread_mutex_lock(&s->mutex));
	while (s->whose != me)
		expect(!pthread_cond_wait(&s->cond, &s->mutex));
	s->whose = !me;
	expect(!pthread_cond_signal(&s->cond));
	expect(!pthread_mutex_unlock(&s->mutex));
}

static void by_locks(struct shared *s, unsigned int me)
{
	expect(!pthread_mutex_lock(&s->mutex));
	s->counted++;
	expect(!pthread_mutex_unlock(&s->mutex));
	expect(!pthread_rwlock_wrlock(&s->lock));
	s->guarded[0]++;
	sched_yield();
	s->guarded[1]++;
	expect(!pthread_rwlock_unlock(&s->lock));
	expect(!pthread_rwlock_rdlock(&s->lock));
	expect(s->guarded[0] == s->guarded[1]);
	expect(!pthread_rwlock_unlock(&s->lock));
}

static bool by_barrier(struct shared *s)
{
	int last = pthread_barrier_wait(&s->barrier);

	expect(!last || last == PTHREAD_BARRIER_SERIAL_THREAD);
	return last;
}

static void *take_turns(void *arg)
{
	size_t group = (size_t)arg / 2;
	unsigned int me = (size_t)arg % 2;
	struct shared *s = &memory->group[group];
	static bool ends[2]; /* set between two passes of the barrier */

	for (;;) {
		by_semaphore(s, me);
		by_condition(s, me);
		by_locks(s, me);
		if (by_barrier(s))
			ends[group] = atomic_load(&stop);
		by_barrier(s);
		if (ends[group])
			return NULL;
		if (!me)
			atomic_fetch_add(&rounds[group], 1);
	}
}

static void *sleep_on(void *end)
{
	expect(!sem_wait(end));
	return NULL;
}

static void on_signal(int signal)
{
	volatile uint8_t local[256];

	for (size_t i = 0; i < sizeof(local); i++)
		local[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(local); i++)
		expect(local[i] == (uint8_t)i);
	atomic_fetch_add(&signals, 1);
}

static void *take_signals(void *arg)
{
	const stack_t stack = {.ss_sp = memory->stack, .ss_size = SIGNAL_STACK};
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	while (!atomic_load(&stop)) {
		raise(SIGUSR1);
		usleep(100);
	}
	return NULL;
}

static int race(void *migrations)
{
	pthread_t thread[7];
	unsigned int count = 0;

	alarm(SECONDS);
	memory = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	make(&memory->group[0], PTHREAD_PROCESS_PRIVATE);
	make(&memory->group[1], PTHREAD_PROCESS_SHARED);
	for (size_t i = 0; i < 4; i++)
		pthread_create(&thread[count++], NULL, take_turns, (void *)i);
	pthread_create(&thread[count++], NULL, sleep_on, &memory->group[0].end);
	pthread_create(&thread[count++], NULL, sleep_on, &memory->group[1].end);
	pthread_create(&thread[count++], NULL, take_signals, NULL);
	way_migrate(memory, sizeof(*memory), *(unsigned long *)migrations);
	atomic_store(&stop, true);
	sem_post(&memory->group[0].end);
	sem_post(&memory->group[1].end);
	while (count)
		pthread_join(thread[--count], NULL);
	printf("%lu and %lu rounds, %lu signals, %lu wrong\n", rounds[0], rounds[1], signals,
	       wrong);
	return wrong || rounds[0] < LEAST_ROUNDS || rounds[1] < LEAST_ROUNDS || !signals;
}

int main(int argc, char **argv)
{
	unsigned long migrations = argc > 1 ? strtoul(argv[1], NULL, 0) : 20000;
	int failures = 0;

	for (size_t i = 0; i < nways; i++)
		failures += !way_run(&ways[i], race, &migrations);
	return failures != 0;
}
