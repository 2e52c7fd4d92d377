/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What librdmacm.so.1 needs of the pool that libibverbs.so.1 has joined. Neither library may export
 * a name of its own, so the table hangs on each open context (docs/decisions, 6).
 */
#ifndef WEFT_VERBS_SERVICE_H
#define WEFT_VERBS_SERVICE_H

#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#pragma GCC visibility pop

#include "mailbox/port.h"
#include "process/client.h"
#include "pool/sizes.h"

struct weft_pool_port;

/* Grows with each change, so that libraries of two builds do not meet. */
#define WEFT_SERVICE_MAGIC 0x0006534354464557ull /* "WEFTCS", 6 */

struct weft_service {
	uint64_t magic;
	/* The helper serves the client, one a process, from now on. The pool is there as long as
	 * any context is open. 0, -EAGAIN (no thread). */
	int (*start)(const struct weft_helper_client *client, struct weft_pool **pool);
	/* The helper should call the client soon. */
	void (*kick)(void);
	/* The GIDs of our member in the pool are those of now (gids.h). */
	void (*follow)(void);
	/* As their namesakes of the pool (clock.h, mailbox.h, port.h, pool.h). */
	uint64_t (*now_ns)(void);
	int (*post)(struct weft_pool *pool, struct weft_address to,
		    const uint8_t bytes[WEFT_DATAGRAM_BYTES], uint64_t now_ns);
	bool (*take)(struct weft_pool *pool, struct weft_address *from,
		     uint8_t bytes[WEFT_DATAGRAM_BYTES]);
	bool (*alive)(struct weft_pool *pool, uint16_t member, uint64_t incarnation);
	int (*port_bind)(struct weft_pool *pool, struct weft_pool_port *want, uint32_t *index);
	int (*port_listen)(struct weft_pool *pool, uint32_t index);
	void (*port_release)(struct weft_pool *pool, uint32_t index);
	int (*port_find)(struct weft_pool *pool, const struct weft_pool_port *wanted,
			 struct weft_address *owner);
	bool (*reachable)(struct weft_pool *pool, const uint8_t addr[16]);
	/* Whether a card carries what goes from one GID to the other, and which; it may start one first (process/card.h). */
	bool (*beyond)(const uint8_t sgid[16], const uint8_t dgid[16], struct weft_address *card);
	/* The own address from which a card reaches one that no route of the host leads to (process/node.h). False: routes tell. */
	bool (*source)(const uint8_t dgid[16], uint8_t sgid[16]);
	/* The largest path MTU from that GID to another host (process/interface.h). */
	uint8_t (*mtu)(const uint8_t sgid[16]);
	/* Whether $WEFT_EXPLAIN is set. */
	bool (*explains)(void);
};

extern const struct weft_service weft_service;

/* The table behind an open context, or NULL if it is not one of this build's libibverbs. */
static inline const struct weft_service *weft_service_of(struct ibv_context *context)
{
	struct verbs_context *vctx = verbs_get_ctx(context);
	const struct weft_service *service = vctx ? (const void *)vctx->priv : NULL;

	return service && service->magic == WEFT_SERVICE_MAGIC ? service : NULL;
}

#endif
