/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a command reports: sections of rows, on stdout as tables or as one JSON object with a member
 * for each section. A section lists its columns; each row then adds its cells in that order.
 *
 * Context: one thread. Without memory for a table it says so on stderr and exits with 1.
 */
#ifndef WEFT_CLI_REPORT_H
#define WEFT_CLI_REPORT_H

#include <stdbool.h>
#include <stdint.h>

enum weft_column_kind {
	WEFT_COLUMN_TEXT,
	WEFT_COLUMN_NUMBER,
	WEFT_COLUMN_HEX, /* in JSON a number as any other */
	WEFT_COLUMN_FLAG,
	WEFT_COLUMN_LIST, /* words with '\n' between: an array in JSON, lines in a table */
};

/* The head of a column in a table is its key in capitals, with spaces. */
struct weft_column {
	const char *key;
	enum weft_column_kind kind;
	bool hidden; /* in tables */
};

struct libscols_table;
struct libscols_line;

struct weft_report {
	/* private */
	bool json, single;
	const char *name;
	const struct weft_column *column;
	unsigned int sections, rows, cell;
	struct libscols_table *table;
	struct libscols_line *line;
};

void weft_report_begin(struct weft_report *r, bool json);
void weft_report_end(struct weft_report *r);

/* Columns end with one that has no key. single: there will be one row: in JSON an object instead
 * of an array of objects, and a line for each cell in a table. */
void weft_report_section(struct weft_report *r, const char *name, bool single,
			 const struct weft_column columns[]);
void weft_report_row(struct weft_report *r);

/* The next cell. */
void weft_report_text(struct weft_report *r, const char *text); /* or a list */
void weft_report_number(struct weft_report *r, uint64_t value);
void weft_report_flag(struct weft_report *r, bool value);

#endif
