/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What names of one kernel mean where there are several: processes, namespaces, ports and addresses are compared within
 * a host only. All hosts are of one kernel here, so that all these numbers are the same on each.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mailbox/port.h"
#include "other.h"
#include "pool/format_member.h"

#define SILENCE_MS 20000u /* no host is to be silent here */
#define TCP	   0x0106u

/* Of the documentation's networks (RFC 5737), which belong to no interface. */
static const uint8_t one[16] = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1};
static const uint8_t two[16] = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 2};
static const uint8_t loopback[16] = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1};
static const uint8_t any[16];

static struct weft_pool *pool;
static struct other first, second; /* of hosts 1 and 2; the test is of host 0 */

static int begin(void **state)
{
	pool = other_pool(4, SILENCE_MS);
	first = other_start(1);
	second = other_start(2);
	return 0;
}

static int end(void **state)
{
	other_kill(&first);
	other_kill(&second);
	other_end(pool);
	return 0;
}

static struct weft_pool_port port(const uint8_t addr[16])
{
	struct weft_pool_port p = {
		.port = 7174, .space = TCP, .flags = addr == any ? 0 : WEFT_PORT_ONE_FAMILY};

	memcpy(p.addr, addr, 16);
	return p;
}

static void let_listen(struct other *o, const uint8_t gid[16], const uint8_t at[16])
{
	memcpy(o->page->gid, gid, 16);
	o->page->port = port(at);
	other_tell(o, OTHER_LISTENS);
	assert_int_equal(o->page->err, 0);
}

static void listen_here(const uint8_t gid[16], const uint8_t at[16])
{
	struct weft_pool_port p = port(at);
	uint32_t index;

	other_have_gid(pool, gid);
	assert_int_equal(weft_port_bind(pool, &p, &index), 0);
	assert_int_equal(weft_port_listen(pool, index), 0);
}

/* The member that listens at that address, or -errno. */
static int find(const uint8_t addr[16])
{
	struct weft_pool_port p = port(addr);
	struct weft_address owner;
	int err = weft_port_find(pool, &p, &owner);

	return err ? err : owner.member;
}

/* The kernel's calls by a number of process reach another process there. */
static void test_processes(void **state)
{
	const struct weft_pool_member *m = weft_pool_member(pool, first.page->member);
	uint64_t witness;
	uint32_t pid = 1;

	assert_int_equal(m->pid_ns, pool->self->pid_ns);
	assert_true(weft_pool_visit_holds(pool, first.page->member, first.page->incarnation, &pid,
					  &witness));
	assert_int_equal(pid, 0);
	assert_true(weft_pool_visit_holds(pool, pool->me, pool->incarnation, &pid, &witness));
	assert_int_equal(pid, pool->self->pid);
}

/* One port may be bound at one address on each of the hosts. */
static void test_ports(void **state)
{
	listen_here(one, one);
	let_listen(&first, one, one);
	let_listen(&second, one, any);
	assert_int_equal(find(one), pool->me);
}

static void test_loopback(void **state)
{
	other_have_gid(pool, one);
	let_listen(&first, two, loopback);
	assert_int_equal(find(loopback), -ECONNREFUSED);
	listen_here(one, loopback);
	assert_int_equal(find(loopback), pool->me);
}

/* The own host's listener at any address comes before another host's at that very one. */
static void test_own_host(void **state)
{
	listen_here(one, any);
	let_listen(&first, one, one);
	assert_int_equal(find(one), pool->me);
}

/* Where there is no listener here, another host that has the address does. */
static void test_other_host(void **state)
{
	other_have_gid(pool, one);
	let_listen(&first, one, any);
	assert_int_equal(find(one), first.page->member);
	let_listen(&second, two, one);
	assert_int_equal(find(one), first.page->member);
}

/* Two others are not told apart, whether this host has the address or not; the better name of one does it. */
static void test_two_others(void **state)
{
	other_have_gid(pool, one);
	let_listen(&first, one, any);
	let_listen(&second, one, any);
	assert_int_equal(find(one), -ENOTUNIQ);
	other_have_gid(pool, two);
	assert_int_equal(find(one), -ENOTUNIQ);
}

static void test_two_others_by_name(void **state)
{
	other_have_gid(pool, two);
	let_listen(&first, one, any);
	let_listen(&second, one, one);
	assert_int_equal(find(one), second.page->member);
}

/* A dead one is not in the way of one that lives. */
static void test_one_died(void **state)
{
	other_have_gid(pool, two);
	let_listen(&first, one, any);
	let_listen(&second, one, any);
	atomic_store(&weft_pool_member(pool, first.page->member)->leaves, 1);
	assert_int_equal(find(one), second.page->member);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_processes),	       TEST(test_ports),      TEST(test_loopback),
		TEST(test_own_host),	       TEST(test_other_host), TEST(test_two_others),
		TEST(test_two_others_by_name), TEST(test_one_died),
	};

	return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
