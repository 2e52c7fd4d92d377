/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Messages by SEND, and a completion channel for each connection, as programs use them: get the event, acknowledge
 * it, arm, poll until nothing is left. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "events.h"

#define PAGE	 4096u
#define POLLED	 16
#define SIGNALED 16u /* one in so many sends gives a completion */

static struct end end;

static void open_device(const struct options *o, uint32_t conns)
{
	size_t bytes = 2ul * conns * o->in_flight * o->bytes;

	/* whole pages: parts of pages stay in place */
	end_open(&end, (bytes + PAGE - 1) / PAGE * PAGE, false);
}

static void receive(struct conn *c, uint32_t slot)
{
	struct ibv_sge sge = {(uintptr_t)c->slots + (uint64_t)slot * c->options->bytes,
			      c->options->bytes, end.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	end_require(!ibv_post_recv(c->qp, &wr, &bad), "ibv_post_recv");
}

static void swap_addresses(struct conn *c)
{
	struct end of = end;
	struct end_address mine, peer;

	of.qp = c->qp;
	mine = end_address(&of);
	end_require(write(c->socket, &mine, sizeof(mine)) == sizeof(mine), "write of an address");
	end_require(read(c->socket, &peer, sizeof(peer)) == sizeof(peer), "read of an address");
	end_connect_qp(c->qp, &peer);
	/* neither sends before the other is ready */
	end_require(write(c->socket, "r", 1) == 1 && read(c->socket, &mine, 1) == 1,
		    "both are ready");
}

static int connect_queue_pair(struct conn *c, uint32_t index)
{
	const struct options *o = c->options;
	struct ibv_cq *plain = end.cq;

	c->slots = end.memory + 2ul * index * o->in_flight * o->bytes;
	c->channel = ibv_create_comp_channel(end.context);
	end_require(c->channel, "ibv_create_comp_channel");
	c->cq = ibv_create_cq(end.context, 2 * END_DEPTH, c, c->channel, 0);
	end_require(c->cq, "ibv_create_cq");
	end.cq = c->cq;
	c->qp = end_add_qp(&end, END_DEPTH, false);
	end.cq = plain;
	for (uint32_t i = 0; i < o->in_flight; i++)
		receive(c, i);
	/* the first message may come as soon as the two have met, and this end polls only after an event */
	end_require(!ibv_req_notify_cq(c->cq, 0), "ibv_req_notify_cq");
	swap_addresses(c);
	return c->channel->fd;
}

static bool get_ready(struct conn *c, uint32_t events)
{
	struct ibv_wc wc[POLLED];
	struct ibv_cq *cq;
	void *context;
	int n;

	end_require(!ibv_get_cq_event(c->channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	end_require(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
	while ((n = ibv_poll_cq(cq, POLLED, wc)) > 0)
		for (int i = 0; i < n; i++) {
			uint64_t number;

			end_require(wc[i].status == IBV_WC_SUCCESS,
				    ibv_wc_status_str(wc[i].status));
			if (wc[i].opcode != IBV_WC_RECV)
				continue;
			memcpy(&number, c->slots + wc[i].wr_id * c->options->bytes, sizeof(number));
			receive(c, (uint32_t)wc[i].wr_id);
			c->message(c, number);
		}
	end_require(!n, "ibv_poll_cq");
	return true;
}

static void send_message(struct conn *c, uint64_t number)
{
	const struct options *o = c->options;
	uint8_t *at = c->slots + (o->in_flight + c->sent % o->in_flight) * (uint64_t)o->bytes;
	struct ibv_sge sge = {(uintptr_t)at, o->bytes, end.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad;

	memcpy(at, &number, sizeof(number));
	if (++c->sent % SIGNALED == 0)
		wr.send_flags = IBV_SEND_SIGNALED;
	end_require(!ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
}

static void flush(struct conn *c)
{
}

const struct way verbs = {open_device, connect_queue_pair, get_ready, send_message, flush};
