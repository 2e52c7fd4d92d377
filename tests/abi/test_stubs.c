/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Functions that are exported but not implemented answer harmlessly, under each of their versions. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

#include <cmocka.h>

#include "pool.h"

static const char *const private_nodes[] = {"25", "33", "34", "57", "59", "64", "65"};
#define NODES (sizeof(private_nodes) / sizeof(private_nodes[0]))

/* A symbol of the library that also has the symbol `beside`. */
static void *versioned(const char *beside, const char *name, const char *version)
{
	Dl_info where;
	void *library, *at;

	assert_true(dladdr(dlsym(RTLD_DEFAULT, beside), &where));
	library = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(library);
	at = dlvsym(library, name, version);
	if (!at)
		fail_msg("%s@%s is not exported", name, version);
	dlclose(library);
	return at;
}

static void *private(const char *name, const char *number)
{
	char version[32];

	snprintf(version, sizeof(version), "IBVERBS_PRIVATE_%s", number);
	return versioned("ibv_open_device", name, version);
}

static void verbs_that_are_not_there(void **state)
{
	void *(*alloc_dmah)(void *, void *) =
		versioned("ibv_open_device", "ibv_alloc_dmah", "IBVERBS_1.15");
	int (*dealloc_dmah)(void *) =
		versioned("ibv_open_device", "ibv_dealloc_dmah", "IBVERBS_1.15");
	void *(*create_comp_cntr)(void *, void *) =
		versioned("ibv_open_device", "ibv_create_comp_cntr", "IBVERBS_1.18");

	errno = 0;
	assert_null(alloc_dmah(NULL, NULL));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(dealloc_dmah(NULL), EOPNOTSUPP);
	errno = 0;
	assert_null(create_comp_cntr(NULL, NULL));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void verbs_of_1_0(void **state)
{
	void *(*alloc_pd)(void *) = versioned("ibv_open_device", "ibv_alloc_pd", "IBVERBS_1.0");
	int (*dealloc_pd)(void *) = versioned("ibv_open_device", "ibv_dealloc_pd", "IBVERBS_1.0");

	errno = 0;
	assert_null(alloc_pd(NULL));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(dealloc_pd(NULL), EOPNOTSUPP);
}

static void private_nodes_are_harmless(void **state)
{
	for (size_t i = 0; i < NODES; i++) {
		char name[32];
		void (*register_driver)(const void *);
		void (*log)(void *, uint32_t, const char *, ...);
		int (*command)(void *);

		snprintf(name, sizeof(name), "verbs_register_driver_%s", private_nodes[i]);
		register_driver = private(name, private_nodes[i]);
		register_driver(NULL);
		log = private("__verbs_log", private_nodes[i]);
		log(NULL, 1, "%s", "this is not printed");
		command = private("ibv_cmd_alloc_pd", private_nodes[i]);
		assert_int_equal(command(NULL), EOPNOTSUPP);
		assert_int_equal(
			*(char *)private("verbs_allow_disassociate_destroy", private_nodes[i]), 0);
	}
}

/* All versions of an implemented name lead to the implementation. */
static void private_nodes_share(void **state)
{
	for (size_t i = 0; i < NODES; i++) {
		const char *(*text)(int) = private("ibv_wr_opcode_str", private_nodes[i]);

		assert_ptr_equal(private("ibv_query_gid_type", private_nodes[i]),
				 private("ibv_query_gid_type", "34"));
		assert_string_equal(text(IBV_WR_RDMA_READ), "rdma-read");
		assert_string_equal(text(99), "unknown");
	}
}

static void connections(void **state)
{
	errno = 0;
	assert_int_equal(rsocket(AF_INET, SOCK_STREAM, 0), -1);
	assert_int_equal(errno, ENOSYS);
	errno = 0;
	assert_int_equal(rsend(0, "", 1, 0), -1);
	assert_int_equal(errno, ENOSYS);
}

static void connection_events(void **state)
{
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_ESTABLISHED), "RDMA_CM_EVENT_ESTABLISHED");
	assert_string_equal(rdma_event_str(99), "UNKNOWN EVENT");
}

static void connection_devices(void **state)
{
	int n = -1;
	struct ibv_context **list = rdma_get_devices(&n);
	struct ibv_context *context;

	assert_non_null(list);
	assert_int_equal(n, 1);
	context = list[0];
	assert_null(list[1]);
	rdma_free_devices(list);
	/* the context outlives the list, and the next list has the same one */
	assert_string_equal(ibv_get_device_name(context->device), "weft0");
	list = rdma_get_devices(NULL);
	assert_ptr_equal(list[0], context);
	rdma_free_devices(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verbs_that_are_not_there),
		cmocka_unit_test(verbs_of_1_0),
		cmocka_unit_test(private_nodes_are_harmless),
		cmocka_unit_test(private_nodes_share),
		cmocka_unit_test(connections),
		cmocka_unit_test(connection_events),
		cmocka_unit_test(connection_devices),
	};

	return cmocka_run_group_tests(tests, make_pool, remove_pool);
}
