/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Cables of UDP: what one end sends comes once and in order at the other, or not at all. Between them is a network of the
 * test's own, which loses, doubles, reorders, keeps and changes datagrams.
 */
#include "../ape/cmocka_all.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../random.h"
#include "link/cable_udp.h"
#include "link/udp.h"

#define QUADS  2u
#define ROUNDS 3000u
#define MOST   200u /* beats a call */
#define WINDOW 8u   /* datagrams that the network holds back */
#define HELLOS 3u

static const uint8_t host[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
static struct weft_cable_udp a, b;
static int wire; /* a's other end, as a sees it */
static uint64_t seed = 1;

static uint64_t draw(uint64_t below)
{
	return splitmix64(&seed) % below;
}

static int open_wire(uint16_t *port)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t bytes = sizeof(name);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&name, bytes), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &bytes), 0);
	*port = ntohs(name.sin_port);
	return fd;
}

static void hand_on(const uint8_t *bytes, size_t count)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
				   .sin_addr = {htonl(INADDR_LOOPBACK)},
				   .sin_port = htons(weft_udp_port(b.udp))};

	assert_int_equal(sendto(wire, bytes, count, 0, (struct sockaddr *)&name, sizeof(name)),
			 count);
}

static void open_end(struct weft_cable_udp *u, uint64_t out, uint64_t in)
{
	assert_int_equal(weft_cable_udp_open(u, host, 0, QUADS), 0);
	u->cookie_out = out;
	u->cookie_in = in;
	memcpy(u->to, host, sizeof(host));
}

/* b's answers go straight to a. */
static int begin(void **state)
{
	uint16_t port;

	open_end(&a, 11, 22);
	open_end(&b, 22, 11);
	wire = open_wire(&port);
	a.to_port = port;
	b.to_port = weft_udp_port(a.udp);
	return 0;
}

static int end(void **state)
{
	weft_cable_udp_close(&a);
	weft_cable_udp_close(&b);
	return close(wire);
}

static void drain(struct weft_cable_udp *u)
{
	bool more = true;

	while (more)
		weft_cable_udp_receive(u, &more);
}

static size_t from_wire(uint8_t bytes[2048])
{
	ssize_t count = recv(wire, bytes, 2048, 0);

	return count < 0 ? 0 : (size_t)count;
}

/* Until each has heard the other. */
static void meet(void)
{
	const uint64_t beat[QUADS] = {0};
	uint8_t bytes[2048];
	size_t count;

	for (unsigned int i = 0; i < HELLOS; i++) {
		weft_cable_udp_send(&a, beat, 1);
		while ((count = from_wire(bytes)))
			hand_on(bytes, count);
		drain(&b);
		weft_cable_udp_send(&b, beat, 1);
		drain(&a);
	}
	assert_true(a.other == b.life && b.other == a.life);
}

static uint64_t sent, last_seen, taken;

/* Each beat is its number and the number's opposite. */
static void send_some(void)
{
	uint64_t quad[MOST * QUADS];
	uint32_t beats = (uint32_t)draw(MOST) + 1;

	for (uint32_t i = 0; i < beats; i++) {
		quad[i * QUADS] = ++sent;
		quad[i * QUADS + 1] = ~sent;
	}
	weft_cable_udp_send(&a, quad, beats);
}

static void take_some(void)
{
	bool more = true;

	while (more) {
		uint32_t beats = weft_cable_udp_receive(&b, &more);

		for (uint32_t i = 0; i < beats; i++, taken++) {
			assert_true(b.beats[i * QUADS] > last_seen);
			assert_int_equal(b.beats[i * QUADS + 1], ~b.beats[i * QUADS]);
			last_seen = b.beats[i * QUADS];
		}
	}
}

static void test_whole(void **state)
{
	uint8_t bytes[2048];
	size_t count;

	sent = last_seen = taken = 0;
	meet();
	for (unsigned int i = 0; i < ROUNDS / 10; i++) {
		send_some();
		while ((count = from_wire(bytes)))
			hand_on(bytes, count);
		take_some();
	}
	assert_int_equal(taken, sent);
	assert_int_equal(b.foreign + b.old, 0);
}

static void test_bad_network(void **state)
{
	static uint8_t kept[WINDOW][2048];
	size_t bytes[WINDOW] = {0};
	uint64_t stale;

	sent = last_seen = taken = 0;
	meet();
	stale = b.stale;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int place = (unsigned int)draw(WINDOW);

		send_some();
		/* one goes on that came earlier, or nothing, or twice; the next takes its place */
		for (uint64_t times = draw(3); times && bytes[place]; times--)
			hand_on(kept[place], bytes[place]);
		bytes[place] = from_wire(kept[place]);
		if (bytes[place] && !draw(10)) {
			kept[place][draw(8)] ^= 1 << draw(8); /* another's cookie */
			hand_on(kept[place], bytes[place]);
		}
		if (!draw(20))
			hand_on(kept[place], draw(50));
		take_some();
	}
	assert_true(taken > sent / 20 && taken < sent);
	assert_true(b.old > 100 && b.foreign > 100);
	assert_int_equal(b.stale, stale);
}

/* All but the first of those kept come again, and are counted as stale. */
static void none_is_taken(uint8_t kept[][2048], const size_t *bytes, unsigned int count)
{
	uint64_t before = b.stale;

	for (unsigned int i = 1; i < count; i++)
		hand_on(kept[i], bytes[i]);
	take_some();
	assert_int_equal(taken, 0);
	assert_int_equal(b.stale - before, count - 1);
}

/* Recorded, and sent again to an end that began anew, or from the life before. */
static void test_replayed(void **state)
{
	static uint8_t kept[64][2048];
	size_t bytes[64];
	unsigned int count = 0;

	sent = last_seen = taken = 0;
	meet();
	for (; count < 64; count++) {
		send_some();
		bytes[count] = from_wire(kept[count]);
		assert_true(bytes[count]);
		while (count % 2 && from_wire(kept[0]))
			; /* the rest is lost */
	}
	b.life++;
	none_is_taken(kept, bytes, count);
	/* now the other end is another, too; b goes on with it, and what the first one sent is old for ever */
	b.life--;
	a.life++;
	a.other = a.number = 0;
	meet();
	none_is_taken(kept, bytes, count);
	assert_int_equal(b.other, a.life);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_whole, begin, end),
		cmocka_unit_test_setup_teardown(test_bad_network, begin, end),
		cmocka_unit_test_setup_teardown(test_replayed, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
