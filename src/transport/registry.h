/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which transports there are. The nic asks them in this order (weft_transport_for). */
#ifndef WEFT_TRANSPORT_REGISTRY_H
#define WEFT_TRANSPORT_REGISTRY_H

#include "nic/transport.h"

extern const struct weft_transport *const weft_transports[];

#endif
