/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One end of a connection as across.c sees it: by libibverbs (across_verbs.c), or by the engine on
 * a socket (across_engine.c). There is one at a time. Trouble of the system ends the program with a
 * line.
 */
#ifndef WEFT_TESTS_WIRE_ACROSS_H
#define WEFT_TESTS_WIRE_ACROSS_H

#include "nic/types.h"

#define ACROSS_DEPTH 32u /* of both queues */

struct across_config {
	uint32_t mtu; /* bytes */
	bool unreliable;
	uint8_t retry_cnt, rnr_retry, max_dest_rd_atomic;
	uint8_t rights, key_rights; /* of the queue pair, and of the key: WEFT_ACCESS_REMOTE_* */
	bool silent;		    /* takes no part: the peer hears nothing */
	uint8_t timeout; /* libibverbs: code of the time-out. Of few retries each waits the longer */
};

/* What the peer must know; plain bytes. */
struct across_name {
	uint8_t gid[16];
	uint64_t va;
	uint32_t rkey, qpn, psn;
	bool is_rxe;
};

struct across_request {
	enum weft_opcode opcode;
	uint64_t at, length; /* in own memory */
	uint64_t remote_addr;
	uint32_t rkey, imm;
	uint64_t compare_add, swap;
};

struct across_done {
	bool receive, with_imm;
	int status;	/* WEFT_WC_*, which are libibverbs' numbers */
	uint64_t bytes; /* of a receive */
	uint32_t imm;
};

/* Of which kind the side's memory is, before it is made. */
void end_kind(const char *kind);
/* Makes the side's memory, of so many bytes. where: an address, or an index of a GID; interface: NULL, or that
 * of the address, if it is link-local. */
uint8_t *end_begin(const char *where, const char *interface, uint64_t bytes);
/* That is what the script sees; what verbs see may be other memory, from which it is brought, or to which. */
void end_pull(void);
void end_push(void);
/* From now on the datagrams of this end are spoiled: LOST,DOUBLED,LATE,CORRUPTED,SEED, the first four out of 65,536. */
void end_spoil(const char *how);
void end_open(const struct across_config *config, struct across_name *name);
void end_connect(const struct across_name *peer);
void end_close(void);
/* false: refused. */
bool end_send(const struct across_request *request);
void end_receive(uint64_t at, uint64_t bytes);
bool end_poll(struct across_done *done);
/* Something to do while waiting for fd (-1: nothing), for some milliseconds at most. Whether fd is
 * readable. */
bool end_turn(int fd);
/* The event that this end's responder has raised, or COMM_EST if none. One that is expected is waited for. Not to be asked of
 * rxe, which raises none. */
enum weft_event end_event(enum weft_event expected);
bool end_is_rxe(void);
void end_say(void);

#endif
