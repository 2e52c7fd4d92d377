/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Requests are posted (11.4.1), and carried out in order. Before it sends anything the requester checks the
 * length of the message, then whether it may have such a request outstanding, then the keys of its elements.
 * The responder's answer, or its silence, ends the request and maybe the connection (9.7.5, 9.9).
 */
#include <errno.h>
#include <string.h>

#include "request.h"

#define MOST_BYTES (1ull << 31)

static struct verdict local_error(enum ibv_wc_status status)
{
	return (struct verdict){.outcome = FAILED, .status = status};
}

/* ---- Carrying out ---- */

/* The queue pair that answers: the destination, if it is connected back to this one and can receive. */
static struct qp *answering_peer(struct model *m, const struct qp *qp)
{
	struct qp *peer = model_qp(m, qp->dest);

	return peer && peer->dest == qp->serial &&
			       (peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS ||
				peer->state == IBV_QPS_SQD)
		       ? peer
		       : NULL;
}

static struct verdict carry_out(struct model *m, struct qp *qp, const struct request *r)
{
	uint64_t bytes = bytes_of(r->sge, r->num_sge);
	struct qp *peer;

	if (bytes > MOST_BYTES || (is_atomic(r) && bytes != 8))
		return local_error(IBV_WC_LOC_LEN_ERR);
	if (is_reading(r) && !qp->attr.max_rd_atomic)
		return local_error(IBV_WC_LOC_QP_OP_ERR);
	if (!(r->flags & IBV_SEND_INLINE) &&
	    !model_all_hold(m, qp, r->sge, r->num_sge, bytes,
			    is_reading(r) ? IBV_ACCESS_LOCAL_WRITE : 0))
		return local_error(IBV_WC_LOC_PROT_ERR);
	peer = answering_peer(m, qp);
	return peer ? model_respond(m, qp, peer, r) : (struct verdict){.outcome = NO_ANSWER};
}

static enum ibv_wc_opcode completion_opcode(const struct request *r)
{
	switch (r->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

static void finish(struct model *m, struct qp *qp, enum ibv_wc_status status)
{
	const struct request *r = &qp->request[qp->sq.done % DEPTH];
	struct completion c = {.position = qp->sq.done++,
			       .wr_id = r->wr_id,
			       .status = status,
			       .opcode = completion_opcode(r),
			       .byte_len = (uint32_t)bytes_of(r->sge, r->num_sge)};

	if (status || qp->signal_all || r->flags & IBV_SEND_SIGNALED)
		model_complete(m, qp, &c, false);
}

void model_flush(struct model *m, struct qp *qp)
{
	while (qp->rq.done < qp->rq.posted) {
		struct completion c = {.of_receive = true,
				       .position = qp->rq.done,
				       .wr_id = qp->receive[qp->rq.done % DEPTH].wr_id,
				       .status = IBV_WC_WR_FLUSH_ERR};

		qp->rq.done++;
		model_complete(m, qp, &c, false);
	}
	while (qp->sq.done < qp->sq.posted)
		finish(m, qp, IBV_WC_WR_FLUSH_ERR);
}

bool model_waits(const struct qp *qp)
{
	return qp->serial && ((qp->state == IBV_QPS_RTS && qp->sq.done < qp->sq.posted) ||
			      (qp->state == IBV_QPS_SQD && qp->sq.done < qp->begun));
}

/* Whether it waits without an end: rnr_retry 7 and timeout 0 do; other codes stand for counters (9.7.5.2)
 * that run out at once here. */
static bool is_patient(const struct qp *qp, enum outcome outcome)
{
	return (outcome == NO_RECEIVE && qp->attr.rnr_retry == 7) ||
	       (outcome == NO_ANSWER && qp->attr.timeout == 0);
}

static void blame(struct model *m, struct qp *peer, enum ibv_event_type event)
{
	model_fail(m, peer);
	model_raise(m, peer, event);
}

/* Carries out the oldest request. Returns whether it has ended. */
static bool try(struct model *m, struct qp *qp)
{
	struct qp *peer = model_qp(m, qp->dest);
	struct verdict v;

	m->touched |= 1u << qp->name.process;
	v = carry_out(m, qp, &qp->request[qp->sq.done % DEPTH]);
	if (is_patient(qp, v.outcome))
		return false;
	/* of a queue pair connected to itself: a card makes the responder fail before it completes the
	 * request */
	if (v.nak && peer == qp && m->carried) {
		blame(m, qp, v.event);
		return true;
	}
	if (v.outcome == NO_RECEIVE)
		v.status = IBV_WC_RNR_RETRY_EXC_ERR;
	else if (v.outcome == NO_ANSWER)
		v.status = IBV_WC_RETRY_EXC_ERR;
	finish(m, qp, v.status);
	if (v.status)
		model_fail(m, qp);
	/* a queue pair connected to itself has failed already, and gets no event */
	if (v.nak && peer != qp)
		blame(m, peer, v.event);
	return true;
}

void model_run(struct model *m)
{
	for (bool again = true; again;) {
		again = false;
		for (int p = 0; p < m->processes; p++)
			for (int i = 0; i < QPS; i++)
				while (model_waits(&m->process[p].qp[i]) &&
				       try(m, &m->process[p].qp[i]))
					again = true;
	}
}

/* ---- Posting ---- */

static struct sge sge_of(struct model *m, const struct step_sge *s)
{
	const struct name *n = &s->key.region;
	bool is = s->key.kind == KEY_OF && n->process < m->processes;

	return (struct sge){is ? m->process[n->process].region[n->slot].serial : 0, s->at,
			    s->length};
}

/* A slot is free again when the completion of its request, or of a later one, has been polled. */
static bool is_full(const struct queue *q, uint32_t depth)
{
	return q->posted - q->freed >= depth;
}

struct answer model_post_recv(struct model *m, struct qp *qp, const struct step *s)
{
	for (int i = 0; i < s->count; i++) {
		const struct step_receive *from = &s->receive[i];
		struct receive *to = &qp->receive[qp->rq.posted % DEPTH];

		if (qp->state == IBV_QPS_RESET || from->num_sge > qp->cap.max_recv_sge)
			return (struct answer){EINVAL, i};
		if (is_full(&qp->rq, qp->cap.max_recv_wr))
			return (struct answer){ENOMEM, i};
		to->wr_id = from->wr_id;
		to->num_sge = from->num_sge;
		for (int k = 0; k < from->num_sge; k++)
			to->sge[k] = sge_of(m, &from->sge[k]);
		qp->rq.posted++;
		if (qp->state == IBV_QPS_ERR)
			model_flush(m, qp);
	}
	return (struct answer){0, s->count};
}

/* Inline bytes are copied while posting: no key is checked, and the program may change them afterwards. */
static int take_inline(struct model *m, const struct qp *qp, const struct step_send *from,
		       struct request *to)
{
	uint64_t bytes = 0;

	if (from->opcode == IBV_WR_RDMA_READ || from->opcode >= IBV_WR_ATOMIC_CMP_AND_SWP)
		return EINVAL;
	for (int i = 0; i < from->num_sge; bytes += from->sge[i++].length) {
		if (bytes + from->sge[i].length > qp->cap.max_inline_data)
			return ENOMEM;
		memcpy(to->bytes + bytes, m->memory[qp->name.process] + from->sge[i].at,
		       from->sge[i].length);
	}
	return 0;
}

static int post_one(struct model *m, struct qp *qp, const struct step_send *from)
{
	struct request *to = &qp->request[qp->sq.posted % DEPTH];
	int err = 0;

	if (qp->state < IBV_QPS_RTS || from->opcode > IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    from->num_sge > qp->cap.max_send_sge)
		return EINVAL;
	if (is_full(&qp->sq, qp->cap.max_send_wr))
		return ENOMEM;
	*to = (struct request){.wr_id = from->wr_id,
			       .opcode = from->opcode,
			       .flags = from->flags,
			       .imm = from->imm,
			       .num_sge = from->num_sge,
			       .remote = sge_of(m, &from->remote),
			       .compare_add = from->compare_add,
			       .swap = from->swap};
	for (int i = 0; i < from->num_sge; i++)
		to->sge[i] = sge_of(m, &from->sge[i]);
	if (from->flags & IBV_SEND_INLINE)
		err = take_inline(m, qp, from, to);
	if (err)
		return err;
	qp->sq.posted++;
	return 0;
}

struct answer model_post_send(struct model *m, struct qp *qp, const struct step *s)
{
	for (int i = 0; i < s->count; i++) {
		int err = post_one(m, qp, &s->send[i]);

		if (err)
			return (struct answer){err, i};
		if (qp->state == IBV_QPS_ERR)
			model_flush(m, qp);
		while (model_waits(qp) && try(m, qp))
			;
	}
	return (struct answer){0, s->count};
}
