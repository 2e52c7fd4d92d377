/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which queue pairs a card carries: how they come, are looked at, and go. */
#include "card/hand.h"
#include "nic/busy.h"
#include "nic/errors.h"
#include "nic/limits.h"
#include "nic/nic.h"
#include "nic/wqe.h"
#include "pool/format.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"
#include "pool/format_ring.h"

/* ---- Lines ---- */

/* What a queue pair says of itself, read between two equal looks at its conn word. */
struct seen {
	uint64_t conn, hand_off;
	uint32_t qpn, connection;
	uint16_t owner;
	uint8_t type;
};

static bool read_slot(const struct weft_pool_qp *slot, struct seen *seen)
{
	/* acquire: pairs with the release in publish_qp (qp.c) */
	seen->conn = atomic_load_explicit(&slot->conn, memory_order_acquire);
	seen->hand_off = slot->hand_off;
	seen->qpn = slot->qpn;
	seen->owner = slot->owner;
	seen->type = slot->type;
	seen->connection = slot->connection;
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&slot->conn, memory_order_relaxed) == seen->conn;
}

static enum weft_pool_conn state_of(uint64_t conn)
{
	return conn >> 24 & 0xff;
}

/* Whether the queue pair's owner is in the middle of publish_qp (qp.c), or its rights have just been ended (lease.c). */
static bool is_changing(const struct seen *seen)
{
	return !(uint32_t)seen->conn && seen->hand_off && seen->qpn;
}

static bool is_same(const struct weft_card_hand *hand, const struct seen *seen)
{
	return seen->qpn == hand->qpn && seen->connection == hand->connection && seen->hand_off &&
	       seen->owner == hand->grant.member;
}

enum weft_outcome weft_card_look_at(struct weft_card_hand *hand)
{
	struct seen seen;

	/* acquire: likewise */
	if (atomic_load_explicit(&hand->slot->conn, memory_order_acquire) == hand->grant.was)
		return WEFT_DONE;
	if (!read_slot(hand->slot, &seen))
		return WEFT_REHOMING; /* it is just being changed */
	if (!is_same(hand, &seen))
		return WEFT_NO_ANSWER;
	if (state_of(seen.conn) == WEFT_CONN_REHOMING || is_changing(&seen))
		return WEFT_REHOMING;
	if (state_of(seen.conn) != WEFT_CONN_READY)
		return WEFT_NO_ANSWER;
	hand->grant.was = seen.conn;
	return WEFT_DONE;
}

static void forget_hand(struct weft_card_hand *hand)
{
	struct weft_card *card = hand->card;

	if (card->goes)
		card->goes(hand);
	weft_responder_drop(&hand->to);
	weft_responder_drop(&hand->named.responder);
	weft_responder_leave(&hand->to);
	card->nic->pool->calls->drop_qp(card->nic->pool, hand->line);
	card->by_index[hand->index] = NULL;
	*hand->at_prev = hand->next;
	if (hand->next)
		hand->next->at_prev = hand->at_prev;
	weft_nic_free(card->nic, hand);
}

enum weft_outcome weft_card_try(struct weft_card_hand *hand)
{
	enum weft_outcome outcome;

	hand->next_busy =
		weft_busy_begin(hand->card->caller, weft_busy_at(hand->grant.member, hand->index));
	outcome = weft_card_look_at(hand);
	if (outcome != WEFT_DONE)
		weft_card_leave(hand);
	return outcome;
}

enum weft_outcome weft_card_enter(struct weft_card_hand *hand)
{
	enum weft_outcome outcome = weft_card_try(hand);

	if (outcome == WEFT_NO_ANSWER)
		forget_hand(hand);
	return outcome;
}

void weft_card_leave(struct weft_card_hand *hand)
{
	weft_busy_end(hand->card->caller, hand->next_busy);
}

/* ---- Coming ---- */

static bool map_returns(struct weft_card_hand *hand, uint64_t off)
{
	struct weft_pool *pool = hand->card->nic->pool;
	uint32_t size;

	hand->returns =
		off % WEFT_LINE ? NULL : pool->calls->window(pool, off, sizeof(*hand->returns));
	if (!hand->returns || hand->returns->producer != pool->me)
		return false;
	size = hand->returns->size;
	hand->returns_mask = size - 1;
	hand->returns_bits = (uint8_t)(size ? __builtin_ctz(size) : 0);
	return size && !(size & hand->returns_mask) &&
	       pool->calls->populate(pool, off, weft_pool_ring_bytes(size, hand->returns->stamped));
}

static bool map_requests(struct weft_card_hand *hand)
{
	struct weft_pool *pool = hand->card->nic->pool;
	uint32_t size = hand->hand->sq_size, stride = hand->hand->sq_stride;
	uint64_t off = hand->hand->sq_off;

	if (!size || size & (size - 1) || size > WEFT_MAX_WR || off % 8 || stride % 8 ||
	    stride < sizeof(struct weft_wqe))
		return false;
	hand->sq_mask = size - 1;
	hand->sq_stride = stride;
	hand->sq = pool->calls->populate(pool, off, (uint64_t)size * stride);
	return hand->sq;
}

/* To be called while the line names the queue pair. False: it is not handed to this card. */
static bool map_hand(struct weft_card_hand *hand, uint64_t hand_off)
{
	struct weft_pool *pool = hand->card->nic->pool;

	hand->hand = hand_off % WEFT_LINE
			     ? NULL
			     : pool->calls->populate(pool, hand_off, sizeof(*hand->hand));
	if (!hand->hand || hand->hand->card != pool->me)
		return false;
	hand->tag = hand->hand->tag;
	hand->signal_all = hand->hand->signal_all;
	/* an earlier card may have begun requests: goes on behind those that ended */
	hand->begun = atomic_load_explicit(&hand->hand->ended, memory_order_relaxed);
	return map_requests(hand) && map_returns(hand, hand->hand->return_off);
}

/* Of the queue pair that sends to it. */
static uint8_t peer_type(uint8_t type)
{
	return type == WEFT_QPT_XRC_RECV ? WEFT_QPT_XRC_SEND : type;
}

static bool take_line(struct weft_card_hand *hand)
{
	struct weft_pool *pool = hand->card->nic->pool;
	struct weft_pool_qp *line;

	if (pool->calls->take_qp(pool, &hand->line))
		return false;
	line = &pool->qps[hand->line];
	weft_store(&line->rq_taken_epoch, 0);
	weft_store(&line->rq_taken_qpn, 0);
	weft_store(&line->fault_qpn, 0);
	atomic_store_explicit(&line->fault_conn, 0, memory_order_relaxed);
	hand->to = (struct weft_responder){
		.from = {.nic = hand->card->nic,
			 .slot = line,
			 .qpn = hand->hand->path.dest_qpn,
			 .dest_qpn = hand->qpn,
			 .psn = WEFT_ANY_PSN,
			 .type = peer_type(hand->type)},
		.peer = &hand->to,
	};
	/* release: pairs with the acquire in is_blamed_by_card (handed.c) */
	atomic_store_explicit(&hand->hand->line, hand->line, memory_order_release);
	return weft_responder_find(&hand->to);
}

static bool read_and_map(struct weft_card_hand *hand)
{
	struct seen seen;

	if (!read_slot(hand->slot, &seen) ||
	    (state_of(seen.conn) != WEFT_CONN_READY && state_of(seen.conn) != WEFT_CONN_REHOMING) ||
	    !seen.hand_off || seen.owner != hand->grant.member)
		return false;
	hand->qpn = seen.qpn;
	hand->connection = seen.connection;
	hand->type = seen.type;
	/* while its owner rehomes the first look waits */
	hand->grant.was = state_of(seen.conn) == WEFT_CONN_READY ? seen.conn : UINT64_MAX;
	return map_hand(hand, seen.hand_off) && take_line(hand);
}

static void list_hand(struct weft_card_hand *hand)
{
	struct weft_card *card = hand->card;

	hand->next = card->hands;
	hand->at_prev = &card->hands;
	if (hand->next)
		hand->next->at_prev = &hand->next;
	card->hands = card->by_index[hand->index] = hand;
	if (card->comes)
		card->comes(hand);
}

static struct weft_card_hand *attach_hand(struct weft_card *card, uint32_t index)
{
	struct weft_pool *pool = card->nic->pool;
	struct weft_card_hand *hand;
	bool is_ours;

	if (pool->calls->see_qp(pool, index))
		return NULL;
	hand = weft_nic_alloc(card->nic, sizeof(*hand));
	if (!hand)
		return NULL;
	hand->card = card;
	hand->index = index;
	hand->slot = &pool->qps[index];
	hand->grant = (struct weft_grant){&hand->slot->conn, 0, hand->slot->owner};
	hand->next_busy = weft_busy_begin(card->caller, weft_busy_at(hand->grant.member, index));
	is_ours = read_and_map(hand);
	weft_card_leave(hand);
	if (is_ours) {
		list_hand(hand);
		return hand;
	}
	if (hand->line)
		pool->calls->drop_qp(pool, hand->line);
	weft_nic_free(card->nic, hand);
	return NULL;
}

struct weft_card_hand *weft_card_at_index(struct weft_card *card, uint32_t index)
{
	struct weft_card_hand *hand = card->by_index[index];
	enum weft_outcome outcome = hand ? weft_card_enter(hand) : WEFT_NO_ANSWER;

	if (outcome == WEFT_NO_ANSWER)
		return attach_hand(card, index);
	if (outcome == WEFT_DONE)
		weft_card_leave(hand);
	return hand;
}

struct weft_card_hand *weft_card_find(struct weft_card *card, uint32_t qpn)
{
	struct weft_card_hand *hand = weft_card_at_index(card, qpn & (WEFT_QPS - 1));

	return hand && hand->qpn == qpn ? hand : NULL;
}

bool weft_card_comes_later(const struct weft_card *card, uint32_t index)
{
	struct weft_pool *pool = card->nic->pool;
	struct seen seen;

	return !pool->calls->see_qp(pool, index) &&
	       (!read_slot(&pool->qps[index], &seen) || is_changing(&seen));
}

void weft_card_sweep(struct weft_card *card)
{
	struct weft_card_hand *next;

	for (struct weft_card_hand *hand = card->hands; hand; hand = next) {
		next = hand->next;
		if (weft_card_enter(hand) == WEFT_DONE)
			weft_card_leave(hand);
	}
}

/* ---- Being a card ---- */

int weft_card_begin(struct weft_card *card, struct weft_nic *nic, struct weft_caller *caller,
		    enum weft_card_reach reach)
{
	card->nic = nic;
	card->caller = caller;
	card->by_index = weft_nic_alloc(nic, WEFT_QPS * sizeof(struct weft_card_hand *));
	card->heard = weft_nic_alloc(nic, WEFT_MEMBERS * sizeof(*card->heard));
	if (!card->by_index || !card->heard) {
		weft_nic_free(nic, card->by_index);
		weft_nic_free(nic, card->heard);
		return -ENOMEM;
	}
	/* release: pairs with the acquire in plays (handed.c) */
	atomic_store_explicit(&nic->pool->self->card.reach, reach, memory_order_release);
	return 0;
}

void weft_card_end(struct weft_card *card)
{
	atomic_store_explicit(&card->nic->pool->self->card.reach, WEFT_CARD_NONE,
			      memory_order_relaxed);
	while (card->hands)
		forget_hand(card->hands);
	weft_nic_free(card->nic, card->by_index);
	weft_nic_free(card->nic, card->heard);
}
