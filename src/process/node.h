/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The node of a torus that this process runs on, by its environment, and the addresses of nodes: node X,Y,Z is
 * ::ffff:10.X.Y.(Z + 1), in its own torus alone. There its GID table has this address and no other, as its
 * device is plugged into the torus and into nothing else.
 *
 * Context: any thread.
 */
#ifndef WEFT_PROCESS_NODE_H
#define WEFT_PROCESS_NODE_H

#include <stdbool.h>
#include <stdint.h>

/* The folder of the node, which ends in X.Y.Z; or NAME:X,Y,Z. */
#define WEFT_TORUS_NODE_ENV "WEFT_TORUS_NODE"

/* The largest path MTU (code of enum ibv_mtu) whose packets, with their headers, fit into a packet of the torus. */
#define WEFT_NODE_MTU 4u

/* False: on no node. */
bool weft_node_here(uint8_t at[3]);

void weft_node_gid(const uint8_t at[3], uint8_t gid[16]);
/* False: no node can have that address. */
bool weft_node_of_gid(const uint8_t gid[16], uint8_t at[3]);
/* The address of this node, if the other is a node's: no route of the host's leads there. False: this is no node, or
 * that none. */
bool weft_node_source(const uint8_t dgid[16], uint8_t sgid[16]);

#endif
