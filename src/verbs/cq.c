/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completion queues: creation, polling, arming. */
#include <errno.h>
#include <stdlib.h>

#include "nic/complete.h"
#include "pool/clock.h"
#include "pool/step.h"
#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/verbs.h"

_Static_assert(sizeof(struct weft_wc) == sizeof(struct ibv_wc) &&
		       offsetof(struct weft_wc, status) == offsetof(struct ibv_wc, status) &&
		       offsetof(struct weft_wc, imm) == offsetof(struct ibv_wc, imm_data) &&
		       offsetof(struct weft_wc, flags) == offsetof(struct ibv_wc, wc_flags) &&
		       offsetof(struct weft_wc, sl) == offsetof(struct ibv_wc, sl),
	       "completions are written once, in the program's own array");

static int check(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
		 int comp_vector)
{
	if (!weft_context_find(context) || cqe < 1 || cqe > (int)WEFT_MAX_CQE ||
	    comp_vector < 0 || comp_vector >= context->num_comp_vectors)
		return EINVAL;
	if (channel && (!weft_handle_is(channel, WEFT_HANDLE_CHANNEL) || channel->context != context))
		return EINVAL;
	return 0;
}

static void count_user(struct ibv_comp_channel *channel, int by)
{
	if (!channel)
		return;
	pthread_mutex_lock(&weft_channel(channel)->mutex);
	channel->refcnt += by;
	pthread_mutex_unlock(&weft_channel(channel)->mutex);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	int err = check(context, cqe, channel, comp_vector);
	struct weft_verbs_cq *cq;

	if (err)
		goto fail;
	err = ENOMEM;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		goto fail;
	err = -weft_cq_create(&weft_process.nic, &cq->nic, (uint32_t)cqe);
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
	count_user(channel, 1);
	return &cq->cq;
destroy_queue:
	weft_cq_destroy(&cq->nic);
free_object:
	free(cq);
fail:
	errno = err;
	return NULL;
}

int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct weft_verbs_cq *cq = weft_cq(ibcq);

	if (!weft_handle_is(ibcq, WEFT_HANDLE_CQ))
		return EINVAL;
	if (cq->users)
		return EBUSY;
	weft_handle_remove(ibcq);
	weft_cq_destroy(&cq->nic); /* no more events from here on */
	WEFT_STEP(verbs_cq_destroyed);
	weft_channel_leave(cq);
	weft_async_finish(ibcq->context, cq, weft_cq_acks(ibcq));
	count_user(ibcq->channel, -1);
	free(cq);
	return 0;
}

int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	int err;

	if (!weft_handle_is(ibcq, WEFT_HANDLE_CQ) || cqe < 1)
		return EINVAL;
	err = weft_cq_resize(&weft_cq(ibcq)->nic, (uint32_t)cqe);
	if (!err)
		ibcq->cqe = (int)weft_cq(ibcq)->nic.size;
	return -err;
}

int weft_verbs_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct weft_cq *cq = &weft_cq(ibcq)->nic;
	struct weft_caller *caller = weft_caller();
	int n;

	if (__builtin_expect(
		    atomic_load_explicit(&cq->nic->nwaiting, memory_order_relaxed) != 0, 0))
		weft_nic_progress(cq->nic, caller, weft_clock_now_ns());
	n = weft_cq_poll(cq, num_entries, (struct weft_wc *)wc, caller->thread);
	if (!n && weft_thread.idle.polls_left-- == 0)
		weft_idle_look();
	return n;
}

int weft_verbs_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	int err = weft_engine_start();

	if (!err)
		weft_cq_arm(&weft_cq(ibcq)->nic, solicited_only, weft_caller()->thread);
	return -err;
}
