/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Windows (mw.c). */
#ifndef WEFT_NIC_MW_H
#define WEFT_NIC_MW_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/cause.h"
#include "nic/transport.h"
#include "nic/types.h"

struct weft_mr;
struct weft_nic;
struct weft_pool_mr;
struct weft_qp;
struct weft_wqe;

struct weft_mw {
	struct weft_nic *nic;
	uint32_t index, pd;
	enum weft_mw_type type;
	/* guarded by the nic's window_lock, as are all below */
	uint32_t key; /* of the last binding */
	uint32_t
		parent; /* index of the region's key; 0: not bound, or ended by the peer and noticed */
	struct weft_mw *next;
	uint64_t pieces_off, pieces_bytes;
	uint64_t made; /* the pool's age at the binding */
};

/* A window that shows nothing yet. 0, -ENOSPC. */
int weft_mw_create(struct weft_nic *nic, struct weft_mw *mw, uint32_t pd, enum weft_mw_type type);
void weft_mw_destroy(struct weft_mw *mw);
/* Carries out WEFT_OP_BIND_MW or WEFT_OP_LOCAL_INV; the queue pair's lock is held. WEFT_DONE or
 * WEFT_FAILED with *cause. */
enum weft_outcome weft_mw_execute(struct weft_qp *qp, struct weft_wqe *wqe, enum weft_cause *cause);

/* For mr.c: the windows that show the region show what it has become. */
void weft_mw_redraw(const struct weft_mr *mr, const struct weft_pool_mr *entry);

#endif
