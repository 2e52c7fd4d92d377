/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Folders of /proc whose entries are numbers, of threads or of descriptors: read by plain system calls, without memory
 * of their own, so that other threads may stand still meanwhile.
 */
#ifndef WEFT_MIGRATE_NUMBERS_H
#define WEFT_MIGRATE_NUMBERS_H

#define WEFT_NUMBERS_NAME 12

/* Calls fn for each number that the folder of this descriptor lists, from its beginning on. 0 or -errno. One thread at
 * a time. */
int weft_numbers_each(int folder, void (*fn)(int number, void *arg), void *arg);

/* The number, not negative, as its entry is named. Returns the length. */
int weft_numbers_name(int number, char name[WEFT_NUMBERS_NAME]);

#endif
