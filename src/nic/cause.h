/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Why a request fails, or a receive: each cause with the status of its completion, the clause of
 * InfiniBand volume 1 that it offends, and the words for it. The api that words it (verbs/blame.c) puts values
 * for {names}; the nic knows causes by their numbers alone.
 */
#ifndef WEFT_NIC_CAUSE_H
#define WEFT_NIC_CAUSE_H

#include "nic/types.h"

/* Declared alone: engines include this header, and know no pool. */
struct weft_pool;
struct weft_pool_mr;
struct weft_pool_recv;
struct weft_pool_sge;

/* cause, status, clause, words */
#define WEFT_CAUSES(X)                                                                             \
	/* what is wrong on this side */                                                           \
	X(NONE, SUCCESS, "", "")                                                                   \
	X(MESSAGE_LENGTH, LOC_LEN_ERR, "9.9.2", "{bytes} bytes: a message has up to 2147483648")   \
	X(ATOMIC_LENGTH, LOC_LEN_ERR, "9.9.2", "{bytes} bytes: an atomic operation is on 8")       \
	X(DATAGRAM_LENGTH, LOC_LEN_ERR, "9.9.2",                                                   \
	  "{bytes} bytes: a datagram has up to the MTU, 4096")                                     \
	X(NO_READS, LOC_QP_OP_ERR, "9.9.2",                                                        \
	  "this queue pair has max_rd_atomic 0, so that none may be outstanding")                  \
	X(OPERATION, LOC_QP_OP_ERR, "9.2.1", "the service has no operation {opcode}")              \
	X(ADDRESS_DOMAIN, LOC_QP_OP_ERR, "10.2.3",                                                 \
	  "the address handle is of protection domain {ah}, the queue pair of {pd}")               \
	X(LOCAL_KEY, LOC_PROT_ERR, "9.9.2", "{local}")                                             \
	X(LOCAL_MEMORY, LOC_PROT_ERR, "9.9.2",                                                     \
	  "it is no longer mapped with these rights, or cannot be reached: {local}")               \
	X(WINDOW_KEY, MW_BIND_ERR, "10.6.7.2",                                                     \
	  "{rkey} is the key of no window of protection domain {pd}")                              \
	X(WINDOW_BOUND, MW_BIND_ERR, "10.6.7.2",                                                   \
	  "window {rkey} is bound: one of type 2 is invalidated before it is bound anew")          \
	X(WINDOW_EMPTY, MW_BIND_ERR, "10.6.7.2",                                                   \
	  "window {rkey} is of type 2: it cannot be bound to no bytes")                            \
	X(WINDOW_REGION, MW_BIND_ERR, "10.6.7.2",                                                  \
	  "{bind}: no region of protection domain {pd} with IBV_ACCESS_MW_BIND")                   \
	X(WINDOW_ZERO_BASED, MW_BIND_ERR, "10.6.7.2",                                              \
	  "{bind}, access {access}: zero-based are windows of type 2, and no regions of windows")  \
	X(WINDOW_ACCESS, MW_BIND_ERR, "10.6.7.2",                                                  \
	  "access {access}: a window gives remote access, and to write only where its region may") \
	X(WINDOW_RANGE, MW_BIND_ERR, "10.6.7.2", "{bind} does not lie within that region")         \
	X(WINDOW_ROOM, MW_BIND_ERR, "10.6.7.2",                                                    \
	  "the pool has no room left for where window {rkey} lies")                                \
	X(LOCAL_INVALIDATE, LOC_QP_OP_ERR, "10.6.7.2",                                             \
	  "key {imm} is of no window of type 2 that this queue pair may end")                      \
	/* what the peer refuses */                                                                \
	X(REMOTE_RIGHT, REM_INV_REQ_ERR, "9.7.4.1", "QP {peer} refuses it: {right}")               \
	X(REMOTE_KEY, REM_ACCESS_ERR, "9.7.4.1", "{remote}")                                       \
	X(REMOTE_INVALIDATE, REM_ACCESS_ERR, "10.6.7.2",                                           \
	  "rkey {imm} is of no window of type 2 that was bound on QP {peer}")                      \
	X(ALIGNMENT, REM_INV_REQ_ERR, "9.4.5", "remote address {to} is no multiple of 8")          \
	X(REMOTE_QUEUE, REM_INV_REQ_ERR, "A14",                                                    \
	  "{srq} is the number of no shared receive queue in the XRC domain of QP {peer}")         \
	X(REMOTE_MEMORY, REM_OP_ERR, "9.9.3",                                                      \
	  "the memory at {to} is no longer mapped in the process of QP {peer}")                    \
	X(LEFT_BEHIND, REM_OP_ERR, "9.9.3",                                                        \
	  "while it stood still the memory at {to} got other pages, and bytes were lost: no "      \
	  "program is "                                                                            \
	  "at fault")                                                                              \
	X(RECEIVE_LENGTH, REM_INV_REQ_ERR, "9.9.3",                                                \
	  "{bytes} bytes are more than the receive of QP {peer} has room for")                     \
	X(RECEIVE_KEY, REM_OP_ERR, "9.9.3", "a key in the receive of QP {peer} does not hold")     \
	X(RECEIVE_MEMORY, REM_OP_ERR, "9.9.3",                                                     \
	  "the memory of the receive of QP {peer} is no longer mapped")                            \
	X(NO_RECEIVE, RNR_RETRY_EXC_ERR, "9.7.5.2.8",                                              \
	  "QP {peer} had no receive posted after {rnr_retry} retries")                             \
	X(NO_ANSWER, RETRY_EXC_ERR, "9.7.6",                                                       \
	  "QP {peer} {silence}; timeout {timeout}, retry_cnt {retry_cnt}")                         \
	X(UNREACHED, RETRY_EXC_ERR, "9.7.6",                                                       \
	  "no member of the pool has the address of QP {peer}, {dgid}, and nothing else leads "    \
	  "there; "                                                                                \
	  "timeout {timeout}, retry_cnt {retry_cnt}")                                              \
	/* what is found later, by the poller */                                                   \
	X(FLUSHED, WR_FLUSH_ERR, "10.3.1", "the queue pair is in {state}: it was not carried out") \
	X(OWN_RECEIVE_LENGTH, LOC_LEN_ERR, "9.9.3",                                                \
	  "a message of {given} bytes came, for which the receive has no room")                    \
	X(OWN_RECEIVE_KEY, LOC_PROT_ERR, "9.9.3", "its lkey {lkey} does not hold")                 \
	X(OWN_RECEIVE_MEMORY, LOC_PROT_ERR, "9.9.3", "its memory is no longer mapped")

#define WEFT_CAUSE_NAME(name, status, clause, words) WEFT_CAUSE_##name,
enum weft_cause { WEFT_CAUSES(WEFT_CAUSE_NAME) WEFT_CAUSE_COUNT };
#undef WEFT_CAUSE_NAME

enum weft_wc_status weft_cause_status(enum weft_cause cause);

/* What is wrong with a key that was refused. */
enum weft_key_fault {
	WEFT_KEY_UNKNOWN, /* no region has it, or has it any more */
	WEFT_KEY_DOMAIN,  /* it is not the domain's */
	WEFT_KEY_RIGHT,
	WEFT_KEY_RANGE,
	WEFT_KEY_HOLDS, /* nothing is, by now */
};

/* As weft_mr_find would see it now; *entry: of the region, unless that is unknown. */
enum weft_key_fault weft_cause_of_key(struct weft_pool *pool, uint32_t key, uint64_t domain,
				      uint64_t addr, uint64_t len_bytes, uint8_t access,
				      struct weft_pool_mr *entry);
/* The first element of a list that weft_spans_find refuses; NULL: it would not, now. */
const struct weft_pool_sge *weft_cause_in_list(struct weft_pool *pool,
					       const struct weft_pool_sge *sge, unsigned int n,
					       uint64_t domain, uint8_t access);

/* A receive in error tells what was wrong where a good one tells its bytes: those of the message that
 * was too long; the lkey that did not hold; or that the memory was not there. */
#define WEFT_NO_LKEY UINT32_MAX
uint32_t weft_cause_lkey(struct weft_pool *pool, const struct weft_pool_recv *recv, unsigned int n,
			 uint64_t domain);

#endif
