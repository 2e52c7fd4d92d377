/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Revocation waits for a part that is being placed by a thread whose busy line is not the revoker's: the
 * responder's revocation, the requester's, and that by a third process whose region is of a shared domain.
 * After the revocation no byte changes.
 */
#include "world.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "nic/busy.h"
#include "pieces.h"

#define A_WHILE_MS 60

static const struct weft_transport *const transports[] = {&pieces};
static atomic_bool inside, goes_on, revoked;

/* ---- One thread in the middle of a part ---- */

static void pause_inside(void)
{
	atomic_store(&inside, true);
	while (!atomic_load(&goes_on))
		usleep(1000);
}

static void *place_first(void *unused)
{
	pieces_will.step = '0';
	world_look();
	return NULL;
}

static void begin_part(pthread_t *thread, const struct end *from)
{
	uint64_t next;

	world.nic.transports = transports;
	pieces_begin();
	pieces_will.held = true;
	atomic_store(&inside, false);
	atomic_store(&goes_on, false);
	atomic_store(&revoked, false);
	ends_open();
	ends_post(WEFT_OP_WRITE, from);
	world.copies = pause_inside;
	assert_int_equal(pthread_create(thread, NULL, place_first, NULL), 0);
	while (!atomic_load(&inside))
		usleep(1000);
	/* the revoker's own busy line is set and cleared meanwhile, as its thread has other work */
	next = weft_busy_begin(&world.caller, weft_busy_at(world.pool->me, 0));
	weft_busy_end(&world.caller, next);
}

static void end_part(pthread_t thread)
{
	atomic_store(&goes_on, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	world.copies = NULL;
}

/* The first part, from a region of that value, has arrived; the next is refused. */
static void check_refused(uint8_t value, enum weft_wc_status status)
{
	uint8_t seen[2 * ENDS_BYTES];

	memcpy(seen, ends_peer.memory, sizeof(seen));
	for (uint32_t i = 0; i < ENDS_BYTES / PIECES; i++)
		assert_int_equal(seen[i], value);
	pieces_will.step = '1';
	world_look();
	assert_memory_equal(ends_peer.memory, seen, sizeof(seen));
	world_expect(1, status);
	ends_close();
}

/* ---- In one process ---- */

static void *revoke_it(void *end)
{
	ends_revoke(end);
	atomic_store(&revoked, true);
	return NULL;
}

static void waits(struct end *whose, enum weft_wc_status status)
{
	pthread_t places, revokes;

	begin_part(&places, &ends_near);
	assert_int_equal(pthread_create(&revokes, NULL, revoke_it, whose), 0);
	usleep(A_WHILE_MS * 1000);
	assert_false(atomic_load(&revoked));
	end_part(places);
	assert_int_equal(pthread_join(revokes, NULL), 0);
	check_refused('n', status);
}

static void responder_waits(void **state)
{
	waits(&ends_peer, WEFT_WC_REM_ACCESS_ERR);
}

static void requester_waits(void **state)
{
	waits(&ends_near, WEFT_WC_LOC_PROT_ERR);
}

/* ---- A region of another process, in the same domain ---- */

static int to_third[2], from_third[2];
static pid_t third;

static void say(int fd, const void *what, size_t bytes)
{
	if (write(fd, what, bytes) != (ssize_t)bytes)
		_exit(3);
}

static void hear(int fd, void *what, size_t bytes)
{
	if (read(fd, what, bytes) != (ssize_t)bytes)
		_exit(4);
}

static void be_third(void)
{
	struct end e;
	char path[256], word;

	/* it ends when the test's process does */
	close(to_third[1]);
	close(from_third[0]);
	hear(to_third[0], path, sizeof(path));
	setenv("WEFT_POOL", path, 1);
	if (world_join())
		_exit(5);
	memset(&e, 0, sizeof(e));
	ends_region(&e, 't');
	say(from_third[1], &e, sizeof(e));
	hear(to_third[0], &word, 1);
	ends_revoke(&e);
	say(from_third[1], &word, 1);
	hear(to_third[0], &word, 1);
	world_leave();
	_exit(0);
}

static bool answers(int timeout_ms)
{
	return poll(&(struct pollfd){from_third[0], POLLIN, 0}, 1, timeout_ms) == 1;
}

static void third_waits(void **state)
{
	pthread_t places;
	struct end e;
	char word = 0;
	int status;

	hear(from_third[0], &e, sizeof(e));
	begin_part(&places, &e);
	say(to_third[1], &word, 1);
	assert_false(answers(A_WHILE_MS));
	end_part(places);
	assert_true(answers(5000));
	hear(from_third[0], &word, 1);
	check_refused('t', WEFT_WC_LOC_PROT_ERR);
	say(to_third[1], &word, 1);
	assert_int_equal(waitpid(third, &status, 0), third);
	assert_int_equal(status, 0);
}

static int attach(void **state)
{
	char path[256] = "";

	if (world_attach(state))
		return -1;
	pieces_attach();
	strncpy(path, getenv("WEFT_POOL"), sizeof(path) - 1);
	say(to_third[1], path, sizeof(path));
	return 0;
}

static int detach(void **state)
{
	pieces_detach();
	return world_detach(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(responder_waits),
		cmocka_unit_test(requester_waits),
		cmocka_unit_test(third_waits),
	};

	if (pipe(to_third) || pipe(from_third))
		return 1;
	third = fork();
	if (!third)
		be_third();
	close(to_third[0]);
	close(from_third[1]);
	return cmocka_run_group_tests_name("parts", tests, attach, detach);
}
