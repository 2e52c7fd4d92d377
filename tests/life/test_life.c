/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A member lives as long as its process, no longer and no shorter: whatever descriptors the program closes,
 * whatever children inherit, in namespaces and while it is stopped.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "subject.h"

#define EXTENT (3ull << 20)

static void use(struct weft_pool *pool)
{
	uint64_t off;
	uint32_t index;

	subject_require(!weft_pool_extent_alloc(pool, EXTENT, &off), "extent");
	subject_require(weft_pool_populate(pool, off, EXTENT), "populate");
	subject_require(!weft_pool_take_mr(pool, &index) && !weft_pool_take_qp(pool, &index),
			"entry");
}

static void live(struct subject *s)
{
	use(subject_attach(s));
	subject_ready(s);
	pause();
}

/* A member is killed: all that it had comes back when any member's helper looks. */
static void test_killed(void **state)
{
	struct subject s = subject_start(live);
	struct weft_pool *pool;

	subject_await(&s, 1);
	pool = subject_watch();
	assert_true(subject_alive(pool, &s));
	assert_int_equal(subject_leases(pool, &s), 3);
	assert_int_equal(weft_pool_watch(pool), 0);
	kill(s.pid, SIGKILL);
	subject_await_death(pool, &s);
	assert_int_equal(weft_pool_watch(pool), 1);
	assert_int_equal(subject_leases(pool, &s), 0);
	assert_int_equal(weft_pool_watch(pool), 0);
	subject_end(&s);
	weft_pool_put(pool);
}

static void attaches_and_leaves(struct subject *s)
{
	struct weft_pool *pool = subject_attach(s);

	use(pool);
	weft_pool_put(pool);
	subject_ready(s);
	pause();
}

static void test_left(void **state)
{
	struct subject s = subject_start(attaches_and_leaves);
	struct weft_pool *pool;

	subject_await(&s, 1);
	pool = subject_watch();
	assert_false(subject_alive(pool, &s));
	assert_int_equal(subject_leases(pool, &s), 0);
	assert_int_equal(weft_pool_watch(pool), 0);
	subject_end(&s);
	weft_pool_put(pool);
}

static pid_t fork_plain(void)
{
	return fork();
}

/* As programs do that go round libc, so that no fork handler runs. */
static pid_t fork_raw(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void fork_and_live(struct subject *s, pid_t (*start)(void))
{
	pid_t child;

	use(subject_attach(s));
	child = start();
	subject_require(child >= 0, "fork");
	if (child) {
		s->page->value[0] = (uint64_t)child;
		subject_ready(s);
	}
	pause();
}

static void forks(struct subject *s)
{
	fork_and_live(s, fork_plain);
}

static void clones(struct subject *s)
{
	fork_and_live(s, fork_raw);
}

static void survive_child(void (*fn)(struct subject *))
{
	struct subject s = subject_start(fn);
	struct weft_pool *pool;
	pid_t child;

	subject_await(&s, 1);
	child = (pid_t)s.page->value[0];
	pool = subject_watch();
	assert_true(subject_alive(pool, &s));
	kill(s.pid, SIGKILL);
	subject_await_death(pool, &s);
	assert_int_equal(kill(child, 0), 0); /* the child is still there, and is no member */
	assert_int_equal(weft_pool_watch(pool), 1);
	kill(child, SIGKILL);
	subject_end(&s);
	weft_pool_put(pool);
}

static void test_fork(void **state)
{
	survive_child(forks);
}

static void test_raw_clone(void **state)
{
	survive_child(clones);
}

static void executes(struct subject *s)
{
	use(subject_attach(s));
	subject_ready(s);
	subject_wait(s);
	execlp("sleep", "sleep", "100", NULL);
}

static void test_exec(void **state)
{
	struct subject s = subject_start(executes);
	struct weft_pool *pool;

	subject_await(&s, 1);
	pool = subject_watch();
	assert_true(subject_alive(pool, &s));
	subject_go(&s);
	subject_await_death(pool, &s);
	assert_int_equal(waitpid(s.pid, NULL, WNOHANG), 0);
	assert_int_equal(weft_pool_watch(pool), 1);
	subject_end(&s);
	weft_pool_put(pool);
}

static void closes_all(struct subject *s)
{
	struct weft_pool *pool = subject_attach(s);
	int go = s->go;

	s->go = dup2(go, 3);
	syscall(SYS_close_range, 4u, ~0u, 0u);
	use(pool);
	subject_ready(s);
	subject_wait(s);
	weft_pool_put(pool);
	subject_ready(s);
	pause();
}

static void test_close_range(void **state)
{
	struct subject s = subject_start(closes_all);
	struct weft_pool *pool;

	subject_await(&s, 1);
	pool = subject_watch();
	assert_true(subject_alive(pool, &s));
	assert_int_equal(subject_leases(pool, &s), 3);
	subject_go(&s);
	subject_await(&s, 2);
	assert_int_equal(subject_leases(pool, &s), 0);
	subject_end(&s);
	weft_pool_put(pool);
}

/* Opens a file of its own under every descriptor number that the pool had. */
static void takes_numbers(struct subject *s)
{
	struct weft_pool *pool = subject_attach(s);
	int mine = open("/dev/shm", O_TMPFILE | O_RDWR, 0600), taken = 0;
	struct stat before, st, file;
	char text[] = "mine";

	subject_require(!stat(subject_pool(), &file), "stat");
	subject_require(pwrite(mine, text, sizeof(text), 0) == sizeof(text), "write");
	for (int fd = 3; fd < 64; fd++)
		if (!fstat(fd, &st) && st.st_ino == file.st_ino && st.st_dev == file.st_dev) {
			dup2(mine, fd);
			taken++;
		}
	subject_require(taken > 0, "the pool's descriptor");
	subject_require(!fstat(mine, &before), "fstat");
	use(pool);
	weft_pool_put(pool);
	subject_require(!fstat(mine, &st) && st.st_size == before.st_size &&
				st.st_blocks == before.st_blocks &&
				st.st_mtim.tv_nsec == before.st_mtim.tv_nsec,
			"the program's file is unchanged");
	subject_require(pread(mine, text, sizeof(text), 0) == sizeof(text), "read");
	for (int fd = 3; fd < 64; fd++)
		taken -= fd != mine && !fstat(fd, &st) && st.st_ino == before.st_ino;
	subject_require(!taken, "all of the program's descriptors are open");
	subject_ready(s);
	pause();
}

static void test_number_reused(void **state)
{
	struct subject s = subject_start(takes_numbers);
	struct weft_pool *pool;

	subject_await(&s, 1);
	pool = subject_watch();
	assert_int_equal(subject_leases(pool, &s), 0);
	subject_end(&s);
	weft_pool_put(pool);
}

/* A path that is not absolute means the same file, wherever the program changes its folder to. */
static void goes_elsewhere(struct subject *s)
{
	struct weft_pool *pool;
	char where[PATH_MAX];
	const char *why;

	subject_require(!chdir("/dev/shm"), "chdir");
	subject_require(!weft_pool_get(strrchr(subject_pool(), '/') + 1, &pool, where, &why), why);
	subject_require(!chdir("/"), "chdir");
	s->page->member = pool->me;
	s->page->incarnation = pool->incarnation;
	syscall(SYS_close_range, (unsigned int)s->go + 1, ~0u, 0u);
	use(pool);
	subject_ready(s);
	pause();
}

static void test_relative_path(void **state)
{
	struct subject s = subject_start(goes_elsewhere);
	struct weft_pool *pool;

	subject_await(&s, 1);
	pool = subject_watch();
	assert_true(subject_alive(pool, &s));
	assert_int_equal(subject_leases(pool, &s), 3);
	subject_end(&s);
	weft_pool_put(pool);
}

static void *live_on(void *s)
{
	sleep(1);
	use(subject_attach(s));
	subject_ready(s);
	pause();
	return NULL;
}

/* A process is a member as long as any of its threads lives. */
static void ends_its_first_thread(struct subject *s)
{
	pthread_t thread;

	subject_require(!pthread_create(&thread, NULL, live_on, s), "thread");
	pthread_exit(NULL);
}

static void test_first_thread_ends(void **state)
{
	struct subject s = subject_start(ends_its_first_thread);
	struct weft_pool *pool;

	subject_await(&s, 1);
	pool = subject_watch();
	assert_true(subject_alive(pool, &s));
	kill(s.pid, SIGKILL);
	subject_await_death(pool, &s);
	subject_end(&s);
	weft_pool_put(pool);
}

/* Both processes are in a PID namespace of their own, where process ids mean nothing to others. */
static void enters_namespace(struct subject *s)
{
	pid_t child;

	subject_require(!unshare(CLONE_NEWPID | (geteuid() ? CLONE_NEWUSER : 0)), "unshare");
	child = fork();
	subject_require(child >= 0, "fork");
	if (child) {
		s->page->value[0] = (uint64_t)child;
		waitpid(child, NULL, 0);
		return;
	}
	s->page->value[1] = (uint64_t)getpid();
	live(s);
}

static void test_pid_namespace(void **state)
{
	struct subject s = subject_start(enters_namespace);
	struct weft_pool *pool;

	for (int i = 0; !s.page->ready; i++) {
		if (waitpid(s.pid, NULL, WNOHANG)) {
			print_message("namespaces are not allowed here\n");
			skip();
		}
		usleep(1000);
	}
	assert_int_equal(s.page->value[1], 1);
	pool = subject_watch();
	assert_true(subject_alive(pool, &s));
	assert_int_equal(weft_pool_watch(pool), 0);
	kill((pid_t)s.page->value[0], SIGKILL);
	subject_await_death(pool, &s);
	assert_int_equal(weft_pool_watch(pool), 1);
	subject_end(&s);
	weft_pool_put(pool);
}

static void works_on(struct subject *s)
{
	struct weft_pool *pool = subject_attach(s);

	use(pool);
	subject_ready(s);
	for (;;) {
		uint64_t off;

		subject_require(!weft_pool_extent_alloc(pool, EXTENT, &off), "extent");
		weft_pool_extent_free(pool, off, EXTENT);
		s->page->value[0]++;
	}
}

/* A process that is stopped for long, as by a debugger or with its machine, is not taken for dead. */
static void test_stopped(void **state)
{
	struct subject s = subject_start(works_on);
	struct weft_pool *pool;
	uint64_t seen;

	subject_await(&s, 1);
	pool = subject_watch();
	kill(s.pid, SIGSTOP);
	assert_int_equal(waitpid(s.pid, NULL, WUNTRACED), s.pid);
	for (int i = 0; i < 20; i++) {
		assert_true(subject_alive(pool, &s));
		assert_int_equal(weft_pool_watch(pool), 0);
		usleep(100000);
	}
	seen = s.page->value[0];
	kill(s.pid, SIGCONT);
	for (int i = 0; s.page->value[0] == seen; i++) {
		assert_in_range(i, 0, 10000);
		usleep(1000);
	}
	assert_true(subject_alive(pool, &s));
	kill(s.pid, SIGKILL);
	subject_await_death(pool, &s);
	assert_int_equal(weft_pool_watch(pool), 1);
	subject_end(&s);
	weft_pool_put(pool);
}

/* A core dump takes long, and the process is a member until it is written. */
static void aborts(struct subject *s)
{
	use(subject_attach(s));
	subject_ready(s);
	subject_wait(s);
	abort();
}

static void test_abort(void **state)
{
	struct subject s = subject_start(aborts);
	struct weft_pool *pool;

	subject_await(&s, 1);
	pool = subject_watch();
	subject_go(&s);
	subject_await_death(pool, &s);
	assert_int_equal(weft_pool_watch(pool), 1);
	assert_int_equal(subject_leases(pool, &s), 0);
	subject_end(&s);
	weft_pool_put(pool);
}

/* The last member dies: the next process to join recovers it. */
static void test_last_member(void **state)
{
	struct subject s = subject_start(live);
	struct weft_pool *pool;

	subject_await(&s, 1);
	kill(s.pid, SIGKILL);
	assert_int_equal(waitpid(s.pid, NULL, 0), s.pid);
	pool = subject_watch();
	assert_int_equal(subject_leases(pool, &s), 0);
	assert_int_equal(weft_pool_watch(pool), 0);
	subject_end(&s);
	weft_pool_put(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_left),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_raw_clone),
		cmocka_unit_test(test_exec),
		cmocka_unit_test(test_close_range),
		cmocka_unit_test(test_number_reused),
		cmocka_unit_test(test_relative_path),
		cmocka_unit_test(test_first_thread_ends),
		cmocka_unit_test(test_pid_namespace),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_last_member),
	};

	return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
