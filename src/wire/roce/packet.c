/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/errors.h"
#include "wire/roce/packet.h"

#define IF(headers, which, bytes) ((headers)&WEFT_ROCE_##which ? (bytes) : 0)
#define HEAD_BYTES(h)                                                                              \
	(WEFT_ROCE_BTH_BYTES + IF(h, DETH, 8) + IF(h, RETH, 16) + IF(h, ATOMIC, 28) +              \
	 IF(h, AETH, 4) + IF(h, ATOMIC_ACK, 8) + IF(h, IMM, 4) + IF(h, IETH, 4) +                  \
	 IF(h, XRCETH, 4))

static const struct weft_roce_row rows[256] = {
#define ROW(opcode, name, verb, place, headers, length)                                            \
	[opcode] = {#name,   WEFT_ROCE_##verb,	 WEFT_ROCE_##place,                                \
		    headers, WEFT_ROCE_##length, HEAD_BYTES(headers)},
	WEFT_ROCE_OPCODES(ROW)
#undef ROW
};

const struct weft_roce_row *weft_roce_row(uint8_t opcode)
{
	return &rows[opcode];
}

/* ---- Numbers of the wire: big-endian, at any address ---- */

static uint32_t get_field(const uint8_t **at, unsigned int bytes)
{
	uint32_t value = 0;

	while (bytes--)
		value = value << 8 | *(*at)++;
	return value;
}

static uint64_t get64(const uint8_t **at)
{
	uint64_t high = get_field(at, 4);

	return high << 32 | get_field(at, 4);
}

static void put_field(uint8_t **at, uint32_t value, unsigned int bytes)
{
	while (bytes--)
		*(*at)++ = (uint8_t)(value >> 8 * bytes);
}

static void put64(uint8_t **at, uint64_t value)
{
	put_field(at, (uint32_t)(value >> 32), 4);
	put_field(at, (uint32_t)value, 4);
}

/* ---- Lengths ---- */

uint32_t weft_roce_head_bytes(uint8_t opcode)
{
	return rows[opcode].head_bytes;
}

bool weft_roce_length_holds(const struct weft_roce_packet *packet, uint32_t mtu)
{
	uint32_t bytes = packet->payload_bytes;

	switch ((enum weft_roce_length)rows[packet->opcode].length) {
	case WEFT_ROCE_NONE:
		return !bytes;
	case WEFT_ROCE_FULL:
		return bytes == mtu;
	case WEFT_ROCE_REST:
		return bytes && bytes <= mtu;
	case WEFT_ROCE_ANY:
		return bytes <= mtu;
	case WEFT_ROCE_EIGHT:
		return bytes == 8;
	}
	return false;
}

/* MTUs are powers of two, but for that of a torus: a packet that must be full has the length of one. */
static bool length_possible(const struct weft_roce_packet *packet)
{
	uint32_t bytes = packet->payload_bytes;
	bool full = rows[packet->opcode].length == WEFT_ROCE_FULL;

	if (full && bytes != WEFT_ROCE_TORUS_MTU && (bytes < 256 || bytes & (bytes - 1)))
		return false;
	return weft_roce_length_holds(packet, full ? bytes : WEFT_ROCE_MAX_MTU) &&
	       bytes <= WEFT_ROCE_MAX_MTU;
}

/* ---- Parsing ---- */

static void parse_bth(const uint8_t *at, struct weft_roce_packet *packet)
{
	packet->opcode = *at++;
	packet->solicited = *at >> 7;
	packet->migrated = *at >> 6 & 1;
	packet->pad = *at++ >> 4 & 3;
	packet->pkey = (uint16_t)get_field(&at, 2);
	packet->fecn = *at >> 7;
	packet->becn = *at++ >> 6 & 1;
	packet->dest_qpn = get_field(&at, 3);
	packet->ack_requested = *at++ >> 7;
	packet->psn = get_field(&at, 3);
}

static void parse_extended(const uint8_t *at, uint8_t headers, struct weft_roce_packet *packet)
{
	if (headers & WEFT_ROCE_DETH) {
		packet->qkey = get_field(&at, 4);
		at++;
		packet->src_qpn = get_field(&at, 3);
	}
	if (headers & WEFT_ROCE_XRCETH)
		packet->srqn = get_field(&at, 4) & 0xffffff;
	if (headers & (WEFT_ROCE_RETH | WEFT_ROCE_ATOMIC)) {
		packet->va = get64(&at);
		packet->rkey = get_field(&at, 4);
	}
	if (headers & WEFT_ROCE_RETH)
		packet->length = get_field(&at, 4);
	if (headers & WEFT_ROCE_ATOMIC) {
		packet->swap_add = get64(&at);
		packet->compare = get64(&at);
	}
	if (headers & WEFT_ROCE_AETH) {
		packet->syndrome = *at++;
		packet->msn = get_field(&at, 3);
	}
	if (headers & WEFT_ROCE_ATOMIC_ACK)
		packet->old = get64(&at);
	if (headers & WEFT_ROCE_IMM)
		__builtin_memcpy(&packet->imm, at, 4);
	if (headers & WEFT_ROCE_IETH)
		packet->ended_key = get_field(&at, 4);
}

int weft_roce_parse(const uint8_t *at, size_t bytes, struct weft_roce_packet *packet)
{
	const struct weft_roce_row *row;
	uint32_t head;

	if (bytes < WEFT_ROCE_BTH_BYTES + WEFT_ROCE_ICRC_BYTES || bytes & 3 ||
	    bytes > WEFT_ROCE_HEAD_BYTES + WEFT_ROCE_MAX_MTU + WEFT_ROCE_ICRC_BYTES)
		return -EPROTO;
	row = &rows[at[0]];
	if (!row->name || at[1] & 0xf)
		return -EPROTO;
	head = row->head_bytes;
	*packet = (struct weft_roce_packet){0};
	parse_bth(at, packet);
	if (bytes < head + packet->pad + WEFT_ROCE_ICRC_BYTES)
		return -EPROTO;
	parse_extended(at + WEFT_ROCE_BTH_BYTES, row->headers, packet);
	packet->payload = at + head;
	packet->payload_bytes = (uint32_t)bytes - head - packet->pad - WEFT_ROCE_ICRC_BYTES;
	return length_possible(packet) ? 0 : -EPROTO;
}

/* ---- Building ---- */

uint32_t weft_roce_build(const struct weft_roce_packet *packet, uint8_t *head)
{
	uint8_t headers = rows[packet->opcode].headers, *at = head;

	*at++ = packet->opcode;
	*at++ = (uint8_t)(packet->solicited << 7 | packet->migrated << 6 |
			  weft_roce_pad(packet->payload_bytes) << 4);
	put_field(&at, packet->pkey, 2);
	*at++ = (uint8_t)(packet->fecn << 7 | packet->becn << 6);
	put_field(&at, packet->dest_qpn, 3);
	*at++ = (uint8_t)(packet->ack_requested << 7);
	put_field(&at, packet->psn, 3);
	if (headers & WEFT_ROCE_DETH) {
		put_field(&at, packet->qkey, 4);
		put_field(&at, packet->src_qpn & 0xffffff, 4);
	}
	if (headers & WEFT_ROCE_XRCETH)
		put_field(&at, packet->srqn & 0xffffff, 4);
	if (headers & (WEFT_ROCE_RETH | WEFT_ROCE_ATOMIC)) {
		put64(&at, packet->va);
		put_field(&at, packet->rkey, 4);
	}
	if (headers & WEFT_ROCE_RETH)
		put_field(&at, packet->length, 4);
	if (headers & WEFT_ROCE_ATOMIC) {
		put64(&at, packet->swap_add);
		put64(&at, packet->compare);
	}
	if (headers & WEFT_ROCE_AETH)
		put_field(&at, (uint32_t)packet->syndrome << 24 | (packet->msn & 0xffffff), 4);
	if (headers & WEFT_ROCE_ATOMIC_ACK)
		put64(&at, packet->old);
	if (headers & WEFT_ROCE_IMM) {
		__builtin_memcpy(at, &packet->imm, 4);
		at += 4;
	}
	if (headers & WEFT_ROCE_IETH)
		put_field(&at, packet->ended_key, 4);
	return (uint32_t)(at - head);
}
