/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Random sequences of verbs by two to four processes, against the model. Sequence n of a run has the seed S +
 * n, so that `--seed X --sequences 1` plays any of them again. The same processes play a number of sequences,
 * so that each meets what those before it have left behind. With --jobs several such fleets play at once,
 * each with its share of the seeds; --seconds bounds the time.
 */
#include <getopt.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"
#include "shrink.h"

#define LEAST_STEPS 20
#define SOME_STEPS  70
#define ENOUGH	    1000 /* sequences, after which every outcome must have been seen */
#define TOGETHER                                                                                   \
	(worker_memory.is_settled                                                                  \
		 ? 10                                                                              \
		 : 200) /* sequences that the same processes play: with the same memory */
#define SHORT 20	/* steps to which a sequence with a lie must shrink */

static struct sequence sequence;

static struct plan {
	uint64_t seed, sequences;
	uint64_t seconds; /* 0: no bound */
	unsigned int jobs;
	bool lie, verbose;
	const char *card;
	atomic_bool *over; /* one of the jobs has failed */
	cpu_set_t cores;   /* those that this process may use */
} plan = {.sequences = 1000, .jobs = 1};

static void print_sequence(const struct sequence *s)
{
	for (int i = 0; i < s->n; i++) {
		fprintf(stderr, "  %2d  ", i);
		step_print(stderr, &s->step[i]);
	}
}

/* Prints the failure, and the shrunk sequence. Returns whether it could be shrunk. */
static bool report(struct fleet *f, char *why, size_t why_bytes, int at)
{
	uint64_t before = f->played;
	bool again;

	fprintf(stderr, "seed %llu: %d processes%s, step %d of %d: %s\n",
		(unsigned long long)sequence.seed, sequence.processes,
		sequence.asleep ? ", asleep" : "", at, sequence.n, why);
	fleet_renew(f);
	if (at < sequence.n)
		sequence.n = at + 1;
	again = shrink_sequence(f, &sequence, why, why_bytes);
	if (again)
		fprintf(stderr, "shrunk to %d steps: %s\n", sequence.n, why);
	else
		fprintf(stderr, "it did not happen again, without the %llu sequences before it\n",
			(unsigned long long)before);
	print_sequence(&sequence);
	return again;
}

static bool play(struct fleet *f, uint64_t seed, bool *shrunk)
{
	struct generator g = {.random = seed};
	char why[512];
	int steps, at;

	sequence.seed = seed;
	sequence.processes = 2 + (int)below(&g, PROCESSES - 1);
	sequence.asleep = chance(&g, 25);
	steps = LEAST_STEPS + 6 * sequence.processes + (int)below(&g, SOME_STEPS);
	generate_begin(&g, random_word(&g), sequence.processes, worker_memory.slab_bytes);
	if (drive_play(f, &sequence, &g, steps, why, sizeof(why), &at))
		return true;
	*shrunk = report(f, why, sizeof(why), at);
	return false;
}

/* ---- Outcomes that were seen ---- */

/* Statuses that reliable connections can have, by sends and by receives. */
static bool must_happen(bool of_receive, int status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_LOC_PROT_ERR:
		return true;
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return !of_receive;
	default:
		return false;
	}
}

static bool print_statuses(const struct tally *t)
{
	bool all = true;

	for (int status = 0; status <= IBV_WC_GENERAL_ERR; status++) {
		if (!must_happen(false, status))
			continue;
		printf("  %-28s %10llu sends %10llu receives\n", ibv_wc_status_str(status),
		       (unsigned long long)t->status[0][status],
		       (unsigned long long)t->status[1][status]);
		for (int i = 0; i < 2; i++)
			all &= !must_happen(i, status) || t->status[i][status];
	}
	return all;
}

/* Prints how often each outcome was seen. Returns whether none is missing that must be seen. */
static bool print_tally(const struct tally *t)
{
	static const enum ibv_event_type events[] = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
						     IBV_EVENT_QP_ACCESS_ERR};
	bool all = print_statuses(t);

	for (int verb = 0; verb < VERBS; verb++) {
		printf("  %-28s %10llu done  %10llu refused\n", step_verb(verb),
		       (unsigned long long)t->accepted[verb], (unsigned long long)t->refused[verb]);
		all &= !!t->accepted[verb];
	}
	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
		printf("  %-50s %10llu\n", ibv_event_type_str(events[i]),
		       (unsigned long long)t->events[events[i]]);
		all &= !!t->events[events[i]];
	}
	printf("  %-50s %10llu\n", "completion events", (unsigned long long)t->cq_events);
	return all && t->cq_events;
}

static int usage(const char *program)
{
	fprintf(stderr,
		"usage: %s [--sequences N] [--seconds N] [--jobs N] [--seed S] [--verbose] "
		"[--lie] [--card PROGRAM]\n",
		program);
	return 2;
}

static uint64_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec;
}

/* Every other fleet plays on one core: it makes more sequences, and the owner of a lock is often not running.
 * On several cores more happens at the same time. */
static void choose_cores(unsigned int job, uint64_t fleet)
{
	unsigned int skip = job % (unsigned int)CPU_COUNT(&plan.cores);
	cpu_set_t one;
	int core = 0;

	while (!CPU_ISSET(core, &plan.cores) || skip--)
		core++;
	CPU_ZERO(&one);
	CPU_SET(core, &one);
	sched_setaffinity(0, sizeof(one), fleet % 2 ? &plan.cores : &one);
}

/* Called each minute, so that a run that is cut short has printed figures, too; and at the end. */
static void tell(const struct fleet *f, uint64_t n, uint64_t seconds)
{
	printf("%llu sequences, %llu steps in %llu s\n", (unsigned long long)n,
	       (unsigned long long)f->tally.steps, (unsigned long long)seconds);
	fflush(stdout);
}

static int run(struct fleet *f, unsigned int job, uint64_t seed, uint64_t sequences)
{
	uint64_t begun_s = now_s(), told_s = begun_s, n;
	bool all, shrunk;

	printf("seed %llu, %llu sequences\n", (unsigned long long)seed,
	       (unsigned long long)sequences);
	fflush(stdout);
	for (n = 0; n < sequences && !atomic_load(plan.over); n++) {
		if (plan.seconds && now_s() - begun_s >= plan.seconds)
			break;
		if (now_s() - told_s >= 60)
			tell(f, n, (told_s = now_s()) - begun_s);
		if (n % TOGETHER == 0) {
			choose_cores(job, n / TOGETHER);
			f->board->kinds = seed + n;
			fleet_renew(f);
		}
		if (!play(f, seed + n, &shrunk))
			return plan.lie && shrunk && sequence.n <= SHORT ? 0 : 1;
	}
	if (plan.lie)
		return 1;
	tell(f, n, now_s() - begun_s);
	all = print_tally(&f->tally);
	if (!all && n >= ENOUGH)
		fprintf(stderr, "an outcome that must be seen never was\n");
	return n >= ENOUGH && !all;
}

static int job(unsigned int i, uint64_t seed, uint64_t sequences)
{
	static struct fleet f;
	int status;

	if (!fleet_open(&f))
		return 1;
	f.board->lie = plan.lie;
	f.card_program = plan.card;
	f.verbose = plan.verbose;
	status = run(&f, i, seed, sequences);
	if (status)
		atomic_store(plan.over, true);
	fleet_close(&f);
	return status;
}

/* Each job is a process of its own, since a fleet's processes are its children. */
static int run_jobs(void)
{
	uint64_t share = (plan.sequences + plan.jobs - 1) / plan.jobs;
	int failed = 0, status;

	plan.over = mmap(NULL, sizeof(*plan.over), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (plan.over == MAP_FAILED)
		return 1;
	if (plan.jobs == 1)
		return job(0, plan.seed, plan.sequences);
	for (unsigned int i = 0; i < plan.jobs; i++) {
		pid_t pid = fork();

		if (!pid)
			exit(job(i, plan.seed + i * share, share));
		failed |= pid < 0;
	}
	while (wait(&status) > 0)
		failed |= status;
	return !!failed;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"sequences", required_argument, NULL, 'n'},
						{"seconds", required_argument, NULL, 't'},
						{"jobs", required_argument, NULL, 'j'},
						{"seed", required_argument, NULL, 's'},
						{"verbose", no_argument, NULL, 'v'},
						{"lie", no_argument, NULL, 'l'},
						{"card", required_argument, NULL, 'c'},
						{0}};
	int option;

	sched_getaffinity(0, sizeof(plan.cores), &plan.cores);
	plan.seed = (uint64_t)time(NULL) * 1000000u;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option) {
		case 'n':
			plan.sequences = strtoull(optarg, NULL, 0);
			break;
		case 't':
			plan.seconds = strtoull(optarg, NULL, 0);
			break;
		case 'j':
			plan.jobs = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 's':
			plan.seed = strtoull(optarg, NULL, 0);
			break;
		case 'v':
			plan.verbose = true;
			break;
		case 'l':
			plan.lie = true;
			break;
		case 'c':
			plan.card = optarg;
			break;
		default:
			return usage(argv[0]);
		}
	return plan.jobs ? run_jobs() : usage(argv[0]);
}
