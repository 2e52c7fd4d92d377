/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Regions (mr.c). */
#ifndef WEFT_NIC_MR_H
#define WEFT_NIC_MR_H

#include <stdbool.h>
#include <stdint.h>

struct weft_nic;
struct weft_pool;
struct weft_pool_mr;

struct weft_mr {
	struct weft_nic *nic;
	uint32_t index, key;
	uint64_t pieces_off, pieces_bytes; /* in the pool, if they are many */
	uint64_t made;			   /* the pool's age */
};

struct weft_mr_piece {
	uint64_t va, len_bytes, off;
};

/* [va, va + len) seen as iova by a peer that has the key, in these pieces; what they leave out is in
 * place. One piece of WEFT_NOWHERE: it reads as zeros, and what is written is lost. */
struct weft_mr_drawing {
	uint32_t pd;
	uint8_t access;
	uint64_t iova, va, len_bytes;
	const struct weft_mr_piece *pieces;
	unsigned int npieces;
};

/* 0, -ENOSPC, -ENOMEM. */
int weft_mr_create(struct weft_nic *nic, struct weft_mr *mr, const struct weft_mr_drawing *drawing);
/* Gives the key of `old` to another region. 0; -ENOSPC, -EBUSY (a window shows it): all is as it was.
 * quiet: as weft_mr_revoke says. */
int weft_mr_replace(struct weft_mr *mr, struct weft_mr *old, const struct weft_mr_drawing *drawing,
		    bool *quiet);
/* Publishes it anew by the same key, and the windows that show it: its pieces have changed while no executor could
 * see it (weft_nic_hold). */
void weft_mr_redraw(struct weft_mr *mr, const struct weft_mr_drawing *drawing);
/* The first half of revoke: true, and the key has ended; or a window is bound to the region (EBUSY). */
bool weft_mr_close(struct weft_mr *mr);
/* After this no executor reaches the region but one that stands still: false then, and what the region covers in
 * the pool must be retired. */
bool weft_mr_revoke(struct weft_mr *mr);
/* Gives the key's entry back; after revoke, which said `quiet`. */
void weft_mr_destroy(struct weft_mr *mr, bool quiet);

/* For the files of the nic. The key that an entry gets next; makes the entry what others see, by that key; ends
 * its key, with or without waiting for executors that use it (false: one stands still). */
uint32_t weft_mr_next_key(const struct weft_pool *pool, uint32_t index);
void weft_mr_publish(struct weft_pool *pool, uint32_t index, uint32_t key,
		     struct weft_pool_mr *entry);
void weft_mr_store_ended(struct weft_pool *pool, uint32_t index);
bool weft_mr_end_key(struct weft_nic *nic, uint32_t index, uint64_t made);
void weft_mr_free_pieces(struct weft_nic *nic, uint64_t off, uint64_t bytes, bool quiet);

#endif
