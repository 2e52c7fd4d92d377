/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Ports that members bind, and the datagrams that they post to each other. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "mailbox/port.h"
#include "subject.h"
#include "pool/format_mailbox.h"

#define TCP 0x0106u
#define UDP 0x0111u

static struct weft_pool *pool;

/* A port at that address. Those of the documentation's networks (RFC 5737) belong to no interface. */
static struct weft_pool_port port(const char *addr, uint16_t number, uint32_t flags)
{
	struct weft_pool_port p = {.port = number, .space = TCP, .flags = flags};
	unsigned int a[4] = {0};

	if (strcmp(addr, "::")) {
		assert_int_equal(sscanf(addr, "%u.%u.%u.%u", a, a + 1, a + 2, a + 3), 4);
		p.addr[10] = p.addr[11] = 0xff;
		for (int i = 0; i < 4; i++)
			p.addr[12 + i] = (uint8_t)a[i];
		p.flags |= WEFT_PORT_ONE_FAMILY;
	}
	return p;
}

static int bind_to(const char *addr, uint16_t number, uint32_t flags, uint32_t *index)
{
	struct weft_pool_port p = port(addr, number, flags);

	return weft_port_bind(pool, &p, index);
}

static int find(const char *addr, uint16_t number)
{
	struct weft_pool_port p = port(addr, number, 0);
	struct weft_address owner;
	int err = weft_port_find(pool, &p, &owner);

	if (!err) {
		assert_int_equal(owner.member, pool->me);
		assert_int_equal(owner.incarnation, pool->incarnation);
	}
	return err;
}

/* ---- Ports ---- */

static void unique(void **state)
{
	struct weft_pool_port other = port("127.0.0.1", 700, 0);
	uint32_t a, b, c, d;

	assert_int_equal(bind_to("127.0.0.1", 700, 0, &a), 0);
	assert_int_equal(bind_to("127.0.0.1", 700, 0, &b), -EADDRINUSE);
	assert_int_equal(bind_to("0.0.0.0", 700, 0, &b), -EADDRNOTAVAIL);
	assert_int_equal(bind_to("::", 700, 0, &b), -EADDRNOTAVAIL);
	assert_int_equal(bind_to("127.0.0.2", 700, 0, &b), 0);
	assert_int_equal(bind_to("127.0.0.1", 701, 0, &c), 0);
	other.space = UDP;
	assert_int_equal(weft_port_bind(pool, &other, &d), 0);
	weft_port_release(pool, a);
	assert_int_equal(bind_to("127.0.0.1", 700, 0, &a), 0);
	weft_port_release(pool, a);
	weft_port_release(pool, b);
	weft_port_release(pool, c);
	weft_port_release(pool, d);
	assert_int_equal(bind_to("0.0.0.0", 700, 0, &a), 0);
	weft_port_release(pool, a);
}

/* The unspecified address of IPv6 stands for IPv4 as well, unless its flags say otherwise. */
static void families(void **state)
{
	uint32_t a, b;

	assert_int_equal(bind_to("::", 702, 0, &a), 0);
	assert_int_equal(bind_to("0.0.0.0", 702, 0, &b), -EADDRNOTAVAIL);
	assert_int_equal(weft_port_listen(pool, a), 0);
	assert_int_equal(find("127.0.0.1", 702), 0);
	weft_port_release(pool, a);
	assert_int_equal(bind_to("::", 702, WEFT_PORT_ONE_FAMILY, &a), 0);
	assert_int_equal(bind_to("0.0.0.0", 702, 0, &b), 0);
	assert_int_equal(weft_port_listen(pool, a), 0);
	weft_port_release(pool, b);
	assert_int_equal(find("127.0.0.1", 702), -ECONNREFUSED);
	weft_port_release(pool, a);
}

static void shared(void **state)
{
	uint32_t a, b;

	assert_int_equal(bind_to("127.0.0.1", 703, WEFT_PORT_SHARED, &a), 0);
	assert_int_equal(bind_to("127.0.0.1", 703, 0, &b), -EADDRINUSE);
	assert_int_equal(bind_to("127.0.0.1", 703, WEFT_PORT_SHARED, &b), 0);
	assert_int_equal(weft_port_listen(pool, a), -EADDRINUSE);
	weft_port_release(pool, b);
	assert_int_equal(weft_port_listen(pool, a), 0);
	assert_int_equal(bind_to("127.0.0.1", 703, WEFT_PORT_SHARED, &b), -EADDRINUSE);
	weft_port_release(pool, a);
}

static void ephemeral(void **state)
{
	enum { MANY = 300 }; /* the table of ports grows three times */
	static uint8_t seen[1 << 16];
	uint32_t index[MANY];

	for (int i = 0; i < MANY; i++) {
		struct weft_pool_port p = port("127.0.0.1", 0, 0);

		assert_int_equal(weft_port_bind(pool, &p, &index[i]), 0);
		assert_in_range(p.port, 32768, 60999);
		assert_false(seen[p.port]++);
		assert_int_equal(bind_to("127.0.0.1", p.port, 0, &index[i]), -EADDRINUSE);
	}
	for (int i = 0; i < MANY; i++)
		weft_port_release(pool, index[i]);
}

static void found(void **state)
{
	uint32_t a, b;

	assert_int_equal(find("127.0.0.1", 704), -ECONNREFUSED);
	assert_int_equal(bind_to("127.0.0.1", 704, 0, &a), 0);
	assert_int_equal(find("127.0.0.1", 704), -EAGAIN);
	assert_int_equal(find("127.0.0.2", 704), -ECONNREFUSED);
	assert_int_equal(weft_port_listen(pool, a), 0);
	assert_int_equal(find("127.0.0.1", 704), 0);
	assert_int_equal(find("127.0.0.1", 705), -ECONNREFUSED);
	assert_int_equal(bind_to("0.0.0.0", 705, 0, &b), 0);
	assert_int_equal(weft_port_listen(pool, b), 0);
	assert_int_equal(find("127.0.0.2", 705), 0);
	/* no interface here has that address */
	assert_int_equal(find("192.0.2.77", 705), -ECONNREFUSED);
	weft_port_release(pool, a);
	weft_port_release(pool, b);
}

/* One that was listened at is held for its owner for a while, though it is free; one that was only bound is not. */
static void left(void **state)
{
	uint32_t a, b, c;

	assert_int_equal(bind_to("0.0.0.0", 708, 0, &a), 0);
	assert_int_equal(bind_to("127.0.0.1", 709, 0, &b), 0);
	assert_int_equal(weft_port_listen(pool, a), 0);
	weft_port_release(pool, a);
	weft_port_release(pool, b);
	assert_int_equal(find("127.0.0.1", 708), -EAGAIN);
	assert_int_equal(find("127.0.0.1", 709), -ECONNREFUSED);
	assert_int_equal(bind_to("127.0.0.1", 708, 0, &c), 0);
	assert_int_equal(weft_port_listen(pool, c), 0);
	assert_int_equal(find("127.0.0.1", 708), 0);
	weft_port_release(pool, c);
	assert_int_equal(find("127.0.0.1", 708), -EAGAIN);
	usleep(WEFT_PORT_HELD_NS / 1000 + 10000);
	assert_int_equal(find("127.0.0.1", 708), -ECONNREFUSED);
}

static void reachable(void **state)
{
	assert_true(weft_port_reachable(pool, port("127.0.0.9", 0, 0).addr));
	assert_false(weft_port_reachable(pool, port("192.0.2.77", 0, 0).addr));
}

static void listens(struct subject *s)
{
	struct weft_pool_port p = port("127.0.0.1", 706, 0);
	uint32_t index;

	pool = subject_attach(s);
	subject_require(!weft_port_bind(pool, &p, &index), "bind");
	subject_require(!weft_port_listen(pool, index), "listen");
	subject_ready(s);
	pause();
}

/* Another member's port is in use until that member is killed. */
static void killed(void **state)
{
	struct subject s = subject_start(listens);
	struct weft_pool_port p = port("127.0.0.1", 706, 0);
	struct weft_address owner;
	uint32_t index;

	subject_await(&s, 1);
	assert_int_equal(weft_port_find(pool, &p, &owner), 0);
	assert_int_equal(owner.member, s.page->member);
	assert_int_equal(owner.incarnation, s.page->incarnation);
	assert_int_equal(weft_port_bind(pool, &p, &index), -EADDRINUSE);
	kill(s.pid, SIGKILL);
	subject_await_death(pool, &s);
	assert_int_equal(weft_port_find(pool, &p, &owner), -ECONNREFUSED);
	assert_int_equal(weft_port_bind(pool, &p, &index), 0);
	weft_port_release(pool, index);
	subject_end(&s);
}

/* ---- Mailboxes ---- */

static void fill(uint8_t bytes[WEFT_DATAGRAM_BYTES], uint32_t number)
{
	for (size_t i = 0; i < WEFT_DATAGRAM_BYTES; i += sizeof(number))
		memcpy(bytes + i, &number, sizeof(number));
}

static int post(struct weft_address to, uint32_t number, uint64_t now_ns)
{
	uint8_t bytes[WEFT_DATAGRAM_BYTES];

	fill(bytes, number);
	return weft_mailbox_post(pool, to, bytes, now_ns);
}

/* Returns the number of the next datagram; -1: there is none. */
static int take(struct weft_address *from)
{
	uint8_t bytes[WEFT_DATAGRAM_BYTES], whole[WEFT_DATAGRAM_BYTES];
	uint32_t number;

	if (!weft_mailbox_take(pool, from, bytes))
		return -1;
	memcpy(&number, bytes, sizeof(number));
	fill(whole, number);
	assert_memory_equal(bytes, whole, sizeof(bytes));
	return (int)number;
}

/* A poster waits while the mailbox is full, but not for ever: after three seconds the oldest datagram of a
 * member that does not look is overwritten. */
static void full(void **state)
{
	struct weft_address self = weft_pool_address(pool), from;
	uint64_t now_ns = 5000000000;

	assert_int_equal(take(&from), -1);
	for (uint32_t i = 0; i < WEFT_MAILBOX_SLOTS; i++)
		assert_int_equal(post(self, i, now_ns), 0);
	assert_int_equal(post(self, 1000, now_ns), -EAGAIN);
	assert_int_equal(take(&from), 0);
	assert_int_equal(from.member, self.member);
	assert_int_equal(from.incarnation, self.incarnation);
	assert_int_equal(post(self, 1000, now_ns), 0);
	assert_int_equal(post(self, 1001, now_ns), -EAGAIN);
	/* a poster that read the clock before the mailbox was filled */
	assert_int_equal(post(self, 1001, now_ns - 1), -EAGAIN);
	assert_int_equal(post(self, 1001, now_ns + 2999999999), -EAGAIN);
	assert_int_equal(post(self, 1001, now_ns + 3000000000), 0);
	for (int i = 2; i < (int)WEFT_MAILBOX_SLOTS; i++)
		assert_int_equal(take(&from), i);
	assert_int_equal(take(&from), 1000);
	assert_int_equal(take(&from), 1001);
	assert_int_equal(take(&from), -1);
}

static void looks_late(struct subject *s)
{
	struct weft_address from;

	pool = subject_attach(s);
	subject_ready(s);
	subject_wait(s);
	subject_require(take(&from) == 7, "the first");
	subject_require(take(&from) == 8, "the second");
	subject_require(take(&from) == -1, "no third");
	subject_ready(s);
	pause();
}

/* A member that does not look for its datagrams delays no other member's, and loses none. */
static void passed_over(void **state)
{
	struct subject s = subject_start(looks_late);
	struct weft_address self = weft_pool_address(pool), peer, from;

	subject_await(&s, 1);
	peer = (struct weft_address){.member = s.page->member, .incarnation = s.page->incarnation};
	assert_int_equal(post(peer, 7, 0), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_int_equal(post(self, i, 0), 0);
		assert_int_equal(take(&from), (int)i);
		if (i == 700)
			assert_int_equal(post(peer, 8, 0), 0);
	}
	subject_go(&s);
	subject_await(&s, 2);
	assert_int_equal(take(&from), -1);
	subject_end(&s);
}

/* The subject takes ten thousand datagrams, adds up their numbers and answers each. */
static void echoes(struct subject *s)
{
	struct weft_address from;
	uint64_t sum = 0;
	int number;

	pool = subject_attach(s);
	subject_ready(s);
	for (uint32_t n = 0; n < 10000; n++) {
		while ((number = take(&from)) < 0)
			weft_pool_sleep(pool, -1);
		subject_require(number == (int)n, "order");
		sum += (uint64_t)number;
		while (post(from, (uint32_t)number + 1, 0) == -EAGAIN)
			weft_pool_sleep(pool, 1000000);
	}
	s->page->value[0] = sum;
	subject_ready(s);
	pause();
}

/* No time passes here, so no slot is ever overwritten. */
static void exchanged(void **state)
{
	struct subject s = subject_start(echoes);
	struct weft_address peer, from;
	uint32_t sent = 0, got = 0;

	subject_await(&s, 1);
	peer = (struct weft_address){.member = s.page->member, .incarnation = s.page->incarnation};
	while (got < 10000) {
		int number;

		while (sent < 10000 && !post(peer, sent, 0))
			sent++;
		while ((number = take(&from)) >= 0) {
			assert_int_equal(number, (int)++got);
			assert_int_equal(from.member, peer.member);
		}
		if (got < 10000)
			weft_pool_sleep(pool, 1000000);
	}
	subject_await(&s, 2);
	assert_int_equal(s.page->value[0], 10000 * 9999 / 2);
	kill(s.pid, SIGKILL);
	subject_await_death(pool, &s);
	weft_pool_recover(pool);
	assert_int_equal(post(peer, 1, 0), -ESRCH);
	subject_end(&s);
}

/* ---- The program ---- */

static int attach(void **state)
{
	pool = subject_watch();
	return 0;
}

static int detach(void **state)
{
	weft_pool_put(pool);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unique),      cmocka_unit_test(families),
		cmocka_unit_test(shared),      cmocka_unit_test(found),
		cmocka_unit_test(left),	       cmocka_unit_test(ephemeral),
		cmocka_unit_test(reachable),   cmocka_unit_test(killed),
		cmocka_unit_test(full),	       cmocka_unit_test(exchanged),
		cmocka_unit_test(passed_over),
	};

	return cmocka_run_group_tests(tests, attach, detach);
}
