/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Shared mappings of this process by the names that the kernel gives them: by plain system calls, without memory of
 * their own, so that other threads may stand still meanwhile.
 */
#ifndef WEFT_MIGRATE_NAMED_H
#define WEFT_MIGRATE_NAMED_H

#include <stdbool.h>

/* Whether the name of a shared mapping, as the kernel writes it, contains one of the words, of which the last is
 * NULL; true if the mappings cannot be read. Reads all shared ones; *looked_at: how many, or more. One thread at a time. */
bool weft_named_shared(const char *const *words, unsigned int *looked_at);

#endif
