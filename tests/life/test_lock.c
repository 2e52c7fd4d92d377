/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A lock's owner that is stopped makes no other member wait for ever, and is named. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/clock.h"
#include "backing/lock_owner.h"
#include "backing/private.h"
#include "pool/internal.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "subject.h"

#define FASTER	    20
#define PATIENCE_NS 10000000000ull

/* Weft's clock, made so fast that its patience is short here. */
int clock_gettime(clockid_t id, struct timespec *t)
{
	int err = (int)syscall(SYS_clock_gettime, id, t);

	if (id == CLOCK_MONOTONIC) {
		uint64_t ns = ((uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec) * FASTER;

		*t = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	}
	return err;
}

static void hold(struct subject *s)
{
	struct weft_attachment *a = weft_attachment(subject_attach(s));
	int key = weft_enter(a);

	subject_require(key >= 0, "enter");
	subject_ready(s);
	raise(SIGSTOP);
	weft_leave(a, key);
	subject_ready(s);
	pause();
}

static struct subject begin(void (*fn)(struct subject *), struct weft_pool **pool)
{
	struct subject s;
	int status;

	subject_pool();
	*pool = subject_watch();
	s = subject_start(fn);
	assert_int_equal(waitpid(s.pid, &status, WUNTRACED), s.pid);
	assert_true(WIFSTOPPED(status));
	return s;
}

static void go_on(const struct subject *s)
{
	assert_int_equal(kill(s->pid, SIGCONT), 0);
	subject_await(s, 2);
}

/* Keeps what is written to stderr from the first call to the second, which copies it to text. */
static void divert(char *text, size_t text_bytes)
{
	static int kept = -1, out[2];
	ssize_t n;

	fflush(stderr);
	if (kept < 0) {
		assert_int_equal(pipe2(out, O_NONBLOCK), 0);
		kept = dup(STDERR_FILENO);
		dup2(out[1], STDERR_FILENO);
		return;
	}
	dup2(kept, STDERR_FILENO);
	close(kept);
	kept = -1;
	n = read(out[0], text, text_bytes - 1);
	text[n < 0 ? 0 : n] = '\0';
	close(out[0]);
	close(out[1]);
}

/* Leases one more segment; returns the error, and how long that took. */
static int lease_one(struct weft_pool *pool, uint64_t *took_ns)
{
	uint64_t off, begun_ns = weft_clock_now_ns();
	int err = weft_pool_extent_alloc(pool, WEFT_SEGMENT, &off);

	*took_ns = weft_clock_now_ns() - begun_ns;
	return err;
}

static void test_named(void **state)
{
	char text[1024], expected[128], *at;
	struct weft_pool *pool;
	struct subject s = begin(hold, &pool);
	uint64_t took_ns;

	divert(NULL, 0);
	assert_int_equal(lease_one(pool, &took_ns), -ETIMEDOUT);
	divert(text, sizeof(text));
	assert_true(took_ns >= PATIENCE_NS);
	snprintf(expected, sizeof(expected), "process %d (test-life-lock), which is stopped, holds",
		 s.pid);
	at = strstr(text, expected);
	if (!at || strstr(at, "\nweft:"))
		fail_msg("%s", text);
	/* the lock's owner was given up on: later calls do not wait as long */
	assert_int_equal(lease_one(pool, &took_ns), -ETIMEDOUT);
	assert_true(took_ns < PATIENCE_NS);
	go_on(&s);
	assert_int_equal(lease_one(pool, &took_ns), 0);
	subject_end(&s);
	weft_pool_put(pool);
}

/* When the lock's owner is stopped, a member that leaves cannot give back what it has: this is recovered
 * later, as if the member had died. */
static void test_left(void **state)
{
	struct weft_pool *pool;
	struct subject s = begin(hold, &pool);
	uint16_t me = pool->me;
	char where[PATH_MAX];
	const char *why;

	weft_pool_put(pool);
	assert_int_equal(weft_pool_get(subject_pool(), &pool, where, &why), -ETIMEDOUT);
	assert_string_equal(why, WEFT_BACKING_STUCK);
	go_on(&s);
	pool = subject_watch();
	assert_int_equal(pool->me, me); /* the member's number is free again */
	subject_end(&s);
	weft_pool_put(pool);
}

/* While the lock's owner is stopped the dead cannot be recovered, and a member that tries does not wait for
 * each of them. */
static void dies(struct subject *s)
{
	subject_attach(s);
	subject_ready(s);
	pause();
}

static void test_recover(void **state)
{
	struct subject dead[3], s;
	struct weft_pool *pool;
	uint64_t begun_ns;

	subject_pool();
	pool = subject_watch();
	for (int i = 0; i < 3; i++) {
		dead[i] = subject_start(dies);
		subject_await(&dead[i], 1);
	}
	weft_pool_put(pool);
	s = begin(hold, &pool);
	for (int i = 0; i < 3; i++)
		subject_end(&dead[i]);
	begun_ns = weft_clock_now_ns();
	assert_int_equal(weft_pool_recover(pool), 0);
	begun_ns = weft_clock_now_ns() - begun_ns;
	assert_true(begun_ns >= PATIENCE_NS && begun_ns < 2 * PATIENCE_NS);
	go_on(&s);
	assert_int_equal(weft_pool_recover(pool), 3);
	subject_end(&s);
	weft_pool_put(pool);
}

/* The lock is always taken, but by one process after the other: that is a queue, and no owner is given up
 * on. */
static void pass_on(struct subject *s)
{
	struct weft_pool *pool = subject_attach(s);
	int key = weft_enter(weft_attachment(pool));
	uint64_t begun_ns = weft_clock_now_ns();

	subject_require(key >= 0, "enter");
	raise(SIGSTOP);
	while (weft_clock_now_ns() - begun_ns < 3 * PATIENCE_NS) {
		pool->home->turns++;
		usleep(10000);
	}
	weft_leave(weft_attachment(pool), key);
	pause();
}

static void test_turns(void **state)
{
	struct weft_pool *pool;
	struct subject s = begin(pass_on, &pool);
	uint64_t took_ns;
	char text[1024];

	divert(NULL, 0);
	assert_int_equal(kill(s.pid, SIGCONT), 0);
	assert_int_equal(lease_one(pool, &took_ns), 0);
	divert(text, sizeof(text));
	assert_true(took_ns > PATIENCE_NS);
	assert_string_equal(text, "");
	subject_end(&s);
	weft_pool_put(pool);
}

static void test_not_locked(void **state)
{
	struct weft_pool *pool = subject_watch();
	int fd = open(subject_pool(), O_RDWR | O_CLOEXEC);
	struct weft_lock_owner owner;
	char text[128];

	assert_true(fd >= 0);
	assert_false(weft_lock_owner_find(fd, &owner));
	weft_lock_owner_text(fd, text, sizeof(text));
	assert_non_null(strstr(text, "cannot be seen"));
	assert_int_equal(weft_lock_file(fd, false), 0);
	assert_true(weft_lock_owner_find(fd, &owner));
	assert_int_equal(owner.pid, getpid());
	assert_false(owner.stopped);
	close(fd);
	assert_false(weft_lock_owner_find(-1, &owner));
	weft_pool_put(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_named),	   cmocka_unit_test(test_left),
		cmocka_unit_test(test_recover),	   cmocka_unit_test(test_turns),
		cmocka_unit_test(test_not_locked),
	};

	return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
