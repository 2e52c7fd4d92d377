/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cases of the extended interfaces: completion queues that tell chosen fields, and requests that are built by
 * calls. */
#include <errno.h>

#include "cases.h"
#include "request.h"

static const char *const field_names[] = {
	"BYTE_LEN",	  "IMM",  "QP_NUM", "SRC_QP",	"SLID",	   "SL",
	"DLID_PATH_BITS", "TIME", "CVLAN",  "FLOW_TAG", "TM_INFO", "WALLCLOCK",
};
static const char *const operation_names[] = {
	"WRITE", "WRITE_IMM", "SEND",	 "SEND_IMM", "READ", "CAS",
	"FAA",	 "LOCAL_INV", "BIND_MW", "SEND_INV", "TSO",
};

/* Draws the fields of ordinary completions; now and then one that not all devices have. */
static uint64_t pick_fields(struct world *world, uint32_t others)
{
	uint64_t fields = pick(world, 128);

	if (others && one_in(world, 3))
		fields |= 1ULL << (7 + pick(world, others));
	return fields;
}

void case_cq_ex(struct world *world)
{
	struct ibv_cq_init_attr_ex init = {.wc_flags = pick_fields(world, 6)};
	struct ibv_cq_ex *cq;

	what("create_cq_ex");
	init.cqe = (uint32_t)pick_size(world, "cqe", world->device.max_cqe);
	what_bits("fields", (uint32_t)init.wc_flags, field_names, COUNT(field_names));
	if (one_in(world, 3)) {
		init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
		init.flags = pick(world, 5);
		what(" flags=%u", init.flags);
	}
	if (one_in(world, 12)) {
		init.comp_mask |= 16;
		what(" comp_mask=%x", init.comp_mask);
	}
	errno = 0;
	cq = ibv_create_cq_ex(world->context, &init);
	outcome_errno("create", cq ? 0 : errno);
	if (cq)
		outcome_errno("destroy", ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

void case_qp_ex(struct world *world)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct ibv_cq *cq = ibv_create_cq(world->context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = types[pick(world, COUNT(types))],
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = world->pd,
	};
	struct ibv_qp *qp;

	need(cq, "ibv_create_cq");
	what("create_qp_ex type=%d", init.qp_type);
	if (!one_in(world, 4)) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = 1ULL << pick(world, 11) | 1ULL << pick(world, 4);
		what_bits("operations", (uint32_t)init.send_ops_flags, operation_names,
			  COUNT(operation_names));
	}
	if (one_in(world, 8)) {
		init.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_PD;
		what(" without pd");
	}
	errno = 0;
	qp = ibv_create_qp_ex(world->context, &init);
	outcome_errno("create", qp ? 0 : errno);
	if (qp) {
		outcome("extended=%d", ibv_qp_to_qp_ex(qp) != NULL);
		need(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
	}
	need(ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
}

static struct wish pick_wish(struct world *world)
{
	struct wish wish = usual;

	wish.extended = true;
	wish.fields = pick_fields(world, 0);
	wish.aborts = one_in(world, 10);
	return wish;
}

void what_extended(const struct wish *wish)
{
	if (!wish->extended)
		return;
	what(" extended");
	what_bits("fields", (uint32_t)wish->fields, field_names, COUNT(field_names));
	what("%s", wish->aborts ? " aborts" : "");
}

void case_extended_traffic(struct world *world)
{
	world->simple = true;
	run_traffic(world, pick_wish(world));
	world->simple = false;
}

void case_extended_datagrams(struct world *world)
{
	struct wish wish = pick_wish(world);

	wish.type = IBV_QPT_UD;
	world->simple = true;
	run_datagrams(world, wish);
	world->simple = false;
}
