/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "across_errors.h"

#define BYTES	3000u
#define LONG	5000u /* more than a packet: the first has no immediate, and wants no receive */

#define READS	WEFT_ACCESS_REMOTE_READ
#define WRITES	WEFT_ACCESS_REMOTE_WRITE
#define ATOMICS WEFT_ACCESS_REMOTE_ATOMIC

#define ACCESS	.status = WEFT_WC_REM_ACCESS_ERR, .event = WEFT_EVENT_QP_ACCESS_ERR
#define INVALID .status = WEFT_WC_REM_INV_REQ_ERR, .event = WEFT_EVENT_QP_REQ_ERR
#define NOBODY	.event = WEFT_EVENT_COMM_EST

const struct across_error across_errors[] = {
	{"WRITE, rkey garbled", WEFT_OP_WRITE, BYTES, .garbled = true, ACCESS},
	{"WRITE_IMM, rkey garbled", WEFT_OP_WRITE_IMM, LONG, .garbled = true, ACCESS},
	{"WRITE_IMM of one packet, rkey garbled, no receive", WEFT_OP_WRITE_IMM, 8, .garbled = true,
	 ACCESS, .rxe_status = WEFT_WC_RNR_RETRY_EXC_ERR},
	{"READ, rkey garbled", WEFT_OP_READ, BYTES, .garbled = true, ACCESS},
	{"CMP_SWAP, rkey garbled", WEFT_OP_CMP_SWAP, 8, .garbled = true, ACCESS},
	{"FETCH_ADD, rkey garbled", WEFT_OP_FETCH_ADD, 8, .garbled = true, ACCESS},
	{"WRITE, beyond the region", WEFT_OP_WRITE, BYTES, .beyond = true, ACCESS},
	{"READ, beyond the region", WEFT_OP_READ, BYTES, .beyond = true, ACCESS},
	{"WRITE, key without the right", WEFT_OP_WRITE, BYTES, .key_without = WRITES, ACCESS},
	{"READ, key without the right", WEFT_OP_READ, BYTES, .key_without = READS, ACCESS},
	{"FETCH_ADD, key without the right", WEFT_OP_FETCH_ADD, 8, .key_without = ATOMICS, ACCESS},
	{"WRITE, peer without the right", WEFT_OP_WRITE, BYTES, .without = WRITES, INVALID},
	{"READ, peer without the right", WEFT_OP_READ, BYTES, .without = READS, INVALID},
	{"CMP_SWAP, peer without the right", WEFT_OP_CMP_SWAP, 8, .without = ATOMICS, INVALID},
	{"READ, peer's max_dest_rd_atomic 0", WEFT_OP_READ, BYTES, .no_reads = true, INVALID},
	{"CMP_SWAP, unaligned by 4", WEFT_OP_CMP_SWAP, 8, .shift = 4, .refused = true, INVALID},
	{"FETCH_ADD, unaligned by 1", WEFT_OP_FETCH_ADD, 8, .shift = 1, .refused = true, INVALID},
	{"SEND, longer than the receive", WEFT_OP_SEND, BYTES, .receive_bytes = BYTES, INVALID,
	 .receive_status = WEFT_WC_LOC_LEN_ERR, .rxe_status = WEFT_WC_REM_OP_ERR,
	 .rxe_receive_status = WEFT_WC_LOC_QP_OP_ERR},
	{"SEND, no receive", WEFT_OP_SEND, BYTES, .status = WEFT_WC_RNR_RETRY_EXC_ERR, NOBODY},
	{"WRITE_IMM, no receive", WEFT_OP_WRITE_IMM, BYTES, .status = WEFT_WC_RNR_RETRY_EXC_ERR,
	 NOBODY},
	{"SEND, no receive, rnr_retry 2", WEFT_OP_SEND, BYTES, .rnr_retry = 2,
	 .status = WEFT_WC_RNR_RETRY_EXC_ERR, NOBODY},
	{"SEND, nobody there", WEFT_OP_SEND, BYTES, .silent = true, .status = WEFT_WC_RETRY_EXC_ERR,
	 NOBODY},
};
const uint32_t across_error_count = sizeof(across_errors) / sizeof(*across_errors);
