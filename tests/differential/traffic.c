/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cases of requests between connected queue pairs, good and bad, and of posting in each state. */
#include "cases.h"
#include "request.h"

static void lower_rights(struct world *world, struct wish *wish)
{
	wish->access = pick(world, 8) << 1;
	what(" access=%x", wish->access);
}

/* Whether each request that fails has changed no byte. */
static bool whole_or_nothing(const struct request *requests, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (requests[i].bytes > PACKET_BYTES || requests[i].half_done)
			return false;
	}
	return true;
}

/* Draws the limit of the queue, and whether its queue pair goes to ERR when all is done. */
static bool pick_shared(struct world *world, struct pair *pair, uint32_t receives)
{
	bool then_err = one_in(world, 2);
	struct ibv_srq_attr attr = {.srq_limit = pick(world, receives + 1)};

	what(" limit=%u%s", attr.srq_limit, then_err ? " then=ERR" : "");
	pair->limit = attr.srq_limit;
	need(ibv_modify_srq(pair->srq, &attr, IBV_SRQ_LIMIT) == 0, "ibv_modify_srq");
	return then_err;
}

void run_traffic(struct world *world, struct wish wish)
{
	uint32_t count = 1 + pick(world, SLOTS),
		 receives = one_in(world, 4) ? pick(world, SLOTS) : SLOTS;
	uint32_t faulty; /* which request is wrong; SLOTS: none */
	struct request requests[SLOTS] = {0};
	struct pair pair;
	uint64_t last;
	bool good, then_err = false;

	wish.sig_all = one_in(world, 4);
	world_fill(world);
	what("%straffic%s", wish.type == IBV_QPT_UC ? "UC " : "", wish.sig_all ? " sig_all" : "");
	what_extended(&wish);
	faulty = one_in(world, 2) ? pick(world, count) : SLOTS;
	if (faulty == SLOTS && one_in(world, 2))
		lower_rights(world, &wish);
	pair_open(world, &pair, &wish);
	pair_modify(world, &pair, 0, IBV_QPS_RTS, &wish);
	pair_modify(world, &pair, 1, one_in(world, 5) ? IBV_QPS_RTR : IBV_QPS_RTS, &wish);
	what(" peer=%s", state_name(qp_state(pair.qp[1])));
	for (uint32_t i = 0; i < receives; i++)
		post_receive(world, &pair, 1, i);
	if (wish.srq)
		then_err = pick_shared(world, &pair, receives);
	for (uint32_t i = 0; i < count; i++)
		pick_request(world, wish.type, &requests[i], i,
			     i != faulty  ? NO_FAULT
			     : count == 1 ? SINGLE_FAULT
					  : FAULT);
	/* its completion says when all is done */
	requests[count - 1].wr.send_flags |= IBV_SEND_SIGNALED;
	last = post_list(&pair, requests, count);
	good = tell_completions(world, &pair, last);
	/* of UC, a message without a receive may have changed bytes, and the requester does not learn of
	 * it */
	if (whole_or_nothing(requests, count) ||
	    (good && (wish.type == IBV_QPT_RC || receives >= count)))
		outcome("data=%08x", world_digest(world));
	if (then_err && good) {
		pair_modify(world, &pair, 1, IBV_QPS_ERR, &wish);
		tell_completions(world, &pair, 0);
	}
	pair_close(&pair);
}

void case_traffic(struct world *world)
{
	run_traffic(world, usual);
}

void case_unreliable_traffic(struct world *world)
{
	struct wish wish = usual;

	wish.type = IBV_QPT_UC;
	run_traffic(world, wish);
}

static void post_in_state(struct world *world, enum ibv_qp_type type)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						   IBV_QPS_SQD,	  IBV_QPS_ERR,	IBV_QPS_RTS};
	enum ibv_qp_state state = states[pick(world, COUNT(states))];
	struct wish wish = usual;
	struct request request;
	uint64_t last;
	struct pair pair;

	wish.type = type;
	what("%spost in %s", type == IBV_QPT_UC ? "UC " : "", state_name(state));
	pair_open(world, &pair, &wish);
	if (state != IBV_QPS_RESET)
		pair_modify(world, &pair, 0, state, &wish);
	pair_modify(world, &pair, 1, IBV_QPS_RTS, &wish);
	if (one_in(world, 2))
		post_receive(world, &pair, 0, 0);
	post_receive(world, &pair, 1, 1);
	pick_request(world, type, &request, 2, one_in(world, 4) ? SINGLE_FAULT : NO_FAULT);
	request.wr.wr_id = 1;
	request.wr.send_flags |= IBV_SEND_SIGNALED;
	last = post_list(&pair, &request, 1);
	/* in other states the request waits */
	tell_completions(world, &pair, state == IBV_QPS_RTS || state == IBV_QPS_ERR ? last : 0);
	pair_modify(world, &pair, 0, IBV_QPS_ERR, &wish);
	tell_completions(world, &pair, state == IBV_QPS_RTS || state == IBV_QPS_ERR ? 0 : last);
	pair_close(&pair);
}

void case_post_in_state(struct world *world)
{
	post_in_state(world, IBV_QPT_RC);
}

void case_unreliable_post_in_state(struct world *world)
{
	post_in_state(world, IBV_QPT_UC);
}
