/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The transport to addresses that no other reaches: requests are as those to a host that does not
 * answer. What is wrong on this side is told all the same.
 */
#ifndef WEFT_TRANSPORT_NOWHERE_NOWHERE_H
#define WEFT_TRANSPORT_NOWHERE_NOWHERE_H

#include "nic/transport.h"

extern const struct weft_transport weft_nowhere;

#endif
