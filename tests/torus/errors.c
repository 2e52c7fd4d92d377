/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Errors of libweft-ape for which something must have gone wrong outside of the program; test_pages.py does that, and says
 * by a line on stdin that it is done.
 *
 * errors open POOL: what ape_open() finds wrong
 * errors ends: programs end without ape_close, and others follow with their numbers
 * errors gone: the own card dies
 * errors far: another node's card is stopped, then dies and begins anew, then dies
 */
#include "reached.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ape/weft/ape.h"

#define FAR	   1u
#define WAIT_NS	   60000000000
#define TRIES	   10u /* of 8 s each */
#define LITTLE	   (256ul << 20)
#define PATH_BYTES (PATH_MAX + 64)

static uint8_t memory[4096];

static void await_line(const char *what)
{
	char line[8];

	printf("%s\n", what);
	fflush(stdout);
	assert_non_null(fgets(line, sizeof(line), stdin));
}

/* ---- Opening ---- */

static void expect_limit(int which, rlim_t limit, int error)
{
	struct rlimit before, less;
	struct ape *ape;

	getrlimit(which, &before);
	less = (struct rlimit){limit, before.rlim_max};
	setrlimit(which, &less);
	if (error == EMFILE)
		FAILS(ape_open(NULL, -1, &ape), EMFILE);
	else
		FAILS(ape_open(NULL, -1, &ape), ENOMEM);
	setrlimit(which, &before);
}

/* A folder that looks like a node, with the door of one that is. */
static void make_node(char folder[PATH_BYTES])
{
	char door[PATH_BYTES], link[PATH_BYTES + 8];

	strcpy(folder, "/tmp/weft-test-node-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(door, sizeof(door), "%s/door", getenv("WEFT_TORUS_NODE"));
	snprintf(link, sizeof(link), "%s/door", folder);
	assert_int_equal(symlink(door, link), 0);
}

static void remove_node(const char *folder)
{
	static const char *const files[] = {"door", "pool", ""};
	char path[PATH_BYTES + 8];

	chmod(folder, 0700);
	for (unsigned int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
		remove(path);
	}
}

static void open_wrong_files(void)
{
	char folder[PATH_BYTES], pool[PATH_BYTES + 8];
	struct ape *ape;
	int fd;

	make_node(folder);
	snprintf(pool, sizeof(pool), "%s/pool", folder);
	fd = open(pool, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, memory, sizeof(memory)), sizeof(memory));
	assert_int_equal(pwrite(fd, "no pool", 7, 0), 7);
	close(fd);
	FAILS(ape_open(folder, -1, &ape), EPROTO);
	chmod(folder, 0);
	FAILS(ape_open(folder, -1, &ape), EACCES);
	remove_node(folder);
}

static void open_held_pool(const char *pool)
{
	struct flock whole = {.l_type = F_WRLCK, .l_len = 1};
	int fd = open(pool, O_RDWR);
	struct ape *ape;

	assert_true(fd >= 0);
	while (fcntl(fd, F_OFD_SETLK, &whole))
		assert_true(errno == EAGAIN || errno == EACCES);
	FAILS(ape_open(NULL, -1, &ape), ETIMEDOUT);
	close(fd);
}

static void open_wrongly(const char *pool)
{
	static char name[PATH_BYTES];
	struct ape *ape;

	memset(name, 'x', sizeof(name) - 1);
	name[0] = '/';
	FAILS(ape_open(name, -1, &ape), ENAMETOOLONG);
	open_wrong_files();
	expect_limit(RLIMIT_NOFILE, 3, EMFILE);
	expect_limit(RLIMIT_AS, LITTLE, ENOMEM);
	open_held_pool(pool);
	/* none of them has left anything that is in the way */
	assert_int_equal(ape_open(NULL, -1, &ape), 0);
	ape_close(ape);
}

/* ---- Ends without ape_close ---- */

#define FOLLOWERS 12
#define PROCESSES 64

/* In a program of its own; its exit status is the error's number. */
static int open_and_end(int count, int process)
{
	int status, err = 0;
	struct ape *ape;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		while (count-- && !err)
			err = ape_open(NULL, process, &ape);
		_exit(-err);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void follow(void)
{
	struct ape *ape;

	for (int i = 0; i < FOLLOWERS; i++)
		assert_int_equal(open_and_end(1, 5), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(open_and_end(PROCESSES, -1), 0);
	assert_int_equal(ape_open(NULL, 5, &ape), 0);
	assert_int_equal(open_and_end(1, 5), EBUSY);
	ape_close(ape);
}

/* ---- The own card dies ---- */

static void use_without_card(void)
{
	struct ape *ape, *other;
	uint64_t seen = 0;
	int buffer;

	assert_int_equal(ape_open(NULL, 0, &ape), 0);
	buffer = ape_register(ape, memory, sizeof(memory), APE_MAY_PUT);
	assert_true(buffer >= 0);
	await_line("open");
	FAILS(ape_put(ape, FAR, 0, memory, 8, 0, 0), ENETDOWN);
	FAILS(ape_get(ape, FAR, 0, memory, 8, 0, 0), ENETDOWN);
	FAILS(ape_send(ape, FAR, 0, memory, 8, 0), ENETDOWN);
	FAILS(ape_receive(ape, memory, 8, 0), ENETDOWN);
	FAILS(ape_register(ape, memory, 8, APE_MAY_PUT), ENETDOWN);
	FAILS(ape_unregister(ape, buffer), ENETDOWN);
	while (ape_wait(ape, &seen, 0) == 1)
		;
	FAILS(ape_wait(ape, &seen, -1), ENETDOWN);
	FAILS(ape_open(NULL, -1, &other), ENETDOWN);
	ape_close(ape);
}

/* ---- Another card dies ---- */

static void post_all(struct ape *ape)
{
	assert_int_equal(ape_put(ape, FAR, 0, memory, 8, 0, 0), 0);
	assert_int_equal(ape_get(ape, FAR, 0, memory, 8, 0, 1), 0);
	assert_int_equal(ape_send(ape, FAR, 0, memory, 8, 2), 0);
}

static struct ape_event await_event(struct ape *ape)
{
	struct ape_event e;
	uint64_t seen = 0;

	while (!ape_poll(ape, &e, 1))
		assert_int_equal(ape_wait(ape, &seen, WAIT_NS), 1);
	assert_true(e.kind == APE_SENT && e.tag < 3 && e.rank == FAR);
	return e;
}

/* Whether all three have ended so, and not for want of an answer. */
static bool have_ended(struct ape *ape, enum ape_status status, const char *name)
{
	static const char *const calls[] = {"ape_put", "ape_get", "ape_send"};
	bool so = true;

	for (int i = 0; i < 3; i++) {
		struct ape_event e = await_event(ape);

		if (e.status == APE_UNREACHABLE && status != APE_UNREACHABLE) {
			so = false;
			continue;
		}
		assert_string_equal(ape_status_str(e.status), ape_status_str(status));
		note_reached(calls[e.tag], name);
	}
	return so;
}

/* Refused by a card that is there, which is known from now on. */
static void meet_peer(struct ape *ape)
{
	unsigned int tries = 0;

	do {
		assert_true(tries++ < TRIES);
		assert_int_equal(ape_put(ape, FAR, 0, memory, 8, 0, 0), 0);
	} while (await_event(ape).status == APE_UNREACHABLE);
}

static void use_without_peer(void)
{
	struct ape *ape;
	bool late;

	assert_int_equal(ape_open(NULL, 0, &ape), 0);
	do {
		meet_peer(ape);
		await_line("known");
		post_all(ape);
		await_line("posted");
		/* a new card may take longer to come than the old one waits for it */
		late = !have_ended(ape, APE_RESTARTED, "APE_RESTARTED");
		if (late)
			await_line("late");
	} while (late);
	await_line("anew");
	post_all(ape);
	have_ended(ape, APE_UNREACHABLE, "APE_UNREACHABLE");
	ape_close(ape);
}

/* ---- */

static const char *mode, *pool;

static void test_errors(void **state)
{
	if (!strcmp(mode, "open"))
		open_wrongly(pool);
	else if (!strcmp(mode, "ends"))
		follow();
	else if (!strcmp(mode, "gone"))
		use_without_card();
	else
		use_without_peer();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_errors)};

	if (argc < 2)
		return 2;
	mode = argv[1];
	pool = argc > 2 ? argv[2] : "";
	return cmocka_run_group_tests_name("errors of libweft-ape", tests, NULL, NULL);
}
