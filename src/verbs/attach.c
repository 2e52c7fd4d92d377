/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A context joins what all contexts of the process share; what it leaves behind ends with it. */
#include <stdlib.h>

#include "nic/nic.h"
#include "verbs/async.h"
#include "verbs/attr.h"
#include "verbs/channel.h"
#include "verbs/cq.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"
#include "verbs/receiver.h"
#include "verbs/srq.h"

/* ---- What the process, and the nic in it, tell the verbs ---- */

static void tell_completion(struct weft_cq *cq)
{
	weft_channel_notify(
		(struct weft_verbs_cq *)((char *)cq - offsetof(struct weft_verbs_cq, nic)));
}

static void tell_overdue(struct weft_cq *cq, bool lives)
{
	weft_channel_overdue(
		(struct weft_verbs_cq *)((char *)cq - offsetof(struct weft_verbs_cq, nic)), lives);
}

static bool tell_unheard(struct weft_cq *cq)
{
	return weft_channel_unheard(
		(struct weft_verbs_cq *)((char *)cq - offsetof(struct weft_verbs_cq, nic)));
}

static void tell_async(struct weft_qp *nic_qp, struct weft_cq *nic_cq, enum weft_event event)
{
	struct ibv_async_event e = {.event_type = (enum ibv_event_type)event};
	struct weft_verbs_qp *qp;
	struct weft_verbs_cq *cq;

	if (nic_qp) {
		qp = (struct weft_verbs_qp *)((char *)nic_qp - offsetof(struct weft_verbs_qp, nic));
		if (qp->real) {
			weft_receiver_raise(qp, e.event_type);
			return;
		}
		e.element.qp = &qp->qp;
		weft_async_raise(qp->qp.context, &e);
	} else {
		cq = (struct weft_verbs_cq *)((char *)nic_cq - offsetof(struct weft_verbs_cq, nic));
		e.element.cq = &cq->cq;
		weft_async_raise(cq->cq.context, &e);
	}
}

static void tell_limit_reached(struct weft_srq *q)
{
	struct weft_verbs_srq *srq =
		(struct weft_verbs_srq *)((char *)q - offsetof(struct weft_verbs_srq, nic));
	struct ibv_async_event e = {.event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
				    .element.srq = &srq->srq};

	weft_async_raise(srq->srq.context, &e);
}

static const struct weft_nic_api nic = {
	.completion = tell_completion,
	.overdue = tell_overdue,
	.unheard = tell_unheard,
	.async = tell_async,
	.failed = weft_blame_request,
	.limit_reached = tell_limit_reached,
};

static void addresses_changed(void)
{
	const struct ibv_async_event event = {.event_type = IBV_EVENT_GID_CHANGE,
					      .element.port_num = WEFT_PORT};

	weft_contexts_raise(&event);
}

static void forget_all(void)
{
	weft_context_forget();
	weft_handle_forget();
	weft_receiver_forget();
}

static const struct weft_process_api api = {
	.nic = &nic,
	.answer = weft_receiver_answer,
	.signalled = weft_receiver_events,
	.watch = weft_receiver_watch,
	.addresses_changed = addresses_changed,
	.rehome = weft_verbs_rehome,
	.leave = weft_receiver_end,
	.forget = forget_all,
};

/* ---- Contexts ---- */

int weft_nic_attach(struct weft_context *ctx)
{
	int err = weft_process_get(&api);

	if (!err)
		weft_async_init(&ctx->async, ctx->vctx.context.async_fd);
	return err;
}

/* Events that were read count as acknowledged: the program does it no more. */
static void end_object(void *object, enum weft_handle_kind kind)
{
	struct weft_verbs_cq *cq = object;
	struct weft_verbs_qp *qp = object;
	struct weft_verbs_srq *srq = object;

	switch (kind) {
	case WEFT_HANDLE_QP:
		qp->async_read = qp->qp.events_completed;
		weft_mcast_leave(qp);
		ibv_destroy_qp(object);
		break;
	case WEFT_HANDLE_SRQ:
		srq->async_read = srq->srq.events_completed;
		ibv_destroy_srq(object);
		break;
	case WEFT_HANDLE_XRCD:
		weft_verbs_close_xrcd(object);
		break;
	case WEFT_HANDLE_AH:
		ibv_destroy_ah(object);
		break;
	case WEFT_HANDLE_CQ:
		cq->async_read = cq->cq.async_events_completed;
		cq->events_read = cq->cq.comp_events_completed;
		ibv_destroy_cq(object);
		break;
	case WEFT_HANDLE_CHANNEL:
		ibv_destroy_comp_channel(object);
		break;
	case WEFT_HANDLE_TD:
		weft_verbs_dealloc_td(object);
		break;
	case WEFT_HANDLE_DM:
		weft_verbs_free_dm(object);
		break;
	case WEFT_HANDLE_BUF:
		break;
	case WEFT_HANDLE_MW:
		weft_verbs_dealloc_mw(object);
		break;
	case WEFT_HANDLE_MR:
		ibv_dereg_mr(object);
		break;
	case WEFT_HANDLE_PD:
		weft_verbs_end_pd(object);
		break;
	}
}

/* As the kernel does at the end of a descriptor; their pointers dangle from here on. */
static void end_objects(const struct ibv_context *context)
{
	static const enum weft_handle_kind order[] = {
		WEFT_HANDLE_QP, WEFT_HANDLE_SRQ, WEFT_HANDLE_XRCD,
		WEFT_HANDLE_AH, WEFT_HANDLE_CQ,	 WEFT_HANDLE_CHANNEL,
		WEFT_HANDLE_MW, WEFT_HANDLE_MR,	 WEFT_HANDLE_DM,
		WEFT_HANDLE_PD, WEFT_HANDLE_PD,	 WEFT_HANDLE_TD}; /* domains on domains first */

	for (size_t k = 0; k < sizeof(order) / sizeof(*order); k++) {
		void **objects;
		size_t n = weft_handle_list(context, order[k], &objects);

		for (size_t i = 0; i < n; i++)
			end_object(objects[i], order[k]);
		free(objects);
	}
}

void weft_nic_detach(struct weft_context *ctx)
{
	end_objects(&ctx->vctx.context);
	weft_async_end(&ctx->async);
	weft_process_put();
}
