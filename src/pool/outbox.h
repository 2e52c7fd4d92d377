/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Datagrams that a member has for one card, each with its bytes and where it goes: a request whose datagram stands here is done.
 * Writers as in format.h; [P] is the card.
 *
 *   put    [O]  so many; number n stands in slot n % WEFT_OUTBOX_SLOTS. A slot is written once the card has taken what was in it
 *   taken  [P]  those before it have been taken. If all before a new one have, its owner rings the doorbell: each stores
 *               its own word, fences, and then loads the other's, so that one of them sees
 *   waits  [O]  1: the outbox was found full, and the owner wants a signal; [P] 0, before the signal
 *
 * A stale `put` costs the card a look: the doorbell comes. A stale `taken` costs a ring for nothing, or a request a wait.
 *
 * The card touches it only while its busy line names the owner, after it has seen that the owner's life is the one that it
 * knows, and that the box is its own.
 */
#ifndef WEFT_POOL_OUTBOX_H
#define WEFT_POOL_OUTBOX_H

#include "backing/atomic.h"
#include "pool/sizes.h"

#define WEFT_OUTBOX_SLOTS 32u
#define WEFT_OUTBOX_BYTES 4096u /* of a datagram */

struct weft_pool_datagram {
	uint8_t dgid[16];
	uint32_t src_qpn, dest_qpn, qkey;
	uint32_t imm; /* as it goes */
	uint32_t len_bytes;
	uint8_t traffic_class, hop_limit, has_imm, solicited;
	uint8_t bytes[WEFT_OUTBOX_BYTES];
};

struct weft_pool_outbox {
	uint64_t incarnation; /* [O] of the card; like the next before the member tells of it */
	uint32_t card;
	_Alignas(WEFT_LINE) _Atomic uint64_t put;
	_Alignas(WEFT_LINE) _Atomic uint64_t taken;
	_Atomic uint32_t waits;
	_Alignas(WEFT_LINE) struct weft_pool_datagram slot[WEFT_OUTBOX_SLOTS];
};

#endif
