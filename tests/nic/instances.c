/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The instances of the contract of transports (contract.h), and the tests that they are. */
#include "contract.h"

#include <inttypes.h>
#include <string.h>

#include "../handed/courier.h"
#include "asked.h"
#include "nodes.h"
#include "pieces.h"
#include "transport/registry.h"

static const struct contract_case *const subjects[] = {
	contract_outcomes, contract_orders,  contract_ends,
	contract_parts,	   contract_answers, contract_xrc,
};

/* ---- direct ---- */

static const struct contract_instance direct = {
	.name = "direct",
	.transports = weft_transports,
	.settle = world_look,
	.lacks = {[CONTRACT_LATE] = {"a request has ended when its post returns", 31},
		  [CONTRACT_PARTS] = {"nothing comes between the parts of a request", 72},
		  [CONTRACT_ANSWERS] = {"it completes what it carries out at once", 34},
		  [CONTRACT_CLINGS] = {"it has nothing that it could let go of", 4}},
};

/* ---- pieces: the tests' own transport, as late as they want ---- */

static void look_often(void)
{
	for (int i = 0; i < 3; i++)
		world_look();
}

static void hold(bool held)
{
	pieces_will.held = held;
}

static void step(char what)
{
	pieces_will.step = what;
	world_look();
}

static uint32_t begun(void)
{
	return pieces_begun;
}

static void keep(bool keeps)
{
	pieces_will.keeps = keeps;
}

static void answer(uint64_t wr_id)
{
	world_look();
	pieces_will.answered = wr_id;
	world_look();
}

static void lose(void)
{
	world_look();
	pieces_will.loses = true;
	world_look();
}

static void cling(bool clings)
{
	pieces_will.clings = clings;
}

static const struct contract_instance in_pieces = {
	.name = "pieces",
	.transports = (const struct weft_transport *const[]){&pieces},
	.begin = pieces_begin,
	.settle = look_often,
	.hold = hold,
	.step = step,
	.begun = begun,
	.keep = keep,
	.answer = answer,
	.lose = lose,
	.cling = cling,
};

/* ---- direct, where only the helper of the memory's owner reaches it ---- */

/* The helper is asked for each element of a list by itself. */
static void look_for_all(void)
{
	for (unsigned int i = 0; i < 4 * ENDS_DEPTH; i++)
		world_look();
}

static const struct contract_instance by_helper = {
	.name = "by helper",
	.transports = weft_transports,
	.in_place = true,
	.begin = asked_begin,
	.settle = look_for_all,
	.hold = asked_hold,
	.lacks = {[CONTRACT_SEVERAL] = {"the helper is asked for one request at a time", 1},
		  [CONTRACT_STRAIGHT] = {"the helper takes bytes from a buffer", 1},
		  [CONTRACT_WAITS] = {"a request that waits for a receive has not begun", 1},
		  [CONTRACT_PARTS] = {"its parts come in order", 72},
		  [CONTRACT_ANSWERS] = {"it completes what it carries out at once", 34},
		  [CONTRACT_CLINGS] = {"it has let go when it is left", 4}},
};

static int wake_helper(void **state)
{
	world.works = asked_work;
	return 0;
}

static int forget_works(void **state)
{
	world.works = NULL;
	return 0;
}

/* ---- handed, to a card that this process plays: it works when the nic looks ---- */

static struct courier courier;
static bool courier_held;

static void courier_is_free(void)
{
	courier_held = false;
}

static void carry_all(void)
{
	while (!courier_held && courier_step(&courier, world.now_ns))
		;
}

static void hold_courier(bool held)
{
	courier_held = held;
}

static const struct contract_instance handed = {
	.name = "handed",
	.transports = weft_transports,
	.begin = courier_is_free,
	.settle = look_often,
	.hold = hold_courier,
	.passes_on = contract_xrc,
	.lacks = {[CONTRACT_PARTS] = {"its parts come in order", 52},
		  [CONTRACT_ANSWERS] = {"it completes what it carries out at once", 34},
		  [CONTRACT_CLINGS] = {"it has let go when it is shut out", 4}},
};

static int engage(void **state)
{
	world.works = carry_all;
	courier = (struct courier){.random = 1, .part_bytes = ENDS_BYTES / PIECES};
	return courier_begin(&courier, &world.nic, &pieces_line);
}

static int dismiss(void **state)
{
	courier_end(&courier);
	return forget_works(state);
}

/* ---- handed, to the card of a torus: each end is at another node ---- */

static void nodes_are_free(void)
{
	nodes_hold(false);
}

static const struct contract_instance between_nodes = {
	.name = "between nodes",
	.transports = weft_transports,
	.apart = true,
	.begin = nodes_are_free,
	.settle = look_often,
	.hold = nodes_hold,
	.lacks = {[CONTRACT_STRAIGHT] = {"packets have the bytes of when they went", 1},
		  [CONTRACT_WHOLE] = {"the packets before the last one need no receive", 1},
		  [CONTRACT_AWAY] = {"packets that find the peer away are as if lost", 4},
		  [CONTRACT_RENEWS] = {"both ends count packets", 2},
		  [CONTRACT_PARTS] = {"its parts come in order", 72},
		  [CONTRACT_ANSWERS] = {"answers are the engine's own", 34},
		  [CONTRACT_CLINGS] = {"it has let go when it is shut out", 4}},
};

static int join_nodes(void **state)
{
	world.works = nodes_carry;
	return nodes_begin(0);
}

static int join_bad_nodes(void **state)
{
	world.works = nodes_carry;
	return nodes_begin(1000);
}

static int part_nodes(void **state)
{
	print_message("%" PRIu64 " packets came, %" PRIu64 " had to be sent again\n", nodes_came(),
		      nodes_again());
	nodes_end();
	return forget_works(state);
}

/* ---- Tests ---- */

static void contract(void **state)
{
	const struct contract_instance *in = *state;
	unsigned int left_out[CONTRACT_NEEDS] = {0}, ran = 0;

	for (size_t i = 0; i < sizeof(subjects) / sizeof(*subjects); i++)
		for (const struct contract_case *row = subjects[i]; row->name; row++) {
			if (subjects[i] == in->passes_on)
				break;
			enum contract_need lacks = contract_lacking(in, row->script);

			if (lacks != CONTRACT_NEEDS) {
				print_message("%s: left out, as %s: %s\n", in->name,
					      in->lacks[lacks].why, row->name);
				left_out[lacks]++;
				continue;
			}
			print_message("%s: %s: %s\n", in->name, row->name, row->script);
			contract_run(in, row);
			ran++;
		}
	print_message("%s: %u cases\n", in->name, ran);
	for (unsigned int need = 0; need < CONTRACT_NEEDS; need++)
		assert_int_equal(left_out[need], in->lacks[need].cases);
}

static void contract_without_flips(void **state)
{
	contract(state);
	assert_true(nodes_came() > 500);
	assert_int_equal(nodes_again(), 0);
}

static void contract_with_flips(void **state)
{
	contract(state);
	assert_true(nodes_again() > 20);
}

static void crowd(void **state)
{
	contract_crowd(*state);
}

const struct CMUnitTest contract_list[CONTRACT_TESTS] = {
	{"direct", contract, NULL, NULL, (void *)&direct},
	{"direct, a crowd", crowd, NULL, NULL, (void *)&direct},
	{"pieces", contract, NULL, NULL, (void *)&in_pieces},
	{"pieces, a crowd", crowd, NULL, NULL, (void *)&in_pieces},
	{"by helper", contract, wake_helper, forget_works, (void *)&by_helper},
	{"handed", contract, engage, dismiss, (void *)&handed},
	{"handed, a crowd", crowd, engage, dismiss, (void *)&handed},
	{"between nodes", contract_without_flips, join_nodes, part_nodes, (void *)&between_nodes},
	{"between nodes, with flips", contract_with_flips, join_bad_nodes, part_nodes,
	 (void *)&between_nodes},
	{"between nodes, a crowd", crowd, join_bad_nodes, part_nodes, (void *)&between_nodes},
};

static int attach(void **state)
{
	const struct world_devices *devices = world.devices;

	memset(&world, 0, sizeof(world));
	world.devices = devices;
	if (world_attach(state))
		return -1;
	pieces_attach();
	return 0;
}

static int detach(void **state)
{
	pieces_detach();
	return world_detach(state);
}

int contract_run_test(const struct CMUnitTest *test)
{
	return _cmocka_run_group_tests(test->name, test, 1, attach, detach);
}
