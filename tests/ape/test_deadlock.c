/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Freedom from deadlock, computed: a FIFO waits for the next one on each way that passes both;
 * these dependencies have no cycle. With one channel a cycle is found where a ring has four nodes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"
#include "wire/ape/route.h"

#define NODES_MAX 512u
#define FIFOS	  (NODES_MAX * WEFT_APE_CABLES * WEFT_APE_CHANNELS)
#define NEXT	  (WEFT_APE_CABLES * WEFT_APE_CHANNELS)

/* A FIFO is named by the node that sends into it, the cable and the channel; it lies at the cable's other end. Those that it
 * waits for are FIFOs that the node there sends into: a bit for each cable and channel. */
static uint16_t next_of[FIFOS];
static uint32_t node_behind[FIFOS];
static uint8_t color[FIFOS];

static uint32_t fifo(uint32_t node, unsigned int cable, unsigned int vc)
{
	return (node * WEFT_APE_CABLES + cable) * WEFT_APE_CHANNELS + vc;
}

static void add_way(const struct weft_ape_lattice *l, uint32_t node, struct weft_ape_coord to)
{
	struct weft_ape_coord at = weft_ape_lattice_coord(l, node);
	unsigned int came = WEFT_APE_CABLES, vc = 0;
	uint32_t before = FIFOS;
	struct weft_ape_hop hop;

	while (weft_ape_route(l, at, to, came, vc, 0x3f, &hop) == WEFT_APE_ON) {
		if (before != FIFOS)
			next_of[before] |= 1u << (hop.cable * WEFT_APE_CHANNELS + hop.vc);
		before = fifo(node, hop.cable, hop.vc);
		assert_true(weft_ape_lattice_neighbour(l, at, hop.cable, &at));
		node = weft_ape_lattice_index(l, at);
		node_behind[before] = node;
		came = hop.cable ^ 1u;
		vc = hop.vc;
	}
}

static uint32_t successor(uint32_t f, unsigned int bit)
{
	return node_behind[f] * NEXT + bit;
}

static void print_cycle(const uint32_t *stack, const uint8_t *bit, unsigned int depth, uint32_t end)
{
	unsigned int i = depth;

	while (i && stack[i] != end)
		i--;
	printf("# a cycle:");
	for (; i <= depth; i++)
		printf(" node %u cable %u channel %u ->", stack[i] / NEXT, stack[i] % NEXT / 2,
		       stack[i] % 2);
	printf(" node %u cable %u channel %u\n", end / NEXT, end % NEXT / 2, end % 2);
}

/* Depth first, without recursion. */
static bool cycle_from(uint32_t start, bool print)
{
	static uint32_t stack[FIFOS];
	static uint8_t bit[FIFOS];
	unsigned int depth = 0;

	stack[0] = start;
	bit[0] = 0;
	color[start] = 1;
	for (;;) {
		uint32_t f = stack[depth];

		if (bit[depth] == NEXT) {
			color[f] = 2;
			if (!depth--)
				return false;
			continue;
		}
		unsigned int b = bit[depth]++;

		if (!(next_of[f] >> b & 1))
			continue;
		uint32_t to = successor(f, b);

		if (color[to] == 1) {
			if (print)
				print_cycle(stack, bit, depth, to);
			return true;
		}
		if (!color[to]) {
			color[to] = 1;
			stack[++depth] = to;
			bit[depth] = 0;
		}
	}
}

static bool has_cycle(const struct weft_ape_lattice *l, bool print)
{
	uint32_t nodes = (uint32_t)l->size[0] * l->size[1] * l->size[2];

	memset(next_of, 0, nodes * NEXT * sizeof(next_of[0]));
	memset(color, 0, nodes * NEXT);
	for (uint32_t from = 0; from < nodes; from++)
		for (uint32_t to = 0; to < nodes; to++)
			add_way(l, from, weft_ape_lattice_coord(l, to));
	for (uint32_t f = 0; f < nodes * NEXT; f++)
		if (!color[f] && cycle_from(f, print))
			return true;
	return false;
}

static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
				     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

static struct weft_ape_lattice lattice(unsigned int x, unsigned int y, unsigned int z,
				       unsigned int lines, unsigned int order, unsigned int tie)
{
	struct weft_ape_lattice l = {.size = {x, y, z}, .tie = tie, .channels = 2};

	for (unsigned int d = 0; d < 3; d++)
		l.line[d] = lines >> d & 1;
	memcpy(l.order, orders[order], sizeof(l.order));
	return l;
}

static void every_kind(unsigned int x, unsigned int y, unsigned int z)
{
	for (unsigned int kind = 0; kind < 8 * 6 * WEFT_APE_TIES; kind++) {
		struct weft_ape_lattice l = lattice(x, y, z, kind & 7, kind / 8 % 6, kind / 48);

		if (has_cycle(&l, true))
			fail_msg("%ux%ux%u, lines %u, order %u, tie %u", x, y, z, kind & 7,
				 kind / 8 % 6, kind / 48);
	}
}

static void test_two_channels(void **state)
{
	for (unsigned int x = 1; x <= 5; x++)
		for (unsigned int y = 1; y <= 5; y++)
			for (unsigned int z = 1; z <= 5; z++)
				every_kind(x, y, z);
}

static void test_eight(void **state)
{
	every_kind(8, 8, 8);
}

/* Single rings of each length up to 64. */
static void test_rings(void **state)
{
	for (unsigned int size = 1; size <= 64; size++)
		every_kind(size, 1, 1);
}

/* With one channel there is a cycle where a ring has four nodes or more, whatever the other dimensions are; with ties that all go
 * one way, since with parity all ways over a cable of a ring of four end at the next node. */
static void test_one_channel(void **state)
{
	unsigned int found = 0, none = 0;

	for (unsigned int n = 0; n < 125 * 8; n++) {
		unsigned int x = 1 + n % 5, y = 1 + n / 5 % 5, z = 1 + n / 25 % 5, lines = n / 125;
		struct weft_ape_lattice l = lattice(x, y, z, lines, 0, WEFT_APE_TIE_PLUS);
		bool expected = (x >= 4 && !(lines & 1)) || (y >= 4 && !(lines & 2)) ||
				(z >= 4 && !(lines & 4));

		l.channels = 1;
		assert_int_equal(has_cycle(&l, n == 3), expected);
		found += expected;
		none += !expected;
	}
	assert_true(found > 400 && none > 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_channels),
		cmocka_unit_test(test_eight),
		cmocka_unit_test(test_rings),
		cmocka_unit_test(test_one_channel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
