/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process that opens the device, makes a domain, regions and device memory, and passes its descriptor
 * to the test, which imports them. It makes no queue pair, and does what it is told.
 */
#ifndef WEFT_TESTS_VERBS_EXPORTER_H
#define WEFT_TESTS_VERBS_EXPORTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define EXPORTED_BYTES (4u << 20)

enum export_order {
	EXPORT_NOTHING,
	EXPORT_REGISTER,   /* all of it; argument: access */
	EXPORT_DEREGISTER, /* the last region */
	EXPORT_RIGHTS,	   /* the last region; argument: access */
	EXPORT_FILL,	   /* argument: the byte */
	EXPORT_CHECK,	   /* argument: the byte; result: how many are another */
	EXPORT_UNMAP,
	EXPORT_GUARD,	/* fills it, and looks for 100 ms; result: how many changed */
	EXPORT_DEALLOC, /* result: the errno */
	EXPORT_CLOSE,
	EXPORT_FREE_DM,
	EXPORT_FILL_DM, /* argument: the byte */
	EXPORT_ARM,	/* a completion queue, for which it starts its helper; result: the errno */
};

struct exported {
	_Atomic uint32_t order, done;
	uint64_t argument, result;
	/* set when it is ready */
	uint32_t pd, mr, dm; /* handles */
	uint32_t key;	     /* of mr */
	uint8_t *at;	     /* where its memory lies, there */
};

struct exporter {
	pid_t pid;
	int fd; /* its cmd_fd */
	struct exported *shared;
};

/* Forks it: nothing of Weft may be open here yet. in_place: its memory cannot move into the pool. */
void exporter_start(struct exporter *e, bool in_place);
/* Has it do that; its result. */
uint64_t exporter_do(struct exporter *e, enum export_order order, uint64_t argument);
void exporter_kill(struct exporter *e);

/* Descriptors between processes. */
void pass_fd(int sock, int fd);
int take_fd(int sock);

#endif
