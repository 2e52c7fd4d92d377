/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One flip is corrected, two are seen, and three are taken for one: exhaustively. */
#include "../random.h"
#include "cmocka_all.h"
#include "wire/ape/secded.h"

#define WORDS 20

static struct weft_ape_word some_word(uint64_t *seed)
{
	return weft_ape_secded_encode((struct weft_ape_word){splitmix64(seed), splitmix64(seed)});
}

static void test_one_and_two(void **state)
{
	uint64_t seed = 1;

	for (int n = 0; n < WORDS; n++) {
		struct weft_ape_word good = some_word(&seed), w = good;

		assert_int_equal(weft_ape_secded_check(&w), WEFT_APE_INTACT);
		for (unsigned int a = 0; a < 128; a++) {
			w = good;
			weft_ape_flip_bit(&w, a);
			assert_int_equal(weft_ape_secded_check(&w), WEFT_APE_CORRECTED);
			assert_true(weft_ape_word_equal(w, good));
			for (unsigned int b = 0; b < a; b++) {
				w = good;
				weft_ape_flip_bit(&w, a);
				weft_ape_flip_bit(&w, b);
				struct weft_ape_word before = w;

				assert_int_equal(weft_ape_secded_check(&w), WEFT_APE_SPOILT);
				assert_true(weft_ape_word_equal(w, before));
			}
		}
	}
}

/* Three flips pass as one: shown, so that no other code relies on SECDED there. */
static void test_three_are_wrong(void **state)
{
	uint64_t seed = 2;
	struct weft_ape_word good = some_word(&seed);

	for (unsigned int a = 2; a < 128; a++)
		for (unsigned int b = 1; b < a; b++)
			for (unsigned int c = 0; c < b; c++) {
				struct weft_ape_word w = good;

				weft_ape_flip_bit(&w, a);
				weft_ape_flip_bit(&w, b);
				weft_ape_flip_bit(&w, c);
				assert_int_equal(weft_ape_secded_check(&w), WEFT_APE_CORRECTED);
				assert_false(weft_ape_word_equal(w, good));
			}
}

/* Half of all words pass. */
static void test_random_words(void **state)
{
	uint64_t seed = 3;
	unsigned int pass = 0;

	for (int n = 0; n < 100000; n++) {
		struct weft_ape_word w = {splitmix64(&seed), splitmix64(&seed)};

		pass += weft_ape_secded_check(&w) != WEFT_APE_SPOILT;
	}
	assert_in_range(pass, 49000, 51500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_and_two),
		cmocka_unit_test(test_three_are_wrong),
		cmocka_unit_test(test_random_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
