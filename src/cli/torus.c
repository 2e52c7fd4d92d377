/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/torus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "card/torus/torus.h"
#include "cli/cli.h"
#include "process/node.h"

const char weft_torus_usage[] =
	"Usage: weft torus up SIZE [OPTION…]\n"
	"       weft torus down | status [--json]\n"
	"       weft torus run [--node X,Y,Z | --each] [--] PROGRAM [ARGUMENT…]\n"
	"A torus of software cards on this host: each node a process and a pool of its own.\n\n"
	"  SIZE           nodes of each dimension: 8, 4x4, 2x2x2; 64 nodes at most\n"
	"  --name NAME    of the torus (default: torus)\n"
	"  --mesh DIMS    dimensions that are lines: letters of xyz\n"
	"  --order DIMS   in which order a packet goes (default: xyz)\n"
	"  --ties WAY     half way round a ring: plus, minus or parity (default: plus)\n"
	"  --vcs N        virtual channels: 1 or 2 (default: 2)\n"
	"  --lanes N      of 64 bits a word of a cable has: 1, 2 or 4 (default: 2)\n"
	"  --fifo WORDS   data words that a virtual channel's FIFO holds (default: 512)\n"
	"  --engines N    of DMA: 1 to 8 (default: 2)\n"
	"  --json         of status: one JSON object: torus, nodes, cables\n"
	"  --node X,Y,Z   where the program runs (default: 0,0,0)\n"
	"  --each         it runs on each node; ends with the status of the first that failed\n\n"
	"0; 1 it cannot be done; 2 wrong usage. run: PROGRAM's, and 125, 126, 127 as weft run.\n";

/* ---- Words ---- */

bool weft_torus_parse_node(const char *text, uint8_t at[3])
{
	unsigned int value[3];
	int end = -1;

	if (sscanf(text, "%3u,%3u,%3u%n", &value[0], &value[1], &value[2], &end) != 3 || text[end])
		return false;
	for (unsigned int d = 0; d < 3; d++) {
		if (value[d] > UINT8_MAX)
			return false;
		at[d] = (uint8_t)value[d];
	}
	return true;
}

static bool parse_size(const char *text, uint32_t size[3])
{
	for (unsigned int d = 0; d < 3; d++)
		size[d] = 1;
	for (unsigned int d = 0; d < 3; d++) {
		char *end;
		unsigned long value = strtoul(text, &end, 10);

		if (*text < '0' || *text > '9' || !value || value > UINT8_MAX)
			return false;
		size[d] = (uint32_t)value;
		if (!*end)
			return true;
		if (*end != 'x')
			return false;
		text = end + 1;
	}
	return false;
}

static bool parse_mesh(const char *text, uint32_t line[3])
{
	for (; *text; text++) {
		if (*text < 'x' || *text > 'z')
			return false;
		line[*text - 'x'] = 1;
	}
	return true;
}

static bool parse_order(const char *text, uint32_t order[3])
{
	unsigned int seen = 0;

	for (unsigned int d = 0; d < 3; d++) {
		if (text[d] < 'x' || text[d] > 'z')
			return false;
		order[d] = (uint32_t)(text[d] - 'x');
		seen |= 1u << order[d];
	}
	return !text[3] && seen == 7;
}

static bool parse_ties(const char *text, uint32_t *tie)
{
	static const char *const names[WEFT_APE_TIES] = {"plus", "minus", "parity"};

	for (*tie = 0; *tie < WEFT_APE_TIES; ++*tie)
		if (!strcmp(text, names[*tie]))
			return true;
	return false;
}

static bool parse_count(const char *text, uint32_t *number)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*number = (uint32_t)value;
	return *text >= '0' && *text <= '9' && !*end && value <= UINT16_MAX;
}

/* An option with a value; false: the value is none. */
static bool parse_option(struct weft_torus_options *o, const char *word, const char *value,
			 bool *known)
{
	struct weft_torus_shape *s = &o->shape;

	*known = true;
	if (!strcmp(word, "--name"))
		o->name = value;
	else if (!strcmp(word, "--node"))
		o->node = value;
	else if (!strcmp(word, "--mesh"))
		return parse_mesh(value, s->line);
	else if (!strcmp(word, "--order"))
		return parse_order(value, s->order);
	else if (!strcmp(word, "--ties"))
		return parse_ties(value, &s->tie);
	else if (!strcmp(word, "--vcs"))
		return parse_count(value, &s->channels) && s->channels >= 1 && s->channels <= 2;
	else if (!strcmp(word, "--lanes"))
		return parse_count(value, &s->quads);
	else if (!strcmp(word, "--fifo"))
		return parse_count(value, &s->data_depth);
	else if (!strcmp(word, "--engines"))
		return parse_count(value, &s->engines);
	else
		*known = false;
	return true;
}

static int parse_options(struct weft_torus_options *o, int argc, char **argv, int *at)
{
	int i;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		bool known;

		if (!strcmp(argv[i], "--")) {
			i++;
			break;
		}
		if (!strcmp(argv[i], "--json")) {
			o->json = true;
			continue;
		}
		if (!strcmp(argv[i], "--each")) {
			o->each = true;
			continue;
		}
		if (!parse_option(o, argv[i], i + 1 < argc ? argv[i + 1] : "", &known) ||
		    (known && i + 1 == argc))
			return weft_main_usage_error("torus", "what stands behind '%s' is none",
						     argv[i]);
		if (!known)
			return weft_main_usage_error("torus", "unknown option '%s'", argv[i]);
		i++;
	}
	*at = i;
	if (weft_torus_home(o->name, o->home))
		return weft_main_usage_error(
			"torus", "a name is 1 to 32 letters, digits, - and _: '%s'", o->name);
	return 0;
}

struct weft_ape_lattice weft_torus_lattice(const struct weft_torus_shape *shape)
{
	struct weft_ape_card_config config;
	const uint8_t at[3] = {0};

	weft_torus_config(shape, at, &config);
	return config.node.lattice;
}

/* ---- The commands ---- */

static int parse_up(struct weft_torus_options *o, int argc, char **argv)
{
	struct weft_ape_card_config config;
	const uint8_t at[3] = {0};
	int i = 0, err = argc < 2 ? weft_main_usage_error("torus", "up needs a size, as 2x2x2") : 0;

	if (err)
		return err;
	if (!parse_size(argv[1], o->shape.size))
		return weft_main_usage_error("torus", "no size: '%s' (8, 4x4, 2x2x2)", argv[1]);
	err = parse_options(o, argc - 1, argv + 1, &i);
	if (err)
		return err;
	if (i + 1 < argc)
		return weft_main_usage_error("torus", "what is '%s'?", argv[i + 1]);
	if (o->shape.size[0] * o->shape.size[1] * o->shape.size[2] > WEFT_TORUS_NODES)
		return weft_main_usage_error("torus", "%s has more than %u nodes", argv[1],
					     WEFT_TORUS_NODES);
	if (!weft_torus_config(&o->shape, at, &config))
		return weft_main_usage_error("torus", "no lattice can be so");
	return weft_torus_up(o);
}

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

	if (weft_torus_node(o->home, at, NULL, node) || !weft_torus_card_pid(node)) {
		fprintf(stderr, "weft torus: node %u,%u,%u of '%s' has no card: it has died\n",
			at[0], at[1], at[2], o->name);
		return 125;
	}
	return become(node, program);
}

static int run_each(const struct weft_torus_options *o, const struct weft_ape_lattice *l,
		    char **program)
{
	unsigned int nodes = o->shape.size[0] * o->shape.size[1] * o->shape.size[2];
	int status, failed = 0;

	for (unsigned int i = 0; i < nodes; i++) {
		struct weft_ape_coord at = weft_ape_lattice_coord(l, i);
		pid_t pid = fork();

		if (!pid)
			_exit(run_at(o, at.at, program));
		if (pid < 0) {
			fprintf(stderr, "weft torus: cannot fork: %m\n");
			failed = 125;
			break;
		}
	}
	while (wait(&status) > 0) {
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

		failed = failed ? failed : code;
	}
	return failed;
}

static int parse_run(struct weft_torus_options *o, int argc, char **argv)
{
	struct weft_ape_coord at = {{0}};
	struct weft_ape_lattice l;
	int i = 0, err = parse_options(o, argc, argv, &i);

	if (err)
		return err;
	if (i >= argc)
		return weft_main_usage_error("torus", "no PROGRAM to run");
	if (weft_torus_load(o->home, &o->shape)) {
		fprintf(stderr, "weft torus: there is no torus '%s'\n", o->name);
		return 125;
	}
	l = weft_torus_lattice(&o->shape);
	if (o->node && (!weft_torus_parse_node(o->node, at.at) || !weft_ape_lattice_has(&l, at)))
		return weft_main_usage_error("torus", "'%s' has no node '%s'", o->name, o->node);
	return o->each ? run_each(o, &l, argv + i) : run_at(o, at.at, argv + i);
}

int weft_torus_main(int argc, char **argv)
{
	struct weft_torus_options o = {
		.name = WEFT_TORUS_NAME,
		.shape = {.order = {0, 1, 2},
			  .channels = 2,
			  .quads = 2,
			  .header_depth = 128,
			  .data_depth = 512,
			  .engines = 2,
			  .locals = 1},
	};
	int i = 0, err;

	if (argc < 2)
		return weft_main_usage_error("torus", "up, down, status or run?");
	if (!strcmp(argv[1], "up"))
		return parse_up(&o, argc - 1, argv + 1);
	if (!strcmp(argv[1], "run"))
		return parse_run(&o, argc - 1, argv + 1);
	if (strcmp(argv[1], "down") && strcmp(argv[1], "status"))
		return weft_main_usage_error("torus", "there is no '%s'", argv[1]);
	err = parse_options(&o, argc - 1, argv + 1, &i);
	if (err)
		return err;
	if (i + 1 < argc)
		return weft_main_usage_error("torus", "what is '%s'?", argv[i + 1]);
	return !strcmp(argv[1], "down") ? weft_torus_down(&o) : weft_torus_status(&o);
}
