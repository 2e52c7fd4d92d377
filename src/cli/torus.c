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

static bool parse_count(const char *text, uint32_t *number)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*number = (uint32_t)value;
	return *text >= '0' && *text <= '9' && !*end && value <= UINT16_MAX;
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
	else if (!strcmp(word, "--map"))
		return parse_order(value, o->map);
	else if (!strcmp(word, "--ties"))
		return parse_ties(value, &s->tie);
	else if (!strcmp(word, "--vcs"))
		return parse_count(value, &s->channels) && s->channels >= 1 && s->channels <= 2;
	else if (!strcmp(word, "--lanes"))
		return parse_count(value, &s->lanes);
	else if (!strcmp(word, "--link"))
		return parse_word(value, links, &s->link);
	else if (!strcmp(word, "--phy"))
		return parse_word(value, codes, &s->phy);
	else if (!strcmp(word, "--part"))
		return parse_part(value, s);
	else if (!strcmp(word, "--port"))
		return parse_count(value, &o->port) && o->port;
	else if (!strcmp(word, "--peer"))
		return weft_torus_add_peer(o, value);
	else if (!strcmp(word, "--fifo"))
		return parse_count(value, &s->data_depth);
	else if (!strcmp(word, "--engines"))
		return parse_count(value, &s->engines);
	else
		*known = false;
	return true;
}

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
		if (!strcmp(argv[i], "--netns")) {
			o->shape.netns = true;
			continue;
		}
		if (!strcmp(argv[i], "--each")) {
			o->each = true;
			continue;
		}
		if (!strcmp(argv[i], "--ranks")) {
			o->ranks = true;
			continue;
		}
		if (!strcmp(argv[i], "--svg")) {
			o->svg = true;
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
	return find_home(o);
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
	o->shape.quads = o->shape.phy == WEFT_TORUS_8B10B ? 2 : o->shape.lanes;
	if ((o->shape.lanes != 1 && o->shape.lanes != 2 && o->shape.lanes != 4) ||
	    !weft_torus_config(&o->shape, at, &config))
		return weft_main_usage_error("torus", "no lattice can be so");
	if (o->shape.netns && (o->shape.parts > 1 || o->shape.link != WEFT_TORUS_RING))
		return weft_main_usage_error("torus", "--netns goes with rings, and with one part");
	if (o->peers != o->shape.parts - 1)
		return weft_main_usage_error(
			"torus", "%u parts: --peer as often as there are others", o->shape.parts);
	weft_torus_place_parts(o);
	return weft_torus_up(o);
}

/* Each with the words behind the options. */
static const struct command {
	const char *name;
	int least, most; /* words */
	int (*run)(struct weft_torus_options *o, char **words);
} commands[] = {
	{"down", 0, 0, weft_torus_down},   {"status", 0, 0, weft_torus_status},
	{"map", 0, 0, weft_torus_map},	   {"run", 0, INT_MAX, weft_torus_run},
	{"reg", 1, 2, weft_torus_reg},	   {"words", 2, 2, weft_torus_words},
	{"cut", 2, 2, weft_torus_cut},	   {"mend", 2, 2, weft_torus_mend},
	{"spoil", 4, 5, weft_torus_spoil}, {NULL, 0, 0, NULL},
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
	err = parse_options(&o, argc - 1, argv + 1, &i);
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
