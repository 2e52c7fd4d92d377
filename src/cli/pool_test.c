/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* `weft pool test`: what it is asked, and what is said of what both sides have found (sides.c). */
#include "cli/pool_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/sides.h"
#include "pool/format.h"
#include "pool/trial.h"

#define SECONDS	     5u
#define WAIT_S	     60u
#define MOST_S	     86400u
#define S_NS	     1000000000ull
#define SLOW_LOAD_NS 50u
#define NO_RESULT    2

struct request {
	const char *path;
	uint64_t seconds, wait_s;
	bool adds, may_write, json;
};

static const struct weft_column test_columns[] = {
	{"path", WEFT_COLUMN_TEXT},
	{"pool", WEFT_COLUMN_FLAG},
	{"atomics", WEFT_COLUMN_FLAG},
	{"one_kernel", WEFT_COLUMN_FLAG},
	{"wrong", WEFT_COLUMN_FLAG},
	{"verdict", WEFT_COLUMN_LIST},
	{NULL},
};

static const struct weft_column side_columns[] = {
	{"side", WEFT_COLUMN_TEXT},	 {"name", WEFT_COLUMN_TEXT},
	{"stored", WEFT_COLUMN_NUMBER},	 {"read", WEFT_COLUMN_NUMBER},
	{"back", WEFT_COLUMN_NUMBER},	 {"stale", WEFT_COLUMN_NUMBER},
	{"torn", WEFT_COLUMN_NUMBER},	 {"missing", WEFT_COLUMN_NUMBER},
	{"met", WEFT_COLUMN_NUMBER},	 {"sum", WEFT_COLUMN_NUMBER},
	{"load_ns", WEFT_COLUMN_NUMBER}, {NULL},
};

/* ---- What was found ---- */

static uint64_t of_both(const struct weft_sides_outcome *o, enum weft_trial_finding what)
{
	return o->mine.found[what] + o->theirs.found[what];
}

static bool came_late(const struct weft_sides_outcome *o)
{
	return of_both(o, WEFT_TRIAL_BACK) || of_both(o, WEFT_TRIAL_STALE) ||
	       of_both(o, WEFT_TRIAL_MISSING);
}

static bool is_lost(const struct weft_sides_outcome *o)
{
	return o->added && (o->mine.found[WEFT_TRIAL_SUM] != 2 * WEFT_SIDES_ADDITIONS ||
			    o->theirs.found[WEFT_TRIAL_SUM] != 2 * WEFT_SIDES_ADDITIONS);
}

static bool is_wrong(const struct weft_sides_outcome *o)
{
	return came_late(o) || of_both(o, WEFT_TRIAL_TORN) || is_lost(o);
}

static bool is_slow(const struct weft_sides_outcome *o)
{
	return o->mine.found[WEFT_TRIAL_LOAD_NS] >= SLOW_LOAD_NS ||
	       o->theirs.found[WEFT_TRIAL_LOAD_NS] >= SLOW_LOAD_NS;
}

static const char *about_additions(const struct weft_sides_outcome *o)
{
	if (is_lost(o))
		return "additions were lost: atomic instructions do not hold between the hosts, "
		       "and no pool here may say --atomics";
	if (o->added)
		return of_both(o, WEFT_TRIAL_MET_ADDS) ? NULL
						       : "the additions of one host never met "
							 "those of the other: try again";
	return o->mine.adds || o->theirs.adds
		       ? "atomic instructions were not tried: the other command was without "
			 "--atomics"
		       : "atomic instructions were not tried: no --atomics was said";
}

static void say_verdict(struct weft_report *r, const struct weft_sides_outcome *o)
{
	const char *lines[] = {
		came_late(o) ? "stores were seen late, or not at all: the memory is not coherent "
			       "between the hosts, and no pool can be made there"
			     : NULL,
		of_both(o, WEFT_TRIAL_TORN) ? "words were torn: 8 bytes are not stored as one"
					    : NULL,
		about_additions(o),
		is_slow(o) ? "a load takes long: the memory is mapped uncached, or emulated" : NULL,
		o->mine.kernel == o->theirs.kernel
			? "both sides are on one kernel: that says nothing of another machine"
			: NULL,
		is_wrong(o) ? NULL : "nothing wrong was seen, which is no proof",
	};
	char text[1024] = "";

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		if (lines[i])
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
				 *text ? "\n" : "", lines[i]);
	weft_report_text(r, text);
}

static void say_side(struct weft_report *r, const char *side, const struct weft_sides_one *one)
{
	weft_report_row(r);
	weft_report_text(r, side);
	weft_report_text(r, one->name);
	weft_report_number(r, one->stored);
	for (uint32_t i = 0; i < WEFT_TRIAL_FINDINGS; i++)
		weft_report_number(r, one->found[i]);
}

static void say_all(const struct request *request, const struct weft_trial *trial,
		    const struct weft_sides_outcome *o)
{
	struct weft_report r;

	weft_report_begin(&r, request->json);
	weft_report_section(&r, "test", true, test_columns);
	weft_report_row(&r);
	weft_report_text(&r, request->path);
	weft_report_flag(&r, trial->is_pool);
	weft_report_flag(&r, o->added);
	weft_report_flag(&r, o->mine.kernel == o->theirs.kernel);
	weft_report_flag(&r, is_wrong(o));
	say_verdict(&r, o);
	weft_report_section(&r, "sides", false, side_columns);
	say_side(&r, "here", &o->mine);
	say_side(&r, "there", &o->theirs);
	weft_report_end(&r);
}

/* ---- The command ---- */

static int no_result(const char *path, const char *why, int err)
{
	bool told = err == -EPROTO || err == -ETIMEDOUT || err == -EINVAL || err == -ENOSPC ||
		    err == -ECONNRESET;

	fprintf(stderr, "weft pool test: %s: %s%s%s\n", path, why, told ? "" : ": ",
		told ? "" : strerror(-err));
	return NO_RESULT;
}

static int run_test(struct request *request)
{
	struct weft_sides_plan plan = {.store_ns = request->seconds * S_NS,
				       .wait_ns = request->wait_s * S_NS};
	struct weft_sides_outcome outcome;
	struct weft_trial trial;
	char where[PATH_MAX];
	const char *why;
	int err = weft_trial_open(request->path, where, &trial, &why);

	if (err)
		return no_result(request->path, why, err);
	plan.adds = request->adds || trial.flags & WEFT_POOL_ATOMICS;
	why = "no pool is there, but something else: --yes says that it may be written over";
	err = trial.is_others && !request->may_write ? -EINVAL : 0;
	if (!err)
		err = weft_sides_try(trial.room, &plan, &outcome, &why);
	if (!err)
		say_all(request, &trial, &outcome);
	weft_trial_close(&trial);
	if (err)
		return no_result(request->path, why, err);
	return is_wrong(&outcome) ? 1 : 0;
}

int weft_pool_test(int argc, char **argv)
{
	struct request request = {.seconds = SECONDS, .wait_s = WAIT_S};

	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "--atomics"))
			request.adds = true;
		else if (!strcmp(argv[i], "--yes"))
			request.may_write = true;
		else if (!strcmp(argv[i], "--json"))
			request.json = true;
		else if (!weft_pool_number_option(argc, argv, &i, "--seconds", &request.seconds) &&
			 !weft_pool_number_option(argc, argv, &i, "--wait", &request.wait_s)) {
			if (request.path || argv[i][0] == '-')
				return weft_main_usage_error(
					"pool", "unknown option or no number behind '%s'", argv[i]);
			request.path = argv[i];
		}
	}
	if (!request.path || !request.seconds || request.seconds > MOST_S || !request.wait_s ||
	    request.wait_s > MOST_S)
		return weft_main_usage_error("pool", "test wants '%s'",
					     "shm:PATH, pci:ADDRESS or dax:PATH");
	return run_test(&request);
}
