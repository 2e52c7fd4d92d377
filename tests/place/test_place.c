/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A key of a third process's memory. At each labelled turn of an executor that looks it up, the owner may
 * rehome that memory, so that a rehoming begins and ends between two steps of the executor. The owner is a
 * process that does nothing by itself.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../abi/pool.h"
#include "nic/mr.h"
#include "nic/nic.h"
#include "nic/place.h"
#include "pool/step.h"
#include "pool/format.h"
#include "pool/format_member.h"

#define DOMAIN 5u
#define BYTES  4096u
#define ACCESS (WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ)

enum act {
	REHOMES, /* a whole rehoming */
	BEGINS,	 /* its beginning */
	HALVES,	 /* its beginning and half of the region's new entry */
	ENDS,
	ACTS,
};

static struct {
	struct weft_pool *pool;
	struct weft_nic nic;
	struct weft_caller caller;
	struct weft_pool_member *owner;
	struct weft_mr mr;
	uint32_t turn, at; /* how many turns there were, and at which one the owner acts */
	enum act act;
	struct weft_pool_mr entry;
} w;

static void enter(enum weft_rehoming phase)
{
	w.owner->rehomings = weft_rehoming_next(w.owner->rehomings, phase);
}

static void draw(void)
{
	w.entry.va += BYTES;
	weft_mr_publish(w.pool, w.mr.index, w.mr.key, &w.entry);
}

static void act(void)
{
	switch (w.act) {
	case REHOMES:
		enter(WEFT_REHOMING_HOLDS);
		enter(WEFT_REHOMING_LEAVES);
		draw();
		enter(WEFT_REHOMING_NONE);
		break;
	case BEGINS:
		enter(WEFT_REHOMING_HOLDS);
		break;
	case HALVES:
		enter(WEFT_REHOMING_HOLDS);
		enter(WEFT_REHOMING_LEAVES);
		w.pool->mrs[w.mr.index].va += 1;
		break;
	case ENDS:
		weft_mr_store_ended(w.pool, w.mr.index);
		break;
	case ACTS:
		break;
	}
}

/* Completes a rehoming that the owner has only begun. */
static void finish(void)
{
	if (weft_rehoming_phase(w.owner->rehomings) == WEFT_REHOMING_NONE)
		return;
	draw();
	enter(WEFT_REHOMING_NONE);
}

void weft_turn(const char *name)
{
	if (w.turn++ == w.at)
		act();
}

static bool find(struct weft_span *span)
{
	return weft_mr_find(w.pool, &w.caller, w.mr.key, weft_domain(w.pool->me, DOMAIN), 64,
			    BYTES - 64, WEFT_ACCESS_LOCAL_WRITE, span);
}

static void expect_found(void)
{
	struct weft_span span = {0};

	w.at = UINT32_MAX;
	assert_true(find(&span));
	assert_false(weft_find_later(&w.caller));
	assert_null(span.at);
	assert_true(weft_span_is_foreign(&span));
	assert_int_equal(span.grant.was, w.owner->rehomings);
	assert_int_equal(w.pool->mr_seen[w.mr.index].mr.va, w.entry.va);
	assert_int_equal(span.id, w.pool->mrs[w.mr.index].id);
}

/* Looks the key up while the owner acts. known: the key was looked up before. Returns how many turns that
 * has. */
static uint32_t look(enum act act, uint32_t at, bool known)
{
	struct weft_span span = {0};
	bool found;

	draw();
	if (known)
		expect_found();
	w.turn = 0;
	w.at = at;
	w.act = act;
	found = find(&span);
	/* an executor that does not find the key has to try later; one that does learns by its grant that the
	 * region was rehomed */
	if (!found)
		assert_true(weft_find_later(&w.caller));
	else if (at && w.turn > at)
		assert_int_not_equal(span.grant.was, w.owner->rehomings);
	finish();
	expect_found();
	return w.turn;
}

static void rehomes(void **state)
{
	for (enum act act = REHOMES; act < ENDS; act++)
		for (int known = 0; known < 2; known++)
			for (uint32_t at = 0, turns = 1; at < turns; at++)
				turns = look(act, at, known);
}

/* A key that is invalid: trying later is no use. */
static void ends(void **state)
{
	struct weft_span span = {0};

	draw();
	expect_found();
	w.turn = w.at = 0;
	w.act = ENDS;
	assert_false(find(&span));
	assert_false(weft_find_later(&w.caller));
	/* not even while the owner rehomes other memory */
	enter(WEFT_REHOMING_HOLDS);
	assert_false(find(&span));
	assert_false(weft_find_later(&w.caller));
	finish();
	expect_found();
	assert_false(weft_mr_find(w.pool, &w.caller, w.mr.key, weft_domain(w.pool->me, DOMAIN + 1),
				  64, 1, 0, &span));
	assert_false(weft_find_later(&w.caller));
}

static pid_t owner;

/* Forks a process that joins the pool, and stays. */
static int start_owner(const char *why)
{
	static char where[4096];
	int ready[2];
	char byte;

	if (pipe(ready))
		return -1;
	owner = fork();
	if (!owner && !weft_pool_get(NULL, &w.pool, where, &why) && write(ready[1], "", 1) == 1)
		for (;;)
			pause();
	if (!owner)
		_exit(1);
	close(ready[1]);
	return read(ready[0], &byte, 1) == 1 ? close(ready[0]) : -1;
}

static int attach(void **state)
{
	const struct weft_mr_drawing drawing = {.pd = DOMAIN, .access = ACCESS, .len_bytes = BYTES};
	static char where[4096];
	_Atomic uint64_t *lease;
	const char *why = NULL;
	uint16_t number;

	if (make_pool(state) || start_owner(why) || weft_pool_get(NULL, &w.pool, where, &why))
		return -1;
	weft_pool_caller_get(w.pool, &w.caller);
	w.nic.pool = w.pool;
	/* an entry of this process's, which belongs to the owner from here on */
	if (weft_mr_create(&w.nic, &w.mr, &drawing))
		return -1;
	number = !w.pool->me;
	w.owner = weft_pool_member(w.pool, number);
	lease = &w.pool->leases->mr_block[w.mr.index / WEFT_MR_BLOCK];
	*lease = (*lease & ~(uint64_t)UINT16_MAX) | (number + 1u);
	w.entry = (struct weft_pool_mr){.owner = number,
					.access = ACCESS,
					.pd = DOMAIN,
					.len_bytes = BYTES,
					.va = BYTES,
					.lo = BYTES,
					.hi = BYTES};
	return w.owner ? 0 : -1;
}

static int detach(void **state)
{
	weft_pool_caller_put(w.pool, &w.caller);
	weft_pool_put(w.pool);
	kill(owner, SIGKILL);
	return waitpid(owner, NULL, 0) == owner ? remove_pool(state) : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rehomes),
		cmocka_unit_test(ends),
	};

	return cmocka_run_group_tests(tests, attach, detach);
}
