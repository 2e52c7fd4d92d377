/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How many requests a second a server with one thread and epoll answers, that sleeps when there are none: over
 * verbs, or over TCP by the same loop. One process serves; the clients are in one or more others, each with
 * `in_flight` requests of its own. Each side has a core. A client that is alone in its process waits in ibv_get_cq_event or
 * recv, as programs with one connection do; unless it is to use epoll, as the server does.
 *
 *   events WAY SERVER_CORE CLIENT_CORE CLIENTS PROCESSES IN_FLIGHT BYTES SECONDS [REQUESTS [epoll]]
 *
 * WAY: verbs; helper, the same where pidfd_getfd is refused; tcp; gathered. Prints JSON: requests, per_s, one_way_us,
 * server (its process).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "events.h"

#define EVENTS 64
#define WARM_UP                                                                                    \
	16 /* a share of one in so many of the seconds, or requests, comes before what is measured */
#define PATIENCE_S 60u /* with a server that may have gone, beyond the seconds */

static const struct way *way;
static struct options options;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	end_require(!sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity");
}

/* ---- Connections ---- */

static struct conn *conns_of(uint32_t count, bool alone)
{
	struct conn *conns = calloc(count, sizeof(*conns));
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	end_require(conns && epoll >= 0, "memory");
	for (uint32_t i = 0; i < count; i++) {
		conns[i].options = &options;
		conns[i].epoll = epoll;
		conns[i].alone = alone;
	}
	way->open(&options, count);
	return conns;
}

static void add(struct conn *c, uint32_t index, void (*message)(struct conn *c, uint64_t number))
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
	int one = 1, fd;

	setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->message = message;
	fd = way->connect(c, index);
	if (c->alone)
		return;
	end_require(!epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
	/* NULL stands for the TCP socket by which the two met: it can be read when the other end has gone */
	event.data.ptr = NULL;
	if (fd != c->socket)
		end_require(!epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->socket, &event), "epoll_ctl");
}

/* Until so many connections have ended, or the condition holds. */
static void serve(int epoll, uint32_t left, bool (*done)(const struct conn *conns),
		  struct conn *conns)
{
	struct epoll_event event[EVENTS];

	while (left && !(done && done(conns))) {
		int n = epoll_wait(epoll, event, EVENTS, -1);

		end_require(n > 0 || errno == EINTR, "epoll_wait");
		for (int i = 0; i < n; i++) {
			struct conn *c = event[i].data.ptr;

			if (c && way->ready(c, event[i].events))
				continue;
			/* one connection has ended: all do, as clients end together */
			left = 0;
		}
	}
}

/* ---- The server ---- */

static void answer(struct conn *c, uint64_t number)
{
	way->send(c, number);
}

static void run_server(int listener)
{
	struct conn *conns;

	pin(options.server_core);
	conns = conns_of(options.clients, false);
	for (uint32_t i = 0; i < options.clients; i++) {
		conns[i].socket = accept(listener, NULL, NULL);
		end_require(conns[i].socket >= 0, "accept");
		add(&conns[i], i, answer);
	}
	serve(conns->epoll, options.clients, NULL, NULL);
	_exit(0);
}

/* ---- Clients ---- */

static struct {
	uint32_t conns;
	uint64_t begun, answered, limit; /* requests; limit: 0, or how many there are to be */
	double until;
	bool stops;
} client;

static void request(struct conn *c)
{
	client.begun++;
	way->send(c, c->sent + 1);
}

static void take_answer(struct conn *c, uint64_t number)
{
	end_require(number == ++c->answered, "answers come in order");
	client.answered++;
	/* a look at the clock costs much beside an answer */
	if (client.limit ? client.begun >= client.limit
			 : client.answered % 16 == 0 && now() > client.until)
		client.stops = true;
	if (!client.stops)
		request(c);
}

static bool all_answered(const struct conn *conns)
{
	return client.stops && client.answered == client.begun;
}

/* A server that has gone does not end the wait for an event: the alarm does. */
static void await_all_answers(struct conn *c)
{
	alarm(PATIENCE_S + (unsigned int)options.seconds);
	while (!all_answered(c) && way->ready(c, EPOLLIN))
		;
	alarm(0);
}

static void begin(struct conn *conns, uint64_t limit, double seconds)
{
	client.begun = client.answered = 0;
	client.limit = limit;
	client.until = now() + seconds;
	client.stops = false;
	for (uint32_t i = 0; i < client.conns; i++) {
		for (uint32_t k = 0; k < options.in_flight; k++)
			request(&conns[i]);
		way->flush(&conns[i]);
	}
	if (conns->alone)
		await_all_answers(conns);
	else
		serve(conns->epoll, UINT32_MAX, all_answered, conns);
	end_require(all_answered(conns), "the server is there to the end");
}

static void meet(struct conn *c, const struct sockaddr_in *at)
{
	c->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	end_require(c->socket >= 0 && !connect(c->socket, (const struct sockaddr *)at, sizeof(*at)),
		    "connect");
}

/* `told` is a socket to the parent, which says when all are ready; the result goes there. */
static void run_client(uint32_t count, const struct sockaddr_in *at, int told)
{
	double result[2], from;
	struct conn *conns;
	char byte;

	pin(options.client_core);
	client.conns = count;
	conns = conns_of(count, count == 1 && !options.epoll);
	for (uint32_t i = 0; i < count; i++) {
		meet(&conns[i], at);
		add(&conns[i], i, take_answer);
	}
	end_require(write(told, "r", 1) == 1 && read(told, &byte, 1) == 1, "all are ready");
	begin(conns, options.requests / options.processes / WARM_UP, options.seconds / WARM_UP);
	from = now();
	begin(conns, options.requests / options.processes, options.seconds);
	result[0] = (double)client.answered;
	result[1] = now() - from;
	end_require(write(told, result, sizeof(result)) == sizeof(result), "write of the result");
	/* until all have theirs */
	end_require(read(told, &byte, 1) == 1, "the end");
	_exit(0);
}

/* ---- All of them ---- */

static pid_t start(void)
{
	pid_t parent = getpid(), child = fork();

	end_require(child >= 0, "fork");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	return 0;
}

static void tell_all(const int *client_of)
{
	for (uint32_t i = 0; i < options.processes; i++)
		end_require(write(client_of[i], "g", 1) == 1, "write to a client");
}

static int listen_anywhere(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*at = (struct sockaddr_in){.sin_family = AF_INET};
	at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	end_require(fd >= 0 && !bind(fd, (struct sockaddr *)at, len) && !listen(fd, 1024) &&
			    !getsockname(fd, (struct sockaddr *)at, &len),
		    "listen");
	return fd;
}

static void run(void)
{
	int *client_of = calloc(options.processes, sizeof(*client_of)), status, listener;
	double all = 0, per_s = 0, result[2];
	struct sockaddr_in at;
	pid_t server;
	char byte;

	listener = listen_anywhere(&at);
	server = start();
	if (!server)
		run_server(listener);
	for (uint32_t i = 0; i < options.processes; i++) {
		int pair[2];

		end_require(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
		if (!start())
			run_client(options.clients * (i + 1) / options.processes -
					   options.clients * i / options.processes,
				   &at, pair[1]);
		close(pair[1]);
		client_of[i] = pair[0];
	}
	for (uint32_t i = 0; i < options.processes; i++)
		end_require(read(client_of[i], &byte, 1) == 1, "a client is ready");
	tell_all(client_of);
	for (uint32_t i = 0; i < options.processes; i++) {
		end_require(read(client_of[i], result, sizeof(result)) == sizeof(result),
			    "a client's result");
		all += result[0];
		per_s += result[0] / result[1];
	}
	tell_all(client_of);
	free(client_of);
	while (wait(&status) > 0)
		end_require(!status, "a process has failed");
	printf("{\"requests\": %.0f, \"per_s\": %.1f, \"one_way_us\": %.3f, \"server\": %d}\n", all,
	       per_s, 5e5 / per_s, server);
}

static uint32_t number(const char *word)
{
	unsigned long n = strtoul(word, NULL, 10);

	end_require(n <= UINT32_MAX, "a number");
	return (uint32_t)n;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	options.gather = !strcmp(name, "gathered");
	options.refuse = !strcmp(name, "helper");
	way = !strcmp(name, "verbs") || options.refuse ? &verbs : &tcp;
	if (argc < 9 || (way == &tcp && !options.gather && strcmp(name, "tcp") != 0)) {
		fprintf(stderr,
			"usage: events verbs|helper|tcp|gathered SERVER_CORE CLIENT_CORE CLIENTS "
			"PROCESSES IN_FLIGHT BYTES SECONDS [REQUESTS [epoll]]\n");
		return 2;
	}
	options.server_core = (int)number(argv[2]);
	options.client_core = (int)number(argv[3]);
	options.clients = number(argv[4]);
	options.processes = number(argv[5]);
	options.in_flight = number(argv[6]);
	options.bytes = number(argv[7]);
	options.seconds = strtod(argv[8], NULL);
	options.requests = argc > 9 ? strtoull(argv[9], NULL, 10) : 0;
	options.epoll = argc > 10 && !strcmp(argv[10], "epoll");
	end_require(options.clients && options.processes && options.processes <= options.clients &&
			    options.in_flight && options.in_flight <= END_DEPTH / 2 &&
			    options.bytes >= sizeof(uint64_t),
		    "numbers that make sense");
	if (options.refuse)
		end_refuse_pidfd_getfd();
	run();
	return 0;
}
