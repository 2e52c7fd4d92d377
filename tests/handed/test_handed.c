/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Requests that a card carries out, and what their owner sees of it: the card works when the test says so. In one
 * process, so that time and order are the test's; test_card.c has it in another.
 */
#include "../nic/ends.h"

#include <stdlib.h>
#include <string.h>

#include "courier.h"
#include "transport/registry.h"

static struct courier courier;
static struct weft_caller line;

/* All that can be done now. */
static void carry(void)
{
	while (courier_step(&courier, world.now_ns))
		;
	world_look();
}

static void open_ends(enum weft_qp_type type)
{
	ends_wish = (struct ends_wish){.type = type};
	world.nic.transports = weft_transports;
	memset(&courier, 0, sizeof(courier));
	courier.random = 1;
	courier.part_bytes = 700;
	assert_int_equal(courier_begin(&courier, &world.nic, &line), 0);
	ends_open();
	assert_string_equal(ends_near.qp.transport->name, "handed");
}

static void close_ends(void)
{
	ends_close();
	courier_end(&courier);
}

static bool is_filled(const struct end *e, uint8_t with)
{
	for (uint32_t i = 0; i < ENDS_BYTES; i++)
		if (e->memory[i] != with)
			return false;
	return true;
}

/* ---- The way there and back ---- */

static void a_write(void **state)
{
	open_ends(WEFT_QPT_RC);
	ends_post(WEFT_OP_WRITE, &ends_near);
	assert_true(is_filled(&ends_far, 'f'));
	world_expect_none();
	carry();
	world_expect(1, WEFT_WC_SUCCESS);
	world_expect_none();
	assert_true(is_filled(&ends_far, 'n'));
	assert_int_equal(ends_far.memory[ENDS_BYTES], 'f');
	close_ends();
}

static int attach(void **state)
{
	if (world_attach(state))
		return -1;
	weft_pool_caller_get(world.pool, &line);
	return 0;
}

static int detach(void **state)
{
	weft_pool_caller_put(world.pool, &line);
	return world_detach(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write),
	};

	return cmocka_run_group_tests_name("handed", tests, attach, detach);
}
