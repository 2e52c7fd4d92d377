/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/torus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "card/torus/torus.h"
#include "cli/cli.h"

const char weft_torus_usage[] =
	"Usage: weft torus up SIZE [OPTION…]\n"
	"       weft torus down | status [--json] | map [--svg] [--map DIMS]\n"
	"       weft torus reg X,Y,Z [N[=V]]\n"
	"       weft torus words | cut | mend X,Y,Z CABLE\n"
	"       weft torus spoil X,Y,Z CABLE FLIPS LOSSES [DELAY]\n"
	"       weft torus run [--node X,Y,Z | --each | --ranks] [--] PROGRAM [ARGUMENT…]\n"
	"       weft torus run [--map DIMS] [--] mpirun [ARGUMENT…]\n"
	"A torus of software cards on this host: each node a process and a pool of its own.\n\n"
	"  SIZE           nodes of each dimension: 8, 4x4, 2x2x2; 64 nodes at most\n"
	"  --name NAME    of the torus (default: torus)\n"
	"  --mesh DIMS    dimensions that are lines: letters of xyz\n"
	"  --order DIMS   in which order a packet goes (default: xyz)\n"
	"  --ties WAY     half way round a ring: plus, minus or parity (default: plus)\n"
	"  --vcs N        virtual channels: 1 or 2 (default: 2)\n"
	"  --lanes N      a cable has: 1, 2 or 4 (default: 2); each 64 bits of its words, but for "
	"8b10b\n"
	"  --phy CODE     of the bits of lanes: 8b10b or 64b66b (default: none, words go as they "
	"are)\n"
	"  --link LINK    what carries them: ring, of shared memory, or udp (default: ring)\n"
	"  --part I/N     only the I-th of N parts (from 0), the others being elsewhere\n"
	"  --port PORT    the first of the UDP ports of this part (default: 4800)\n"
	"  --netns        each node in a network namespace of its own, with an ordinary network "
	"beside\n"
	"  --peer HOST:PORT  where the next of the other parts is: once for each\n"
	"  --fifo WORDS   data words that a virtual channel's FIFO holds (default: 512)\n"
	"  --engines N    of DMA: 1 to 8 (default: 2)\n"
	"  FLIPS LOSSES   of a million words: with a flipped bit, and lost\n"
	"  --json         of status: one JSON object: torus, nodes, cables\n"
	"  --svg          of map: as a picture\n"
	"  CABLE          of a node: x+, x-, y+, y-, z+ or z-\n"
	"  --node X,Y,Z   where the program runs (default: 0,0,0)\n"
	"  --each         it runs on each node; ends with the status of the first that failed\n"
	"  --ranks        it runs on the node of its rank in a job; for launchers of MPI\n"
	"  --map DIMS     which coordinate of rank after rank runs fastest (default: xyz)\n\n"
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

static bool parse_count(const char *text, uint32_t least, uint32_t most, uint32_t *number)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*number = (uint32_t)value;
	return *text >= '0' && *text <= '9' && !*end && value >= least && value <= most;
}

static const char *const links[] = {[WEFT_TORUS_RING] = "ring", [WEFT_TORUS_UDP] = "udp", NULL};
static const char *const codes[] = {[WEFT_TORUS_NO_PHY] = "none",
				    [WEFT_TORUS_8B10B] = "8b10b",
				    [WEFT_TORUS_64B66B] = "64b66b",
				    NULL};

static bool parse_word(const char *text, const char *const names[], uint32_t *which)
{
	for (*which = 0; names[*which]; ++*which)
		if (!strcmp(text, names[*which]))
			return true;
	return false;
}

static bool parse_part(const char *text, struct weft_torus_shape *s)
{
	int end = -1;

	return sscanf(text, "%1u/%1u%n", &s->part, &s->parts, &end) == 2 && !text[end] &&
	       s->parts && s->parts <= WEFT_TORUS_PARTS && s->part < s->parts;
}

/* ---- Options ---- */

/* Commands, as bits. */
enum {
	UP = 1,
	STATUS = 2,
	MAP = 4,
	RUN = 8,
	OTHERS = 16,
	ALL = 31,
};

/* With the words behind the options. */
struct command {
	const char *name;
	unsigned int bit;
	int least, most; /* words */
	int (*run)(struct weft_torus_options *o, char **words);
};

#define TAKE(name, expression)                                                                     \
	static bool take_##name(struct weft_torus_options *o, const char *value)                   \
	{                                                                                          \
		return expression;                                                                 \
	}
TAKE(name, (o->name = value))
TAKE(node, (o->node = value))
TAKE(mesh, parse_mesh(value, o->shape.line))
TAKE(order, parse_order(value, o->shape.order))
TAKE(map, parse_order(value, o->map))
TAKE(ties, parse_ties(value, &o->shape.tie))
TAKE(vcs, parse_count(value, 1, 2, &o->shape.channels))
TAKE(lanes, parse_count(value, 1, 4, &o->shape.lanes) && o->shape.lanes != 3)
TAKE(link, parse_word(value, links, &o->shape.link))
TAKE(phy, parse_word(value, codes, &o->shape.phy))
TAKE(part, parse_part(value, &o->shape))
TAKE(port, parse_count(value, 1, UINT16_MAX, &o->port))
TAKE(peer, weft_torus_add_peer(o, value))
TAKE(fifo, parse_count(value, 1, WEFT_APE_DEPTH_MAX, &o->shape.data_depth))
TAKE(engines, parse_count(value, 1, WEFT_APE_ENGINES, &o->shape.engines))
TAKE(json, (o->json = true))
TAKE(netns, (o->shape.netns = true))
TAKE(each, (o->each = true))
TAKE(ranks, (o->ranks = true))
TAKE(svg, (o->svg = true))

/* values: which there are; NULL: it takes none. */
static const struct option_of {
	const char *name;
	unsigned int commands;
	const char *values;
	bool (*take)(struct weft_torus_options *o, const char *value);
} options[] = {
	{"--name", ALL, "1 to 32 letters, digits, - and _", take_name},
	{"--node", RUN, "X,Y,Z", take_node},
	{"--mesh", UP, "letters of x, y and z", take_mesh},
	{"--order", UP, "x, y and z in some order", take_order},
	{"--map", MAP | RUN, "x, y and z in some order", take_map},
	{"--ties", UP, "plus, minus or parity", take_ties},
	{"--vcs", UP, "1 or 2", take_vcs},
	{"--lanes", UP, "1, 2 or 4", take_lanes},
	{"--link", UP, "ring or udp", take_link},
	{"--phy", UP, "none, 8b10b or 64b66b", take_phy},
	{"--part", UP, "I/N: from 0/1 to 7/8", take_part},
	{"--port", UP, "1 to 65535", take_port},
	{"--peer", UP, "HOST:PORT, for each other part once", take_peer},
	{"--fifo", UP, "1 to 61440 words", take_fifo},
	{"--engines", UP, "1 to 8", take_engines},
	{"--json", STATUS, NULL, take_json},
	{"--netns", UP, NULL, take_netns},
	{"--each", RUN, NULL, take_each},
	{"--ranks", RUN, NULL, take_ranks},
	{"--svg", MAP, NULL, take_svg},
	{NULL, 0, NULL, NULL},
};

static int find_home(struct weft_torus_options *o)
{
	int err = weft_torus_home(o->name, o->home);

	if (err == -EINVAL)
		return weft_main_usage_error(
			"torus", "a name is 1 to 32 letters, digits, - and _: '%s'", o->name);
	if (err)
		return weft_main_usage_error("torus", "%s is no folder for a torus: %s",
					     WEFT_TORUS_HOME_ENV, strerror(-err));
	return 0;
}

/* Takes the option at *i, and its value. */
static int parse_option(struct weft_torus_options *o, const struct command *command, int argc,
			char **argv, int *i)
{
	const char *word = argv[*i];
	const struct option_of *option = options;

	while (option->name && strcmp(option->name, word))
		option++;
	if (!option->name)
		return weft_main_usage_error("torus", "unknown option '%s'", word);
	if (!(option->commands & command->bit))
		return weft_main_usage_error("torus", "%s takes no %s", command->name, word);
	if (!option->values) {
		option->take(o, NULL);
		return 0;
	}
	if (++*i == argc)
		return weft_main_usage_error("torus", "%s needs %s", word, option->values);
	if (!option->take(o, argv[*i]))
		return weft_main_usage_error("torus", "%s is %s, not '%s'", word, option->values,
					     argv[*i]);
	return 0;
}

/* argv[0] is the command's name. *at: the first word behind all options. */
static int parse_options(struct weft_torus_options *o, const struct command *command, int argc,
			 char **argv, int *at)
{
	int i, err = 0;

	for (i = 1; i < argc && argv[i][0] == '-' && !err; i++) {
		if (!strcmp(argv[i], "--")) {
			i++;
			break;
		}
		err = parse_option(o, command, argc, argv, &i);
	}
	*at = i;
	return err ? err : find_home(o);
}

struct weft_ape_lattice weft_torus_lattice(const struct weft_torus_shape *shape)
{
	struct weft_ape_ni_config config;
	const uint8_t at[3] = {0};

	weft_torus_config(shape, at, &config);
	return config.node.lattice;
}

int weft_torus_find(struct weft_torus_options *o, struct weft_ape_lattice *l)
{
	int err = weft_torus_load(o->home, &o->shape);
	const uint32_t *size = o->shape.size;
	struct weft_ape_ni_config config;
	const uint8_t at[3] = {0};

	if (err == -ENOENT && access(o->home, F_OK)) {
		fprintf(stderr, "weft torus: there is no torus '%s'\n", o->name);
		return 1;
	}
	if (err && err != -ENOENT && err != -EPROTO) {
		fprintf(stderr, "weft torus: %s: %s\n", o->home, strerror(-err));
		return 1;
	}
	if (err || !weft_torus_config(&o->shape, at, &config) ||
	    size[0] * size[1] * size[2] > WEFT_TORUS_NODES) {
		fprintf(stderr,
			"weft torus: '%s' is damaged: its file %s; weft torus down ends it\n",
			o->name, err == -ENOENT ? "lattice is not there" : "says no lattice");
		return 1;
	}
	*l = config.node.lattice;
	return 0;
}

/* ---- The commands ---- */

static int parse_up(struct weft_torus_options *o, int argc, char **argv)
{
	struct weft_ape_ni_config config;
	const uint8_t at[3] = {0};
	const struct command up = {.name = "up", .bit = UP};
	int i = 0, err = argc < 2 ? weft_main_usage_error("torus", "up needs a size, as 2x2x2") : 0;

	if (err)
		return err;
	if (!parse_size(argv[1], o->shape.size))
		return weft_main_usage_error("torus", "no size: '%s' (8, 4x4, 2x2x2)", argv[1]);
	err = parse_options(o, &up, argc - 1, argv + 1, &i);
	if (err)
		return err;
	if (i + 1 < argc)
		return weft_main_usage_error("torus", "what is '%s'?", argv[i + 1]);
	if (o->shape.size[0] * o->shape.size[1] * o->shape.size[2] > WEFT_TORUS_NODES)
		return weft_main_usage_error("torus", "%s has more than %u nodes", argv[1],
					     WEFT_TORUS_NODES);
	o->shape.quads = o->shape.phy == WEFT_TORUS_8B10B ? 2 : o->shape.lanes;
	if (!weft_torus_config(&o->shape, at, &config))
		return weft_main_usage_error("torus", "--fifo is 1 to %u words with one lane",
					     WEFT_APE_DEPTH_NARROW << WEFT_APE_SHIFT_MAX);
	if (o->shape.netns && (o->shape.parts > 1 || o->shape.link != WEFT_TORUS_RING))
		return weft_main_usage_error("torus", "--netns goes with rings, and with one part");
	if (o->peers != o->shape.parts - 1)
		return weft_main_usage_error(
			"torus", "%u parts: --peer as often as there are others", o->shape.parts);
	weft_torus_place_parts(o);
	return weft_torus_up(o);
}

static const struct command commands[] = {
	{"down", OTHERS, 0, 0, weft_torus_down},   {"status", STATUS, 0, 0, weft_torus_status},
	{"map", MAP, 0, 0, weft_torus_map},	   {"run", RUN, 0, INT_MAX, weft_torus_run},
	{"reg", OTHERS, 1, 2, weft_torus_reg},	   {"words", OTHERS, 2, 2, weft_torus_words},
	{"cut", OTHERS, 2, 2, weft_torus_cut},	   {"mend", OTHERS, 2, 2, weft_torus_mend},
	{"spoil", OTHERS, 4, 5, weft_torus_spoil}, {NULL, 0, 0, 0, NULL},
};

int weft_torus_main(int argc, char **argv)
{
	struct weft_torus_options o = {
		.name = WEFT_TORUS_NAME,
		.map = {0, 1, 2},
		.port = 4800,
		.shape = {.order = {0, 1, 2},
			  .channels = 2,
			  .quads = 2,
			  .lanes = 2,
			  .parts = 1,
			  .header_depth = 128,
			  .data_depth = 512,
			  .engines = 2,
			  .locals = 1},
	};
	const struct command *command;
	int i = 0, err;

	if (argc < 2)
		return weft_main_usage_error(
			"torus", "up, down, status, map, run, reg, words, cut, mend or spoil?");
	if (!strcmp(argv[1], "up"))
		return parse_up(&o, argc - 1, argv + 1);
	for (command = commands; command->name && strcmp(command->name, argv[1]); command++)
		;
	if (!command->name)
		return weft_main_usage_error("torus", "there is no '%s'", argv[1]);
	err = parse_options(&o, command, argc - 1, argv + 1, &i);
	if (err)
		return err;
	if (argc - 1 - i > command->most)
		return weft_main_usage_error("torus", "what is '%s'?", argv[1 + i + command->most]);
	if (argc - 1 - i < command->least)
		return weft_main_usage_error(
			"torus", "%s needs %s", argv[1],
			command->least == 1 ? "a node, as 0,0,0"
			: command->least == 2
				? "a node and a cable, as 0,0,0 x+"
				: "a node, a cable and two numbers, as 0,0,0 x+ 100 100");
	return command->run(&o, argv + 1 + i);
}
