/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The GID table while the host's addresses come and go, in a network namespace of this program's own. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "rig.h"

#define IN_NAMESPACE_WITHOUT_IP6                                                                   \
	"echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && ip link set lo up && "               \
	"ip link add eth0 type veth peer name far && ip link set eth0 up"

static void ip(const char *words)
{
	char command[80];

	snprintf(command, sizeof(command), "ip addr %s/32 dev eth0", words);
	assert_int_equal(system(command), 0);
}

static union ibv_gid gid_of(const char *addr)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};
	unsigned int a[4];

	assert_int_equal(sscanf(addr, "%u.%u.%u.%u", a, a + 1, a + 2, a + 3), 4);
	for (int i = 0; i < 4; i++)
		gid.raw[12 + i] = (uint8_t)a[i];
	return gid;
}

/* addr: NULL where the entry is free. Each address has two entries, RoCE v1 and v2. */
static void expect(struct ibv_context *context, uint32_t index, const char *addr)
{
	union ibv_gid wanted = addr ? gid_of(addr) : (union ibv_gid){0}, gid;
	struct ibv_gid_entry entry;

	for (uint32_t i = index; i < index + 2; i++) {
		assert_int_equal(ibv_query_gid(context, 1, (int)i, &gid), 0);
		assert_memory_equal(&gid, &wanted, sizeof(gid));
		assert_int_equal(ibv_query_gid_ex(context, 1, i, &entry, 0), addr ? 0 : ENODATA);
		if (!addr)
			continue;
		assert_int_equal(entry.gid_index, i);
		assert_int_equal(entry.gid_type,
				 i % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1);
		assert_memory_equal(&entry.gid, &wanted, sizeof(gid));
	}
}

static ssize_t entries(struct ibv_context *context)
{
	struct ibv_gid_entry entry[256];
	ssize_t n = ibv_query_gid_table(context, entry, 256, 0);

	for (ssize_t i = 1; i < n; i++)
		assert_true(entry[i - 1].gid_index < entry[i].gid_index);
	return n;
}

static bool any_event(const struct ibv_context *context)
{
	return poll(&(struct pollfd){context->async_fd, POLLIN, 0}, 1, 0);
}

/* This event's element is the number of the port. */
static void expect_change(struct ibv_context *context)
{
	struct ibv_async_event event;

	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(event.element.port_num, 1);
	ibv_ack_async_event(&event);
	assert_false(any_event(context));
}

static struct ibv_ah *make_ah(struct ibv_pd *pd, uint8_t index)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.sgid_index = index};

	return ibv_create_ah(pd, &attr);
}

/* ---- The table ---- */

static int open_with_address(void **state)
{
	static struct rig rig;

	ip("add 10.1.2.3");
	rig_open(&rig);
	*state = &rig;
	return 0;
}

static int close_without(void **state)
{
	rig_close(*state);
	return system("ip addr flush dev eth0");
}

/* An entry keeps its index; a new address takes the first free one. */
static void indices(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *other = rig_context();

	expect(rig->context, 2, "10.1.2.3");
	expect(rig->context, 4, NULL);
	assert_int_equal(entries(rig->context), 4);
	ip("add 10.1.2.4");
	expect(rig->context, 2, "10.1.2.3");
	expect(rig->context, 4, "10.1.2.4");
	expect_change(rig->context);
	expect_change(other);
	ip("del 10.1.2.3");
	assert_int_equal(entries(rig->context), 4);
	expect_change(rig->context);
	expect(rig->context, 2, NULL);
	expect(rig->context, 4, "10.1.2.4");
	ip("add 10.1.2.5");
	expect(rig->context, 2, "10.1.2.5");
	expect(rig->context, 4, "10.1.2.4");
	expect_change(rig->context);
	ip("del 10.1.2.4");
	ip("add 10.1.2.4");
	expect(rig->context, 4, "10.1.2.4");
	assert_false(any_event(rig->context));
	assert_int_equal(ibv_close_device(other), 0);
}

/* Without an address that can be routed the table has that of the loopback; index 3 stays the usual
 * choice. */
static void none(void **state)
{
	struct rig *rig = *state;

	ip("del 10.1.2.3");
	expect(rig->context, 2, "127.0.0.1");
	ip("add 10.1.2.4");
	expect(rig->context, 2, "10.1.2.4");
	assert_int_equal(entries(rig->context), 4);
}

/* An index is a valid source, of address handles and of queue pairs, as long as its entry is there. */
static void sources(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_attr attr = rig_attr(rig->context, IBV_QPS_RTR, rig->qp[0]->qp_num);
	struct ibv_ah *ah;

	rig_modify(rig->qp[1], IBV_QPS_INIT, 0);
	attr.ah_attr.grh.sgid_index = 5;
	assert_null(make_ah(rig->pd, 5));
	assert_int_equal(ibv_modify_qp(rig->qp[1], &attr, RIG_RTR_MASK), EINVAL);
	ip("add 10.1.2.4");
	ah = make_ah(rig->pd, 5);
	assert_non_null(ah);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_modify_qp(rig->qp[1], &attr, RIG_RTR_MASK), 0);
	ip("del 10.1.2.3");
	assert_null(make_ah(rig->pd, 3));
}

static void connect_by(struct rig *rig, const char *addr)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_qp *qp = rig->qp[i];
		uint32_t peer = rig->qp[!i]->qp_num;
		struct ibv_qp_attr attr = rig_attr(rig->context, IBV_QPS_RTR, peer);

		rig_modify(qp, IBV_QPS_RESET, 0);
		rig_modify(qp, IBV_QPS_INIT, 0);
		attr.ah_attr.grh.dgid = gid_of(addr);
		assert_int_equal(ibv_modify_qp(qp, &attr, RIG_RTR_MASK), 0);
		attr = rig_attr(rig->context, IBV_QPS_RTS, peer);
		assert_int_equal(ibv_modify_qp(qp, &attr, RIG_RTS_MASK), 0);
	}
}

static void exchange(const struct rig *rig, enum ibv_wc_status status)
{
	struct ibv_mr *mr = rig_region(rig->pd, 4096);

	assert_int_equal(rig_receive(rig->qp[1], 1, mr, mr->addr, 8), 0);
	assert_int_equal(rig_send(rig->qp[0], 2, mr, mr->addr, 8), 0);
	rig_expect(rig->cq[0], status, 2);
	if (!status)
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, 1);
	rig_region_end(mr);
}

/* A connection outlives the address that it was made by, even if no request used it before; a new connection
 * to an address that is gone does not come about. */
static void connections(void **state)
{
	struct rig *rig = *state;

	connect_by(rig, "10.1.2.3");
	ip("add 10.1.2.4");
	ip("del 10.1.2.3");
	expect(rig->context, 2, "10.1.2.4");
	exchange(rig, IBV_WC_SUCCESS);
	/* a new connection of the peer, so that its entry has to be looked up again */
	rig_modify(rig->qp[1], IBV_QPS_RTS, rig->qp[0]->qp_num);
	exchange(rig, IBV_WC_SUCCESS);
	connect_by(rig, "10.1.2.4");
	exchange(rig, IBV_WC_SUCCESS);
	connect_by(rig, "10.1.2.3");
	exchange(rig, IBV_WC_RETRY_EXC_ERR);
}

/* GIDs change while the program sleeps in ibv_get_async_event(): that call looks for it. */
static void told(void **state)
{
	struct rig *rig = *state;

	if (system("(sleep 0.3; ip addr add 10.1.2.4/32 dev eth0) &"))
		fail();
	expect_change(rig->context);
	expect(rig->context, 4, "10.1.2.4");
}

/* ---- The netlink descriptor ---- */

static int find_netlink(void)
{
	struct sockaddr_storage name = {0};
	socklen_t len;

	for (int fd = 3; fd < 100; fd++) {
		len = sizeof(name);
		if (!getsockname(fd, (struct sockaddr *)&name, &len) &&
		    name.ss_family == AF_NETLINK)
			return fd;
	}
	fail_msg("it has none");
	return -1;
}

/* Programs close descriptors that are not theirs, and get their numbers for others. */
static void taken_away(void **state)
{
	struct rig *rig = *state;
	int fd = find_netlink(), end[2];
	char byte = 'x';

	assert_int_equal(pipe(end), 0);
	assert_int_equal(write(end[1], &byte, 1), 1);
	assert_int_equal(dup2(end[0], fd), fd);
	ip("add 10.1.2.4");
	expect(rig->context, 4, "10.1.2.4");
	assert_true(find_netlink() != fd);
	assert_int_equal(read(fd, &byte, 1), 1);
	for (int i = 0; i < 2; i++)
		close(end[i]);
	close(fd);
	ip("add 10.1.2.5");
	expect(rig->context, 6, "10.1.2.5");
}

/* More changes than the kernel's socket has room for. */
static void overrun(void **state)
{
	struct rig *rig = *state;
	int least = 1, fd = find_netlink();

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)), 0);
	for (int i = 0; i < 10; i++) {
		ip("add 10.1.2.4");
		ip("del 10.1.2.4");
	}
	ip("add 10.1.2.4");
	expect(rig->context, 4, "10.1.2.4");
}

/* ---- The namespace ---- */

static bool write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* As root of a user namespace, where this process is not root. */
static bool enter_namespace(void)
{
	unsigned int uid = geteuid(), gid = getegid();
	char text[32];

	if (!uid)
		return !unshare(CLONE_NEWNET);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) || !write_to("/proc/self/setgroups", "deny"))
		return false;
	snprintf(text, sizeof(text), "0 %u 1", uid);
	if (!write_to("/proc/self/uid_map", text))
		return false;
	snprintf(text, sizeof(text), "0 %u 1", gid);
	return write_to("/proc/self/gid_map", text);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_with_address, close_without)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(indices), CASE(none),	 CASE(sources), CASE(connections),
		CASE(told),    CASE(taken_away), CASE(overrun),
	};

	if (!enter_namespace() || system(IN_NAMESPACE_WITHOUT_IP6)) {
		puts("skipped: no network namespaces here");
		return 77;
	}
	return cmocka_run_group_tests(tests, make_pool, remove_pool);
}
