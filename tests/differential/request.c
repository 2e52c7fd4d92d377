/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <string.h>

#include "request.h"

static const enum ibv_wr_opcode opcodes[] = {
	IBV_WR_SEND,	  IBV_WR_SEND_WITH_IMM,	       IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM,  IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_WR_SEND,	  IBV_WR_ATOMIC_FETCH_AND_ADD,
};
static const char *const opcode_names[] = {"WRITE", "WRITE_IMM", "SEND", "SEND_IMM",
					   "READ",  "CAS",	 "FAA"};
const uint32_t sizes[SIZES] = {1, 7, 8, 64, 100, 1000, 1024, 1025, 2048, 4096};

bool request_is_atomic(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

const char *spoil_key(struct world *world, enum buffer buffer, uint32_t *key, uint64_t *at)
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

void pick_sges(struct world *world, struct request *request, uint32_t slot, uint32_t kinds)
{
	uint64_t at = (uintptr_t)world->memory[LOCAL] + slot * SLOT_BYTES;
	int count = request_is_atomic(&request->wr) ? 1 : (int)pick(world, MAX_SGE + 1);

	if (world->simple && count > 1)
		count = 1;
	for (int i = 0; i < count; i++) {
		uint32_t length = request_is_atomic(&request->wr) ? 8 : sizes[pick(world, kinds)];

		request->sge[i] = (struct ibv_sge){
			.addr = at, .length = length, .lkey = world->all[LOCAL]->lkey};
		at += length;
		request->bytes += length;
		what("%s%u", i ? "+" : " ", length);
	}
	request->wr.sg_list = request->sge;
	request->wr.num_sge = count;
}

void pick_flags(struct world *world, struct request *request)
{
	static const char *const names[] = {"FENCE", "SIGNALED", "SOLICITED", "INLINE"};
	bool sends = request->wr.opcode != IBV_WR_RDMA_READ && !request_is_atomic(&request->wr);

	request->wr.send_flags = pick(world, 8);
	if (!world->simple && sends && request->bytes <= 64 && one_in(world, 2))
		request->wr.send_flags |= IBV_SEND_INLINE;
	what_bits("flags", request->wr.send_flags, names, COUNT(names));
}

/* Makes one thing wrong. A fault on the requester's side shows on cards only after the requests before it, on
 * rxe also earlier: so such a request is alone (`single`). */
static void pick_fault(struct world *world, struct request *request, uint64_t *remote,
		       uint32_t *rkey, bool single)
{
	bool inside = request->wr.send_flags & IBV_SEND_INLINE;

	/* of a longer message the packets before the fault may arrive */
	if (single && one_in(world, 2) && request->wr.num_sge && !inside &&
	    request->bytes <= PACKET_BYTES) {
		struct ibv_sge *sge = &request->sge[pick(world, request->wr.num_sge)];

		what(" lkey=%s", spoil_key(world, LOCAL, &sge->lkey, &sge->addr));
		request->half_done = true;
	} else if (single && request_is_atomic(&request->wr) && one_in(world, 3)) {
		what(" unaligned");
		*remote += 4;
	} else {
		what(" rkey=%s", spoil_key(world, TARGET, rkey, remote));
	}
}

/* An operation that an unreliable connection does not have is asked for alone. */
static enum ibv_wr_opcode pick_opcode(struct world *world, enum ibv_qp_type type, enum fault fault)
{
	enum ibv_wr_opcode opcode = opcodes[pick(world, COUNT(opcodes))];

	return type == IBV_QPT_RC || opcode < IBV_WR_RDMA_READ || fault == SINGLE_FAULT
		       ? opcode
		       : IBV_WR_RDMA_WRITE;
}

void pick_request(struct world *world, enum ibv_qp_type type, struct request *request,
		  uint32_t slot, enum fault fault)
{
	struct ibv_send_wr *wr = &request->wr;
	uint64_t remote = (uintptr_t)world->memory[TARGET] + slot * SLOT_BYTES;
	uint32_t rkey = world->all[TARGET]->rkey;

	*request = (struct request){0};
	wr->wr_id = slot + 1;
	wr->opcode = pick_opcode(world, type, fault);
	wr->imm_data = 0x01020304 * (slot + 1);
	what(" [%s", opcode_names[wr->opcode]);
	pick_sges(world, request, slot, SIZES);
	pick_flags(world, request);
	if (fault != NO_FAULT)
		pick_fault(world, request, &remote, &rkey, fault == SINGLE_FAULT);
	what("]");
	if (request_is_atomic(wr)) {
		wr->wr.atomic.remote_addr = remote;
		wr->wr.atomic.rkey = rkey;
		if (one_in(world, 2)) /* the value that is there */
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

void post_receive(struct world *world, struct pair *pair, int end, uint32_t slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)world->memory[RECEIVE] + slot * SLOT_BYTES,
			      .length = SLOT_BYTES,
			      .lkey = world->all[RECEIVE]->lkey};
	struct ibv_recv_wr wr = {.wr_id = FIRST_RECV + slot, .sg_list = &sge, .num_sge = 1}, *bad;
	int result;

	what(" (recv");
	if (one_in(world, 3)) {
		sge.length = sizes[pick(world, SIZES)];
		what(" %u", sge.length);
	}
	if (one_in(world, 8)) {
		wr.num_sge = 0;
		what(" empty");
	} else if (one_in(world, 8)) {
		what(" lkey=%s", spoil_key(world, RECEIVE, &sge.lkey, &sge.addr));
	}
	what(")");
	result = pair->srq && end ? ibv_post_srq_recv(pair->srq, &wr, &bad)
				  : ibv_post_recv(pair->qp[end], &wr, &bad);
	if (result)
		outcome_errno("post_recv", result);
	else
		pair->receives[end]++;
}

/* ---- Posting ---- */

static void build_operation(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	uint64_t at = wr->wr.rdma.remote_addr;
	uint32_t key = wr->wr.rdma.rkey;

	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qp, key, at);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qp, key, at, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qp, key, at);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(qp, wr->imm_data);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	default:
		ibv_wr_send(qp);
		break;
	}
}

/* librxe 44 mistakes the length of lists, and inline bytes: world.simple avoids both. */
static void build_bytes(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	if (wr->num_sge)
		ibv_wr_set_sge(qp, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
	else
		ibv_wr_set_sge_list(qp, 0, NULL);
}

static uint64_t post_extended(struct pair *pair, const struct request *requests, uint32_t count)
{
	struct ibv_qp_ex *qp = pair->qp_ex;
	int result;

	ibv_wr_start(qp);
	for (uint32_t i = 0; i < count; i++) {
		const struct ibv_send_wr *wr = &requests[i].wr;

		qp->wr_id = wr->wr_id;
		qp->wr_flags = wr->send_flags;
		build_operation(qp, wr);
		build_bytes(qp, wr);
		if (qp->qp_base.qp_type == IBV_QPT_UD)
			ibv_wr_set_ud_addr(qp, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
					   wr->wr.ud.remote_qkey);
	}
	if (pair->aborts) {
		ibv_wr_abort(qp);
		return 0;
	}
	result = ibv_wr_complete(qp);
	outcome_errno("complete", result);
	return result ? 0 : count;
}

uint64_t post_list(struct pair *pair, struct request *requests, uint32_t count)
{
	struct ibv_send_wr *bad = NULL;
	int result;

	if (pair->qp_ex)
		return post_extended(pair, requests, count);
	for (uint32_t i = 0; i + 1 < count; i++)
		requests[i].wr.next = &requests[i + 1].wr;
	result = ibv_post_send(pair->qp[0], &requests[0].wr, &bad);
	outcome_errno("post", result);
	if (!result)
		return count;
	outcome("bad=%d", bad ? (int)bad->wr_id : 0);
	return bad ? bad->wr_id - 1 : 0;
}
