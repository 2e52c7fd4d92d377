/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests of a send queue, as they stand in it: those of queue pairs that are handed over, in the pool. */
#ifndef WEFT_NIC_WQE_H
#define WEFT_NIC_WQE_H

#include <stdint.h>

#include "pool/sge.h"

struct weft_ah;

/* A send request in the queue pair's private queue. sge or inline bytes follow. */
struct weft_wqe {
	uint64_t wr_id;
	uint8_t opcode, flags;
	uint16_t num_sge;
	uint32_t imm;
	union {
		uint64_t remote_addr;
		struct weft_ah *ah; /* UD */
	};
	union {
		uint32_t rkey;
		uint32_t remote_qpn; /* UD */
	};
	uint32_t len_bytes; /* of inline bytes as posted; else known once it is carried out */
	union {
		uint64_t compare_add;
		uint32_t remote_qkey; /* UD */
	};
	union {
		uint64_t swap;
		uint32_t remote_srqn; /* XRC; of atomics it is `imm` */
	};
	struct weft_pool_sge sge[];
};

static inline uint8_t *weft_wqe_inline(struct weft_wqe *wqe)
{
	return (uint8_t *)wqe->sge;
}

/* What WEFT_OP_BIND_MW binds a window to, by the key `rkey`. No bytes: the window is unbound. */
struct weft_bind {
	uint64_t addr, len_bytes;
	uint32_t lkey, access;
};

static inline void weft_wqe_set_bind(struct weft_wqe *wqe, const struct weft_bind *bind)
{
	wqe->remote_addr = bind->addr;
	wqe->compare_add = bind->len_bytes;
	wqe->swap = (uint64_t)bind->lkey << 32 | bind->access;
}

static inline struct weft_bind weft_wqe_bind(const struct weft_wqe *wqe)
{
	return (struct weft_bind){wqe->remote_addr, wqe->compare_add, (uint32_t)(wqe->swap >> 32),
				  (uint32_t)wqe->swap};
}

#endif
