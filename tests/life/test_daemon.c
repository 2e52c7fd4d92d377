/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Processes that become daemons, before or after they join the pool, and machines that are suspended: a
 * process that lives is a member, and one that was only stopped has not died.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "subject.h"

#define SUSPENDED_US 2500000 /* longer than Weft ever waits for a process */

static void attach_and_use(struct subject *s)
{
	struct weft_pool *pool = subject_attach(s);
	uint64_t off;

	subject_require(!weft_pool_extent_alloc(pool, 3 * WEFT_PAGE, &off), "extent");
}

/* Gives the process a session of its own, no parent, and none of the descriptors that it had. Returns true in
 * the daemon. */
static bool become_daemon(struct subject *s)
{
	pid_t child = fork();

	subject_require(child >= 0, "fork");
	if (child) {
		waitpid(child, NULL, 0);
		return false;
	}
	subject_require(setsid() >= 0 && !chdir("/"), "setsid");
	umask(0);
	child = fork();
	subject_require(child >= 0, "fork again");
	if (child) {
		/* before the ancestor ends, whose end the test waits for */
		s->page->value[0] = (uint64_t)child;
		_exit(0);
	}
	closefrom(0);
	return true;
}

static void attaches_as_daemon(struct subject *s)
{
	if (!become_daemon(s))
		return;
	attach_and_use(s);
	closefrom(0); /* careless daemons do it again */
	subject_ready(s);
	pause();
}

/* The daemon's ancestors have ended; it is a member until it dies itself. */
static void test_daemon(void **state)
{
	struct subject s = subject_start(attaches_as_daemon);
	struct weft_pool *pool;

	assert_int_equal(waitpid(s.pid, NULL, 0), s.pid);
	for (int i = 0; !s.page->ready; i++) {
		assert_in_range(i, 0, 10000);
		usleep(1000);
	}
	pool = subject_watch();
	assert_true(subject_alive(pool, &s));
	assert_int_equal(weft_pool_watch(pool), 0);
	kill((pid_t)s.page->value[0], SIGKILL);
	subject_await_death(pool, &s);
	assert_int_equal(weft_pool_watch(pool), 1);
	assert_int_equal(subject_leases(pool, &s), 0);
	weft_pool_put(pool);
}

static void becomes_daemon(struct subject *s)
{
	attach_and_use(s);
	s->page->value[1] = s->page->incarnation;
	subject_ready(s);
	subject_wait(s);
	if (!become_daemon(s))
		return;
	weft_pool_forget(); /* as the fork handler of the product does */
	s->page->value[2] = 1;
	while (!s->page->value[3])
		usleep(1000);
	attach_and_use(s);
	subject_ready(s);
	pause();
}

/* What an ancestor has joined ends with the ancestor. The daemon may join anew, as another member. */
static void test_daemon_later(void **state)
{
	struct subject s = subject_start(becomes_daemon);
	struct weft_pool *pool;
	pid_t daemon;

	subject_await(&s, 1);
	pool = subject_watch();
	assert_true(subject_alive(pool, &s));
	subject_go(&s);
	assert_int_equal(waitpid(s.pid, NULL, 0), s.pid);
	subject_await_death(pool, &s);
	daemon = (pid_t)s.page->value[0];
	assert_int_equal(kill(daemon, 0), 0);
	assert_int_equal(weft_pool_watch(pool), 1);
	s.page->value[3] = 1;
	for (int i = 0; s.page->ready < 2; i++) {
		assert_in_range(i, 0, 10000);
		usleep(1000);
	}
	assert_int_not_equal(s.page->incarnation, s.page->value[1]);
	assert_true(subject_alive(pool, &s));
	kill(daemon, SIGKILL);
	subject_await_death(pool, &s);
	assert_int_equal(weft_pool_watch(pool), 1);
	weft_pool_put(pool);
}

/* Works, and watches the other members as a helper does. */
static void works_and_watches(struct subject *s)
{
	struct weft_pool *pool = subject_attach(s);
	uint64_t off;

	subject_ready(s);
	for (;;) {
		subject_require(!weft_pool_extent_alloc(pool, WEFT_PAGE, &off), "extent");
		subject_require(!weft_pool_quiesce(pool, 0, weft_pool_age(pool)), "quiesce");
		weft_pool_extent_free(pool, off, WEFT_PAGE);
		s->page->value[0]++;
		s->page->value[1] += weft_pool_watch(pool);
	}
}

#define SUSPENDED 4

/* All processes stop, wherever they are, and go on one after the other, so that each is alone among stopped
 * ones for a while. In a real suspend a monotonic clock stands still; here it goes on, which is harder. */
static void test_suspended(void **state)
{
	struct subject s[SUSPENDED];
	uint64_t seen[SUSPENDED];
	struct weft_pool *pool;

	for (int i = 0; i < SUSPENDED; i++) {
		s[i] = subject_start(works_and_watches);
		subject_await(&s[i], 1);
	}
	for (int i = 0; i < SUSPENDED; i++)
		kill(s[i].pid, SIGSTOP);
	usleep(SUSPENDED_US);
	for (int i = 0; i < SUSPENDED; i++)
		seen[i] = s[i].page->value[0];
	for (int i = 0; i < SUSPENDED; i++) {
		kill(s[i].pid, SIGCONT);
		usleep(100000);
	}
	for (int i = 0; i < SUSPENDED; i++)
		for (int k = 0; s[i].page->value[0] == seen[i]; k++) {
			assert_in_range(k, 0, 10000);
			usleep(1000);
		}
	pool = subject_watch();
	for (int i = 0; i < SUSPENDED; i++) {
		assert_true(subject_alive(pool, &s[i]));
		assert_int_equal(s[i].page->value[1], 0);
	}
	assert_int_equal(weft_pool_watch(pool), 0);
	for (int i = 0; i < SUSPENDED; i++)
		subject_end(&s[i]);
	weft_pool_put(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_daemon),
		cmocka_unit_test(test_daemon_later),
		cmocka_unit_test(test_suspended),
	};

	return cmocka_run_group_tests_name("daemon", tests, NULL, NULL);
}
