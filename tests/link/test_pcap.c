/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Captures and the frames in them: packets that are written can be read, in either byte order and any
 * resolution; a file that is cut or damaged is refused, wherever that is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../random.h"
#include "link/frame.h"
#include "link/pcap.h"

#define ROOM 65536u

static char path[] = "/dev/shm/weft-pcap-XXXXXX";
static uint8_t file[ROOM];
static size_t file_bytes;

static void save(size_t bytes)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(file, 1, bytes, f), bytes);
	assert_int_equal(fclose(f), 0);
}

static void load(void)
{
	FILE *f = fopen(path, "rb");

	assert_non_null(f);
	file_bytes = fread(file, 1, ROOM, f);
	assert_int_equal(fclose(f), 0);
}

static void put(const void *bytes, size_t count)
{
	assert_true(file_bytes + count <= ROOM);
	memcpy(file + file_bytes, bytes, count);
	file_bytes += count;
}

static void put32(bool swapped, uint32_t value)
{
	value = swapped ? __builtin_bswap32(value) : value;
	put(&value, 4);
}

static void put16(bool swapped, uint16_t value)
{
	value = swapped ? __builtin_bswap16(value) : value;
	put(&value, 2);
}

/* Returns how many packets are read before *end, which is 0 for the end of the file and -EPROTO for a fault;
 * *packet is the last one. */
static int read_all(struct weft_pcap_packet *packet, int *end)
{
	struct weft_pcap_reader *reader;
	const char *why = NULL;
	int count = 0;

	*end = weft_pcap_open(path, &reader, &why);
	if (*end) {
		assert_non_null(why);
		return 0;
	}
	while ((*end = weft_pcap_next(reader, packet, &why)) > 0) {
		uint64_t sum = 0;

		for (uint32_t i = 0; i < packet->bytes; i++)
			sum += packet->data[i]; /* a sanitizer sees whether all bytes are there */
		assert_true(sum < UINT64_MAX);
		count++;
	}
	if (*end)
		assert_non_null(why);
	weft_pcap_close(reader);
	return count;
}

static void write_some(enum weft_pcap_format format)
{
	struct weft_pcap_writer *writer;
	uint8_t data[300];

	memset(data, 7, sizeof(data));
	assert_int_equal(weft_pcap_create(path, format, &writer), 0);
	for (uint32_t i = 0; i < 5; i++)
		weft_pcap_write(writer, 1234567890123456789u + i, data, 42, data, 3 * i);
	assert_int_equal(weft_pcap_finish(writer), 0);
	load();
}

static void what_is_written_is_read(void **state)
{
	for (int format = WEFT_PCAP; format <= WEFT_PCAPNG; format++) {
		struct weft_pcap_packet packet;
		int end;

		write_some(format);
		assert_int_equal(read_all(&packet, &end), 5);
		assert_int_equal(end, 0);
		assert_int_equal(packet.time_ns, 1234567890123456793u);
		assert_int_equal(packet.bytes, 54);
		assert_int_equal(packet.whole_bytes, 54);
		assert_int_equal(packet.linktype, WEFT_FRAME_ETHERNET);
	}
}

static void classic(bool swapped, uint32_t magic, uint32_t fraction, uint64_t time_ns)
{
	struct weft_pcap_packet packet;
	int end;

	file_bytes = 0;
	put32(swapped, magic);
	put16(swapped, 2);
	put16(swapped, 4);
	for (int i = 0; i < 3; i++)
		put32(swapped, 0);
	put32(swapped, WEFT_FRAME_SLL2);
	put32(swapped, 7);
	put32(swapped, fraction);
	put32(swapped, 3);
	put32(swapped, 9);
	put("abc", 3);
	save(file_bytes);
	assert_int_equal(read_all(&packet, &end), 1);
	assert_int_equal(end, 0);
	assert_int_equal(packet.time_ns, time_ns);
	assert_int_equal(packet.bytes, 3);
	assert_int_equal(packet.whole_bytes, 9);
	assert_int_equal(packet.linktype, WEFT_FRAME_SLL2);
}

static void either_byte_order(void **state)
{
	for (int swapped = 0; swapped < 2; swapped++) {
		classic(swapped, 0xa1b2c3d4, 123456, 7123456000u);
		classic(swapped, 0xa1b23c4d, 123456789, 7123456789u);
	}
}

/* A file of a section, an interface with the option if_tsresol behind another option, a packet, and a simple
 * packet. */
static void next_generation(bool swapped, uint8_t resolution, uint64_t ticks)
{
	file_bytes = 0;
	put32(swapped, 0x0a0d0d0a);
	put32(swapped, 28);
	put32(swapped, 0x1a2b3c4d);
	put16(swapped, 1);
	put16(swapped, 0);
	put32(swapped, UINT32_MAX);
	put32(swapped, UINT32_MAX);
	put32(swapped, 28);
	put32(swapped, 1);
	put32(swapped, 40);
	put16(swapped, WEFT_FRAME_IP);
	put16(swapped, 0);
	put32(swapped, 4); /* its interface's limit of bytes, which bounds a simple packet */
	put16(swapped, 2);
	put16(swapped, 3);
	put("lo\0\0", 4);
	put16(swapped, 9);
	put16(swapped, 1);
	put(&resolution, 1);
	put("\0\0", 3);
	put32(swapped, 0);
	put32(swapped, 40);
	put32(swapped, 0xbad); /* a block of an unknown type, which is passed over */
	put32(swapped, 12);
	put32(swapped, 12);
	put32(swapped, 3);
	put32(swapped, 20);
	put32(swapped, 6);
	put("wxyz", 4);
	put32(swapped, 20);
	put32(swapped, 6);
	put32(swapped, 36);
	put32(swapped, 0);
	put32(swapped, (uint32_t)(ticks >> 32));
	put32(swapped, (uint32_t)ticks);
	put32(swapped, 2);
	put32(swapped, 2);
	put("ab\0\0", 4);
	put32(swapped, 36);
	save(file_bytes);
}

static void any_resolution(void **state)
{
	static const struct {
		uint8_t resolution;
		uint64_t ticks, time_ns;
	} cases[] = {
		{6, 1700000000123456u, 1700000000123456000u},
		{9, 1700000000123456789u, 1700000000123456789u},
		{3, 1700000000123u, 1700000000123000000u},
		{0, 1700000000u, 1700000000000000000u},
		{12, 1700000000123456u, 1700000000123u},
		{0x80 | 10, 1024 + 512, 1500000000u},
		{0x80 | 32, 3ull << 31, 1500000000u},
	};

	for (int swapped = 0; swapped < 2; swapped++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			struct weft_pcap_packet packet;
			int end;

			next_generation(swapped, cases[i].resolution, cases[i].ticks);
			assert_int_equal(read_all(&packet, &end), 2);
			assert_int_equal(end, 0);
			assert_int_equal(packet.time_ns, cases[i].time_ns);
			assert_int_equal(packet.linktype, WEFT_FRAME_IP);
			assert_int_equal(packet.bytes, 2);
		}
}

/* Files cut at each byte: their end may only be between packets. */
static void cut(void **state)
{
	for (int kind = 0; kind < 3; kind++) {
		struct weft_pcap_packet packet;
		int whole = 5, ends = 0;

		if (kind < 2)
			write_some(kind);
		else
			next_generation(true, 6, 5);
		whole = kind < 2 ? 5 : 2;
		for (size_t bytes = 0; bytes < file_bytes; bytes++) {
			int end, count;

			save(bytes);
			count = read_all(&packet, &end);
			assert_true(count < whole);
			assert_true(end == 0 || end == -71 /* EPROTO */);
			ends += !end;
		}
		/* behind the header and each packet but the last one; in pcapng behind each block */
		assert_int_equal(ends, kind == 0 ? 5 : kind == 1 ? 6 : 4);
	}
}

/* Whatever the bytes are, reading ends, and reads no bytes outside the file. */
static void damaged(void **state)
{
	uint64_t seed = 1;

	for (int round = 0; round < 3000; round++) {
		struct weft_pcap_packet packet;
		int end;

		if (round % 3 < 2)
			write_some(round % 3);
		else
			next_generation(round & 1, 6, 5);
		for (uint64_t n = splitmix64(&seed) % 4 + 1; n; n--)
			file[splitmix64(&seed) % file_bytes] =
				(uint8_t)(splitmix64(&seed) >> (n * 8));
		save(file_bytes);
		read_all(&packet, &end);
	}
}

static void no_file(void **state)
{
	struct weft_pcap_reader *reader;
	struct weft_pcap_writer *writer;
	const char *why;

	assert_int_equal(weft_pcap_open("/nonexistent/a", &reader, &why), -2);
	assert_int_equal(weft_pcap_create("/nonexistent/a", WEFT_PCAP, &writer), -2);
	assert_int_equal(weft_pcap_create("/dev/full", WEFT_PCAP, &writer), 0);
	assert_int_equal(weft_pcap_finish(writer), -28);
}

/* ---- Frames ---- */

static uint8_t frame[200];
static struct weft_frame parsed;

static uint32_t make_frame(uint32_t bytes)
{
	struct weft_frame f = {.from = {[12] = 192, 0, 2, 1},
			       .to = {[12] = 192, 0, 2, 9},
			       .from_port = 1000,
			       .to_port = 2000,
			       .payload = frame + 42,
			       .bytes = bytes};

	for (uint32_t i = 0; i < bytes; i++)
		frame[42 + i] = (uint8_t)(i * 37 + bytes);
	weft_frame_write(&f, frame);
	return 42 + bytes;
}

static void frames_are_read(void **state)
{
	for (uint32_t bytes = 0; bytes < 100; bytes++) {
		uint32_t whole = make_frame(bytes);

		assert_int_equal(weft_frame_parse(WEFT_FRAME_ETHERNET, frame, whole, &parsed),
				 WEFT_FRAME_UDP);
		assert_int_equal(parsed.bytes, bytes);
		assert_ptr_equal(parsed.payload, frame + 42);
		assert_int_equal(parsed.from_port, 1000);
		assert_int_equal(parsed.to_port, 2000);
		assert_memory_equal(parsed.to + 10, "\xff\xff\xc0\x00\x02\x09", 6);
		/* padded to the shortest frame; without its link header; cut */
		assert_int_equal(weft_frame_parse(WEFT_FRAME_ETHERNET, frame, whole + 20, &parsed),
				 WEFT_FRAME_UDP);
		assert_int_equal(parsed.bytes, bytes);
		assert_int_equal(weft_frame_parse(WEFT_FRAME_IP, frame + 14, whole - 14, &parsed),
				 WEFT_FRAME_UDP);
		for (uint32_t less = 0; less < whole; less++)
			assert_int_equal(
				weft_frame_parse(WEFT_FRAME_ETHERNET, frame, less, &parsed),
				WEFT_FRAME_CUT);
	}
}

/* Each bit of packet and payload is covered by a checksum, or changes a length that then is wrong. */
static void flipped_bits(void **state)
{
	uint32_t whole = make_frame(33);

	for (uint32_t bit = 14 * 8; bit < whole * 8; bit++) {
		frame[bit / 8] ^= 1 << bit % 8;
		assert_int_not_equal(weft_frame_parse(WEFT_FRAME_ETHERNET, frame, whole, &parsed),
				     WEFT_FRAME_UDP);
		frame[bit / 8] ^= 1 << bit % 8;
	}
	frame[40] = frame[41] = 0; /* 0: without a checksum */
	assert_int_equal(weft_frame_parse(WEFT_FRAME_ETHERNET, frame, whole, &parsed),
			 WEFT_FRAME_UDP);
}

static void other_frames(void **state)
{
	uint32_t whole = make_frame(20);
	uint8_t tagged[208], loose[208];

	memcpy(tagged, frame, 12);
	memcpy(tagged + 12, "\x88\xa8\0\x05\x81\0\0\x07", 8);
	memcpy(tagged + 20, frame + 12, whole - 12);
	assert_int_equal(weft_frame_parse(WEFT_FRAME_ETHERNET, tagged, whole + 8, &parsed),
			 WEFT_FRAME_UDP);
	assert_int_equal(parsed.bytes, 20);
	for (uint32_t less = 12; less < 42 + 8; less++)
		assert_int_equal(weft_frame_parse(WEFT_FRAME_ETHERNET, tagged, less, &parsed),
				 WEFT_FRAME_CUT);
	memset(loose, 0, 20);
	memcpy(loose + 14, "\x08", 2);
	memcpy(loose + 16, frame + 14, whole - 14);
	assert_int_equal(weft_frame_parse(WEFT_FRAME_SLL, loose, whole + 2, &parsed),
			 WEFT_FRAME_UDP);
	memset(loose, 0, 20);
	memcpy(loose, "\x08", 2);
	memcpy(loose + 20, frame + 14, whole - 14);
	assert_int_equal(weft_frame_parse(WEFT_FRAME_SLL2, loose, whole + 6, &parsed),
			 WEFT_FRAME_UDP);
	for (int kind = 0; kind < 400; kind++)
		if (kind != WEFT_FRAME_ETHERNET && kind != WEFT_FRAME_IP &&
		    kind != WEFT_FRAME_SLL && kind != WEFT_FRAME_SLL2)
			assert_int_equal(weft_frame_parse(kind, frame, whole, &parsed),
					 WEFT_FRAME_OTHER);
	frame[20] = 0x20; /* More Fragments is set, with a right checksum */
	frame[24] += 0x20;
	assert_int_equal(weft_frame_parse(WEFT_FRAME_ETHERNET, frame, whole, &parsed),
			 WEFT_FRAME_OTHER);
	frame[13] = 6; /* ARP */
	assert_int_equal(weft_frame_parse(WEFT_FRAME_ETHERNET, frame, whole, &parsed),
			 WEFT_FRAME_OTHER);
}

static void version_6(void **state)
{
	/* fe80::1 → ff02::2, ports 1 and 2, "hello"; the checksum by hand: RFC 8200, 8.1 */
	uint8_t packet[53] = {0x60, [5] = 13, 17,  1,	0xfe, 0x80, [23] = 1, 0xff,
			      2,    [39] = 2, 0,   1,	0,    2,    0,	      13,
			      0x37, 0x3f,     'h', 'e', 'l',  'l',  'o'};
	uint32_t sum = 0;

	packet[46] = packet[47] = 0;
	for (uint32_t i = 8; i < 53; i++)
		sum += packet[i] << (i & 1 ? 0 : 8);
	sum += 13 + 17;
	sum = ~((sum & 0xffff) + (sum >> 16));
	packet[46] = (uint8_t)(sum >> 8);
	packet[47] = (uint8_t)sum;
	assert_int_equal(weft_frame_parse(WEFT_FRAME_IP, packet, 53, &parsed), WEFT_FRAME_UDP);
	assert_int_equal(parsed.bytes, 5);
	assert_memory_equal(parsed.payload, "hello", 5);
	for (uint32_t less = 1; less < 53; less++)
		assert_int_equal(weft_frame_parse(WEFT_FRAME_IP, packet, less, &parsed),
				 WEFT_FRAME_CUT);
	packet[52]++;
	assert_int_equal(weft_frame_parse(WEFT_FRAME_IP, packet, 53, &parsed), WEFT_FRAME_WRONG);
	packet[6] = 6;
	assert_int_equal(weft_frame_parse(WEFT_FRAME_IP, packet, 53, &parsed), WEFT_FRAME_OTHER);
}

/* A frame of 1,472 bytes of payload takes 1,538 bytes on the wire. */
static void time_on_the_wire(void **state)
{
	assert_int_equal(weft_frame_wire_bits(1472), 12304);
	assert_int_equal(weft_frame_wire_bits(0), 84 * 8);
	assert_int_equal(weft_frame_wire_bits(18), 84 * 8);
	assert_int_equal(weft_frame_wire_bits(19), 85 * 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(either_byte_order),
		cmocka_unit_test(any_resolution),
		cmocka_unit_test(cut),
		cmocka_unit_test(damaged),
		cmocka_unit_test(no_file),
		cmocka_unit_test(frames_are_read),
		cmocka_unit_test(flipped_bits),
		cmocka_unit_test(other_frames),
		cmocka_unit_test(version_6),
		cmocka_unit_test(time_on_the_wire),
	};
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return 1;
	close(fd);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
