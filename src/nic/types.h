/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The words of the InfiniBand specification (volume 1, release 1.4) as numbers. Where verbs have a
 * number for them it is the same one, so that an api translates by assignment.
 */
#ifndef WEFT_NIC_TYPES_H
#define WEFT_NIC_TYPES_H

#include <stdbool.h>
#include <stdint.h>
#include "pool/sizes.h"

enum weft_qp_type {
	WEFT_QPT_RC = 2,
	WEFT_QPT_UC = 3,
	WEFT_QPT_UD = 4,
	WEFT_QPT_XRC_SEND = 9,
	WEFT_QPT_XRC_RECV = 10,
};

#define WEFT_QP_TYPES (WEFT_QPT_XRC_RECV + 1) /* for tables by type */

/* The type of the queue pair at the other end of a connection. */
static inline uint8_t weft_qp_peer_type(uint8_t type)
{
	return type == WEFT_QPT_XRC_SEND ? WEFT_QPT_XRC_RECV : type;
}

/* 10.3.1 */
enum weft_qp_state {
	WEFT_QPS_RESET,
	WEFT_QPS_INIT,
	WEFT_QPS_RTR,
	WEFT_QPS_RTS,
	WEFT_QPS_SQD,
	WEFT_QPS_SQE,
	WEFT_QPS_ERR,
};

/* 11.4.1.1 */
enum weft_opcode {
	WEFT_OP_WRITE,
	WEFT_OP_WRITE_IMM,
	WEFT_OP_SEND,
	WEFT_OP_SEND_IMM,
	WEFT_OP_READ,
	WEFT_OP_CMP_SWAP,
	WEFT_OP_FETCH_ADD,
	WEFT_OP_LOCAL_INV,
	WEFT_OP_BIND_MW,
	WEFT_OP_SEND_INV,
	WEFT_OP_ATOMIC_WRITE = 15,
	WEFT_OPS,
};

/* Those that carry bytes away: of others nothing can be given inline. */
static inline bool weft_op_may_inline(uint32_t opcode)
{
	return opcode <= WEFT_OP_SEND_IMM || opcode >= WEFT_OP_SEND_INV;
}

static inline bool weft_op_is_atomic(uint32_t opcode)
{
	return opcode - WEFT_OP_CMP_SWAP <= 1;
}

/* Those that bring bytes: READ and atomics. */
static inline bool weft_op_fetches(uint32_t opcode)
{
	return opcode - WEFT_OP_READ <= 2;
}

/* Those that no peer hears of. */
static inline bool weft_op_is_local(uint32_t opcode)
{
	return opcode - WEFT_OP_LOCAL_INV <= 1;
}

enum weft_send_flags {
	WEFT_SEND_FENCE = 1 << 0,
	WEFT_SEND_SIGNALED = 1 << 1,
	WEFT_SEND_SOLICITED = 1 << 2,
	WEFT_SEND_INLINE = 1 << 3,
	WEFT_SEND_ENDED =
		1 << 7, /* the nic's own: the request has ended, behind one that has not */
};

/* 10.6.3: what a region, or a queue pair's peer, may do */
enum weft_access {
	WEFT_ACCESS_LOCAL_WRITE = 1 << 0,
	WEFT_ACCESS_REMOTE_WRITE = 1 << 1,
	WEFT_ACCESS_REMOTE_READ = 1 << 2,
	WEFT_ACCESS_REMOTE_ATOMIC = 1 << 3,
	WEFT_ACCESS_MW_BIND = 1 << 4,
	WEFT_ACCESS_ZERO_BASED = 1 << 5,
	WEFT_ACCESS_ON_DEMAND = 1 << 6,
	WEFT_ACCESS_HUGETLB = 1 << 7,
};

enum weft_mw_type {
	WEFT_MW_TYPE_1 = 1, /* of a protection domain */
	WEFT_MW_TYPE_2 = 2, /* of the queue pair that bound it (type 2B) */
};

/* 11.6.2 */
enum weft_wc_status {
	WEFT_WC_SUCCESS = 0,
	WEFT_WC_LOC_LEN_ERR = 1,
	WEFT_WC_LOC_QP_OP_ERR = 2,
	WEFT_WC_LOC_PROT_ERR = 4,
	WEFT_WC_WR_FLUSH_ERR = 5,
	WEFT_WC_MW_BIND_ERR = 6,
	WEFT_WC_LOC_ACCESS_ERR = 8,
	WEFT_WC_REM_INV_REQ_ERR = 9,
	WEFT_WC_REM_ACCESS_ERR = 10,
	WEFT_WC_REM_OP_ERR = 11,
	WEFT_WC_RETRY_EXC_ERR = 12,
	WEFT_WC_RNR_RETRY_EXC_ERR = 13,
};

enum weft_wc_opcode {
	WEFT_WC_SEND = 0,
	WEFT_WC_WRITE = 1,
	WEFT_WC_READ = 2,
	WEFT_WC_CMP_SWAP = 3,
	WEFT_WC_FETCH_ADD = 4,
	WEFT_WC_BIND_MW = 5,
	WEFT_WC_LOCAL_INV = 6,
	WEFT_WC_ATOMIC_WRITE = 9,
	WEFT_WC_RECV = 128,
	WEFT_WC_RECV_WRITE_IMM = 129,
};

enum weft_wc_flags {
	WEFT_WC_GRH = 1 << 0,
	WEFT_WC_WITH_IMM = 1 << 1,
	WEFT_WC_WITH_INV = 1 << 3,
};

/* A work completion, laid out as struct ibv_wc is. */
struct weft_wc {
	uint64_t wr_id;
	uint32_t status, opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t imm; /* big-endian, as it came */
	uint32_t qp_num, src_qp;
	uint32_t flags;
	uint16_t pkey_index, slid;
	uint8_t sl, dlid_path_bits;
};

/* Asynchronous events of a queue pair or completion queue (11.6.3), numbered as in verbs. */
enum weft_event {
	WEFT_EVENT_CQ_ERR = 0,
	WEFT_EVENT_QP_FATAL = 1,
	WEFT_EVENT_QP_REQ_ERR = 2,
	WEFT_EVENT_QP_ACCESS_ERR = 3,
	WEFT_EVENT_COMM_EST = 4,
	WEFT_EVENT_SQ_DRAINED = 5,
	WEFT_EVENT_SRQ_LIMIT = 15,
	WEFT_EVENT_LAST_WQE = 16,
};

#endif
