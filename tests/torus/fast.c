/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What libweft-ape promises of its calls beside what they do: posting, polling and counting allocate nothing; several threads
 * share one handle; the descriptor of ape_fd() tells what ape_wait() would. One process on one node, which sends to itself.
 */
#include "reached.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ape/weft/ape.h"

#define THREADS	  4u
#define EACH	  500u
#define BYTES	  64u
#define WAIT_MS	  60000
#define WAIT_NS	  60000000000
#define NAP_NS	  10000000
#define ROUNDS	  200u
#define TRIES_MAX 1000u

static struct ape *ape;
static struct ape_info info;
static uint8_t *memory;
static int region;

/* ---- What is allocated: the linker sends all calls of the library here ---- */

static _Atomic uint64_t allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	allocations++;
	return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	allocations++;
	return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
	allocations++;
	return __real_realloc(at, bytes);
}

/* ---- */

static int begin(void **state)
{
	uint64_t before = allocations;

	assert_int_equal(ape_open(NULL, -1, &ape), 0);
	assert_true(allocations > before); /* else the next test proves nothing */
	ape_query(ape, &info);
	memory = ape_alloc(ape, 2 * THREADS * EACH * BYTES);
	assert_non_null(memory);
	region = ape_register(ape, memory, 2 * THREADS * EACH * BYTES, APE_MAY_PUT | APE_MAY_GET);
	assert_true(region >= 0);
	return 0;
}

static int end(void **state)
{
	ape_close(ape);
	return 0;
}

static uint64_t there(uint32_t n)
{
	return (uint64_t)(uintptr_t)(memory + (size_t)(THREADS * EACH + n) * BYTES);
}

static void take_events(unsigned int events)
{
	struct ape_event e[4];
	uint64_t seen = 0;

	while (events) {
		int n = ape_poll(ape, e, 4);

		for (int i = 0; i < n; i++)
			assert_int_equal(e[i].status, APE_OK);
		events -= (unsigned int)n;
		if (!n)
			assert_int_equal(ape_wait(ape, &seen, WAIT_NS), 1);
	}
}

static void test_nothing_is_allocated(void **state)
{
	uint64_t before = allocations, counted = 0;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		assert_int_equal(ape_put(ape, info.rank, info.process, memory, BYTES, there(0), 1),
				 0);
		assert_int_equal(ape_get(ape, info.rank, info.process, memory, BYTES, there(0), 2),
				 0);
		assert_true(ape_receive(ape, memory, BYTES, 3) >= 0);
		assert_int_equal(ape_send(ape, info.rank, info.process, memory + BYTES, BYTES, 4),
				 0);
		take_events(4);
		counted = ape_count(ape, region);
	}
	assert_int_equal(counted, ROUNDS);
	assert_int_equal(allocations, before);
}

/* ---- Threads: each posts what is its own, and polls what is each one's ---- */

static _Atomic uint8_t ended[THREADS * EACH];
static _Atomic uint32_t left, wrong;

static void take_any(void)
{
	struct ape_event e[3];
	int n = ape_poll(ape, e, 3);

	for (int i = 0; i < n; i++) {
		wrong += e[i].status != APE_OK || e[i].tag >= THREADS * EACH || ended[e[i].tag]++;
		left--;
	}
}

static void *post_and_poll(void *argument)
{
	uint32_t first = *(uint32_t *)argument * EACH;
	uint64_t seen = 0;

	for (uint32_t n = first; n < first + EACH; n++) {
		int err;

		while ((err = ape_put(ape, info.rank, info.process, memory + (size_t)n * BYTES,
				      BYTES, there(n), n)) == -EAGAIN)
			take_any();
		wrong += err != 0;
	}
	while (left) {
		take_any();
		/* the last event may be another thread's, and nothing happens behind it */
		wrong += left && ape_wait(ape, &seen, NAP_NS) < 0;
	}
	return NULL;
}

static void test_threads(void **state)
{
	uint32_t number[THREADS];
	pthread_t thread[THREADS];

	for (uint32_t i = 0; i < THREADS * EACH; i++)
		for (uint32_t b = 0; b < BYTES; b++)
			memory[i * BYTES + b] = (uint8_t)(i * 31 + b);
	left = THREADS * EACH;
	for (uint32_t i = 0; i < THREADS; i++) {
		number[i] = i;
		assert_int_equal(pthread_create(&thread[i], NULL, post_and_poll, &number[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(wrong, 0);
	for (uint32_t i = 0; i < THREADS * EACH; i++)
		assert_int_equal(ended[i], 1);
	assert_memory_equal(memory, (void *)(uintptr_t)there(0), THREADS * EACH * BYTES);
}

/* ---- The descriptor ---- */

static void fail_without(int which, rlim_t limit, bool is_descriptor)
{
	struct rlimit before, none;

	getrlimit(which, &before);
	none = (struct rlimit){limit, before.rlim_max};
	setrlimit(which, &none);
	if (is_descriptor)
		FAILS(ape_fd(ape), EMFILE);
	else
		FAILS(ape_fd(ape), EAGAIN);
	setrlimit(which, &before);
}

static void test_descriptor(void **state)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), fd;
	struct epoll_event waits = {.events = EPOLLIN}, told;
	struct ape_event e;
	uint64_t times;

	fail_without(RLIMIT_NOFILE, 3, true);
	fail_without(RLIMIT_NPROC, 0, false);
	fd = ape_fd(ape);
	assert_true(fd > 0);
	assert_int_equal(ape_fd(ape), fd);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &waits), 0);
	/* what was before it counts as news */
	assert_int_equal(epoll_wait(epoll, &told, 1, WAIT_MS), 1);
	assert_int_equal(read(fd, &times, sizeof(times)), sizeof(times));
	assert_int_equal(read(fd, &times, sizeof(times)), -1);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		unsigned int tries = 0;

		assert_int_equal(ape_put(ape, info.rank, info.process, memory, BYTES, there(0), i),
				 0);
		while (!ape_poll(ape, &e, 1)) {
			assert_true(++tries < TRIES_MAX);
			assert_int_equal(epoll_wait(epoll, &told, 1, WAIT_MS), 1);
			assert_true(read(fd, &times, sizeof(times)) == sizeof(times) ||
				    errno == EAGAIN);
		}
		assert_int_equal(e.tag, i);
	}
	close(epoll);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_is_allocated, begin, end),
		cmocka_unit_test_setup_teardown(test_threads, begin, end),
		cmocka_unit_test_setup_teardown(test_descriptor, begin, end),
	};

	return cmocka_run_group_tests_name("the fast path of libweft-ape", tests, NULL, NULL);
}
