/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/host.h"
#include "cli/report.h"
#include "pool/pool.h"

#define MS_NS	 1000000ull
#define WATCH_NS 100000000ll

const char weft_host_usage[] =
	"Usage: weft host [--pool PATH] [--json]\n"
	"       weft host up --host NUMBER [--stay] [--pool PATH]\n\n"
	"Hosts are the machines that share a pool, each with a number and a home: a file in its "
	"/dev/shm.\n\n"
	"           without a word: the hosts of a pool, and whether each beats; it takes as long "
	"as "
	"the pool's\n"
	"           silence where one is silent\n"
	"  up       make the home of this machine, which is that host from now on: its programs "
	"need "
	"only the pool\n\n"
	"  --pool PATH    shm:PATH, pci:ADDRESS or dax:PATH (default: $WEFT_POOL)\n"
	"  --host NUMBER  of this machine, 0 to one less than the pool has hosts\n"
	"  --stay         go on until SIGTERM or SIGINT: the host answers the others though no "
	"program "
	"runs\n"
	"  --json         one JSON object: hosts\n\n"
	"0; 1 it could not be done; 2 wrong usage.\n";

static const struct weft_column columns[] = {
	{"number", WEFT_COLUMN_NUMBER},	 {"name", WEFT_COLUMN_TEXT},
	{"life", WEFT_COLUMN_NUMBER},	 {"state", WEFT_COLUMN_TEXT},
	{"members", WEFT_COLUMN_NUMBER}, {"bytes", WEFT_COLUMN_NUMBER},
	{"beat_ms", WEFT_COLUMN_NUMBER}, {NULL},
};

static int fail_of_host(const char *verb, const char *where, const char *why, int err)
{
	bool told = err == -EPROTO || err == -EBUSY || err == -ETIMEDOUT || err == -EINVAL;

	fprintf(stderr, "weft host%s: %s: %s%s%s\n", verb, where, why, told ? "" : ": ",
		told ? "" : strerror(-err));
	return 1;
}

/* ---- Which there are ---- */

void weft_host_report(struct weft_report *r, const struct weft_view_host *host, uint32_t hosts)
{
	static const char *const states[] = {
		[WEFT_HOST_NEVER] = "never",	 [WEFT_HOST_EMPTY] = "empty",
		[WEFT_HOST_UP] = "up",		 [WEFT_HOST_SILENT] = "silent",
		[WEFT_HOST_EVICTED] = "evicted",
	};

	weft_report_section(r, "hosts", false, columns);
	for (uint32_t i = 0; i < hosts; i++) {
		weft_report_row(r);
		weft_report_number(r, i);
		weft_report_text(r, host[i].name);
		weft_report_number(r, host[i].life);
		weft_report_text(r, states[host[i].state]);
		weft_report_number(r, host[i].members);
		weft_report_number(r, host[i].leased_bytes);
		weft_report_number(r, host[i].beat_ns / MS_NS);
	}
}

static int show_hosts(const char *path, bool json)
{
	struct weft_view_host host[WEFT_HOSTS];
	char where[PATH_MAX] = "";
	struct weft_report r;
	const char *why;
	uint32_t hosts;
	int err = weft_view_hosts(path, where, host, &hosts, &why);

	if (err)
		return fail_of_host("", where, why, err);
	weft_report_begin(&r, json);
	weft_host_report(&r, host, hosts);
	weft_report_end(&r);
	return 0;
}

/* ---- Being one ---- */

static atomic_bool ends;

static void end(int number)
{
	atomic_store_explicit(&ends, true, memory_order_relaxed);
}

/* What the helper of a program does, until we are told to end, or have no part in the pool any more. */
static int stay(struct weft_pool *pool)
{
	struct sigaction action = {.sa_handler = end};

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	while (!atomic_load_explicit(&ends, memory_order_relaxed) &&
	       !weft_pool_is_displaced(pool)) {
		weft_pool_sleep(pool, WATCH_NS);
		weft_pool_watch(pool);
	}
	return weft_pool_is_displaced(pool) ? 1 : 0;
}

static int become_host(const char *path, const char *number, bool stays)
{
	struct weft_pool *pool;
	char where[PATH_MAX] = "";
	const char *why =
		"the pool has one host: that of several is shm:PATH, pci:ADDRESS or dax:PATH";
	int err, status;

	setenv("WEFT_HOST", number, 1);
	if (weft_pool_is_made_by_use(path))
		return fail_of_host(" up", path ?: getenv("WEFT_POOL") ?: "the user's own", why, -EINVAL);
	err = weft_pool_get(path, &pool, where, &why);
	if (err)
		return fail_of_host(" up", where, why, err);
	status = stays ? stay(pool) : 0;
	weft_pool_put(pool);
	return status;
}

int weft_host_main(int argc, char **argv)
{
	bool up = argc > 1 && !strcmp(argv[1], "up"), json = false, stays = false;
	const char *path = NULL, *number = NULL;

	for (int i = up ? 2 : 1; i < argc; i++) {
		if (weft_main_pool_option(argc, argv, &i, &path))
			continue;
		if (up && !strcmp(argv[i], "--host") && i + 1 < argc)
			number = argv[++i];
		else if (up && !strcmp(argv[i], "--stay"))
			stays = true;
		else if (!up && !strcmp(argv[i], "--json"))
			json = true;
		else
			return weft_main_usage_error(
				"host", "unknown option or nothing behind '%s'", argv[i]);
	}
	if (!up)
		return show_hosts(path, json);
	if (!number || !*number)
		return weft_main_usage_error("host", "up wants '%s'", "--host NUMBER");
	return become_host(path, number, stays);
}
