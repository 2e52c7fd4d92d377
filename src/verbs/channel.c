/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completion channels: one event for each arming, and whose it is. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/step.h"
#include "verbs/explain.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct weft_channel *ch;

	if (weft_explain_closed("ibv_create_comp_channel", context)) {
		errno = EINVAL;
		return NULL;
	}
	ch = calloc(1, sizeof(*ch));
	if (!ch) {
		errno = weft_explain_errno("ibv_create_comp_channel", ENOMEM);
		return NULL;
	}
	ch->channel.context = context;
	ch->channel.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (ch->channel.fd < 0) {
		errno = weft_explain_errno("ibv_create_comp_channel", errno);
		goto free_object;
	}
	if (weft_handle_add(ch, WEFT_HANDLE_CHANNEL)) {
		errno = weft_explain_errno("ibv_create_comp_channel", ENOMEM);
		goto close_fd;
	}
	pthread_mutex_init(&ch->mutex, NULL);
	ch->last = &ch->first;
	return &ch->channel;
close_fd:
	close(ch->channel.fd);
free_object:
	free(ch);
	return NULL;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (weft_handle_inherited(channel))
		return 0;
	if (weft_explain_stale("ibv_destroy_comp_channel", channel, WEFT_HANDLE_CHANNEL))
		return EINVAL;
	if (channel->refcnt)
		return weft_broken("ibv_destroy_comp_channel", IN_USE, (uint64_t)channel->refcnt,
				   weft_value("completion channel"));
	weft_handle_remove(channel);
	close(channel->fd);
	free(weft_channel(channel));
	return 0;
}

void weft_channel_notify(struct weft_verbs_cq *cq)
{
	struct weft_channel *ch = weft_channel(cq->cq.channel);

	if (!ch)
		return;
	pthread_mutex_lock(&ch->mutex);
	WEFT_STEP(event_notifying);
	if (!cq->events_waiting++) {
		cq->next = NULL;
		*ch->last = cq;
		ch->last = &cq->next;
	}
	eventfd_write(ch->channel.fd, 1);
	WEFT_STEP(event_notified);
	pthread_mutex_unlock(&ch->mutex);
}

/* The next queue with an event; queues with several take turns. */
static struct weft_verbs_cq *take(struct weft_channel *ch)
{
	struct weft_verbs_cq *cq;

	pthread_mutex_lock(&ch->mutex);
	cq = ch->first;
	if (cq) {
		ch->first = cq->next;
		if (!ch->first)
			ch->last = &ch->first;
		cq->events_read++;
		if (--cq->events_waiting) {
			cq->next = NULL;
			*ch->last = cq;
			ch->last = &cq->next;
		}
	}
	pthread_mutex_unlock(&ch->mutex);
	return cq;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct weft_verbs_cq *found;
	eventfd_t one;

	if (weft_explain_stale("ibv_get_cq_event", channel, WEFT_HANDLE_CHANNEL)) {
		errno = EINVAL;
		return -1;
	}
	do {
		if (eventfd_read(channel->fd, &one))
			return -1;
		WEFT_STEP(event_read);
		found = take(weft_channel(channel));
	} while (!found);
	*cq = &found->cq;
	*cq_context = found->cq.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

static void drop_unread(struct weft_channel *ch, struct weft_verbs_cq *cq)
{
	struct weft_verbs_cq **at = &ch->first;

	pthread_mutex_lock(&ch->mutex);
	for (; *at; at = &(*at)->next)
		if (*at == cq) {
			*at = cq->next;
			if (!cq->next)
				ch->last = at;
			break;
		}
	for (; cq->events_waiting; cq->events_waiting--)
		weft_uncount(ch->channel.fd);
	pthread_mutex_unlock(&ch->mutex);
}

void weft_channel_leave(struct weft_verbs_cq *cq)
{
	struct weft_channel *ch = weft_channel(cq->cq.channel);

	if (!ch)
		return;
	drop_unread(ch, cq);
	pthread_mutex_lock(&cq->cq.mutex);
	while (cq->cq.comp_events_completed != cq->events_read)
		pthread_cond_wait(&cq->cq.cond, &cq->cq.mutex);
	pthread_mutex_unlock(&cq->cq.mutex);
}
