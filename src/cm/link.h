/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How datagrams travel: through the mailboxes of the pool. Datagrams that do not fit yet wait here, in order. The
 * mutex is held in all calls.
 */
#ifndef WEFT_CM_LINK_H
#define WEFT_CM_LINK_H

#include "cm/cm.h"

/* 0; -ESRCH (the member is gone). What cannot be kept is lost, as datagrams are. */
int weft_link_send(struct weft_address to, const uint8_t wire[WEFT_MAD_BYTES], uint64_t now_ns);
bool weft_link_take(struct weft_address *from, uint8_t wire[WEFT_MAD_BYTES]);
/* Sends what waited. When to call again; UINT64_MAX: nothing waits. */
uint64_t weft_link_flush(uint64_t now_ns);
bool weft_link_alive(struct weft_address member);
void weft_link_forget(void); /* what waits */

#endif
