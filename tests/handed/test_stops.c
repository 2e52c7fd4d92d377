/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The card is stopped in the midst of a request, at a labelled step, and the owner takes back what the card
 * may use: a region, a connection, the queue pair. Each of these takes a second then, and the memory is kept
 * out of use until the card goes on: so nothing that is made meanwhile changes when it does.
 */
#include "../nic/ends.h"
#include "nic/cq.h"
#include "nic/mr.h"
#include "nic/qp.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/clock.h"
#include "pool/sge.h"
#include "pool/step.h"
#include "process.h"
#include "transport/registry.h"

#define PATIENCE_NS 10000000000ull
#define SECOND_NS   1000000000ull
#define FRESH	    64u

static struct card_process card;

/* The linked library has steps; this process takes no notice of them. */
void weft_step(const struct weft_step *step)
{
}

static void look(void)
{
	world.now_ns = weft_clock_now_ns();
	world_look();
	usleep(100);
}

/* Posts three requests, and waits until the card has stopped at that step in one of them. */
static void open_and_stop(const char *step)
{
	uint64_t until_ns = weft_clock_now_ns() + PATIENCE_NS;

	world.nic.transports = weft_transports;
	card_start(&card, "2000", step);
	ends_open();
	for (int i = 0; i < 3; i++)
		ends_post(WEFT_OP_WRITE, &ends_near);
	while (!card_has_stopped(&card)) {
		assert_true(weft_clock_now_ns() < until_ns);
		usleep(100);
	}
}

/* ---- Blocks that are made meanwhile ---- */

static uint64_t fresh_off[FRESH];

/* Blocks of all sizes: if memory that was given back were free, one of these would get it. */
static uint64_t size_of_fresh(uint32_t i)
{
	return 64ull << i % 8;
}

static void make_fresh(void)
{
	for (uint32_t i = 0; i < FRESH; i++) {
		assert_int_equal(weft_pool_alloc(world.pool, size_of_fresh(i), &fresh_off[i]), 0);
		memset(world.pool->base + fresh_off[i], 'p', size_of_fresh(i));
	}
}

static void check_fresh(void)
{
	for (uint32_t i = 0; i < FRESH; i++) {
		for (uint32_t k = 0; k < size_of_fresh(i); k++)
			assert_int_equal(world.pool->base[fresh_off[i] + k], 'p');
		weft_pool_free(world.pool, fresh_off[i], size_of_fresh(i));
	}
}

/* ---- The card goes on ---- */

static void go_on(void)
{
	uint64_t until_ns = weft_clock_now_ns() + PATIENCE_NS;

	assert_int_equal(kill(card.pid, SIGCONT), 0);
	usleep(20000);
	while (atomic_load(&world.pool->nretired)) {
		assert_true(weft_clock_now_ns() < until_ns);
		weft_pool_sweep(world.pool);
		look();
	}
}

/* A connection that is made while the card is stopped works afterwards, and gets no completion but its
 * own. */
static void check_next(void)
{
	uint64_t until_ns = weft_clock_now_ns() + PATIENCE_NS;
	struct weft_wc wc;

	while (!weft_cq_poll(&world.cq, 1, &wc, 0)) {
		assert_true(weft_clock_now_ns() < until_ns);
		look();
	}
	assert_int_equal(wc.wr_id, 77);
	assert_int_equal(wc.status, WEFT_WC_SUCCESS);
	for (int i = 0; i < 100; i++)
		look();
	world_expect_none();
	for (uint32_t i = 0; i < ENDS_BYTES; i++)
		assert_int_equal(ends_peer.memory[i], 'n');
}

static void post_next(void)
{
	ends_submit(&(struct ends_request){.opcode = WEFT_OP_WRITE,
					   .wr_id = 77,
					   .flags = WEFT_SEND_SIGNALED},
		    &ends_near);
}

/* The call that took something back has waited for the card, and its memory stays out of use. */
static void check_retired(uint64_t begun_ns)
{
	assert_in_range(weft_clock_now_ns() - begun_ns, SECOND_NS * 9 / 10, SECOND_NS * 5);
	assert_true(atomic_load(&world.pool->nretired) > 0);
	world_expect_none();
	make_fresh();
}

static void end_with_next(void)
{
	post_next();
	go_on();
	check_fresh();
	check_next();
	ends_close();
	assert_int_equal(card_end(&card), 0);
}

/* ---- The owner takes back ---- */

/* Does as ends_close does, with what the stopped card may still reach. */
static void retire(struct end *e)
{
	bool quiet;

	ends_destroy(e);
	assert_true(weft_mr_close(&e->mr));
	quiet = weft_mr_revoke(&e->mr);
	weft_mr_destroy(&e->mr, quiet);
	if (quiet)
		weft_pool_extent_free(world.pool, e->off, 8192);
	else
		weft_pool_retire(world.pool, WEFT_RETIRE_EXTENT, e->off, 8192);
}

static void destroys(void **state)
{
	uint64_t begun_ns;

	open_and_stop(*state);
	begun_ns = weft_clock_now_ns();
	ends_destroy(&ends_near);
	check_retired(begun_ns);
	retire(&ends_near);
	retire(&ends_peer);
	weft_cq_destroy(&ends_peer_cq);
	ends_open();
	end_with_next();
}

static void resets(void **state)
{
	uint64_t begun_ns;

	open_and_stop(*state);
	begun_ns = weft_clock_now_ns();
	ends_modify(&ends_near, WEFT_QPS_RESET, &ends_peer);
	check_retired(begun_ns);
	ends_modify(&ends_peer, WEFT_QPS_RESET, &ends_near);
	ends_connect(&ends_near, &ends_peer);
	ends_connect(&ends_peer, &ends_near);
	end_with_next();
}

/* The key ends, and each request completes once. */
static void deregisters(void **state)
{
	uint64_t until_ns = weft_clock_now_ns() + PATIENCE_NS, begun_ns;
	struct weft_wc wc = {.status = WEFT_WC_SUCCESS};
	unsigned int told = 0;

	open_and_stop(*state);
	begun_ns = weft_clock_now_ns();
	assert_true(weft_mr_close(&ends_near.mr));
	assert_false(weft_mr_revoke(&ends_near.mr));
	assert_in_range(weft_clock_now_ns() - begun_ns, SECOND_NS * 9 / 10, SECOND_NS * 5);
	weft_mr_destroy(&ends_near.mr, false);
	ends_near.mr.nic = NULL;
	make_fresh();
	assert_true(atomic_load(&world.pool->nretired) > 0);
	go_on();
	check_fresh();
	while (told < 3) {
		assert_true(weft_clock_now_ns() < until_ns + PATIENCE_NS);
		look();
		if (!weft_cq_poll(&world.cq, 1, &wc, 0))
			continue;
		told++;
		if (told == 3)
			assert_int_not_equal(wc.status, WEFT_WC_SUCCESS);
	}
	world_expect_none();
	ends_close();
	assert_int_equal(card_end(&card), 0);
}

int main(void)
{
	static char busy[] = "direct_busy", copied[] = "place_body_copied",
		    written[] = "card_entry_written", returned[] = "card_returned";
	const struct CMUnitTest tests[] = {
		{"destroyed, the card in a busy line", destroys, NULL, NULL, busy},
		{"destroyed, the card behind a copy", destroys, NULL, NULL, copied},
		{"destroyed, the card behind an entry of the ring", destroys, NULL, NULL, written},
		{"reset, the card behind a return", resets, NULL, NULL, returned},
		{"deregistered, the card behind a copy", deregisters, NULL, NULL, copied},
	};

	return cmocka_run_group_tests_name("handed-stops", tests, world_attach, world_detach);
}
