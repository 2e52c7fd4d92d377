/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The transport to a queue pair in the same pool: the posting thread carries out both sides on the
 * pool, with no system call and without the target's help.
 */
#ifndef WEFT_TRANSPORT_DIRECT_DIRECT_H
#define WEFT_TRANSPORT_DIRECT_DIRECT_H

#include "nic/datagram.h"
#include "nic/transport.h"

extern const struct weft_transport weft_direct;

/* datagram.c */
weft_issue weft_direct_issue_datagram;
#define WEFT_DIRECT_ADDRESS_BYTES sizeof(struct weft_datagram_target)

#endif
