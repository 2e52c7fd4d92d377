/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The seam between `weft doctor` and its checks. A check looks at one part of the machine and says
 * one finding or more; it changes nothing unless `fix` is set.
 */
#ifndef WEFT_CLI_CHECKUP_H
#define WEFT_CLI_CHECKUP_H

#include "cli/report.h"

enum weft_verdict {
	WEFT_VERDICT_OK,
	WEFT_VERDICT_NOTE, /* programs run, but slower or less of them */
	WEFT_VERDICT_FIXED,
	WEFT_VERDICT_PROBLEM,
	WEFT_VERDICTS,
};

struct weft_checkup {
	struct weft_report report;
	const char *pool;    /* or NULL: the default */
	const char *program; /* or NULL */
	bool fix;
	unsigned int count[WEFT_VERDICTS];
};

/* finding: what is, in a few words; remedy: what to do, or NULL. */
void weft_checkup_say(struct weft_checkup *c, const char *check, enum weft_verdict verdict,
		      const char *finding, const char *remedy);

void weft_check_kernel(struct weft_checkup *c);	 /* the calls that Weft makes of it */
void weft_check_limits(struct weft_checkup *c);	 /* of this process and its cgroup */
void weft_check_pool(struct weft_checkup *c);	 /* the pool and its file system */
void weft_check_strays(struct weft_checkup *c);	 /* pools whose file or program has gone */
void weft_check_wire(struct weft_checkup *c);	 /* what cards need towards other hosts */
void weft_check_gpu(struct weft_checkup *c);	 /* memory of GPUs, where there is a driver */
void weft_check_program(struct weft_checkup *c); /* our libraries, and whether they come in */

#endif
