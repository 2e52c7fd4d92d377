/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/delivery.h"
#include "cli/nic.h"
#include "cli/report.h"
#include "pool/doorbell.h"
#include "pool/view.h"
#include "process/gid.h"

const char weft_nic_usage[] =
	"Usage: weft nic [list] [--pool PATH] [--json]\n"
	"       weft nic up ADDRESS… [--pool PATH]\n"
	"       weft nic down [ADDRESS…] [--pool PATH]\n\n"
	"  list  the cards of a pool: processes that carry its requests to other hosts\n"
	"  up    start the cards of these addresses; each starts by itself when it is first "
	"needed,\n"
	"        unless WEFT_NIC=off\n"
	"  down  end these cards, or all of the pool in this network namespace\n\n"
	"  --pool PATH  the pool (default: $WEFT_POOL, else /dev/shm/weft-UID)\n"
	"  --json       one JSON object: cards\n\n"
	"0; 1 it could not be done; 2 wrong usage.\n";

#define MOST_ADDRESSES 32
#define END_LOOKS      300

struct options {
	const char *pool;
	bool json;
	int n;
	uint8_t gid[MOST_ADDRESSES][16];
	const char *text[MOST_ADDRESSES];
};

#define COLUMN(name, words) {words, WEFT_COLUMN_NUMBER},
static const struct weft_column columns[] = {
	{"address", WEFT_COLUMN_TEXT}, {"interface", WEFT_COLUMN_TEXT}, {"pid", WEFT_COLUMN_NUMBER},
	{"uid", WEFT_COLUMN_NUMBER},   {"alive", WEFT_COLUMN_FLAG},	{"state", WEFT_COLUMN_TEXT},
	WEFT_CARD_TELLS(COLUMN){NULL},
};
#undef COLUMN

/* Which of the addresses that were named it is; -1: none. */
static int which_named(const struct options *o, const uint8_t gid[16])
{
	for (int i = 0; i < o->n; i++)
		if (!memcmp(o->gid[i], gid, 16))
			return i;
	return -1;
}

static bool is_card(const struct weft_view_member *m)
{
	return m->incarnation && m->card_reach != WEFT_CARD_NONE;
}

/* NULL, once it was said why; *none: there is no pool, and so no card. */
static struct weft_view *open_pool(const struct options *o, bool *none)
{
	char where[PATH_MAX];
	struct weft_view *v = NULL;
	const char *why;
	int err = weft_view_open(o->pool, where, &v, &why);

	*none = err == -ENOENT;
	if (err && !*none)
		fprintf(stderr, "weft nic: %s: %s\n", where, why);
	return err ? NULL : v;
}

bool weft_nic_shows_card(const char *pool, const uint8_t gid[16])
{
	char where[PATH_MAX];
	struct weft_view *v = NULL;
	const char *why;
	bool found = false;

	if (weft_view_open(pool, where, &v, &why))
		return false;
	for (unsigned int i = 0; i < v->nmembers; i++) {
		const struct weft_view_member *m = &v->member[i];

		found |= m->alive && is_card(m) && !memcmp(m->card_address, gid, 16);
	}
	weft_view_close(v);
	return found;
}

/* ---- list ---- */

/* As this network namespace has it. */
static const char *interface_here(const uint8_t gid[16])
{
	static struct weft_gid_entry all[WEFT_GID_TABLE_LEN];
	unsigned int n = (unsigned int)weft_gid_table(all, WEFT_GID_TABLE_LEN);
	const struct weft_gid_entry *found = weft_gid_find(all, n, gid);

	return found ? found->netdev : "";
}

static bool read_address(const struct sockaddr *from, uint8_t gid[16])
{
	const struct in6_addr v4 = {.s6_addr = {[10] = 0xff, 0xff}};

	if (!from || (from->sa_family != AF_INET && from->sa_family != AF_INET6))
		return false;
	if (from->sa_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
		return true;
	}
	memcpy(gid, &v4, 12);
	memcpy(gid + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
	return true;
}

static bool is_in(const char *space, uint64_t of_card)
{
	struct stat here;

	return !stat(space, &here) && here.st_ino == of_card;
}

/* Whether the addresses that we see are those that it has. */
static bool shares_addresses(const struct weft_view_member *m)
{
	return is_in("/proc/self/ns/net", m->net_ns);
}

/* Whether its number is that of the same process here. */
static bool shares_numbers(const struct weft_view_member *m)
{
	return is_in("/proc/self/ns/pid", m->pid_ns);
}

/* As in the third word of /proc/PID/stat; 0: there is no such process. */
static char process_state(uint32_t pid)
{
	char path[40], line[256] = "", *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	end = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	fclose(file);
	return (char)(end && end[1] ? end[2] : 0);
}

bool weft_nic_is_stopped(uint32_t pid)
{
	return strchr("Tt", process_state(pid) ?: '-');
}

/* Whether packets can go and come, and if not, why: in words. */
static const char *state_of_card(const struct weft_view_member *m)
{
	const char *state = "no such address";
	struct ifaddrs *all = NULL;
	uint8_t gid[16];

	if (!m->alive)
		return "dead";
	if (!shares_addresses(m))
		return "in another namespace";
	if (shares_numbers(m) && weft_nic_is_stopped(m->pid))
		return "stopped";
	if (getifaddrs(&all))
		return "not known";
	for (const struct ifaddrs *a = all; a; a = a->ifa_next)
		if (read_address(a->ifa_addr, gid) && !memcmp(gid, m->card_address, 16))
			state = !(a->ifa_flags & IFF_UP)	? "interface is down"
				: !(a->ifa_flags & IFF_RUNNING) ? "no carrier"
								: "up";
	freeifaddrs(all);
	return state;
}

static void report_card(struct weft_report *r, const struct weft_view_member *m)
{
	char address[INET6_ADDRSTRLEN];

	weft_gid_print(m->card_address, address);
	weft_report_row(r);
	weft_report_text(r, address);
	weft_report_text(r, interface_here(m->card_address));
	weft_report_number(r, m->pid);
	weft_report_number(r, m->uid);
	weft_report_flag(r, m->alive);
	weft_report_text(r, state_of_card(m));
	for (unsigned int i = 0; i < WEFT_CARD_COUNTS; i++)
		weft_report_number(r, m->card_told[i]);
}

static int list_cards(const struct options *o)
{
	struct weft_report r;
	bool none;
	struct weft_view *v = open_pool(o, &none);

	if (!v && !none)
		return 1;
	weft_report_begin(&r, o->json);
	weft_report_section(&r, "cards", false, columns);
	for (unsigned int i = 0; v && i < v->nmembers; i++)
		if (is_card(&v->member[i]))
			report_card(&r, &v->member[i]);
	weft_report_end(&r);
	if (v)
		weft_view_close(v);
	return 0;
}

/* ---- up ---- */

/*
 * The card stays in this session, where programs will be that use it: Linux shares cores out among sessions, and one of its
 * own would wait for its turn beside a program that polls. It outlives the session, and what its terminal sends.
 */
static void run_card(const char *program, const char *address, const int ready[2])
{
	setpgid(0, 0);
	signal(SIGHUP, SIG_IGN);
	dup2(ready[1], STDOUT_FILENO);
	close(STDIN_FILENO);
	open("/dev/null", O_RDONLY);
	execl(program, program, address, NULL);
	fprintf(stderr, "weft nic: cannot run %s: %m\n", program);
	_exit(127);
}

/* Whether it says that it is ready, or that there is one already. It outlives us. */
static bool start_card(const char *program, const char *address)
{
	int ready[2], status;
	char said;
	bool is_up;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		return false;
	pid = fork();
	if (!pid)
		run_card(program, address, ready);
	close(ready[1]);
	is_up = pid > 0 && read(ready[0], &said, 1) == 1;
	close(ready[0]);
	return is_up || (pid > 0 && waitpid(pid, &status, 0) == pid && !status);
}

static int bring_up(const struct options *o)
{
	struct weft_delivery delivery;
	char program[PATH_MAX + sizeof("/weftd")];
	int status = 0;

	if (!o->n)
		return weft_main_usage_error("nic", "which address?");
	if (weft_delivery_find(&delivery))
		return 1;
	snprintf(program, sizeof(program), "%s/weftd", delivery.libs);
	if (o->pool && setenv("WEFT_POOL", o->pool, 1))
		return 1;
	for (int i = 0; i < o->n; i++)
		status |= !start_card(program, o->text[i]);
	return status;
}

/* ---- down ---- */

/* Notes in `found` which of the addresses it is. */
static bool is_meant(const struct options *o, const uint8_t gid[16], bool *found)
{
	int i = which_named(o, gid);

	if (i >= 0)
		found[i] = true;
	return i >= 0 || !o->n;
}

static bool is_no_more(uint32_t pid)
{
	const char state = process_state(pid);

	return !state || state == 'Z' || state == 'X';
}

static bool end_card(const struct weft_view_member *m)
{
	const struct timespec a_while = {.tv_nsec = 10000000};

	if (!shares_numbers(m)) {
		fprintf(stderr,
			"weft nic: process %u is of another process namespace: end it there\n",
			m->pid);
		return false;
	}
	if (kill((pid_t)m->pid, SIGTERM) && errno != ESRCH) {
		fprintf(stderr, "weft nic: process %u: %m\n", m->pid);
		return false;
	}
	for (int i = 0; i < END_LOOKS && !is_no_more(m->pid); i++)
		nanosleep(&a_while, NULL);
	if (is_no_more(m->pid))
		return true;
	fprintf(stderr, "weft nic: process %u has been told to end, and %s\n", m->pid,
		weft_nic_is_stopped(m->pid) ? "is stopped" : "has not ended yet");
	return false;
}

void weft_nic_end_lone_cards(const char *pool)
{
	char where[PATH_MAX];
	struct weft_view *v = NULL;
	const char *why;
	bool others = false;
	struct stat here;

	if (stat("/proc/self/ns/pid", &here) || weft_view_open(pool, where, &v, &why))
		return;
	for (unsigned int i = 0; i < v->nmembers; i++)
		others |= v->member[i].incarnation && v->member[i].alive && !is_card(&v->member[i]);
	for (unsigned int i = 0; !others && i < v->nmembers; i++)
		if (is_card(&v->member[i]) && v->member[i].alive &&
		    v->member[i].pid_ns == here.st_ino)
			kill((pid_t)v->member[i].pid, SIGTERM);
	weft_view_close(v);
}

static int bring_down(const struct options *o)
{
	bool none, ended = true, found[MOST_ADDRESSES] = {false};
	struct weft_view *v = open_pool(o, &none);

	if (!v && !none)
		return 1;
	for (unsigned int i = 0; v && i < v->nmembers; i++) {
		const struct weft_view_member *m = &v->member[i];

		/* whether or not the address is there still */
		if (is_card(m) && m->alive && shares_addresses(m) &&
		    is_meant(o, m->card_address, found))
			ended &= end_card(m);
	}
	if (v)
		weft_view_close(v);
	for (int i = 0; i < o->n; i++)
		if (!found[i]) {
			fprintf(stderr, "weft nic: %s: no card\n", o->text[i]);
			ended = false;
		}
	return !ended;
}

/* ---- */

static const struct {
	const char *name;
	int (*run)(const struct options *o);
} actions[] = {{"list", list_cards}, {"up", bring_up}, {"down", bring_down}};

/* 0, or the exit status of wrong usage. */
static int read_words(int argc, char **argv, struct options *o)
{
	for (int i = 0; i < argc; i++) {
		if (weft_main_pool_option(argc, argv, &i, &o->pool))
			continue;
		if (!strcmp(argv[i], "--json")) {
			o->json = true;
			continue;
		}
		if (*argv[i] == '-')
			return weft_main_usage_error("nic", "unknown option or nothing behind '%s'",
						     argv[i]);
		if (o->n == MOST_ADDRESSES)
			return weft_main_usage_error("nic", "more than %d addresses",
						     MOST_ADDRESSES);
		if (!weft_gid_parse(argv[i], o->gid[o->n]))
			return weft_main_usage_error("nic", "no address: '%s'", argv[i]);
		o->text[o->n] = argv[i];
		o->n += which_named(o, o->gid[o->n]) < 0;
	}
	return 0;
}

int weft_nic_main(int argc, char **argv)
{
	struct options o = {NULL};
	unsigned int chosen = 0;
	int first = 1, status;

	for (unsigned int i = 0; argc > 1 && i < sizeof(actions) / sizeof(*actions); i++)
		if (!strcmp(argv[1], actions[i].name)) {
			chosen = i;
			first = 2;
		}
	if (first == 1 && argc > 1 && *argv[1] != '-')
		return weft_main_usage_error("nic", "there is no action '%s'", argv[1]);
	status = read_words(argc - first, argv + first, &o);
	if (status)
		return status;
	if (!chosen && o.n)
		return weft_main_usage_error("nic", "list takes no address: '%s'", o.text[0]);
	return actions[chosen].run(&o);
}
