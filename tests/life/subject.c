/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "subject.h"
#include "pool/format.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 10000

static char path[64];

static void remove_pool(void)
{
	unlink(path);
}

const char *subject_pool(void)
{
	if (!*path) {
		snprintf(path, sizeof(path), "/dev/shm/weft-life-%d", getpid());
		unlink(path);
		atexit(remove_pool);
	}
	return path;
}

static const int deadly[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS};

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

struct subject subject_start(void (*fn)(struct subject *))
{
	struct subject s;
	int go[2];

	subject_pool();
	s.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(s.page, MAP_FAILED);
	assert_int_equal(pipe(go), 0);
	s.pid = fork();
	assert_true(s.pid >= 0);
	s.go = go[s.pid ? 1 : 0];
	close(go[s.pid ? 0 : 1]);
	if (s.pid)
		return s;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* cmocka's handlers would go on with the next test in this process */
	for (size_t i = 0; i < sizeof(deadly) / sizeof(*deadly); i++)
		signal(deadly[i], SIG_DFL);
	weft_pool_forget(); /* as the fork handler of the product does */
	fn(&s);
	_exit(0);
}

void subject_await(const struct subject *s, uint32_t steps)
{
	for (int i = 0; s->page->ready < steps; i++) {
		assert_int_equal(waitpid(s->pid, NULL, WNOHANG), 0);
		assert_in_range(i, 0, PATIENCE_MS);
		nap();
	}
}

void subject_go(const struct subject *s)
{
	assert_int_equal(write(s->go, "g", 1), 1);
}

void subject_end(struct subject *s)
{
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	close(s->go);
	munmap(s->page, 4096);
}

void subject_require(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "subject: %s (%s)\n", what, strerror(errno));
	_exit(1);
}

struct weft_pool *subject_attach(struct subject *s)
{
	struct weft_pool *pool;
	char where[PATH_MAX];
	const char *why;

	errno = -weft_pool_get(path, &pool, where, &why);
	subject_require(!errno, why);
	s->page->member = pool->me;
	s->page->incarnation = pool->incarnation;
	return pool;
}

void subject_ready(struct subject *s)
{
	s->page->ready++;
}

void subject_wait(struct subject *s)
{
	char byte;

	subject_require(read(s->go, &byte, 1) == 1, "the test has gone");
}

struct weft_pool *subject_watch(void)
{
	struct weft_pool *pool;
	char where[PATH_MAX];
	const char *why;

	assert_int_equal(weft_pool_get(subject_pool(), &pool, where, &why), 0);
	return pool;
}

bool subject_alive(struct weft_pool *pool, const struct subject *s)
{
	return weft_pool_alive(pool, s->page->member, s->page->incarnation);
}

void subject_await_death(struct weft_pool *pool, const struct subject *s)
{
	for (int i = 0; subject_alive(pool, s); i++) {
		assert_in_range(i, 0, PATIENCE_MS);
		nap();
	}
}

unsigned int subject_leases(struct weft_pool *pool, const struct subject *s)
{
	const _Atomic uint64_t *lease = (const void *)pool->leases;
	uint64_t word = s->page->incarnation << 16 | (s->page->member + 1u);
	unsigned int count = 0;

	for (size_t i = 0; i < sizeof(*pool->leases) / sizeof(*lease); i++)
		count += lease[i] == word;
	return count;
}
