/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/busy.h"
#include "nic/cq.h"
#include "nic/datagram.h"
#include "nic/errors.h"
#include "nic/limits.h"
#include "nic/nic.h"
#include "nic/responder.h"
#include "nic/srq.h"
#include "pool/format_home.h"
#include "pool/format_line.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"
#include "pool/format_queue.h"
#include "pool/sizes.h"

/* ---- The destination ---- */

static bool find_target(struct weft_pool *pool, uint32_t qpn, struct weft_datagram_target *t)
{
	uint32_t index = qpn & (WEFT_QPS - 1);

	if (pool->calls->see_qp(pool, index) ||
	    atomic_load_explicit(&pool->qps[index].qpn, memory_order_acquire) != qpn)
		return false;
	t->slot = &pool->qps[index];
	t->qpn = qpn;
	t->grant.word = &t->slot->conn;
	t->grant.was = UINT64_MAX; /* no conn word has that value */
	t->grant.member = t->slot->owner;
	return true;
}

/* The line stands between two equal looks at a conn word that says: ready. */
static bool read_line(struct weft_pool *pool, const uint8_t *gid, struct weft_datagram_target *t)
{
	const struct weft_pool_qp *slot = t->slot;
	uint64_t conn, rq_off, ring_off;
	bool found;

	if (!pool->calls->use(pool, t->grant.member))
		return false;
	/* acquire: pairs with the release in publish_qp (qp.c) */
	conn = atomic_load_explicit(&slot->conn, memory_order_acquire);
	rq_off = slot->rq_off;
	ring_off = slot->ring_off;
	t->tag = t->qpn | (uint32_t)slot->connection << 24;
	t->qkey = slot->qkey;
	found = slot->qpn == t->qpn && slot->type == WEFT_QPT_UD && !slot->rq_size && ring_off &&
		slot->owner == t->grant.member && (conn >> 24 & 0xff) == WEFT_CONN_READY;
	atomic_thread_fence(memory_order_acquire);
	if (!found || atomic_load_explicit(&slot->conn, memory_order_relaxed) != conn ||
	    (gid && !weft_responder_has_gid(pool, t->grant.member, gid)) ||
	    !weft_take_map(pool, &t->take, t->grant.member, rq_off, ring_off))
		return false;
	t->grant.was = conn;
	return true;
}

/* ---- One copy of it ---- */

static void complete(const struct weft_datagram *d, const struct weft_datagram_target *t,
		     struct weft_pool_slot *slot, uint32_t tag, uint32_t bytes,
		     enum weft_wc_status status)
{
	slot->taken = (struct weft_pool_taken){
		.tag = tag,
		.byte_len = bytes,
		.imm = d->has_imm ? d->imm : 0,
		.src_qpn = d->src_qpn,
		.status = (uint8_t)status,
		.opcode = WEFT_WC_RECV,
		.flags = status ? 0 : WEFT_WC_GRH | (d->has_imm ? WEFT_WC_WITH_IMM : 0),
		.solicited = d->solicited,
	};
	/* one that its owner does not answer is lost, as a datagram may be */
	weft_take_complete(d->nic, &t->take);
}

/* What is wrong with a receive itself fails its queue pair (9.9.3, class E). */
static void fail_receive(const struct weft_datagram *d, const struct weft_datagram_target *t,
			 struct weft_pool_slot *slot, uint32_t lkey)
{
	complete(d, t, slot, t->tag, lkey, WEFT_WC_LOC_PROT_ERR);
	weft_take_blame(d->nic->pool, &t->take, t->tag);
	d->nic->pool->calls->signal(d->nic->pool, t->grant.member, WEFT_SIGNAL_FAULT);
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

/* A datagram that is too long leaves the receive where it is (9.9.3, class D). */
static struct weft_pool_slot *take_for_datagram(const struct weft_datagram *d,
						struct weft_datagram_target *t, uint32_t *used)
{
	struct weft_pool_slot *slot;
	int err;

	do {
		slot = weft_take_first(d->nic->pool, &t->take);
		if (!slot)
			return NULL;
		*used = elements(&slot->recv, t->take.sges, WEFT_GRH_BYTES + d->bytes);
		if (*used == UINT32_MAX)
			return NULL;
		err = weft_take_claim(d->nic->pool, &t->take);
	} while (err == -EAGAIN);
	return err ? NULL : slot;
}

#define PATIENCE_MOST_US  100000u
#define PATIENCE_LEAST_US 50u

/* Waits until the owner's helper has placed it, or the time for that is up, which is shorter after each wait in
 * vain: a helper that stands still costs little. */
static __attribute__((__noinline__)) int await_helper(const struct weft_datagram *d,
						      struct weft_datagram_target *t,
						      const struct weft_span *there)
{
	const struct weft_machine *machine = d->nic->machine;
	uint64_t begun_ns = machine->stamp_ns(machine->context), now_ns;
	struct weft_later *later = &t->later;
	int err = -EINPROGRESS;

	if (!t->patience_us)
		t->patience_us = PATIENCE_MOST_US;
	do {
		now_ns = machine->stamp_ns(machine->context);
		if (machine->answered(machine->context, later, now_ns))
			err = weft_place_scattered(d->nic, d->caller, &t->grant, there, d->span,
						   WEFT_GRH_BYTES + d->bytes);
		else
			machine->yield(machine->context);
	} while (err == -EINPROGRESS && now_ns < begun_ns + t->patience_us * 1000ull);
	if (err != -EINPROGRESS)
		t->patience_us = PATIENCE_MOST_US;
	else if (t->patience_us > PATIENCE_LEAST_US)
		t->patience_us /= 2;
	return err == -EINPROGRESS ? -ETIMEDOUT : err;
}

/* The owner's helper has been slow, and has looked since at what it was asked then. */
static bool has_looked(const struct weft_datagram *d, const struct weft_datagram_target *t)
{
	const struct weft_pool_near *m;

	if (__builtin_expect(!t->patience_us || t->patience_us == PATIENCE_MOST_US, 1))
		return false;
	m = d->nic->pool->calls->near(d->nic->pool, t->grant.member);
	return m && !atomic_load_explicit(&m->due[WEFT_SIGNAL_ASK], memory_order_relaxed);
}

/* 0, or an error as of weft_place. */
static int place_soon(const struct weft_datagram *d, struct weft_datagram_target *t,
		      const struct weft_span *there)
{
	int err;

	weft_later_attach(&t->grant, &t->later);
	if (has_looked(d, t))
		t->patience_us = PATIENCE_MOST_US;
	err = weft_place_scattered(d->nic, d->caller, &t->grant, there, d->span,
				   WEFT_GRH_BYTES + d->bytes);
	if (__builtin_expect(err == -EINPROGRESS, 0))
		err = await_helper(d, t, there);
	weft_later_drop(d->nic, &t->later);
	return err;
}

static void drop_in(const struct weft_datagram *d, struct weft_datagram_target *t)
{
	struct weft_counters *counters = &d->caller->line->counters;
	struct weft_nic *nic = d->nic;
	struct weft_pool_slot *slot;
	struct weft_spans there;
	uint32_t used;
	int err;

	slot = take_for_datagram(d, t, &used);
	if (!slot)
		return;
	if (!weft_spans_find(nic->pool, d->caller, slot->recv.sge, used, t->take.domain,
			     WEFT_ACCESS_LOCAL_WRITE, &there) ||
	    there.len_bytes < WEFT_GRH_BYTES + d->bytes) {
		if (weft_find_later(d->caller)) {
			complete(d, t, slot, 0, 0, WEFT_WC_SUCCESS); /* nothing came */
			return;
		}
		fail_receive(d, t, slot,
			     weft_cause_lkey(nic->pool, &slot->recv, used, t->take.domain));
		return;
	}
	err = place_soon(d, t, there.span);
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

/* Its queue pair has failed, although the owner has yet to see that. */
static bool has_failed(const struct weft_datagram_target *t)
{
	return atomic_load_explicit(&t->take.head->fault, memory_order_relaxed) == t->tag;
}

void weft_datagram_deliver(const struct weft_datagram *d, uint32_t qpn, const uint8_t *gid,
			   struct weft_datagram_target *t)
{
	uint64_t next;

	/* no queue pair has number 0, by which a target says that it is none */
	if (!qpn || (t->qpn != qpn && !find_target(d->nic->pool, qpn, t)))
		return;
	next = weft_busy_begin(d->caller, weft_busy_at(t->grant.member, qpn & (WEFT_QPS - 1)));
	if (atomic_load_explicit(&t->slot->conn, memory_order_acquire) == t->grant.was ||
	    read_line(d->nic->pool, gid, t)) {
		if (t->qkey == d->qkey && !has_failed(t))
			drop_in(d, t);
	} else {
		t->qpn = 0;
	}
	weft_busy_end(d->caller, next);
}

void weft_datagram_deliver_all(const struct weft_datagram *d, const uint8_t gid[16],
			       uint64_t net_ns)
{
	struct weft_pool *pool = d->nic->pool;
	const struct weft_pool_member *m;

	for (uint16_t i = 0; (i = pool->calls->next(pool, i)) < WEFT_MEMBERS; i++) {
		uint32_t groups;

		m = pool->calls->member(pool, i);
		if (!m)
			continue;
		groups = atomic_load_explicit(&m->groups, memory_order_acquire);
		if (!atomic_load_explicit(&m->incarnation, memory_order_acquire) ||
		    (net_ns && m->net_ns != net_ns))
			continue;
		for (uint32_t k = 0; k < groups && k < WEFT_MEMBER_GROUPS; k++) {
			uint8_t listened[16];
			uint32_t qpn = weft_group_read(&m->group[k], listened);
			/* no target is kept for groups: each wait for a helper is the shortest */
			struct weft_datagram_target t = {.patience_us = PATIENCE_LEAST_US};

			if (qpn && !__builtin_memcmp(listened, gid, 16))
				weft_datagram_deliver(d, qpn, NULL, &t);
		}
	}
}

bool weft_datagram_fault(struct weft_srq *srq, uint32_t tag)
{
	/* acquire: pairs with the release in weft_take_blame */
	return atomic_compare_exchange_strong_explicit(&srq->at->fault, &tag, 0,
						       memory_order_acquire, memory_order_relaxed);
}
