/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Connections made and ended by one process, accepted by another.
 *
 *   connects COUNT AT_ONCE	COUNT connections of librdmacm, so many there at once. Prints, as a
 *		JSON object: ns for one, from its identifier until it is established, and from there
 *until it has ended; the same for a TCP connection until it is accepted and from there until it is
 *		closed; and what is left in either process when all have ended: descriptors,
 *mappings, and bytes of memory allocated
 *   connects serve ADDRESS	the process that accepts them, for `connects COUNT AT_ONCE ADDRESS` on another host
 */
#include "end.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP	   32u
#define TIMEOUT_MS 10000
#define PORT	   18520 /* where the two processes meet, if they are on two hosts */
#define SOCKETS	   2000u

struct left {
	long descriptors, mappings, bytes;
};

/* Between the two processes: what either reads, and writes. */
static int told, tells;
static struct sockaddr_in here; /* the server's address */

static struct rdma_event_channel *channel;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

/* ---- What a process has ---- */

static long count_lines(const char *path)
{
	FILE *f = fopen(path, "re");
	long lines = 0;
	int c;

	end_require(f, path);
	while ((c = fgetc(f)) != EOF)
		lines += c == '\n';
	fclose(f);
	return lines;
}

static long count_entries(const char *path)
{
	DIR *dir = opendir(path);
	long entries = 0;

	end_require(dir, path);
	while (readdir(dir))
		entries++;
	closedir(dir);
	return entries;
}

/* What the process has when nothing is under way any more: once its bytes of memory stay the same. */
static struct left take_stock(void)
{
	struct left left = {.bytes = -1};
	long bytes = 0;

	while (left.bytes != bytes) {
		left.bytes = bytes;
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
		bytes = (long)mallinfo2().uordblks;
	}
	left.descriptors = count_entries("/proc/self/fd");
	left.mappings = count_lines("/proc/self/maps");
	return left;
}

static void print_left(const char *who, struct left before, struct left after)
{
	printf(", \"%s\": {\"descriptors\": %ld, \"mappings\": %ld, \"bytes\": %ld}", who,
	       after.descriptors - before.descriptors, after.mappings - before.mappings,
	       after.bytes - before.bytes);
}

/* ---- Connections of librdmacm ---- */

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};

	if (!pd) {
		pd = ibv_alloc_pd(id->verbs);
		cq = pd ? ibv_create_cq(id->verbs, 16, NULL, NULL, 0) : NULL;
		end_require(cq, "ibv_create_cq");
	}
	init.send_cq = init.recv_cq = cq;
	end_require(!rdma_create_qp(id, pd, &init), "rdma_create_qp");
}

static void destroy(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	end_require(!rdma_destroy_id(id), "rdma_destroy_id");
}

static struct rdma_conn_param param = {
	.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};

/* Reads one event; returns the identifier that it is of, or destroys that if the event tells its end. */
static struct rdma_cm_id *next_event(enum rdma_cm_event_type *type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	end_require(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	id = event->id;
	*type = event->event;
	if (event->status)
		fprintf(stderr, "%s: status %d\n", rdma_event_str(event->event), event->status);
	end_require(!event->status, "an event's status");
	rdma_ack_cm_event(event);
	return id;
}

static void serve_connections(uint32_t count)
{
	enum rdma_cm_event_type type;

	while (count) {
		struct rdma_cm_id *id = next_event(&type);

		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			make_qp(id);
			end_require(!rdma_accept(id, &param), "rdma_accept");
		} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
			end_require(!rdma_disconnect(id), "rdma_disconnect");
			destroy(id);
			count--;
		}
	}
}

static void resolve(struct rdma_cm_id *id, struct sockaddr_in *addr)
{
	end_require(!rdma_resolve_addr(id, NULL, (struct sockaddr *)addr, TIMEOUT_MS),
		    "rdma_resolve_addr");
}

/* Leads identifiers on until so many have come to that event. */
static void lead(enum rdma_cm_event_type until, uint32_t count)
{
	enum rdma_cm_event_type type;

	while (count) {
		struct rdma_cm_id *id = next_event(&type);

		if (type == RDMA_CM_EVENT_ADDR_RESOLVED) {
			end_require(!rdma_resolve_route(id, TIMEOUT_MS), "rdma_resolve_route");
		} else if (type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
			make_qp(id);
			end_require(!rdma_connect(id, &param), "rdma_connect");
		}
		count -= type == until;
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct times {
	uint64_t opening_ns, ending_ns;
};

static void connect_once(struct rdma_cm_id **ids, uint32_t n, struct sockaddr_in *addr,
			 struct times *t)
{
	uint64_t begun_ns = now_ns();

	for (uint32_t i = 0; i < n; i++) {
		end_require(!rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP), "rdma_create_id");
		resolve(ids[i], addr);
	}
	lead(RDMA_CM_EVENT_ESTABLISHED, n);
	t->opening_ns += now_ns() - begun_ns;
	begun_ns = now_ns();
	for (uint32_t i = 0; i < n; i++)
		end_require(!rdma_disconnect(ids[i]), "rdma_disconnect");
	lead(RDMA_CM_EVENT_DISCONNECTED, n);
	for (uint32_t i = 0; i < n; i++)
		destroy(ids[i]);
	t->ending_ns += now_ns() - begun_ns;
}

static struct times connect_all(uint32_t count, uint32_t at_once, struct sockaddr_in *addr)
{
	struct rdma_cm_id **ids = calloc(at_once + 1ull, sizeof(struct rdma_cm_id *));
	struct times t = {0, 0};

	end_require(ids, "memory");
	for (uint32_t done = 0; done < count; done += at_once)
		connect_once(ids, count - done < at_once ? count - done : at_once, addr, &t);
	free(ids);
	return t;
}

/* ---- Of TCP, one after the other ---- */

static struct times connect_sockets(uint32_t count, struct sockaddr_in *addr)
{
	struct times t = {0, 0};
	char byte;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t begun_ns = now_ns(), open_ns;
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		end_require(!connect(fd, (struct sockaddr *)addr, sizeof(*addr)), "connect");
		end_require(read(fd, &byte, 1) == 1, "it is accepted");
		open_ns = now_ns();
		shutdown(fd, SHUT_WR);
		end_require(read(fd, &byte, 1) == 0, "it has ended");
		close(fd);
		t.opening_ns += open_ns - begun_ns;
		t.ending_ns += now_ns() - open_ns;
	}
	return t;
}

static void serve_sockets(int listener, uint32_t count)
{
	char byte = 0;

	while (count--) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		end_require(fd >= 0, "accept");
		end_require(write(fd, &byte, 1) == 1, "write");
		end_require(read(fd, &byte, 1) == 0, "the client has ended it");
		close(fd);
	}
}

/* ---- The two processes ---- */

static void tell(const void *what, size_t bytes)
{
	end_require(write(tells, what, bytes) == (ssize_t)bytes, "write to the other process");
}

static void hear(void *what, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = read(told, (char *)what + done, bytes - done);

		end_require(n > 0, "the other process has gone");
		done += (size_t)n;
	}
}

/* The server: serves so many connections, and then tells the client what it has left. */
static void serve(void)
{
	struct sockaddr_in addr = here;
	socklen_t len = sizeof(addr);
	struct rdma_cm_id *listener;
	struct left left;
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	end_require(!bind(sock, (struct sockaddr *)&addr, len) && !listen(sock, 128) &&
			    !getsockname(sock, (struct sockaddr *)&addr, &len),
		    "listen");
	tell(&addr, sizeof(addr));
	serve_sockets(sock, SOCKETS);
	close(sock);
	channel = rdma_create_event_channel();
	addr = here;
	end_require(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) &&
			    !rdma_bind_addr(listener, (struct sockaddr *)&addr) &&
			    !rdma_listen(listener, 0),
		    "rdma_listen");
	addr.sin_port = rdma_get_src_port(listener);
	tell(&addr, sizeof(addr));
	for (;;) {
		uint32_t n;

		hear(&n, sizeof(n));
		if (!n)
			return;
		serve_connections(n);
		left = take_stock();
		tell(&left, sizeof(left));
	}
}

static struct times ask(uint32_t count, uint32_t at_once, struct sockaddr_in *addr,
			struct left *server)
{
	struct times t;

	tell(&count, sizeof(count));
	t = connect_all(count, at_once, addr);
	hear(server, sizeof(*server));
	return t;
}

static void play(uint32_t count, uint32_t at_once)
{
	struct left client, client_after, server, server_after;
	struct times tcp, rdma;
	struct sockaddr_in addr;
	const uint32_t end = 0;

	hear(&addr, sizeof(addr));
	tcp = connect_sockets(SOCKETS, &addr);
	hear(&addr, sizeof(addr));
	channel = rdma_create_event_channel();
	ask(at_once > WARM_UP ? at_once : WARM_UP, at_once, &addr, &server);
	client = take_stock();
	rdma = ask(count, at_once, &addr, &server_after);
	client_after = take_stock();
	tell(&end, sizeof(end));
	printf("{\"opening_ns\": %.0f, \"ending_ns\": %.0f", (double)rdma.opening_ns / count,
	       (double)rdma.ending_ns / count);
	printf(", \"tcp_opening_ns\": %.0f, \"tcp_ending_ns\": %.0f",
	       (double)tcp.opening_ns / SOCKETS, (double)tcp.ending_ns / SOCKETS);
	print_left("client", client, client_after);
	print_left("server", server, server_after);
	puts("}");
}

static void play_with_child(uint32_t count, uint32_t at_once)
{
	int to_server[2], from_server[2];
	pid_t child;

	end_require(!pipe(to_server) && !pipe(from_server), "pipes");
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	child = fork();
	told = child ? from_server[0] : to_server[0];
	tells = child ? to_server[1] : from_server[1];
	if (!child) {
		serve();
		_exit(0);
	}
	play(count, at_once);
	waitpid(child, NULL, 0);
}

/* The server's end of a connection of TCP to the other host, or the client's. */
static int meet(bool serves)
{
	struct sockaddr_in addr = here;
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

	addr.sin_port = htons(PORT);
	if (!serves) {
		end_require(!connect(sock, (struct sockaddr *)&addr, sizeof(addr)), "connect");
		return sock;
	}
	end_require(!setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) &&
			    !bind(sock, (struct sockaddr *)&addr, sizeof(addr)) && !listen(sock, 1),
		    "listen");
	fd = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
	close(sock);
	return fd;
}

int main(int argc, char **argv)
{
	bool serves = argc == 3 && !strcmp(argv[1], "serve");
	uint32_t count = argc >= 3 ? (uint32_t)atoi(argv[1]) : 0,
		 at_once = argc >= 3 ? (uint32_t)atoi(argv[2]) : 0;

	here.sin_family = AF_INET;
	end_require(serves || (count && at_once && argc <= 4),
		    "usage: connects COUNT AT_ONCE [ADDRESS] | connects serve ADDRESS");
	if (!serves && argc == 3) {
		play_with_child(count, at_once);
		return 0;
	}
	end_require(inet_pton(AF_INET, argv[argc - 1], &here.sin_addr) == 1, "the address");
	told = tells = meet(serves);
	end_require(told >= 0, "the other host");
	if (serves)
		serve();
	else
		play(count, at_once);
	return 0;
}
