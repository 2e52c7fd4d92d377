/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "courier.h"
#include "nic/arrive.h"
#include "nic/incoming.h"

#include <stdlib.h>
#include <string.h>

enum stage {
	IDLE,	/* no request is being carried */
	BEGIN,	/* the request's keys are checked, and the responder begins it */
	PLACE,	/* its bytes go, part after part */
	ATOMIC, /* an atomic is carried out */
	ANSWER, /* and its old value goes back */
	END,	/* the responder completes it */
	DONE,	/* and the requester is told */
};

/* One queue pair's request that is being carried. */
struct trip {
	enum stage stage;
	uint64_t position, offset;
	uint64_t old; /* the old value of an atomic */
	enum weft_outcome awaited;
	uint8_t rnr_timer; /* the responder's */
	uint64_t looked;   /* the round of courier_rests in which it was last stepped */
	uint64_t deadline_ns;
	struct weft_wqe *request; /* a copy, with its list of elements */
	struct weft_incoming in;  /* the last member, as it ends with the request */
};

static uint64_t draw(struct courier *c)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return c->random;
}

static struct courier *courier_of(const struct weft_card_hand *hand)
{
	return (struct courier *)((char *)hand->card - offsetof(struct courier, card));
}

static void comes(struct weft_card_hand *hand)
{
	struct trip *trip = calloc(1, sizeof(*trip));

	trip->request = calloc(1, hand->sq_stride);
	hand->carried = trip;
}

static void goes(struct weft_card_hand *hand)
{
	struct trip *trip = hand->carried;

	free(trip->request);
	free(trip);
}

/* ---- The other end ---- */

/* The responder to which the queue pair's requests go; NULL: none answers there. */
static struct weft_responder *responder_of(struct weft_card_hand *hand)
{
	const struct weft_pool_path *path = &hand->hand->path;
	struct weft_card_hand *peer;
	uint8_t dgid[16];
	uint32_t psn, dest_qpn;

	if (weft_card_enter(hand) != WEFT_DONE)
		return NULL;
	memcpy(dgid, path->dgid, sizeof(dgid));
	psn = path->sq_psn;
	dest_qpn = path->dest_qpn;
	weft_card_leave(hand);
	peer = dest_qpn == hand->qpn ? hand : weft_card_find(hand->card, dest_qpn);
	if (!peer || peer->type != hand->type || peer->to.from.qpn != hand->qpn)
		return NULL;
	/* the peer has failed, although its owner has not seen that yet */
	if (peer->stopped && peer->type == WEFT_QPT_RC)
		return NULL;
	if (memcmp(peer->to.from.dgid, dgid, sizeof(dgid)) != 0) {
		memcpy(peer->to.from.dgid, dgid, sizeof(dgid));
		peer->to.addressed = 0;
	}
	peer->to.from.psn = psn;
	return &peer->to;
}

/* ---- Steps. Each returns an outcome, which says whether the next stage comes ---- */

static enum weft_outcome take(struct weft_card_hand *hand, struct trip *trip)
{
	enum weft_outcome outcome = weft_card_enter(hand);

	if (outcome != WEFT_DONE)
		return outcome;
	trip->position = hand->begun;
	memcpy(trip->request, weft_card_request(hand, trip->position), hand->sq_stride);
	weft_card_leave(hand);
	return WEFT_DONE;
}

static bool is_atomic(const struct trip *trip)
{
	return weft_op_is_atomic(trip->request->opcode) ||
	       trip->request->opcode == WEFT_OP_ATOMIC_WRITE;
}

static enum weft_outcome copy(struct weft_card_hand *hand, struct trip *trip, void *here,
			      uint64_t bytes, enum weft_cause *cause)
{
	bool back = weft_op_fetches(trip->request->opcode);
	enum weft_outcome outcome = weft_card_enter(hand);

	if (outcome != WEFT_DONE)
		return outcome == WEFT_NO_ANSWER ? WEFT_REHOMING : outcome;
	outcome = back ? weft_card_scatter(hand, trip->request, trip->offset, here, bytes, cause)
		       : weft_card_gather(hand, trip->position, trip->request, trip->offset, here,
					  bytes, cause);
	weft_card_leave(hand);
	return outcome;
}

static enum weft_outcome begin(struct weft_card_hand *hand, struct trip *trip,
			       enum weft_cause *cause)
{
	struct weft_responder *to;
	enum weft_outcome outcome;

	trip->offset = 0;
	outcome = copy(hand, trip, NULL, 0, cause);
	if (outcome != WEFT_DONE)
		return outcome;
	to = responder_of(hand);
	if (!to)
		return WEFT_NO_ANSWER;
	weft_incoming_prepare(&trip->in, to, trip->request, trip->request->len_bytes);
	if (is_atomic(trip))
		return WEFT_DONE;
	outcome = weft_incoming_enter(&trip->in, hand->card->caller);
	if (outcome != WEFT_DONE)
		return outcome;
	trip->rnr_timer = to->from.rnr_timer;
	outcome = weft_incoming_begin(&trip->in, cause);
	weft_incoming_leave(&trip->in);
	return outcome;
}

/* Enters the responder's line, if it is still the one at which the request began. */
static enum weft_outcome enter_there(struct weft_card_hand *hand, struct trip *trip)
{
	struct weft_responder *to = responder_of(hand);

	if (!to)
		return WEFT_NO_ANSWER;
	return to == trip->in.to ? weft_incoming_enter(&trip->in, hand->card->caller)
				 : WEFT_NO_RECEIVE;
}

static enum weft_outcome place_part(struct weft_card_hand *hand, struct trip *trip, uint8_t *here,
				    uint64_t bytes, enum weft_cause *cause)
{
	struct weft_spans part = {.n = 1, .len_bytes = bytes};
	enum weft_outcome outcome = enter_there(hand, trip);

	if (outcome != WEFT_DONE)
		return outcome;
	weft_span_private(&part.span[0], here, bytes);
	outcome = weft_incoming_place(&trip->in, trip->offset, &part, cause);
	weft_incoming_leave(&trip->in);
	return outcome;
}

static enum weft_outcome place(struct weft_card_hand *hand, struct trip *trip,
			       enum weft_cause *cause)
{
	static uint8_t here[COURIER_MOST_BYTES];
	struct courier *c = courier_of(hand);
	bool back = weft_op_fetches(trip->request->opcode);
	uint64_t bytes = trip->in.len_bytes - trip->offset,
		 most = c->part_bytes ? c->part_bytes : 1 + draw(c) % COURIER_MOST_BYTES;
	enum weft_outcome outcome;

	bytes = bytes < most ? bytes : most;
	outcome = back ? place_part(hand, trip, here, bytes, cause)
		       : copy(hand, trip, here, bytes, cause);
	if (outcome == WEFT_DONE)
		outcome = back ? copy(hand, trip, here, bytes, cause)
			       : place_part(hand, trip, here, bytes, cause);
	if (outcome == WEFT_DONE)
		trip->offset += bytes;
	return outcome;
}

/* The responder's line is entered. */
static enum weft_outcome do_there(struct trip *trip, uint64_t operand, enum weft_cause *cause)
{
	struct weft_incoming *in = &trip->in;
	bool writes = in->request.opcode == WEFT_OP_ATOMIC_WRITE;
	struct weft_arrival a = {.nic = in->to->from.nic,
				 .to = in->at,
				 .request = &in->request,
				 .caller = in->caller,
				 .len_bytes = 8,
				 .cause = cause};
	struct weft_span at = {.len_bytes = 8};
	enum weft_outcome outcome = weft_arrive_begin_atomic(
		a, writes ? WEFT_ACCESS_REMOTE_WRITE : WEFT_ACCESS_REMOTE_ATOMIC, &at);
	int err;

	if (outcome != WEFT_DONE)
		return outcome;
	err = writes ? weft_arrive_atomic_write(&a, &at, operand)
		     : weft_arrive_atomic(a, &at, in->request.opcode == WEFT_OP_FETCH_ADD,
					  in->request.compare_add, in->request.swap, &trip->old);
	return err ? weft_arrive_unreachable(&a, err) : WEFT_DONE;
}

static enum weft_outcome do_atomic(struct weft_card_hand *hand, struct trip *trip,
				   enum weft_cause *cause)
{
	bool writes = trip->request->opcode == WEFT_OP_ATOMIC_WRITE;
	enum weft_outcome outcome = WEFT_DONE;
	uint64_t operand = 0;

	if (writes)
		outcome = copy(hand, trip, &operand, 8, cause);
	if (outcome == WEFT_DONE)
		outcome = enter_there(hand, trip);
	if (outcome != WEFT_DONE)
		return outcome;
	outcome = do_there(trip, operand, cause);
	weft_incoming_leave(&trip->in);
	return outcome;
}

static enum weft_outcome end(struct weft_card_hand *hand, struct trip *trip)
{
	enum weft_outcome outcome = enter_there(hand, trip);

	if (outcome != WEFT_DONE)
		return outcome;
	weft_incoming_end(&trip->in);
	weft_incoming_leave(&trip->in);
	return WEFT_DONE;
}

/* Tells the requester of the request's end. Its next request comes then. */
static enum weft_outcome tell(struct weft_card_hand *hand, struct trip *trip, enum weft_cause cause)
{
	struct courier *c = courier_of(hand);
	enum weft_outcome outcome = weft_card_enter(hand);

	if (outcome != WEFT_DONE)
		return outcome;
	hand->begun = trip->position + 1;
	trip->stage = IDLE;
	if (cause) {
		c->refused++;
		weft_card_fail(hand, trip->position, cause);
	} else {
		c->carried++;
		weft_card_succeed(hand, trip->position, trip->request);
	}
	weft_card_leave(hand);
	return WEFT_DONE;
}

/* ---- One step ---- */

static enum stage after(const struct trip *trip)
{
	switch (trip->stage) {
	case IDLE:
		return BEGIN;
	case BEGIN:
		if (is_atomic(trip))
			return ATOMIC;
		return trip->in.len_bytes ? PLACE : END;
	case PLACE:
		return trip->offset < trip->in.len_bytes ? PLACE : END;
	case ATOMIC:
		return trip->request->opcode == WEFT_OP_ATOMIC_WRITE ? DONE : ANSWER;
	case ANSWER:
	case END:
	case DONE:
		break;
	}
	return DONE;
}

static enum weft_outcome act(struct weft_card_hand *hand, struct trip *trip, enum weft_cause *cause)
{
	switch (trip->stage) {
	case IDLE:
		return take(hand, trip);
	case BEGIN:
		return begin(hand, trip, cause);
	case PLACE:
		return place(hand, trip, cause);
	case ATOMIC:
		return do_atomic(hand, trip, cause);
	case ANSWER:
		return copy(hand, trip, &trip->old, 8, cause);
	case END:
		return end(hand, trip);
	case DONE:
		break;
	}
	return tell(hand, trip, WEFT_CAUSE_NONE);
}

/* The peer does not answer, or has no receive. False: that has lasted too long, and *cause says which of the
 * two it was. */
static bool waits(const struct weft_card_hand *hand, struct trip *trip, enum weft_outcome outcome,
		  enum weft_cause *cause)
{
	const struct weft_pool_path *path = &hand->hand->path;
	uint64_t now_ns = courier_of(hand)->now_ns, patience_ns;

	patience_ns = outcome == WEFT_NO_RECEIVE
			      ? weft_sq_rnr_patience_ns(path->rnr_retry, trip->rnr_timer)
			      : weft_sq_patience_ns(path->retry_cnt, path->timeout);
	if (trip->awaited != outcome) {
		trip->awaited = outcome;
		trip->deadline_ns = patience_ns == UINT64_MAX ? UINT64_MAX : now_ns + patience_ns;
	}
	*cause = outcome == WEFT_NO_RECEIVE ? WEFT_CAUSE_NO_RECEIVE : WEFT_CAUSE_NO_ANSWER;
	return now_ns < trip->deadline_ns;
}

/* The same, of a queue pair whose line has to be entered. If it cannot be, the request waits. */
static bool is_patient(struct weft_card_hand *hand, struct trip *trip, enum weft_outcome outcome,
		       enum weft_cause *cause)
{
	bool patient;

	if (weft_card_enter(hand) != WEFT_DONE)
		return true;
	patient = waits(hand, trip, outcome, cause);
	weft_card_leave(hand);
	return patient;
}

/* Makes one step of a queue pair, whose hand may be gone afterwards. Returns whether something was done. */
static bool step(struct weft_card_hand *hand)
{
	struct weft_card *card = hand->card;
	uint32_t index = hand->index;
	struct trip *trip = hand->carried;
	enum weft_cause cause = WEFT_CAUSE_NONE;
	enum weft_outcome outcome = act(hand, trip, &cause);

	if (card->by_index[index] != hand)
		return true;
	switch (outcome) {
	case WEFT_DONE:
		trip->awaited = WEFT_DONE;
		if (trip->stage != DONE && !(trip->stage == IDLE && hand->begun > trip->position))
			trip->stage = after(trip);
		return true;
	case WEFT_FAILED:
		tell(hand, trip, cause);
		return true;
	case WEFT_NO_RECEIVE:
		if (trip->stage == BEGIN)
			break;
		/* the responder has forgotten the request: it begins anew */
		trip->stage = BEGIN;
		return true;
	case WEFT_NO_ANSWER:
		break;
	case WEFT_REHOMING:
	case WEFT_UNDER_WAY:
		return false;
	}
	if (hand->type == WEFT_QPT_UC)
		tell(hand, trip, WEFT_CAUSE_NONE);
	else if (!is_patient(hand, trip, outcome, &cause))
		tell(hand, trip, cause);
	return false;
}

static bool has_work(const struct weft_card_hand *hand)
{
	const struct trip *trip = hand->carried;

	return trip->stage != IDLE || weft_card_has_next(hand);
}

/* Draws one of the queue pairs that have something to do. */
static struct weft_card_hand *choose(struct courier *c)
{
	struct weft_card_hand *chosen = NULL;
	uint64_t n = 0;

	for (struct weft_card_hand *hand = c->card.hands; hand; hand = hand->next)
		if (has_work(hand) && draw(c) % ++n == 0)
			chosen = hand;
	return chosen;
}

bool courier_step(struct courier *c, uint64_t now_ns)
{
	struct weft_card_hand *hand;
	bool rang;

	c->now_ns = now_ns;
	rang = weft_card_look(&c->card);
	hand = choose(c);
	return hand ? step(hand) || rang : rang;
}

/* A queue pair that has something to do and had no step in this round. */
static struct weft_card_hand *next_of_round(const struct courier *c)
{
	for (struct weft_card_hand *hand = c->card.hands; hand; hand = hand->next)
		if (has_work(hand) && ((struct trip *)hand->carried)->looked != c->rounds)
			return hand;
	return NULL;
}

bool courier_rests(struct courier *c, uint64_t now_ns)
{
	struct weft_card_hand *hand;
	struct trip *trip;

	c->now_ns = now_ns;
	c->rounds++;
	if (weft_card_look(&c->card))
		return false;
	while ((hand = next_of_round(c))) {
		trip = hand->carried;
		trip->looked = c->rounds;
		if (step(hand) || trip->awaited == WEFT_DONE)
			return false;
	}
	return true;
}

int courier_begin(struct courier *c, struct weft_nic *nic, struct weft_caller *caller)
{
	c->card.comes = comes;
	c->card.goes = goes;
	return weft_card_begin(&c->card, nic, caller, WEFT_CARD_ALL);
}

void courier_end(struct courier *c)
{
	weft_card_end(&c->card);
}
