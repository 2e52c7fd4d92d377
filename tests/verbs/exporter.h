/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process that opens the device, makes a domain, regions and device memory, and passes the device's
 * descriptor to the test, which imports them. It makes no queue pair, and obeys one order after the other.
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
	EXPORT_REGISTER,   /* registers all its memory; argument: access */
	EXPORT_DEREGISTER, /* deregisters its last region */
	EXPORT_RIGHTS,	   /* changes the access of its last region; argument: access */
	EXPORT_FILL,	   /* fills its memory; argument: the byte */
	/* argument: the byte; result: how many bytes of its memory are another */
	EXPORT_CHECK,
	EXPORT_UNMAP,
	/* fills its memory, and looks for 100 ms; result: how many bytes have changed */
	EXPORT_GUARD,
	EXPORT_DEALLOC, /* deallocates the domain; result: the errno */
	EXPORT_CLOSE,
	EXPORT_FREE_DM,
	EXPORT_FILL_DM, /* fills its device memory; argument: the byte */
	/* arms a completion queue, for which its process starts a helper; result: the errno */
	EXPORT_ARM,
};

struct exported {
	_Atomic uint32_t order, done;
	uint64_t argument, result;
	/* set when the exporter is ready */
	uint32_t pd, mr, dm; /* handles */
	uint32_t key;	     /* of mr */
	uint8_t *at;	     /* where the memory lies in the exporter's process */
};

struct exporter {
	pid_t pid;
	int fd; /* its context's cmd_fd */
	struct exported *shared;
};

/* Forks the exporter: this process may not have anything of Weft open yet. in_place: the exporter's memory
 * cannot migrate into the pool. */
void exporter_start(struct exporter *e, bool in_place);
/* Has the exporter obey an order, and returns its result. */
uint64_t exporter_do(struct exporter *e, enum export_order order, uint64_t argument);
void exporter_kill(struct exporter *e);

/* Pass a descriptor to another process, and take one. */
void pass_fd(int sock, int fd);
int take_fd(int sock);

#endif
