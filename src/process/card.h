/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The card of an address starts when a queue pair is first connected from it to an address that is neither in the pool
 * nor in its network namespace. It is no child of the program, of which it keeps nothing: no descriptor, session,
 * mask of signals, or environment but for HOME and $WEFT_POOL.
 *
 * Context: any thread, nothing of the nic locked.
 */
#ifndef WEFT_PROCESS_CARD_H
#define WEFT_PROCESS_CARD_H

#include <stdbool.h>
#include <stdint.h>

struct weft_pool_member;

/* WEFT_NIC=off, but on a node of a torus: this program stays within its host. */
bool weft_card_is_refused(void);
/* That, or a node of a torus, which has a card: none starts for this program. */
bool weft_card_is_off(void);

/* Whether what goes there goes to another host, by a card: it is no member's of the pool, and no address of this network
 * namespace. */
bool weft_card_is_wanted(const uint8_t sgid[16], const uint8_t dgid[16]);

/* Before a transport is chosen from one address to the other. Returns when there is a card, or no use in waiting: when
 * the one that was started has ended, which finds after 250 ms that it cannot have its port, and after 3 s at most. What keeps it
 * from starting it says on the program's stderr itself. Whether what goes there goes by a card. */
bool weft_card_summon(const uint8_t sgid[16], const uint8_t dgid[16]);

/* Whether that member is a card that reaches other hosts from our network namespace. */
bool weft_card_is_ours(const struct weft_pool_member *member);
/* The card of an address, which is in our network namespace. False: there is none. */
bool weft_card_with(const uint8_t sgid[16], uint16_t *member);

#endif
