/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Datagrams to other hosts: each goes with its bytes into the outbox of the card of its source, and is done (pool/outbox.h). */
#include "nic/busy.h"
#include "nic/errors.h"
#include "nic/gather.h"
#include "pool/address.h"
#include "pool/format_member.h"
#include "pool/outbox.h"
#include "transport/handed/card.h"
#include "transport/handed/handed.h"

_Static_assert(WEFT_OUTBOX_BYTES == WEFT_MTU, "a slot has room for a datagram");

/* ---- Which outbox ---- */

static struct weft_pool_outbox *box_of(const struct weft_nic *nic,
				       const struct weft_nic_outbox *entry)
{
	return (void *)(nic->pool->base + entry->off);
}

static bool serves(const struct weft_nic *nic, const struct weft_nic_outbox *entry)
{
	return entry->off && weft_handed_incarnation(nic, entry->card) == entry->incarnation;
}

/* The card finds it there from now on. */
static void open_box(struct weft_nic *nic, uint32_t i, uint16_t card, const uint8_t sgid[16])
{
	struct weft_nic_outbox *entry = &nic->outbox[i];
	struct weft_pool_outbox *box = box_of(nic, entry);

	entry->card = card;
	entry->incarnation = weft_handed_incarnation(nic, card);
	__builtin_memcpy(entry->sgid, sgid, 16);
	box->card = card;
	box->incarnation = entry->incarnation;
	atomic_store_explicit(&box->put, 0, memory_order_relaxed);
	atomic_store_explicit(&box->taken, 0, memory_order_relaxed);
	atomic_store_explicit(&box->waits, 0, memory_order_relaxed);
	/* release: pairs with the acquire in box_at (doorbells.c) */
	atomic_store_explicit(&nic->pool->self->card.outbox[i], entry->off, memory_order_release);
}

/* One that is not in use, or whose card has ended; WEFT_OUTBOXES: there is none. */
static uint32_t free_box(struct weft_nic *nic)
{
	struct weft_pool *pool = nic->pool;
	uint32_t i = 0;

	while (i < WEFT_OUTBOXES && serves(nic, &nic->outbox[i]))
		i++;
	if (i < WEFT_OUTBOXES && !nic->outbox[i].off &&
	    pool->calls->alloc(pool, sizeof(struct weft_pool_outbox), &nic->outbox[i].off))
		return WEFT_OUTBOXES;
	return i;
}

/* NULL: no card carries it, or there is no memory. */
static struct weft_nic_outbox *find_box(struct weft_nic *nic, const struct weft_ah *ah)
{
	uint16_t card;
	uint32_t i;

	for (i = 0; i < WEFT_OUTBOXES; i++)
		if (serves(nic, &nic->outbox[i]) &&
		    !__builtin_memcmp(nic->outbox[i].sgid, ah->sgid, 16))
			return &nic->outbox[i];
	card = weft_handed_card(nic, ah->sgid, ah->dgid);
	i = card == WEFT_NOBODY ? WEFT_OUTBOXES : free_box(nic);
	if (i == WEFT_OUTBOXES)
		return NULL;
	open_box(nic, i, card, ah->sgid);
	return &nic->outbox[i];
}

/* ---- One datagram ---- */

static void fill_slot(const struct weft_qp *qp, const struct weft_wqe *wqe,
		      struct weft_pool_datagram *d)
{
	const struct weft_ah *ah = wqe->ah;

	__builtin_memcpy(d->dgid, ah->dgid, 16);
	d->src_qpn = qp->qpn;
	d->dest_qpn = wqe->remote_qpn;
	/* the controlled Q_Keys are a queue pair's own (10.2.5) */
	d->qkey = wqe->remote_qkey >> 31 ? qp->attr.qkey : wqe->remote_qkey;
	d->imm = wqe->imm;
	d->len_bytes = wqe->len_bytes;
	d->traffic_class = ah->traffic_class;
	d->hop_limit = ah->hop_limit;
	d->has_imm = wqe->opcode == WEFT_OP_SEND_IMM;
	d->solicited = !!(wqe->flags & WEFT_SEND_SOLICITED);
}

/* Apart: a frame has room for one list of spans. */
static __attribute__((__noinline__)) enum weft_cause
copy_bytes(struct weft_qp *qp, const struct weft_wqe *wqe, struct weft_caller *caller, uint8_t *to)
{
	struct weft_nic *nic = qp->nic;
	enum weft_cause cause = WEFT_CAUSE_NONE;
	struct weft_spans here;
	struct weft_span copy;
	uint64_t next;
	int err;

	weft_span_private(&copy, to, WEFT_MTU);
	next = weft_busy_begin(caller, weft_busy_at(nic->pool->me, 0));
	if (!weft_spans_find(nic->pool, caller, wqe->sge, wqe->num_sge, qp->domain, 0, &here))
		cause = WEFT_CAUSE_LOCAL_KEY;
	err = cause || !here.len_bytes
		      ? 0
		      : weft_place_scattered(nic, caller, NULL, &copy, here.span, here.len_bytes);
	if (err) {
		cause = WEFT_CAUSE_LOCAL_MEMORY;
		caller->rehomes = err == -ESRCH; /* or has just gone, which the next look tells */
	}
	weft_busy_end(caller, next);
	return cause;
}

static enum weft_cause take_bytes(struct weft_qp *qp, struct weft_wqe *wqe,
				  struct weft_caller *caller, uint8_t *to)
{
	if (!(wqe->flags & WEFT_SEND_INLINE))
		return copy_bytes(qp, wqe, caller, to);
	__builtin_memcpy(to, weft_wqe_inline(wqe), wqe->len_bytes);
	return WEFT_CAUSE_NONE;
}

/* Whether there is room for one more; if not, the card tells once there is. */
static bool finds_room(struct weft_pool_outbox *box, uint64_t put)
{
	/* acquire: pairs with the release in empty_box (doorbells.c) */
	if (put - atomic_load_explicit(&box->taken, memory_order_acquire) < WEFT_OUTBOX_SLOTS)
		return true;
	atomic_store_explicit(&box->waits, 1, memory_order_relaxed);
	/* pairs with the fence in empty_box (doorbells.c): it sees that we wait, or we see the room */
	atomic_thread_fence(memory_order_seq_cst);
	return put - atomic_load_explicit(&box->taken, memory_order_acquire) < WEFT_OUTBOX_SLOTS;
}

static void tell_card(struct weft_nic *nic, uint32_t i, struct weft_pool_outbox *box, uint64_t put)
{
	/* release: pairs with the acquire in empty_box (doorbells.c) */
	atomic_store_explicit(&box->put, put + 1, memory_order_release);
	/* pairs with the fence in empty_box (doorbells.c): it sees this one, or we see that it has taken those before */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&box->taken, memory_order_relaxed) >= put)
		weft_handed_ring(nic, WEFT_DOORBELL_OUTBOX | i, nic->outbox[i].card);
}

static enum weft_outcome put_into(struct weft_qp *qp, struct weft_wqe *wqe,
				  struct weft_caller *caller, struct weft_nic_outbox *entry,
				  enum weft_cause *cause)
{
	struct weft_pool_outbox *box = box_of(qp->nic, entry);
	uint64_t put = atomic_load_explicit(&box->put, memory_order_relaxed);
	struct weft_pool_datagram *d = &box->slot[put % WEFT_OUTBOX_SLOTS];

	if (wqe->len_bytes > weft_handed_mtu(qp->nic, entry->card)) {
		*cause = WEFT_CAUSE_DATAGRAM_LENGTH;
		return WEFT_FAILED;
	}
	if (!finds_room(box, put))
		return WEFT_NO_ANSWER;
	*cause = take_bytes(qp, wqe, caller, d->bytes);
	if (*cause)
		return weft_gather_failed(caller);
	fill_slot(qp, wqe, d);
	tell_card(qp->nic, (uint32_t)(entry - qp->nic->outbox), box, put);
	caller->line->counters.ops_send++;
	caller->line->counters.bytes_send += wqe->len_bytes;
	return WEFT_DONE;
}

/* Without a card it is lost, but what is wrong on this side is told all the same. */
static enum weft_outcome find_fault(struct weft_qp *qp, struct weft_wqe *wqe,
				    struct weft_caller *caller, enum weft_cause *cause)
{
	uint8_t *nowhere = weft_nic_alloc(qp->nic, WEFT_MTU);

	*cause = nowhere ? take_bytes(qp, wqe, caller, nowhere) : WEFT_CAUSE_NONE;
	weft_nic_free(qp->nic, nowhere);
	return *cause ? weft_gather_failed(caller) : WEFT_DONE;
}

static enum weft_outcome put_datagram(struct weft_qp *qp, struct weft_wqe *wqe,
				      struct weft_caller *caller, enum weft_cause *cause)
{
	struct weft_nic *nic = qp->nic;
	bool own = weft_lock(nic, &nic->outbox_lock, caller->thread);
	struct weft_nic_outbox *entry = find_box(nic, wqe->ah);
	enum weft_outcome outcome = entry ? put_into(qp, wqe, caller, entry, cause)
					  : find_fault(qp, wqe, caller, cause);

	weft_unlock(&nic->outbox_lock, own);
	return outcome;
}

static enum weft_outcome issue_beyond(struct weft_qp *qp, struct weft_wqe *wqe,
				      struct weft_caller *caller, enum weft_cause *cause)
{
	return weft_gather_issue(put_datagram, qp, wqe, caller, cause);
}

/* Cards of tests that carry what others could reach in the pool leave its datagrams there. */
static bool reaches_beyond(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16])
{
	uint16_t card = weft_handed_card(nic, sgid, dgid);
	const struct weft_pool_member *m =
		card == WEFT_NOBODY ? NULL : nic->pool->calls->member(nic->pool, card);

	return m && atomic_load_explicit(&m->card.reach, memory_order_relaxed) == WEFT_CARD_BEYOND;
}

const struct weft_transport weft_handed_datagrams = {
	.name = "handed datagrams",
	.carries = {[WEFT_QPT_UD] = {issue_beyond}},
	.part_of_groups = true,
	.silence = WEFT_CAUSE_NO_ANSWER,
	.reaches = reaches_beyond,
};
