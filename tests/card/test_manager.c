/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests of other hosts, and the ports of a pool's members: which a card passes on, holds for a while, and refuses. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../abi/pool.h"
#include "card/manager.h"
#include "mailbox/port.h"
#include "pool/format_mailbox.h"

#define TCP  0x0106u
#define PORT 700u

static const uint8_t here[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
static const uint8_t there[16] = {[10] = 0xff, 0xff, 10, 0, 1, 1};

static struct weft_pool *pool;
static struct weft_manager manager;
static uint64_t now_ns;
static struct {
	uint32_t refused, other;
	uint32_t of; /* which request was refused last */
} sent;

static void note_sent(struct weft_manager *unused, const uint8_t to[16],
		      const uint8_t bytes[WEFT_MAD_BYTES])
{
	struct weft_mad mad;

	assert_int_equal(weft_mad_decode(bytes, WEFT_MAD_BYTES, &mad), 0);
	assert_memory_equal(to, there, 16);
	if (mad.kind == WEFT_MAD_REJ && mad.rej.reason == WEFT_REJ_INVALID_SERVICE_ID)
		sent.refused++;
	else
		sent.other++;
	sent.of = mad.remote_id;
}

static void *alloc_held(struct weft_manager *unused, size_t bytes)
{
	return calloc(1, bytes);
}

static void free_held(struct weft_manager *unused, void *at)
{
	free(at);
}

static const struct weft_manager_calls calls = {
	.send = note_sent, .alloc = alloc_held, .free = free_held};

static uint32_t listens_at(uint16_t number)
{
	struct weft_pool_port p = {.port = number, .space = TCP};
	uint32_t index;

	memcpy(p.addr, here, 16);
	assert_int_equal(weft_port_bind(pool, &p, &index), 0);
	assert_int_equal(weft_port_listen(pool, index), 0);
	return index;
}

static void ask(uint32_t id, uint16_t number)
{
	struct weft_mad mad = {
		.kind = WEFT_MAD_REQ, .local_id = id, .req = {.service_id = TCP << 16 | number}};
	struct weft_mad_ip ip = {.port = 40000};
	uint8_t wire[WEFT_MAD_BYTES];

	memcpy(ip.src, there, 16);
	memcpy(ip.dst, here, 16);
	weft_mad_put_ip(mad.private_data, &ip);
	weft_mad_encode(&mad, wire);
	weft_manager_arrived(&manager, there, here, wire, now_ns);
}

/* Which request the member finds next; 0: none. */
static uint32_t taken(void)
{
	uint8_t bytes[WEFT_DATAGRAM_BYTES];
	struct weft_address from;
	struct weft_mad mad;

	if (!weft_mailbox_take(pool, &from, bytes))
		return 0;
	assert_int_equal(weft_mad_decode(bytes, WEFT_MAD_BYTES, &mad), 0);
	assert_memory_equal(from.far, there, 16);
	assert_memory_equal(from.near, here, 16);
	return mad.local_id;
}

static void pass(uint64_t ns)
{
	now_ns += ns;
	weft_manager_try(&manager, now_ns);
}

static int begin(void **state)
{
	manager = (struct weft_manager){.pool = pool, .calls = &calls};
	memset(&sent, 0, sizeof(sent));
	now_ns = 1000000000;
	return 0;
}

static int end(void **state)
{
	weft_manager_end(&manager);
	assert_null(manager.held);
	assert_int_equal(taken(), 0);
	return 0;
}

static void test_nobody_ever_listened(void **state)
{
	ask(1, PORT);
	assert_int_equal(sent.refused, 1);
	assert_null(manager.held);
}

/* perftest with -R: its server has a listener for each of two connections, and the second request may be quicker than the
 * second listener. */
static void test_between_two_listeners(void **state)
{
	uint32_t index = listens_at(PORT);

	ask(1, PORT);
	assert_int_equal(taken(), 1);
	weft_port_release(pool, index);
	ask(2, PORT);
	pass(WEFT_MANAGER_TRY_NS);
	assert_int_equal(taken(), 0);
	assert_int_equal(sent.refused, 0);
	index = listens_at(PORT);
	pass(WEFT_MANAGER_TRY_NS);
	assert_int_equal(taken(), 2);
	assert_null(manager.held);
	assert_int_equal(sent.refused + sent.other, 0);
	weft_port_release(pool, index);
}

/* A port that is held, but not listened at: a request waits for WEFT_PORT_HELD_NS, no longer. */
static void test_never_listens(void **state)
{
	struct weft_pool_port p = {.port = PORT + 1, .space = TCP};
	uint32_t index;

	memcpy(p.addr, here, 16);
	assert_int_equal(weft_port_bind(pool, &p, &index), 0);
	ask(3, PORT + 1);
	pass(WEFT_PORT_HELD_NS - 1);
	assert_int_equal(sent.refused, 0);
	pass(WEFT_MANAGER_TRY_NS);
	assert_int_equal(sent.refused, 1);
	assert_int_equal(sent.of, 3);
	assert_null(manager.held);
	weft_port_release(pool, index);
}

/* They come in the order of their asking, as the member's mailbox has room; so many are held, and one more is refused. */
static void test_many_are_held(void **state)
{
	uint32_t index = listens_at(PORT);

	weft_port_release(pool, index);
	for (uint32_t i = 1; i <= WEFT_MANAGER_HELD; i++)
		ask(i, PORT);
	assert_int_equal(sent.refused, 0);
	ask(5000, PORT);
	assert_int_equal(sent.refused, 1);
	assert_int_equal(sent.of, 5000);
	index = listens_at(PORT);
	pass(WEFT_MANAGER_TRY_NS);
	assert_int_equal(manager.held_count, WEFT_MANAGER_HELD - WEFT_MAILBOX_SLOTS);
	for (uint32_t i = 1; i <= WEFT_MANAGER_HELD; i++) {
		assert_int_equal(taken(), i);
		if (i % WEFT_MAILBOX_SLOTS == 0)
			pass(WEFT_MANAGER_TRY_NS);
	}
	assert_int_equal(sent.refused, 1);
	weft_port_release(pool, index);
}

static int attach(void **state)
{
	static char where[4096];
	const char *why;

	return make_pool(state) || weft_pool_get(NULL, &pool, where, &why);
}

static int detach(void **state)
{
	weft_pool_put(pool);
	return remove_pool(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nobody_ever_listened, begin, end),
		cmocka_unit_test_setup_teardown(test_between_two_listeners, begin, end),
		cmocka_unit_test_setup_teardown(test_never_listens, begin, end),
		cmocka_unit_test_setup_teardown(test_many_are_held, begin, end),
	};

	return cmocka_run_group_tests(tests, attach, detach);
}
