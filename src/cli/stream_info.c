/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What this machine has for streams: what they come by, what they may be, and the system's bounds. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/stream.h"
#include "link/stream.h"
#include "wire/nanet/protocol.h"

enum { JSON = 256 };

static const struct option words[] = {{"json", no_argument, NULL, JSON}, {0}};

static bool take_json(void *context, int option)
{
	bool *json = context;

	*json |= option == JSON;
	return option == JSON;
}

/* 0: it cannot be read. */
static uint64_t number_in(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned long long value = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%llu", &value) != 1)
		value = 0;
	fclose(file);
	return value;
}

static void report_links(struct weft_report *r)
{
	char names[128] = "";
	const char *name;

	for (unsigned int i = 0; (name = weft_stream_link_name(i)); i++) {
		size_t used = strlen(names);

		snprintf(names + used, sizeof(names) - used, "%s%s", used ? " " : "", name);
	}
	weft_report_text(r, names);
}

static void report_machine(struct weft_report *r)
{
	static const struct weft_column columns[] = {
		{"links", WEFT_COLUMN_TEXT},
		{"socket_most", WEFT_COLUMN_NUMBER},
		{"socket_default", WEFT_COLUMN_NUMBER},
		{"clock_ns", WEFT_COLUMN_NUMBER},
		{NULL},
	};
	struct timespec tick = {0};

	clock_getres(CLOCK_MONOTONIC, &tick);
	weft_report_section(r, "machine", true, columns);
	weft_report_row(r);
	report_links(r);
	weft_report_number(r, number_in("/proc/sys/net/core/rmem_max"));
	weft_report_number(r, number_in("/proc/sys/net/core/rmem_default"));
	weft_report_number(r, (uint64_t)tick.tv_nsec);
}

static void report_protocols(struct weft_report *r)
{
	static const struct weft_column columns[] = {
		{"protocol", WEFT_COLUMN_TEXT},
		{"numbered", WEFT_COLUMN_FLAG},
		{NULL},
	};

	weft_report_section(r, "protocols", false, columns);
	for (int i = 0; i < WEFT_PROTOCOLS; i++) {
		const struct weft_protocol p = {.kind = (enum weft_protocol_kind)i};

		weft_report_row(r);
		weft_report_text(r, weft_protocol_name(p.kind));
		weft_report_flag(r, weft_protocol_is_numbered(&p));
	}
}

int weft_stream_info(int argc, char **argv)
{
	struct weft_report r;
	bool json = false;
	int status = weft_stream_options(argc, argv, words, take_json, &json);

	if (status)
		return status;
	weft_report_begin(&r, json);
	report_machine(&r);
	report_protocols(&r);
	weft_report_end(&r);
	return 0;
}
