/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completion queues: creation, polling, arming. */
#include <errno.h>
#include <stdlib.h>

#include "nic/complete.h"
#include "nic/cq.h"
#include "nic/limits.h"
#include "nic/nic.h"
#include "pool/step.h"
#include "pool/clock.h"
#include "verbs/async.h"
#include "verbs/channel.h"
#include "verbs/cq.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "process/process.h"
#include "verbs/verbs.h"

_Static_assert(sizeof(struct weft_wc) == sizeof(struct ibv_wc) &&
		       offsetof(struct weft_wc, status) == offsetof(struct ibv_wc, status) &&
		       offsetof(struct weft_wc, imm) == offsetof(struct ibv_wc, imm_data) &&
		       offsetof(struct weft_wc, flags) == offsetof(struct ibv_wc, wc_flags) &&
		       offsetof(struct weft_wc, sl) == offsetof(struct ibv_wc, sl),
	       "completions are written once, in the program's own array");

static int check_new_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
			int comp_vector)
{
	const char *verb = "ibv_create_cq";

	if (weft_explain_closed(verb, context))
		return EINVAL;
	if (cqe < 1 || cqe > (int)WEFT_MAX_CQE)
		return weft_broken(verb, RANGE, weft_value("cqe"), (uint64_t)cqe, 1, WEFT_MAX_CQE);
	if (comp_vector < 0 || comp_vector >= context->num_comp_vectors)
		return weft_broken(verb, RANGE, weft_value("comp_vector"), (uint64_t)comp_vector, 0,
				   (uint64_t)context->num_comp_vectors - 1);
	if (channel && weft_explain_stale(verb, channel, WEFT_HANDLE_CHANNEL))
		return EINVAL;
	if (channel && channel->context != context)
		return weft_broken(verb, OTHER_CONTEXT, weft_value("completion channel"),
				   weft_value(channel));
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	int err = check_new_cq(context, cqe, channel, comp_vector);
	struct weft_verbs_cq *cq;

	if (err) {
		errno = err;
		return NULL;
	}
	err = ENOMEM;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		goto fail;
	err = -weft_cq_create(&weft_process_nic, &cq->nic, (uint32_t)cqe);
	if (err)
		goto free_object;
	WEFT_STEP(verbs_cq_made);
	err = -weft_handle_add(cq, WEFT_HANDLE_CQ);
	if (err)
		goto destroy_queue;
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	cq->cq.cqe = (int)cq->nic.size;
	pthread_mutex_init(&cq->cq.mutex, NULL);
	pthread_cond_init(&cq->cq.cond, NULL);
	weft_channel_join(cq);
	return &cq->cq;
destroy_queue:
	weft_cq_destroy(&cq->nic);
free_object:
	free(cq);
fail:
	errno = weft_explain_errno("ibv_create_cq", err);
	return NULL;
}

int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct weft_verbs_cq *cq = weft_cq(ibcq);

	if (weft_handle_inherited(ibcq))
		return 0;
	if (weft_explain_stale("ibv_destroy_cq", ibcq, WEFT_HANDLE_CQ))
		return EINVAL;
	if (cq->users)
		return weft_broken("ibv_destroy_cq", IN_USE, cq->users,
				   weft_value("completion queue"));
	weft_handle_remove(ibcq);
	weft_channel_part(cq);
	weft_cq_destroy(&cq->nic); /* no more events from here on */
	WEFT_STEP(verbs_cq_destroyed);
	weft_channel_leave(cq);
	weft_async_finish(ibcq->context, cq, weft_cq_acks(ibcq));
	free(cq);
	return 0;
}

int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	int err;

	if (weft_explain_stale("ibv_resize_cq", ibcq, WEFT_HANDLE_CQ))
		return EINVAL;
	err = cqe < 1 ? -EINVAL : weft_cq_resize(&weft_cq(ibcq)->nic, (uint32_t)cqe);
	if (err == -EINVAL)
		return weft_broken("ibv_resize_cq", CQE_HELD, (uint64_t)cqe, WEFT_MAX_CQE);
	if (err)
		return weft_explain_errno("ibv_resize_cq", -err);
	ibcq->cqe = (int)weft_cq(ibcq)->nic.size;
	return 0;
}

/* Requests wait. A queue that has completions to give does not pay for that: the helper looks after them, too. */
static __attribute__((noinline)) void look_after(struct weft_cq *cq, struct weft_caller *caller,
						 int wanted)
{
	if (!wanted || !weft_cq_has_private(cq))
		weft_nic_progress(cq->nic, caller, weft_clock_now_ns());
}

int weft_verbs_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct weft_cq *cq = &weft_cq(ibcq)->nic;
	struct weft_caller *caller = weft_caller();
	int n;

	if (__builtin_expect(atomic_load_explicit(&cq->nic->nwaiting, memory_order_relaxed) != 0,
			     0))
		look_after(cq, caller, num_entries);
	n = weft_cq_poll(cq, num_entries, (struct weft_wc *)wc, caller->thread);
	if (!n && weft_thread.idle.polls_left-- == 0)
		weft_idle_look();
	return n;
}

int weft_verbs_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	int err = weft_helper_start();

	if (!err)
		err = weft_cq_arm(&weft_cq(ibcq)->nic, solicited_only, weft_caller()->thread);
	return err ? weft_explain_errno("ibv_req_notify_cq", -err) : 0;
}
