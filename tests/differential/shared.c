/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cases of shared receive queues: they are made, changed, filled and received from. */
#include <errno.h>

#include "cases.h"
#include "request.h"

static const char *const mask_names[] = {"MAX_WR", "LIMIT"};

static void tell_srq(struct ibv_srq *srq, const struct ibv_srq_attr *wanted)
{
	struct ibv_srq_attr attr;

	need(ibv_query_srq(srq, &attr) == 0, "ibv_query_srq");
	outcome("enough=%d limit=%u",
		attr.max_wr >= wanted->max_wr && attr.max_sge >= wanted->max_sge, attr.srq_limit);
}

/* Draws a size. The greatest possible is not among them: rxe asks for more memory than its machine has. */
static uint32_t pick_wr(struct world *world)
{
	static const uint32_t sizes_wr[] = {0, 1, 3, 100, 1000};
	uint32_t which = pick(world, COUNT(sizes_wr) + 1);

	if (which == COUNT(sizes_wr)) {
		what(" max_wr=max+1");
		return world->device.max_srq_wr + 1;
	}
	what(" max_wr=%u", sizes_wr[which]);
	return sizes_wr[which];
}

static void change(struct world *world, struct ibv_srq *srq, struct ibv_srq_attr *held)
{
	static const uint32_t limits[] = {0, 1, 2000000};
	int mask = one_in(world, 12) ? 4 : (int)pick(world, 4);
	struct ibv_srq_attr attr = {.srq_limit = limits[pick(world, COUNT(limits))]};
	int result;

	what(" modify:");
	what_bits("mask", mask, mask_names, COUNT(mask_names));
	attr.max_wr = pick_wr(world);
	what(" limit=%u", attr.srq_limit);
	result = ibv_modify_srq(srq, &attr, mask);
	outcome_errno("modify", result);
	if (result == 0 && mask & IBV_SRQ_MAX_WR)
		held->max_wr = attr.max_wr;
	tell_srq(srq, held);
}

void case_srq(struct world *world)
{
	struct ibv_srq_init_attr init = {.attr.srq_limit = one_in(world, 4)};
	struct ibv_srq_attr attr;
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct ibv_srq_attr wanted;
	struct ibv_srq *srq;

	what("create_srq limit=%u", init.attr.srq_limit);
	init.attr.max_wr = pick_wr(world);
	init.attr.max_sge = pick_size(world, "max_sge", world->device.max_srq_sge);
	wanted = init.attr;
	errno = 0;
	srq = ibv_create_srq(world->pd, &init);
	outcome_errno("create", srq ? 0 : errno);
	if (!srq)
		return;
	outcome("enough=%d",
		init.attr.max_wr >= wanted.max_wr && init.attr.max_sge >= wanted.max_sge);
	tell_srq(srq, &wanted);
	attr.srq_limit = 0;
	need(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0, "ibv_modify_srq");
	/* with fewer receives than the limit its event would come at once */
	outcome_errno("post", ibv_post_srq_recv(srq, &wr, &bad));
	change(world, srq, &wanted);
	if (one_in(world, 2))
		change(world, srq, &wanted);
	outcome_errno("destroy", ibv_destroy_srq(srq));
}

static struct ibv_srq *open_srq(struct world *world, uint32_t max_wr)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = max_wr, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(world->pd, &init);

	need(srq, "ibv_create_srq");
	return srq;
}

/* More receives than there is room for, or with more elements; a receive for the queue pair itself; and the
 * queue is destroyed while it is in use. */
void case_srq_full(struct world *world)
{
	struct ibv_srq *srq = open_srq(world, 2 + pick(world, 20));
	struct ibv_sge sge[3] = {{(uintptr_t)world->memory[RECEIVE], 8, world->all[RECEIVE]->lkey}};
	struct ibv_recv_wr wr[2] = {{.wr_id = 1, .next = &wr[1]}, {.wr_id = 2}}, *bad = NULL;
	struct ibv_srq_attr attr;
	struct wish wish = usual;
	struct pair pair;
	uint32_t taken = 0;
	int result = 0;

	wr[0].sg_list = wr[1].sg_list = sge;
	wr[1].num_sge = (int)pick(world, 4);
	what("fill srq num_sge=%d", wr[1].num_sge);
	wish.srq = srq;
	pair_open(world, &pair, &wish);
	result = ibv_post_srq_recv(srq, wr, &bad);
	outcome_errno("post", result);
	outcome("bad=%d", bad ? (int)bad->wr_id : 0);
	need(ibv_query_srq(srq, &attr) == 0, "ibv_query_srq");
	for (taken = result ? 1 : 2; taken <= attr.max_wr; taken++) {
		result = ibv_post_srq_recv(srq, &wr[1], &bad);
		if (result)
			break;
	}
	outcome_errno("then", result);
	outcome("all=%d", taken == attr.max_wr);
	outcome_errno("post_recv", ibv_post_recv(pair.qp[1], &wr[0], &bad));
	outcome_errno("destroy_srq", ibv_destroy_srq(srq));
	pair_close(&pair);
	outcome_errno("destroy_srq", ibv_destroy_srq(srq));
}

/* The limit is armed when fewer receives than that are there. */
void case_srq_low(struct world *world)
{
	struct ibv_srq *srq = open_srq(world, 8);
	struct ibv_srq_attr attr = {.srq_limit = 1 + pick(world, 8)};
	struct pair none = {.srq = srq};

	what("low srq limit=%u", attr.srq_limit);
	outcome_errno("arm", ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	tell_events(world, &none, 1, world->event_ms);
	tell_srq(srq, &attr);
	outcome_errno("destroy", ibv_destroy_srq(srq));
}

void case_srq_traffic(struct world *world)
{
	struct ibv_srq *srq = open_srq(world, 16);
	struct wish wish = usual;

	what("SRQ ");
	wish.srq = srq;
	run_traffic(world, wish);
	need(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
}
