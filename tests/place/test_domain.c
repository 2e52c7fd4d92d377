/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A domain whose maker deallocates it while others begin to use it: at each labelled turn of the maker one of
 * them does. Either the maker is refused, or the other; and no other process sees that the maker has tried.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../abi/pool.h"
#include "nic/nic.h"
#include "pool/step.h"
#include "process/object.h"
#include "process/process.h"

#define FAMILY 7u
#define NEVER  UINT32_MAX

/* In place of the parts that would open a device. */
struct weft_process weft_process;
struct weft_nic weft_process_nic;

static struct {
	struct weft_object domain, import;
	struct weft_pool_object copy; /* of the domain, as an importer has found it */
	/* how many turns there were, and at which one an importer begins */
	uint32_t turn, at;
	bool began, kept;
} w;

static void begin(void)
{
	w.began = true;
	++*weft_object_users(&w.import);
	w.kept = weft_object_keep(&w.copy);
	if (!w.kept)
		--*weft_object_users(&w.import);
}

void weft_turn(const char *name)
{
	struct weft_pool_object found;

	assert_true(weft_object_find(WEFT_OBJECT_DOMAIN, FAMILY, w.domain.number, &found));
	assert_int_equal(found.id, w.copy.id);
	assert_true(weft_object_lasts(&w.copy));
	if (w.turn++ == w.at)
		begin();
}

static void make(void)
{
	struct weft_pool_object domain = {.kind = WEFT_OBJECT_DOMAIN, .family = FAMILY};
	struct weft_pool_object import = {.kind = WEFT_OBJECT_IMPORT};

	assert_int_equal(weft_object_make(&w.domain, &domain), 0);
	import.domain = w.domain.number;
	assert_int_equal(weft_object_make(&w.import, &import), 0);
	assert_true(weft_object_find(WEFT_OBJECT_DOMAIN, FAMILY, w.domain.number, &w.copy));
	w.turn = 0;
	w.at = NEVER;
	w.began = w.kept = false;
}

static void expect_ended(void)
{
	assert_false(weft_object_lasts(&w.copy));
	begin();
	assert_false(w.kept);
	weft_object_drop(&w.import);
}

/* Deallocates the domain, and returns how many turns that has. */
static uint32_t end(uint32_t at)
{
	bool ended;

	make();
	w.at = at;
	ended = weft_object_end_domain(&w.domain);
	assert_int_equal(ended, !w.kept);
	if (!ended) {
		assert_true(weft_object_lasts(&w.copy));
		assert_true(weft_object_keep(&w.copy));
		assert_int_equal(*weft_object_users(&w.import), 1);
		w.at = NEVER;
		assert_false(weft_object_end_domain(&w.domain));
		--*weft_object_users(&w.import);
		assert_true(weft_object_end_domain(&w.domain));
	}
	expect_ended();
	return w.turn;
}

static void begun_meanwhile(void **state)
{
	for (uint32_t at = 0, turns = 1; at < turns; at++)
		turns = end(at);
}

static void unused(void **state)
{
	assert_in_range(end(NEVER), 2, NEVER);
	assert_false(w.kept);
}

/* Other processes do not see that the maker tries, however often it does. */
static void used(void **state)
{
	make();
	begin();
	assert_true(w.kept);
	for (int i = 0; i < 3; i++)
		assert_false(weft_object_end_domain(&w.domain));
	assert_int_equal(w.turn, 3);
	--*weft_object_users(&w.import);
	assert_true(weft_object_end_domain(&w.domain));
	expect_ended();
}

static int attach(void **state)
{
	static char where[4096];
	const char *why;

	if (make_pool(state) || weft_pool_get(NULL, &weft_process.pool, where, &why))
		return -1;
	weft_process_nic.pool = weft_process.pool;
	return 0;
}

static int detach(void **state)
{
	weft_pool_put(weft_process.pool);
	return remove_pool(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begun_meanwhile),
		cmocka_unit_test(unused),
		cmocka_unit_test(used),
	};

	return cmocka_run_group_tests(tests, attach, detach);
}
