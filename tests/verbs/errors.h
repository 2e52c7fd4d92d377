/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The rows of errors.tsv. */
#ifndef WEFT_TESTS_VERBS_ERRORS_H
#define WEFT_TESTS_VERBS_ERRORS_H

#include "causes.h"

#define ERRORS_ROWS 512
#define LOST	    (-1) /* the status of a completion that does not come */
#define GONE	    IBV_QPS_UNKNOWN

/* One row's outcome. `event` and `peer_event` have a bit for each type of event, 0 for no event. A status of
 * "-" in the table is 0, too. */
struct outcome {
	int status, state;
	unsigned int event;
	int receive;
	int peer;
	unsigned int peer_event;
};

struct row {
	int line; /* in the file */
	enum verb verb;
	const struct cause *cause; /* NULL: no cause has the name that the row gives */
	const char *trouble;	   /* what is wrong with the row, or NULL */
	char name[128];		   /* of the row's test: one word, as tests/run.py wants it */
	struct outcome outcome;
	char clause[16];
};

extern struct row rows[ERRORS_ROWS];
extern size_t nrows;

/* False: the table cannot be opened. */
bool read_table(const char *path);

#endif
