/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "transport/handed/handed.h"
#include "nic/cq.h"
#include "nic/errors.h"
#include "nic/gather.h"
#include "nic/queues.h"
#include "nic/responder.h"
#include "nic/returns.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"
#include "pool/hand.h"
#include "pool/slice.h"
#include "pool/step.h"
#include "transport/handed/card.h"

#define LOOKS_AFTER_CARD_NS 100000000ull

/* What a queue pair has for this transport. */
struct handed {
	struct weft_pool_hand *hand; /* NULL: it is not connected */
	uint8_t *own_sq;	     /* its private send queue, not used while it is connected */
	uint64_t card_incarnation;
	uint64_t posted;  /* as handed on last */
	uint64_t verdict; /* the last that was taken */
	uint64_t looked_ns;
	uint64_t
		connected_at; /* our own conn word before we were ready: older faults are not ours */
	bool stopped;	      /* the card begins nothing before it is told where */
	bool dead;	      /* the card has died */
};

static struct handed *handed_of(struct weft_qp *qp)
{
	return qp->carried;
}

/* ---- Which card ---- */

static bool is_in_pool(struct weft_nic *nic, const uint8_t dgid[16])
{
	for (uint16_t i = 0; (i = nic->pool->calls->next(nic->pool, i)) < WEFT_MEMBERS; i++)
		if (weft_responder_has_gid(nic->pool, i, dgid))
			return true;
	return false;
}

/* Each network namespace has addresses, and cards, of its own. */
static bool plays(struct weft_nic *nic, const struct weft_pool_member *m, const uint8_t sgid[16],
		  const uint8_t dgid[16])
{
	switch ((enum weft_card_reach)atomic_load_explicit(&m->card.reach, memory_order_acquire)) {
	case WEFT_CARD_NONE:
		return false;
	case WEFT_CARD_BEYOND:
		if (nic->within || is_in_pool(nic, dgid))
			return false;
		break;
	case WEFT_CARD_ALL:
		break;
	}
	/* an address that was taken away and has come again is in a card's table of GIDs some time later */
	return m->net_ns == nic->pool->self->net_ns && weft_card_plays(&m->card, sgid) &&
	       (!weft_card_plays_all(&m->card) || weft_member_has_gid(m, sgid));
}

static bool still_lives(struct weft_nic *nic, uint16_t card)
{
	return nic->pool->calls->alive(nic->pool, card, weft_handed_incarnation(nic, card));
}

/* One that has died stays a member until it is recovered from. */
static uint16_t find_card_of_path(struct weft_nic *nic, const uint8_t sgid[16],
				  const uint8_t dgid[16], bool dead_too)
{
	const struct weft_pool_member *m;

	/* a card reaches memory as a member of its host does */
	for (uint16_t i = 0; (i = nic->pool->calls->next(nic->pool, i)) < WEFT_MEMBERS; i++)
		if (weft_is_near(nic->pool, i) && (m = nic->pool->calls->member(nic->pool, i)) &&
		    plays(nic, m, sgid, dgid) && (dead_too || still_lives(nic, i)))
			return i;
	return WEFT_NOBODY;
}

uint16_t weft_handed_card(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16])
{
	return find_card_of_path(nic, sgid, dgid, false);
}

static bool has_card(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16])
{
	return weft_handed_card(nic, sgid, dgid) != WEFT_NOBODY;
}

/* ---- Connecting ---- */

static uint64_t queue_bytes(const struct weft_qp *qp)
{
	return (uint64_t)qp->sq_size * qp->sq_stride;
}

static void give_memory(struct weft_pool *pool, uint64_t off, uint64_t bytes, bool quiet)
{
	if (quiet)
		pool->calls->free(pool, off, bytes);
	else
		pool->calls->retire(pool, WEFT_RETIRE_PIECE, off, bytes);
}

static int make_hand(struct weft_qp *qp, struct weft_pool_hand **hand)
{
	struct weft_pool *pool = qp->nic->pool;
	uint64_t sq_off;
	int err = pool->calls->alloc(pool, queue_bytes(qp), &sq_off);

	if (err)
		return err;
	err = pool->calls->alloc(pool, sizeof(**hand), &qp->hand_off);
	if (err) {
		pool->calls->free(pool, sq_off, queue_bytes(qp));
		return err;
	}
	*hand = (void *)(pool->base + qp->hand_off);
	(*hand)->sq_off = sq_off;
	return 0;
}

static void free_hand(struct weft_qp *qp, const struct weft_pool_hand *hand, bool quiet)
{
	struct weft_pool *pool = qp->nic->pool;

	give_memory(pool, hand->sq_off, queue_bytes(qp), quiet);
	give_memory(pool, qp->hand_off, sizeof(*hand), quiet);
	qp->hand_off = 0;
}

/* While nothing is under way: the card reads it when something is. */
static void tell_path(const struct weft_qp *qp, struct weft_pool_path *path)
{
	const struct weft_qp_attr *attr = &qp->attr;

	*path = (struct weft_pool_path){
		.dest_qpn = attr->dest_qpn,
		.sq_psn = attr->sq_psn,
		.flow_label = attr->flow_label,
		.path_mtu = attr->path_mtu,
		.hop_limit = attr->hop_limit,
		.traffic_class = attr->traffic_class,
		.service_level = attr->service_level,
		.rnr_retry = attr->rnr_retry,
		.retry_cnt = attr->retry_cnt,
		.timeout = attr->timeout,
		.max_rd_atomic = attr->max_rd_atomic,
		.max_dest_rd_atomic = attr->max_dest_rd_atomic,
	};
	__builtin_memcpy(path->sgid, attr->sgid, sizeof(path->sgid));
	__builtin_memcpy(path->dgid, attr->dgid, sizeof(path->dgid));
}

uint64_t weft_handed_incarnation(const struct weft_nic *nic, uint16_t card)
{
	const struct weft_pool_member *m = nic->pool->calls->member(nic->pool, card);

	return m ? atomic_load_explicit(&m->incarnation, memory_order_acquire) : 0;
}

uint64_t weft_handed_mtu(const struct weft_nic *nic, uint16_t card)
{
	const struct weft_pool_member *m = nic->pool->calls->member(nic->pool, card);

	return m ? atomic_load_explicit(&m->card.told[WEFT_CARD_MTU], memory_order_relaxed) : 0;
}

/* A card that has died since this transport was chosen is taken, too: the queue pair ends as those do that it had. */
static uint16_t chosen_card(const struct weft_qp *qp)
{
	uint16_t card = weft_handed_card(qp->nic, qp->attr.sgid, qp->attr.dgid);

	return card != WEFT_NOBODY ? card
				   : find_card_of_path(qp->nic, qp->attr.sgid, qp->attr.dgid, true);
}

static int connect_card(struct weft_qp *qp, uint16_t *executor)
{
	uint16_t card = chosen_card(qp);
	struct handed *h = handed_of(qp);
	struct weft_pool_hand *hand;
	uint64_t return_off;
	int err = make_hand(qp, &hand);

	if (err)
		return err;
	err = weft_returns_get(qp, card, &return_off);
	if (err) {
		free_hand(qp, hand, true);
		/* it has ended since it was chosen: as if no card were there */
		return err == -ENOENT ? -ENOMEM : err;
	}
	hand->return_off = return_off;
	hand->sq_size = qp->sq_size;
	hand->sq_stride = qp->sq_stride;
	hand->tag = qp->tag;
	hand->card = card;
	hand->signal_all = qp->signal_all;
	tell_path(qp, &hand->path);
	atomic_fetch_add_explicit(&qp->nic->nhanded, 1, memory_order_relaxed);
	WEFT_STEP(handed_made);
	*h = (struct handed){
		.hand = hand,
		.own_sq = qp->sq,
		.card_incarnation = weft_handed_incarnation(qp->nic, card),
		.connected_at = atomic_load_explicit(&qp->slot->conn, memory_order_relaxed),
	};
	qp->sq = qp->nic->pool->base + hand->sq_off;
	*executor = card;
	return 0;
}

/* ---- Issuing ---- */

void weft_handed_ring(struct weft_nic *nic, uint32_t bell, uint16_t card)
{
	struct weft_pool_member *self = nic->pool->self;
	uint64_t n;

	weft_lock(nic, &nic->doorbell_lock, 0);
	n = atomic_load_explicit(&self->card.rings, memory_order_relaxed);
	/* release: pairs with the acquire fence in hear_ring (doorbells.c): a card that finds a later ring there sees
	 * that `rings` has grown past the one it looked for */
	atomic_store_explicit(&self->card.doorbell[n % WEFT_DOORBELLS], bell, memory_order_release);
	/* release: pairs with the acquire in look_at_member (doorbells.c) */
	atomic_store_explicit(&self->card.rings, n + 1, memory_order_release);
	weft_unlock(&nic->doorbell_lock, false);
	WEFT_STEP(handed_rung);
	nic->pool->calls->wake_card(nic->pool, card);
}

/* What is wrong on this side but for keys; those the card looks at when it touches bytes. */
static enum weft_cause check_request(const struct weft_qp *qp, struct weft_wqe *wqe)
{
	uint64_t bytes;

	if (!(wqe->flags & WEFT_SEND_INLINE)) {
		enum weft_cause cause;

		bytes = weft_gather_listed_bytes(wqe);
		cause = weft_gather_check_bytes(wqe, bytes);
		if (cause)
			return cause;
		wqe->len_bytes = (uint32_t)bytes;
	}
	if (wqe->opcode == WEFT_OP_ATOMIC_WRITE && wqe->len_bytes != 8)
		return WEFT_CAUSE_ATOMIC_LENGTH;
	return weft_op_fetches(wqe->opcode) && !qp->attr.max_rd_atomic ? WEFT_CAUSE_NO_READS
								       : WEFT_CAUSE_NONE;
}

static enum weft_outcome hand_on(struct weft_qp *qp, struct weft_wqe *wqe,
				 struct weft_caller *caller, enum weft_cause *cause)
{
	struct handed *h = handed_of(qp);
	uint64_t position = weft_sq_next_issue(qp), before = h->posted;

	*cause = check_request(qp, wqe);
	if (*cause)
		return WEFT_FAILED;
	wqe->flags &= (uint8_t)~WEFT_SEND_ENDED;
	if (!qp->under_way)
		tell_path(qp, &h->hand->path);
	if (h->stopped)
		/* release: pairs with the acquire in see_posted (doorbells.c) */
		atomic_store_explicit(&h->hand->resumed, position + 1, memory_order_release);
	h->posted = position + 1;
	/* release: likewise */
	atomic_store_explicit(&h->hand->posted, h->posted, memory_order_release);
	WEFT_STEP(handed_posted);
	/* pairs with the fence in see_posted (doorbells.c): it sees this request, or we see that it has looked */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&h->hand->seen, memory_order_relaxed) >= before || h->stopped)
		weft_handed_ring(qp->nic, qp->index, h->hand->card);
	h->stopped = false;
	return WEFT_UNDER_WAY;
}

/* ---- Ending ---- */

/* Of a request that nothing comes back of any more. If the card has found us at fault, too, that came first: it takes
 * nothing that arrives for us after a verdict of ours. */
static void end_in_error(struct weft_qp *qp, uint64_t position, enum weft_cause cause)
{
	if (weft_qp_look(qp))
		return;
	weft_sq_recall(qp, position + 1);
	weft_sq_end(qp, position, cause);
}

/* What has ended since the last time: those that ended well stand in the ring, and go to the private queue before
 * anything can be completed there that comes behind them. */
static void take_ended(struct weft_qp *qp, struct handed *h)
{
	/* acquire: pairs with the release in weft_card_fail (requests.c); it is the later one */
	uint64_t verdict = atomic_load_explicit(&h->hand->verdict, memory_order_acquire);
	/* acquire: pairs with the release in weft_card_succeed (requests.c) */
	uint64_t ended = atomic_load_explicit(&h->hand->ended, memory_order_acquire);
	uint64_t position = weft_verdict_position(verdict);

	if (ended > qp->sq_done) {
		weft_cq_drain(qp->send_cq);
		weft_sq_end_before(qp, ended);
	}
	if (!verdict || verdict == h->verdict || position != qp->sq_done || !qp->under_way)
		return;
	h->verdict = verdict;
	h->stopped = true;
	WEFT_STEP(handed_verdict_taken);
	end_in_error(qp, position, (enum weft_cause)weft_verdict_cause(verdict));
}

static bool is_alive(struct weft_qp *qp, struct handed *h, uint64_t now_ns)
{
	struct weft_pool *pool = qp->nic->pool;

	if (h->dead || now_ns - h->looked_ns < LOOKS_AFTER_CARD_NS)
		return !h->dead;
	h->looked_ns = now_ns;
	h->dead = !pool->calls->alive(pool, h->hand->card, h->card_incarnation);
	return !h->dead;
}

/* All that stands in the ring, whether `ended` says so or not. */
static void take_returned(struct weft_qp *qp)
{
	weft_cq_drain(qp->send_cq);
	weft_sq_end_before(qp, weft_returns_taken(qp));
}

/* Ends what is under way as the card would after a peer's death, if it lived; what it has told before counts. */
static void bury(struct weft_qp *qp)
{
	if (!qp->under_way)
		return;
	/* it may have died between an entry and `ended` */
	take_returned(qp);
	if (!qp->under_way)
		return;
	WEFT_STEP(handed_card_dead);
	end_in_error(qp, qp->sq_done, WEFT_CAUSE_NO_ANSWER);
	qp->nic->api->async(qp, NULL, WEFT_EVENT_QP_FATAL);
}

static uint64_t look_at_hand(struct weft_qp *qp, struct weft_caller *caller, uint64_t now_ns)
{
	struct handed *h = handed_of(qp);
	bool alive = is_alive(qp, h, now_ns);

	take_ended(qp, h);
	if (!alive)
		bury(qp);
	return qp->under_way ? LOOKS_AFTER_CARD_NS : UINT64_MAX;
}

/* The card finds that its connection is no more. */
static void leave_card(struct weft_qp *qp)
{
	struct handed *h = handed_of(qp);

	if (h->hand)
		weft_handed_ring(qp->nic, qp->index, h->hand->card);
}

/* The card is shut out, and has stored what it had to say. */
static bool is_drained(struct weft_qp *qp)
{
	struct handed *h = handed_of(qp);
	uint64_t ended = atomic_load_explicit(&h->hand->ended, memory_order_acquire);

	take_returned(qp);
	weft_sq_end_before(qp, ended);
	return true;
}

static void take_queue_back(struct weft_qp *qp, bool quiet)
{
	struct handed *h = handed_of(qp);

	weft_returns_put(qp, h->hand->return_off, quiet);
	WEFT_STEP(handed_returns_put);
	qp->sq = h->own_sq;
	free_hand(qp, h->hand, quiet);
	h->hand = NULL;
	atomic_fetch_sub_explicit(&qp->nic->nhanded, 1, memory_order_relaxed);
}

/* The card's death, of a queue pair that waits for nothing but its peer; where a request is under way that ends first. */
static bool has_lost_card(const struct weft_qp *qp, const struct handed *h, enum weft_event *event)
{
	*event = WEFT_EVENT_QP_FATAL;
	return !qp->under_way &&
	       weft_handed_incarnation(qp->nic, h->hand->card) != h->card_incarnation;
}

/* The card blames in the peer's stead. */
static bool is_blamed_by_card(struct weft_qp *qp, enum weft_event *event)
{
	struct handed *h = handed_of(qp);
	/* acquire: pairs with the release in take_line (hand.c) */
	uint32_t line = atomic_load_explicit(&h->hand->line, memory_order_acquire);
	const struct weft_pool_qp *slot = &qp->nic->pool->qps[line & (WEFT_QPS - 1)];
	uint64_t conn;

	if (has_lost_card(qp, h, event))
		return true;
	if (!line || qp->nic->pool->calls->see_qp(qp->nic->pool, line & (WEFT_QPS - 1)))
		return false;
	/* acquire: pairs with the release in weft_responder_blame */
	conn = atomic_load_explicit(&slot->fault_conn, memory_order_acquire);
	if (conn <= h->connected_at || (conn & 0xffffff) != qp->attr.dest_qpn ||
	    slot->fault_qpn != qp->qpn)
		return false;
	*event = slot->fault_code;
	return true;
}

const struct weft_transport weft_handed = {
	.name = "handed",
	.carries = {[WEFT_QPT_RC] = {hand_on, sizeof(struct handed)},
		    [WEFT_QPT_UC] = {hand_on, sizeof(struct handed)},
		    [WEFT_QPT_XRC_SEND] = {hand_on, sizeof(struct handed)},
		    [WEFT_QPT_XRC_RECV] = {hand_on, sizeof(struct handed)}},
	.most_under_way = UINT32_MAX,
	.in_order = true,
	.silence = WEFT_CAUSE_NO_ANSWER,
	.reaches = has_card,
	.connect = connect_card,
	.abort = leave_card,
	.is_blamed = is_blamed_by_card,
	.progress = look_at_hand,
	.drained = is_drained,
	.release = take_queue_back,
};
