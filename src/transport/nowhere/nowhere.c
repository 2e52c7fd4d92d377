/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "transport/nowhere/nowhere.h"
#include "nic/gather.h"

static bool reaches_all(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16])
{
	return true;
}

static enum weft_cause gather(struct weft_qp *qp, struct weft_wqe *wqe, struct weft_caller *caller)
{
	struct weft_spans here;
	enum weft_cause cause;

	if (caller->shared)
		qp->nic->pool->calls->share_lock(qp->nic->pool);
	cause = weft_gather(qp, wqe, caller, &here);
	if (caller->shared)
		qp->nic->pool->calls->share_unlock(qp->nic->pool);
	return cause;
}

static enum weft_outcome issue_nowhere(struct weft_qp *qp, struct weft_wqe *wqe,
				       struct weft_caller *caller, enum weft_cause *cause)
{
	*cause = gather(qp, wqe, caller);
	return *cause ? weft_gather_failed(caller) : WEFT_NO_ANSWER;
}

/* A sender without an answer does not learn of it. */
static enum weft_outcome issue_nowhere_unreliable(struct weft_qp *qp, struct weft_wqe *wqe,
						  struct weft_caller *caller,
						  enum weft_cause *cause)
{
	*cause = gather(qp, wqe, caller);
	return *cause ? weft_gather_failed(caller) : WEFT_DONE;
}

/* Another transport may reach the address by now, of a member that got it after the handle was made. */
static const struct weft_transport *find_transport_anew(struct weft_nic *nic, struct weft_ah *ah,
							uint32_t thread)
{
	bool own = weft_lock(nic, &ah->lock, thread);

	if (atomic_load_explicit(&ah->transport, memory_order_relaxed) == &weft_nowhere)
		weft_ah_find(nic, ah);
	weft_unlock(&ah->lock, own);
	return atomic_load_explicit(&ah->transport, memory_order_relaxed);
}

static enum weft_outcome issue_datagram(struct weft_qp *qp, struct weft_wqe *wqe,
					struct weft_caller *caller, enum weft_cause *cause)
{
	const struct weft_transport *t = find_transport_anew(qp->nic, wqe->ah, caller->thread);

	return t == &weft_nowhere ? issue_nowhere_unreliable(qp, wqe, caller, cause)
				  : t->carries[WEFT_QPT_UD].issue(qp, wqe, caller, cause);
}

static int connect_nowhere(struct weft_qp *qp, uint16_t *executor)
{
	return 0;
}

static void leave_nowhere(struct weft_qp *qp)
{
}

static bool is_never_blamed(struct weft_qp *qp, enum weft_event *event)
{
	return false;
}

const struct weft_transport weft_nowhere = {
	.name = "nowhere",
	.carries = {[WEFT_QPT_RC] = {issue_nowhere},
		    [WEFT_QPT_UC] = {issue_nowhere_unreliable},
		    [WEFT_QPT_UD] = {issue_datagram},
		    [WEFT_QPT_XRC_SEND] = {issue_nowhere},
		    [WEFT_QPT_XRC_RECV] = {issue_nowhere}},
	.silence = WEFT_CAUSE_UNREACHED,
	.reaches = reaches_all,
	.connect = connect_nowhere,
	.abort = leave_nowhere,
	.is_blamed = is_never_blamed,
};
