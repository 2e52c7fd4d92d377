/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Whose the port is that a card lacks. */
#ifndef WEFT_CARD_OWNER_H
#define WEFT_CARD_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"

#define WEFT_OWNER_TEXT 128u

/* Whether a member of the pool, in this network namespace, is the card of that address. */
bool weft_owner_is_card(struct weft_pool *pool, const uint8_t gid[16]);
/* A program, another user, or the kernel; as the kernel tells of UDP sockets of this network namespace. */
void weft_owner_of_port(const uint8_t gid[16], uint16_t port, char text[WEFT_OWNER_TEXT]);

#endif
