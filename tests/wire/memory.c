/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "memory.h"

#include <string.h>

static bool holds(const struct memory *m, uint32_t rkey, uint64_t va, uint64_t bytes,
		  uint8_t access)
{
	uint64_t at = va - m->va;

	return rkey == m->key && at <= m->size && bytes <= m->size - at && m->key_rights & access;
}

int memory_allows(const struct memory *m, uint32_t rkey, uint64_t va, uint64_t bytes,
		  uint8_t access)
{
	if (!(m->rights & access))
		return WEFT_CAUSE_REMOTE_RIGHT;
	return bytes && !holds(m, rkey, va, bytes, access) ? WEFT_CAUSE_REMOTE_KEY : 0;
}

int memory_place(const struct memory *m, uint32_t rkey, uint64_t va, const uint8_t *from,
		 uint32_t bytes)
{
	if (!holds(m, rkey, va, bytes, WEFT_ACCESS_REMOTE_WRITE))
		return WEFT_CAUSE_REMOTE_KEY;
	memcpy(m->bytes + (va - m->va), from, bytes);
	return 0;
}

int memory_gather(const struct memory *m, uint32_t rkey, uint64_t va, uint8_t *to, uint32_t bytes)
{
	if (!holds(m, rkey, va, bytes, WEFT_ACCESS_REMOTE_READ))
		return WEFT_CAUSE_REMOTE_KEY;
	memcpy(to, m->bytes + (va - m->va), bytes);
	return 0;
}

void memory_atomic(const struct memory *m, const struct weft_roce_packet *request, uint64_t *old)
{
	uint8_t *at = m->bytes + (request->va - m->va);
	uint64_t new;

	memcpy(old, at, 8);
	new = request->opcode == WEFT_ROCE_OP_FETCH_ADD ? *old + request->swap_add
	      : *old == request->compare		? request->swap_add
							: *old;
	memcpy(at, &new, 8);
}

uint8_t *seal_begin(const struct weft_roce_packet *packet, uint8_t *at)
{
	return at + weft_roce_build(packet, at);
}

size_t seal_end(const struct weft_roce_icrc *icrc, const struct weft_roce_route *route, uint16_t id,
		const struct weft_roce_packet *packet, uint8_t *at, uint32_t *crc)
{
	uint32_t head = weft_roce_head_bytes(packet->opcode),
		 pad = weft_roce_pad(packet->payload_bytes);
	size_t n = head + packet->payload_bytes + pad + WEFT_ROCE_ICRC_BYTES;

	memset(at + n - WEFT_ROCE_ICRC_BYTES - pad, 0, pad);
	*crc = weft_roce_icrc(icrc, route, id, at, head, at + head, n);
	for (int i = 0; i < 4; i++)
		at[n - 4 + (size_t)i] = (uint8_t)(*crc >> 8 * i);
	return n;
}
