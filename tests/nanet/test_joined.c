/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Datagrams that the kernel has joined, out of a UDP socket. */
#include <netinet/udp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "live.h"

/* They lie each in a place of its own. */
static void udp_joined(void **state)
{
	const struct weft_stream_list list = {
		.buffers = 4, .bytes = 64 * 1536, .slots = 64, .slot_bytes = 1536};
	uint8_t data[40 * 1000];
	struct weft_stream_event event;
	uint32_t number = 0, checked = 0;
	int segment = 1000;

	begin(&udp, &list);
	assert_return_code(setsockopt(udp.fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)),
			   errno);
	while (checked < 64 * 40) {
		for (; number < checked + 200; number += 40) {
			for (uint32_t i = 0; i < 40; i++) {
				uint32_t n = number + i;

				memset(data + i * 1000, (uint8_t)(n * 3), 1000);
				memcpy(data + i * 1000 + 4, &n, 4);
			}
			assert_int_equal(send(udp.fd, data, sizeof(data), 0), sizeof(data));
		}
		next_event(&event);
		for (uint32_t i = 0; i < event.datagrams; i++, checked++) {
			const struct weft_stream_datagram *d =
				&weft_stream_datagrams(stream, 0, event.buffer)[i];
			const uint8_t *at = memory + (size_t)event.buffer * list.bytes + d->offset;

			assert_int_equal(d->number, checked);
			assert_int_equal(d->bytes, 1000);
			assert_int_equal(at[0], (uint8_t)(checked * 3));
			assert_int_equal(at[999], (uint8_t)(checked * 3));
		}
		give_back(&event);
	}
	/* at first the receiver does not know how long joined datagrams are, and with each buffer it begins anew */
	assert_true(counters_when(64 * 40).calls < 400);
	end(&udp);
}

/* A message of numbers from `number` on, `bytes` each; twice: one of them comes once more. Returns how many numbers. */
static uint32_t send_joined(const struct way *way, uint32_t number, uint32_t count, uint32_t bytes,
			    bool twice)
{
	uint8_t data[44 * 1000];
	int segment = (int)bytes;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t n = number + i - (twice && i > count / 2);

		memset(data + (size_t)i * bytes, (uint8_t)(n * 3), bytes);
		memcpy(data + (size_t)i * bytes + 4, &n, 4);
	}
	assert_return_code(setsockopt(way->fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)),
			   errno);
	assert_int_equal(send(way->fd, data, (size_t)count * bytes, 0), count * bytes);
	return count - (twice && count > 2);
}

/* They lie behind each other in packed buffers, whatever ends a buffer, and though some come twice or
 * are of another length. Returns the bytes that were copied. */
static uint64_t joined_behind(struct way *way, const struct weft_stream_list *list, bool turned)
{
	uint32_t number = 0, sent = 0, checked = 0, length[4096];
	struct weft_stream_event event;
	uint64_t copied;

	begin(way, list);
	for (uint32_t message = 0; checked < number || message < 60; message++) {
		uint32_t count = turned ? 1 + message * 7 % 44 : 40;
		uint32_t bytes = turned && message % 5 == 4 ? 600 : 1000, more = 0;

		if (message < 60) {
			more = send_joined(way, number, count, bytes, turned && message % 3 == 1);
			sent += count;
		} else {
			weft_stream_flush(stream, 0);
		}
		for (uint32_t i = 0; i < more; i++)
			length[number++] = bytes;
		counters_when(sent);
		while (!weft_stream_wait(stream, &event, message < 60 ? 0 : 100)) {
			const uint8_t *at = memory + (size_t)event.buffer * list->bytes;
			const uint8_t *end = at + event.bytes;

			for (uint32_t i = 0; i < event.datagrams; i++, checked++) {
				uint32_t had;

				memcpy(&had, at + 4, 4);
				assert_int_equal(had, checked);
				assert_int_equal(at[0], (uint8_t)(checked * 3));
				assert_int_equal(at[length[checked] - 1], (uint8_t)(checked * 3));
				at += length[checked];
			}
			assert_ptr_equal(at, end);
			give_back(&event);
		}
	}
	copied = counters_when(sent).copied;
	end(way);
	return copied;
}

static void udp_joined_behind(void **state)
{
	struct weft_stream_list list = {.buffers = 4, .bytes = 100 * 1000 + 500};

	/* but for the first message, from which it is learnt how long they are */
	assert_true(joined_behind(&udp, &list, false) <= 40 * 1000);
	joined_behind(&udp, &list, true);
	list.datagrams =
		25; /* a message goes into several buffers, and ends none of them as expected */
	joined_behind(&udp, &list, false);
	joined_behind(&udp, &list, true);
	list.bytes = 45 * 1000; /* nor does what is left of a buffer hold a message */
	list.datagrams = 37;
	joined_behind(&udp, &list, true);
}

/* The ring of packets has each message in one piece, and says of how many bytes its datagrams are. */
static void packet_joined(void **state)
{
	const struct weft_stream_list list = {.buffers = 4, .bytes = 100 * 1000 + 500};

	if (!may_open_packets())
		skip();
	joined_behind(&packet, &list, true);
}

static int name_ways(void **state)
{
	udp_name(&udp);
	packet_name(&packet);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(udp_joined),
		cmocka_unit_test(udp_joined_behind),
		cmocka_unit_test(packet_joined),
	};

	return cmocka_run_group_tests(tests, name_ways, NULL);
}
