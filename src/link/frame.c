/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "link/frame.h"

#include <string.h>

enum { TYPE_IPV4 = 0x0800, TYPE_IPV6 = 0x86dd, TYPE_VLAN = 0x8100, TYPE_QINQ = 0x88a8, UDP = 17 };

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* RFC 1071 */
static uint32_t add_words(uint32_t sum, const uint8_t *at, size_t bytes)
{
	for (; bytes > 1; at += 2, bytes -= 2)
		sum += get16(at);
	return bytes ? sum + (uint32_t)(*at << 8) : sum;
}

static uint16_t fold_sum(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static uint32_t pseudo(const struct weft_frame *frame, bool v6, uint32_t udp_bytes)
{
	unsigned int skip = v6 ? 0 : 12;

	return add_words(add_words(UDP + udp_bytes, frame->from + skip, 16 - skip),
			 frame->to + skip, 16 - skip);
}

static enum weft_frame_verdict parse_udp(const uint8_t *at, size_t bytes, bool v6,
					 struct weft_frame *frame)
{
	if (bytes < 8)
		return WEFT_FRAME_CUT;
	uint16_t length = get16(at + 4), check = get16(at + 6);

	if (length < 8)
		return WEFT_FRAME_WRONG;
	if (length > bytes)
		return WEFT_FRAME_CUT;
	uint32_t sum = pseudo(frame, v6, length);
	bool unfilled = check == fold_sum(sum) || (!check && !v6);

	if (!unfilled && fold_sum(add_words(sum, at, length)) != 0xffff)
		return WEFT_FRAME_WRONG;
	frame->from_port = get16(at);
	frame->to_port = get16(at + 2);
	frame->payload = at + 8;
	frame->bytes = length - 8;
	return WEFT_FRAME_UDP;
}

static enum weft_frame_verdict parse_ipv4(const uint8_t *at, size_t bytes, struct weft_frame *frame)
{
	if (bytes < 20)
		return WEFT_FRAME_CUT;
	size_t header = 4 * (at[0] & 15u), total = get16(at + 2);

	if (at[0] >> 4 != 4 || header < 20 || total < header)
		return WEFT_FRAME_WRONG;
	if (total > bytes)
		return WEFT_FRAME_CUT;
	if (fold_sum(add_words(0, at, header)) != 0xffff)
		return WEFT_FRAME_WRONG;
	if (at[9] != UDP || get16(at + 6) & 0x3fff)
		return WEFT_FRAME_OTHER;
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	memcpy(frame->from, mapped, 12);
	memcpy(frame->to, mapped, 12);
	memcpy(frame->from + 12, at + 12, 4);
	memcpy(frame->to + 12, at + 16, 4);
	return parse_udp(at + header, total - header, false, frame);
}

static enum weft_frame_verdict parse_ipv6(const uint8_t *at, size_t bytes, struct weft_frame *frame)
{
	if (bytes < 40)
		return WEFT_FRAME_CUT;
	size_t length = get16(at + 4);

	if (at[0] >> 4 != 6)
		return WEFT_FRAME_WRONG;
	if (length > bytes - 40)
		return WEFT_FRAME_CUT;
	if (at[6] != UDP)
		return WEFT_FRAME_OTHER;
	memcpy(frame->from, at + 8, 16);
	memcpy(frame->to, at + 24, 16);
	return parse_udp(at + 40, length, true, frame);
}

enum weft_frame_verdict weft_frame_parse(enum weft_frame_kind kind, const uint8_t *data,
					 size_t bytes, struct weft_frame *frame)
{
	static const struct {
		uint8_t type,
			header; /* where the protocol's number stands, what is before the packet */
	} shape[] = {[WEFT_FRAME_ETHERNET] = {12, 14},
		     [WEFT_FRAME_SLL] = {14, 16},
		     [WEFT_FRAME_SLL2] = {0, 20}};
	uint16_t type;
	size_t at = 0;

	if (kind >= sizeof(shape) / sizeof(*shape) ||
	    (kind != WEFT_FRAME_IP && !shape[kind].header))
		return WEFT_FRAME_OTHER;
	if (kind == WEFT_FRAME_IP) {
		type = bytes && data[0] >> 4 == 6 ? TYPE_IPV6 : TYPE_IPV4;
	} else {
		at = shape[kind].header;
		if (bytes < at)
			return WEFT_FRAME_CUT;
		type = get16(data + shape[kind].type);
	}
	while ((type == TYPE_VLAN || type == TYPE_QINQ) && kind == WEFT_FRAME_ETHERNET) {
		if (bytes < at + 4)
			return WEFT_FRAME_CUT;
		type = get16(data + at + 2);
		at += 4;
	}
	*frame = (struct weft_frame){0};
	if (type == TYPE_IPV4)
		return parse_ipv4(data + at, bytes - at, frame);
	return type == TYPE_IPV6 ? parse_ipv6(data + at, bytes - at, frame) : WEFT_FRAME_OTHER;
}

void weft_frame_write(const struct weft_frame *frame, uint8_t *to)
{
	/* addresses of locally administered cards, made from the IP addresses */
	uint8_t *ip = to + 14, *udp = ip + 20;
	uint16_t udp_bytes = frame->bytes + 8;

	memset(to, 0, WEFT_FRAME_UDP_BYTES);
	to[0] = to[6] = 2;
	memcpy(to + 2, frame->to + 12, 4);
	memcpy(to + 8, frame->from + 12, 4);
	put16(to + 12, TYPE_IPV4);
	ip[0] = 0x45;
	put16(ip + 2, udp_bytes + 20);
	put16(ip + 6, 0x4000); /* do not fragment */
	ip[8] = 64;
	ip[9] = UDP;
	memcpy(ip + 12, frame->from + 12, 4);
	memcpy(ip + 16, frame->to + 12, 4);
	put16(ip + 10, (uint16_t)~fold_sum(add_words(0, ip, 20)));
	put16(udp, frame->from_port);
	put16(udp + 2, frame->to_port);
	put16(udp + 4, udp_bytes);
	uint16_t check = (uint16_t)~fold_sum(add_words(
		add_words(pseudo(frame, false, udp_bytes), udp, 8), frame->payload, frame->bytes));

	put16(udp + 6, check ? check : 0xffff);
}
