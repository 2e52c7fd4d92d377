/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A context joins what all contexts of the process share; what it leaves behind ends with it. */
#include <stdlib.h>

#include "verbs/objects.h"
#include "verbs/process.h"

int weft_nic_attach(struct weft_context *ctx)
{
	int err = weft_process_get();

	if (!err)
		weft_async_init(&ctx->async, ctx->vctx.context.async_fd);
	return err;
}

/* Events that were read count as acknowledged: nobody will do it any more. */
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
