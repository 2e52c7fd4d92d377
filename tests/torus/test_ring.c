/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cables from inside: each beat once and in order, sleeping ends woken, cuts, damaged files. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/door.h"
#include "link/ring.h"

#define BEATS	64u
#define TRAFFIC 200000u
#define S_NS	1000000000ll

static char folder[] = "/dev/shm/weft-test-ring-XXXXXX";
static char path[64];
static struct weft_cable_ring out, in;

static int begin(void **state)
{
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/cable", folder);
	return 0;
}

static int end(void **state)
{
	weft_ring_close(&out);
	weft_ring_close(&in);
	unlink(path);
	assert_int_equal(rmdir(folder), 0);
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	return 0;
}

static void open_both(uint32_t quads)
{
	assert_int_equal(weft_ring_make(path, quads, BEATS), 0);
	assert_int_equal(weft_ring_open(&out, path, false), 0);
	assert_int_equal(weft_ring_open(&in, path, true), 0);
}

static void put(uint64_t first)
{
	uint64_t beat[WEFT_RING_QUADS];

	for (unsigned int i = 0; i < WEFT_RING_QUADS; i++)
		beat[i] = first * 7 + i;
	weft_ring_put(&out, beat);
}

static void take(uint64_t first)
{
	uint64_t beat[WEFT_RING_QUADS] = {0};

	assert_true(weft_ring_take(&in, beat));
	for (unsigned int i = 0; i < in.quads; i++)
		assert_int_equal(beat[i], first * 7 + i);
	for (unsigned int i = in.quads; i < WEFT_RING_QUADS; i++)
		assert_int_equal(beat[i], 0);
}

/* ---- One after the other ---- */

static void test_order(void **state)
{
	for (uint32_t quads = 1; quads <= WEFT_RING_QUADS; quads *= 2) {
		uint64_t put_count = 0, taken = 0, flushed = 0;

		open_both(quads);
		while (put_count < 10 * BEATS) {
			while (weft_ring_has_room(&out, 1))
				put(put_count++);
			assert_int_equal(put_count - taken, BEATS);
			weft_ring_give_back(&in);
			assert_int_equal(in.others, flushed);
			weft_ring_flush(&out);
			flushed = put_count;
			assert_true(weft_ring_give_back(&in));
			for (unsigned int i = 0; i < BEATS / 4 * 3; i++)
				take(taken++);
			assert_false(weft_ring_has_room(&out, 1));
			weft_ring_give_back(&in);
			assert_true(weft_ring_is_awaited(&in));
			assert_false(weft_ring_is_awaited(&in));
		}
		weft_ring_close(&out);
		weft_ring_close(&in);
		unlink(path);
	}
}

/* A new reader does not get what was sent before it came; a new writer goes on where the last one was. */
static void test_new_ends(void **state)
{
	open_both(2);
	put(1);
	weft_ring_flush(&out);
	weft_ring_close(&in);
	assert_int_equal(weft_ring_open(&in, path, true), 0);
	assert_false(weft_ring_give_back(&in));
	weft_ring_close(&out);
	assert_int_equal(weft_ring_open(&out, path, false), 0);
	put(2);
	weft_ring_flush(&out);
	assert_true(weft_ring_give_back(&in));
	take(2);
}

static void test_cut(void **state)
{
	open_both(2);
	put(1);
	atomic_store(&out.file->cut, 1);
	put(2);
	put(3);
	atomic_store(&out.file->cut, 0);
	put(4);
	weft_ring_flush(&out);
	weft_ring_give_back(&in);
	take(1);
	take(4);
	assert_int_equal(out.lost, 2);
}

/* Some beats have one bit flipped, some are lost: about as many as is said, and all are counted. */
static void test_bad(void **state)
{
	enum { MANY = 200000, OF_MILLION = 10000 };
	uint64_t beat[WEFT_RING_QUADS], zero[WEFT_RING_QUADS] = {0};
	uint32_t came = 0, flipped = 0;

	open_both(2);
	atomic_store(&out.file->flips, OF_MILLION);
	atomic_store(&out.file->losses, 2 * OF_MILLION);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_true(weft_ring_has_room(&out, 1));
		weft_ring_put(&out, zero);
		weft_ring_flush(&out);
		weft_ring_give_back(&in);
		while (weft_ring_take(&in, beat)) {
			int bits = __builtin_popcountll(beat[0]) + __builtin_popcountll(beat[1]);

			came++;
			assert_in_range(bits, 0, 1);
			flipped += (uint32_t)bits;
		}
		weft_ring_give_back(&in);
	}
	assert_int_equal(came + out.lost, MANY);
	assert_int_equal(flipped, out.flipped);
	assert_in_range(flipped, MANY / 100 * 8 / 10, MANY / 100 * 12 / 10);
	assert_in_range(out.lost, MANY / 100 * 16 / 10, MANY / 100 * 24 / 10);
}

/* What was written is seen when the delay is over, in order, also where there are more pieces than are told apart; without delay at once. */
static void test_delay(void **state)
{
	uint64_t now_ns = 1000000;

	open_both(2);
	atomic_store(&out.file->delay_us, 100);
	for (uint64_t n = 0; n < 3; n++) {
		put(n);
		assert_int_equal(weft_ring_show(&out, now_ns + n * 1000), now_ns + 100000);
	}
	assert_false(weft_ring_give_back(&in));
	assert_int_equal(weft_ring_show(&out, now_ns + 99999), now_ns + 100000);
	assert_false(weft_ring_give_back(&in));
	assert_int_equal(weft_ring_show(&out, now_ns + 101000), now_ns + 102000);
	assert_true(weft_ring_give_back(&in));
	take(0);
	take(1);
	assert_false(weft_ring_give_back(&in));
	atomic_store(&out.file->delay_us, 0);
	assert_int_equal(weft_ring_show(&out, now_ns + 101000), 0);
	assert_true(weft_ring_give_back(&in));
	take(2);
	assert_false(weft_ring_give_back(&in));
	atomic_store(&out.file->delay_us, 100);
	for (uint64_t n = 0; n < BEATS; n++) {
		assert_true(weft_ring_has_room(&out, 1));
		put(3 + n);
		assert_int_equal(weft_ring_show(&out, now_ns + n * 1000), now_ns + 100000);
	}
	assert_false(weft_ring_give_back(&in));
	for (uint64_t n = 0; n < WEFT_RING_PIECES - 1; n++) {
		weft_ring_show(&out, now_ns + 100000 + n * 1000);
		assert_true(weft_ring_give_back(&in));
		take(3 + n);
		assert_false(weft_ring_give_back(&in));
	}
	/* the rest is as late as its last */
	assert_int_equal(weft_ring_show(&out, now_ns + 162000), now_ns + 163000);
	assert_false(weft_ring_give_back(&in));
	assert_int_equal(weft_ring_show(&out, now_ns + 163000), 0);
	assert_true(weft_ring_give_back(&in));
	for (uint64_t n = WEFT_RING_PIECES - 1; n < BEATS; n++)
		take(3 + n);
}

/* Counts that the other end has damaged are not believed. */
static void test_damaged(void **state)
{
	uint64_t beat[WEFT_RING_QUADS];

	open_both(2);
	atomic_store(&out.file->sent, 1ull << 40);
	assert_false(weft_ring_give_back(&in));
	assert_false(weft_ring_take(&in, beat));
	assert_int_equal(in.lost, 1);
}

static void test_no_ring(void **state)
{
	struct weft_cable_ring none;
	int fd;

	assert_int_equal(weft_ring_make(path, WEFT_RING_QUADS + 1, BEATS), -EINVAL);
	assert_int_equal(weft_ring_make(path, 2, BEATS + 1), -EINVAL);
	assert_int_equal(weft_ring_make(path, 2, 0), -EINVAL);
	assert_int_equal(weft_ring_open(&none, path, true), -ENOENT);
	assert_int_equal(weft_ring_make(path, 2, BEATS), 0);
	assert_int_equal(weft_ring_make(path, 2, BEATS), -EEXIST);
	fd = open(path, O_RDWR);
	assert_int_equal(ftruncate(fd, 4096 - 1024), 0);
	assert_int_equal(weft_ring_open(&none, path, true), 0);
	weft_ring_close(&none);
	assert_int_equal(ftruncate(fd, 512), 0);
	assert_int_equal(weft_ring_open(&none, path, true), -EPROTO);
	assert_int_equal(ftruncate(fd, 8), 0);
	assert_int_equal(weft_ring_open(&none, path, true), -EPROTO);
	close(fd);
}

/* ---- Both at once, asleep ---- */

static struct weft_door reader, writer;

static void *write_all(void *unused)
{
	for (uint64_t i = 0; i < TRAFFIC; i++) {
		while (!weft_ring_has_room(&out, 1)) {
			uint32_t seen;

			weft_ring_flush(&out);
			weft_door_knock(&reader);
			seen = weft_door_lie_down(&writer);
			if (!weft_ring_has_room(&out, 1))
				weft_door_sleep(&writer, seen, 10 * S_NS);
			weft_door_get_up(&writer);
		}
		put(i);
		if (i % 7 == 0) {
			weft_ring_flush(&out);
			weft_door_knock(&reader);
		}
	}
	weft_ring_flush(&out);
	weft_door_knock(&reader);
	return NULL;
}

/* Both ends sleep whenever they can; a sleep that no knock ended would take ten seconds, the whole test takes one. */
static void test_asleep(void **state)
{
	struct timespec begun, done;
	pthread_t thread;
	uint64_t i = 0;

	open_both(2);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	assert_int_equal(pthread_create(&thread, NULL, write_all, NULL), 0);
	while (i < TRAFFIC) {
		uint32_t seen;

		while (in.mine != in.others)
			take(i++);
		if (weft_ring_give_back(&in))
			continue;
		atomic_thread_fence(memory_order_seq_cst);
		if (weft_ring_is_awaited(&in))
			weft_door_knock(&writer);
		seen = weft_door_lie_down(&reader);
		if (!weft_ring_give_back(&in) && i < TRAFFIC)
			weft_door_sleep(&reader, seen, 10 * S_NS);
		weft_door_get_up(&reader);
	}
	pthread_join(thread, NULL);
	clock_gettime(CLOCK_MONOTONIC, &done);
	assert_true(done.tv_sec - begun.tv_sec < 8);
}

static void *knock_later(void *unused)
{
	usleep(100000);
	weft_door_knock(&reader);
	return NULL;
}

/* A thread sleeps at a door without processor time; it does not sleep when the knock came before. */
static void test_door(void **state)
{
	struct rusage before, after;
	pthread_t thread;
	uint32_t seen;

	getrusage(RUSAGE_SELF, &before);
	assert_int_equal(pthread_create(&thread, NULL, knock_later, NULL), 0);
	seen = weft_door_lie_down(&reader);
	weft_door_sleep(&reader, seen, 10 * S_NS);
	getrusage(RUSAGE_SELF, &after);
	pthread_join(thread, NULL);
	assert_int_equal(reader.knocks, seen + 1);
	assert_true(after.ru_utime.tv_usec - before.ru_utime.tv_usec < 50000);
	seen = weft_door_lie_down(&reader);
	weft_door_knock(&reader);
	weft_door_sleep(&reader, seen, -1);
	weft_door_knock(&reader);
	assert_int_equal(reader.knocks, seen + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order, begin, end),
		cmocka_unit_test_setup_teardown(test_new_ends, begin, end),
		cmocka_unit_test_setup_teardown(test_cut, begin, end),
		cmocka_unit_test_setup_teardown(test_bad, begin, end),
		cmocka_unit_test_setup_teardown(test_delay, begin, end),
		cmocka_unit_test_setup_teardown(test_damaged, begin, end),
		cmocka_unit_test_setup_teardown(test_no_ring, begin, end),
		cmocka_unit_test_setup_teardown(test_asleep, begin, end),
		cmocka_unit_test(test_door),
	};

	return cmocka_run_group_tests_name("rings of the torus", tests, NULL, NULL);
}
