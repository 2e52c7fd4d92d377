/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pieces.h"

#include <string.h>

#include "nic/arrive.h"
#include "nic/gather.h"
#include "nic/incoming.h"
#include "nic/queues.h"

#define ALL_PIECES ((1u << PIECES) - 1)
#define LAST_PIECE (1u << (PIECES - 1))

/* A request that is under way. */
struct taken {
	struct weft_wqe *wqe;
	uint64_t position;
	enum { WAITS, ARRIVES, CARRIED_OUT } stage;
	/* a bit for each part; the last part's as soon as it has arrived, though it is placed
	 * behind the others */
	uint32_t placed;
	uint64_t old; /* the value that an atomic found */
	uint64_t waits_since_ns;
};

struct state {
	struct weft_responder to;
	uint64_t
		/* our own conn word when we connected: faults of before are not of this
		 * connection */
		connected_at;
	struct weft_xrc_queue queue;
	struct taken taken[PIECES_MOST]; /* in the send queue's order */
	uint32_t n;
	bool failed; /* requests behind a failed one are not carried any more */
	/* of the first request that is not carried out; the last member, as it ends with the
	 * request */
	struct weft_incoming in;
};

struct pieces_will pieces_will;
struct weft_caller pieces_line;
uint32_t pieces_begun;

static bool reaches(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16])
{
	return true;
}

static int connect(struct weft_qp *qp, uint16_t *executor)
{
	struct state *s = qp->carried;

	assert_false(pieces_will.clings); /* connecting anew waits until the transport has let go */
	weft_responder_begin(&s->to, qp);
	s->connected_at = atomic_load_explicit(&qp->slot->conn, memory_order_relaxed);
	if (weft_responder_find(&s->to))
		*executor = s->to.grant.member;
	return 0;
}

static void leave(struct weft_qp *qp)
{
	struct state *s = qp->carried;

	weft_responder_drop(&s->queue.responder);
	weft_responder_drop(&s->to);
	weft_responder_leave(&s->to);
	s->to.slot = NULL;
	s->n = 0;
}

static enum weft_outcome issue(struct weft_qp *qp, struct weft_wqe *wqe, struct weft_caller *caller,
			       enum weft_cause *cause)
{
	struct state *s = qp->carried;

	assert_true(s->n < PIECES_MOST);
	assert_false(s->failed); /* nothing begins behind an error */
	s->taken[s->n++] = (struct taken){.wqe = wqe, .position = weft_sq_next_issue(qp)};
	return WEFT_UNDER_WAY;
}

static void end(struct weft_qp *qp, struct state *s, uint32_t i, enum weft_cause cause)
{
	uint64_t position = s->taken[i].position;

	s->n--;
	memmove(&s->taken[i], &s->taken[i + 1], (s->n - i) * sizeof(*s->taken));
	weft_sq_end(qp, position, cause);
	if (cause && qp->type != WEFT_QPT_UC)
		s->failed = true;
	/* of UC the send queue alone stops: the nic will not call abort for the requests behind */
	while (cause && !s->failed && i < s->n)
		end(qp, s, i, WEFT_CAUSE_NONE);
}

/* ---- At the responder: the busy line of pieces_line is set ---- */

static bool is_word(const struct weft_wqe *wqe)
{
	return weft_op_is_atomic(wqe->opcode) || wqe->opcode == WEFT_OP_ATOMIC_WRITE;
}

/* Atomics are of one part. */
static enum weft_outcome carry_word(struct state *s, struct taken *t, const struct weft_arrival a)
{
	bool write = t->wqe->opcode == WEFT_OP_ATOMIC_WRITE;
	struct weft_span at, operand;
	enum weft_outcome outcome;
	uint64_t value;
	int err;

	outcome = weft_arrive_begin_atomic(
		a, write ? WEFT_ACCESS_REMOTE_WRITE : WEFT_ACCESS_REMOTE_ATOMIC, &at);
	if (outcome != WEFT_DONE)
		return outcome;
	weft_span_private(&operand, &value, 8);
	if (write)
		err = weft_place(a.nic, a.caller, &a.to->grant, &operand, a.here, 8);
	else
		err = weft_arrive_atomic(a, &at, t->wqe->opcode == WEFT_OP_FETCH_ADD,
					 t->wqe->compare_add, t->wqe->swap, &t->old);
	if (write && !err)
		err = weft_arrive_atomic_write(&a, &at, value);
	return err ? weft_arrive_unreachable(&a, err) : WEFT_DONE;
}

static enum weft_outcome begin(struct weft_qp *qp, struct state *s, struct taken *t,
			       enum weft_cause *cause)
{
	enum weft_outcome outcome;
	struct weft_spans here;

	*cause = weft_gather(qp, t->wqe, &pieces_line, &here);
	if (*cause)
		return weft_gather_failed(&pieces_line);
	if (is_word(t->wqe) && s->in.at) {
		outcome =
			carry_word(s, t,
				   (struct weft_arrival){qp->nic, s->in.at, t->wqe, &pieces_line,
							 here.span, here.len_bytes, here.n, cause});
		t->stage = outcome == WEFT_DONE ? CARRIED_OUT : WAITS;
		return outcome;
	}
	outcome = weft_incoming_begin(&s->in, cause);
	pieces_begun += outcome == WEFT_DONE;
	t->stage = outcome == WEFT_DONE ? ARRIVES : WAITS;
	t->placed = 0;
	return outcome;
}

static enum weft_outcome place_one(struct weft_qp *qp, struct state *s, struct taken *t,
				   uint64_t piece, enum weft_cause *cause)
{
	uint64_t each = s->in.len_bytes / PIECES;
	struct weft_spans here;

	*cause = weft_gather(qp, t->wqe, &pieces_line, &here);
	if (*cause)
		return weft_gather_failed(&pieces_line);
	if (!here.len_bytes)
		return WEFT_DONE;
	weft_spans_cut(&here, piece * each);
	here.len_bytes = each;
	return weft_incoming_place(&s->in, piece * each, &here, cause);
}

/* The last part may arrive before others; it is placed when all have arrived. */
static enum weft_outcome place(struct weft_qp *qp, struct state *s, struct taken *t, uint64_t piece,
			       enum weft_cause *cause)
{
	enum weft_outcome outcome = WEFT_DONE;

	if (piece != PIECES - 1)
		outcome = place_one(qp, s, t, piece, cause);
	if (outcome == WEFT_DONE)
		t->placed |= 1u << piece;
	if (outcome == WEFT_DONE && t->placed == ALL_PIECES)
		outcome = place_one(qp, s, t, PIECES - 1, cause);
	if (outcome != WEFT_DONE)
		t->placed &= ~(1u << piece);
	return outcome;
}

static enum weft_outcome finish(struct weft_qp *qp, struct state *s, struct taken *t,
				enum weft_cause *cause)
{
	enum weft_outcome outcome = WEFT_DONE;

	for (uint64_t piece = 0; piece < PIECES && outcome == WEFT_DONE; piece++)
		if (!(t->placed >> piece & 1))
			outcome = place(qp, s, t, piece, cause);
	if (outcome != WEFT_DONE)
		return outcome;
	weft_incoming_end(&s->in);
	t->stage = CARRIED_OUT;
	return WEFT_DONE;
}

/* ---- One step of a request ---- */

static void prepare(struct weft_qp *qp, struct state *s, const struct weft_wqe *wqe)
{
	uint64_t bytes = weft_gather_listed_bytes(wqe);

	if (qp->type == WEFT_QPT_XRC_SEND)
		weft_incoming_prepare_xrc(&s->in, &s->to, &s->queue, wqe, bytes);
	else
		weft_incoming_prepare(&s->in, &s->to, wqe, bytes);
}

static enum weft_outcome enter(struct weft_qp *qp, struct state *s, struct taken *t)
{
	enum weft_outcome outcome;

	s->to.from.psn = qp->attr.sq_psn;
	if (!s->to.slot && !weft_responder_find(&s->to))
		return WEFT_NO_ANSWER;
	if (t->stage == WAITS)
		prepare(qp, s, t->wqe);
	outcome = weft_incoming_enter(&s->in, &pieces_line);
	if (outcome != WEFT_NO_RECEIVE)
		return outcome;
	t->stage = WAITS; /* the queue pair was reset: the request begins anew */
	return weft_incoming_enter(&s->in, &pieces_line);
}

/* An error on the requester's side is told although the peer does not answer. */
static enum weft_outcome unanswered(struct weft_qp *qp, struct taken *t, enum weft_outcome outcome,
				    enum weft_cause *cause)
{
	struct weft_spans here;

	*cause = weft_gather(qp, t->wqe, &pieces_line, &here);
	return *cause ? weft_gather_failed(&pieces_line) : outcome;
}

static enum weft_outcome step(struct weft_qp *qp, struct state *s, struct taken *t, char what,
			      enum weft_cause *cause)
{
	enum weft_outcome outcome = enter(qp, s, t);

	if (outcome != WEFT_DONE)
		return unanswered(qp, t, outcome, cause);
	if (t->stage == WAITS)
		outcome = begin(qp, s, t, cause);
	if (outcome == WEFT_DONE && t->stage == ARRIVES && what == 'e')
		outcome = finish(qp, s, t, cause);
	else if (outcome == WEFT_DONE && t->stage == ARRIVES && what != 'b')
		outcome = place(qp, s, t, (uint64_t)(what - '0'), cause);
	weft_incoming_leave(&s->in);
	if (outcome == WEFT_NO_RECEIVE)
		t->stage = WAITS;
	return outcome;
}

/* What becomes of a request that has had no answer, or no receive. Its time is up at any look that is later
 * than the first: this clock is coarse. */
static enum weft_cause time_is_up(struct weft_qp *qp, struct taken *t, enum weft_outcome outcome,
				  uint64_t now_ns)
{
	bool forever = outcome == WEFT_REHOMING ||
		       (outcome == WEFT_NO_RECEIVE && qp->attr.rnr_retry == 7) ||
		       (outcome == WEFT_NO_ANSWER && !qp->attr.timeout);

	if (forever || !t->waits_since_ns) {
		t->waits_since_ns = forever ? 0 : now_ns;
		return WEFT_CAUSE_NONE;
	}
	if (now_ns == t->waits_since_ns)
		return WEFT_CAUSE_NONE;
	return outcome == WEFT_NO_RECEIVE ? WEFT_CAUSE_NO_RECEIVE : WEFT_CAUSE_NO_ANSWER;
}

/* False: the request goes no further now, or has ended. */
static bool advance(struct weft_qp *qp, struct state *s, uint32_t i, char what, uint64_t now_ns)
{
	enum weft_cause cause = WEFT_CAUSE_NONE;
	struct taken *t = &s->taken[i];
	enum weft_outcome outcome = step(qp, s, t, what, &cause);

	if (outcome == WEFT_DONE) {
		t->waits_since_ns = 0;
		return true;
	}
	/* a requester of UC does not learn of it */
	if (outcome != WEFT_FAILED && outcome != WEFT_REHOMING && qp->type == WEFT_QPT_UC) {
		end(qp, s, i, WEFT_CAUSE_NONE);
		return false;
	}
	if (outcome != WEFT_FAILED)
		cause = time_is_up(qp, t, outcome, now_ns);
	if (cause)
		end(qp, s, i, cause);
	return false;
}

/* ---- Answers ---- */

static enum weft_cause answer(struct weft_qp *qp, const struct taken *t)
{
	struct weft_span result;
	struct weft_spans here;
	uint64_t old = t->old;

	if (!weft_op_is_atomic(t->wqe->opcode))
		return WEFT_CAUSE_NONE;
	if (weft_gather(qp, t->wqe, &pieces_line, &here))
		return WEFT_CAUSE_LOCAL_KEY;
	weft_span_private(&result, &old, 8);
	return weft_place(qp->nic, &pieces_line, NULL, here.span, &result, 8)
		       ? WEFT_CAUSE_LOCAL_MEMORY
		       : WEFT_CAUSE_NONE;
}

static void tell(struct weft_qp *qp, struct state *s, uint64_t wr_id)
{
	for (uint32_t i = 0; i < s->n;)
		if (s->taken[i].stage == CARRIED_OUT && (!wr_id || s->taken[i].wqe->wr_id == wr_id))
			end(qp, s, i, answer(qp, &s->taken[i]));
		else
			i++;
}

/* A READ is carried out again; a request that has changed memory is not. */
static void lose(struct state *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->taken[i].wqe->opcode == WEFT_OP_READ)
			s->taken[i].stage = WAITS;
}

static uint32_t first_open(const struct state *s)
{
	uint32_t i = 0;

	while (i < s->n && s->taken[i].stage == CARRIED_OUT)
		i++;
	return i;
}

static uint64_t progress(struct weft_qp *qp, struct weft_caller *caller, uint64_t now_ns)
{
	struct state *s = qp->carried;
	uint32_t i = first_open(s);

	if (pieces_will.loses)
		lose(s);
	if (pieces_will.step && i < s->n && !s->failed) {
		if (advance(qp, s, i, pieces_will.step, now_ns) || !s->n)
			pieces_will.step = 0;
	} else if (!pieces_will.held) {
		while (!s->failed && (i = first_open(s)) < s->n && advance(qp, s, i, 'e', now_ns))
			;
	}
	if (pieces_will.answered)
		tell(qp, s, pieces_will.answered);
	else if (!pieces_will.keeps)
		tell(qp, s, 0);
	pieces_will.loses = false;
	pieces_will.answered = 0;
	return UINT64_MAX;
}

static bool drained(struct weft_qp *qp)
{
	return !pieces_will.clings;
}

static bool is_blamed(struct weft_qp *qp, enum weft_event *event)
{
	const struct weft_pool_qp *peer = &world.pool->qps[qp->attr.dest_qpn & (WEFT_QPS - 1)];
	/* acquire: pairs with the release in weft_responder_blame */
	uint64_t conn = atomic_load_explicit(&peer->fault_conn, memory_order_acquire);
	const struct state *s = qp->carried;

	*event = peer->fault_code;
	return conn > s->connected_at && (conn & 0xffffff) == qp->attr.dest_qpn &&
	       peer->fault_qpn == qp->qpn;
}

const struct weft_transport pieces = {
	.name = "pieces",
	.carries = {[WEFT_QPT_RC] = {issue, sizeof(struct state)},
		    [WEFT_QPT_UC] = {issue, sizeof(struct state)},
		    [WEFT_QPT_XRC_SEND] = {issue, sizeof(struct state)},
		    [WEFT_QPT_XRC_RECV] = {issue, sizeof(struct state)}},
	.most_under_way = PIECES_MOST,
	.silence = WEFT_CAUSE_NO_ANSWER,
	.reaches = reaches,
	.connect = connect,
	.abort = leave,
	.is_blamed = is_blamed,
	.progress = progress,
	.drained = drained,
};

/* ---- What its tests call ---- */

static void somebody_waits(void)
{
	pieces_will.clings = false;
}

void pieces_begin(void)
{
	pieces_will = (struct pieces_will){.held = false};
	pieces_begun = 0;
	world.yields = somebody_waits;
}

void pieces_attach(void)
{
	weft_pool_caller_get(world.pool, &pieces_line);
}

void pieces_detach(void)
{
	weft_pool_caller_put(world.pool, &pieces_line);
}
