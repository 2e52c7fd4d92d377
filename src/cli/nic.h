/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What other commands ask of `weft nic`. A pool that cannot be looked at has no card. */
#ifndef WEFT_CLI_NIC_H
#define WEFT_CLI_NIC_H

#include <stdbool.h>
#include <stdint.h>

/* Whether that pool has a card of the address that lives. */
bool weft_nic_shows_card(const char *pool, const uint8_t gid[16]);
/* Whether the process of a card is stopped, by a signal or a debugger. */
bool weft_nic_is_stopped(uint32_t pid);
/* Where no program is left in the pool its cards, which would linger for the next one, are told to end. */
void weft_nic_end_lone_cards(const char *pool);

#endif
