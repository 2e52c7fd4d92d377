/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Listening identifiers and the requests that wait at them. */
#include <errno.h>
#include <string.h>

#include "cm/cm.h"
#include "pool/step.h"

static struct weft_cm_id *listeners;

/* How well a listener fits: 0 not at all, 2 exactly (as mailbox/port.c does). */
static int listener_fit(const struct weft_cm_id *id, enum rdma_port_space ps,
			const uint8_t addr[16], uint16_t port)
{
	sa_family_t family = id->id.route.addr.src_addr.sa_family;
	uint8_t own[16];
	uint16_t own_port;
	struct sockaddr_storage wanted;

	if (id->id.ps != ps || weft_addr_get(&id->id.route.addr.src_addr, own, &own_port) ||
	    own_port != port)
		return 0;
	if (!weft_address_is_any(own))
		return memcmp(own, addr, 16) ? 0 : 2;
	weft_addr_put((struct sockaddr *)&wanted, addr, port);
	return family == wanted.ss_family || (family == AF_INET6 && !id->one_family);
}

struct weft_cm_id *weft_listener_find(enum rdma_port_space ps, const uint8_t addr[16],
				      uint16_t port)
{
	struct weft_cm_id *best = NULL;
	int best_fit = 0;

	for (struct weft_cm_id *id = listeners; id; id = id->next_listener) {
		int now = listener_fit(id, ps, addr, port);

		if (now > best_fit) {
			best_fit = now;
			best = id;
		}
	}
	return best;
}

void weft_listener_remove(struct weft_cm_id *id)
{
	struct weft_cm_id **at = &listeners;

	while (*at && *at != id)
		at = &(*at)->next_listener;
	if (*at)
		*at = id->next_listener;
}

void weft_listener_forget(void)
{
	listeners = NULL;
}

static int start_listening(struct weft_cm_id *id, int backlog)
{
	static const uint8_t any_v4[16] = {[10] = 0xff, [11] = 0xff};
	int err = 0;

	if (id->state == WEFT_ID_IDLE)
		err = weft_addr_bind(id, any_v4, 0);
	else if (id->state != WEFT_ID_BOUND)
		err = weft_cm_wrong_state(id, "new or bound");
	if (err)
		return err;
	err = weft_cm.service->port_listen(weft_cm.pool, id->port_index);
	if (err == -EADDRINUSE)
		return weft_cm_broken(
			err,
			"port %u is another identifier's, too: one that listens has its port alone",
			be16toh(rdma_get_src_port(&id->id)));
	if (err)
		return err;
	WEFT_STEP(cm_listening);
	id->backlog = backlog > 0 && backlog < WEFT_CM_MAX_BACKLOG ? backlog : WEFT_CM_MAX_BACKLOG;
	id->next_listener = listeners;
	listeners = id;
	id->state = WEFT_ID_LISTENING;
	return 0;
}

int rdma_listen(struct rdma_cm_id *rdma_id, int backlog)
{
	int err;

	if (!rdma_id)
		return weft_cm_result(weft_cm_no_id());
	weft_cm_lock();
	err = start_listening(weft_cm_id(rdma_id), backlog);
	weft_cm_unlock();
	return weft_cm_result(err);
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct weft_cm_id *listener = weft_cm_id(listen);
	struct ibv_qp_init_attr attr;
	struct rdma_cm_event *event;
	int err;

	if (!listen || !id || !listener->sync)
		return weft_cm_result(-EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	err = event->status;
	if (!err && event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		err = -EINVAL;
	if (!err && listener->ep_attr) {
		attr = *listener->ep_attr;
		if (rdma_create_qp(event->id, listener->ep_pd, &attr))
			err = -errno;
	}
	if (err) {
		listen->event = event;
		return weft_cm_result(err < 0 ? err : -err);
	}
	*id = event->id;
	(*id)->event = event;
	return 0;
}
