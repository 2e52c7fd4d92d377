/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of this folder share: which card it is, and how it is rung for. */
#ifndef WEFT_TRANSPORT_HANDED_CARD_H
#define WEFT_TRANSPORT_HANDED_CARD_H

#include "nic/nic.h"

/* The card that carries what goes from one address to the other; WEFT_NOBODY: none does. */
uint16_t weft_handed_card(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16]);
/* Its present life; 0: it is none any more. */
uint64_t weft_handed_incarnation(const struct weft_nic *nic, uint16_t card);
/* Bytes of a datagram that it carries. */
uint64_t weft_handed_mtu(const struct weft_nic *nic, uint16_t card);
/* bell: index of a queue pair, or WEFT_DOORBELL_OUTBOX and that of an outbox. */
void weft_handed_ring(struct weft_nic *nic, uint32_t bell, uint16_t card);

#endif
