/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The rows of errors.tsv. */
#ifndef WEFT_TESTS_VERBS_ERRORS_H
#define WEFT_TESTS_VERBS_ERRORS_H

#include "causes.h"

#define ERRORS_ROWS 512
#define LOST	    (-1) /* for the status of a completion that does not come */
#define GONE	    IBV_QPS_UNKNOWN

/* As the table has it; `event` are bits of their types, 0 for none, as is a status of -. */
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
	const struct cause *cause; /* NULL: the code has none such */
	const char *trouble;	   /* what is wrong with the row, or NULL */
	char name[128];		   /* of its test: one word, as tests/run.py wants it */
	struct outcome outcome;
	char clause[16];
};

extern struct row rows[ERRORS_ROWS];
extern size_t nrows;

/* False: it cannot be opened. */
bool read_table(const char *path);

#endif
