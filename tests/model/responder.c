/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How a responder answers a request (9.6, 9.7.4, 9.9). The first check that fails decides: whether its queue
 * pair allows the operation; the remote key, its access and range; whether there is a receive, if one is
 * needed; whether that is long enough; whether its keys are valid.
 */
#include <string.h>

#include "request.h"

/* The responder refuses: both queue pairs go to ERR. */
static struct verdict refused(enum ibv_wc_status status, enum ibv_event_type event)
{
	return (struct verdict){FAILED, status, true, event};
}

static bool has_imm(const struct request *r)
{
	return r->opcode == IBV_WR_SEND_WITH_IMM || r->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* ---- Keys (10.6.3) and bytes ---- */

static bool holds(struct model *m, const struct qp *qp, const struct sge *sge, uint64_t length,
		  uint32_t access)
{
	const struct region *r = region_by_serial(process_of(m, qp), sge->region);

	return r && r->pd == qp->pd && (r->access & access) == access && sge->at >= r->start &&
	       sge->at + (int64_t)length <= r->start + r->length;
}

bool model_all_hold(struct model *m, const struct qp *qp, const struct sge *sge, int n,
		    uint64_t bytes, uint32_t access)
{
	for (int i = 0; i < n && bytes; i++) {
		if (sge[i].length && !holds(m, qp, &sge[i], sge[i].length, access))
			return false;
		bytes -= sge[i].length < bytes ? sge[i].length : bytes;
	}
	return true;
}

static uint8_t in_flight[SGES * ARENA_BYTES];

static uint64_t gather(struct model *m, const struct qp *qp, const struct request *r)
{
	uint64_t n = 0;

	for (int i = 0; i < r->num_sge; n += r->sge[i++].length)
		if (r->sge[i].length)
			memcpy(in_flight + n,
			       r->flags & IBV_SEND_INLINE
				       ? r->bytes + n
				       : m->memory[qp->name.process] + r->sge[i].at,
			       r->sge[i].length);
	return n;
}

static void scatter(struct model *m, const struct qp *qp, const struct sge *sge, uint64_t bytes)
{
	for (uint64_t done = 0; done < bytes; sge++) {
		uint64_t n = sge->length < bytes - done ? sge->length : bytes - done;

		if (n)
			memcpy(m->memory[qp->name.process] + sge->at, in_flight + done, n);
		done += n;
	}
	m->touched |= 1u << qp->name.process;
}

/* ---- The responder ---- */

static const struct receive *oldest_receive(const struct qp *qp)
{
	return qp->rq.done < qp->rq.posted ? &qp->receive[qp->rq.done % DEPTH] : NULL;
}

static void use_up(struct model *m, struct qp *peer, const struct request *r, uint64_t bytes,
		   enum ibv_wc_status status)
{
	struct completion c = {.of_receive = true,
			       .position = peer->rq.done,
			       .wr_id = oldest_receive(peer)->wr_id,
			       .status = status,
			       .opcode = is_send(r) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
			       .byte_len = (uint32_t)bytes,
			       .imm = r->imm,
			       .with_imm = has_imm(r)};

	peer->rq.done++;
	model_complete(m, peer, &c, r->flags & IBV_SEND_SOLICITED);
}

static struct verdict take_send(struct model *m, struct qp *qp, struct qp *peer,
				const struct request *r)
{
	const struct receive *receive = oldest_receive(peer);
	uint64_t bytes = bytes_of(r->sge, r->num_sge);

	if (!receive)
		return (struct verdict){.outcome = NO_RECEIVE};
	if (bytes > bytes_of(receive->sge, receive->num_sge)) {
		use_up(m, peer, r, 0, IBV_WC_LOC_LEN_ERR);
		return refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	}
	if (!model_all_hold(m, peer, receive->sge, receive->num_sge, bytes,
			    IBV_ACCESS_LOCAL_WRITE)) {
		use_up(m, peer, r, 0, IBV_WC_LOC_PROT_ERR);
		return refused(IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL);
	}
	gather(m, qp, r);
	scatter(m, peer, receive->sge, bytes);
	use_up(m, peer, r, bytes, IBV_WC_SUCCESS);
	return (struct verdict){0};
}

/* A queue pair whose max_dest_rd_atomic is 0 allows neither READs nor atomics. */
static bool may_be_asked(const struct qp *peer, uint32_t access)
{
	return peer->attr.access & access &&
	       (access == IBV_ACCESS_REMOTE_WRITE || peer->attr.max_dest_rd_atomic);
}

static struct verdict remote_error(struct model *m, struct qp *peer, const struct request *r,
				   uint64_t bytes, uint32_t access)
{
	if (!may_be_asked(peer, access))
		return refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	if (bytes && !holds(m, peer, &r->remote, bytes, access))
		return refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	return (struct verdict){0};
}

static struct verdict take_write(struct model *m, struct qp *qp, struct qp *peer,
				 const struct request *r)
{
	uint64_t bytes = bytes_of(r->sge, r->num_sge);
	struct verdict v = remote_error(m, peer, r, bytes, IBV_ACCESS_REMOTE_WRITE);
	struct sge to = r->remote;

	if (v.outcome)
		return v;
	if (has_imm(r) && !oldest_receive(peer))
		return (struct verdict){.outcome = NO_RECEIVE};
	to.length = (uint32_t)gather(m, qp, r);
	scatter(m, peer, &to, bytes);
	if (has_imm(r))
		use_up(m, peer, r, bytes, IBV_WC_SUCCESS);
	return v;
}

static struct verdict take_read(struct model *m, struct qp *qp, struct qp *peer,
				const struct request *r)
{
	uint64_t bytes = bytes_of(r->sge, r->num_sge);
	struct verdict v = remote_error(m, peer, r, bytes, IBV_ACCESS_REMOTE_READ);

	if (v.outcome || !bytes)
		return v;
	memcpy(in_flight, m->memory[peer->name.process] + r->remote.at, bytes);
	scatter(m, qp, r->sge, bytes);
	return v;
}

/* A region whose addresses begin at 0 may begin anywhere in memory: the address must be aligned in both. */
static bool aligned(struct model *m, const struct qp *peer, const struct sge *at)
{
	const struct region *r = region_by_serial(process_of(m, peer), at->region);
	int64_t address = r->kind == REGION_ZERO_BASED ? at->at - r->start : at->at;

	return !((address | at->at) & 7);
}

static struct verdict take_atomic(struct model *m, struct qp *qp, struct qp *peer,
				  const struct request *r)
{
	struct verdict v = remote_error(m, peer, r, 8, IBV_ACCESS_REMOTE_ATOMIC);
	uint64_t old, new;
	uint8_t *at;

	if (v.outcome)
		return v;
	if (!aligned(m, peer, &r->remote))
		return refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	at = m->memory[peer->name.process] + r->remote.at;
	memcpy(&old, at, 8);
	new = old == r->compare_add ? r->swap : old;
	if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		new = old + r->compare_add;
	memcpy(at, &new, 8);
	memcpy(in_flight, &old, 8);
	scatter(m, qp, r->sge, 8);
	m->touched |= 1u << peer->name.process;
	return v;
}

struct verdict model_respond(struct model *m, struct qp *qp, struct qp *peer,
			     const struct request *r)
{
	if (is_send(r))
		return take_send(m, qp, peer, r);
	if (is_atomic(r))
		return take_atomic(m, qp, peer, r);
	return is_reading(r) ? take_read(m, qp, peer, r) : take_write(m, qp, peer, r);
}
