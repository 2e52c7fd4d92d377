/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The transport to a queue pair in the same pool: the posting thread carries out both sides on the
 * pool, with no system call and without the target's help.
 */
#ifndef WEFT_TRANSPORT_DIRECT_DIRECT_H
#define WEFT_TRANSPORT_DIRECT_DIRECT_H

#include "nic/nic.h"

extern const struct weft_transport weft_direct;	  /* reliable connections */
extern const struct weft_transport weft_direct_unreliable; /* unreliable ones */
extern const struct weft_transport weft_direct_datagram;
extern const struct weft_transport weft_direct_xrc;

#endif
