/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Ports of connection identifiers: unique per (network namespace, address, port space) among the
 * living members of a pool. Each member keeps its own in the pool, so that those of a dead one are
 * free at once. All is read and changed under the file lock; only a release is a store without it, since
 * it must not fail.
 *
 * Context: any thread; all but the release take the file lock. Of a process one at a time binds, listens or
 * releases.
 */
#ifndef WEFT_MAILBOX_PORT_H
#define WEFT_MAILBOX_PORT_H

#include "mailbox/mailbox.h"

struct weft_pool_port;

/*
 * Binds *want; its port 0 becomes a free one of the ephemeral range. *index names it from now on.
 * -EADDRINUSE (that address), -EADDRNOTAVAIL (an any address is in the way, or no port is free),
 * -ENOMEM (no memory of the pool is left), -ESTALE (its file is gone).
 */
int weft_port_bind(struct weft_pool *pool, struct weft_pool_port *want, uint32_t *index);
/* From now on requests find it. -EADDRINUSE, -EADDRNOTAVAIL: it was shared. */
int weft_port_listen(struct weft_pool *pool, uint32_t index);
void weft_port_release(struct weft_pool *pool, uint32_t index);

/*
 * So long a port that a living member has listened at is held for it, as far as weft_port_find goes: on a full machine
 * perftest's server needed more than 200 ms from one listener to its next.
 */
#define WEFT_PORT_HELD_NS 1000000000u

/*
 * Which member listens at an address as seen from our network namespace: addresses of our own, and those of
 * the loopback, are here; others are where a member has that GID. Another host may have one of ours, too: it is found
 * if there is no listener here.
 * -ECONNREFUSED (no listener); -EAGAIN (not yet, but a program holds the port, or has just listened at it: a server
 * that takes one connection after the other may have a new listener each time); -ESTALE, or open(2)'s: it cannot be said.
 */
int weft_port_find(struct weft_pool *pool, const struct weft_pool_port *wanted,
		   struct weft_address *owner);
/* Whether the address is one of ours, or of a living member elsewhere. */
bool weft_port_reachable(struct weft_pool *pool, const uint8_t addr[16]);

#endif
