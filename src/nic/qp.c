/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queue pairs: creation, the state machine's effects, errors, destruction. */
#include "nic/cq.h"
#include "nic/errors.h"
#include "nic/limits.h"
#include "nic/nic.h"
#include "nic/place.h"
#include "nic/qp.h"
#include "nic/queues.h"
#include "nic/source.h"
#include "nic/submit.h"
#include "nic/wqe.h"
#include "pool/step.h"
#include "pool/format.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"
#include "pool/format_queue.h"
#include "pool/sizes.h"

/* ---- What peers see ---- */

static void publish_qp(struct weft_qp *qp, enum weft_pool_conn conn)
{
	struct weft_pool_qp *slot = qp->slot;
	uint64_t seq = atomic_load_explicit(&slot->conn, memory_order_relaxed) >> 32;

	/* readers take the line only between two equal looks at a READY word */
	atomic_store_explicit(&slot->conn, (seq + 1) << 32, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	WEFT_STEP(qp_line_opened);
	weft_store(&slot->rq_off, qp->rq_off);
	weft_store(&slot->rq_size, qp->rq_size);
	weft_store(&slot->rq_stride, qp->rq_stride);
	weft_store(&slot->pd, qp->pd);
	weft_store(&slot->owner, qp->nic->pool->me);
	weft_store(&slot->type, qp->type);
	weft_store(&slot->state, qp->state);
	weft_store(&slot->access, qp->attr.access);
	weft_store(&slot->min_rnr_timer, qp->attr.min_rnr_timer);
	weft_store(&slot->rq_psn, qp->attr.rq_psn);
	weft_store(&slot->hand_off, qp->hand_off);
	weft_store(&slot->ring_off, qp->ring_off);
	weft_store(&slot->qkey, qp->type == WEFT_QPT_XRC_RECV ? qp->xrcd : qp->attr.qkey);
	WEFT_STEP(qp_line_written);
	atomic_store_explicit(&slot->conn,
			      (seq + 2) << 32 | (uint64_t)conn << 24 | qp->attr.dest_qpn,
			      memory_order_release);
}

/* False: an executor that stands still may yet go on with what it was doing. */
static bool shut_out_peers(struct weft_qp *qp, enum weft_pool_conn conn)
{
	bool was_open = qp->slot->ring_off;

	publish_qp(qp, conn);
	WEFT_STEP(qp_published);
	return !was_open || !qp->nic->pool->calls->quiesce(qp->nic->pool, qp->index, qp->made);
}

/* Their completions have been taken in; what comes later is of no connection. */
static void end_connection(struct weft_qp *qp)
{
	weft_lock(qp->nic, &qp->recv_cq->lock, 0);
	if (qp->srq)
		weft_lock(qp->nic, &qp->srq->lock, 0);
	/* read by peers between two equal looks at conn, as the rest of the line */
	weft_store(&qp->slot->connection, (uint8_t)(qp->slot->connection + 1));
	qp->tag = qp->qpn | (uint32_t)qp->slot->connection << 24;
	if (qp->srq)
		weft_unlock(&qp->srq->lock, false);
	weft_unlock(&qp->recv_cq->lock, false);
}

/* ---- Creating ---- */

static int check_cap(const struct weft_qp_cap *cap)
{
	return cap->max_send_wr > WEFT_MAX_WR || cap->max_recv_wr > WEFT_MAX_WR ||
			       cap->max_send_sge > WEFT_MAX_SGE ||
			       cap->max_recv_sge > WEFT_MAX_SGE ||
			       cap->max_inline_bytes > WEFT_MAX_INLINE
		       ? -EINVAL
		       : 0;
}

static uint32_t opcodes_of(enum weft_qp_type type)
{
	const uint32_t sends = 1u << WEFT_OP_SEND | 1u << WEFT_OP_SEND_IMM;
	const uint32_t local = 1u << WEFT_OP_LOCAL_INV | 1u << WEFT_OP_BIND_MW;

	switch (type) {
	case WEFT_QPT_RC:
		return sends | local | 1u << WEFT_OP_WRITE | 1u << WEFT_OP_WRITE_IMM |
		       1u << WEFT_OP_READ | 1u << WEFT_OP_CMP_SWAP | 1u << WEFT_OP_FETCH_ADD |
		       1u << WEFT_OP_SEND_INV | 1u << WEFT_OP_ATOMIC_WRITE;
	case WEFT_QPT_XRC_SEND:
		return sends | 1u << WEFT_OP_WRITE | 1u << WEFT_OP_WRITE_IMM | 1u << WEFT_OP_READ |
		       1u << WEFT_OP_CMP_SWAP | 1u << WEFT_OP_FETCH_ADD | 1u << WEFT_OP_SEND_INV |
		       1u << WEFT_OP_ATOMIC_WRITE;
	case WEFT_QPT_UC:
		return sends | local | 1u << WEFT_OP_WRITE | 1u << WEFT_OP_WRITE_IMM;
	case WEFT_QPT_UD:
		return sends;
	case WEFT_QPT_XRC_RECV:
		break;
	}
	return 0;
}

static int make_send_queue(struct weft_qp *qp)
{
	uint32_t lists = qp->cap.max_send_sge * (uint32_t)sizeof(struct weft_pool_sge);
	uint32_t payload = lists > qp->cap.max_inline_bytes ? lists : qp->cap.max_inline_bytes;

	qp->sq_size = weft_queue_slots(qp->cap.max_send_wr);
	qp->sq_stride = (uint32_t)(sizeof(struct weft_wqe) + payload + 63) & ~63u;
	/* programs that ask for no inline bytes count on the room that a list takes, which network cards give */
	payload = qp->sq_stride - (uint32_t)sizeof(struct weft_wqe);
	qp->cap.max_inline_bytes = payload < WEFT_MAX_INLINE ? payload : WEFT_MAX_INLINE;
	qp->sq = weft_nic_alloc(qp->nic, (size_t)qp->sq_size * qp->sq_stride);
	return qp->sq ? 0 : -ENOMEM;
}

static uint64_t receive_bytes(const struct weft_qp *qp)
{
	return (uint64_t)qp->rq_size * qp->rq_stride;
}

static int receive_from(struct weft_qp *qp, struct weft_srq *q)
{
	int err = weft_source_attach(qp->recv_cq, q);

	if (err)
		return err;
	qp->srq = q;
	qp->rq_off = q->first.off;
	qp->made = q->made;
	return 0;
}

/* A receive queue of its own from which many members take. */
static int make_own_srq(struct weft_qp *qp)
{
	struct weft_nic *nic = qp->nic;
	struct weft_srq *q = weft_nic_alloc(nic, sizeof(*q));
	int err = -ENOMEM;

	if (!q)
		return err;
	err = weft_srq_create(nic, q, qp->pd, qp->cap.max_recv_wr, qp->cap.max_recv_sge);
	if (err)
		goto free_object;
	err = receive_from(qp, q);
	if (err)
		goto destroy_queue;
	qp->owns_srq = true;
	return 0;
destroy_queue:
	weft_srq_destroy(q, true);
free_object:
	weft_nic_free(nic, q);
	return err;
}

static void free_srq(struct weft_qp *qp, bool quiet)
{
	weft_srq_leave(qp->srq, qp);
	weft_source_detach(qp->recv_cq, qp->srq);
	if (!qp->owns_srq)
		return;
	weft_srq_destroy(qp->srq, quiet);
	weft_nic_free(qp->nic, qp->srq);
}

static int make_receive_queue(struct weft_qp *qp)
{
	uint64_t off;
	int err;

	if (qp->type == WEFT_QPT_UD)
		return make_own_srq(qp);
	qp->rq_size = weft_queue_slots(qp->cap.max_recv_wr);
	qp->rq_stride = (uint32_t)(sizeof(struct weft_pool_recv) +
				   qp->cap.max_recv_sge * sizeof(struct weft_pool_sge));
	err = qp->nic->pool->calls->alloc(qp->nic->pool, receive_bytes(qp), &off);
	if (err)
		return err;
	qp->made = weft_pool_age(qp->nic->pool);
	qp->rq_off = off;
	qp->rq = qp->nic->pool->base + off;
	return 0;
}

/* ---- All queue pairs, counted from where numbers begin in this pool ---- */

static uint32_t first(const struct weft_nic *nic)
{
	uint32_t numbers = atomic_load_explicit(&nic->pool->leases->numbers, memory_order_relaxed);

	return WEFT_NUMBERS_BLOCK(numbers) * WEFT_QP_BLOCK;
}

static uint32_t qps_end(const struct weft_nic *nic)
{
	return atomic_load_explicit(&nic->qps_end, memory_order_relaxed);
}

static struct weft_qp *nth(const struct weft_nic *nic, uint32_t i)
{
	return nic->qps[(first(nic) + i) % WEFT_QPS];
}

/* The nic's lock is held. */
static void enter(struct weft_nic *nic, struct weft_qp *qp)
{
	uint32_t i = (qp->index - first(nic)) % WEFT_QPS;

	if (i >= qps_end(nic))
		atomic_store_explicit(&nic->qps_end, i + 1, memory_order_relaxed);
	nic->qps[qp->index] = qp;
}

/* It is neither 0, 1 nor 0xffffff, as those indexes are never given out. */
uint32_t weft_qp_number(const struct weft_pool *pool, struct weft_pool_qp *slot, uint32_t index)
{
	uint32_t added = WEFT_NUMBERS_ADDED(
		atomic_load_explicit(&pool->leases->numbers, memory_order_relaxed));

	weft_store(&slot->generation, (uint8_t)(slot->generation + 1));
	return index | ((slot->generation + added) & 63) << WEFT_QP_INDEX_BITS;
}

int weft_qp_create(struct weft_nic *nic, struct weft_qp *qp, enum weft_qp_type type, uint32_t pd,
		   struct weft_cq *send_cq, struct weft_cq *recv_cq, struct weft_srq *srq,
		   struct weft_qp_cap *cap, bool signal_all)
{
	int err;

	if (srq)
		cap->max_recv_wr = cap->max_recv_sge = 0;
	err = check_cap(cap);

	if (err)
		return err;
	err = nic->pool->calls->take_qp(nic->pool, &qp->index);
	if (err)
		return err;
	qp->nic = nic;
	qp->type = (uint8_t)type;
	qp->opcodes = opcodes_of(type);
	qp->pd = pd;
	qp->domain = weft_domain(nic->pool->me, pd);
	qp->send_cq = send_cq;
	qp->recv_cq = recv_cq;
	qp->signal_all = signal_all;
	qp->failed_at = UINT64_MAX;
	qp->cap = *cap;
	qp->slot = &nic->pool->qps[qp->index];
	qp->qpn = weft_qp_number(nic->pool, qp->slot, qp->index);
	qp->tag = qp->qpn | (uint32_t)qp->slot->connection << 24;
	qp->rq_posted = atomic_load_explicit(&qp->slot->rq_posted, memory_order_relaxed);
	qp->rq_completed = qp->rq_posted;
	weft_store(&qp->slot->rq_start, qp->rq_posted);
	atomic_store_explicit(&qp->rq_freed, qp->rq_posted, memory_order_relaxed);
	weft_store(&qp->slot->rq_epoch, qp->slot->rq_epoch + 1);
	weft_store(&qp->slot->rq_taken_epoch, 0);
	WEFT_STEP(qp_numbered);
	err = make_send_queue(qp);
	if (err)
		goto drop_number;
	err = srq ? receive_from(qp, srq) : make_receive_queue(qp);
	if (err)
		goto free_send_queue;
	publish_qp(qp, WEFT_CONN_NONE);
	WEFT_STEP(qp_made);
	atomic_store_explicit(&qp->slot->qpn, qp->qpn, memory_order_release);
	weft_lock(nic, &nic->lock, 0);
	weft_lock(nic, &recv_cq->lock, 0);
	enter(nic, qp);
	weft_unlock(&recv_cq->lock, false);
	weft_unlock(&nic->lock, false);
	if (qp->srq)
		weft_srq_join(qp->srq, qp);
	*cap = qp->cap;
	return 0;
free_send_queue:
	weft_nic_free(nic, qp->sq);
drop_number:
	nic->pool->calls->drop_qp(nic->pool, qp->index);
	return err;
}

/* ---- Leaving the connected states ---- */

static void disconnect(struct weft_qp *qp)
{
	weft_sq_stop_waiting(qp);
	if (!qp->transport)
		return;
	qp->transport->abort(qp);
	qp->drains = qp->under_way ? qp->transport : NULL;
	qp->transport = NULL;
	atomic_fetch_sub_explicit(&qp->nic->nconnected, 1, memory_order_relaxed);
}

static void give_ring_back(struct weft_qp *qp, bool quiet)
{
	if (qp->ring_off && !qp->srq)
		weft_cq_ring_put(qp->recv_cq, &qp->recv_cq->rings, qp->ring_off,
				 qp->cap.max_recv_wr, quiet);
	qp->ring_off = 0;
}

void weft_qp_fail(struct weft_qp *qp)
{
	disconnect(qp);
	qp->state = WEFT_QPS_ERR;
	shut_out_peers(qp, WEFT_CONN_ERROR);
	WEFT_STEP(qp_shut);
	weft_rq_flush(
		qp); /* first: it takes in what the peer completed before, the cause included */
	end_connection(qp);
	weft_sq_flush(qp);
	if (qp->srq && !qp->owns_srq)
		qp->nic->api->async(qp, NULL, WEFT_EVENT_LAST_WQE);
}

static void release_kept(struct weft_qp *qp, bool quiet)
{
	if (qp->keeper)
		qp->keeper->release(qp, quiet);
	qp->keeper = NULL;
}

/* False: an executor that stands still may yet read the receive queue. */
static bool reset(struct weft_qp *qp)
{
	bool quiet;

	disconnect(qp);
	qp->state = WEFT_QPS_RESET;
	quiet = shut_out_peers(qp, WEFT_CONN_NONE);
	while (!weft_sq_drained(qp))
		weft_nic_yield(qp->nic);
	weft_cq_purge(qp->recv_cq, qp);
	if (qp->send_cq != qp->recv_cq)
		weft_cq_purge(qp->send_cq, qp);
	end_connection(qp);
	release_kept(qp, quiet);
	atomic_store_explicit(&qp->lost, false, memory_order_relaxed);
	WEFT_STEP(qp_drained);
	give_ring_back(qp, quiet);
	qp->attr = (struct weft_qp_attr){0};
	qp->sq_posted = qp->sq_done = qp->sq_issued = 0;
	qp->failed_at = UINT64_MAX;
	atomic_store_explicit(&qp->sq_freed, 0, memory_order_relaxed);
	weft_rq_forget(qp);
	weft_store(&qp->slot->rq_start, qp->rq_posted);
	atomic_store_explicit(&qp->rq_freed, qp->rq_posted, memory_order_relaxed);
	/* receives that were posted in ERR never counted */
	atomic_store_explicit(&qp->slot->rq_posted, qp->rq_posted, memory_order_relaxed);
	weft_store(&qp->slot->rq_epoch, qp->slot->rq_epoch + 1);
	WEFT_STEP(qp_emptied);
	publish_qp(qp, WEFT_CONN_NONE);
	return quiet;
}

static void free_receive_queue(struct weft_qp *qp, bool quiet)
{
	if (qp->srq)
		free_srq(qp, quiet);
	else if (quiet)
		qp->nic->pool->calls->free(qp->nic->pool, qp->rq_off, receive_bytes(qp));
	else
		qp->nic->pool->calls->retire(qp->nic->pool, WEFT_RETIRE_PIECE, qp->rq_off,
					     receive_bytes(qp));
}

/* A producer that still reads the old one must not find the next connection's receives there. */
static int renew_receive_queue(struct weft_qp *qp)
{
	struct weft_qp old = {.nic = qp->nic,
			      .index = qp->index,
			      .recv_cq = qp->recv_cq,
			      .srq = qp->srq,
			      .owns_srq = qp->owns_srq,
			      .rq_off = qp->rq_off,
			      .rq_size = qp->rq_size,
			      .rq_stride = qp->rq_stride};
	int err;

	/* what that taker completes in a shared one is of no connection any more, and posted again */
	if (qp->srq && !qp->owns_srq)
		return 0;
	err = make_receive_queue(qp);
	if (!err && qp->srq)
		weft_srq_join(qp->srq, qp);
	if (!err)
		free_receive_queue(&old, false);
	qp->state = err ? WEFT_QPS_ERR : WEFT_QPS_RESET;
	publish_qp(qp, WEFT_CONN_NONE);
	return err;
}

void weft_qp_destroy(struct weft_qp *qp)
{
	struct weft_nic *nic = qp->nic;
	bool quiet;

	weft_lock(nic, &qp->lock, 0);
	atomic_store_explicit(&qp->slot->qpn, 0, memory_order_relaxed);
	WEFT_STEP(qp_unnumbered);
	quiet = reset(qp);
	if (qp->srq)
		weft_srq_leave(qp->srq, qp);
	weft_lock(nic, &nic->lock, 0);
	weft_lock(nic, &qp->recv_cq->lock, 0);
	nic->qps[qp->index] = NULL;
	weft_unlock(&qp->recv_cq->lock, false);
	weft_unlock(&nic->lock, false);
	/* waits for a thread that has found it in `qps` by a return ring */
	weft_lock(nic, &qp->send_cq->lock, 0);
	weft_unlock(&qp->send_cq->lock, false);
	weft_unlock(&qp->lock, false);
	weft_nic_free(nic, qp->carried);
	weft_nic_free(nic, qp->sq);
	WEFT_STEP(qp_unlisted);
	free_receive_queue(qp, quiet);
	if (quiet)
		nic->pool->calls->drop_qp(nic->pool, qp->index);
	else
		nic->pool->calls->retire(nic->pool, WEFT_RETIRE_QP, qp->index, 0);
}

/* ---- Transitions ---- */

static int get_ring(struct weft_qp *qp, uint16_t executor)
{
	if (qp->srq) {
		qp->ring_off = qp->recv_cq->wake_off;
		return 0;
	}
	if (executor == WEFT_NOBODY)
		return 0;
	return weft_cq_ring_get(qp->recv_cq, &qp->recv_cq->rings, executor, qp->cap.max_recv_wr,
				&qp->ring_off);
}

/* The state of the connection before is of no use any more, and may have another size. */
static int renew_state(struct weft_qp *qp, uint32_t bytes)
{
	weft_nic_free(qp->nic, qp->carried);
	qp->carried = bytes ? weft_nic_alloc(qp->nic, bytes) : NULL;
	return !bytes || qp->carried ? 0 : -ENOMEM;
}

static int connect_by_transport(struct weft_qp *qp)
{
	const struct weft_transport *transport =
		qp->type == WEFT_QPT_UD
			? &weft_by_address
			: weft_transport_for(qp->nic, qp->type, qp->attr.sgid, qp->attr.dgid);
	uint16_t executor = WEFT_NOBODY;
	int err = renew_state(qp, transport->carries[qp->type].state_bytes);

	if (!err)
		err = transport->connect(qp, &executor);
	if (err)
		return err;
	qp->keeper = transport->release ? transport : NULL;
	err = get_ring(qp, executor);
	if (err) {
		transport->abort(qp);
		release_kept(qp, true);
		return err;
	}
	WEFT_STEP(qp_ring_got);
	qp->transport = transport;
	qp->issue = transport->carries[qp->type].issue;
	qp->most_under_way = transport->most_under_way;
	/* from the first one on the helper looks after the peers */
	if (!atomic_fetch_add_explicit(&qp->nic->nconnected, 1, memory_order_relaxed))
		weft_nic_kick(qp->nic);
	return 0;
}

int weft_qp_modify(struct weft_qp *qp, enum weft_qp_state from, enum weft_qp_state to,
		   const struct weft_qp_attr *attr, struct weft_caller *caller)
{
	bool own;
	int err = 0;

	own = weft_lock(qp->nic, &qp->lock, caller->thread);
	if (to == WEFT_QPS_RESET) {
		if (!reset(qp))
			err = renew_receive_queue(qp);
		goto unlock;
	}
	if (to == WEFT_QPS_ERR) {
		if (qp->state != WEFT_QPS_ERR)
			weft_qp_fail(qp);
		goto unlock;
	}
	if (qp->state != from) {
		err = -EINVAL;
		goto unlock;
	}
	qp->attr = *attr;
	if (to == WEFT_QPS_RTR && from == WEFT_QPS_INIT) {
		err = connect_by_transport(qp);
		if (err)
			goto unlock;
	}
	qp->state = (uint8_t)to;
	shut_out_peers(qp, to >= WEFT_QPS_RTR ? WEFT_CONN_READY : WEFT_CONN_NONE);
	if (to == WEFT_QPS_RTS && from == WEFT_QPS_SQD && !qp->waits && weft_sq_run(qp, caller))
		weft_sq_wait(qp);
	if (to == WEFT_QPS_SQD && from == WEFT_QPS_RTS) {
		qp->tells_drained = attr->tells_drained;
		if (qp->under_way) {
			weft_sq_defer(qp, caller);
		} else {
			weft_sq_stop_waiting(qp);
			weft_sq_tell_drained(qp);
		}
	}
unlock:
	weft_unlock(&qp->lock, own);
	return err;
}

/* ---- Rehoming ---- */

static enum weft_pool_conn conn_of(const struct weft_qp *qp)
{
	return atomic_load_explicit(&qp->slot->conn, memory_order_relaxed) >> 24 & 0xff;
}

/* An executor left behind may go on from now on. One that was made, or made anew, after it stopped is not
 * where it is. */
static void lose_to_suspects(struct weft_nic *nic)
{
	for (uint32_t i = 0; i < qps_end(nic); i++) {
		struct weft_qp *qp = nth(nic, i);

		if (qp && conn_of(qp) == WEFT_CONN_REHOMING &&
		    qp->made < nic->pool->calls->suspects_at(nic->pool, qp->index))
			atomic_store_explicit(&qp->lost, true, memory_order_relaxed);
	}
}

/* Tells members that share a protection domain with us. */
static void publish_rehoming(struct weft_nic *nic, enum weft_rehoming phase)
{
	_Atomic uint64_t *rehomings = &nic->pool->self->rehomings;

	/* release: pairs with the acquire in admit (place.c) */
	atomic_store_explicit(
		rehomings,
		weft_rehoming_next(atomic_load_explicit(rehomings, memory_order_relaxed), phase),
		memory_order_release);
}

void weft_nic_hold(struct weft_nic *nic)
{
	for (uint32_t i = 0; i < qps_end(nic); i++) {
		struct weft_qp *qp = nth(nic, i);

		if (!qp)
			continue;
		weft_lock(nic, &qp->lock, 0);
		if (conn_of(qp) == WEFT_CONN_READY)
			publish_qp(qp, WEFT_CONN_REHOMING);
	}
	weft_srq_publish_all(nic, true);
	publish_rehoming(nic, WEFT_REHOMING_HOLDS);
	WEFT_STEP(qp_all_held);
	nic->pool->calls->quiesce(nic->pool, 0, weft_pool_age(nic->pool));
	lose_to_suspects(nic);
	publish_rehoming(nic, WEFT_REHOMING_LEAVES);
	/* an executor that reads the phase before this one, behind its bytes, has stored them by now */
	nic->pool->calls->barrier(nic->pool);
}

void weft_nic_let_go(struct weft_nic *nic)
{
	publish_rehoming(nic, WEFT_REHOMING_NONE);
	weft_srq_publish_all(nic, false);
	for (uint32_t i = 0; i < qps_end(nic); i++) {
		struct weft_qp *qp = nth(nic, i);

		if (!qp)
			continue;
		if (conn_of(qp) == WEFT_CONN_REHOMING &&
		    !atomic_load_explicit(&qp->lost, memory_order_relaxed))
			publish_qp(qp, WEFT_CONN_READY);
		weft_unlock(&qp->lock, false);
		WEFT_STEP(qp_let_go);
	}
	nic->pool->calls->signal(nic->pool, nic->pool->me, WEFT_SIGNAL_FAULT);
}

/* ---- Found at fault ---- */

bool weft_qp_look(struct weft_qp *qp)
{
	enum weft_event event = WEFT_EVENT_QP_FATAL;

	if (!qp->transport || qp->state == WEFT_QPS_ERR)
		return false;
	if (!atomic_load_explicit(&qp->lost, memory_order_relaxed) &&
	    !qp->transport->is_blamed(qp, &event))
		return false;
	weft_qp_fail(qp);
	qp->nic->api->async(qp, NULL, event);
	return true;
}

void weft_nic_lose_all(struct weft_nic *nic)
{
	weft_lock(nic, &nic->lock, 0);
	for (uint32_t i = 0; i < qps_end(nic); i++)
		if (nth(nic, i))
			atomic_store_explicit(&nth(nic, i)->lost, true, memory_order_relaxed);
	weft_unlock(&nic->lock, false);
}

/* How often a lock is tried for: a thread that posts without a pause has it nearly always, and one that is in the middle of
 * a long request may need us to go on. */
#define ANEW_TRIES 10000u

static bool try_lock(struct weft_nic *nic, struct weft_lock *lock, uint32_t tries)
{
	for (uint32_t i = 0; i < tries; i++)
		if (weft_trylock(nic, lock))
			return true;
	return false;
}

/* Looks at each queue pair, under its lock: whether any has something left to be looked at, or its lock could not be had.
 * The nic's lock keeps queue pairs from being destroyed between finding and locking them. */
static bool look_at_each(struct weft_nic *nic, uint32_t tries, bool (*look)(struct weft_qp *qp))
{
	bool left = false;

	weft_lock(nic, &nic->lock, 0);
	for (uint32_t i = 0; i < qps_end(nic); i++) {
		struct weft_qp *qp = nth(nic, i);

		if (!qp)
			continue;
		if (try_lock(nic, &qp->lock, tries)) {
			left |= look(qp);
			weft_unlock(&qp->lock, false);
		} else {
			left = true;
		}
	}
	weft_unlock(&nic->lock, false);
	return left;
}

static bool look_if_idle(struct weft_qp *qp)
{
	if (!qp->under_way && qp->transport && qp->transport->look_anew)
		qp->transport->look_anew(qp);
	return qp->under_way != 0;
}

bool weft_nic_look_anew(struct weft_nic *nic)
{
	return look_at_each(nic, ANEW_TRIES, look_if_idle);
}

static bool look_for_fault(struct weft_qp *qp)
{
	weft_qp_look(qp);
	return false;
}

bool weft_nic_faults(struct weft_nic *nic)
{
	return look_at_each(nic, 1, look_for_fault);
}
