/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Kills processes that use each other's memory of GPUs, on the stand-in: at each step of the plugin and of
 * the code that calls it, and at random moments. The other process is told by an error, sees no wrong byte,
 * does not hang, goes on by itself and leaves nothing behind, neither in the pool nor, as the stand-in lists
 * it, of the GPU's. `test-gpu-deaths PLUGIN KILLS [SEED]`.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "../left.h"
#include "life.h"

#define GROUPS	    2u
#define TURNS	    24u
#define RATE_MOST   20u
#define NAP_US	    500
#define ROUND_NS    120000000000ull
#define ROUNDS_MOST 4000u /* far more than are needed: the test ends by itself */
/* in at most one round of so many a process may get no core in time, as the machine may have other work */
#define STARVED_MOST 4u

struct sums {
	_Atomic uint64_t rounds, kills, random, heard, starved, worst_ns;
	_Atomic bool failed;
};

static struct steps_table *table;
static struct sums *sums;
static uint64_t goal;

/* Steps about GPUs' memory, and those that a helper passes which copies for other processes. */
static bool is_of_gpus(const char *name)
{
	static const char *const ours[] = {"device_", "reach_answering", "reach_applied", "late_"};

	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		if (!strncmp(name, ours[i], strlen(ours[i])))
			return true;
	return false;
}

/* ---- A round ---- */

static void wrong(const struct world *world, const char *subject, const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", world->pool, subject, what);
	atomic_store(&sums->failed, true);
}

/* How often a life passes that step, RATE_MOST at most: a process that waits for a dead one passes some of
 * them thousands of times. */
static uint32_t rate(uint32_t label)
{
	uint64_t lives = atomic_load(&table->lives[WORKER]);
	uint64_t rate = lives ? atomic_load(&table->passed[WORKER][label]) / lives : 0;

	return rate < RATE_MOST ? (uint32_t)rate : RATE_MOST;
}

/* The order for a process: to die at one of the labels that were hit least; if it does not come there, at any
 * label, towards the end of a long life. */
static struct order order(uint64_t *seed)
{
	struct order order = {.signal = SIGKILL, .or_seldom = true};
	uint64_t least = UINT64_MAX;
	uint32_t usual = 0;

	for (uint32_t i = 0; i < steps_count(); i++) {
		uint64_t hits = atomic_load(&table->killed[i]) * 8 + draw(seed, 16);

		usual += rate(i);
		if (hits >= least)
			continue;
		least = hits;
		order.label = i + 1;
		atomic_store(&order.left, 1 + (uint32_t)draw(seed, 1 + rate(i)));
	}
	atomic_store(&order.patience, 1 + 2 * usual + (uint32_t)draw(seed, 1 + usual));
	return order;
}

static void plan(struct world *world, uint64_t *seed, bool calm)
{
	uint32_t victim = (uint32_t)draw(seed, PROCESSES);
	bool both = !draw(seed, 8);

	memset(world->process, 0, sizeof(world->process));
	for (uint32_t i = 0; i < PROCESSES; i++) {
		struct process *process = &world->process[i];

		process->seed = draw(seed, UINT64_MAX);
		process->turns = TURNS;
		if (calm || (i != victim && !both))
			continue;
		if (draw(seed, 8))
			process->order = order(seed);
		else
			process->doom_ns = rig_now_ns() + 1000000 * draw(seed, 200);
	}
}

/* Starts a process of a round, whose stderr goes to `said`. */
static void start(struct world *world, uint32_t i, int said)
{
	pid_t pid = fork();

	if (!pid) {
		dup2(said, STDERR_FILENO);
		live(world, i);
	}
	world->process[i].pid = pid;
}

static void bury(struct world *world, struct process *process, int status)
{
	char how[320];

	process->pid = 0;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
		atomic_store(&process->dead, true);
		atomic_fetch_add(&sums->kills, 1);
		atomic_fetch_add(&sums->random, !process->order.obeyed);
	} else if (status) {
		snprintf(how, sizeof(how), "status %#x: %s", status, process->failure);
		wrong(world, "a process", how);
	}
	if (process->waited_ns > atomic_load(&sums->worst_ns))
		atomic_store(&sums->worst_ns, process->waited_ns);
	atomic_fetch_add(&sums->heard, process->heard);
	atomic_fetch_add(&sums->starved, process->starved);
}

/* Waits until both processes have ended. */
static void watch(struct world *world)
{
	uint64_t limit = rig_now_ns() + ROUND_NS;
	uint32_t left = PROCESSES;
	int status;

	while (left) {
		left = 0;
		for (uint32_t i = 0; i < PROCESSES; i++) {
			struct process *process = &world->process[i];

			if (!process->pid)
				continue;
			left++;
			if (waitpid(process->pid, &status, WNOHANG) == process->pid)
				bury(world, process, status);
			else if ((process->doom_ns && rig_now_ns() > process->doom_ns) ||
				 rig_now_ns() > limit || atomic_load(&sums->failed))
				kill(process->pid, SIGKILL);
		}
		if (left && rig_now_ns() > limit)
			wrong(world, "a process", "hangs");
		usleep(NAP_US);
	}
}

/* A process joins alone, so that the last one that died is recovered, and leaves. */
static void clean_up(struct world *world)
{
	pid_t pid = fork();
	struct rig rig;
	int status;

	if (!pid) {
		setenv("WEFT_POOL", world->pool, 1);
		rig_open(&rig);
		rig_close(&rig);
		exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		wrong(world, "the last one", "could not join");
}

/* In its stderr the stand-in names what a process has left behind; of one that was killed it names
 * nothing. */
static void check_said(struct world *world, int said)
{
	static char text[4096];
	ssize_t n = pread(said, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	if (strstr(text, "soft GPU: left behind") || atomic_load(&sums->failed))
		wrong(world, "what they said", text);
}

static void run_round(struct world *world, uint64_t seed)
{
	uint64_t first = seed;
	int said = memfd_create("said", 0);
	char what[256];

	plan(world, &seed, atomic_load(&sums->rounds) < GROUPS);
	for (uint32_t i = 0; i < PROCESSES; i++)
		start(world, i, said);
	watch(world);
	check_said(world, said);
	clean_up(world);
	if (left_in(world->pool, what, sizeof(what)))
		wrong(world, "the pool", what);
	atomic_fetch_add(&sums->rounds, 1);
	close(said);
	if (atomic_load(&sums->failed))
		fprintf(stderr, "in the round of seed %lu\n", (unsigned long)first);
}

/* ---- All rounds ---- */

static bool hit_enough(void)
{
	for (uint32_t i = 0; i < steps_count(); i++)
		if (atomic_load(&table->killed[i]) < STEPS_LEAST)
			return false;
	return atomic_load(&sums->kills) >= goal;
}

static _Noreturn void run_group(uint32_t group, uint64_t seed)
{
	struct world *world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (world == MAP_FAILED)
		abort();
	snprintf(world->pool, sizeof(world->pool), "/dev/shm/weft-crash-gpu-%d-%u", getppid(),
		 group);
	unlink(world->pool);
	while (!atomic_load(&sums->failed) && !hit_enough() &&
	       atomic_load(&sums->rounds) < ROUNDS_MOST)
		run_round(world, draw(&seed, UINT64_MAX));
	unlink(world->pool);
	_exit(0);
}

static int report(void)
{
	uint32_t missed = 0;

	for (uint32_t i = 0; i < steps_count(); i++) {
		uint64_t hits = atomic_load(&table->killed[i]);

		printf("%6lu of %9lu  %s%s\n", (unsigned long)hits,
		       (unsigned long)atomic_load(&table->passed[WORKER][i]), steps_name(i),
		       hits >= STEPS_LEAST ? "" : "  TOO FEW");
		missed += hits < STEPS_LEAST;
	}
	printf("%lu kills, %lu of them at random moments, in %lu rounds; %u labels, %u of them hit "
	       "less than %u times\n",
	       (unsigned long)atomic_load(&sums->kills), (unsigned long)atomic_load(&sums->random),
	       (unsigned long)atomic_load(&sums->rounds), steps_count(), missed, STEPS_LEAST);
	printf("%lu survivors learned of a death by an error, the last after %.0f ms; %lu got no "
	       "answer of a process that lived\n",
	       (unsigned long)atomic_load(&sums->heard), (double)atomic_load(&sums->worst_ns) / 1e6,
	       (unsigned long)atomic_load(&sums->starved));
	return missed || atomic_load(&sums->failed) || atomic_load(&sums->kills) < goal ||
	       atomic_load(&sums->starved) * STARVED_MOST > atomic_load(&sums->rounds);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : rig_now_ns();

	/* loaded for its steps; the processes load the same plugin later */
	if (argc < 3 || !dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) {
		fprintf(stderr, "test-gpu-deaths PLUGIN KILLS [SEED]: %s\n", dlerror());
		return 2;
	}
	goal = strtoull(argv[2], NULL, 0);
	/* with a buffer the forked processes would print its contents again */
	setvbuf(stdout, NULL, _IONBF, 0);
	printf("seed %lu\n", (unsigned long)seed);
	table = steps_begin(is_of_gpus);
	sums = mmap(NULL, sizeof(*sums), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sums == MAP_FAILED)
		abort();
	for (uint32_t i = 0; i < GROUPS; i++) {
		uint64_t of_group = draw(&seed, UINT64_MAX);

		if (!fork())
			run_group(i, of_group);
	}
	while (wait(NULL) > 0)
		;
	return report();
}
