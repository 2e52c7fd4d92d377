/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Ways of migrating memory, each tried in a process of its own. */
#ifndef WEFT_TESTS_WAYS_H
#define WEFT_TESTS_WAYS_H

#include <stdbool.h>
#include <stddef.h>

struct way {
	const char *name;
	const char *forced; /* $WEFT_MIGRATE */
	bool user;	    /* as an ordinary user, if root runs the test */
	/* as a program that has changed its user, to which /proc does not tell its threads'
	 * calls */
	bool undumpable;
	bool container; /* without userfaultfd */
};

/* Userfaultfd and protection, as root and as a user, and in a container. */
extern const struct way ways[];
extern const size_t nways;

/* Runs fn in a child, in that way. Returns whether fn returned 0, or the kernel does not allow that way. */
bool way_run(const struct way *way, int (*fn)(void *arg), void *arg);

/* Makes userfaultfd fail, and the ioctl that asks for single mappings. Returns 0 or -1. */
int way_enter_container(void);

/* Registers and deregisters once; whether the memory was in the pool. Ends the process if it cannot be registered. */
bool way_migrate_once(void *memory, size_t len_bytes);

/* Registers and deregisters until there were so many migrations, and prints how many. Ends the process if the
 * memory hardly ever migrates. */
void way_migrate(void *memory, size_t len_bytes, unsigned long migrations);

#endif
