/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Event channels: what happened waits until the program reads it, and counts until the program has
 * acknowledged it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cm/agent.h"

#define EXPECT_NS 50000u

/* Destroyed ones, for new ones: their memory stays theirs, since programs destroy a channel that
 * another thread of theirs is about to read, and end. Guarded by the mutex. */
static struct weft_cm_channel *destroyed;

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct weft_cm_channel *ch;
	/* a read takes one event, waits for it, and honours O_NONBLOCK */
	int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

	if (fd < 0)
		return NULL;
	weft_cm_lock();
	ch = destroyed;
	if (ch)
		destroyed = ch->next_destroyed;
	else
		ch = calloc(1, sizeof(*ch));
	if (ch) {
		ch->channel.fd = fd;
		ch->last = &ch->first;
	}
	weft_cm_unlock();
	if (!ch) {
		close(fd);
		return NULL;
	}
	return &ch->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct weft_cm_channel *ch = weft_cm_channel(channel);

	weft_cm_lock();
	close(ch->channel.fd);
	ch->channel.fd = -1;
	ch->first = NULL;
	ch->next_destroyed = destroyed;
	destroyed = ch;
	weft_cm_unlock();
}

struct weft_cm_event *weft_event_new(struct weft_cm_id *id, enum rdma_cm_event_type type,
				     int status)
{
	struct weft_cm_event *e = calloc(1, sizeof(*e));

	if (e) {
		e->event.id = &id->id;
		e->event.event = type;
		e->event.status = status;
		e->counts = id;
	}
	return e;
}

void weft_event_post(struct weft_cm_event *e)
{
	struct weft_cm_channel *ch = weft_cm_channel(e->counts->id.channel);

	weft_cm_explain_event(&e->event);
	*ch->last = e;
	ch->last = &e->next;
	eventfd_write(ch->channel.fd, 1);
}

void weft_event_raise(struct weft_cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct weft_cm_event *e = weft_event_new(id, type, status);

	if (e)
		weft_event_post(e);
}

/* The list and the count behind fd agree whenever the mutex is free. */
static void uncount(struct weft_cm_channel *ch)
{
	eventfd_t one;

	eventfd_read(ch->channel.fd, &one);
}

struct weft_cm_event *weft_event_detach(struct weft_cm_id *id)
{
	struct weft_cm_channel *ch = weft_cm_channel(id->id.channel);
	struct weft_cm_event **at = &ch->first, *e, *detached = NULL, **tail = &detached;

	while ((e = *at)) {
		if (e->counts != id) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		e->next = NULL;
		*tail = e;
		tail = &e->next;
		uncount(ch);
	}
	ch->last = at;
	return detached;
}

/* ---- Reading ---- */

/* The oldest event, or NULL and the descriptor that tells of the next: -1 if ch was destroyed. */
static struct weft_cm_event *take_event(struct weft_cm_channel *ch, int *fd)
{
	struct weft_cm_event *e;

	weft_cm_lock();
	*fd = ch->channel.fd;
	e = ch->first;
	if (e) {
		ch->first = e->next;
		if (!e->next)
			ch->last = &ch->first;
		uncount(ch);
		e->counts->events_read++;
		if (e->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			e->counts->pending--;
	}
	weft_cm_unlock();
	return e;
}

/* A peer that runs answers sooner than our helper, and then we, are woken. */
static int expect_event(struct pollfd *pollfd)
{
	uint64_t until_ns = weft_cm_now_ns() + EXPECT_NS;
	int ready;

	do {
		sched_yield();
		weft_cm_lock();
		weft_agent_look();
		weft_cm_unlock();
		ready = poll(pollfd, 1, 0);
	} while (!ready && weft_cm_now_ns() < until_ns);
	return ready;
}

/* Until there may be an event: 0, -EAGAIN (the program does not want to wait), -EINTR. */
static int wait_for_event(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && flags & O_NONBLOCK)
		return -EAGAIN;
	if (flags >= 0 && !(weft_cm.service && expect_event(&pollfd)) && poll(&pollfd, 1, -1) < 0)
		return -errno;
	/* the channel was destroyed before this thread waited, or while it did: as with the
	 * kernel's, it waits for ever (programs end so) */
	while (flags < 0 || pollfd.revents & POLLNVAL)
		pause();
	return 0;
}

/* The peer has accepted: our queue pair follows, and the peer may know. */
static int open_active(struct weft_cm_id *id)
{
	struct weft_conn_out out;
	int err = weft_qp_to_rtr(id, RDMA_MAX_RESP_RES);

	if (!err)
		err = weft_qp_to_rts(id, RDMA_MAX_INIT_DEPTH);
	if (err)
		return err;
	weft_cm_lock();
	err = weft_conn_establish(&id->conn, &out);
	if (!err)
		weft_agent_apply(id, &out, NULL);
	weft_cm_unlock();
	return err;
}

static void refuse(struct weft_cm_id *id)
{
	struct weft_mad rej = {.kind = WEFT_MAD_REJ, .rej.reason = WEFT_REJ_CONSUMER};
	struct weft_conn_out out;

	weft_cm_lock();
	if (!weft_conn_reject(&id->conn, &rej, weft_cm_now_ns(), &out))
		weft_agent_apply(id, &out, NULL);
	weft_cm_unlock();
}

/* What is done for the program in its own thread, since it may destroy its objects in any other. */
static void process(struct weft_cm_event *e)
{
	struct weft_cm_id *id = weft_cm_id(e->event.id);
	int err = 0;

	switch (e->event.event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (e->counts->sync)
			err = rdma_migrate_id(e->event.id, NULL) ? -errno : 0;
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (!id->id.qp)
			break; /* the program modifies it, and calls rdma_establish */
		err = open_active(id);
		e->event.event = RDMA_CM_EVENT_ESTABLISHED;
		if (!err)
			break;
		refuse(id);
		e->event.event = RDMA_CM_EVENT_CONNECT_ERROR;
		weft_qp_to_error(id);
		break;
	case RDMA_CM_EVENT_REJECTED:
		weft_qp_to_error(id);
		break;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		err = weft_multicast_attach(id, &e->event.param.ud.ah_attr.grh.dgid);
		if (err)
			e->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		break;
	default:
		break;
	}
	if (err)
		e->event.status = err;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct weft_cm_event *e;
	int err, fd;

	if (!channel || !event)
		return weft_cm_result(-EINVAL);
	while (!(e = take_event(weft_cm_channel(channel), &fd))) {
		err = wait_for_event(fd);
		if (err)
			return weft_cm_result(err);
	}
	process(e);
	*event = &e->event;
	return 0;
}

/* An event from one thread of the program to another. */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg)
{
	struct weft_cm_event *e;

	if (!id || (event != WEFT_EVENT_USER && event != WEFT_EVENT_INTERNAL))
		return weft_cm_result(-EINVAL);
	weft_cm_lock();
	e = weft_event_new(weft_cm_id(id), event, status);
	if (e) {
		memcpy(&e->event.param, &arg, sizeof(arg));
		weft_event_post(e);
	}
	weft_cm_unlock();
	return weft_cm_result(e ? 0 : -ENOMEM);
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct weft_cm_event *e = (struct weft_cm_event *)event;

	if (!event)
		return weft_cm_result(-EINVAL);
	weft_cm_lock();
	e->counts->events_acked++;
	pthread_cond_broadcast(&e->counts->acked);
	weft_cm_unlock();
	free(e);
	return 0;
}

int weft_event_complete(struct weft_cm_id *id)
{
	const struct rdma_cm_event *event;

	if (!id->sync)
		return 0;
	if (id->id.event) {
		rdma_ack_cm_event(id->id.event);
		id->id.event = NULL;
	}
	if (rdma_get_cm_event(id->id.channel, &id->id.event))
		return -errno;
	event = id->id.event;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): rdma_get_cm_event stored it */
	if (event->status && event->event == RDMA_CM_EVENT_REJECTED)
		return -ECONNREFUSED;
	return event->status < 0 ? event->status : -event->status;
}
