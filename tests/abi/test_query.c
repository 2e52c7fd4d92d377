/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Listing, opening and querying the device: what each answers, and each of its errors. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include <cmocka.h>

#include "pool.h"

/* The functions behind the macros and inline functions of the header. */
#undef ibv_query_port
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       int *type);

#define FILLER 0xa5

static struct ibv_device *weft0(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device *dev;

	assert_non_null(list);
	dev = list[0];
	ibv_free_device_list(list);
	return dev;
}

static int open_context(void **state)
{
	*state = ibv_open_device(weft0());
	return *state ? 0 : -1;
}

static int close_context(void **state)
{
	return ibv_close_device(*state);
}

static bool all(const void *bytes, size_t len, uint8_t value)
{
	for (size_t i = 0; i < len; i++)
		if (((const uint8_t *)bytes)[i] != value)
			return false;
	return true;
}

static void device_list(void **state)
{
	int n = -1;
	struct ibv_device **list = ibv_get_device_list(&n);

	assert_non_null(list);
	assert_int_equal(n, 1);
	assert_null(list[1]);
	assert_string_equal(ibv_get_device_name(list[0]), "weft0");
	assert_int_equal(ibv_get_device_index(list[0]), 0);
	assert_int_not_equal(ibv_get_device_guid(list[0]), 0);
	assert_int_equal(list[0]->transport_type, IBV_TRANSPORT_IB);
	assert_int_equal(list[0]->node_type, IBV_NODE_CA);
	ibv_free_device_list(list);
	assert_null(ibv_get_device_name(NULL));
	assert_int_equal(ibv_get_device_guid(NULL), 0);
	assert_int_equal(ibv_get_device_index(NULL), -1);
}

/* Vendor libraries compare the pointer behind struct ibv_device with their own operations. */
static void pointer_behind_device(void **state)
{
	const char *const *const *operations =
		(const char *const *const *)((const char *)weft0() + 664);

	assert_non_null(*operations);
	assert_string_equal(**operations, "weft");
}

static void open_and_close(void **state)
{
	struct ibv_context *one = ibv_open_device(weft0());
	struct ibv_context *other = ibv_open_device(weft0());

	assert_non_null(one);
	assert_non_null(other);
	assert_ptr_not_equal(one, other);
	assert_ptr_equal(one->device, weft0());
	assert_true(one->num_comp_vectors > 0);
	assert_true(fcntl(one->cmd_fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(one->async_fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(ibv_close_device(one), 0);
	errno = 0;
	assert_int_equal(ibv_close_device(one), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_close_device(other), 0);
}

static void open_and_close_errors(void **state)
{
	struct ibv_context foreign = {.cmd_fd = -1};

	errno = 0;
	assert_null(ibv_open_device(NULL));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_int_equal(ibv_close_device(NULL), -1);
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_int_equal(ibv_close_device(&foreign), -1);
	assert_int_equal(errno, EINVAL);
}

static int lowest_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

/* The device is opened with room for no descriptor, for one, and so on until that succeeds: no failure leaves
 * one open. */
static void open_without_descriptors(void **state)
{
	int first = lowest_fd();
	struct ibv_context *context = NULL;
	struct rlimit old, limit;
	int failures = 0;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit = old;
	for (rlim_t room = 0; !context && room < 16; room++) {
		limit.rlim_cur = (rlim_t)first + room;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		errno = 0;
		context = ibv_open_device(weft0());
		if (context)
			continue;
		failures++;
		assert_int_equal(errno, EMFILE);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
		assert_int_equal(lowest_fd(), first);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_non_null(context);
	assert_true(failures >= 2);
	assert_int_equal(ibv_close_device(context), 0);
}

static void query_device(void **state)
{
	struct ibv_device_attr attr;

	memset(&attr, FILLER, sizeof(attr));
	assert_int_equal(ibv_query_device(NULL, &attr), EINVAL);
	assert_true(all(&attr, sizeof(attr), FILLER));
	assert_int_equal(ibv_query_device(*state, NULL), EINVAL);
	assert_int_equal(ibv_query_device(*state, &attr), 0);
	assert_int_equal(attr.vendor_id, 0xffffff);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_int_equal(attr.atomic_cap, IBV_ATOMIC_HCA);
	assert_int_equal(attr.node_guid, ibv_get_device_guid(weft0()));
	assert_true(attr.max_qp > 0 && attr.max_mr > 0 && attr.max_cqe > 0);
}

static void query_device_ex(void **state)
{
	struct ibv_query_device_ex_input unknown = {.comp_mask = 1};
	struct {
		struct ibv_device_attr_ex attr;
		uint64_t later;
	} big;
	struct ibv_context *context = *state;
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_device_ex);

	assert_non_null(vctx);
	memset(&big, FILLER, sizeof(big));
	assert_int_equal(ibv_query_device_ex(context, &unknown, &big.attr), EINVAL);
	assert_int_equal(vctx->query_device_ex(context, &unknown, &big.attr, sizeof(big)), EINVAL);
	assert_int_equal(vctx->query_device_ex(context, NULL, NULL, sizeof(big)), EINVAL);
	assert_int_equal(vctx->query_device_ex(NULL, NULL, &big.attr, sizeof(big)), EINVAL);
	assert_int_equal(
		vctx->query_device_ex(context, NULL, &big.attr, sizeof(struct ibv_device_attr) - 1),
		EINVAL);
	assert_true(all(&big, sizeof(big), FILLER));
	/* a program of an earlier release has a shorter struct */
	assert_int_equal(vctx->query_device_ex(context, NULL, &big.attr,
					       offsetof(struct ibv_device_attr_ex, odp_caps)),
			 0);
	assert_true(all(&big.attr.odp_caps, sizeof(big.attr.odp_caps), FILLER));
	/* a program of a later release has a longer one: fields that Weft does not know are zero */
	assert_int_equal(vctx->query_device_ex(context, NULL, &big.attr, sizeof(big)), 0);
	assert_int_equal(big.later, 0);
	assert_int_equal(big.attr.phys_port_cnt_ex, 1);
	assert_int_equal(big.attr.comp_mask, 0);
}

static void query_port(void **state)
{
	struct {
		struct ibv_port_attr attr;
		uint32_t later;
	} big;
	struct ibv_context *context = *state;
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);

	assert_non_null(vctx);
	memset(&big, FILLER, sizeof(big));
	assert_int_equal(vctx->query_port(context, 0, &big.attr, sizeof(big)), EINVAL);
	assert_int_equal(vctx->query_port(context, 2, &big.attr, sizeof(big)), EINVAL);
	assert_int_equal(vctx->query_port(context, 1, NULL, sizeof(big)), EINVAL);
	assert_int_equal(vctx->query_port(NULL, 1, &big.attr, sizeof(big)), EINVAL);
	assert_int_equal(ibv_query_port(context, 2, (void *)&big), EINVAL);
	assert_int_equal(ibv_query_port(context, 1, NULL), EINVAL);
	assert_int_equal(ibv_query_port(NULL, 1, (void *)&big), EINVAL);
	assert_true(all(&big, sizeof(big), FILLER));
	/* the exported function serves programs whose struct ends before port_cap_flags2 */
	assert_int_equal(ibv_query_port(context, 1, (void *)&big), 0);
	assert_int_equal(big.attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(big.attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_true(all(&big.attr.port_cap_flags2, sizeof(big.attr.port_cap_flags2), FILLER));
	assert_int_equal(vctx->query_port(context, 1, &big.attr, sizeof(big)), 0);
	assert_int_equal(big.later, 0);
	assert_true(big.attr.gid_tbl_len > 3);
	assert_int_equal(big.attr.active_mtu, IBV_MTU_4096);
}

#define FAILS_WITH_EINVAL(call)                                                                    \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_int_equal(call, -1);                                                        \
		assert_int_equal(errno, EINVAL);                                                   \
	} while (0)

static void query_pkey(void **state)
{
	__be16 pkey = 7;

	FAILS_WITH_EINVAL(ibv_query_pkey(NULL, 1, 0, &pkey));
	FAILS_WITH_EINVAL(ibv_query_pkey(*state, 0, 0, &pkey));
	FAILS_WITH_EINVAL(ibv_query_pkey(*state, 2, 0, &pkey));
	FAILS_WITH_EINVAL(ibv_query_pkey(*state, 1, -1, &pkey));
	FAILS_WITH_EINVAL(ibv_query_pkey(*state, 1, 1, &pkey));
	FAILS_WITH_EINVAL(ibv_query_pkey(*state, 1, 0, NULL));
	assert_int_equal(pkey, 7);
	FAILS_WITH_EINVAL(ibv_get_pkey_index(NULL, 1, 0xffff));
	FAILS_WITH_EINVAL(ibv_get_pkey_index(*state, 2, 0xffff));
	FAILS_WITH_EINVAL(ibv_get_pkey_index(*state, 1, htobe16(0x8001)));
	assert_int_equal(ibv_query_pkey(*state, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_get_pkey_index(*state, 1, pkey), 0);
}

static int gid_table_len(struct ibv_context *context)
{
	struct ibv_port_attr attr = {.gid_tbl_len = 0};

	assert_int_equal(ibv_query_port(context, 1, (void *)&attr), 0);
	return attr.gid_tbl_len;
}

static void query_gid(void **state)
{
	int len = gid_table_len(*state);
	union ibv_gid gid;
	int type = 7;

	memset(&gid, FILLER, sizeof(gid));
	FAILS_WITH_EINVAL(ibv_query_gid(NULL, 1, 0, &gid));
	FAILS_WITH_EINVAL(ibv_query_gid(*state, 0, 0, &gid));
	FAILS_WITH_EINVAL(ibv_query_gid(*state, 2, 0, &gid));
	FAILS_WITH_EINVAL(ibv_query_gid(*state, 1, -1, &gid));
	FAILS_WITH_EINVAL(ibv_query_gid(*state, 1, len, &gid));
	FAILS_WITH_EINVAL(ibv_query_gid(*state, 1, 0, NULL));
	assert_true(all(&gid, sizeof(gid), FILLER));
	FAILS_WITH_EINVAL(ibv_query_gid_type(*state, 2, 0, &type));
	FAILS_WITH_EINVAL(ibv_query_gid_type(*state, 1, (unsigned int)len, &type));
	FAILS_WITH_EINVAL(ibv_query_gid_type(*state, 1, 0, NULL));
	assert_int_equal(type, 7);
	assert_int_equal(ibv_query_gid(*state, 1, 0, &gid), 0);
	assert_int_equal(gid.raw[0], 0xfe);
	assert_int_equal(ibv_query_gid_type(*state, 1, 0, &type), 0);
	assert_int_equal(type, 0);
	assert_int_equal(ibv_query_gid_type(*state, 1, 1, &type), 0);
	assert_int_equal(type, 1);
	/* the last entry of the table is unused: zero, and no error */
	assert_int_equal(ibv_query_gid(*state, 1, len - 1, &gid), 0);
	assert_true(all(&gid, sizeof(gid), 0));
	assert_int_equal(ibv_query_gid_type(*state, 1, (unsigned int)len - 1, &type), 0);
}

static void query_gid_ex(void **state)
{
	uint32_t len = (uint32_t)gid_table_len(*state);
	struct ibv_gid_entry entry;
	union ibv_gid gid;

	memset(&entry, FILLER, sizeof(entry));
	assert_int_equal(ibv_query_gid_ex(NULL, 1, 0, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(*state, 2, 0, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(*state, 1, len, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(*state, 1, 0, &entry, 1), EINVAL);
	assert_int_equal(ibv_query_gid_ex(*state, 1, 0, NULL, 0), EINVAL);
	assert_int_equal(_ibv_query_gid_ex(*state, 1, 0, &entry, 0, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(*state, 1, len - 1, &entry, 0), ENODATA);
	assert_true(all(&entry, sizeof(entry), FILLER));
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(ibv_query_gid_ex(*state, 1, i, &entry, 0), 0);
		assert_int_equal(ibv_query_gid(*state, 1, (int)i, &gid), 0);
		assert_memory_equal(&entry.gid, &gid, sizeof(gid));
		assert_int_equal(entry.gid_index, i);
		assert_int_equal(entry.port_num, 1);
		assert_int_equal(entry.gid_type,
				 i % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1);
		assert_int_not_equal(entry.ndev_ifindex, 0);
	}
}

static void query_gid_table(void **state)
{
	struct ibv_gid_entry entries[257];
	struct {
		struct ibv_gid_entry entry;
		uint64_t later;
	} big[257];
	ssize_t n = ibv_query_gid_table(*state, entries, 257, 0);

	assert_true(n >= 4);
	memset(big, FILLER, sizeof(big));
	assert_int_equal(_ibv_query_gid_table(*state, &big[0].entry, 257, 0, sizeof(big[0])), n);
	for (ssize_t i = 0; i < n; i++) {
		assert_int_equal(entries[i].gid_index, i);
		assert_memory_equal(&big[i].entry, &entries[i], sizeof(entries[i]));
		assert_int_equal(big[i].later, 0);
	}
	memset(entries, FILLER, sizeof(entries));
	assert_int_equal(ibv_query_gid_table(*state, entries, (size_t)n - 1, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(*state, entries, 257, 1), -EINVAL);
	assert_int_equal(ibv_query_gid_table(*state, NULL, 257, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(NULL, entries, 257, 0), -EINVAL);
	assert_int_equal(_ibv_query_gid_table(*state, entries, 257, 0, 0), -EINVAL);
	assert_true(all(entries, sizeof(entries), FILLER));
	assert_int_equal(ibv_query_gid_table(*state, entries, (size_t)n, 0), n);
}

static void resolve_own(struct ibv_context *context, int index, uint8_t mac[6])
{
	struct ibv_ah_attr attr = {.port_num = 1};
	uint16_t vlan = 0;

	assert_int_equal(ibv_query_gid(context, 1, index, &attr.grh.dgid), 0);
	assert_int_equal(ibv_resolve_eth_l2_from_gid(context, &attr, mac, &vlan), 0);
	assert_int_equal(vlan, 0xffff);
}

static void resolve_eth_l2(void **state)
{
	struct ibv_ah_attr attr = {.grh.dgid.raw = {0xff, 0x0e, [15] = 0x09}};
	uint8_t link_local[6], ipv4[6], mac[6];

	resolve_own(*state, 0, link_local);
	resolve_own(*state, 2, ipv4);
	assert_memory_equal(link_local, ipv4, 6);
	assert_int_equal(ibv_resolve_eth_l2_from_gid(*state, &attr, mac, NULL), 0);
	assert_memory_equal(mac, "\x33\x33\0\0\0\x09", 6);
	memset(mac, FILLER, sizeof(mac));
	attr.grh.dgid.raw[0] = 0x20;
	assert_int_equal(ibv_resolve_eth_l2_from_gid(*state, &attr, mac, NULL), EHOSTUNREACH);
	assert_int_equal(ibv_resolve_eth_l2_from_gid(NULL, &attr, mac, NULL), EINVAL);
	assert_int_equal(ibv_resolve_eth_l2_from_gid(*state, NULL, mac, NULL), EINVAL);
	assert_int_equal(ibv_resolve_eth_l2_from_gid(*state, &attr, NULL, NULL), EINVAL);
	assert_true(all(mac, sizeof(mac), FILLER));
}

/* The memory of a closed context stays, so that operations which programs call through it still answer. */
static void closed_context(void **state)
{
	struct ibv_context *context = ibv_open_device(weft0());
	struct ibv_device_attr_ex attr_ex;
	struct ibv_port_attr port;

	assert_non_null(context);
	assert_int_equal(ibv_close_device(context), 0);
	assert_int_equal(ibv_query_device_ex(context, NULL, &attr_ex), EINVAL);
	assert_int_equal(ibv_query_port(context, 1, (void *)&port), EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 1, 0, NULL, 0), EINVAL);
}

static void absent_operations(void **state)
{
	errno = 0;
	assert_null(ibv_create_counters(*state, NULL));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void fork_support(void **state)
{
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

#define WITH_CONTEXT(name) cmocka_unit_test_setup_teardown(name, open_context, close_context)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_list),
		cmocka_unit_test(pointer_behind_device),
		cmocka_unit_test(open_and_close),
		cmocka_unit_test(open_and_close_errors),
		cmocka_unit_test(open_without_descriptors),
		WITH_CONTEXT(query_device),
		WITH_CONTEXT(query_device_ex),
		WITH_CONTEXT(query_port),
		WITH_CONTEXT(query_pkey),
		WITH_CONTEXT(query_gid),
		WITH_CONTEXT(query_gid_ex),
		WITH_CONTEXT(query_gid_table),
		WITH_CONTEXT(resolve_eth_l2),
		cmocka_unit_test(closed_context),
		WITH_CONTEXT(absent_operations),
		cmocka_unit_test(fork_support),
	};

	return cmocka_run_group_tests(tests, make_pool, remove_pool);
}
