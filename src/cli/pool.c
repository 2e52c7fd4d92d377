/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/cli.h"

#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/pool_test.h"
#include "cli/report.h"
#include "pool/format.h"
#include "pool/pool.h"
#include "pool/view.h"

#define SILENCE_MS 3000u

const char weft_pool_usage[] =
	"Usage: weft pool [list] [--json]\n"
	"       weft pool rm | recover [--pool PATH]\n"
	"       weft pool evict HOST --yes [--pool PATH]\n"
	"       weft pool create shm:PATH | pci:ADDRESS | dax:PATH --hosts NUMBER [--bytes NUMBER] "
	"[--silence "
	"MS]\n"
	"                   [--atomics] [--coherent]\n"
	"       weft pool test shm:PATH | pci:ADDRESS | dax:PATH [--atomics] [--seconds S] [--wait "
	"S] [--yes] [--json]\n\n"
	"  list     the pools in /dev/shm and $WEFT_POOL that you may read\n"
	"  rm       remove a pool that nobody uses\n"
	"  recover  give back what dead programs have left in a pool; programs that join do so, "
	"too\n"
	"  evict    say that a silent host does not go on, so that what is kept for it is free: "
	"its machine must be off, or\n"
	"           what its programs still write damages others; --yes says that it is\n"
	"  create   make a pool of several hosts in a file, in BAR 2 of a PCIe device, or in a "
	"device-dax: "
	"$WEFT_HOST says which of them a "
	"program is\n"
	"           of, 0 to NUMBER - 1\n"
	"  test     try whether what one host stores the others load, and whether additions of two "
	"hosts to one word hold.\n"
	"           Run it on two hosts at once, with a pool there or without. It can disprove "
	"that, "
	"not prove it\n\n"
	"  --pool PATH  the pool (default: $WEFT_POOL, else /dev/shm/weft-UID)\n"
	"  --json       one JSON object: pools; of test: test, sides\n"
	"  --hosts N    a power of two, up to 64\n"
	"  --bytes N    the size of the file, at most 256 GiB (0, default: as large as the memory, "
	"nearly all a hole)\n"
	"  --atomics    the processor's atomic instructions hold between the hosts; without it "
	"what needs one is "
	"asked of the\n"
	"               owner's process, which is slow: UD, shared receive queues, XRC, atomics\n"
	"  --coherent   what one host stores the others load with no more ado: of dax: it has to "
	"be said\n"
	"  --silence MS a host whose programs all stand still for so long is silent: 1 to 60000 "
	"(3000)\n\n"
	"  --seconds S  of test: how long numbers are stored and looked for (5)\n"
	"  --wait S     of test: how long the other host may take to come, or stand still (60)\n"
	"  --yes        of test: there is no pool, and what else lies in the memory may be written "
	"over\n\n"
	"0; 1 it could not be done; 2 wrong usage. Of test: 0 nothing wrong was seen; 1 something "
	"was; 2 it came to no\nresult, as the other host did not come, or wrong usage.\n";

static const struct weft_column columns[] = {
	{"path", WEFT_COLUMN_TEXT},
	{"uid", WEFT_COLUMN_NUMBER},
	{"alive", WEFT_COLUMN_NUMBER},
	{"dead", WEFT_COLUMN_NUMBER},
	{"allocated_bytes", WEFT_COLUMN_NUMBER},
	{"state", WEFT_COLUMN_TEXT},
	{NULL},
};

/* The home of a host (backing/home.c): /dev/shm/weft-, 16 digits, and the host's number. */
static bool is_home(const char *path)
{
	const char *id = path + strlen("/dev/shm/weft-");

	return strspn(id, "0123456789abcdef") == 16 && id[16] == '-' &&
	       id[17 + strspn(id + 17, "0123456789")] == '\0';
}

static void list_one(struct weft_report *r, const char *path)
{
	const char *file = strncmp(path, "shm:", 4) ? path : path + 4;
	char where[PATH_MAX];
	unsigned int alive = 0, dead = 0;
	struct weft_view *v = NULL;
	const char *why = "ok";
	struct stat st;
	int err = weft_view_open(path, where, &v, &why);

	/* what may not be read is another user's; what is no pool only has the name */
	if (stat(file, &st) || !S_ISREG(st.st_mode) || (err && err != -EPROTO))
		goto close_view;
	for (unsigned int i = 0; v && i < v->nmembers; i++) {
		alive += v->member[i].incarnation && v->member[i].alive;
		dead += v->member[i].incarnation && !v->member[i].alive;
	}
	weft_report_row(r);
	weft_report_text(r, path);
	weft_report_number(r, st.st_uid);
	weft_report_number(r, alive);
	weft_report_number(r, dead);
	weft_report_number(r, (uint64_t)st.st_blocks * 512);
	weft_report_text(r, err ? why : "ok");
close_view:
	if (v)
		weft_view_close(v);
}

static int list(bool json)
{
	const char *named = getenv("WEFT_POOL");
	struct weft_report r;
	glob_t found = {0};
	bool seen = false;

	glob("/dev/shm/weft-*", 0, NULL, &found);
	glob("/dev/shm/weft-*/pool", GLOB_APPEND, NULL, &found); /* private ones */
	weft_report_begin(&r, json);
	weft_report_section(&r, "pools", false, columns);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		seen |= named && !strcmp(named, found.gl_pathv[i]);
		if (!is_home(found.gl_pathv[i]))
			list_one(&r, found.gl_pathv[i]);
	}
	if (named && *named && !seen)
		list_one(&r, named);
	weft_report_end(&r);
	globfree(&found);
	return 0;
}

static int fail(const char *verb, const char *path, const char *why, int err)
{
	bool told = err == -EPROTO || err == -EBUSY || err == -ETIMEDOUT || err == -EINVAL;

	fprintf(stderr, "weft pool %s: %s%s%s%s%s\n", verb, path ?: "", path ? ": " : "", why,
		told ? "" : ": ", told ? "" : strerror(-err));
	return 1;
}

static int remove_pool(const char *path)
{
	const char *why;
	int err = weft_pool_remove(path, &why);

	return err ? fail("rm", path, why, err) : 0;
}

static int recover(const char *path)
{
	char where[PATH_MAX];
	struct weft_view *v;
	struct weft_pool *pool;
	const char *why;
	bool made_by_use = weft_pool_is_made_by_use(path);
	int err = made_by_use ? weft_view_open(path, where, &v, &why) : 0;

	if (made_by_use && !err)
		weft_view_close(v);
	if (!err)
		err = weft_pool_get(path, &pool, where, &why);
	if (err)
		return fail("recover", where, why, err);
	weft_pool_put(pool); /* a member that joins recovers the dead */
	return 0;
}

static int evict(int argc, char **argv)
{
	const char *path = NULL, *number = NULL, *why;
	bool is_off = false;
	char where[PATH_MAX], *end = NULL;
	struct weft_pool *pool;
	unsigned long host;
	int err;

	for (int i = 2; i < argc; i++) {
		if (weft_main_pool_option(argc, argv, &i, &path))
			continue;
		if (!strcmp(argv[i], "--yes"))
			is_off = true;
		else if (!number && argv[i][0] >= '0' && argv[i][0] <= '9')
			number = argv[i];
		else
			return weft_main_usage_error("pool", "evict knows no '%s'", argv[i]);
	}
	host = number ? strtoul(number, &end, 10) : 0;
	if (!number || *end || host >= UINT32_MAX)
		return weft_main_usage_error("pool", "evict wants '%s'", "HOST --yes");
	if (!is_off)
		return weft_main_usage_error(
			"pool", "the machine must be off: if it is, say so by '%s'", "--yes");
	why = "the pool has one host: that of several is shm:PATH, pci:ADDRESS or dax:PATH";
	if (weft_pool_is_made_by_use(path))
		return fail("evict", path ?: getenv("WEFT_POOL") ?: "the user's own", why, -EINVAL);
	err = weft_pool_get(path, &pool, where, &why);
	if (!err) {
		err = weft_pool_evict(pool, (uint32_t)host, &why);
		weft_pool_put(pool);
	}
	return err ? fail("evict", where, why, err) : 0;
}

bool weft_pool_number_option(int argc, char **argv, int *i, const char *name, uint64_t *value)
{
	char *end;

	if (strcmp(argv[*i], name) || *i + 1 >= argc || argv[*i + 1][0] < '0' ||
	    argv[*i + 1][0] > '9')
		return false;
	errno = 0;
	*value = strtoull(argv[++*i], &end, 10);
	if (!*end && !errno)
		return true;
	--*i;
	return false;
}

/* What is too much stays so. */
static uint32_t up_to_32_bits(uint64_t number)
{
	return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static int create_pool(int argc, char **argv)
{
	uint64_t hosts = 0, bytes = 0, silence_ms = SILENCE_MS;
	const char *path = NULL, *why;
	bool has_hosts = false;
	uint32_t flags = 0;
	int err;

	for (int i = 2; i < argc; i++) {
		has_hosts |= !strcmp(argv[i], "--hosts");
		if (!strcmp(argv[i], "--atomics") || !strcmp(argv[i], "--coherent")) {
			flags |= argv[i][2] == 'a' ? WEFT_POOL_ATOMICS : WEFT_POOL_COHERENT;
			continue;
		}
		if (weft_pool_number_option(argc, argv, &i, "--hosts", &hosts) ||
		    weft_pool_number_option(argc, argv, &i, "--bytes", &bytes) ||
		    weft_pool_number_option(argc, argv, &i, "--silence", &silence_ms))
			continue;
		if (path || argv[i][0] == '-')
			return weft_main_usage_error(
				"pool", "unknown option or no number behind '%s'", argv[i]);
		path = argv[i];
	}
	if (!path || !has_hosts)
		return weft_main_usage_error("pool", "create wants '%s'",
					     "shm:PATH --hosts NUMBER");
	err = weft_pool_create(path, up_to_32_bits(hosts), bytes, up_to_32_bits(silence_ms), flags,
			       &why);
	return err ? fail("create", path, why, err) : 0;
}

int weft_pool_main(int argc, char **argv)
{
	const char *verb = argc > 1 && argv[1][0] != '-' ? argv[1] : "list", *path = NULL;
	bool json = false;

	if (!strcmp(verb, "create"))
		return create_pool(argc, argv);
	if (!strcmp(verb, "evict"))
		return evict(argc, argv);
	if (!strcmp(verb, "test"))
		return weft_pool_test(argc, argv);
	for (int i = argc > 1 && argv[1][0] != '-' ? 2 : 1; i < argc; i++) {
		if (strcmp(verb, "list") && weft_main_pool_option(argc, argv, &i, &path))
			continue;
		if (!strcmp(verb, "list") && !strcmp(argv[i], "--json"))
			json = true;
		else
			return weft_main_usage_error(
				"pool", "unknown option or nothing behind '%s'", argv[i]);
	}
	if (!strcmp(verb, "list"))
		return list(json);
	if (!strcmp(verb, "rm"))
		return remove_pool(path);
	if (!strcmp(verb, "recover"))
		return recover(path);
	return weft_main_usage_error("pool", "there is no '%s'", verb);
}
