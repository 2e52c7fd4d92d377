/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of `weft pool` have in common. Context: one thread. */
#ifndef WEFT_CLI_POOL_TEST_H
#define WEFT_CLI_POOL_TEST_H

#include <stdbool.h>
#include <stdint.h>

/* `weft pool test`, by all words of `weft pool`; the exit status. */
int weft_pool_test(int argc, char **argv);
/* Whether argv[*i] is that option, with a number behind it, to which *i moves. */
bool weft_pool_number_option(int argc, char **argv, int *i, const char *name, uint64_t *value);

#endif
