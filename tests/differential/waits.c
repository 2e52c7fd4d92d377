/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cases of peers that do not answer, of completion queues that overflow, and of completion channels. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "cases.h"

static int send_one(struct world *world, struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t id,
		    unsigned int flags)
{
	struct ibv_sge sge = {.addr = (uintptr_t)world->memory[LOCAL],
			      .length = 8,
			      .lkey = world->all[LOCAL]->lkey};
	struct ibv_send_wr wr = {.wr_id = id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED | flags},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)world->memory[TARGET];
	wr.wr.rdma.rkey = world->all[TARGET]->rkey;
	return ibv_post_send(qp, &wr, &bad);
}

static void receive_one(struct world *world, struct pair *pair, int end, uint64_t id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)world->memory[RECEIVE],
			      .length = 64,
			      .lkey = world->all[RECEIVE]->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	need(ibv_post_recv(pair->qp[end], &wr, &bad) == 0, "ibv_post_recv");
	pair->receives[end]++;
}

/* The peer is in a state in which it does not answer. */
void case_silent_peer(struct world *world)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_ERR};
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_READ};
	enum ibv_qp_state state = states[pick(world, COUNT(states))];
	enum ibv_wr_opcode opcode = opcodes[pick(world, COUNT(opcodes))];
	struct wish wish = usual;
	uint64_t count = 1 + pick(world, 3);
	struct pair pair;

	wish.timeout = 12;
	wish.retry_cnt = 1;
	what("silent peer in %s: %d times opcode %d", state_name(state), (int)count, opcode);
	pair_open(world, &pair, &wish);
	pair_modify(world, &pair, 0, IBV_QPS_RTS, &wish);
	if (state != IBV_QPS_RESET)
		pair_modify(world, &pair, 1, state, &wish);
	for (uint64_t id = 1; id <= count; id++)
		outcome_errno("post", send_one(world, pair.qp[0], opcode, id, 0));
	tell_completions(world, &pair, count);
	pair_close(&pair);
}

/* More completions than the queue holds, of which none is polled. */
void case_overrun(struct world *world)
{
	struct pair pair, far;
	int depth, posted = 0;

	what("overrun of a completion queue");
	pair_open(world, &pair, &usual);
	pair_open(world, &far, &usual);
	need(ibv_destroy_qp(pair.qp[0]) == 0, "ibv_destroy_qp");
	need(ibv_destroy_cq(pair.cq[0]) == 0, "ibv_destroy_cq");
	pair.cq[0] = ibv_create_cq(world->context, 1, NULL, NULL, 0);
	need(pair.cq[0], "ibv_create_cq");
	depth = pair.cq[0]->cqe;
	{
		struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
						.send_cq = pair.cq[0],
						.recv_cq = pair.cq[0],
						.cap = {.max_send_wr = depth + 16,
							.max_recv_wr = 1,
							.max_send_sge = 1,
							.max_recv_sge = 1}};

		pair.qp[0] = ibv_create_qp(world->pd, &init);
		need(pair.qp[0], "ibv_create_qp");
	}
	pair_modify(world, &pair, 0, IBV_QPS_RTS, &usual);
	pair_modify(world, &pair, 1, IBV_QPS_RTS, &usual);
	for (int i = 0; i < depth + 4; i++)
		posted += send_one(world, pair.qp[0], IBV_WR_RDMA_WRITE, 1, 0) == 0;
	outcome("taken=%d", posted == depth + 4);
	/* a queue pair that has lost completions may fail only when its program polls */
	for (int i = 0; i < 200 && qp_state(pair.qp[0]) != IBV_QPS_ERR; i++)
		usleep(10000);
	tell_events(world, &pair, 2, 1000);
	outcome("state=%s", state_name(qp_state(pair.qp[0])));
	pair_close(&far);
	pair_close(&pair);
}

/* A completion queue with a channel, armed or not, for all completions or for solicited ones. */
void case_armed(struct world *world)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world->context);
	bool armed = !one_in(world, 4), only_solicited = one_in(world, 2);
	bool solicited = one_in(world, 2), fails = one_in(world, 3),
	     early = !fails && one_in(world, 4);
	struct ibv_cq *cq, *told;
	struct pollfd wait;
	struct pair pair;
	void *cookie;
	int events = 0;

	need(channel, "ibv_create_comp_channel");
	cq = ibv_create_cq(world->context, 16, world, channel, 0);
	need(cq, "ibv_create_cq");
	what("channel armed=%d only_solicited=%d solicited=%d fails=%d early=%d", armed,
	     only_solicited, solicited, fails, early);
	pair_open(world, &pair, &usual);
	{
		struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
						.send_cq = pair.cq[1],
						.recv_cq = cq,
						.cap = {.max_send_wr = 4,
							.max_recv_wr = 4,
							.max_send_sge = 1,
							.max_recv_sge = 1}};

		need(ibv_destroy_qp(pair.qp[1]) == 0, "ibv_destroy_qp");
		pair.qp[1] = ibv_create_qp(world->pd, &init);
		need(pair.qp[1], "ibv_create_qp");
	}
	pair_modify(world, &pair, 0, IBV_QPS_RTS, &usual);
	pair_modify(world, &pair, 1, IBV_QPS_RTS, &usual);
	receive_one(world, &pair, 1, 101);
	receive_one(world, &pair, 1, 102);
	if (armed && !early)
		outcome_errno("notify", ibv_req_notify_cq(cq, only_solicited));
	if (fails)
		pair_modify(world, &pair, 1, IBV_QPS_ERR, &usual);
	for (uint64_t id = 1; id <= 2 && !fails; id++) {
		need(send_one(world, pair.qp[0], IBV_WR_SEND, id,
			      solicited ? IBV_SEND_SOLICITED : 0) == 0,
		     "ibv_post_send");
	}
	if (!fails)
		tell_completions(world, &pair, 2);
	if (armed && early) /* an event of before does not count */
		outcome_errno("notify", ibv_req_notify_cq(cq, only_solicited));
	need(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
	wait = (struct pollfd){.fd = channel->fd, .events = POLLIN};
	while (poll(&wait, 1, events ? 20 : 1000) == 1 &&
	       ibv_get_cq_event(channel, &told, &cookie) == 0) {
		outcome("event%s", told == cq && cookie == world ? "" : " of another queue");
		ibv_ack_cq_events(told, 1);
		events++;
	}
	outcome("events=%d", events);
	pair.receives[1] = 0;
	need(ibv_destroy_qp(pair.qp[1]) == 0, "ibv_destroy_qp");
	pair.qp[1] = NULL;
	need(ibv_destroy_qp(pair.qp[0]) == 0, "ibv_destroy_qp");
	need(ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
	for (int i = 0; i < 2; i++)
		need(ibv_destroy_cq(pair.cq[i]) == 0, "ibv_destroy_cq");
	need(ibv_destroy_comp_channel(channel) == 0, "ibv_destroy_comp_channel");
}
