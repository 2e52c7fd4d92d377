/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A pool's file as its members have left it, and the damage that is done to it. */
#ifndef WEFT_TESTS_FUZZ_DAMAGE_H
#define WEFT_TESTS_FUZZ_DAMAGE_H

#include <stdbool.h>
#include <stdint.h>

/* Keeps the file's contents. Ends the program if that is not possible. */
void damage_keep(const char *path);
/* Makes the file again, as it was kept. */
void damage_restore(const char *path);
/* Sets the peers of the kept queue pairs to that one, so that it can be connected to them. */
void damage_connect(uint32_t qpn, uint16_t member);

/* Changes up to eight places: single bits, bytes, words, or fields of a struct. `deep`: no place is in the
 * header, where most damage is found when the pool is opened. */
void damage(const char *path, uint64_t *random, bool deep);
/* Prints the last damage, for the search for a failure's cause. */
void damage_tell(void);

#endif
