/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * As much of cmocka's interface as tests of pure code need, for machines for which there is no cmocka: a check that fails ends the
 * program. Each function is of the one program that includes this.
 */
#ifndef WEFT_TESTS_BIG_ENDIAN_CMOCKA_H
#define WEFT_TESTS_BIG_ENDIAN_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*run)(void **state);
	int (*teardown)(void **state);
};

#define cmocka_unit_test(f) cmocka_unit_test_teardown(f, NULL)
#define cmocka_unit_test_teardown(f, end)                                                          \
	{                                                                                          \
#f, f, end                                                                         \
	}
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
	shim_run(tests, sizeof(tests) / sizeof(*(tests)), setup)

#define SHIM_CHECK(holds, what)                                                                    \
	((holds) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, what), exit(1)))
#define assert_true(c)	   SHIM_CHECK(c, #c)
#define assert_false(c)	   SHIM_CHECK(!(c), "not " #c)
#define assert_non_null(c) SHIM_CHECK((c) != NULL, #c)
#define assert_null(c)	   SHIM_CHECK((c) == NULL, #c)
#define assert_int_equal(a, b)                                                                     \
	SHIM_CHECK((unsigned long long)(a) == (unsigned long long)(b), #a " == " #b)
#define assert_int_not_equal(a, b)                                                                 \
	SHIM_CHECK((unsigned long long)(a) != (unsigned long long)(b), #a " != " #b)
#define assert_in_range(v, a, b)     SHIM_CHECK((v) - (a) <= (b) - (a), #v)
#define assert_memory_equal(a, b, n) SHIM_CHECK(!memcmp(a, b, n), #a " is " #b)
#define assert_string_equal(a, b)    SHIM_CHECK(!strcmp(a, b), #a " is " #b)
#define fail()			     SHIM_CHECK(0, "fail")
#define fail_msg(...)		     (fprintf(stderr, __VA_ARGS__), exit(1))
#define print_message		     printf

static inline int shim_run(const struct CMUnitTest *tests, size_t count, int (*setup)(void **))
{
	void *none = NULL;

	if (setup && setup(&none))
		return 1;
	for (size_t i = 0; i < count; i++) {
		void *state = NULL;

		tests[i].run(&state);
		if (tests[i].teardown && tests[i].teardown(&state))
			return 1;
		printf("ok %s\n", tests[i].name);
	}
	return 0;
}

#endif
