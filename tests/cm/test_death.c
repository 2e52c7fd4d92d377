/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Processes that are killed at each stage of a connection: the other end gets the event that a kernel would
 * send which ends what a dead process had.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../abi/pool.h"

#define PORT	    7471
#define PATIENCE_MS 20000

/* How far the process has come that is killed. */
enum stage {
	LISTENS,
	HAS_REQUEST,
	HAS_ACCEPTED, /* and the connection is established */
	HAS_ASKED,
	HAS_CONNECTED,
};

struct victim {
	pid_t pid;
	int ready; /* its end gives a byte at each stage that the victim has reached */
};

static struct rdma_event_channel *channel;
static struct rdma_conn_param param = {.qp_num = 1, .retry_count = 7, .rnr_retry_count = 7};

/* ---- For both processes; a victim prints on stderr what has failed ---- */

static void require(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	abort();
}

/* 127.0.0.1; where the other process is on another host, to which that is another's, an address of this machine. */
static struct sockaddr *address(void)
{
	static struct sockaddr_in in;
	struct ifaddrs *all, *a;

	if (in.sin_port)
		return (struct sockaddr *)&in;
	in = (struct sockaddr_in){.sin_family = AF_INET,
				  .sin_port = htobe16(PORT),
				  .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};
	require(!getifaddrs(&all), "getifaddrs");
	for (a = all; a && getenv("WEFT_TEST_HOSTS"); a = a->ifa_next)
		if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET &&
		    !(a->ifa_flags & IFF_LOOPBACK))
			in.sin_addr = ((struct sockaddr_in *)a->ifa_addr)->sin_addr;
	freeifaddrs(all);
	return (struct sockaddr *)&in;
}

/* Waits for the next event, which must be that one; returns its identifier. */
static struct rdma_cm_id *expect(enum rdma_cm_event_type type, int status)
{
	struct pollfd pollfd = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	require(poll(&pollfd, 1, PATIENCE_MS) == 1, rdma_event_str(type));
	require(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	if (event->event != type || event->status != status)
		fprintf(stderr, "%s, status %d instead of ", rdma_event_str(event->event),
			event->status);
	require(event->event == type && event->status == status, rdma_event_str(type));
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

static struct rdma_cm_id *make_id(void)
{
	struct rdma_cm_id *id;

	require(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	return id;
}

static struct rdma_cm_id *make_listener(void)
{
	struct rdma_cm_id *id = make_id();

	require(!rdma_bind_addr(id, address()), "rdma_bind_addr");
	require(!rdma_listen(id, 4), "rdma_listen");
	return id;
}

static struct rdma_cm_id *ask(void)
{
	struct rdma_cm_id *id = make_id();

	require(!rdma_resolve_addr(id, NULL, address(), 1000), "rdma_resolve_addr");
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	require(!rdma_resolve_route(id, 1000), "rdma_resolve_route");
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	require(!rdma_connect(id, &param), "rdma_connect");
	return id;
}

static struct rdma_cm_id *accept_one(void)
{
	struct rdma_cm_id *id = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);

	require(!rdma_accept(id, &param), "rdma_accept");
	return id;
}

static void establish(struct rdma_cm_id *id)
{
	expect(RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	require(!rdma_establish(id), "rdma_establish");
}

/* ---- The victim ---- */

static void say(int fd)
{
	require(write(fd, "", 1) == 1, "write");
}

static void live(enum stage stage, int ready)
{
	channel = rdma_create_event_channel();
	if (stage >= HAS_ASKED) {
		struct rdma_cm_id *id = ask();

		if (stage == HAS_CONNECTED)
			establish(id);
		say(ready);
		pause();
	}
	make_listener();
	say(ready);
	if (stage == HAS_REQUEST)
		expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	if (stage == HAS_ACCEPTED) {
		accept_one();
		expect(RDMA_CM_EVENT_ESTABLISHED, 0);
	}
	if (stage != LISTENS)
		say(ready);
	pause();
}

static struct victim start(enum stage stage)
{
	struct victim v;
	int fds[2];

	require(!pipe(fds), "pipe");
	v.pid = fork_peer();
	require(v.pid >= 0, "fork");
	v.ready = fds[0];
	if (v.pid) {
		close(fds[1]);
		return v;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGABRT, SIG_DFL);
	live(stage, fds[1]);
	_exit(0);
}

static void await(const struct victim *v)
{
	struct pollfd pollfd = {.fd = v->ready, .events = POLLIN};
	char byte;

	assert_int_equal(poll(&pollfd, 1, PATIENCE_MS), 1);
	assert_int_equal(read(v->ready, &byte, 1), 1);
}

static void kill_it(struct victim *v)
{
	kill(v->pid, SIGKILL);
	waitpid(v->pid, NULL, 0);
	close(v->ready);
}

static void destroy(struct rdma_cm_id *id)
{
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* ---- Each stage ---- */

static void listener(void **state)
{
	struct victim v = start(LISTENS);
	struct rdma_cm_id *id;
	bool refused;

	await(&v);
	id = make_id();
	refused = rdma_bind_addr(id, address()) == -1 && errno == EADDRINUSE;
	kill_it(&v);
	destroy(id);
	assert_true(refused);
	id = make_id();
	assert_int_equal(rdma_bind_addr(id, address()), 0);
	destroy(id);
	id = ask();
	expect(RDMA_CM_EVENT_REJECTED, 8); /* no process listens there */
	destroy(id);
}

static void with_our_request(void **state)
{
	struct victim v = start(HAS_REQUEST);
	struct rdma_cm_id *id;

	await(&v);
	id = ask();
	await(&v);
	kill_it(&v);
	expect(RDMA_CM_EVENT_REJECTED, 28);
	destroy(id);
}

static void accepted_us(void **state)
{
	struct victim v = start(HAS_ACCEPTED);
	struct rdma_cm_id *id;

	await(&v);
	id = ask();
	establish(id);
	await(&v);
	kill_it(&v);
	expect(RDMA_CM_EVENT_DISCONNECTED, 0);
	expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	destroy(id);
}

static void asked_us(void **state)
{
	struct rdma_cm_id *ours = make_listener(), *id;
	struct victim v = start(HAS_ASKED);

	id = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	await(&v);
	kill_it(&v);
	expect(RDMA_CM_EVENT_REJECTED, 28);
	assert_int_equal(rdma_accept(id, &param), -1);
	destroy(id);
	destroy(ours);
}

static void connected_to_us(void **state)
{
	struct rdma_cm_id *ours = make_listener(), *id;
	struct victim v = start(HAS_CONNECTED);

	id = accept_one();
	expect(RDMA_CM_EVENT_ESTABLISHED, 0);
	await(&v);
	kill_it(&v);
	expect(RDMA_CM_EVENT_DISCONNECTED, 0);
	expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	destroy(id);
	destroy(ours);
}

/* Disconnecting is the first that this end says to the dead process. */
static void disconnected_from_the_dead(void **state)
{
	struct victim v = start(HAS_ACCEPTED);
	struct rdma_cm_id *id;

	await(&v);
	id = ask();
	establish(id);
	await(&v);
	kill_it(&v);
	assert_int_equal(rdma_disconnect(id), 0);
	expect(RDMA_CM_EVENT_DISCONNECTED, 0);
	expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	destroy(id);
}

/* ---- Threads that still read events while the program ends ---- */

/* As rping does: between two events its main thread destroys the channel, and its memory is used for
 * something else. */
static void reads_what_was_destroyed(void **state)
{
	struct rdma_event_channel *old = rdma_create_event_channel();
	struct rdma_cm_event *event;
	pid_t child = fork();

	if (!child) {
		/* instead of cmocka's, which would go on with the next test */
		signal(SIGSEGV, SIG_DFL);
		rdma_destroy_event_channel(old);
		for (size_t i = 0; i < 1024; i++) {
			size_t bytes = 24 + 16 * (i % 8);

			memfrob(malloc(bytes), bytes);
		}
		_exit(rdma_get_cm_event(old, &event) ? 1 : 2);
	}
	usleep(100000);
	assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	rdma_destroy_event_channel(old);
}

/* ---- The program ---- */

static int begin(void **state)
{
	if (make_pool(state))
		return -1;
	channel = rdma_create_event_channel();
	return channel ? 0 : -1;
}

static int end(void **state)
{
	rdma_destroy_event_channel(channel);
	return remove_pool(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(listener),
		cmocka_unit_test(with_our_request),
		cmocka_unit_test(accepted_us),
		cmocka_unit_test(asked_us),
		cmocka_unit_test(connected_to_us),
		cmocka_unit_test(disconnected_from_the_dead),
		cmocka_unit_test(reads_what_was_destroyed),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
