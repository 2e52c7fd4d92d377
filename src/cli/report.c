/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/report.h"

#include <ctype.h>
#include <inttypes.h>
#include <libsmartcols.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON: written as it comes ---- */

static void put_string(const char *text, size_t len)
{
	/* JSON is UTF-8; the bytes of what is not are shown as characters of that number */
	bool valid = mbstowcs(NULL, text, 0) != (size_t)-1;

	putchar('"');
	for (; len; len--, text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < ' ' || c == 0x7f || (c > 0x7f && !valid))
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void put_list(const char *words)
{
	putchar('[');
	while (*words) {
		size_t len = strcspn(words, "\n");

		put_string(words, len);
		words += len;
		if (*words) {
			words++;
			putchar(',');
		}
	}
	putchar(']');
}

static void close_row(struct weft_report *r)
{
	if (r->rows)
		putchar('}');
}

static void close_section(struct weft_report *r)
{
	if (!r->sections)
		return;
	close_row(r);
	if (!r->single)
		putchar(']');
}

/* ---- Tables: gathered, then printed by libsmartcols ---- */

static void need(bool there)
{
	if (there)
		return;
	fputs("weft: out of memory\n", stderr);
	exit(1);
}

static void add_column(struct weft_report *r, const char *head, int flags)
{
	struct libscols_column *column = scols_table_new_column(r->table, head, 0, flags);

	need(column);
	if (flags & SCOLS_FL_WRAP)
		need(!scols_column_set_safechars(column, "\n") &&
		     !scols_column_set_wrapfunc(column, scols_wrapnl_chunksize,
						scols_wrapnl_nextchunk, NULL));
}

static void head_of(const char *key, char *head, size_t size, bool capitals)
{
	size_t i;

	for (i = 0; key[i] && i < size - 1; i++)
		head[i] = (char)(key[i] == '_' ? ' ' : capitals ? toupper(key[i]) : key[i]);
	head[i] = '\0';
}

static int column_flags(const struct weft_column *c)
{
	int flags = c->hidden ? SCOLS_FL_HIDDEN : 0;

	if (c->kind == WEFT_COLUMN_NUMBER || c->kind == WEFT_COLUMN_HEX)
		return flags | SCOLS_FL_RIGHT;
	return c->kind == WEFT_COLUMN_FLAG ? flags : flags | SCOLS_FL_WRAP;
}

static void open_table(struct weft_report *r)
{
	char head[64];

	r->table = scols_new_table();
	need(r->table);
	scols_table_enable_noheadings(r->table, r->single);
	if (r->single) {
		add_column(r, "name", 0);
		add_column(r, "value", SCOLS_FL_WRAP);
		return;
	}
	for (const struct weft_column *c = r->column; c->key; c++) {
		head_of(c->key, head, sizeof(head), true);
		add_column(r, head, column_flags(c));
	}
}

static void print_table(struct weft_report *r)
{
	if (!r->table)
		return;
	printf("%s%s%s\n", r->sections > 1 ? "\n" : "", r->name, r->rows ? "" : ": none");
	if (r->rows)
		scols_print_table(r->table);
	scols_unref_table(r->table);
	r->table = NULL;
}

static void set_cell(struct weft_report *r, const char *text)
{
	const struct weft_column *c = &r->column[r->cell];
	char head[64];

	if (!r->single) {
		need(!scols_line_set_data(r->line, r->cell, text));
		return;
	}
	if (c->hidden)
		return;
	head_of(c->key, head, sizeof(head), false);
	r->line = scols_table_new_line(r->table, NULL);
	need(r->line && !scols_line_set_data(r->line, 0, head) &&
	     !scols_line_set_data(r->line, 1, text));
}

/* ---- Both ---- */

void weft_report_begin(struct weft_report *r, bool json)
{
	*r = (struct weft_report){.json = json};
	/* widths of characters in a table, and what is UTF-8 in JSON */
	setlocale(LC_CTYPE, json ? "C.UTF-8" : "");
	if (json)
		putchar('{');
}

void weft_report_end(struct weft_report *r)
{
	if (r->json) {
		close_section(r);
		puts("}");
	} else {
		print_table(r);
	}
}

void weft_report_section(struct weft_report *r, const char *name, bool single,
			 const struct weft_column columns[])
{
	if (r->json)
		close_section(r);
	else
		print_table(r);
	r->name = name;
	r->single = single;
	r->column = columns;
	r->rows = 0;
	if (r->json)
		printf("%s\n\"%s\":%s", r->sections ? "," : "", name, single ? "" : "[");
	r->sections++;
	if (!r->json)
		open_table(r);
}

void weft_report_row(struct weft_report *r)
{
	if (r->json) {
		close_row(r);
		printf("%s%s{", r->rows ? "," : "", r->single ? "" : "\n");
	} else if (!r->single) {
		r->line = scols_table_new_line(r->table, NULL);
		need(r->line);
	}
	r->rows++;
	r->cell = 0;
}

static void put_column_name(const struct weft_report *r)
{
	printf("%s\"%s\":", r->cell ? "," : "", r->column[r->cell].key);
}

void weft_report_text(struct weft_report *r, const char *text)
{
	if (!r->json) {
		set_cell(r, text);
	} else {
		put_column_name(r);
		if (r->column[r->cell].kind == WEFT_COLUMN_LIST)
			put_list(text);
		else
			put_string(text, strlen(text));
	}
	r->cell++;
}

void weft_report_number(struct weft_report *r, uint64_t value)
{
	bool hex = r->column[r->cell].kind == WEFT_COLUMN_HEX;
	char text[32];

	if (r->json) {
		put_column_name(r);
		printf("%" PRIu64, value);
	} else {
		snprintf(text, sizeof(text), hex ? "0x%" PRIx64 : "%" PRIu64, value);
		set_cell(r, text);
	}
	r->cell++;
}

void weft_report_flag(struct weft_report *r, bool value)
{
	if (r->json) {
		put_column_name(r);
		fputs(value ? "true" : "false", stdout);
	} else {
		set_cell(r, value ? "yes" : "no");
	}
	r->cell++;
}
