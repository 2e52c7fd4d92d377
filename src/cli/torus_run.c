/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Programs on the nodes of a torus: one, one on each, or a job of MPI, rank by rank. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/torus.h"
#include "process/node.h"

static int become(const char *node, char **program)
{
	char self[PATH_MAX], pool[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *words[6] = {"weft", "run", "--pool", pool, "--"};
	unsigned int count = 0;
	char **all;

	while (program[count])
		count++;
	all = calloc(5 + count + 1, sizeof(*all));
	if (length < 0 || !all || snprintf(pool, sizeof(pool), "%s/pool", node) >= PATH_MAX ||
	    setenv(WEFT_TORUS_NODE_ENV, node, 1)) {
		free(all);
		return 125;
	}
	self[length] = '\0';
	memcpy(all, words, 5 * sizeof(*all));
	memcpy(all + 5, program, count * sizeof(*all));
	execv(self, all);
	fprintf(stderr, "weft torus: cannot run %s: %m\n", self);
	free(all);
	return 125;
}

static int run_at(const struct weft_torus_options *o, const uint8_t at[3], char **program)
{
	char node[PATH_MAX];

	uint32_t card = 0;
	int err;

	if (!weft_torus_node(o->home, at, NULL, node))
		card = weft_torus_card_pid(node);
	if (!card) {
		fprintf(stderr, "weft torus: node %u,%u,%u of '%s' has no card: it has died\n",
			at[0], at[1], at[2], o->name);
		return 125;
	}
	err = o->shape.netns ? weft_torus_netns_enter(card) : 0;
	if (err) {
		fprintf(stderr, "weft torus: cannot enter the network of node %u,%u,%u: %s\n",
			at[0], at[1], at[2], strerror(-err));
		return 125;
	}
	return become(node, program);
}

/* ---- On each node ---- */

#define GRACE_MS 2000 /* from SIGTERM to SIGKILL */

/* A program on each node of this part: its process, 0 where there is none or no more. */
struct team {
	unsigned int nodes;
	pid_t *pid;
	int status; /* of the first that failed */
};

static int start_each(struct team *t, const struct weft_torus_options *o,
		      const struct weft_ape_lattice *l, char **program)
{
	for (unsigned int i = 0; i < t->nodes; i++) {
		struct weft_ape_coord at = weft_ape_lattice_coord(l, i);

		if (!weft_torus_is_here(&o->shape, i))
			continue;
		t->pid[i] = fork();
		if (!t->pid[i])
			_exit(run_at(o, at.at, program));
		if (t->pid[i] < 0) {
			t->pid[i] = 0;
			fprintf(stderr, "weft torus: cannot fork: %m\n");
			return 125;
		}
	}
	return 0;
}

static void signal_team(const struct team *t, int signal)
{
	for (unsigned int i = 0; i < t->nodes; i++)
		if (t->pid[i])
			kill(t->pid[i], signal);
}

/* Those that still run wait for it, and would for ever. */
static void end_others(const struct team *t, const struct weft_ape_lattice *l, unsigned int node,
		       int status)
{
	struct weft_ape_coord at = weft_ape_lattice_coord(l, node);

	fprintf(stderr, "weft torus: node %u,%u,%u ended with %s %d: the others are ended\n",
		at.at[0], at.at[1], at.at[2], WIFEXITED(status) ? "status" : "signal",
		WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	signal_team(t, SIGTERM);
}

/* The next that has ended; -1: none is left. Those that are to end are killed when none of them does for a while. */
static pid_t wait_for_one(const struct team *t, int *status)
{
	for (int ms = 0; t->status && ms < GRACE_MS; ms++) {
		pid_t pid = waitpid(-1, status, WNOHANG);

		if (pid)
			return pid;
		usleep(1000);
	}
	if (t->status)
		signal_team(t, SIGKILL);
	return wait(status);
}

static unsigned int take_out(struct team *t, pid_t pid)
{
	unsigned int node = 0;

	while (t->pid[node] != pid)
		node++;
	t->pid[node] = 0;
	return node;
}

static int run_each(const struct weft_torus_options *o, const struct weft_ape_lattice *l,
		    char **program)
{
	unsigned int nodes = o->shape.size[0] * o->shape.size[1] * o->shape.size[2];
	struct team t = {.nodes = nodes, .pid = calloc(nodes, sizeof(*t.pid))};
	int status;
	pid_t pid;

	if (!t.pid)
		return 125;
	t.status = start_each(&t, o, l, program);
	if (t.status)
		signal_team(&t, SIGTERM);
	while ((pid = wait_for_one(&t, &status)) > 0) {
		unsigned int node = take_out(&t, pid);

		if (t.status || !status)
			continue;
		t.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		end_others(&t, l, node, status);
	}
	free(t.pid);
	return t.status;
}

/* ---- MPI ---- */

/* The number of a process of a job, as its launcher says it: Open MPI's, PMIx's, PMI's, Slurm's. */
static bool rank_here(uint64_t *rank)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
					    "SLURM_PROCID"};

	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *text = getenv(names[i]);
		char *end;

		if (!text)
			continue;
		*rank = strtoull(text, &end, 10);
		if (*text >= '0' && *text <= '9' && !*end)
			return true;
	}
	return false;
}

/* The node of a rank: the dimension that the map names first runs fastest. */
static struct weft_ape_coord node_of_rank(const struct weft_torus_options *o, uint64_t rank)
{
	struct weft_ape_coord at = {{0}};

	for (unsigned int d = 0; d < WEFT_APE_DIMENSIONS; d++) {
		uint32_t size = o->shape.size[o->map[d]];

		at.at[o->map[d]] = (uint8_t)(rank % size);
		rank /= size;
	}
	return at;
}

unsigned int weft_torus_rank(const struct weft_torus_options *o, struct weft_ape_coord at)
{
	unsigned int rank = 0;

	for (unsigned int d = WEFT_APE_DIMENSIONS; d--;)
		rank = rank * o->shape.size[o->map[d]] + at.at[o->map[d]];
	return rank;
}

static int run_rank(const struct weft_torus_options *o, char **program)
{
	uint64_t rank;

	if (rank_here(&rank))
		return run_at(o, node_of_rank(o, rank).at, program);
	fputs("weft torus: no rank: neither OMPI_COMM_WORLD_RANK nor PMIX_RANK, PMI_RANK or "
	      "SLURM_PROCID is a number\n",
	      stderr);
	return 125;
}

static bool is_launcher(const char *program)
{
	const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;

	return !strcmp(name, "mpirun") || !strcmp(name, "mpiexec") || !strcmp(name, "orterun");
}

/*
 * Open MPI starts each rank by its fork agent, which is `weft torus run --ranks`. What the user has not said otherwise
 * keeps ranks from the host's shared memory, and lets there be more of them than cores.
 */
static int launch(const struct weft_torus_options *o, char **program)
{
	char self[PATH_MAX], agent[PATH_MAX + 128], map[4] = "";
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int err;

	if (length < 0)
		return 125;
	self[length] = '\0';
	if (strchr(self, ' ')) {
		fprintf(stderr, "weft torus: %s: mpirun takes no path with a space in it\n", self);
		return 125;
	}
	for (unsigned int d = 0; d < WEFT_APE_DIMENSIONS; d++)
		map[d] = (char)('x' + o->map[d]);
	snprintf(agent, sizeof(agent), "%s torus run --ranks --name %s --map %s --", self, o->name,
		 map);
	if (setenv("OMPI_MCA_orte_fork_agent", agent, 1) || setenv("UCX_TLS", "rc_v,self", 0) ||
	    setenv("OMPI_MCA_pml", "ucx", 0) || setenv("OMPI_MCA_osc", "ucx", 0) ||
	    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0))
		return 125;
	execvp(program[0], program);
	err = errno;
	fprintf(stderr, "weft torus: cannot run %s: %s\n", program[0], strerror(err));
	return err == ENOENT ? 127 : 126;
}

/* A program that goes to another folder, and what it starts there, finds the same torus. */
static int keep_home(const struct weft_torus_options *o)
{
	const char *base = getenv(WEFT_TORUS_HOME_ENV);
	char whole[PATH_MAX];

	if (!base || !*base || *base == '/')
		return 0;
	memcpy(whole, o->home, sizeof(whole));
	*strrchr(whole, '/') = '\0';
	return setenv(WEFT_TORUS_HOME_ENV, whole, 1);
}

int weft_torus_run(struct weft_torus_options *o, char **program)
{
	struct weft_ape_coord at = {{0}};
	struct weft_ape_lattice l;

	if (o->each + o->ranks + (o->node != NULL) > 1)
		return weft_main_usage_error("torus",
					     "--node, --each and --ranks exclude each other");
	if (!*program)
		return weft_main_usage_error("torus", "no PROGRAM to run");
	if (weft_torus_find(o, &l) || keep_home(o))
		return 125;
	if (o->node && (!weft_torus_parse_node(o->node, at.at) || !weft_ape_lattice_has(&l, at)))
		return weft_main_usage_error("torus", "'%s' has no node '%s'", o->name, o->node);
	if (o->ranks)
		return run_rank(o, program);
	if (o->each)
		return run_each(o, &l, program);
	if (!o->node && is_launcher(program[0]))
		return launch(o, program);
	return run_at(o, at.at, program);
}
