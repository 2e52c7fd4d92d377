/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A pool's file as members left it, and the damage that is done to it. */
#ifndef WEFT_TESTS_FUZZ_DAMAGE_H
#define WEFT_TESTS_FUZZ_DAMAGE_H

#include <stdbool.h>
#include <stdint.h>

/* Keeps what the file holds; ends the program if it cannot. */
void damage_keep(const char *path);
/* Makes the file anew as it was kept. */
void damage_restore(const char *path);
/* Lets the kept queue pairs be connected to that one. */
void damage_connect(uint32_t qpn, uint16_t member);

/* Changes up to eight places: single bits, bytes, words, or fields of a struct. `deep`: not in the header,
 * where most damage is found at once. */
void damage(const char *path, uint64_t *random, bool deep);
/* What was done last, for the search for a cause. */
void damage_tell(void);

#endif
