/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/flow.h"

#define BACKOFF_MAX 6u

/* ---- Sending ---- */

static void arm(struct weft_ape_flow *f, const struct weft_ape_flow_times *times, uint64_t now_ns)
{
	f->again_ns = now_ns + (times->again_ns << f->backoff);
}

void weft_ape_flow_push(struct weft_ape_flow *f, const struct weft_ape_slot *slot,
			uint64_t since_ns)
{
	*weft_ape_flow_slot(f, f->next) = *slot;
	if (f->una == f->next)
		f->progress_ns = since_ns;
	f->next = weft_ape_seq_add(f->next, 1);
	if (f->state == WEFT_APE_FLOW_CLOSED) {
		f->state = WEFT_APE_FLOW_OPENING;
		f->hello_due = true;
	}
}

bool weft_ape_flow_next(struct weft_ape_flow *f, const struct weft_ape_flow_times *times,
			uint64_t now_ns, uint32_t *seq)
{
	if (f->state != WEFT_APE_FLOW_OPEN || f->resend == f->next)
		return false;
	*seq = f->resend;
	f->resend = weft_ape_seq_add(f->resend, 1);
	f->sent++;
	if (!f->again_ns)
		arm(f, times, now_ns);
	return true;
}

void weft_ape_flow_asked(struct weft_ape_flow *f, const struct weft_ape_flow_times *times,
			 uint64_t now_ns)
{
	f->hello_due = false;
	arm(f, times, now_ns);
}

void weft_ape_flow_welcome(struct weft_ape_flow *f, uint32_t ack, uint64_t now_ns)
{
	if (f->state != WEFT_APE_FLOW_OPENING || ack != f->una)
		return;
	f->state = WEFT_APE_FLOW_OPEN;
	f->progress_ns = now_ns;
	f->again_ns = 0;
	f->backoff = 0;
}

uint32_t weft_ape_flow_acked(struct weft_ape_flow *f, uint32_t ack,
			     const struct weft_ape_flow_times *times, uint64_t now_ns)
{
	int32_t done = weft_ape_seq_ahead(ack, f->una);

	if (f->state != WEFT_APE_FLOW_OPEN || done <= 0 || weft_ape_seq_ahead(ack, f->next) > 0)
		return 0;
	f->una = ack;
	if (weft_ape_seq_ahead(f->una, f->resend) > 0)
		f->resend = f->una;
	f->progress_ns = now_ns;
	f->backoff = 0;
	f->again_ns = 0;
	if (f->una != f->next)
		arm(f, times, now_ns);
	return done;
}

void weft_ape_flow_go_back(struct weft_ape_flow *f)
{
	if (f->state != WEFT_APE_FLOW_OPEN)
		return;
	f->again += weft_ape_seq_ahead(f->resend, f->una);
	f->resend = f->una;
}

enum weft_ape_flow_timer weft_ape_flow_timer(struct weft_ape_flow *f,
					     const struct weft_ape_flow_times *times,
					     uint64_t now_ns)
{
	if (f->una == f->next)
		return WEFT_APE_FLOW_QUIET;
	if (now_ns - f->progress_ns >= times->give_up_ns)
		return WEFT_APE_FLOW_GIVE_UP;
	if (!f->again_ns || f->again_ns > now_ns)
		return WEFT_APE_FLOW_QUIET;
	f->timeouts++;
	if (f->backoff < BACKOFF_MAX)
		f->backoff++;
	arm(f, times, now_ns);
	if (f->state == WEFT_APE_FLOW_OPENING)
		f->hello_due = true;
	else
		weft_ape_flow_go_back(f);
	return WEFT_APE_FLOW_AGAIN;
}

void weft_ape_flow_close(struct weft_ape_flow *f)
{
	f->state = WEFT_APE_FLOW_CLOSED;
	f->una = f->resend = f->next;
	f->again_ns = 0;
	f->backoff = 0;
	f->hello_due = false;
}

/* ---- Receiving ---- */

enum weft_ape_arrival weft_ape_flow_arrived(struct weft_ape_flow *f, uint32_t seq)
{
	int32_t ahead = weft_ape_seq_ahead(seq, f->expect);

	if (!f->heard || ahead >= (int32_t)WEFT_APE_WINDOW)
		return WEFT_APE_UNKNOWN;
	if (!ahead)
		return WEFT_APE_TAKE;
	if (ahead < 0) {
		f->old++;
		f->ack_due = true;
		return WEFT_APE_OLD;
	}
	f->early++;
	if (!f->nak_sent && !f->refusing)
		f->nak_due = f->nak_sent = true;
	return WEFT_APE_EARLY;
}

void weft_ape_flow_taken(struct weft_ape_flow *f, bool end, const struct weft_ape_flow_times *times,
			 uint64_t now_ns)
{
	f->expect = weft_ape_seq_add(f->expect, 1);
	f->taken++;
	f->refusing = false;
	f->nak_sent = false;
	f->unacked++;
	if (end)
		f->late.came_ns = now_ns;
	if (f->unacked >= WEFT_APE_ACK_EVERY ||
	    (end && !(times->late_ns && weft_ape_late_may_wait(&f->late))))
		f->ack_due = true;
	else if (end && !f->late.due_ns)
		f->late.due_ns = now_ns + times->late_ns;
}

void weft_ape_flow_acks(struct weft_ape_flow *f, bool content,
			const struct weft_ape_flow_times *times, uint64_t now_ns)
{
	f->ack_due = false;
	f->unacked = 0;
	f->late.due_ns = 0;
	if (content)
		weft_ape_late_answer(&f->late, times->soon_ns, now_ns);
}

bool weft_ape_flow_late(struct weft_ape_flow *f, uint64_t now_ns)
{
	if (!weft_ape_late_is_over(&f->late, now_ns))
		return false;
	f->ack_due = true;
	return true;
}

bool weft_ape_flow_hello(struct weft_ape_flow *f, uint32_t seq)
{
	bool anew = !f->heard || weft_ape_seq_ahead(seq, f->expect) > 0;

	f->welcome_due = true;
	if (!anew)
		return false;
	f->heard = true;
	f->expect = seq;
	f->refusing = f->nak_sent = f->nak_due = false;
	return true;
}
