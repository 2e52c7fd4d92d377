/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/errors.h"
#include "wire/cm/conn.h"

#define MRA_TIMEOUT 24u /* code: 69 s for a program to decide */
#define MOST_CODE   31u

static const char *const names[WEFT_CONN_STATES] = {
	[WEFT_CONN_IDLE] = "idle",
	[WEFT_CONN_REQ_SENT] = "REQ sent",
	[WEFT_CONN_REQ_RCVD] = "REQ received",
	[WEFT_CONN_MRA_REQ_SENT] = "MRA to REQ sent",
	[WEFT_CONN_MRA_REQ_RCVD] = "MRA to REQ received",
	[WEFT_CONN_REP_SENT] = "REP sent",
	[WEFT_CONN_REP_RCVD] = "REP received",
	[WEFT_CONN_MRA_REP_SENT] = "MRA to REP sent",
	[WEFT_CONN_MRA_REP_RCVD] = "MRA to REP received",
	[WEFT_CONN_ESTABLISHED] = "established",
	[WEFT_CONN_DREQ_SENT] = "DREQ sent",
	[WEFT_CONN_DREQ_RCVD] = "DREQ received",
	[WEFT_CONN_TIMEWAIT] = "timewait",
	[WEFT_CONN_SIDR_REQ_SENT] = "SIDR_REQ sent",
	[WEFT_CONN_SIDR_REQ_RCVD] = "SIDR_REQ received",
};

const char *weft_conn_state_str(enum weft_conn_state state)
{
	return names[state];
}

uint32_t weft_conn_ack_timeout(uint32_t way, uint32_t delay)
{
	uint32_t larger = way > delay ? way : delay, other = way > delay ? delay : way;
	uint32_t code = larger + (other + 1 >= larger);

	if (!way)
		return 0;
	return code < MOST_CODE ? code : MOST_CODE;
}

/* ---- Effects ---- */

static uint64_t code_ns(uint32_t code)
{
	return 4096ull << code;
}

static void clear(struct weft_conn_out *out)
{
	out->send = false;
	out->event = WEFT_CONN_QUIET;
	out->status = 0;
}

static void raise_event(struct weft_conn_out *out, enum weft_conn_event event, int status)
{
	out->event = event;
	out->status = status;
}

static void enter_state(struct weft_conn *c, enum weft_conn_state state, uint64_t deadline_ns)
{
	c->state = state;
	c->deadline_ns = deadline_ns;
}

/* Sends once; what is lost is asked for again. */
static void answer_with(const struct weft_conn *c, struct weft_mad *mad, struct weft_conn_out *out)
{
	mad->tid = c->tid;
	mad->local_id = c->local_id;
	mad->remote_id = c->remote_id;
	weft_mad_encode(mad, out->wire);
	out->send = true;
}

static void say_kind(const struct weft_conn *c, enum weft_mad_kind kind, struct weft_conn_out *out)
{
	struct weft_mad mad = {.kind = kind};

	answer_with(c, &mad, out);
}

static void say_rej(const struct weft_conn *c, enum weft_mad_about about,
		    enum weft_rej_reason reason, struct weft_conn_out *out)
{
	struct weft_mad mad = {.kind = WEFT_MAD_REJ, .rej = {about, reason}};

	answer_with(c, &mad, out);
}

static void say_mra(struct weft_conn *c, enum weft_mad_about about, struct weft_conn_out *out)
{
	struct weft_mad mad = {.kind = WEFT_MAD_MRA, .mra = {about, MRA_TIMEOUT}};

	answer_with(c, &mad, out);
}

/* Sends until it is answered or the retries are used up. */
static void insist(struct weft_conn *c, enum weft_conn_state state, struct weft_mad *mad,
		   uint64_t now_ns, struct weft_conn_out *out)
{
	answer_with(c, mad, out);
	__builtin_memcpy(c->sent, out->wire, sizeof(c->sent));
	c->retries_left = c->cm_retries;
	enter_state(c, state, now_ns + c->answer_ns);
}

static void say_again(struct weft_conn *c, struct weft_conn_out *out)
{
	__builtin_memcpy(out->wire, c->sent, sizeof(out->wire));
	out->send = true;
}

static void wait_out(struct weft_conn *c, uint64_t now_ns)
{
	enter_state(c, WEFT_CONN_TIMEWAIT, now_ns + code_ns(c->ack_timeout));
}

/* ---- Calls ---- */

int weft_conn_connect(struct weft_conn *c, struct weft_mad *mad, uint64_t now_ns,
		      struct weft_conn_out *out)
{
	const struct weft_mad_req *req = &mad->req;

	clear(out);
	if (c->state != WEFT_CONN_IDLE)
		return -EINVAL;
	c->active = true;
	if (mad->kind == WEFT_MAD_SIDR_REQ) {
		insist(c, WEFT_CONN_SIDR_REQ_SENT, mad, now_ns, out);
		return 0;
	}
	c->service = req->service;
	c->ext = req->ext;
	c->local_qpn = req->qpn;
	c->local_psn = req->psn;
	c->responder_resources = req->responder_resources;
	c->initiator_depth = req->initiator_depth;
	c->retries = req->retries;
	c->rnr_retries = req->rnr_retries;
	c->cm_retries = req->cm_retries;
	c->mtu = req->mtu;
	c->ack_timeout = req->path.ack_timeout;
	c->answer_ns = 2 * code_ns(req->remote_timeout) + code_ns(c->ack_timeout);
	insist(c, WEFT_CONN_REQ_SENT, mad, now_ns, out);
	return 0;
}

int weft_conn_requested(struct weft_conn *c, const struct weft_mad *mad)
{
	const struct weft_mad_req *req = &mad->req;

	if (c->state != WEFT_CONN_IDLE)
		return -EINVAL;
	c->tid = mad->tid;
	c->remote_id = mad->local_id;
	if (mad->kind == WEFT_MAD_SIDR_REQ) {
		c->state = WEFT_CONN_SIDR_REQ_RCVD;
		return 0;
	}
	c->service = req->service;
	c->ext = req->ext;
	c->remote_qpn = req->qpn;
	c->remote_qkey = req->qkey;
	c->remote_psn = req->psn;
	/* what they can use of us is what we give (12.7.30, 12.7.31) */
	c->responder_resources = req->initiator_depth;
	c->initiator_depth = req->responder_resources;
	c->retries = req->retries;
	c->rnr_retries = req->rnr_retries;
	c->cm_retries = req->cm_retries;
	c->mtu = req->mtu;
	c->ack_timeout = req->path.ack_timeout;
	c->answer_ns = 2 * code_ns(req->local_timeout) + code_ns(c->ack_timeout);
	c->state = WEFT_CONN_REQ_RCVD;
	return 0;
}

int weft_conn_accept(struct weft_conn *c, struct weft_mad *mad, uint64_t now_ns,
		     struct weft_conn_out *out)
{
	const struct weft_mad_rep *rep = &mad->rep;

	clear(out);
	if (c->state == WEFT_CONN_SIDR_REQ_RCVD && mad->kind == WEFT_MAD_SIDR_REP) {
		/* it answers with the number of the request (12.11.2) */
		answer_with(c, mad, out);
		mad->local_id = c->remote_id;
		weft_mad_encode(mad, out->wire);
		enter_state(c, WEFT_CONN_IDLE, 0);
		return 0;
	}
	if ((c->state != WEFT_CONN_REQ_RCVD && c->state != WEFT_CONN_MRA_REQ_SENT) ||
	    mad->kind != WEFT_MAD_REP)
		return -EINVAL;
	c->local_qpn = rep->qpn;
	c->local_psn = rep->psn;
	c->responder_resources = rep->responder_resources;
	c->initiator_depth = rep->initiator_depth;
	insist(c, WEFT_CONN_REP_SENT, mad, now_ns, out);
	return 0;
}

int weft_conn_establish(struct weft_conn *c, struct weft_conn_out *out)
{
	clear(out);
	if (c->state != WEFT_CONN_REP_RCVD && c->state != WEFT_CONN_MRA_REP_SENT)
		return -EINVAL;
	say_kind(c, WEFT_MAD_RTU, out);
	enter_state(c, WEFT_CONN_ESTABLISHED, 0);
	return 0;
}

int weft_conn_notice(struct weft_conn *c, struct weft_conn_out *out)
{
	clear(out);
	if (c->state != WEFT_CONN_REP_SENT && c->state != WEFT_CONN_MRA_REP_RCVD)
		return -EINVAL;
	enter_state(c, WEFT_CONN_ESTABLISHED, 0);
	raise_event(out, WEFT_CONN_OPEN, 0);
	return 0;
}

int weft_conn_reject(struct weft_conn *c, struct weft_mad *rej, uint64_t now_ns,
		     struct weft_conn_out *out)
{
	clear(out);
	if (c->state == WEFT_CONN_SIDR_REQ_RCVD)
		return weft_conn_accept(c, rej, now_ns, out);
	if (rej->kind != WEFT_MAD_REJ)
		return -EINVAL;
	switch (c->state) {
	case WEFT_CONN_REQ_RCVD:
	case WEFT_CONN_MRA_REQ_SENT:
		rej->rej.about = WEFT_ABOUT_REQ;
		enter_state(c, WEFT_CONN_IDLE, 0);
		break;
	case WEFT_CONN_REP_RCVD:
	case WEFT_CONN_MRA_REP_SENT:
		rej->rej.about = WEFT_ABOUT_REP;
		wait_out(c, now_ns);
		break;
	case WEFT_CONN_IDLE:
	case WEFT_CONN_REQ_SENT:
	case WEFT_CONN_MRA_REQ_RCVD:
	case WEFT_CONN_REP_SENT:
	case WEFT_CONN_MRA_REP_RCVD:
	case WEFT_CONN_ESTABLISHED:
	case WEFT_CONN_DREQ_SENT:
	case WEFT_CONN_DREQ_RCVD:
	case WEFT_CONN_TIMEWAIT:
	case WEFT_CONN_SIDR_REQ_SENT:
	case WEFT_CONN_SIDR_REQ_RCVD:
	case WEFT_CONN_STATES:
		return -EINVAL;
	}
	answer_with(c, rej, out);
	return 0;
}

static void make_dreq(const struct weft_conn *c, struct weft_mad *mad)
{
	*mad = (struct weft_mad){.kind = WEFT_MAD_DREQ, .dreq_qpn = c->remote_qpn};
}

int weft_conn_disconnect(struct weft_conn *c, uint64_t now_ns, struct weft_conn_out *out)
{
	struct weft_mad mad;

	clear(out);
	if (c->state == WEFT_CONN_DREQ_RCVD) {
		say_kind(c, WEFT_MAD_DREP, out);
		wait_out(c, now_ns);
		return 0;
	}
	if (c->state != WEFT_CONN_ESTABLISHED)
		return -EINVAL;
	make_dreq(c, &mad);
	insist(c, WEFT_CONN_DREQ_SENT, &mad, now_ns, out);
	return 0;
}

void weft_conn_abandon(struct weft_conn *c, struct weft_conn_out *out)
{
	struct weft_mad mad = {.kind = WEFT_MAD_SIDR_REP, .sidr_rep.status = WEFT_SIDR_REJECTED};

	clear(out);
	switch (c->state) {
	case WEFT_CONN_REQ_SENT:
	case WEFT_CONN_MRA_REQ_RCVD:
		say_rej(c, WEFT_ABOUT_REQ, WEFT_REJ_TIMEOUT, out);
		break;
	case WEFT_CONN_REQ_RCVD:
	case WEFT_CONN_MRA_REQ_SENT:
		say_rej(c, WEFT_ABOUT_REQ, WEFT_REJ_CONSUMER, out);
		break;
	case WEFT_CONN_REP_RCVD:
	case WEFT_CONN_MRA_REP_SENT:
		say_rej(c, WEFT_ABOUT_REP, WEFT_REJ_CONSUMER, out);
		break;
	case WEFT_CONN_REP_SENT:
	case WEFT_CONN_MRA_REP_RCVD:
		say_rej(c, WEFT_ABOUT_OTHER, WEFT_REJ_CONSUMER, out);
		break;
	case WEFT_CONN_ESTABLISHED:
		make_dreq(c, &mad);
		answer_with(c, &mad, out);
		break;
	case WEFT_CONN_DREQ_RCVD:
		say_kind(c, WEFT_MAD_DREP, out);
		break;
	case WEFT_CONN_SIDR_REQ_RCVD:
		weft_conn_accept(c, &mad, 0, out);
		break;
	case WEFT_CONN_IDLE:
	case WEFT_CONN_DREQ_SENT:
	case WEFT_CONN_TIMEWAIT:
	case WEFT_CONN_SIDR_REQ_SENT:
	case WEFT_CONN_STATES:
		break;
	}
	enter_state(c, WEFT_CONN_IDLE, 0);
}

/* ---- Messages ---- */

/* Again: the first one is with the program, or our answer was lost. */
static void on_req(struct weft_conn *c, struct weft_conn_out *out)
{
	if (c->state == WEFT_CONN_REQ_RCVD || c->state == WEFT_CONN_MRA_REQ_SENT) {
		say_mra(c, WEFT_ABOUT_REQ, out);
		c->state = WEFT_CONN_MRA_REQ_SENT;
	} else if (c->state == WEFT_CONN_REP_SENT || c->state == WEFT_CONN_MRA_REP_RCVD) {
		say_again(c, out);
	} else if (c->state == WEFT_CONN_TIMEWAIT) {
		say_rej(c, WEFT_ABOUT_REQ, WEFT_REJ_STALE, out);
	}
}

static void on_mra(struct weft_conn *c, const struct weft_mad_mra *mra, uint64_t now_ns)
{
	uint64_t until_ns = now_ns + code_ns(mra->timeout) + code_ns(c->ack_timeout);

	if (mra->about == WEFT_ABOUT_REQ &&
	    (c->state == WEFT_CONN_REQ_SENT || c->state == WEFT_CONN_MRA_REQ_RCVD))
		enter_state(c, WEFT_CONN_MRA_REQ_RCVD, until_ns);
	else if (mra->about == WEFT_ABOUT_REP &&
		 (c->state == WEFT_CONN_REP_SENT || c->state == WEFT_CONN_MRA_REP_RCVD))
		enter_state(c, WEFT_CONN_MRA_REP_RCVD, until_ns);
}

static void on_rej(struct weft_conn *c, const struct weft_mad_rej *rej, uint64_t now_ns,
		   struct weft_conn_out *out)
{
	switch (c->state) {
	case WEFT_CONN_REQ_SENT:
	case WEFT_CONN_MRA_REQ_RCVD:
	case WEFT_CONN_REQ_RCVD:
	case WEFT_CONN_MRA_REQ_SENT:
	case WEFT_CONN_REP_SENT:
	case WEFT_CONN_MRA_REP_RCVD:
		enter_state(c, WEFT_CONN_IDLE, 0);
		raise_event(out, WEFT_CONN_REJECTED, (int)rej->reason);
		break;
	case WEFT_CONN_REP_RCVD:
	case WEFT_CONN_MRA_REP_SENT:
	case WEFT_CONN_ESTABLISHED:
		wait_out(c, now_ns);
		raise_event(out, WEFT_CONN_REJECTED, (int)rej->reason);
		break;
	case WEFT_CONN_DREQ_SENT:
		wait_out(c, now_ns);
		raise_event(out, WEFT_CONN_CLOSED, 0);
		break;
	case WEFT_CONN_DREQ_RCVD:
		wait_out(c, now_ns);
		break;
	case WEFT_CONN_IDLE:
	case WEFT_CONN_TIMEWAIT:
	case WEFT_CONN_SIDR_REQ_SENT:
	case WEFT_CONN_SIDR_REQ_RCVD:
	case WEFT_CONN_STATES:
		break;
	}
}

static void on_rep(struct weft_conn *c, const struct weft_mad *mad, struct weft_conn_out *out)
{
	const struct weft_mad_rep *rep = &mad->rep;

	if (c->state == WEFT_CONN_REQ_SENT || c->state == WEFT_CONN_MRA_REQ_RCVD) {
		c->remote_id = mad->local_id;
		c->remote_qpn = rep->qpn;
		c->remote_qkey = rep->qkey;
		c->remote_psn = rep->psn;
		c->initiator_depth = rep->responder_resources;
		c->responder_resources = rep->initiator_depth;
		c->rnr_retries = rep->rnr_retries;
		c->ack_timeout = weft_conn_ack_timeout(c->ack_timeout, rep->ack_delay);
		enter_state(c, WEFT_CONN_REP_RCVD, 0);
		raise_event(out, WEFT_CONN_RESPONDED, 0);
	} else if (c->state == WEFT_CONN_REP_RCVD || c->state == WEFT_CONN_MRA_REP_SENT) {
		say_mra(c, WEFT_ABOUT_REP, out);
		c->state = WEFT_CONN_MRA_REP_SENT;
	} else if (c->state == WEFT_CONN_ESTABLISHED && c->active) {
		say_kind(c, WEFT_MAD_RTU, out);
	}
}

static void on_dreq(struct weft_conn *c, const struct weft_mad *mad, uint64_t now_ns,
		    struct weft_conn_out *out)
{
	if (mad->dreq_qpn != c->local_qpn)
		return;
	switch (c->state) {
	case WEFT_CONN_REP_SENT: /* RTU was lost */
	case WEFT_CONN_MRA_REP_RCVD:
	case WEFT_CONN_ESTABLISHED:
		enter_state(c, WEFT_CONN_DREQ_RCVD, 0);
		raise_event(out, WEFT_CONN_CLOSED, 0);
		break;
	case WEFT_CONN_DREQ_SENT: /* both at once */
		say_kind(c, WEFT_MAD_DREP, out);
		wait_out(c, now_ns);
		raise_event(out, WEFT_CONN_CLOSED, 0);
		break;
	case WEFT_CONN_TIMEWAIT: /* DREP was lost */
		say_kind(c, WEFT_MAD_DREP, out);
		break;
	case WEFT_CONN_IDLE:
	case WEFT_CONN_REQ_SENT:
	case WEFT_CONN_REQ_RCVD:
	case WEFT_CONN_MRA_REQ_SENT:
	case WEFT_CONN_MRA_REQ_RCVD:
	case WEFT_CONN_REP_RCVD:
	case WEFT_CONN_MRA_REP_SENT:
	case WEFT_CONN_DREQ_RCVD:
	case WEFT_CONN_SIDR_REQ_SENT:
	case WEFT_CONN_SIDR_REQ_RCVD:
	case WEFT_CONN_STATES:
		break;
	}
}

static void on_drep(struct weft_conn *c, uint64_t now_ns, struct weft_conn_out *out)
{
	if (c->state == WEFT_CONN_DREQ_SENT)
		raise_event(out, WEFT_CONN_CLOSED, 0);
	else if (c->state != WEFT_CONN_DREQ_RCVD)
		return;
	wait_out(c, now_ns);
}

static void on_sidr_rep(struct weft_conn *c, const struct weft_mad_sidr_rep *rep,
			struct weft_conn_out *out)
{
	if (c->state != WEFT_CONN_SIDR_REQ_SENT)
		return;
	c->remote_qpn = rep->qpn;
	c->remote_qkey = rep->qkey;
	enter_state(c, WEFT_CONN_IDLE, 0);
	raise_event(out, WEFT_CONN_LOOKED_UP, (int)rep->status);
}

static void on_lap(struct weft_conn *c, struct weft_conn_out *out)
{
	struct weft_mad mad = {.kind = WEFT_MAD_APR, .apr_status = WEFT_APR_UNSUPPORTED};

	if (c->state == WEFT_CONN_ESTABLISHED)
		answer_with(c, &mad, out);
}

void weft_conn_receive(struct weft_conn *c, const struct weft_mad *mad, uint64_t now_ns,
		       struct weft_conn_out *out)
{
	clear(out);
	switch (mad->kind) {
	case WEFT_MAD_REQ:
		on_req(c, out);
		break;
	case WEFT_MAD_MRA:
		on_mra(c, &mad->mra, now_ns);
		break;
	case WEFT_MAD_REJ:
		on_rej(c, &mad->rej, now_ns, out);
		break;
	case WEFT_MAD_REP:
		on_rep(c, mad, out);
		break;
	case WEFT_MAD_RTU:
		weft_conn_notice(c, out);
		break;
	case WEFT_MAD_DREQ:
		on_dreq(c, mad, now_ns, out);
		break;
	case WEFT_MAD_DREP:
		on_drep(c, now_ns, out);
		break;
	case WEFT_MAD_SIDR_REP:
		on_sidr_rep(c, &mad->sidr_rep, out);
		break;
	case WEFT_MAD_LAP:
		on_lap(c, out);
		break;
	case WEFT_MAD_SIDR_REQ: /* again: the first one is with the program */
	case WEFT_MAD_APR:
		break;
	}
}

/* ---- Timers, and the end of the other end ---- */

static void give_up_conn(struct weft_conn *c, uint64_t now_ns, struct weft_conn_out *out)
{
	if (c->state == WEFT_CONN_DREQ_SENT) {
		wait_out(c, now_ns);
		raise_event(out, WEFT_CONN_CLOSED, -ETIMEDOUT);
		return;
	}
	if (c->state != WEFT_CONN_SIDR_REQ_SENT)
		say_rej(c, c->active ? WEFT_ABOUT_REQ : WEFT_ABOUT_OTHER, WEFT_REJ_TIMEOUT, out);
	enter_state(c, WEFT_CONN_IDLE, 0);
	raise_event(out, WEFT_CONN_UNANSWERED, -ETIMEDOUT);
}

void weft_conn_timer(struct weft_conn *c, uint64_t now_ns, struct weft_conn_out *out)
{
	clear(out);
	if (!c->deadline_ns || now_ns < c->deadline_ns)
		return;
	if (c->state == WEFT_CONN_TIMEWAIT) {
		enter_state(c, WEFT_CONN_IDLE, 0);
		raise_event(out, WEFT_CONN_RELEASED, 0);
	} else if (c->retries_left) {
		c->retries_left--;
		c->deadline_ns = now_ns + c->answer_ns;
		say_again(c, out);
	} else {
		give_up_conn(c, now_ns, out);
	}
}

void weft_conn_unsent(struct weft_conn *c, int err, struct weft_conn_out *out)
{
	clear(out);
	enter_state(c, WEFT_CONN_IDLE, 0);
	raise_event(out, WEFT_CONN_UNANSWERED, err);
}

void weft_conn_lost(struct weft_conn *c, uint64_t now_ns, struct weft_conn_out *out)
{
	struct weft_mad last = {.kind = WEFT_MAD_REJ, .rej = {WEFT_ABOUT_OTHER, WEFT_REJ_CONSUMER}};

	if (c->state == WEFT_CONN_ESTABLISHED)
		last = (struct weft_mad){.kind = WEFT_MAD_DREQ, .dreq_qpn = c->local_qpn};
	weft_conn_receive(c, &last, now_ns, out);
	if (c->state == WEFT_CONN_DREQ_RCVD)
		wait_out(c, now_ns); /* the other end does not wait for our DREP */
}

bool weft_conn_answer_stray(const struct weft_mad *mad, struct weft_conn_out *out)
{
	struct weft_mad answer = {.kind = WEFT_MAD_REJ,
				  .tid = mad->tid,
				  .local_id = mad->remote_id,
				  .remote_id = mad->local_id};

	clear(out);
	if (mad->kind == WEFT_MAD_REP)
		answer.rej = (struct weft_mad_rej){WEFT_ABOUT_REP, WEFT_REJ_INVALID_COMM_ID};
	else if (mad->kind == WEFT_MAD_REQ)
		answer.rej = (struct weft_mad_rej){WEFT_ABOUT_REQ, WEFT_REJ_INVALID_SERVICE_ID};
	else if (mad->kind == WEFT_MAD_DREQ)
		answer.kind = WEFT_MAD_DREP;
	else if (mad->kind == WEFT_MAD_SIDR_REQ)
		answer = (struct weft_mad){
			.kind = WEFT_MAD_SIDR_REP,
			.tid = mad->tid,
			.local_id = mad->local_id,
			.sidr_rep = {mad->sidr_req.service_id, WEFT_SIDR_UNSUPPORTED}};
	else
		return false;
	weft_mad_encode(&answer, out->wire);
	out->send = true;
	return true;
}
