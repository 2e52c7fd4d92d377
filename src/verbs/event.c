/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Asynchronous events of a context. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include "pool/step.h"
#include "verbs/async.h"
#include "verbs/cq.h"
#include "verbs/explain.h"
#include "verbs/qp.h"
#include "verbs/srq.h"
#include "process/process.h"
#include "verbs/verbs.h"

struct weft_async_event {
	struct ibv_async_event event;
	struct weft_async_event *next;
};

void weft_async_init(struct weft_async *async, int fd)
{
	async->fd = fd;
	pthread_mutex_init(&async->mutex, NULL);
	async->first = NULL;
	async->last = &async->first;
}

void weft_async_end(struct weft_async *async)
{
	struct weft_async_event *next;

	for (struct weft_async_event *e = async->first; e; e = next) {
		next = e->next;
		free(e);
	}
	pthread_mutex_destroy(&async->mutex);
}

/* The context of a live object is ours. */
static struct weft_async *async_of(struct ibv_context *context)
{
	struct weft_context *ctx =
		(void *)((char *)context - offsetof(struct weft_context, vctx.context));

	return &ctx->async;
}

void weft_async_raise(struct ibv_context *context, const struct ibv_async_event *event)
{
	struct weft_async *async = async_of(context);
	struct weft_async_event *e = malloc(sizeof(*e));

	if (!e)
		return; /* as of a network card whose event queue has overrun */
	weft_blame_event(event);
	e->event = *event;
	e->next = NULL;
	pthread_mutex_lock(&async->mutex);
	*async->last = e;
	async->last = &e->next;
	WEFT_STEP(event_raised);
	eventfd_write(async->fd, 1);
	pthread_mutex_unlock(&async->mutex);
}

void weft_uncount(int fd)
{
	eventfd_t one;
	struct iovec iov = {&one, sizeof(one)};

	if (preadv2(fd, &iov, 1, -1, RWF_NOWAIT) < 0)
		return; /* another thread has taken it */
}

/* The element is a union of pointers. */
static bool is_about(const struct weft_async_event *e, const void *object)
{
	return e->event.event_type != IBV_EVENT_DEVICE_FATAL && e->event.element.qp == object;
}

static void forget_object(struct ibv_context *context, const void *object)
{
	struct weft_async *async = async_of(context);
	struct weft_async_event **at = &async->first;

	pthread_mutex_lock(&async->mutex);
	while (*at) {
		struct weft_async_event *e = *at;

		if (!is_about(e, object)) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		free(e);
		weft_uncount(async->fd);
	}
	async->last = at;
	pthread_mutex_unlock(&async->mutex);
}

void weft_async_finish(struct ibv_context *context, const void *object, struct weft_acks acks)
{
	forget_object(context, object);
	pthread_mutex_lock(acks.mutex);
	while (*acks.completed != *acks.read)
		pthread_cond_wait(acks.cond, acks.mutex);
	pthread_mutex_unlock(acks.mutex);
}

/* A read event holds its object until it is acknowledged. */
static struct weft_acks acks_of(const struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR:
		return weft_cq_acks(e->element.cq);
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return weft_srq_acks(e->element.srq);
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return weft_qp_acks(e->element.qp);
	default: /* of ports and the device */
		return (struct weft_acks){NULL};
	}
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct weft_async *async;
	struct weft_async_event *e;
	struct weft_acks acks;
	eventfd_t one;

	if (weft_explain_closed("ibv_get_async_event", context)) {
		errno = EINVAL;
		return -1;
	}
	if (!event) {
		errno = weft_broken("ibv_get_async_event", MISSING, weft_value("event"));
		return -1;
	}
	async = async_of(context);
	/* a thread that waits for events waits for those of the port, too, which it finds (gids.h) */
	weft_helper_start();
	do {
		if (eventfd_read(async->fd, &one))
			return -1;
		pthread_mutex_lock(&async->mutex);
		e = async->first;
		if (e) {
			async->first = e->next;
			if (!e->next)
				async->last = &async->first;
			*event = e->event;
			acks = acks_of(event);
			if (acks.mutex)
				(*acks.read)++;
		}
		pthread_mutex_unlock(&async->mutex);
	} while (!e);
	free(e);
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct weft_acks acks = acks_of(event);

	if (!acks.mutex)
		return;
	pthread_mutex_lock(acks.mutex);
	(*acks.completed)++;
	pthread_cond_signal(acks.cond);
	pthread_mutex_unlock(acks.mutex);
}
