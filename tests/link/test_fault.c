/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Injected faults over loopback: how often each befalls numbered datagrams, and that the seed decides
 * which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>

#include "link/fault.h"

#define COUNT 4000u
#define BYTES 64u

/* What has become of the datagrams. */
struct fate {
	uint32_t came[COUNT];
	uint32_t wrong, furthest, total;
	uint64_t order; /* a hash of all that came, in their order */
};

static struct weft_udp *open_local(void)
{
	struct weft_udp_config config = {.buffer_bytes = 4 << 20};
	struct weft_udp *udp = NULL;

	memcpy(config.address, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16);
	assert_int_equal(weft_udp_open(&config, &udp), 0);
	return udp;
}

static void take(struct weft_udp *udp, struct fate *fate, uint32_t sent)
{
	struct weft_udp_datagram d;

	while (weft_udp_receive(udp) == 1)
		while (weft_udp_next(udp, &d)) {
			uint32_t words[BYTES / 4], i;

			assert_int_equal(d.bytes, BYTES);
			memcpy(words, d.at, BYTES);
			fate->total++;
			fate->order = (fate->order ^ words[0]) * 1099511628211ull;
			for (i = 1; i < BYTES / 4 && words[i] == words[0]; i++)
				;
			if (i < BYTES / 4) {
				fate->wrong++;
				continue;
			}
			assert_true(words[0] < COUNT);
			fate->came[words[0]]++;
			if (sent - words[0] > fate->furthest)
				fate->furthest = sent - words[0];
		}
}

static struct weft_fault_counters play(const struct weft_fault_config *config, struct fate *fate)
{
	struct weft_udp *a = open_local(), *b = open_local();
	struct weft_fault *fault = weft_fault_open(config);
	struct weft_fault_counters counters;

	memset(fate, 0, sizeof(*fate));
	for (uint32_t i = 0; i < COUNT; i++) {
		uint32_t words[BYTES / 4];
		const struct iovec pieces[] = {{words, 20}, {words, BYTES - 20}};
		struct weft_udp_message m = {
			.port = weft_udp_port(b), .pieces = pieces, .count = 2};

		for (uint32_t w = 0; w < BYTES / 4; w++)
			words[w] = i;
		memcpy(m.to, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16);
		assert_int_equal(weft_fault_send(fault, a, &m, 1), 1);
		take(b, fate, i);
	}
	weft_fault_flush(fault, a);
	take(b, fate, COUNT - 1);
	counters = weft_fault_counters(fault);
	weft_fault_close(fault);
	weft_udp_close(a);
	weft_udp_close(b);
	return counters;
}

static uint32_t how_many(const struct fate *fate, uint32_t times)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < COUNT; i++)
		n += fate->came[i] == times;
	return n;
}

static void none(void **state)
{
	const struct weft_fault_config config = {.seed = 1};
	static struct fate fate;

	play(&config, &fate);
	assert_int_equal(how_many(&fate, 1), COUNT);
	assert_int_equal(fate.furthest, 0);
}

/* A tenth of the datagrams has each fault, within five standard deviations of 4,000 tries. */
static void each(void **state)
{
	static struct fate fate;
	struct weft_fault_counters c;

	c = play(&(struct weft_fault_config){.seed = 2, .lost = 6554}, &fate);
	assert_in_range(c.lost, 300, 500);
	assert_int_equal(how_many(&fate, 0), c.lost);
	c = play(&(struct weft_fault_config){.seed = 3, .doubled = 6554}, &fate);
	assert_in_range(c.doubled, 300, 500);
	assert_int_equal(how_many(&fate, 2), c.doubled);
	c = play(&(struct weft_fault_config){.seed = 4, .corrupted = 6554}, &fate);
	assert_in_range(c.corrupted, 300, 500);
	assert_int_equal(fate.wrong, c.corrupted);
	c = play(&(struct weft_fault_config){.seed = 5, .late = 6554}, &fate);
	assert_in_range(c.late, 300, 500);
	assert_int_equal(how_many(&fate, 1), COUNT);
	/* a late datagram waits for so many others, and those that are late as well do not count */
	assert_in_range(fate.furthest, 50, 2 * WEFT_FAULT_LATE);
}

static void by_seed(void **state)
{
	struct weft_fault_config config = {
		.seed = 6, .lost = 3000, .doubled = 3000, .late = 9000, .corrupted = 3000};
	static struct fate first, second, third;

	play(&config, &first);
	play(&config, &second);
	config.seed++;
	play(&config, &third);
	assert_memory_equal(&first, &second, sizeof(first));
	assert_memory_not_equal(&first, &third, sizeof(first));
}

static void refused(void **state)
{
	static uint8_t bytes[WEFT_FAULT_BYTES + 1];
	struct weft_fault *fault = weft_fault_open(&(struct weft_fault_config){0});
	struct weft_udp *a = open_local();
	struct iovec piece = {bytes, sizeof(bytes)};
	struct weft_udp_message m[2] = {{.port = weft_udp_port(a), .pieces = &piece, .count = 1}};

	memcpy(m[0].to, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16);
	m[1] = m[0];
	assert_int_equal(weft_fault_send(fault, a, m, 1), -EMSGSIZE);
	piece.iov_len = 10;
	m[1].segment_bytes = 5;
	assert_int_equal(weft_fault_send(fault, a, m, 2), 1);
	assert_int_equal(weft_fault_send(fault, a, m + 1, 1), -EINVAL);
	m[0].to[10] = 0;
	assert_int_equal(weft_fault_send(fault, a, m, 1), -EINVAL);
	weft_udp_close(a);
	weft_fault_close(fault);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none),
		cmocka_unit_test(each),
		cmocka_unit_test(by_seed),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
