/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. */
#include "link/pcap.h"

#include <byteswap.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES  (1u << 20) /* of a packet or block: libpcap has at most 256 KiB of a packet */
#define MAX_IFACES 64u
#define SECOND	   1000000000u

enum {
	MAGIC_US = 0xa1b2c3d4,
	MAGIC_NS = 0xa1b23c4d,
	MAGIC_NG = 0x0a0d0d0a,
	MAGIC_ORDER = 0x1a2b3c4d
};
enum { BLOCK_INTERFACE = 1, BLOCK_SIMPLE = 3, BLOCK_ENHANCED = 6 };

struct iface {
	uint32_t linktype, snap;
	uint64_t ticks; /* in a second */
};

struct weft_pcap_reader {
	FILE *file;
	bool swapped, ng;
	struct iface iface[MAX_IFACES]; /* of pcap, one */
	uint32_t ifaces;
	uint8_t buffer[MAX_BYTES];
};

static uint32_t get32(const struct weft_pcap_reader *r, const void *at)
{
	uint32_t value;

	memcpy(&value, at, 4);
	return r->swapped ? bswap_32(value) : value;
}

static uint16_t number16(const struct weft_pcap_reader *r, const void *at)
{
	uint16_t value;

	memcpy(&value, at, 2);
	return r->swapped ? bswap_16(value) : value;
}

static int wrong_file(const char **why, const char *what)
{
	*why = what;
	return -EPROTO;
}

/* Reads exactly so many bytes: 1; 0: the file ended before the first of them; or -errno. */
static int read_bytes(struct weft_pcap_reader *r, void *to, size_t bytes, const char **why)
{
	size_t done = fread(to, 1, bytes, r->file);

	if (done == bytes)
		return 1;
	if (ferror(r->file)) {
		*why = "cannot be read";
		return -errno;
	}
	return done ? wrong_file(why, "it is cut in the midst of a packet") : 0;
}

/* The time after so many ticks since 1970, in ns; exact if a tick is a whole number of ns. */
static uint64_t time_of(uint64_t ticks, uint64_t per_second)
{
	return ticks / per_second * SECOND +
	       (uint64_t)((unsigned __int128)(ticks % per_second) * SECOND / per_second);
}

/* ---- pcap ---- */

static int begin_pcap(struct weft_pcap_reader *r, const char **why)
{
	uint8_t head[20];

	if (read_bytes(r, head, sizeof(head), why) <= 0)
		return wrong_file(why, "its header is cut");
	if (number16(r, head) != 2)
		return wrong_file(why, "it is of a version of pcap that is not 2");
	r->iface[0].linktype = get32(r, head + 16) & 0xffff;
	r->ifaces = 1;
	return 0;
}

static int next_pcap(struct weft_pcap_reader *r, struct weft_pcap_packet *packet, const char **why)
{
	uint8_t head[16];
	int got = read_bytes(r, head, sizeof(head), why);

	if (got <= 0)
		return got;
	*packet = (struct weft_pcap_packet){
		.time_ns = (uint64_t)get32(r, head) * SECOND +
			   time_of(get32(r, head + 4), r->iface[0].ticks),
		.bytes = get32(r, head + 8),
		.whole_bytes = get32(r, head + 12),
		.linktype = r->iface[0].linktype,
		.data = r->buffer,
	};
	if (packet->bytes > MAX_BYTES)
		return wrong_file(why, "a packet's length is beyond 1 MiB");
	if (packet->bytes && (got = read_bytes(r, r->buffer, packet->bytes, why)) <= 0)
		return got ?: wrong_file(why, "it is cut in the midst of a packet");
	return 1;
}

/* ---- pcapng ---- */

/* The option if_tsresol of an interface: a power of ten or two. */
static int resolution(struct weft_pcap_reader *r, const uint8_t *at, const uint8_t *end,
		      struct iface *iface, const char **why)
{
	while (end - at >= 4) {
		uint16_t code = number16(r, at), bytes = number16(r, at + 2);

		at += 4;
		if (!code || bytes > end - at)
			break;
		if (code == 9 && bytes == 1) {
			unsigned int power = *at & 0x7f;

			if (power > (*at & 0x80 ? 63 : 19))
				return wrong_file(why, "an interface's resolution is out of range");
			iface->ticks = 1;
			for (unsigned int i = 0; i < power; i++)
				iface->ticks *= *at & 0x80 ? 2 : 10;
		}
		if (((bytes + 3u) & ~3u) > end - at)
			break;
		at += (bytes + 3u) & ~3u;
	}
	return 0;
}

static int begin_interface(struct weft_pcap_reader *r, uint32_t bytes, const char **why)
{
	if (bytes < 8 || r->ifaces == MAX_IFACES)
		return wrong_file(why, "an interface's block is damaged, or the 65th");
	struct iface *iface = &r->iface[r->ifaces++];

	*iface = (struct iface){number16(r, r->buffer), get32(r, r->buffer + 4), 1000000};
	return resolution(r, r->buffer + 8, r->buffer + bytes, iface, why);
}

static int begin_section(struct weft_pcap_reader *r, const char **why)
{
	uint8_t head[8];
	uint32_t magic, bytes;

	if (read_bytes(r, head, sizeof(head), why) <= 0)
		return wrong_file(why, "its header is cut");
	memcpy(&magic, head + 4, 4);
	if (magic != MAGIC_ORDER && magic != bswap_32(MAGIC_ORDER))
		return wrong_file(why, "a section has no byte order");
	r->swapped = magic != MAGIC_ORDER;
	bytes = get32(r, head);
	if (bytes < 28 || bytes % 4 || bytes - 12 > MAX_BYTES)
		return wrong_file(why, "a section's length is out of range");
	r->ifaces = 0;
	if (read_bytes(r, r->buffer, bytes - 12, why) <= 0)
		return wrong_file(why, "its header is cut");
	return number16(r, r->buffer) == 1
		       ? 0
		       : wrong_file(why, "it is of a version of pcapng that is not 1");
}

static int packet_of(struct weft_pcap_reader *r, uint32_t type, uint32_t bytes,
		     struct weft_pcap_packet *packet, const char **why)
{
	bool simple = type == BLOCK_SIMPLE;
	uint32_t head = simple ? 4 : 20, which = bytes >= head && !simple ? get32(r, r->buffer) : 0;

	if (bytes < head || which >= r->ifaces)
		return wrong_file(why, "a packet's block is damaged, or of no interface");
	const struct iface *iface = &r->iface[which];

	*packet = (struct weft_pcap_packet){
		.linktype = iface->linktype,
		.data = r->buffer + head,
		.whole_bytes = get32(r, r->buffer + head - 4),
	};
	if (simple) {
		uint32_t limit = iface->snap ?: UINT32_MAX;

		packet->bytes = packet->whole_bytes < limit ? packet->whole_bytes : limit;
	} else {
		packet->bytes = get32(r, r->buffer + 12);
		packet->time_ns =
			time_of((uint64_t)get32(r, r->buffer + 4) << 32 | get32(r, r->buffer + 8),
				iface->ticks);
	}
	return packet->bytes > bytes - head ? wrong_file(why, "a packet is longer than its block")
					    : 1;
}

static int next_pcapng(struct weft_pcap_reader *r, struct weft_pcap_packet *packet,
		       const char **why)
{
	for (;;) {
		uint32_t type, bytes;
		int got = read_bytes(r, &type, 4, why);

		if (got <= 0)
			return got;
		type = r->swapped ? bswap_32(type) : type;
		if (type == MAGIC_NG) {
			if ((got = begin_section(r, why)))
				return got;
			continue;
		}
		if (read_bytes(r, &bytes, 4, why) <= 0)
			return wrong_file(why, "it is cut in the midst of a block");
		bytes = r->swapped ? bswap_32(bytes) : bytes;
		if (bytes < 12 || bytes % 4 || bytes - 8 > MAX_BYTES)
			return wrong_file(why, "a block's length is out of range");
		if (read_bytes(r, r->buffer, bytes - 8, why) <= 0)
			return wrong_file(why, "it is cut in the midst of a block");
		bytes -= 12; /* its length stands at both ends */
		if (get32(r, r->buffer + bytes) != bytes + 12)
			return wrong_file(why, "a block's two lengths differ");
		if (type == BLOCK_ENHANCED || type == BLOCK_SIMPLE)
			return packet_of(r, type, bytes, packet, why);
		if (type == BLOCK_INTERFACE && (got = begin_interface(r, bytes, why)))
			return got;
	}
}

/* ---- Either ---- */

static int begin_capture(struct weft_pcap_reader *r, const char **why)
{
	uint32_t magic = 0;

	if (read_bytes(r, &magic, 4, why) <= 0)
		return wrong_file(why, "it is no capture: empty, or a few bytes");
	r->ng = magic == MAGIC_NG;
	if (r->ng)
		return begin_section(r, why);
	r->swapped = magic == bswap_32(MAGIC_US) || magic == bswap_32(MAGIC_NS);
	magic = r->swapped ? bswap_32(magic) : magic;
	if (magic != MAGIC_US && magic != MAGIC_NS)
		return wrong_file(why, "it is no capture: neither pcap nor pcapng");
	r->iface[0].ticks = magic == MAGIC_NS ? SECOND : 1000000;
	return begin_pcap(r, why);
}

int weft_pcap_open(const char *path, struct weft_pcap_reader **reader, const char **why)
{
	struct weft_pcap_reader *r = calloc(1, sizeof(*r));
	int err;

	*why = "no memory";
	if (!r)
		return -ENOMEM;
	*why = "cannot be opened";
	r->file = strcmp(path, "-") ? fopen(path, "re") : stdin;
	if (!r->file) {
		err = -errno;
		goto free_reader;
	}
	err = begin_capture(r, why);
	if (err)
		goto close_file;
	*reader = r;
	return 0;
close_file:
	fclose(r->file);
free_reader:
	free(r);
	return err;
}

int weft_pcap_next(struct weft_pcap_reader *r, struct weft_pcap_packet *packet, const char **why)
{
	return r->ng ? next_pcapng(r, packet, why) : next_pcap(r, packet, why);
}

void weft_pcap_close(struct weft_pcap_reader *r)
{
	fclose(r->file);
	free(r);
}

/* ---- Writing ---- */

struct weft_pcap_writer {
	FILE *file;
	enum weft_pcap_format format;
	int err; /* the first */
};

static void write_bytes(struct weft_pcap_writer *w, const void *from, size_t bytes)
{
	if (fwrite(from, 1, bytes, w->file) != bytes && !w->err)
		w->err = -errno;
}

static void put_words(struct weft_pcap_writer *w, size_t count, const uint32_t word[])
{
	write_bytes(w, word, 4 * count);
}

int weft_pcap_create(const char *path, enum weft_pcap_format format,
		     struct weft_pcap_writer **writer)
{
	struct weft_pcap_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->format = format;
	w->file = strcmp(path, "-") ? fopen(path, "we") : stdout;
	if (!w->file) {
		free(w);
		return -errno;
	}
	if (format == WEFT_PCAP)
		put_words(w, 6, (const uint32_t[]){MAGIC_NS, 4u << 16 | 2, 0, 0, 262144, 1});
	else /* a section, and an interface with if_tsresol 9 */
		put_words(w, 15,
			  (const uint32_t[]){MAGIC_NG, 28, MAGIC_ORDER, 1, -1u, -1u, 28,
					     BLOCK_INTERFACE, 32, 1, 262144, 1u << 16 | 9, 9, 0,
					     32});
	*writer = w;
	return 0;
}

void weft_pcap_write(struct weft_pcap_writer *w, uint64_t time_ns, const uint8_t *head,
		     uint32_t head_bytes, const uint8_t *body, uint32_t body_bytes)
{
	uint32_t bytes = head_bytes + body_bytes, pad = -bytes & 3, whole = 32 + bytes + pad;

	if (w->format == WEFT_PCAP)
		put_words(w, 4,
			  (const uint32_t[]){(uint32_t)(time_ns / SECOND),
					     (uint32_t)(time_ns % SECOND), bytes, bytes});
	else
		put_words(w, 7,
			  (const uint32_t[]){BLOCK_ENHANCED, whole, 0, (uint32_t)(time_ns >> 32),
					     (uint32_t)time_ns, bytes, bytes});
	write_bytes(w, head, head_bytes);
	write_bytes(w, body, body_bytes);
	if (w->format == WEFT_PCAPNG) {
		write_bytes(w, &(uint32_t){0}, pad);
		put_words(w, 1, &whole);
	}
}

int weft_pcap_finish(struct weft_pcap_writer *w)
{
	int err = fclose(w->file) ? -errno : 0;

	err = w->err ?: err;
	free(w);
	return err;
}
