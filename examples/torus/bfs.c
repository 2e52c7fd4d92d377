/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Breadth-first search as Graph500 has it: a Kronecker graph of 2^16 vertices and 16 edges a vertex, a tree from each of some roots,
 * and the five checks of each. Vertices belong to ranks in turn. Level by level each rank looks at the edges of its vertices in the
 * frontier, and tells the owner of each that it finds: (vertex, parent). Of several parents in the level above, the one with the
 * least number is taken, so that the tree does not depend on the number of ranks.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "team.h"

#define SCALE	 16u
#define VERTICES (1u << SCALE)
#define EDGES	 (16u * VERTICES)
#define ROOTS	 4u /* Graph500 has 64 */
#define NONE	 UINT32_MAX

struct edge {
	uint32_t a, b;
};

struct found {
	uint32_t vertex, parent;
};

static struct team team;
static struct edge *edges; /* all of them: each rank makes the same */
static uint32_t *first,
	*target;     /* those of our vertices: target[first[i]] to target[first[i + 1] - 1] */
static uint32_t own; /* how many vertices are ours */

static uint32_t *parent, *depth;  /* of our vertices */
static uint32_t *frontier, *next; /* of this level, of the next */
static uint32_t frontier_count, next_count;
static uint8_t *sent;		       /* vertices that we have told of */
static uint32_t *all_parents, *levels; /* of the whole tree, for the checks */

static void *allocate(size_t count, size_t bytes)
{
	void *at = calloc(count, bytes);

	if (at)
		return at;
	fprintf(stderr, "no memory\n");
	exit(1);
}

static unsigned int owner_of(uint32_t vertex)
{
	return vertex % team.ranks;
}

static uint32_t index_of(uint32_t vertex)
{
	return vertex / team.ranks;
}

/* ---- The graph ---- */

/* xorshift64* */
static uint64_t draw(void)
{
	static uint64_t state = 20260501;

	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1d;
}

/* Each bit of the two ends falls into one of four quarters, with 0.57, 0.19, 0.19 and 0.05. Then vertices get other names. */
static void make_edges(void)
{
	uint32_t *name = allocate(VERTICES, sizeof(*name));

	edges = allocate(EDGES, sizeof(*edges));
	for (uint32_t i = 0; i < VERTICES; i++) {
		uint32_t other = (uint32_t)(draw() >> 32) % (i + 1);

		name[i] = name[other];
		name[other] = i;
	}
	for (uint32_t i = 0; i < EDGES; i++) {
		struct edge e = {0, 0};

		for (unsigned int bit = 0; bit < SCALE; bit++) {
			uint32_t hundredth = (uint32_t)(draw() >> 32) % 100;

			e.a = e.a << 1 | (hundredth >= 76);
			e.b = e.b << 1 | ((hundredth >= 57 && hundredth < 76) || hundredth >= 95);
		}
		edges[i] = (struct edge){name[e.a], name[e.b]};
	}
	free(name);
}

static void add_end(uint32_t from, uint32_t to, uint32_t *count, bool counts_only)
{
	if (owner_of(from) != team.rank || from == to)
		return;
	if (!counts_only)
		target[first[index_of(from)] + count[index_of(from)]] = to;
	count[index_of(from)]++;
}

/* The lists of our vertices' neighbours: counted first, then filled. */
static void make_lists(void)
{
	uint32_t *count;

	own = (VERTICES + team.ranks - 1 - team.rank) / team.ranks;
	count = allocate(own, sizeof(*count));
	first = allocate(own + 1, sizeof(*first));
	for (uint32_t i = 0; i < EDGES; i++) {
		add_end(edges[i].a, edges[i].b, count, true);
		add_end(edges[i].b, edges[i].a, count, true);
	}
	for (uint32_t v = 0; v < own; v++)
		first[v + 1] = first[v] + count[v];
	target = allocate(first[own] + 1, sizeof(*target));
	memset(count, 0, own * sizeof(*count));
	for (uint32_t i = 0; i < EDGES; i++) {
		add_end(edges[i].a, edges[i].b, count, false);
		add_end(edges[i].b, edges[i].a, count, false);
	}
	free(count);
}

/* ---- The search ---- */

static void visit(uint32_t vertex, uint32_t from, uint32_t level)
{
	uint32_t i = index_of(vertex);

	if (depth[i] == NONE) {
		depth[i] = level;
		parent[i] = from;
		next[next_count++] = vertex;
	} else if (depth[i] == level && from < parent[i]) {
		parent[i] = from;
	}
}

/* Fills a message to each rank. The frontier is in order, so that the first parent of ours is the least. */
static void look_at_edges(uint32_t *found)
{
	for (uint32_t i = 0; i < frontier_count; i++) {
		uint32_t v = frontier[i];

		for (uint32_t e = first[index_of(v)]; e < first[index_of(v) + 1]; e++) {
			unsigned int rank = owner_of(target[e]);
			struct found *message;

			if (sent[target[e]])
				continue;
			sent[target[e]] = 1;
			message = team_message(&team, rank);
			message[found[rank]++] = (struct found){target[e], v};
		}
	}
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void tell_and_hear(const uint32_t *found, uint32_t level)
{
	for (unsigned int rank = 0; rank < team.ranks; rank++)
		team_send(&team, rank, rank, team.rank, found[rank] * sizeof(struct found));
	for (unsigned int rank = 0; rank < team.ranks; rank++) {
		size_t bytes;
		const struct found *message = team_receive(&team, rank, &bytes);

		for (size_t i = 0; i < bytes / sizeof(*message); i++)
			visit(message[i].vertex, message[i].parent, level);
	}
}

static void begin_at(uint32_t root)
{
	memset(sent, 0, VERTICES);
	memset(parent, 0xff, own * sizeof(*parent));
	memset(depth, 0xff, own * sizeof(*depth));
	frontier_count = next_count = 0;
	sent[root] = 1;
	if (owner_of(root) != team.rank)
		return;
	visit(root, root, 0);
	frontier[frontier_count++] = root;
}

/* How many levels were looked at. */
static uint32_t search(uint32_t root)
{
	uint32_t level = 0;

	begin_at(root);
	do {
		uint32_t found[TEAM_MAX] = {0}, *swap = frontier;

		next_count = 0;
		look_at_edges(found);
		tell_and_hear(found, ++level);
		qsort(next, next_count, sizeof(*next), compare);
		frontier = next;
		next = swap;
		frontier_count = next_count;
	} while (team_sum(&team, frontier_count) > 0);
	return level;
}

/* ---- The checks: on the tree as a whole, which each rank has then, and the edges of its own vertices ---- */

static void gather_tree(void)
{
	for (unsigned int rank = 0; rank < team.ranks; rank++) {
		memcpy(team_message(&team, rank), parent, own * sizeof(*parent));
		team_send(&team, rank, rank, team.rank, own * sizeof(*parent));
	}
	for (unsigned int rank = 0; rank < team.ranks; rank++) {
		size_t bytes;
		const uint32_t *theirs = team_receive(&team, rank, &bytes);

		for (uint32_t i = 0; i < bytes / sizeof(*theirs); i++)
			all_parents[i * team.ranks + rank] = theirs[i];
	}
}

/* 1: no way up the tree runs in a circle, or ends anywhere but at the root. Gives each vertex its level. */
static bool climbs_to_root(uint32_t root)
{
	memset(levels, 0xff, VERTICES * sizeof(*levels));
	levels[root] = 0;
	for (uint32_t v = 0; v < VERTICES; v++) {
		uint32_t up = v, steps = 0;

		if (all_parents[v] == NONE)
			continue;
		for (; levels[up] == NONE; up = all_parents[up])
			if (all_parents[up] >= VERTICES || ++steps > VERTICES)
				return false;
		steps += levels[up];
		for (up = v; levels[up] == NONE; up = all_parents[up])
			levels[up] = steps--;
	}
	return all_parents[root] == root;
}

static bool has_edge(uint32_t i, uint32_t to)
{
	for (uint32_t e = first[i]; e < first[i + 1]; e++)
		if (target[e] == to)
			return true;
	return false;
}

/* Of one of our vertices: 2, it is one level below its parent; 3, no edge skips a level; 4, none leaves the tree; 5, the one to
 * its parent is an edge of the graph. The number of the check that fails, or 0. */
static int check_vertex(uint32_t v, uint32_t root)
{
	uint32_t i = index_of(v);
	bool in = all_parents[v] != NONE;

	if (in && (depth[i] != levels[v] || (v != root && levels[v] != levels[all_parents[v]] + 1)))
		return 2;
	for (uint32_t e = first[i]; e < first[i + 1]; e++) {
		uint32_t other = levels[target[e]];

		if (in != (all_parents[target[e]] != NONE))
			return 4;
		if (in && levels[v] != other && levels[v] + 1 != other && levels[v] != other + 1)
			return 3;
	}
	return in && v != root && !has_edge(i, all_parents[v]) ? 5 : 0;
}

static int check_tree(uint32_t root)
{
	int wrong = climbs_to_root(root) ? 0 : 1;

	for (uint32_t v = team.rank; v < VERTICES && !wrong; v += team.ranks)
		wrong = check_vertex(v, root);
	return wrong;
}

/* ---- */

/* Edges between two vertices of the tree, each counted at both ends. */
static double count_edges(void)
{
	double ends = 0;

	for (uint32_t i = 0; i < own; i++)
		if (parent[i] != NONE)
			ends += first[i + 1] - first[i];
	return team_sum(&team, ends) / 2;
}

static uint32_t checksum(void)
{
	uint32_t sum = 2166136261u;

	for (uint32_t v = 0; v < VERTICES; v++)
		sum = (sum ^ all_parents[v]) * 16777619u;
	return sum;
}

/* Whether the tree is right. *teps: edges a second. */
static bool try_root(uint32_t root, double *teps)
{
	double begun = team_clock(), took, count;
	uint32_t levels_found = search(root);
	int wrong;

	took = team_clock() - begun;
	count = count_edges();
	*teps = count / took;
	gather_tree();
	wrong = check_tree(root);
	if (wrong)
		fprintf(stderr, "rank %u: the tree of %u fails check %d\n", team.rank, root, wrong);
	if (!team.rank)
		printf("root %5u: %.0f edges, %u levels, tree %08x\n", root, count, levels_found,
		       checksum());
	return team_sum(&team, wrong) == 0;
}

/* With an edge to another vertex. */
static uint32_t choose_root(void)
{
	for (;;) {
		uint32_t root = (uint32_t)(draw() >> 32) % VERTICES;
		bool has_any = owner_of(root) == team.rank &&
			       first[index_of(root)] != first[index_of(root) + 1];

		if (team_sum(&team, has_any) > 0)
			return root;
	}
}

int main(int argc, char **argv)
{
	double inverse = 0, teps;
	bool right = true;

	team_begin(&team, argc, argv);
	team_open(&team, team.ranks, (VERTICES / team.ranks + 1) * sizeof(struct found));
	make_edges();
	make_lists();
	parent = allocate(own, sizeof(*parent));
	depth = allocate(own, sizeof(*depth));
	frontier = allocate(own, sizeof(*frontier));
	next = allocate(own, sizeof(*next));
	sent = allocate(VERTICES, 1);
	all_parents = allocate(VERTICES, sizeof(*all_parents));
	levels = allocate(VERTICES, sizeof(*levels));
	for (unsigned int i = 0; i < ROOTS; i++) {
		right = try_root(choose_root(), &teps) && right;
		inverse += 1 / teps;
	}
	if (!team.rank)
		printf("%s; %.3g TEPS (harmonic mean) on %u ranks\n",
		       right ? "all five checks hold" : "WRONG", ROOTS / inverse, team.ranks);
	team_end(&team);
	return !right;
}
