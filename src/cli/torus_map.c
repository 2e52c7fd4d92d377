/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A picture of a torus: each node with its rank in a job of MPI, each cable with the words of payload that it has
 * carried, both ways together; cables that are cut or down. Planes of X and Y, one below the other; a cable stands behind
 * the node that has it as x+, above the one that has it as y+, and beside the one that has it as z+.
 */
#include <stdio.h>
#include <string.h>

#include "cli/torus.h"
#include "wire/ape/frames.h"

#define CELL	132 /* of the SVG, in its units */
#define EDGE	60
#define RADIUS	24
#define HEADING 24

struct map {
	const struct weft_torus_options *o;
	struct weft_ape_lattice l;
	const struct weft_torus_seen *seen;
	uint64_t most; /* words of the cable that has carried most */
};

enum state {
	NONE,
	WHOLE,
	DOWN,
	CUT,
};

struct cable {
	enum state state;
	uint64_t words;
};

static const struct weft_torus_seen *node_at(const struct map *m, struct weft_ape_coord at)
{
	return &m->seen[weft_ape_lattice_index(&m->l, at)];
}

static bool is_up(const struct weft_torus_seen *n, unsigned int cable)
{
	return n->pid && n->card.up >> cable & 1;
}

static struct cable look_at_cable(const struct map *m, struct weft_ape_coord at, unsigned int which)
{
	struct cable c = {NONE, 0};
	struct weft_ape_coord other;
	const struct weft_torus_seen *here = node_at(m, at), *there;

	if (!weft_ape_lattice_neighbour(&m->l, at, which, &other))
		return c;
	there = node_at(m, other);
	c.words = here->card.cable[which].sent[WEFT_APE_K_DATA] +
		  there->card.cable[which ^ 1].sent[WEFT_APE_K_DATA];
	c.state = weft_torus_is_cut(m->o, at, which) || weft_torus_is_cut(m->o, other, which ^ 1)
			  ? CUT
		  : is_up(here, which) && is_up(there, which ^ 1) ? WHOLE
								  : DOWN;
	return c;
}

/* At most four letters. */
static const char *short_number(uint64_t value, char text[8])
{
	static const char units[] = " kMGTPE";
	unsigned int unit = 0;

	for (; value >= 1000; value /= 1000)
		unit++;
	snprintf(text, 8, unit ? "%u%c" : "%u", (unsigned int)value, units[unit]);
	return text;
}

static const char *load_text(struct cable c, char text[8])
{
	switch (c.state) {
	case NONE:
		return "";
	case WHOLE:
		return short_number(c.words, text);
	case DOWN:
		return "down";
	case CUT:
		return "cut";
	}
	return "";
}

/* ---- As text ---- */

static void print_row(const struct map *m, struct weft_ape_coord at)
{
	const uint8_t *size = m->l.size;
	char text[8];

	for (at.at[0] = 0; at.at[0] < size[0]; at.at[0]++)
		printf("  %-22s", load_text(look_at_cable(m, at, 2), text));
	putchar('\n');
	for (at.at[0] = 0; at.at[0] < size[0]; at.at[0]++) {
		const struct weft_torus_seen *n = node_at(m, at);
		struct cable c = look_at_cable(m, at, 0);
		char name[24];

		snprintf(name, sizeof(name), n->pid ? "[%u %s]" : "(%u %s)",
			 weft_torus_rank(m->o, at), n->text);
		printf("%-13s %-4s %4s ", name, c.state == NONE ? "" : "----", load_text(c, text));
	}
	putchar('\n');
	if (size[2] > 1) {
		for (at.at[0] = 0; at.at[0] < size[0]; at.at[0]++)
			printf("    z+ %-17s", load_text(look_at_cable(m, at, 4), text));
		putchar('\n');
	}
}

static void print_text(const struct map *m)
{
	struct weft_ape_coord at = {{0}};

	printf("%s: [rank x,y,z], (dead); words of payload by each cable to the right, above, and "
	       "to z+\n",
	       m->o->name);
	for (at.at[2] = 0; at.at[2] < m->l.size[2]; at.at[2]++) {
		printf("z = %u\n", at.at[2]);
		for (unsigned int y = m->l.size[1]; y--;) {
			at.at[1] = (uint8_t)y;
			print_row(m, at);
		}
	}
}

/* ---- As SVG ---- */

static int column_of(struct weft_ape_coord at)
{
	return EDGE + at.at[0] * CELL;
}

static int row_of(const struct map *m, struct weft_ape_coord at)
{
	int plane = m->l.size[1] * CELL + EDGE;

	return HEADING + EDGE + at.at[2] * plane + (m->l.size[1] - 1 - at.at[1]) * CELL;
}

static void draw_cable(const struct map *m, struct weft_ape_coord at, unsigned int which)
{
	/* to the right; up; and towards the reader, aslant */
	static const int dx[] = {CELL - 2 * RADIUS, 0, -RADIUS};
	static const int dy[] = {0, -(CELL - 2 * RADIUS), RADIUS};
	static const int from_x[] = {RADIUS, 0, -RADIUS * 3 / 4};
	static const int from_y[] = {0, -RADIUS, RADIUS * 3 / 4};
	struct cable c = look_at_cable(m, at, which);
	unsigned int d = which / 2;
	int x = column_of(at) + from_x[d], y = row_of(m, at) + from_y[d];
	unsigned int width = m->most ? 1 + (unsigned int)(c.words * 7 / m->most) : 1;
	char text[8];

	if (c.state == NONE)
		return;
	printf("<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='%s' stroke-width='%u'%s/>\n", x, y,
	       x + dx[d], y + dy[d], c.state == WHOLE ? "#4078c0" : "#c03020", width,
	       c.state == WHOLE ? "" : " stroke-dasharray='6 5'");
	printf("<text x='%d' y='%d' font-size='11'>%s</text>\n", x + dx[d] / 2 + 4,
	       y + dy[d] / 2 - 4, load_text(c, text));
}

static void draw_node(const struct map *m, struct weft_ape_coord at)
{
	const struct weft_torus_seen *n = node_at(m, at);
	int x = column_of(at), y = row_of(m, at);

	for (unsigned int which = 0; which < WEFT_APE_CABLES; which += 2)
		draw_cable(m, at, which);
	printf("<circle cx='%d' cy='%d' r='%d' fill='%s' stroke='black'/>\n", x, y, RADIUS,
	       n->pid ? "#e8f0e8" : "#e0e0e0");
	printf("<text x='%d' y='%d' text-anchor='middle' font-size='14'>%u</text>\n", x, y - 1,
	       weft_torus_rank(m->o, at));
	printf("<text x='%d' y='%d' text-anchor='middle' font-size='10'>%s</text>\n", x, y + 13,
	       n->text);
}

static void print_svg(const struct map *m, unsigned int nodes)
{
	int width = 2 * EDGE + m->l.size[0] * CELL;
	int height = HEADING + EDGE + m->l.size[2] * (m->l.size[1] * CELL + EDGE);

	printf("<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
	       "font-family='sans-serif'>\n",
	       width, height);
	printf("<text x='8' y='18' font-size='14'>%s: ranks and nodes; words of payload on each "
	       "cable</text>\n",
	       m->o->name);
	for (unsigned int i = 0; i < nodes; i++)
		draw_node(m, weft_ape_lattice_coord(&m->l, i));
	puts("</svg>");
}

int weft_torus_map(struct weft_torus_options *o, char **words)
{
	static struct weft_torus_seen seen[WEFT_TORUS_NODES];
	struct map m = {.o = o, .seen = seen};
	unsigned int nodes;
	int err = weft_torus_look(o, seen, &nodes);

	if (err)
		return err;
	m.l = weft_torus_lattice(&o->shape);
	for (unsigned int i = 0; i < nodes; i++)
		for (unsigned int which = 0; which < WEFT_APE_CABLES; which++) {
			struct cable c = look_at_cable(&m, seen[i].at, which);

			m.most = c.words > m.most ? c.words : m.most;
		}
	if (o->svg)
		print_svg(&m, nodes);
	else
		print_text(&m);
	return 0;
}
