/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The gate of a build with WEFT_GATES (pool/gate.c), as which this program is built whatever its libraries are: an exchange on a
 * word of another host's part of the pool ends the process where the pool has no atomic instructions, whichever part it is;
 * one on a word of its own does not, nor a store or a load that is no exchange.
 */
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/format.h"
#include "pool/format_host.h"
#include "pool/internal.h"

#define BYTES (1ull << 30)
#define HOSTS 4u
#define OURS  1u

static char path[64];
static struct weft_pool *pool;
static sigjmp_buf aborted;

static void begin(uint32_t flags)
{
	char where[PATH_MAX], host[4];
	const char *why;

	snprintf(path, sizeof(path), "shm:/dev/shm/weft-test-gates-%d", getpid());
	assert_int_equal(weft_pool_create(path, HOSTS, BYTES, 1000, flags, &why), 0);
	snprintf(host, sizeof(host), "%u", OURS);
	setenv("WEFT_HOST", host, 1);
	if (weft_pool_get(path, &pool, where, &why))
		fail_msg("%s: %s", where, why);
	weft_gate_open(pool);
}

static int begin_plain(void **state)
{
	begin(0);
	return 0;
}

static int begin_with_atomics(void **state)
{
	begin(WEFT_POOL_ATOMICS);
	return 0;
}

static int end(void **state)
{
	const char *why;

	weft_gate_open(NULL);
	weft_pool_put(pool);
	return weft_pool_remove(path, &why);
}

/* ---- Where ---- */

enum part { MEMBER, HOST_PAGE, QUEUE_PAIR, REGION, OBJECT, SEGMENT, PARTS };

/* Where that host's share of the part begins, and where it ends. */
static uint64_t share_at(enum part part, uint32_t host)
{
	uint64_t blocks = (uint64_t)weft_slice_of(pool, WEFT_BLOCKS, host).first;

	switch (part) {
	case MEMBER:
		return WEFT_OFF_MEMBERS +
		       weft_slice_of(pool, WEFT_MEMBERS, host).first * WEFT_MEMBER_BYTES;
	case HOST_PAGE:
		return WEFT_OFF_HOSTS + host * sizeof(struct weft_pool_host);
	case QUEUE_PAIR:
		return WEFT_OFF_QPS + blocks * WEFT_QP_BLOCK_BYTES;
	case REGION:
		return WEFT_OFF_MRS + blocks * WEFT_MR_BLOCK_BYTES;
	case OBJECT:
		return WEFT_OFF_OBJECTS + blocks * WEFT_OBJECT_BLOCK_BYTES;
	case SEGMENT:
	case PARTS:
		break;
	}
	return (weft_segment_first(pool) +
		(uint64_t)((pool->segments - weft_segment_first(pool)) / HOSTS) * host) *
	       weft_segment_bytes(pool);
}

static _Atomic uint64_t *word_at(uint64_t off)
{
	_Atomic uint64_t *word = weft_pool_window(pool, off, sizeof(*word));

	assert_non_null(word);
	return word;
}

/* ---- How ---- */

static void on_abort(int signal)
{
	siglongjmp(aborted, signal);
}

/* None changes the word. */
static void exchange(_Atomic uint64_t *word, int how)
{
	uint64_t was = atomic_load(word);

	switch (how) {
	case 0:
		atomic_fetch_add_explicit(word, 0, memory_order_relaxed);
		break;
	case 1:
		atomic_fetch_sub(word, 0);
		break;
	case 2:
		atomic_fetch_or(word, 0);
		break;
	case 3:
		atomic_fetch_and(word, UINT64_MAX);
		break;
	case 4:
		atomic_fetch_xor(word, 0);
		break;
	case 5:
		atomic_exchange_explicit(word, was, memory_order_acquire);
		break;
	case 6:
		atomic_compare_exchange_strong(word, &was, was);
		break;
	default:
		atomic_store(word, was);
	}
}

#define WAYS 8

static bool ends_process(_Atomic uint64_t *word, int how)
{
	if (sigsetjmp(aborted, 1))
		return true;
	exchange(word, how);
	return false;
}

/* ---- Tests ---- */

static void each_word(bool ends)
{
	struct sigaction act = {.sa_handler = on_abort}, old;

	sigaction(SIGABRT, &act, &old);
	for (enum part part = 0; part < PARTS; part++)
		for (uint32_t host = 0; host < HOSTS; host++)
			for (int how = 0; how < WAYS; how++) {
				bool is_end = how % 2;
				uint64_t off = is_end ? share_at(part, host + 1) - sizeof(uint64_t)
						      : share_at(part, host);

				if (ends_process(word_at(off), how) != (ends && host != OURS))
					fail_msg("part %d of host %u, way %d", part, host, how);
			}
	sigaction(SIGABRT, &old, NULL);
}

static void plain(void **state)
{
	each_word(true);
}

static void with_atomics(void **state)
{
	each_word(false);
}

/* What no host has of its own is written by no exchange. */
static void header(void **state)
{
	struct sigaction act = {.sa_handler = on_abort}, old;

	sigaction(SIGABRT, &act, &old);
	assert_true(ends_process(word_at(WEFT_OFF_LEASES), 0));
	sigaction(SIGABRT, &old, NULL);
}

static void elsewhere(void **state)
{
	_Atomic uint64_t word = 1;
	_Atomic uint64_t *home = word_at(WEFT_OFF_NEAR);
	_Atomic uint64_t *theirs = word_at(share_at(SEGMENT, !OURS));

	exchange(&word, 0);
	exchange(home, 0);
	atomic_store_explicit(theirs, atomic_load(theirs), memory_order_release);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(plain, begin_plain, end),
		cmocka_unit_test_setup_teardown(with_atomics, begin_with_atomics, end),
		cmocka_unit_test_setup_teardown(header, begin_plain, end),
		cmocka_unit_test_setup_teardown(elsewhere, begin_plain, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
