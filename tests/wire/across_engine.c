/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "across.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lan.h"

#define KEY 0x00c0ffeeu
#define VA  0x5500000000ull /* not where it lies */

bool end_is_rxe(void)
{
	return false;
}

static struct lan lan;
static struct memory memory;
static struct weft_roce_config mine;
static struct lan_qp *q;
static uint32_t opened;

void end_kind(const char *kind)
{
	fprintf(stderr, "memory is of one kind here\n");
	exit(2);
}

uint8_t *end_begin(const char *where, const char *interface, uint64_t bytes)
{
	lan_open(&lan, where, interface);
	memory = (struct memory){.bytes = calloc(1, bytes), .size = bytes, .va = VA, .key = KEY};
	if (!memory.bytes)
		lan_fail("memory");
	return memory.bytes;
}

void end_pull(void)
{
}

void end_push(void)
{
}

void end_spoil(const char *how)
{
	struct weft_fault_config c;

	if (sscanf(how, "%u,%u,%u,%u,%lu", &c.lost, &c.doubled, &c.late, &c.corrupted, &c.seed) !=
	    5) {
		fprintf(stderr, "%s: not LOST,DOUBLED,LATE,CORRUPTED,SEED\n", how);
		exit(2);
	}
	lan_spoil(&lan, &c);
}

void end_open(const struct across_config *config, struct across_name *name)
{
	mine = (struct weft_roce_config){
		.service = config->unreliable ? WEFT_ROCE_UC : WEFT_ROCE_RC,
		.qpn = 0x1000 + opened++,
		.pkey = 0xffff,
		.mtu = config->mtu,
		.sq_psn = 0xfffff0,
		.timeout = 16,
		.retry_cnt = config->retry_cnt,
		.rnr_retry = config->rnr_retry,
		.min_rnr_timer = 8,
		.max_rd_atomic = 16,
		.max_dest_rd_atomic = config->max_dest_rd_atomic,
	};
	memory.rights = config->rights;
	memory.key_rights = config->key_rights;
	q = NULL;
	*name = (struct across_name){.va = VA, .rkey = KEY, .qpn = mine.qpn, .psn = mine.sq_psn};
	memcpy(name->gid, lan.address, 16);
	if (config->silent)
		name->qpn += 0x1000;
}

void end_connect(const struct across_name *peer)
{
	memcpy(mine.route.dst, peer->gid, 16);
	mine.dest_qpn = peer->qpn;
	mine.rq_psn = peer->psn;
	q = lan_connect(&lan, &mine, &memory);
}

void end_close(void)
{
	lan_disconnect(q);
}

bool end_send(const struct across_request *request)
{
	const struct weft_roce_request r = {
		.opcode = request->opcode,
		.length = request->length,
		.remote_addr = request->remote_addr,
		.rkey = request->rkey,
		.imm = request->imm,
		.compare_add = request->compare_add,
		.swap = request->swap,
	};

	return lan_post(q, &r, memory.bytes + request->at, 0);
}

void end_receive(uint64_t at, uint64_t bytes)
{
	if (!lan_receive(q, memory.bytes + at, bytes, 0))
		lan_fail("no room for a receive");
}

static int status_of(enum weft_cause cause)
{
#define STATUS_OF(name, status, clause, words) [WEFT_CAUSE_##name] = WEFT_WC_##status,
	static const uint8_t statuses[] = {WEFT_CAUSES(STATUS_OF)};
#undef STATUS_OF

	return statuses[cause];
}

bool end_poll(struct across_done *done)
{
	struct lan_done d;

	if (!lan_poll(q, &d))
		return false;
	*done = (struct across_done){
		.receive = d.receive,
		.with_imm = d.what.with_imm,
		.status = status_of(d.cause),
		.bytes = d.what.bytes,
		.imm = d.what.imm,
	};
	return true;
}

bool end_turn(int fd)
{
	return lan_turn(&lan, fd, 20);
}

enum weft_event end_event(enum weft_event expected)
{
	return q->event;
}

void end_say(void)
{
	lan_turn(&lan, -1, 20);
	lan_say(&lan);
	lan_close(&lan);
	free(memory.bytes);
}
