/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A card carries the requests out: a member of the pool that plays the network card for one of our addresses
 * (src/card/hand.h is its half, pool/hand.h what lies between). Issuing a request says no more than that it is there; the
 * send queue lies in the pool for that, from RTR to RESET. What ends well comes back by a ring of the completion queue
 * (nic/returns.h), an error as one word.
 */
#ifndef WEFT_TRANSPORT_HANDED_HANDED_H
#define WEFT_TRANSPORT_HANDED_HANDED_H

#include "nic/transport.h"

extern const struct weft_transport weft_handed;
/* Datagrams, each with its bytes (datagram.c). */
extern const struct weft_transport weft_handed_datagrams;

#endif
