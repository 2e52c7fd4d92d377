/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The pool is a file, and files may be wrong: each fault is refused with its reason, or mended. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/internal.h"
#include "pool/format_member.h"
#include "pool/format_line.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "subject.h"

/* A fresh pool without members. */
static int setup(void **state)
{
	unlink(subject_pool());
	weft_pool_put(subject_watch());
	return 0;
}

static int open_pool(void)
{
	int fd = open(subject_pool(), O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void overwrite(off_t off, const void *bytes, size_t n)
{
	int fd = open_pool();

	assert_int_equal(pwrite(fd, bytes, n, off), n);
	close(fd);
}

static void refused(const char *expected)
{
	struct weft_pool *pool;
	char where[PATH_MAX];
	const char *why = NULL;

	assert_int_equal(weft_pool_get(subject_pool(), &pool, where, &why), -EPROTO);
	assert_string_equal(why, expected);
}

static void taken(void)
{
	weft_pool_put(subject_watch());
}

static void refused_as(uint64_t file_bytes, uint64_t header_bytes)
{
	char expected[128];

	snprintf(expected, sizeof(expected),
		 "the file has %ju bytes, while the pool's header says %ju", (uintmax_t)file_bytes,
		 (uintmax_t)header_bytes);
	refused(expected);
}

static void test_truncated(void **state)
{
	struct stat st;

	assert_int_equal(stat(subject_pool(), &st), 0);
	assert_int_equal(truncate(subject_pool(), st.st_size - 1), 0);
	refused_as((uint64_t)st.st_size - 1, (uint64_t)st.st_size);
	assert_int_equal(truncate(subject_pool(), st.st_size + 1), 0);
	refused_as((uint64_t)st.st_size + 1, (uint64_t)st.st_size);
	assert_int_equal(truncate(subject_pool(), 4), 0);
	refused("the file is not a pool");
	assert_int_equal(truncate(subject_pool(), 0), 0); /* an empty file is made a pool */
	taken();
}

static void test_foreign(void **state)
{
	overwrite(0, "#!/bin/sh\n", 10);
	refused("the file is not a pool");
}

static void test_other_version(void **state)
{
	uint32_t version = WEFT_POOL_VERSION + 1;

	overwrite(offsetof(struct weft_pool_header, version), &version, sizeof(version));
	refused("the pool was made by another version of Weft");
}

static void test_other_layout(void **state)
{
	uint64_t signature = 42;

	overwrite(offsetof(struct weft_pool_header, signature), &signature, sizeof(signature));
	refused("the pool was made by another version of Weft");
}

static void test_other_size(void **state)
{
	uint64_t bytes = 1ull << 60;
	struct stat st;

	overwrite(offsetof(struct weft_pool_header, file_bytes), &bytes, sizeof(bytes));
	assert_int_equal(stat(subject_pool(), &st), 0);
	refused_as((uint64_t)st.st_size, bytes);
}

/* A process that died while it made the pool has written this much, in this order. */
static void test_half_made(void **state)
{
	uint64_t making = WEFT_POOL_MAKING;
	struct weft_pool_header header = {.magic = WEFT_POOL_MAKING};

	for (int step = 0; step < 4; step++) {
		int fd;

		unlink(subject_pool());
		fd = open(subject_pool(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		if (step > 0)
			assert_int_equal(pwrite(fd, &making, sizeof(making), 0), sizeof(making));
		if (step > 1)
			assert_int_equal(fallocate(fd, 0, 0, 1 << 20), 0);
		if (step > 2) {
			assert_int_equal(ftruncate(fd, 4ll << 30), 0);
			assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
		}
		close(fd);
		taken();
		taken();
	}
}

/* A user's file that begins with zeros is not taken for a pool that is half made. */
static void test_zeros(void **state)
{
	struct stat st;

	unlink(subject_pool());
	close(open(subject_pool(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(truncate(subject_pool(), 1 << 20), 0);
	refused("the file is not a pool");
	assert_int_equal(stat(subject_pool(), &st), 0);
	assert_int_equal(st.st_size, 1 << 20);
}

static void test_not_a_file(void **state)
{
	unlink(subject_pool());
	assert_int_equal(mkfifo(subject_pool(), 0600), 0);
	refused("the pool is not a regular file");
	unlink(subject_pool());
}

/* Whatever the umask is, the pool can be opened again, by its owner alone. */
static void test_mode(void **state)
{
	static const mode_t masks[] = {0, 022, 0777};
	struct stat st;

	for (size_t i = 0; i < sizeof(masks) / sizeof(*masks); i++) {
		mode_t kept = umask(masks[i]);

		unlink(subject_pool());
		taken();
		umask(kept);
		assert_int_equal(stat(subject_pool(), &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
	}
	/* a file that the user has made for others stays open to them */
	assert_int_equal(truncate(subject_pool(), 0), 0);
	assert_int_equal(chmod(subject_pool(), 0666), 0);
	taken();
	assert_int_equal(stat(subject_pool(), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0666);
}

/* Under a limit of file sizes (ulimit -f) a pool is not made, and one that exists can be used. */
static void limited(struct subject *s)
{
	struct rlimit few = {100 << 10, 100 << 10};
	struct weft_pool *pool;
	char where[PATH_MAX];
	const char *why;
	uint64_t off;

	subject_require(!setrlimit(RLIMIT_FSIZE, &few), "setrlimit");
	subject_require(weft_pool_get(subject_pool(), &pool, where, &why) == -EFBIG, "no pool");
	subject_require(strstr(why, "ulimit -f") && strstr(why, " 102400 bytes"), why);
	subject_ready(s);
	subject_wait(s);
	subject_require(weft_pool_get(subject_pool(), &pool, where, &why) == -EFBIG,
			"an empty file");
	subject_ready(s);
	subject_wait(s);
	pool = subject_attach(s);
	subject_require(!weft_pool_extent_alloc(pool, 40 << 20, &off), "extent");
	memset(weft_pool_window(pool, off, 40 << 20), 1, 40 << 20);
	subject_ready(s);
	pause();
}

static void test_limit(void **state)
{
	struct subject s;
	struct stat st;

	unlink(subject_pool());
	s = subject_start(limited);
	subject_await(&s, 1);
	assert_int_equal(access(subject_pool(), F_OK), -1);
	/* an empty file, as it is made for containers */
	close(open(subject_pool(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	subject_go(&s);
	subject_await(&s, 2);
	assert_int_equal(stat(subject_pool(), &st), 0);
	assert_int_equal(st.st_size, 0);
	taken();
	subject_go(&s);
	subject_await(&s, 3);
	subject_end(&s);
}

static void merged_counters(uint64_t merging, uint64_t expected)
{
	struct weft_pool_home home = {
		.departed = {.ops_write = 5}, .merged = {.ops_write = 12}, .merging = merging};
	struct weft_counters left = {.ops_write = 7};
	size_t from = offsetof(struct weft_pool_home, departed);
	struct weft_pool_home after;
	int fd;

	/* of member 0, whose counters were being added to those of departed members */
	overwrite(WEFT_OFF_NEAR + offsetof(struct weft_pool_near, line[3].counters), &left,
		  sizeof(left));
	overwrite((off_t)(WEFT_OFF_HOME + from), (char *)&home + from, sizeof(home) - from);
	taken();
	fd = open_pool();
	assert_int_equal(pread(fd, &after, sizeof(after), WEFT_OFF_HOME), sizeof(after));
	close(fd);
	assert_int_equal(after.departed.ops_write, expected);
	assert_int_equal(after.merging, 0);
}

/* A process has died while it added a member's counters to those of departed members: that is repeated, and
 * not added twice. */
static void test_half_merged(void **state)
{
	merged_counters(1, 12);
	merged_counters(1ull << 40, 12); /* damaged: the number of no member */
}

static void test_orphans(void **state)
{
	uint64_t word = 77ull << 16 | 1;
	size_t segment = offsetof(struct weft_pool_leases, segment);
	size_t qps = offsetof(struct weft_pool_leases, qp_block);
	size_t mrs = offsetof(struct weft_pool_leases, mr_block);
	struct weft_pool *pool;

	overwrite((off_t)(WEFT_OFF_LEASES + segment + 8 * WEFT_FIRST_SEGMENT), &word, 8);
	overwrite((off_t)(WEFT_OFF_LEASES + qps + 8), &word, 8);
	word = UINT64_MAX;
	overwrite((off_t)(WEFT_OFF_LEASES + mrs + 8 * 4095), &word, 8);
	pool = subject_watch();
	for (uint32_t at = 0; at < sizeof(*pool->leases) / 8;)
		assert_int_equal(weft_lease_next(pool, &at), 0);
	weft_pool_put(pool);
}

static void test_too_many_members(void **state)
{
	uint64_t high = UINT64_MAX / 2;
	struct weft_pool *pool;

	overwrite(offsetof(struct weft_pool_header, members_end), &high, sizeof(high));
	pool = subject_watch();
	assert_non_null(weft_pool_member(pool, WEFT_MEMBERS - 1));
	assert_null(weft_pool_member(pool, WEFT_MEMBERS));
	weft_pool_watch(pool);
	weft_pool_put(pool);
}

static void lives(struct subject *s)
{
	struct weft_pool *pool = subject_attach(s);
	uint64_t off;

	subject_ready(s);
	subject_wait(s);
	if (dup2((int)s->page->value[0], STDERR_FILENO) < 0)
		_exit(1);
	/* the process goes on, and tells once that the pool was removed */
	for (int i = 0; i < 3; i++)
		subject_require(!weft_pool_extent_alloc(pool, 9 << 20, &off), "extent");
	subject_ready(s);
	pause();
}

/* The pool is removed by a user that does not know of its members: these must say so, as new processes make
 * another pool. */
static void test_unlinked(void **state)
{
	char text[1024] = "", *end;
	struct subject s;
	int out[2];

	assert_int_equal(pipe(out), 0);
	s = subject_start(lives);
	s.page->value[0] = (uint64_t)out[1];
	subject_await(&s, 1);
	assert_int_equal(unlink(subject_pool()), 0);
	subject_go(&s);
	subject_await(&s, 2);
	assert_true(read(out[0], text, sizeof(text) - 1) > 0);
	end = strstr(text, "was removed while in use");
	assert_non_null(end);
	assert_null(strstr(end + 1, "was removed"));
	subject_end(&s);
	close(out[0]);
	close(out[1]);
}

static void test_remove(void **state)
{
	struct subject s = subject_start(lives);
	const char *why;

	subject_await(&s, 1);
	assert_int_equal(weft_pool_remove(subject_pool(), &why), -EBUSY);
	subject_end(&s);
	assert_int_equal(weft_pool_remove(subject_pool(), &why), 0);
	assert_int_equal(weft_pool_remove(subject_pool(), &why), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_truncated, setup),
		cmocka_unit_test_setup(test_foreign, setup),
		cmocka_unit_test_setup(test_other_version, setup),
		cmocka_unit_test_setup(test_other_layout, setup),
		cmocka_unit_test_setup(test_other_size, setup),
		cmocka_unit_test_setup(test_half_made, setup),
		cmocka_unit_test_setup(test_zeros, setup),
		cmocka_unit_test_setup(test_not_a_file, setup),
		cmocka_unit_test_setup(test_mode, setup),
		cmocka_unit_test_setup(test_limit, setup),
		cmocka_unit_test_setup(test_half_merged, setup),
		cmocka_unit_test_setup(test_orphans, setup),
		cmocka_unit_test_setup(test_too_many_members, setup),
		cmocka_unit_test_setup(test_unlinked, setup),
		cmocka_unit_test_setup(test_remove, setup),
	};

	return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
