/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the worlds of the tests share: memory with a key, and the sealing of packets.
 */
#ifndef WEFT_TESTS_WIRE_MEMORY_H
#define WEFT_TESTS_WIRE_MEMORY_H

#include "wire/roce/roce.h"

/* Headers, payload, pad and ICRC of any packet. */
#define SEALED_BYTES (WEFT_ROCE_HEAD_BYTES + WEFT_ROCE_MAX_MTU + 8u)

/* What a peer may reach. */
struct memory {
	uint8_t *bytes;
	uint64_t size, va;
	uint32_t key;
	uint8_t rights; /* of the queue pair: WEFT_ACCESS_REMOTE_* */
	uint8_t key_rights;
};

/* As struct weft_roce_world has them. */
int memory_allows(const struct memory *m, uint32_t rkey, uint64_t va, uint64_t bytes,
		  uint8_t access);
int memory_place(const struct memory *m, uint32_t rkey, uint64_t va, const uint8_t *from,
		 uint32_t bytes);
int memory_gather(const struct memory *m, uint32_t rkey, uint64_t va, uint8_t *to, uint32_t bytes);
/* Carries out the operation at an address that memory_allows has allowed. */
void memory_atomic(const struct memory *m, const struct weft_roce_packet *request, uint64_t *old);

/* Where the payload of a packet goes, whose headers are written; `at` has room for SEALED_BYTES. */
uint8_t *seal_begin(const struct weft_roce_packet *packet, uint8_t *at);
/* Pads it and appends its ICRC; how many bytes it has. *crc: the ICRC. */
size_t seal_end(const struct weft_roce_icrc *icrc, const struct weft_roce_route *route, uint16_t id,
		const struct weft_roce_packet *packet, uint8_t *at, uint32_t *crc);

#endif
