/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pieces.h"

#include "nic/gather.h"
#include "nic/incoming.h"

struct state {
	struct weft_responder to;
	struct weft_wqe *wqe;
	uint64_t position;
	struct weft_incoming in; /* last, as its request is */
};

char pieces_step;
struct weft_caller pieces_line;
uint32_t pieces_begun;

static bool reaches(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16])
{
	return true;
}

static int connect(struct weft_qp *qp, uint16_t *executor)
{
	struct state *s = qp->carried;

	weft_responder_begin(&s->to, qp);
	if (weft_responder_find(&s->to))
		*executor = s->to.grant.member;
	return 0;
}

static void leave(struct weft_qp *qp)
{
	struct state *s = qp->carried;

	weft_responder_drop(&s->to);
	weft_responder_leave(&s->to);
	s->to.slot = NULL;
	s->wqe = NULL;
}

/* The line is stored. */
static enum weft_outcome begin(struct weft_qp *qp, struct state *s, struct weft_wqe *wqe,
			       enum weft_cause *cause)
{
	enum weft_outcome outcome;
	struct weft_spans here;

	*cause = weft_gather(qp, wqe, &pieces_line, &here);
	if (*cause)
		return weft_gather_failed(&pieces_line);
	outcome = weft_incoming_begin(&s->in, cause);
	pieces_begun += outcome == WEFT_DONE;
	return outcome;
}

static enum weft_outcome issue(struct weft_qp *qp, struct weft_wqe *wqe, struct weft_caller *caller,
			       enum weft_cause *cause)
{
	struct state *s = qp->carried;
	enum weft_outcome outcome;

	s->to.from.psn = qp->attr.sq_psn;
	weft_incoming_prepare(&s->in, &s->to, wqe, weft_gather_listed_bytes(wqe));
	outcome = weft_incoming_enter(&s->in, &pieces_line);
	if (outcome != WEFT_DONE)
		return outcome;
	outcome = begin(qp, s, wqe, cause);
	weft_incoming_leave(&s->in);
	if (outcome != WEFT_DONE)
		return outcome;
	s->wqe = wqe;
	s->position = weft_sq_next_issue(qp);
	return WEFT_UNDER_WAY;
}

static enum weft_outcome place(struct weft_qp *qp, struct state *s, uint64_t piece,
			       enum weft_cause *cause)
{
	uint64_t each = s->in.len_bytes / PIECES;
	struct weft_spans here;

	*cause = weft_gather(qp, s->wqe, &pieces_line, &here);
	if (*cause)
		return weft_gather_failed(&pieces_line);
	here.n = s->wqe->num_sge;
	weft_spans_cut(&here, piece * each);
	here.len_bytes = each;
	return weft_incoming_place(&s->in, piece * each, &here, cause);
}

static enum weft_outcome step(struct weft_qp *qp, struct state *s, enum weft_cause *cause)
{
	enum weft_outcome outcome = weft_incoming_enter(&s->in, &pieces_line);

	if (outcome == WEFT_NO_RECEIVE) {
		outcome = weft_incoming_enter(&s->in, &pieces_line);
		if (outcome != WEFT_DONE)
			return outcome;
		outcome = begin(qp, s, s->wqe, cause);
	} else if (outcome == WEFT_DONE && pieces_step == 'e') {
		weft_incoming_end(&s->in);
	} else if (outcome == WEFT_DONE) {
		outcome = place(qp, s, (uint64_t)(pieces_step - '0'), cause);
	} else {
		return outcome;
	}
	weft_incoming_leave(&s->in);
	return outcome;
}

static uint64_t progress(struct weft_qp *qp, struct weft_caller *caller, uint64_t now_ns)
{
	enum weft_cause cause = WEFT_CAUSE_NONE;
	struct state *s = qp->carried;
	enum weft_outcome outcome;

	if (!pieces_step || !s->wqe)
		return UINT64_MAX;
	outcome = step(qp, s, &cause);
	if (outcome == WEFT_REHOMING)
		return UINT64_MAX; /* again at the next look */
	if (outcome == WEFT_NO_ANSWER)
		cause = WEFT_CAUSE_NO_ANSWER;
	if (cause || pieces_step == 'e') {
		s->wqe = NULL;
		weft_sq_end(qp, s->position, cause);
	}
	pieces_step = 0;
	return UINT64_MAX;
}

static bool drained(struct weft_qp *qp)
{
	return true;
}

static bool fault(struct weft_qp *qp, enum weft_event *event)
{
	return false;
}

const struct weft_transport pieces = {
	.name = "pieces",
	.carries = {[WEFT_QPT_RC] = {issue, sizeof(struct state)}},
	.most_under_way = 1,
	.silence = WEFT_CAUSE_NO_ANSWER,
	.reaches = reaches,
	.connect = connect,
	.abort = leave,
	.fault = fault,
	.progress = progress,
	.drained = drained,
};
