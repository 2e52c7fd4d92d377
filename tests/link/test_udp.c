/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Datagrams over loopback and between two network namespaces: they arrive with their addresses, traffic class
 * and hop limit; and the identifications that a capture sees.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/udp.h"
#include "spaces.h"

#define BYTES 1000u

static const char *no_spaces;
static uint8_t filling[200000];

static void to_address(const char *text, uint8_t address[16])
{
	memset(address, 0, 16);
	if (inet_pton(AF_INET, text, address + 12) == 1)
		address[10] = address[11] = 0xff;
	else
		assert_int_equal(inet_pton(AF_INET6, text, address), 1);
}

static int open_at(const char *text, uint16_t port, const char *interface, struct weft_udp **udp)
{
	struct weft_udp_config config = {.port = port,
					 .interface = interface ? if_nametoindex(interface) : 0,
					 .buffer_bytes = 1 << 20};

	to_address(text, config.address);
	return weft_udp_open(&config, udp);
}

static struct weft_udp *must_open(const char *text, uint16_t port, const char *interface)
{
	struct weft_udp *udp = NULL;

	assert_int_equal(open_at(text, port, interface, &udp), 0);
	return udp;
}

static int send_to(struct weft_udp *from, const char *text, const struct weft_udp *to, size_t bytes,
		   uint32_t segment_bytes)
{
	const struct iovec pieces[] = {{filling, bytes / 3},
				       {filling + bytes / 3, bytes - bytes / 3}};
	struct weft_udp_message m = {
		.port = weft_udp_port(to),
		.interface = strncmp(text, "fe80", 4) && strncmp(text, "ff", 2) &&
					     strncmp(text, "239", 3)
				     ? 0
				     : if_nametoindex("w0"),
		.traffic_class = 0x68,
		.hop_limit = 33,
		.segment_bytes = segment_bytes,
		.pieces = pieces,
		.count = 2,
	};

	to_address(text, m.to);
	return weft_udp_send(from, &m, 1);
}

/* The next datagram that comes within a second. False: none came. */
static bool receive(struct weft_udp *udp, struct weft_udp_datagram *d)
{
	struct pollfd wait = {weft_udp_fd(udp), POLLIN, 0};

	if (weft_udp_next(udp, d))
		return true;
	poll(&wait, 1, 1000);
	assert_true(weft_udp_receive(udp) >= 0);
	return weft_udp_next(udp, d);
}

/* Sends one datagram, of the first bytes of `filling`, and checks what arrives. */
static void check_one(struct weft_udp *from, const char *from_text, struct weft_udp *to,
		      const char *to_text)
{
	struct weft_udp_datagram d;
	uint8_t address[16];

	assert_int_equal(send_to(from, to_text, to, BYTES, 0), 1);
	assert_true(receive(to, &d));
	to_address(from_text, address);
	assert_memory_equal(d.from, address, 16);
	to_address(to_text, address);
	assert_memory_equal(d.to, address, 16);
	assert_int_equal(d.from_port, weft_udp_port(from));
	assert_int_equal(d.to_port, weft_udp_port(to));
	assert_int_equal(d.traffic_class, 0x68);
	assert_int_equal(d.hop_limit, 33);
	assert_int_equal(d.segment, 0);
	assert_int_equal(d.bytes, BYTES);
	assert_memory_equal(d.at, filling, BYTES);
	assert_false(weft_udp_next(to, &d));
	assert_int_equal(weft_udp_receive(to), 0);
}

static void loopback(void **state)
{
	static const char *const addresses[] = {"127.0.0.1", "::1"};

	for (int i = 0; i < 2; i++) {
		struct weft_udp *a = must_open(addresses[i], 0, NULL),
				*b = must_open(addresses[i], 0, NULL);

		check_one(a, addresses[i], b, addresses[i]);
		check_one(b, addresses[i], a, addresses[i]);
		weft_udp_close(a);
		weft_udp_close(b);
	}
}

/* A message that the kernel cuts arrives as its datagrams, each with its offset. */
static void cut(void **state)
{
	struct weft_udp *a = must_open("127.0.0.1", 0, NULL), *b = must_open("127.0.0.1", 0, NULL);
	struct weft_udp_datagram d;

	assert_int_equal(send_to(a, "127.0.0.1", b, 20 * BYTES + 7, BYTES), 1);
	for (uint32_t i = 0; i < 21; i++) {
		assert_true(receive(b, &d));
		assert_int_equal(d.segment, i);
		assert_int_equal(d.bytes, i < 20 ? BYTES : 7);
		assert_memory_equal(d.at, filling + i * BYTES, d.bytes);
	}
	assert_false(weft_udp_next(b, &d));
	weft_udp_close(a);
	weft_udp_close(b);
}

/* More datagrams than one system call takes. */
static void many(void **state)
{
	struct weft_udp *a = must_open("127.0.0.1", 0, NULL), *b = must_open("127.0.0.1", 0, NULL);
	struct weft_udp_message messages[50];
	struct iovec pieces[50];
	struct weft_udp_datagram d;

	for (uint32_t i = 0; i < 50; i++) {
		pieces[i] = (struct iovec){filling + i, 100 + i};
		messages[i] = (struct weft_udp_message){
			.port = weft_udp_port(b), .pieces = &pieces[i], .count = 1};
		to_address("127.0.0.1", messages[i].to);
	}
	assert_int_equal(weft_udp_send(a, messages, 50), 50);
	for (uint32_t i = 0; i < 50; i++) {
		assert_true(receive(b, &d));
		assert_int_equal(d.bytes, 100 + i);
		assert_memory_equal(d.at, filling + i, d.bytes);
	}
	/* a batch ends before a datagram of the other version of IP */
	to_address("::1", messages[20].to);
	assert_int_equal(weft_udp_send(a, messages, 50), 20);
	assert_int_equal(weft_udp_send(a, messages + 20, 30), -EINVAL);
	weft_udp_close(a);
	weft_udp_close(b);
}

static void errors(void **state)
{
	struct weft_udp *a = must_open("127.0.0.1", 0, NULL), *b;

	assert_int_equal(open_at("127.0.0.1", weft_udp_port(a), NULL, &b), -EADDRINUSE);
	assert_int_equal(open_at("198.51.100.9", 0, NULL, &b), -EADDRNOTAVAIL);
	assert_int_equal(open_at("2001:db8:77::9", 0, NULL, &b), -EADDRNOTAVAIL);
	assert_int_equal(send_to(a, "::1", a, BYTES, 0), -EINVAL);
	assert_int_equal(send_to(a, "127.0.0.1", a, 70000, 0), -EMSGSIZE);
	assert_int_equal(send_to(a, "127.0.0.1", a, 40000, 10), -EMSGSIZE);
	weft_udp_close(a);
}

/* rxe sends no UDP checksum, over IPv6 neither. */
static void no_checksum(void **state)
{
	struct weft_udp *a = must_open("::1", 0, NULL);
	struct sockaddr_in6 name = {.sin6_family = AF_INET6,
				    .sin6_port = htons(weft_udp_port(a)),
				    .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	struct weft_udp_datagram d;

	assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, &(int){1}, sizeof(int)), 0);
	assert_int_equal(sendto(fd, filling, 77, 0, (struct sockaddr *)&name, sizeof(name)), 77);
	assert_true(receive(a, &d));
	assert_int_equal(d.bytes, 77);
	close(fd);
	weft_udp_close(a);
}

/* ---- Between namespaces ---- */

static void need_spaces(void)
{
	if (no_spaces) {
		print_message("skipped: %s\n", no_spaces);
		skip();
	}
}

static void across(void **state)
{
	static const char *const addresses[][2] = {
		{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8::2"}, {"fe80::1", "fe80::2"}};

	need_spaces();
	for (int i = 0; i < 3; i++) {
		struct weft_udp *a = must_open(addresses[i][0], 4791, "w0"), *b, *port;

		/* another source port, on the same address */
		port = must_open(addresses[i][0], (uint16_t)(0xc000 + i), "w0");
		spaces_enter(1);
		b = must_open(addresses[i][1], 4791, "w1");
		spaces_enter(0);
		check_one(a, addresses[i][0], b, addresses[i][1]);
		check_one(port, addresses[i][0], b, addresses[i][1]);
		assert_int_equal(send_to(a, addresses[i][1], b, 9000, 0), -EMSGSIZE);
		weft_udp_close(a);
		weft_udp_close(b);
		weft_udp_close(port);
	}
}

static void groups(void **state)
{
	static const char *const addresses[][3] = {{"192.0.2.1", "192.0.2.2", "239.1.2.3"},
						   {"2001:db8::1", "2001:db8::2", "ff12::77"}};

	need_spaces();
	for (int i = 0; i < 2; i++) {
		struct weft_udp *a = must_open(addresses[i][0], 4791, "w0"), *b, *group;
		struct weft_udp_datagram d;

		spaces_enter(1);
		b = must_open(addresses[i][1], 4791, "w1");
		group = must_open(addresses[i][2], 4791, "w1");
		spaces_enter(0);
		check_one(a, addresses[i][0], group, addresses[i][2]);
		assert_int_equal(weft_udp_receive(b), 0);
		assert_int_equal(send_to(a, addresses[i][1], b, 5, 0), 1);
		assert_true(receive(b, &d));
		assert_int_equal(weft_udp_receive(group), 0);
		weft_udp_close(a);
		weft_udp_close(b);
		weft_udp_close(group);
	}
}

/* The identification of the next packet of UDP over IPv4 that comes to w1. */
static int next_id(int fd)
{
	uint8_t at[2000];

	for (;;) {
		struct pollfd wait = {fd, POLLIN, 0};

		assert_int_equal(poll(&wait, 1, 1000), 1);
		if (recv(fd, at, sizeof(at), 0) > 28 && at[0] == 0x45 && at[9] == 17)
			return at[4] << 8 | at[5];
	}
}

/* The ICRC covers the identification: it is 0; of a message that the kernel cuts it is the datagram's
 * place. */
static void identifications(void **state)
{
	struct sockaddr_ll name = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
	struct weft_udp *a, *b;
	int fd;

	need_spaces();
	assert_int_equal(system("ip link set w0 gso_max_segs 1"), 0);
	a = must_open("192.0.2.1", 4791, NULL);
	spaces_enter(1);
	b = must_open("192.0.2.2", 4791, NULL);
	fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP));
	name.sll_ifindex = (int)if_nametoindex("w1");
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	spaces_enter(0);
	for (int round = 0; round < 3; round++) {
		assert_int_equal(send_to(a, "192.0.2.2", b, BYTES, 0), 1);
		assert_int_equal(next_id(fd), 0);
		assert_int_equal(send_to(a, "192.0.2.2", b, 5 * BYTES, BYTES), 1);
		for (int i = 0; i < 5; i++)
			assert_int_equal(next_id(fd), i);
	}
	close(fd);
	weft_udp_close(a);
	weft_udp_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loopback),    cmocka_unit_test(cut),
		cmocka_unit_test(many),	       cmocka_unit_test(errors),
		cmocka_unit_test(no_checksum), cmocka_unit_test(across),
		cmocka_unit_test(groups),      cmocka_unit_test(identifications),
	};
	int failed;

	for (uint32_t i = 0; i < sizeof(filling); i++)
		filling[i] = (uint8_t)(i * 7 + (i >> 8));
	no_spaces = spaces_make();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	spaces_end();
	return failed;
}
