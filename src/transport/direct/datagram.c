/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Carrying out the requests of UD queue pairs. A datagram that finds nobody, or no receive, or the
 * wrong Q_Key, is dropped, and nobody is told (9.8.2, 10.2.5).
 */
#include "nic/place.h"
#include "nic/shared.h"
#include "transport/direct/busy.h"
#include "transport/direct/direct.h"
#include "transport/direct/grh.h"
#include "transport/direct/peer.h"
#include "transport/direct/seat.h"

#define ESRCH	  3
#define ETIMEDOUT 110
#define ESTALE	  116

/* A queue pair as we last saw it; good for as long as its conn word stays the same. */
struct target {
	struct weft_pool_qp *slot;
	struct weft_right right;
	struct weft_seat seat;
	uint32_t qpn, tag, qkey;
};

_Static_assert(sizeof(struct target) <= WEFT_TRANSPORT_STATE, "an address handle has room for it");

/* One request on its way. */
struct datagram {
	struct weft_qp *qp;
	const struct weft_wqe *wqe;
	struct weft_caller *caller;
	uint32_t bytes;
	struct weft_span span[WEFT_MAX_SGE + 1]; /* the header and the bytes on this side */
	uint8_t sl;
	/* the bytes, if they are of other processes: those may go before the last copy is delivered */
	uint8_t *copy;
};

/* ---- The destination ---- */

static bool find(struct weft_pool *pool, uint32_t qpn, struct target *t)
{
	uint32_t index = qpn & (WEFT_QPS - 1);

	if (weft_pool_see_qp(pool, index) ||
	    atomic_load_explicit(&pool->qps[index].qpn, memory_order_acquire) != qpn)
		return false;
	t->slot = &pool->qps[index];
	t->qpn = qpn;
	t->right.word = &t->slot->conn;
	t->right.was = UINT64_MAX; /* no conn word is */
	t->right.member = t->slot->owner;
	return true;
}

/* The line stands between two equal looks at a conn word that says: ready. */
static bool read_line(struct weft_pool *pool, const uint8_t *gid, struct target *t)
{
	const struct weft_pool_qp *slot = t->slot;
	/* acquire: pairs with the release in publish (qp.c) */
	uint64_t conn = atomic_load_explicit(&slot->conn, memory_order_acquire);
	uint64_t rq_off = slot->rq_off, ring_off = slot->ring_off;
	bool found;

	t->tag = t->qpn | (uint32_t)slot->connection << 24;
	t->qkey = slot->qkey;
	found = slot->qpn == t->qpn && slot->type == WEFT_QPT_UD && !slot->rq_size && ring_off &&
		slot->owner == t->right.member && (conn >> 24 & 0xff) == WEFT_CONN_READY;
	atomic_thread_fence(memory_order_acquire);
	if (!found || atomic_load_explicit(&slot->conn, memory_order_relaxed) != conn ||
	    (gid && !weft_peer_has_gid(pool, t->right.member, gid)) ||
	    !weft_seat_map(pool, &t->seat, t->right.member, rq_off, ring_off))
		return false;
	t->right.was = conn;
	return true;
}

/* ---- One copy of it ---- */

static void complete(const struct datagram *d, const struct target *t, struct weft_pool_slot *slot,
		     uint32_t tag, uint32_t bytes, enum weft_wc_status status)
{
	bool imm = d->wqe->opcode == WEFT_OP_SEND_IMM;

	slot->taken = (struct weft_pool_taken){
		.tag = tag,
		.byte_len = bytes,
		.imm = imm ? d->wqe->imm : 0,
		.src_qpn = d->qp->qpn | (uint32_t)d->sl << 24,
		.status = (uint8_t)status,
		.opcode = WEFT_WC_RECV,
		.flags = status ? 0 : WEFT_WC_GRH | (imm ? WEFT_WC_WITH_IMM : 0),
		.solicited = !!(d->wqe->flags & WEFT_SEND_SOLICITED),
	};
	weft_seat_complete(d->qp->nic, &t->seat, t->right.member);
}

/* What is wrong with a receive itself fails its queue pair (9.9.3, class E). */
static void fail_receive(const struct datagram *d, const struct target *t,
			 struct weft_pool_slot *slot, uint32_t lkey)
{
	complete(d, t, slot, t->tag, lkey, WEFT_WC_LOC_PROT_ERR);
	atomic_store_explicit(&t->seat.head->fault, t->tag, memory_order_release);
	weft_pool_ring(d->qp->nic->pool, t->right.member, WEFT_RING_FAULT);
}

/* How many elements of a receive it needs; more than it has: too long. */
static uint32_t elements(const struct weft_pool_recv *recv, uint32_t most, uint64_t bytes)
{
	uint32_t n = recv->num_sge < most ? recv->num_sge : most, used = 0;
	uint64_t room = 0;

	while (used < n && room < bytes)
		room += recv->sge[used++].len_bytes;
	return room < bytes ? UINT32_MAX : used;
}

/* One that is too long leaves the receive where it is (9.9.3, class D). */
static struct weft_pool_slot *take(const struct datagram *d, struct target *t, uint32_t *used)
{
	struct weft_pool_slot *slot;

	do {
		slot = weft_seat_first(d->qp->nic->pool, &t->seat);
		if (!slot)
			return NULL;
		*used = elements(&slot->recv, t->seat.sges, WEFT_GRH_BYTES + d->bytes);
		if (*used == UINT32_MAX)
			return NULL;
	} while (!weft_seat_take(d->qp->nic->pool, &t->seat, t->right.member));
	return slot;
}

static void drop_in(const struct datagram *d, struct target *t)
{
	struct weft_counters *counters = &d->caller->line->counters;
	struct weft_nic *nic = d->qp->nic;
	struct weft_pool_slot *slot;
	struct weft_spans there;
	uint32_t used;
	int err;

	slot = take(d, t, &used);
	if (!slot)
		return;
	if (!weft_spans_find(nic->pool, d->caller, slot->recv.sge, used, t->seat.holder,
			     WEFT_ACCESS_LOCAL_WRITE, &there) ||
	    there.len_bytes < WEFT_GRH_BYTES + d->bytes) {
		if (weft_find_later(d->caller)) {
			complete(d, t, slot, 0, 0, WEFT_WC_SUCCESS); /* nothing came */
			return;
		}
		fail_receive(d, t, slot,
			     weft_cause_lkey(nic->pool, &slot->recv, used, t->seat.holder));
		return;
	}
	err = weft_place_scattered(nic, d->caller, &t->right, there.span, d->span,
				   WEFT_GRH_BYTES + d->bytes);
	if (err == -ESRCH || err == -ETIMEDOUT || err == -ESTALE) {
		complete(d, t, slot, 0, 0, WEFT_WC_SUCCESS); /* nothing came */
		return;
	}
	if (err) {
		fail_receive(d, t, slot, WEFT_NO_LKEY);
		return;
	}
	complete(d, t, slot, t->tag, WEFT_GRH_BYTES + d->bytes, WEFT_WC_SUCCESS);
	counters->ops_send++;
	counters->bytes_send += d->bytes;
}

/* It has, although its owner has yet to see that. */
static bool has_failed(const struct target *t)
{
	return atomic_load_explicit(&t->seat.head->fault, memory_order_relaxed) == t->tag;
}

/* gid: that the destination must have; NULL: any. */
static void deliver(const struct datagram *d, uint32_t qpn, const uint8_t *gid, struct target *t)
{
	const uint32_t given = d->wqe->remote_qkey;
	/* the controlled Q_Keys are a queue pair's own (10.2.5) */
	uint32_t qkey = given >> 31 ? d->qp->attr.qkey : given;
	uint64_t next;

	if (t->qpn != qpn && !find(d->qp->nic->pool, qpn, t))
		return;
	next = weft_busy_begin(d->caller, weft_busy_at(t->right.member, qpn & (WEFT_QPS - 1)));
	if (atomic_load_explicit(&t->slot->conn, memory_order_acquire) == t->right.was ||
	    read_line(d->qp->nic->pool, gid, t)) {
		if (t->qkey == qkey && !has_failed(t))
			drop_in(d, t);
	} else {
		t->qpn = 0;
	}
	weft_busy_end(d->caller, next);
}

/* To each queue pair that listens, ours included. */
static void deliver_all(const struct datagram *d, const uint8_t gid[16])
{
	struct weft_pool *pool = d->qp->nic->pool;
	const struct weft_pool_member *m;

	for (uint16_t i = 0; (m = weft_pool_member(pool, i)); i++) {
		uint32_t groups = atomic_load_explicit(&m->groups, memory_order_acquire);

		if (!atomic_load_explicit(&m->incarnation, memory_order_acquire))
			continue;
		for (uint32_t k = 0; k < groups && k < WEFT_MEMBER_GROUPS; k++) {
			/* acquire: pairs with the release in join (mcast.c) */
			uint32_t qpn = atomic_load_explicit(&m->group[k].qpn, memory_order_acquire);
			struct target t = { 0 };

			if (qpn && !__builtin_memcmp(m->group[k].gid, gid, 16))
				deliver(d, qpn, NULL, &t);
		}
	}
}

/* ---- One request ---- */

static bool any_foreign(const struct weft_spans *spans)
{
	for (unsigned int i = 0; i < spans->n; i++)
		if (weft_span_is_foreign(&spans->span[i]))
			return true;
	return false;
}

/* The list names memory of other processes, or on demand: a copy of all of it. */
static enum weft_cause gather_foreign(struct weft_qp *qp, const struct weft_wqe *wqe, struct datagram *d,
				      struct weft_spans *here)
{
	enum weft_cause cause = WEFT_CAUSE_NONE;
	struct weft_span copy;
	uint64_t next;
	int err;

	weft_span_private(&copy, d->copy, WEFT_MTU);
	next = weft_busy_begin(d->caller, weft_busy_at(qp->nic->pool->me, 0));
	if (!weft_spans_find(qp->nic->pool, d->caller, wqe->sge, wqe->num_sge, qp->holder, 0, here))
		cause = WEFT_CAUSE_LOCAL_KEY;
	err = cause ? 0 : weft_place_scattered(qp->nic, d->caller, NULL, &copy, here->span,
					       here->len_bytes);
	if (err) {
		cause = WEFT_CAUSE_LOCAL_MEMORY;
		d->caller->moves = err == -ESRCH; /* or has just gone, which the next look tells */
	}
	weft_busy_end(d->caller, next);
	here->n = 1;
	here->span[0] = copy;
	return cause;
}

/* The bytes on this side, behind room for the header. */
static enum weft_cause gather(struct weft_qp *qp, struct weft_wqe *wqe, struct datagram *d)
{
	enum weft_cause cause = WEFT_CAUSE_NONE;
	struct weft_spans here;
	uint64_t bytes = wqe->len_bytes;

	here.n = 1;
	if (!(wqe->flags & WEFT_SEND_INLINE)) {
		bytes = 0;
		for (uint32_t i = 0; i < wqe->num_sge; i++)
			bytes += wqe->sge[i].len_bytes;
	}
	if (bytes > WEFT_MTU)
		return WEFT_CAUSE_DATAGRAM_LENGTH;
	if (!wqe->ah || wqe->ah->pd != qp->pd)
		return WEFT_CAUSE_ADDRESS_DOMAIN;
	if (wqe->flags & WEFT_SEND_INLINE)
		weft_span_private(&here.span[0], weft_wqe_inline(wqe), bytes);
	else if (!weft_spans_find(qp->nic->pool, d->caller, wqe->sge, wqe->num_sge, qp->holder, 0, &here))
		cause = WEFT_CAUSE_LOCAL_KEY;
	else if (any_foreign(&here))
		cause = gather_foreign(qp, wqe, d, &here);
	wqe->len_bytes = d->bytes = (uint32_t)bytes;
	for (unsigned int i = 0; i < here.n; i++)
		d->span[1 + i] = here.span[i];
	return cause;
}

static enum weft_outcome execute_alone(struct weft_qp *qp, struct weft_wqe *wqe,
				       struct weft_caller *caller, enum weft_cause *cause)
{
	uint8_t grh[WEFT_GRH_BYTES], copy[WEFT_MTU];
	struct datagram d = { .qp = qp, .wqe = wqe, .caller = caller, .copy = copy };
	struct weft_ah *ah = wqe->ah;
	bool own;

	*cause = gather(qp, wqe, &d);
	if (*cause)
		return weft_find_later(caller) ? WEFT_MOVES : WEFT_FAILED;
	d.sl = weft_grh_fill(grh, ah, wqe->opcode == WEFT_OP_SEND_IMM, d.bytes);
	weft_span_private(&d.span[0], grh, sizeof(grh));
	if (wqe->remote_qpn == WEFT_QPN_MULTICAST) {
		deliver_all(&d, ah->dgid);
		return WEFT_DONE;
	}
	own = weft_lock(qp->nic, &ah->lock, caller->thread);
	deliver(&d, wqe->remote_qpn, ah->dgid, (struct target *)ah->transport_state);
	weft_unlock(&ah->lock, own);
	return WEFT_DONE;
}

static enum weft_outcome execute(struct weft_qp *qp, struct weft_wqe *wqe,
				 struct weft_caller *caller, enum weft_cause *cause)
{
	enum weft_outcome outcome;

	if (!caller->shared)
		return execute_alone(qp, wqe, caller, cause);
	weft_pool_share_lock(qp->nic->pool);
	outcome = execute_alone(qp, wqe, caller, cause);
	weft_pool_share_unlock(qp->nic->pool);
	return outcome;
}

static void connect(struct weft_qp *qp)
{
}

static void disconnect(struct weft_qp *qp)
{
}

static bool fault(struct weft_qp *qp, enum weft_event *event)
{
	uint32_t tag = qp->tag;

	*event = WEFT_EVENT_QP_FATAL;
	/* acquire: pairs with the release in fail_receive */
	return atomic_compare_exchange_strong_explicit(&qp->shared->at->fault, &tag, 0,
						       memory_order_acquire, memory_order_relaxed);
}

const struct weft_transport weft_direct_datagram = {
	.name = "direct",
	.connect = connect,
	.disconnect = disconnect,
	.execute = execute,
	.fault = fault,
};
