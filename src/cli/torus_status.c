/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the cards of a torus say of themselves, read from outside. */
#include <stdio.h>

#include "cli/nic.h"
#include "cli/report.h"
#include "cli/torus.h"
#include "pool/ape.h"
#include "wire/ape/frames.h"

static const struct weft_column torus_columns[] = {
	{"name", WEFT_COLUMN_TEXT},    {"path", WEFT_COLUMN_TEXT},    {"size", WEFT_COLUMN_TEXT},
	{"nodes", WEFT_COLUMN_NUMBER}, {"cards", WEFT_COLUMN_NUMBER}, {NULL},
};

static const struct weft_column node_columns[] = {
	{"node", WEFT_COLUMN_TEXT},
	{"pid", WEFT_COLUMN_NUMBER},
	{"state", WEFT_COLUMN_TEXT},
	{"programs", WEFT_COLUMN_NUMBER},
	{"packets", WEFT_COLUMN_NUMBER},
	{"again", WEFT_COLUMN_NUMBER},
	{"refused", WEFT_COLUMN_NUMBER},
	{"bad", WEFT_COLUMN_NUMBER},
	{"put_bytes", WEFT_COLUMN_NUMBER},
	{"get_bytes", WEFT_COLUMN_NUMBER},
	{"send_bytes", WEFT_COLUMN_NUMBER},
	{"sleeps", WEFT_COLUMN_NUMBER, true},
	{NULL},
};

static const struct weft_column cable_columns[] = {
	{"node", WEFT_COLUMN_TEXT},
	{"cable", WEFT_COLUMN_TEXT},
	{"up", WEFT_COLUMN_FLAG},
	{"packets", WEFT_COLUMN_NUMBER},
	{"data", WEFT_COLUMN_NUMBER},
	{"credits", WEFT_COLUMN_NUMBER},
	{"escapes", WEFT_COLUMN_NUMBER},
	{"magic", WEFT_COLUMN_NUMBER, true},
	{"footers", WEFT_COLUMN_NUMBER, true},
	{"starts", WEFT_COLUMN_NUMBER, true},
	{"data_received", WEFT_COLUMN_NUMBER, true},
	{"packets_received", WEFT_COLUMN_NUMBER, true},
	{"credits_received", WEFT_COLUMN_NUMBER, true},
	{"escapes_received", WEFT_COLUMN_NUMBER, true},
	{"magic_received", WEFT_COLUMN_NUMBER, true},
	{"footers_received", WEFT_COLUMN_NUMBER, true},
	{"starts_received", WEFT_COLUMN_NUMBER, true},
	{"went_down", WEFT_COLUMN_NUMBER},
	{NULL},
};

static const char *card_state(const struct weft_torus_seen *n)
{
	if (n->elsewhere)
		return "elsewhere";
	return n->stopped ? "stopped" : n->pid ? "up" : "dead";
}

static void look_at_node(const struct weft_torus_options *o, struct weft_torus_seen *n)
{
	char path[PATH_MAX];
	const char *why;

	snprintf(n->text, sizeof(n->text), "%u,%u,%u", n->at.at[0], n->at.at[1], n->at.at[2]);
	if (weft_torus_node(o->home, n->at.at, NULL, path))
		return;
	n->pid = weft_torus_card_pid(path);
	n->stopped = n->pid && weft_nic_is_stopped(n->pid);
	n->read = !weft_torus_node(o->home, n->at.at, "pool", path) &&
		  !weft_pool_ape_look(path, &n->card, &why);
}

static void report_node(struct weft_report *r, const struct weft_torus_seen *n)
{
	const struct weft_pool_ape_card *c = &n->card;

	weft_report_row(r);
	weft_report_text(r, n->text);
	weft_report_number(r, n->pid);
	weft_report_text(r, card_state(n));
	weft_report_number(r, c->claims);
	weft_report_number(r, c->packets);
	weft_report_number(r, c->again);
	weft_report_number(r, c->refused);
	weft_report_number(r, c->bad);
	weft_report_number(r, c->put_bytes);
	weft_report_number(r, c->get_bytes);
	weft_report_number(r, c->send_bytes);
	weft_report_number(r, c->sleeps);
}

static void report_cables(struct weft_report *r, const struct weft_ape_lattice *l,
			  const struct weft_torus_seen *n)
{
	struct weft_ape_coord other;

	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++) {
		const struct weft_pool_ape_cable *c = &n->card.cable[i];

		if (!weft_ape_lattice_neighbour(l, n->at, i, &other))
			continue;
		weft_report_row(r);
		weft_report_text(r, n->text);
		weft_report_text(r, weft_torus_cable_names[i]);
		weft_report_flag(r, n->pid && n->card.up >> i & 1);
		weft_report_number(r, c->sent[WEFT_APE_K_HEADER]);
		weft_report_number(r, c->sent[WEFT_APE_K_DATA]);
		weft_report_number(r, c->sent[WEFT_APE_K_CREDIT]);
		weft_report_number(r, c->sent[WEFT_APE_K_ESCAPE]);
		weft_report_number(r, c->sent[WEFT_APE_K_MAGIC]);
		weft_report_number(r, c->sent[WEFT_APE_K_FOOTER]);
		weft_report_number(r, c->sent[WEFT_APE_K_START]);
		weft_report_number(r, c->received[WEFT_APE_K_DATA]);
		weft_report_number(r, c->received[WEFT_APE_K_HEADER]);
		weft_report_number(r, c->received[WEFT_APE_K_CREDIT]);
		weft_report_number(r, c->received[WEFT_APE_K_ESCAPE]);
		weft_report_number(r, c->received[WEFT_APE_K_MAGIC]);
		weft_report_number(r, c->received[WEFT_APE_K_FOOTER]);
		weft_report_number(r, c->received[WEFT_APE_K_START]);
		weft_report_number(r, c->went_down);
	}
}

static void report_torus(const struct weft_torus_options *o, const struct weft_ape_lattice *l,
			 const struct weft_torus_seen *node, unsigned int nodes)
{
	const uint32_t *size = o->shape.size;
	struct weft_report r;
	unsigned int cards = 0;
	char text[32];

	snprintf(text, sizeof(text), "%ux%ux%u", size[0], size[1], size[2]);
	for (unsigned int i = 0; i < nodes; i++)
		cards += node[i].pid != 0;
	weft_report_begin(&r, o->json);
	weft_report_section(&r, "torus", true, torus_columns);
	weft_report_row(&r);
	weft_report_text(&r, o->name);
	weft_report_text(&r, o->home);
	weft_report_text(&r, text);
	weft_report_number(&r, nodes);
	weft_report_number(&r, cards);
	weft_report_section(&r, "nodes", false, node_columns);
	for (unsigned int i = 0; i < nodes; i++)
		report_node(&r, &node[i]);
	weft_report_section(&r, "cables", false, cable_columns);
	for (unsigned int i = 0; i < nodes; i++)
		if (!node[i].elsewhere)
			report_cables(&r, l, &node[i]);
	weft_report_end(&r);
}

int weft_torus_look(struct weft_torus_options *o, struct weft_torus_seen seen[WEFT_TORUS_NODES],
		    unsigned int *nodes)
{
	struct weft_ape_lattice l;

	if (weft_torus_find(o, &l))
		return 1;
	*nodes = o->shape.size[0] * o->shape.size[1] * o->shape.size[2];
	for (unsigned int i = 0; i < *nodes; i++) {
		seen[i].at = weft_ape_lattice_coord(&l, i);
		seen[i].elsewhere = !weft_torus_is_here(&o->shape, i);
		look_at_node(o, &seen[i]);
	}
	return 0;
}

int weft_torus_status(struct weft_torus_options *o, char **words)
{
	static struct weft_torus_seen seen[WEFT_TORUS_NODES];
	struct weft_ape_lattice l;
	unsigned int nodes;
	int err = weft_torus_look(o, seen, &nodes);

	if (err)
		return err;
	l = weft_torus_lattice(&o->shape);
	report_torus(o, &l, seen, nodes);
	return 0;
}
