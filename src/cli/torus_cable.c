/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One cable of a torus, from outside: found by its name, cut, spoiled and mended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/torus.h"
#include "link/ring.h"

const char *const weft_torus_cable_names[WEFT_APE_CABLES] = {"x+", "x-", "y+", "y-", "z+", "z-"};

int weft_torus_parse_end(struct weft_torus_options *o, const char *node, const char *cable,
			 struct weft_torus_end *end)
{
	struct weft_ape_lattice l;

	if (weft_torus_find(o, &l))
		return 1;
	if (!weft_torus_parse_node(node, end->at.at) || !weft_ape_lattice_has(&l, end->at))
		return weft_main_usage_error("torus", "'%s' has no node '%s'", o->name, node);
	if (!cable)
		return 0;
	for (end->cable = 0; end->cable < WEFT_APE_CABLES; end->cable++)
		if (!strcmp(weft_torus_cable_names[end->cable], cable))
			break;
	if (end->cable == WEFT_APE_CABLES ||
	    !weft_ape_lattice_neighbour(&l, end->at, end->cable, &end->other))
		return weft_main_usage_error("torus", "node %s has no cable '%s' (x+, x-, … z-)",
					     node, cable);
	return 0;
}

int weft_torus_open_cable(const struct weft_torus_options *o, struct weft_ape_coord at,
			  unsigned int cable, struct weft_cable_ring *ring)
{
	char path[PATH_MAX];
	int err = weft_torus_cable(o->home, at.at, cable, path);

	err = err ? err : weft_ring_open(ring, path, true);
	if (err)
		fprintf(stderr, "weft torus: %s: %s\n", path, strerror(-err));
	return err;
}

bool weft_torus_is_cut(const struct weft_torus_options *o, struct weft_ape_coord at,
		       unsigned int cable)
{
	struct weft_ape_lattice l = weft_torus_lattice(&o->shape);
	struct weft_cable_ring ring;
	bool cut;

	if (!weft_torus_is_here(&o->shape, weft_ape_lattice_index(&l, at)))
		return false;
	if (weft_torus_open_cable(o, at, cable, &ring))
		return false;
	cut = atomic_load_explicit(&ring.file->cut, memory_order_relaxed);
	weft_ring_close(&ring);
	return cut;
}

/* What is wrong with a cable: zeros, nothing. */
struct wrong {
	uint32_t cut, flips, losses, delay_us;
};

static void set_state(struct weft_ring_file *file, struct wrong wrong)
{
	atomic_store_explicit(&file->cut, wrong.cut, memory_order_relaxed);
	atomic_store_explicit(&file->flips, wrong.flips, memory_order_relaxed);
	atomic_store_explicit(&file->losses, wrong.losses, memory_order_relaxed);
	atomic_store_explicit(&file->delay_us, wrong.delay_us, memory_order_relaxed);
}

/* The card looks at its cables when it is awake. */
static void knock_at(const struct weft_torus_options *o, struct weft_ape_coord at)
{
	struct weft_torus_door *door;
	char path[PATH_MAX];
	int fd;

	if (weft_torus_node(o->home, at.at, "door", path))
		return;
	door = weft_torus_door_open(path, false, &fd);
	if (!door)
		return;
	weft_door_knock(&door->door);
	weft_torus_door_close(door);
	close(fd);
}

/* The way out of a node. */
static int set_way(const struct weft_torus_options *o, struct weft_ape_coord at, unsigned int cable,
		   struct wrong wrong)
{
	struct weft_cable_ring ring;

	if (weft_torus_open_cable(o, at, cable, &ring))
		return 1;
	set_state(ring.file, wrong);
	weft_ring_close(&ring);
	return 0;
}

/* Both ways, as a cable is; but for one that begins in another part. */
static int set_cable(struct weft_torus_options *o, char **words, struct wrong wrong)
{
	struct weft_ape_lattice l;
	struct weft_torus_end end;
	int err = weft_torus_parse_end(o, words[0], words[1], &end);

	if (err)
		return err;
	err = set_way(o, end.at, end.cable, wrong);
	l = weft_torus_lattice(&o->shape);
	if (!err && weft_torus_is_here(&o->shape, weft_ape_lattice_index(&l, end.other))) {
		err = set_way(o, end.other, end.cable ^ 1, wrong);
		knock_at(o, end.other);
	}
	knock_at(o, end.at);
	return err;
}

int weft_torus_cut(struct weft_torus_options *o, char **words)
{
	return set_cable(o, words, (struct wrong){.cut = 1});
}

int weft_torus_mend(struct weft_torus_options *o, char **words)
{
	return set_cable(o, words, (struct wrong){0});
}

static bool parse_of_many(const char *text, uint32_t *n)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*n = (uint32_t)value;
	return *text >= '0' && *text <= '9' && !*end && value <= WEFT_RING_MANY;
}

int weft_torus_spoil(struct weft_torus_options *o, char **words)
{
	struct wrong wrong = {0};

	if (!parse_of_many(words[2], &wrong.flips) || !parse_of_many(words[3], &wrong.losses))
		return weft_main_usage_error(
			"torus", "'%s %s': of a million words, how many are flipped, and lost",
			words[2], words[3]);
	if (words[4] && !parse_of_many(words[4], &wrong.delay_us))
		return weft_main_usage_error(
			"torus", "'%s': for how many us words are on their way", words[4]);
	return set_cable(o, words, wrong);
}
