/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Bytes become visible in order: the last byte of a WRITE last, a WRITE before what follows it. Between
 * threads and between processes, for memory of each kind. SECONDS=n plays each case for n seconds.
 */
#include "ends_setup.h"
#include "litmus.h"

#include <stdlib.h>

#include "../abi/pool.h"

#define EACH_NS 15000000ull

static const struct {
	uint32_t bytes, at;
} shapes[] = {
	{2, 0},	    {2, 63},	 {3, 5},       {5, 62},	  {8, 0},    {8, 60},	   {9, 0},
	{12, 4092}, {16, 8},	 {17, 1},      {31, 33},  {32, 0},   {64, 0},	   {65, 0},
	{70, 61},   {100, 4000}, {128, 0},     {129, 7},  {256, 64}, {300, 3},	   {1000, 1},
	{1024, 0},  {2048, 16},	 {3000, 3500}, {4095, 1}, {4096, 0}, {4096, 4095},
};

static uint64_t each_ns = EACH_NS;

static void play(enum litmus_way way, enum kind kind)
{
	uint64_t rounds = 0;

	litmus_receives(&near, &peer);
	for (size_t i = 0; i < COUNT(shapes); i++) {
		struct litmus game = {way, kind, shapes[i].bytes, shapes[i].at, each_ns};

		rounds += litmus_run(&near, &peer, &game);
	}
	print_message("%lu rounds\n", (unsigned long)rounds);
}

#define PLAY(name, way, kind)                                                                      \
	static void name(void **state)                                                             \
	{                                                                                          \
		play(way, kind);                                                                   \
	}

PLAY(last_byte_pooled, LITMUS_LAST_BYTE, KIND_POOLED)
PLAY(last_byte_mixed, LITMUS_LAST_BYTE, KIND_MIXED)
PLAY(last_byte_in_place, LITMUS_LAST_BYTE, KIND_DATA)
PLAY(write_send_pooled, LITMUS_SEND, KIND_POOLED)
PLAY(write_send_in_place, LITMUS_SEND, KIND_STACK)
PLAY(write_imm_pooled, LITMUS_IMM, KIND_POOLED)
PLAY(write_imm_mixed, LITMUS_IMM, KIND_MIXED)
PLAY(write_write_pooled, LITMUS_WRITE, KIND_POOLED)
PLAY(write_write_in_place, LITMUS_WRITE, KIND_SHARED)
PLAY(write_add_pooled, LITMUS_ADD, KIND_POOLED)
PLAY(write_add_in_place, LITMUS_ADD, KIND_DATA)

static int run(void)
{
#define BOTH(name)                                                                                 \
	{#name, name, setup_here, teardown, NULL},                                                 \
	{                                                                                          \
#name "_in_another_process", name, setup_other_process, teardown, NULL             \
	}
	const struct CMUnitTest tests[] = {
		BOTH(last_byte_pooled),	 BOTH(last_byte_mixed),	    BOTH(last_byte_in_place),
		BOTH(write_send_pooled), BOTH(write_send_in_place), BOTH(write_imm_pooled),
		BOTH(write_imm_mixed),	 BOTH(write_write_pooled),  BOTH(write_write_in_place),
		BOTH(write_add_pooled),	 BOTH(write_add_in_place),
	};
	const char *seconds = getenv("SECONDS");

	if (seconds)
		each_ns = strtoull(seconds, NULL, 10) * 1000000000u / COUNT(tests) / COUNT(shapes);
	return cmocka_run_group_tests_name("litmus", tests, make_pool, remove_pool);
}

int main(int argc, char **argv)
{
	return ends_main(argc, argv, run);
}
