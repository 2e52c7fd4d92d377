/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the interfaces carry that a card would send through. Any thread; the process is attached. */
#ifndef WEFT_PROCESS_INTERFACE_H
#define WEFT_PROCESS_INTERFACE_H

#include <stdbool.h>
#include <stdint.h>

/* The largest path MTU (code of enum ibv_mtu) with which packets from that GID fit through its interface; that of 4096 where
 * no card would start, or nothing is known. On a node of a torus it is what a packet of the torus takes. */
uint8_t weft_interface_mtu(const uint8_t gid[16]);
/* The same, whether a card would start or not. */
uint8_t weft_interface_carries(const uint8_t gid[16]);
/* The first of the two, of the first GID there is. */
uint8_t weft_interface_first_mtu(void);
/* The index of the interface that has that GID; 0: none. */
uint32_t weft_interface_of(const uint8_t gid[16]);

/* Whether the GID of that index is no address of its interface, as a default one need not be, though there is one from which a
 * card could send: *instead is the index of that, of RoCE v2. */
bool weft_interface_lacks(uint32_t index, uint32_t *instead);

#endif
