/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Each call of libweft-ape, each error that it can have, and each descriptor that a card refuses.
 * This program has two slots of its node, as two processes would. Run by test_calls.py on a torus of two nodes.
 */
#include "reached.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ape/private.h"
#include "wire/ape/world.h"

#define HERE	0u /* the node's rank, and the number of the slot that posts */
#define THERE	5u /* of the slot that is posted to */
#define BYTES	65536u
#define PAGE	4096u
#define WAIT_NS 15000000000

static struct ape *here, *there;
static uint8_t *mine, *theirs;
static int region;

static struct ape_event await_event(struct ape *ape)
{
	struct ape_event e = {0};
	uint64_t seen = 0;

	while (!ape_poll(ape, &e, 1))
		assert_int_equal(ape_wait(ape, &seen, WAIT_NS), 1);
	return e;
}

static int begin(void **state)
{
	assert_int_equal(ape_open(NULL, HERE, &here), 0);
	assert_int_equal(ape_open(NULL, THERE, &there), 0);
	mine = ape_alloc(here, BYTES);
	theirs = ape_alloc(there, BYTES);
	assert_non_null(mine);
	assert_non_null(theirs);
	for (uint32_t i = 0; i < BYTES; i++)
		mine[i] = (uint8_t)(i * 7 + i / 256);
	region = ape_register(there, theirs, BYTES, APE_MAY_PUT | APE_MAY_GET);
	assert_true(region >= 0);
	return 0;
}

static int end(void **state)
{
	struct ape_event e;

	assert_int_equal(ape_poll(here, &e, 1), 0);
	assert_int_equal(ape_poll(there, &e, 1), 0);
	ape_free(here, mine, BYTES);
	assert_int_equal(ape_unregister(there, region), 0);
	ape_free(there, theirs, BYTES);
	ape_close(here);
	ape_close(there);
	return 0;
}

/* ---- Opening ---- */

static void test_opening(void **state)
{
	static const char *const names[] = {"x",	 "x:1",	      "x:1,2",
					    "x:1,2,3,4", "x:a,0,0",   ":0,0,0",
					    "x y:0,0,0", "x:0,0,300", "/dev/shm:0"};
	struct ape *other;
	struct ape *all[WEFT_POOL_APE_SLOTS];
	struct ape_info info;
	int n = 0;

	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names) - 1; i++)
		FAILS(ape_open(names[i], -1, &other), EINVAL);
	FAILS(ape_open("there-is-none:0,0,0", -1, &other), ENOENT);
	FAILS(ape_open("torus:9,0,0", -1, &other), ENOENT);
	/* another node than the one that the process is on */
	FAILS(ape_open("torus:1,0,0", -1, &other), EBUSY);
	FAILS(ape_open(NULL, 64, &other), EINVAL);
	FAILS(ape_open(NULL, -2, &other), EINVAL);
	FAILS(ape_open(NULL, THERE, &other), EBUSY);
	while (ape_open("torus:0,0,0", -1, &all[n]) == 0)
		n++;
	assert_int_equal(n, WEFT_POOL_APE_SLOTS - 2);
	FAILS(ape_open(NULL, -1, &other), ENOSPC);
	while (n--)
		ape_close(all[n]);
	ape_query(there, &info);
	assert_int_equal(info.process, THERE);
	assert_int_equal(info.nodes, 2);
	assert_int_equal(info.rank, HERE);
	assert_int_equal(info.size[0], 2);
	assert_int_equal(ape_rank(there, 1, 0, 0), 1);
}

/* ---- Buffers ---- */

static void test_buffers(void **state)
{
	struct ape_event e = {0};
	int buffer[APE_BUFFERS] = {0};
	int n = 0;

	FAILS(ape_register(here, mine, 1, 0), EINVAL);
	FAILS(ape_register(here, mine, 1, 4), EINVAL);
	FAILS(ape_register(here, (void *)-1, 2, APE_MAY_PUT), EINVAL);
	FAILS(ape_register(here, mine, UINT64_C(1) << 49, APE_MAY_PUT), EINVAL);
	FAILS(ape_receive(here, (void *)-1, 2, 0), EINVAL);
	FAILS(ape_unregister(here, 0), EINVAL);
	FAILS(ape_unregister(here, -1), EINVAL);
	FAILS(ape_unregister(here, APE_BUFFERS), EINVAL);
	while ((buffer[n] = ape_receive(here, mine, 8, 100 + (uint64_t)n)) >= 0 &&
	       n < APE_BUFFERS - 1)
		n++;
	assert_int_equal(n, APE_BUFFERS - 1);
	FAILS(ape_receive(here, mine, 8, 0), ENOSPC);
	FAILS(ape_register(here, mine, 8, APE_MAY_PUT), ENOSPC);
	/* the first is taken by a SEND: it cannot be withdrawn; its event has the tag */
	assert_int_equal(ape_send(there, HERE, HERE, theirs, 8, 1), 0);
	e = await_event(there);
	assert_int_equal(e.status, APE_OK);
	FAILS(ape_unregister(here, buffer[0]), ENOENT);
	e = await_event(here);
	assert_int_equal(e.kind, APE_RECEIVED);
	assert_int_equal(e.tag, 100);
	assert_int_equal(e.bytes, 8);
	assert_int_equal(e.process, THERE);
	assert_int_equal(ape_count(here, buffer[0]), 1);
	for (int i = 1; i < APE_BUFFERS; i++)
		assert_int_equal(ape_unregister(here, buffer[i]), 0);
}

static void test_bytes_and_counter(void **state)
{
	uint64_t at = (uint64_t)(uintptr_t)theirs;

	assert_int_equal(ape_count(there, region), 0);
	assert_int_equal(ape_count(there, -1), 0);
	for (uint32_t n = 1; n <= 3; n++) {
		assert_int_equal(ape_put(here, HERE, THERE, mine, 9999, at + n, n), 0);
		assert_int_equal(await_event(here).tag, n);
		assert_int_equal(ape_count(there, region), n);
		assert_memory_equal(theirs + n, mine, 9999);
		memset(theirs, 0, BYTES);
	}
	memcpy(theirs, mine, BYTES);
	memset(mine, 0, BYTES);
	assert_int_equal(ape_get(here, HERE, THERE, mine + 5, 9999, at + 5, 4), 0);
	assert_int_equal(await_event(here).status, APE_OK);
	assert_memory_equal(mine + 5, theirs + 5, 9999);
	assert_int_equal(mine[4], 0);
	assert_int_equal(mine[5 + 9999], 0);
}

/* ---- What ends in error ---- */

enum op {
	PUT,
	GET,
	SEND,
};

static const char *const op_names[] = {"ape_put", "ape_get", "ape_send"};

static enum ape_status outcome(enum op op, uint32_t process, const void *local, uint64_t bytes,
			       uint64_t remote)
{
	int err = op == PUT   ? ape_put(here, HERE, process, local, bytes, remote, 77)
		  : op == GET ? ape_get(here, HERE, process, (void *)(uintptr_t)local, bytes,
					remote, 77)
			      : ape_send(here, HERE, process, local, bytes, 77);
	struct ape_event e;

	assert_int_equal(err, 0);
	e = await_event(here);
	assert_int_equal(e.kind, APE_SENT);
	assert_int_equal(e.tag, 77);
	assert_int_equal(e.process, process);
	return e.status;
}

#define ENDS(status, op, ...)                                                                      \
	do {                                                                                       \
		assert_int_equal(outcome(op, __VA_ARGS__), status);                                \
		note_reached(op_names[op], #status);                                               \
	} while (0)

static void test_errors(void **state)
{
	uint64_t at = (uint64_t)(uintptr_t)theirs;
	uint8_t *gone = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int buffer;

	FAILS(ape_put(here, 2, THERE, mine, 8, at, 0), EINVAL);
	FAILS(ape_put(here, HERE, 1u << 16, mine, 8, at, 0), EINVAL);
	FAILS(ape_get(here, 2, THERE, mine, 8, at, 0), EINVAL);
	FAILS(ape_send(here, 2, THERE, mine, 8, 0), EINVAL);
	for (enum op op = PUT; op <= SEND; op++) {
		ENDS(APE_BAD_PROCESS, op, 64, mine, 8, at);
		ENDS(APE_BAD_LENGTH, op, THERE, mine, APE_MESSAGE_MAX + 1, at);
		ENDS(APE_BAD_LOCAL, op, THERE, (void *)-4, 8, at);
		ENDS(APE_LOCAL_FAULT, op, THERE, gone, 8, at);
	}
	for (enum op op = PUT; op <= GET; op++) {
		ENDS(APE_BAD_REMOTE, op, THERE, mine, 8, UINT64_C(1) << 48);
		ENDS(APE_BAD_REMOTE, op, THERE, mine, 8, (UINT64_C(1) << 48) - 7);
		ENDS(APE_REMOTE_RANGE, op, THERE, mine, 8, at + BYTES - 7);
		ENDS(APE_REMOTE_RANGE, op, THERE, mine, 8, at - 1);
		ENDS(APE_REMOTE_RANGE, op, THERE + 1, mine, 8, at);
		ENDS(APE_OK, op, THERE, mine, 8, at);
	}
	/* each right alone; memory that is not there */
	buffer = ape_register(here, gone, PAGE, APE_MAY_GET);
	ENDS(APE_REMOTE_RANGE, PUT, HERE, mine, 8, (uint64_t)(uintptr_t)gone);
	ENDS(APE_REMOTE_FAULT, GET, HERE, mine, 8, (uint64_t)(uintptr_t)gone);
	assert_int_equal(ape_unregister(here, buffer), 0);
	buffer = ape_register(here, gone, PAGE, APE_MAY_PUT);
	ENDS(APE_REMOTE_RANGE, GET, HERE, mine, 8, (uint64_t)(uintptr_t)gone);
	ENDS(APE_REMOTE_FAULT, PUT, HERE, mine, 8, (uint64_t)(uintptr_t)gone);
	assert_int_equal(ape_unregister(here, buffer), 0);
	ENDS(APE_REMOTE_RANGE, PUT, HERE, mine, 8, (uint64_t)(uintptr_t)gone);
	/* pages of the pool that are another's */
	ENDS(APE_LOCAL_FAULT, PUT, THERE, here->pool->base + PAGE, 8, at);
	/* a receive whose memory is not there stays, until it is taken back */
	buffer = ape_receive(here, gone, 8, 1);
	ENDS(APE_REMOTE_FAULT, SEND, HERE, mine, 8, 0);
	ENDS(APE_REMOTE_FAULT, SEND, HERE, mine, 8, 0);
	assert_int_equal(ape_unregister(here, buffer), 0);
	/* a receive that is too short stays, and takes the next */
	assert_true(ape_receive(there, theirs, 8, 1) >= 0);
	ENDS(APE_TOO_LONG, SEND, THERE, mine, 9, 0);
	ENDS(APE_OK, SEND, THERE, mine, 8, 0);
	assert_int_equal(await_event(there).tag, 1);
	munmap(gone, PAGE);
}

static void test_no_receive(void **state)
{
	ENDS(APE_NOT_READY, SEND, THERE, mine, 8, 0);
}

#define IS(status) status, #status

/* What the library does not post: the card refuses it, and does nothing. */
static void test_wrong_descriptors(void **state)
{
	static const struct {
		unsigned int byte;
		uint8_t value;
		enum ape_status status;
		const char *name;
	} wrong[] = {
		{0, 3, IS(APE_BAD_OPCODE)},  {0, 255, IS(APE_BAD_OPCODE)},
		{1, 1, IS(APE_BAD_FLAGS)},   {6, 1, IS(APE_BAD_FLAGS)},
		{7, 128, IS(APE_BAD_FLAGS)}, {40, 1, IS(APE_BAD_FLAGS)},
		{63, 1, IS(APE_BAD_FLAGS)},  {4, 2, IS(APE_BAD_NODE)},
		{5, 8, IS(APE_BAD_NODE)},    {3, 1, IS(APE_BAD_PROCESS)},
		{15, 1, IS(APE_BAD_LENGTH)},
	};
	uint64_t before = ape_count(there, region);

	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		uint8_t *d = here->slot->post[here->posted % WEFT_POOL_APE_POSTS];
		struct ape_event e;

		memset(d, 0, WEFT_POOL_APE_DESCRIPTOR);
		d[32] = (uint8_t)i;
		d[wrong[i].byte] = wrong[i].value;
		here->owed++;
		atomic_store(&here->slot->posted, ++here->posted);
		weft_door_knock(&here->door->door);
		e = await_event(here);
		assert_int_equal(e.status, wrong[i].status);
		assert_int_equal(e.tag, i);
		note_reached("ape_poll", wrong[i].name);
		assert_true(strlen(ape_status_str(e.status)) > 5);
	}
	assert_int_equal(ape_count(there, region), before);
}

/* ---- As many events as there is room for ---- */

static void test_full(void **state)
{
	uint64_t at = (uint64_t)(uintptr_t)theirs;
	uint32_t posted = 0, ended = 0;
	struct ape_event e[16];
	uint64_t seen = 0;

	for (unsigned int tries = 0; tries < 100000 && posted < 2 * WEFT_POOL_APE_EVENTS; tries++) {
		int err = ape_put(here, HERE, THERE, mine, 8, at, posted);

		if (err == -EAGAIN && posted >= WEFT_POOL_APE_EVENTS)
			break;
		assert_true(!err || err == -EAGAIN);
		posted += !err;
		if (err)
			usleep(100);
	}
	/* none was polled: no event may be lost */
	assert_int_equal(posted, WEFT_POOL_APE_EVENTS);
	FAILS(ape_put(here, HERE, THERE, mine, 8, at, 0), EAGAIN);
	FAILS(ape_get(here, HERE, THERE, mine, 8, at, 0), EAGAIN);
	FAILS(ape_send(here, HERE, THERE, mine, 8, 0), EAGAIN);
	FAILS(ape_receive(here, mine, 8, 0), EAGAIN);
	while (ended < posted) {
		int n = ape_poll(here, e, 16);

		for (int i = 0; i < n; i++) {
			assert_int_equal(e[i].status, APE_OK);
			assert_int_equal(e[i].tag, ended++);
		}
		if (!n)
			assert_int_equal(ape_wait(here, &seen, WAIT_NS), 1);
	}
	assert_int_equal(atomic_load(&here->slot->lost), 0);
}

static void test_waiting(void **state)
{
	uint64_t seen = 0;

	ape_wait(here, &seen, 0);
	assert_int_equal(ape_wait(here, &seen, 1000000), 0);
	assert_int_equal(ape_wait(here, &seen, 0), 0);
	/* an event that comes between two calls of ape_wait ends the second one */
	assert_int_equal(ape_put(here, HERE, THERE, mine, 8, (uint64_t)(uintptr_t)theirs, 0), 0);
	usleep(200000);
	assert_int_equal(ape_wait(here, &seen, -1), 1);
	assert_int_equal(await_event(here).status, APE_OK);
	assert_null(ape_alloc(here, 0));
	assert_null(ape_alloc(here, UINT64_C(1) << 60));
	ape_free(here, NULL, 1);
	assert_true(strlen(ape_strerror(-ENETDOWN)) > 5);
	assert_string_equal(ape_strerror(1), "done");
	assert_string_equal(ape_status_str(99), "no such status");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_opening, begin, end),
		cmocka_unit_test_setup_teardown(test_buffers, begin, end),
		cmocka_unit_test_setup_teardown(test_bytes_and_counter, begin, end),
		cmocka_unit_test_setup_teardown(test_errors, begin, end),
		cmocka_unit_test_setup_teardown(test_no_receive, begin, end),
		cmocka_unit_test_setup_teardown(test_wrong_descriptors, begin, end),
		cmocka_unit_test_setup_teardown(test_full, begin, end),
		cmocka_unit_test_setup_teardown(test_waiting, begin, end),
	};

	return cmocka_run_group_tests_name("calls of libweft-ape", tests, NULL, NULL);
}
