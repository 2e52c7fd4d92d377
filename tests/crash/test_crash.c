/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Kills processes at each step of each critical section, and at random moments, while others exchange
 * requests with them. The others must be told of the death in time, see no wrong byte and not hang, and the
 * pool must be empty after each round. The seed decides what each process wants to do; when it comes to that
 * depends on the machine. `test-crash KILLS [SEED [SECONDS]]`, or `test-crash ends [SEED]`. `test-crash hosts KILLS …`:
 * the processes are of two to four hosts, which are killed and stopped as wholes, too (hosts.c), and the steps all that those pass.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hosts.h"
#include "left.h"
#include "world.h"

/* of processes at a time for each two processors, each with a pool of its own; of several hosts more, as those wait for silence
 * now and then */
#define GROUPS	     3u
#define HOSTS_GROUPS 5u
#define TURNS	     16u
#define HANGS_NS     60000000000ull
/* the timeouts of the workers' queue pairs: (3 + 1) * 4.096 us << 12 */
#define TIMER_NS 68000000ull
#define LATE_NS	 (1000000000ull + TIMER_NS)
/* of a host of which no process is left others hear by that */
#define SILENCE_MS 600u
#define NAP_NS	   2000000
#define MINUTE_NS  60000000000ull
#define POLL_US	   50000
/* one survivor in so many may learn of a death late, as the machine may have other work */
#define LATE_MOST 10u
/* one in so many, where the last of a host has died: few are such */
#define LATE_MOST_OF_HOSTS 3u
/* in a round: a host that answers late, as when one of it has died in a copy, takes all connections between the two hosts */
#define DESERTED_MOST 4u

struct sums {
	_Atomic uint64_t rounds, kills, random, deaths_seen, late, worst_ns, deserted;
	_Atomic uint64_t killed[KINDS];
	_Atomic bool failed;
};

static const char *const kind_name[] = {[WORKER] = "in traffic",
					[SLEEPER] = "in traffic, one process stopped",
					[JOINER] = "joining, and recovering the dead",
					[FOUNDER] = "founding the pool"};
static struct steps_table *table;
static struct sums *sums;
static uint64_t goal, until_ns;
static uint32_t groups;
static bool of_hosts; /* pools have several hosts */

/* ---- Which process to kill, and where ---- */

static double rate(enum kind kind, uint32_t label)
{
	uint64_t lives = atomic_load(&table->lives[kind]);

	return lives ? (double)atomic_load(&table->passed[kind][label]) / (double)lives : 0;
}

/* Whether a process of this kind is to be killed at that step. Sleepers take long: they are used for steps
 * that hardly any other kind passes. */
static bool is_likely(enum kind kind, uint32_t label)
{
	double best = 0;

	if (kind == SLEEPER)
		return rate(SLEEPER, label) > 8 * rate(WORKER, label);
	for (enum kind k = 0; k < KINDS; k++)
		best = k != SLEEPER && rate(k, label) > best ? rate(k, label) : best;
	return best > 0 && rate(kind, label) * 2 >= best;
}

static uint64_t steps_in_a_life(enum kind kind)
{
	double steps = 0;

	for (uint32_t i = 0; i < steps_count(); i++)
		steps += rate(kind, i);
	return (uint64_t)steps;
}

/* The order for a process: to die at one of the labels that were hit least; if it does not come there, at any
 * label, after about as many steps as a life has. */
static struct order order(enum kind kind, uint64_t *seed)
{
	uint64_t usual = steps_in_a_life(kind);
	struct order order = {.signal = SIGKILL, .or_seldom = true};
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < steps_count(); i++) {
		uint64_t hits = atomic_load(&table->killed[i]) * 8 + draw(seed, 16);

		if (hits >= least || !is_likely(kind, i))
			continue;
		least = hits;
		order.label = i + 1;
		atomic_store(&order.left, 1 + (uint32_t)draw(seed, 1 + (uint64_t)rate(kind, i)));
	}
	if (order.label && usual)
		atomic_store(&order.patience, usual / 2 + (uint32_t)draw(seed, usual));
	return order;
}

/* One round in so many has a process that is stopped; such rounds take long. Once every step that processes pass without them was
 * hit often enough, they are what is missing. */
static uint64_t rounds_of_one_sleep(void)
{
	for (uint32_t i = 0; i < steps_count(); i++)
		if (atomic_load(&table->killed[i]) < STEPS_LEAST)
			for (enum kind k = 0; k < KINDS; k++)
				if (k != SLEEPER && rate(k, i) > 0 &&
				    rate(k, i) * 8 >= rate(SLEEPER, i))
					return 12;
	return 2;
}

static void plan_sleep(struct world *world, uint64_t *seed)
{
	static const char *const where[] = {"direct_busy", "place_body_copied", "direct_done"};
	struct process *sleeper = &world->process[0];

	sleeper->order = (struct order){.label = steps_find(where[draw(seed, 3)]) + 1,
					.left = 1 + (uint32_t)draw(seed, 30),
					.signal = SIGSTOP};
	sleeper->doom_ns = 0;
}

static void plan(struct world *world, uint64_t *seed)
{
	/* the first rounds have no kills, to learn which steps are passed */
	bool calm = atomic_load(&sums->rounds) < groups;
	enum kind kind = calm || of_hosts || draw(seed, rounds_of_one_sleep()) ? WORKER : SLEEPER;
	uint32_t victims;

	memset(world->process, 0, sizeof(world->process));
	world->processes =
		of_hosts ? hosts_seats(world, seed, calm) : 2 + (uint32_t)draw(seed, PROCESSES - 1);
	victims = 1 + (uint32_t)draw(seed, world->processes);
	if (of_hosts && victims < world->processes / 2)
		victims = world->processes - victims;
	world->hurried = draw(seed, 4);
	for (uint32_t i = 0; i < world->processes; i++) {
		struct process *process = &world->process[i];

		process->kind = kind;
		process->seed = draw(seed, UINT64_MAX);
		process->turns = of_hosts ? TURNS / 2 : TURNS;
		if (calm || (kind == WORKER && draw(seed, world->processes) >= victims))
			continue;
		if (kind == SLEEPER || draw(seed, 8))
			process->order = order(kind, seed);
		else
			process->doom_ns = now_ns() + 1000000 * draw(seed, 200);
		/* a process that is to die at a rare step gets a longer life */
		if (process->order.label && rate(kind, process->order.label - 1) < 0.5) {
			process->turns *= 4;
			atomic_store(&process->order.patience, 3 * process->order.patience);
		}
	}
	if (kind == SLEEPER)
		plan_sleep(world, seed);
	if (of_hosts)
		hosts_plan(world, seed, calm);
}

/* ---- Processes ---- */

static void fail(const struct world *world, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void fail(const struct world *world, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s: ", world->pool);
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	atomic_store(&sums->failed, true);
}

static void start(struct world *world, uint32_t i)
{
	pid_t pid;

	atomic_store(&world->process[i].stage, BORN);
	pid = fork();
	if (!pid)
		live(world, i);
	/* only the parent's copy is read; the child may have set it as well */
	world->process[i].pid = pid;
}

static struct process *process_of(struct world *world, pid_t pid)
{
	for (uint32_t i = 0; i <= PROCESSES; i++)
		if (world->process[i].pid == pid)
			return &world->process[i];
	return NULL;
}

/* Starts a process that recovers the dead, and may be killed while it does. */
static void start_joiner(struct world *world, uint32_t host, uint64_t *seed)
{
	struct process *process = &world->process[PROCESSES];

	if (process->pid > 0)
		return;
	memset(process, 0, sizeof(*process));
	process->kind = JOINER;
	process->host = host;
	process->seed = draw(seed, UINT64_MAX);
	if (draw(seed, 2))
		process->order = order(JOINER, seed);
	start(world, PROCESSES);
}

static void bury(struct world *world, struct process *process, int status, uint64_t *seed)
{
	pid_t pid = process->pid;

	process->pid = -1;
	atomic_store(&process->died_ns, now_ns());
	if (WIFSIGNALED(status) &&
	    WTERMSIG(status) == (process->way == WAY_ABORT ? SIGABRT : SIGKILL)) {
		atomic_fetch_add(&sums->kills, 1);
		atomic_fetch_add(&sums->random,
				 !process->order.obeyed || process->order.signal != SIGKILL);
		atomic_fetch_add(&sums->killed[process->kind], 1);
		if (world->hurried)
			start_joiner(world, process->host, seed);
	} else if (status) {
		fail(world, "process %d (%td): status %x: %s", pid, process - world->process,
		     status, process->failure);
	}
}

/* A process that was stopped goes on after a while, or is killed. Others wait for one of theirs for a second; a host is silent to
 * them after its own time, and some go on before that. */
static void on_stop(struct process *process, uint64_t *seed)
{
	uint64_t while_ns = 1000000 * (of_hosts ? SILENCE_MS / 2 + draw(seed, SILENCE_MS)
						: 1100 + draw(seed, 700));

	process->doom_ns = now_ns() + while_ns;
	process->order.signal = draw(seed, 2) ? SIGCONT : SIGKILL;
	process->order.label = 0;
}

/* A process that is reaped at once makes the kernel spin for its last thread, which may need this core. */
static pid_t reap_calmly(pid_t pid, int *status)
{
	siginfo_t info = {0};

	if (!waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOWAIT) &&
	    info.si_code != CLD_STOPPED)
		usleep(NAP_NS / 1000);
	return waitpid(pid, status, WUNTRACED);
}

static bool reap(struct world *world, uint64_t *seed)
{
	siginfo_t info = {0};
	struct process *process;
	int status;

	if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) || !info.si_pid)
		return false;
	process = process_of(world, reap_calmly(info.si_pid, &status));
	if (!process)
		return false;
	if (WIFSTOPPED(status))
		on_stop(process, seed);
	else
		bury(world, process, status, seed);
	return true;
}

static bool any_left(struct world *world)
{
	bool left = false;

	for (uint32_t i = 0; i <= PROCESSES; i++) {
		struct process *process = &world->process[i];

		if (process->pid <= 0)
			continue;
		left = true;
		if (!process->doom_ns || now_ns() < process->doom_ns)
			continue;
		kill(process->pid, process->order.signal ? process->order.signal : SIGKILL);
		process->doom_ns = 0;
	}
	return left;
}

static void kill_all(struct world *world)
{
	for (uint32_t i = 0; i <= PROCESSES; i++)
		if (world->process[i].pid > 0) {
			kill(world->process[i].pid, SIGKILL);
			waitpid(world->process[i].pid, NULL, 0);
			world->process[i].pid = -1;
		}
}

static void watch(struct world *world, uint64_t *seed)
{
	uint64_t limit = now_ns() + HANGS_NS;

	while (any_left(world) && !atomic_load(&sums->failed)) {
		if (reap(world, seed))
			continue;
		if (now_ns() > limit) {
			for (uint32_t i = 0; i <= PROCESSES; i++)
				if (world->process[i].pid > 0)
					fail(world, "process %d (%u) hangs in stage %u",
					     world->process[i].pid, i,
					     stage_of(&world->process[i]));
			pause();
		}
		usleep(NAP_NS / 1000);
	}
	kill_all(world);
}

/* ---- What is left of a round ---- */

/* A process joins alone, so that the last one that died is recovered, and leaves. */
static void clean_up(struct world *world, uint32_t host, enum kind kind, struct order order)
{
	struct process *process = &world->process[PROCESSES];
	int status;

	memset(process, 0, sizeof(*process));
	process->kind = kind;
	process->host = host;
	process->order = order;
	start(world, PROCESSES);
	if (reap_calmly(process->pid, &status) != process->pid)
		fail(world, "waitpid: %s", strerror(errno));
	bury(world, process, status, &process->seed);
	if (world->process[PROCESSES].pid > 0) {
		reap_calmly(world->process[PROCESSES].pid, &status);
		bury(world, &world->process[PROCESSES], status, &process->seed);
	}
}

static void check_empty(struct world *world)
{
	char what[256];

	if (of_hosts ? !hosts_clean_up(world, what, sizeof(what))
		     : left_in(world->pool, what, sizeof(what)))
		fail(world, "%s", what);
}

static void count(struct world *world)
{
	for (uint32_t i = 0; i < world->processes; i++) {
		uint64_t late = world->process[i].late_ns;

		atomic_fetch_add(&sums->deaths_seen, !!late);
		atomic_fetch_add(&sums->late,
				 late > LATE_NS + (of_hosts ? SILENCE_MS * 1000000ull : 0));
		atomic_fetch_add(&sums->deserted, world->process[i].deserted);
		if (late > atomic_load(&sums->worst_ns))
			atomic_store(&sums->worst_ns, late);
	}
}

/* ---- Rounds ---- */

static void play(struct world *world, uint64_t seed)
{
	for (uint32_t i = 0; i < world->processes; i++)
		start(world, i);
	watch(world, &seed);
	count(world);
	world->hurried = false;
	/* the process that recovers the last one may die, too */
	for (uint32_t i = (uint32_t)draw(&seed, of_hosts ? 6 : 3); i; i--)
		clean_up(world, hosts_draw(world, &seed), JOINER, order(JOINER, &seed));
	if (of_hosts && !draw(&seed, 4))
		hosts_delete_home(world, hosts_draw(world, &seed));
	clean_up(world, 0, JOINER, (struct order){0});
	check_empty(world);
	atomic_fetch_add(&sums->rounds, 1);
}

/* There is no pool; or there is one, and no host of it has ever come. */
static void begin_pool(struct world *world, uint64_t *seed)
{
	uint32_t hosts = 2 + (uint32_t)draw(seed, 3);
	bool atomics = draw(seed, 2);

	if (!of_hosts)
		unlink(world->pool);
	else if (!hosts_make(world, hosts, SILENCE_MS, atomics))
		fail(world, "the pool cannot be made");
}

static void run_round(struct world *world, uint64_t seed)
{
	uint64_t first = seed;

	if (!draw(&seed, of_hosts ? 2 : 8)) {
		begin_pool(world, &seed);
		world->hurried = false;
		clean_up(world, hosts_draw(world, &seed), FOUNDER, order(FOUNDER, &seed));
	}
	plan(world, &seed);
	play(world, seed);
	if (atomic_load(&sums->failed))
		fprintf(stderr, "in the round of seed %lu, %u processes\n", (unsigned long)first,
			world->processes);
}

static bool hit_enough(void)
{
	for (uint32_t i = 0; i < steps_count(); i++)
		if (atomic_load(&table->killed[i]) < STEPS_LEAST)
			return false;
	return atomic_load(&sums->kills) >= goal;
}

static void name_pool(struct world *world, pid_t pid, uint32_t group)
{
	snprintf(world->pool, sizeof(world->pool), "%s/dev/shm/weft-crash-%d-%u",
		 of_hosts ? "shm:" : "", pid, group);
	unlink(world->pool);
}

static uint32_t groups_here(void)
{
	long pairs = sysconf(_SC_NPROCESSORS_ONLN) / 2;

	return (of_hosts ? HOSTS_GROUPS : GROUPS) * (pairs > 1 ? (uint32_t)pairs : 1);
}

static void run_group(uint32_t group, uint64_t seed)
{
	struct world *world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (world == MAP_FAILED)
		abort();
	name_pool(world, getppid(), group);
	begin_pool(world, &seed);
	while (!atomic_load(&sums->failed) && !hit_enough() && now_ns() < until_ns)
		run_round(world, draw(&seed, UINT64_MAX));
	if (of_hosts)
		hosts_end(world);
	else
		unlink(world->pool);
	_exit(0);
}

static int report(void)
{
	uint32_t missed = 0;

	for (uint32_t i = 0; i < steps_count(); i++) {
		uint64_t hits = atomic_load(&table->killed[i]), passed = 0;

		for (enum kind k = 0; k < KINDS; k++)
			passed += atomic_load(&table->passed[k][i]);
		printf("%6lu of %9lu  %s%s\n", (unsigned long)hits, (unsigned long)passed,
		       steps_name(i), hits >= STEPS_LEAST ? "" : "  TOO FEW");
		missed += hits < STEPS_LEAST;
	}
	printf("%6lu at random moments\n", (unsigned long)atomic_load(&sums->random));
	for (enum kind k = 0; k < KINDS; k++)
		printf("%6lu %s\n", (unsigned long)atomic_load(&sums->killed[k]), kind_name[k]);
	printf("%lu kills in %lu rounds, %u labels, %u of them hit less than %u times\n",
	       (unsigned long)atomic_load(&sums->kills), (unsigned long)atomic_load(&sums->rounds),
	       steps_count(), missed, STEPS_LEAST);
	printf("%lu survivors learned of a death, the last after %.0f ms, %lu of them too late\n",
	       (unsigned long)atomic_load(&sums->deaths_seen),
	       (double)atomic_load(&sums->worst_ns) / 1e6, (unsigned long)atomic_load(&sums->late));
	if (of_hosts)
		printf("%lu connections were lost to peers of other hosts that lived\n",
		       (unsigned long)atomic_load(&sums->deserted));
	if (atomic_load(&sums->kills) < goal)
		printf("too slow: %lu kills were wanted\n", (unsigned long)goal);
	return missed || atomic_load(&sums->failed) || atomic_load(&sums->kills) < goal ||
	       atomic_load(&sums->late) * (of_hosts ? LATE_MOST_OF_HOSTS : LATE_MOST) >
		       atomic_load(&sums->deaths_seen) ||
	       atomic_load(&sums->deserted) > DESERTED_MOST * atomic_load(&sums->rounds);
}

/* Prints each minute how far the groups are, so that a run that is cut short has figures, too. */
static void await_groups(void)
{
	uint64_t begun_ns = now_ns(), told = 0;

	while (waitpid(-1, NULL, WNOHANG) >= 0) {
		uint64_t minutes = (now_ns() - begun_ns) / MINUTE_NS;

		if (minutes > told) {
			told = minutes;
			printf("%lu min: %lu kills in %lu rounds; %lu survivors heard, %lu of them "
			       "late\n",
			       (unsigned long)minutes, (unsigned long)atomic_load(&sums->kills),
			       (unsigned long)atomic_load(&sums->rounds),
			       (unsigned long)atomic_load(&sums->deaths_seen),
			       (unsigned long)atomic_load(&sums->late));
		}
		usleep(POLL_US);
	}
}

/* ---- Deaths in a given way ---- */

#define TIMES 3u

struct end {
	const char *name;
	enum way way;
	const char *label;
	bool all;
};

static const struct end ends[] = {
	{"asleep in ibv_get_cq_event", WAY_ASLEEP, NULL, false},
	{"in ibv_reg_mr", WAY_NONE, "region_migrated", false},
	{"in fork", WAY_NONE, "fork_copied", false},
	{"at exit", WAY_EXIT, NULL, false},
	{"by abort, with a core dump", WAY_ABORT, NULL, false},
	{"all, to the last member", WAY_NONE, "direct_busy", true},
};

/* Three processes exchange requests, and one of them, or each, dies in that way. Returns whether so many have
 * died. */
static bool run_end(struct world *world, const struct end *end, uint64_t *seed)
{
	uint64_t before = atomic_load(&sums->kills);

	memset(world->process, 0, sizeof(world->process));
	world->processes = 3;
	world->hurried = false;
	for (uint32_t i = 0; i < world->processes; i++) {
		struct process *process = &world->process[i];

		process->seed = draw(seed, UINT64_MAX);
		process->turns = TURNS;
		if (i != 1 && !end->all)
			continue;
		process->way = end->way;
		if (end->way == WAY_ASLEEP)
			process->doom_ns = now_ns() + 300000000;
		if (end->label)
			process->order = (struct order){.label = steps_find(end->label) + 1,
							.left = 1 + (uint32_t)draw(seed, 3),
							.signal = SIGKILL};
	}
	play(world, draw(seed, UINT64_MAX));
	return atomic_load(&sums->kills) - before == (end->all ? world->processes : 1);
}

/* A process may live without coming to that step: the round is played again then. */
static int run_ends(uint64_t seed)
{
	struct world *world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char folder[] = "/tmp/weft-crash-XXXXXX", remove[64];

	/* the folder for core dumps */
	if (world == MAP_FAILED || !mkdtemp(folder) || chdir(folder))
		abort();
	name_pool(world, getpid(), 0);
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		uint32_t died = 0;

		if (ends[i].label && steps_find(ends[i].label) == STEPS_MOST)
			fail(world, "there is no step %s", ends[i].label);
		for (uint32_t k = 0; k < 20 * TIMES && died < TIMES; k++)
			died += run_end(world, &ends[i], &seed);
		if (died < TIMES)
			fail(world, "only %u of %u died %s", died, TIMES, ends[i].name);
		printf("%sok %zu - %s\n", atomic_load(&sums->failed) ? "not " : "", i + 1,
		       ends[i].name);
	}
	unlink(world->pool);
	snprintf(remove, sizeof(remove), "rm -r %s", folder);
	return system(remove) || atomic_load(&sums->failed);
}

int main(int argc, char **argv)
{
	uint64_t seed;

	of_hosts = argc > 1 && !strcmp(argv[1], "hosts");
	argc -= of_hosts;
	argv += of_hosts;
	goal = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000;
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : now_ns();
	until_ns =
		now_ns() + (argc > 3 ? strtoull(argv[3], NULL, 0) : 500 + goal / 10) * 1000000000;
	/* with a buffer the forked processes would print its contents again */
	setvbuf(stdout, NULL, _IONBF, 0);
	printf("seed %lu\n", (unsigned long)seed);
	table = steps_begin(of_hosts ? steps_is_of_hosts : steps_is_everywhere);
	sums = mmap(NULL, sizeof(*sums), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sums == MAP_FAILED)
		abort();
	if (argc > 1 && !strcmp(argv[1], "ends"))
		return run_ends(seed);
	groups = groups_here();
	for (uint32_t i = 0; i < groups; i++) {
		uint64_t of_group = draw(&seed, UINT64_MAX);

		if (!fork())
			run_group(i, of_group);
	}
	await_groups();
	return report();
}
