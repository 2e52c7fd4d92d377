/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "cli/checkup.h"

const char weft_doctor_usage[] =
	"Usage: weft doctor [--pool PATH] [--fix] [--json] [PROGRAM]\n"
	"Says what is wrong on this machine for programs over Weft, and what to do. With PROGRAM: "
	"also\n"
	"whether Weft's libraries can come into it. It does not run PROGRAM.\n\n"
	"  --pool PATH  the pool (default: $WEFT_POOL, else /dev/shm/weft-UID)\n"
	"  --fix        give back what dead programs left; remove pools of other versions that "
	"nobody\n"
	"               uses\n"
	"  --json       one JSON object: checks, summary\n\n"
	"0 nothing is wrong; 1 a problem was found; 2 wrong usage. Notes are no problems: programs "
	"run,\n"
	"but slower than they could.\n";

static const struct weft_column check_columns[] = {
	{"state", WEFT_COLUMN_TEXT},
	{"check", WEFT_COLUMN_TEXT},
	{"finding", WEFT_COLUMN_TEXT},
	{"remedy", WEFT_COLUMN_TEXT, true}, /* a table has it below the finding */
	{NULL},
};

static const struct weft_column summary_columns[] = {
	{"problems", WEFT_COLUMN_NUMBER},
	{"notes", WEFT_COLUMN_NUMBER},
	{"fixed", WEFT_COLUMN_NUMBER},
	{NULL},
};

void weft_checkup_say(struct weft_checkup *c, const char *check, enum weft_verdict verdict,
		      const char *finding, const char *remedy)
{
	static const char *const states[WEFT_VERDICTS] = {"ok", "note", "fixed", "PROBLEM"};
	static const char *const json_states[WEFT_VERDICTS] = {"ok", "note", "fixed", "problem"};
	bool json = c->report.json;
	char both[2048];

	c->count[verdict]++;
	snprintf(both, sizeof(both), remedy && !json ? "%s\n  %s" : "%s", finding, remedy);
	weft_report_row(&c->report);
	weft_report_text(&c->report, (json ? json_states : states)[verdict]);
	weft_report_text(&c->report, check);
	weft_report_text(&c->report, both);
	weft_report_text(&c->report, remedy ?: "");
}

static int examine(struct weft_checkup *c, bool json)
{
	weft_report_begin(&c->report, json);
	weft_report_section(&c->report, "checks", false, check_columns);
	weft_check_kernel(c);
	weft_check_limits(c);
	weft_check_pool(c);
	weft_check_strays(c);
	weft_check_wire(c);
	weft_check_gpu(c);
	weft_check_program(c);
	weft_report_section(&c->report, "summary", true, summary_columns);
	weft_report_row(&c->report);
	weft_report_number(&c->report, c->count[WEFT_VERDICT_PROBLEM]);
	weft_report_number(&c->report, c->count[WEFT_VERDICT_NOTE]);
	weft_report_number(&c->report, c->count[WEFT_VERDICT_FIXED]);
	weft_report_end(&c->report);
	return c->count[WEFT_VERDICT_PROBLEM] ? 1 : 0;
}

int weft_doctor_main(int argc, char **argv)
{
	struct weft_checkup c = {.pool = NULL};
	bool json = false;

	for (int i = 1; i < argc; i++) {
		if (weft_main_pool_option(argc, argv, &i, &c.pool))
			continue;
		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (!strcmp(argv[i], "--fix"))
			c.fix = true;
		else if (argv[i][0] != '-' && !c.program)
			c.program = argv[i];
		else
			return weft_main_usage_error(
				"doctor", "unknown option or nothing behind '%s'", argv[i]);
	}
	return examine(&c, json);
}
