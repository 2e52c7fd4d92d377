/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cases of requests between connected queue pairs, good and bad, and of posting in each state. */
#include <string.h>

#include "cases.h"

#define MAX_SGE	     3
#define FIRST_RECV   101 /* wr_id */
#define PACKET_BYTES 1024

static const enum ibv_wr_opcode opcodes[] = {
	IBV_WR_SEND,	  IBV_WR_SEND_WITH_IMM,	       IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM,  IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_WR_SEND,	  IBV_WR_ATOMIC_FETCH_AND_ADD,
};
static const char *const opcode_names[] = {"WRITE", "WRITE_IMM", "SEND", "SEND_IMM",
					   "READ",  "CAS",	 "FAA"};
static const uint32_t sizes[] = {1, 7, 8, 64, 100, 1000, 1024, 1025, 2048, 4096};

struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge[MAX_SGE];
	uint32_t bytes;
	bool half_done; /* an atomic without a place for its answer, which cards notice at the end
			 */
};

static bool is_atomic(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* What is wrong with a key or a place of the buffer, if anything. */
static const char *spoil_key(struct world *world, enum buffer buffer, uint32_t *key, uint64_t *at)
{
	switch (pick(world, 6)) {
	case 0:
		*key ^= 0x5a00;
		return "wrong";
	case 1:
		*key = world->dead_key;
		return "dead";
	case 2:
		*key = world->foreign[buffer]->lkey;
		return "other-domain";
	case 3:
		*key = world->none[buffer]->lkey;
		return "no-rights";
	case 4:
		*at += BUFFER_BYTES;
		return "beyond";
	default:
		*at -= BUFFER_BYTES;
		return "before";
	}
}

static void pick_sges(struct world *world, struct request *request, uint32_t slot)
{
	uint64_t at = (uintptr_t)world->memory[LOCAL] + slot * SLOT_BYTES;
	int count = is_atomic(&request->wr) ? 1 : (int)pick(world, MAX_SGE + 1);

	for (int i = 0; i < count; i++) {
		uint32_t length = is_atomic(&request->wr) ? 8 : sizes[pick(world, COUNT(sizes))];

		request->sge[i] = (struct ibv_sge){
			.addr = at, .length = length, .lkey = world->all[LOCAL]->lkey};
		at += length;
		request->bytes += length;
		what("%s%u", i ? "+" : " ", length);
	}
	request->wr.sg_list = request->sge;
	request->wr.num_sge = count;
}

static void pick_flags(struct world *world, struct request *request)
{
	static const char *const names[] = {"FENCE", "SIGNALED", "SOLICITED", "INLINE"};
	bool sends = request->wr.opcode != IBV_WR_RDMA_READ && !is_atomic(&request->wr);

	request->wr.send_flags = pick(world, 8);
	if (sends && request->bytes <= 64 && one_in(world, 2))
		request->wr.send_flags |= IBV_SEND_INLINE;
	what_bits("flags", request->wr.send_flags, names, COUNT(names));
}

/* One thing that is wrong. A local fault shows on cards only after what was posted before, on rxe
 * also before that: it is alone (`single`). */
static void pick_fault(struct world *world, struct request *request, uint64_t *remote,
		       uint32_t *rkey, bool single)
{
	bool inside = request->wr.send_flags & IBV_SEND_INLINE;

	/* Of a longer message, the packets before may arrive. */
	if (single && one_in(world, 2) && request->wr.num_sge && !inside &&
	    request->bytes <= PACKET_BYTES) {
		struct ibv_sge *sge = &request->sge[pick(world, request->wr.num_sge)];

		what(" lkey=%s", spoil_key(world, LOCAL, &sge->lkey, &sge->addr));
		request->half_done = true;
	} else if (single && is_atomic(&request->wr) && one_in(world, 3)) {
		what(" unaligned");
		*remote += 4;
	} else {
		what(" rkey=%s", spoil_key(world, TARGET, rkey, remote));
	}
}

enum fault { NO_FAULT, FAULT, SINGLE_FAULT };

static void pick_request(struct world *world, struct request *request, uint32_t slot,
			 enum fault fault)
{
	struct ibv_send_wr *wr = &request->wr;
	uint64_t remote = (uintptr_t)world->memory[TARGET] + slot * SLOT_BYTES;
	uint32_t rkey = world->all[TARGET]->rkey;

	*request = (struct request){0};
	wr->wr_id = slot + 1;
	wr->opcode = opcodes[pick(world, COUNT(opcodes))];
	wr->imm_data = 0x01020304 * (slot + 1);
	what(" [%s", opcode_names[wr->opcode]);
	pick_sges(world, request, slot);
	pick_flags(world, request);
	if (fault != NO_FAULT)
		pick_fault(world, request, &remote, &rkey, fault == SINGLE_FAULT);
	what("]");
	if (is_atomic(wr)) {
		wr->wr.atomic.remote_addr = remote;
		wr->wr.atomic.rkey = rkey;
		if (one_in(world, 2)) /* what is there */
			memcpy(&wr->wr.atomic.compare_add,
			       world->memory[TARGET] + slot * SLOT_BYTES, 8);
		else
			wr->wr.atomic.compare_add = pick(world, 1000);
		wr->wr.atomic.swap = pick(world, 1000);
	} else {
		wr->wr.rdma.remote_addr = remote;
		wr->wr.rdma.rkey = rkey;
	}
}

/* Posts a receive to that end, told: large enough for all, small, or wrong. */
static void post_receive(struct world *world, struct pair *pair, int end, uint32_t slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)world->memory[RECEIVE] + slot * SLOT_BYTES,
			      .length = SLOT_BYTES,
			      .lkey = world->all[RECEIVE]->lkey};
	struct ibv_recv_wr wr = {.wr_id = FIRST_RECV + slot, .sg_list = &sge, .num_sge = 1}, *bad;
	int result;

	what(" (recv");
	if (one_in(world, 3)) {
		sge.length = sizes[pick(world, COUNT(sizes))];
		what(" %u", sge.length);
	}
	if (one_in(world, 8)) {
		wr.num_sge = 0;
		what(" empty");
	} else if (one_in(world, 8)) {
		what(" lkey=%s", spoil_key(world, RECEIVE, &sge.lkey, &sge.addr));
	}
	what(")");
	result = ibv_post_recv(pair->qp[end], &wr, &bad);
	if (result)
		outcome_errno("post_recv", result);
	else
		pair->receives[end]++;
}

/* Posts the list; returns the wr_id of the last that was taken. */
static uint64_t post(struct pair *pair, struct request *requests, uint32_t count)
{
	struct ibv_send_wr *bad = NULL;
	int result;

	for (uint32_t i = 0; i + 1 < count; i++)
		requests[i].wr.next = &requests[i + 1].wr;
	result = ibv_post_send(pair->qp[0], &requests[0].wr, &bad);
	outcome_errno("post", result);
	if (!result)
		return count;
	outcome("bad=%d", bad ? (int)bad->wr_id : 0);
	return bad ? bad->wr_id - 1 : 0;
}

static void lower_rights(struct world *world, struct wish *wish)
{
	wish->access = pick(world, 8) << 1;
	what(" access=%x", wish->access);
}

/* Whether each request that fails has changed nothing. */
static bool whole_or_nothing(const struct request *requests, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (requests[i].bytes > PACKET_BYTES || requests[i].half_done)
			return false;
	}
	return true;
}

void case_traffic(struct world *world)
{
	uint32_t count = 1 + pick(world, SLOTS),
		 receives = one_in(world, 4) ? pick(world, SLOTS) : SLOTS;
	uint32_t faulty; /* which request; SLOTS: none */
	struct request requests[SLOTS] = {0};
	struct wish wish = usual;
	struct pair pair;
	uint64_t last;
	bool good;

	wish.sig_all = one_in(world, 4);
	world_fill(world);
	what("traffic%s", wish.sig_all ? " sig_all" : "");
	faulty = one_in(world, 2) ? pick(world, count) : SLOTS;
	if (faulty == SLOTS && one_in(world, 2))
		lower_rights(world, &wish);
	pair_open(world, &pair, &wish);
	pair_move(world, &pair, 0, IBV_QPS_RTS, &wish);
	pair_move(world, &pair, 1, one_in(world, 5) ? IBV_QPS_RTR : IBV_QPS_RTS, &wish);
	what(" peer=%s", state_name(qp_state(pair.qp[1])));
	for (uint32_t i = 0; i < receives; i++)
		post_receive(world, &pair, 1, i);
	for (uint32_t i = 0; i < count; i++)
		pick_request(world, &requests[i], i,
			     i != faulty  ? NO_FAULT
			     : count == 1 ? SINGLE_FAULT
					  : FAULT);
	requests[count - 1].wr.send_flags |= IBV_SEND_SIGNALED; /* says when all is done */
	last = post(&pair, requests, count);
	good = tell_completions(world, &pair, last);
	if (good || whole_or_nothing(requests, count))
		outcome("data=%08x", world_digest(world));
	pair_close(&pair);
}

void case_post_in_state(struct world *world)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						   IBV_QPS_SQD,	  IBV_QPS_ERR,	IBV_QPS_RTS};
	enum ibv_qp_state state = states[pick(world, COUNT(states))];
	struct request request;
	uint64_t last;
	struct pair pair;

	what("post in %s", state_name(state));
	pair_open(world, &pair, &usual);
	if (state != IBV_QPS_RESET)
		pair_move(world, &pair, 0, state, &usual);
	pair_move(world, &pair, 1, IBV_QPS_RTS, &usual);
	if (one_in(world, 2))
		post_receive(world, &pair, 0, 0);
	post_receive(world, &pair, 1, 1);
	pick_request(world, &request, 2, one_in(world, 4) ? SINGLE_FAULT : NO_FAULT);
	request.wr.wr_id = 1;
	request.wr.send_flags |= IBV_SEND_SIGNALED;
	last = post(&pair, &request, 1);
	/* Elsewhere the request waits. */
	tell_completions(world, &pair, state == IBV_QPS_RTS || state == IBV_QPS_ERR ? last : 0);
	pair_move(world, &pair, 0, IBV_QPS_ERR, &usual);
	tell_completions(world, &pair, state == IBV_QPS_RTS || state == IBV_QPS_ERR ? 0 : last);
	pair_close(&pair);
}
