/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A card whose wire is bad: weftd as it is, but that each packet goes by itself through link/fault. $SPOILED says how:
 * lost, doubled, late and corrupted of 65,536, and a seed, with commas; or `in turn`: of UC's messages as lossy.h has it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "card/wire.h"
#include "link/fault.h"
#include "lossy.h"

int __real_weft_wire_begin(struct weft_wire *wire, struct weft_nic *nic, struct weft_caller *caller,
			   const uint8_t address[16], uint32_t mtu, struct weft_out *out);
int __wrap_weft_wire_begin(struct weft_wire *wire, struct weft_nic *nic, struct weft_caller *caller,
			   const uint8_t address[16], uint32_t mtu, struct weft_out *out);

static struct weft_fault *fault;
static uint8_t packet[WEFT_FAULT_BYTES], to[16];
static bool in_turn;

static uint8_t *reserve(struct weft_out *out, const uint8_t where[16], uint32_t bytes)
{
	__builtin_memcpy(to, where, 16);
	return bytes <= sizeof(packet) ? packet : NULL;
}

/* A packet of UC, by its opcode, that is lost in its turn; by its PSN. */
static bool is_lost(void)
{
	unsigned int psn =
		(unsigned int)packet[9] << 16 | (unsigned int)packet[10] << 8 | packet[11];

	return in_turn && packet[0] >> 5 == 1 && lossy_is_lost(psn);
}

/* What the socket has no room for is lost, too. */
static void commit(struct weft_out *out, uint32_t bytes)
{
	const struct iovec piece = {packet, bytes};
	struct weft_udp_message message = {
		.port = out->port, .interface = out->interface, .pieces = &piece, .count = 1};

	__builtin_memcpy(message.to, to, 16);
	if (!is_lost())
		weft_fault_send(fault, out->udp, &message, 1);
}

static const struct weft_out_medium spoiled = {.reserve = reserve, .commit = commit};

int __wrap_weft_wire_begin(struct weft_wire *wire, struct weft_nic *nic, struct weft_caller *caller,
			   const uint8_t address[16], uint32_t mtu, struct weft_out *out)
{
	const char *how = getenv("SPOILED");
	struct weft_fault_config config = {0};
	unsigned int seed = 0;

	in_turn = how && !strcmp(how, "in turn");
	if (!in_turn && (!how || sscanf(how, "%u,%u,%u,%u,%u", &config.lost, &config.doubled,
					&config.late, &config.corrupted, &seed) != 5))
		return -EINVAL;
	config.seed = seed;
	fault = weft_fault_open(&config);
	if (!fault)
		return -ENOMEM;
	out->medium = &spoiled;
	return __real_weft_wire_begin(wire, nic, caller, address, mtu, out);
}
