/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cases of ibv_modify_qp: each state, target, mask and value, good and bad. */
#include "cases.h"

static const char *const mask_names[] = {
	"STATE",    "CUR_STATE", "EN_SQD",   "ACCESS",	"PKEY_INDEX", "PORT",
	"QKEY",	    "AV",	 "PATH_MTU", "TIMEOUT", "RETRY_CNT",  "RNR_RETRY",
	"RQ_PSN",   "MAX_RD",	 "ALT_PATH", "MIN_RNR", "SQ_PSN",     "MAX_DEST_RD",
	"PATH_MIG", "CAP",	 "DEST_QPN", "",	"",	      "",
	"",	    "RATE",
};

/* Sets one value that no device takes, or nothing. Fields that are not in the mask do not count. */
static void spoil(struct world *world, struct ibv_qp_attr *attr)
{
	switch (pick(world, 14)) {
	case 0:
		what(" port=2");
		attr->port_num = 2;
		break;
	case 1:
		what(" pkey_index=60000");
		attr->pkey_index = 60000;
		break;
	case 2:
		what(" sgid_index=250");
		attr->ah_attr.grh.sgid_index = 250;
		break;
	case 3:
		what(" path_mtu=0");
		attr->path_mtu = 0;
		break;
	case 4:
		what(" path_mtu=6");
		attr->path_mtu = 6;
		break;
	case 5:
		what(" av_port=2");
		attr->ah_attr.port_num = 2;
		break;
	case 6:
		what(" av_without_grh");
		attr->ah_attr.is_global = 0;
		break;
	case 7:
		what(" cur_state=SQE");
		attr->cur_qp_state = IBV_QPS_SQE;
		break;
	case 8:
		what(" max_rd=255");
		attr->max_rd_atomic = 255;
		break;
	case 9:
		what(" max_dest_rd=255");
		attr->max_dest_rd_atomic = 255;
		break;
	case 10:
		what(" state=9");
		attr->qp_state = 9;
		break;
	case 11:
		what(" timeout=40 retry=9 rnr=9 min_rnr=40");
		attr->timeout = 40;
		attr->retry_cnt = 9;
		attr->rnr_retry = 9;
		attr->min_rnr_timer = 40;
		break;
	default:
		break;
	}
}

static void tell_datagram(const struct ibv_qp_attr *attr)
{
	outcome("port=%u qkey=%x", attr->port_num, attr->qkey);
	if (attr->qp_state != IBV_QPS_INIT && attr->qp_state != IBV_QPS_RTR)
		outcome("sq_psn=%u", attr->sq_psn);
}

static void tell_query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	need(ibv_query_qp(qp, &attr, 0x1fffff, &init) == 0, "ibv_query_qp");
	outcome("state=%s", state_name(attr.qp_state));
	if (attr.qp_state == IBV_QPS_RESET || attr.qp_state == IBV_QPS_ERR)
		return;
	if (qp->qp_type == IBV_QPT_UD) {
		tell_datagram(&attr);
		return;
	}
	outcome("access=%x port=%u", attr.qp_access_flags, attr.port_num);
	if (attr.qp_state == IBV_QPS_INIT)
		return;
	outcome("mtu=%d rq_psn=%u", attr.path_mtu, attr.rq_psn);
	if (qp->qp_type == IBV_QPT_RC)
		outcome("dest_rd=%u min_rnr=%u", attr.max_dest_rd_atomic, attr.min_rnr_timer);
	if (attr.qp_state == IBV_QPS_RTR)
		return;
	outcome("sq_psn=%u", attr.sq_psn);
	if (qp->qp_type == IBV_QPT_RC)
		outcome("rd=%u timeout=%u retry=%u rnr=%u", attr.max_rd_atomic, attr.timeout,
			attr.retry_cnt, attr.rnr_retry);
}

/* A transition from SQD to SQD, for example, changes attributes; the others mostly follow the usual path. */
static enum ibv_qp_state pick_target(struct world *world, enum ibv_qp_state from)
{
	static const enum ibv_qp_state next[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
						 IBV_QPS_SQD,  IBV_QPS_RTS, IBV_QPS_RESET,
						 IBV_QPS_RESET};

	return one_in(world, 3) ? pick(world, 7) : next[from];
}

static const char *const type_names[] = {
	[IBV_QPT_RC] = "", [IBV_QPT_UC] = "UC ", [IBV_QPT_UD] = "UD "};

static void modify(struct world *world, enum ibv_qp_type type)
{
	static const enum ibv_qp_state starts[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						   IBV_QPS_RTS,	  IBV_QPS_SQD,	IBV_QPS_ERR};
	enum ibv_qp_state from = starts[pick(world, COUNT(starts))];
	enum ibv_qp_state to = pick_target(world, from);
	int mask = usual_mask(type, to);
	struct wish wish = usual;
	struct ibv_qp_attr attr;
	struct pair pair;

	wish.type = type;
	pair_open(world, &pair, &wish);
	if (from != IBV_QPS_RESET)
		pair_modify(world, &pair, 0, from, &wish);
	if (from == IBV_QPS_SQD && to == IBV_QPS_RTS)
		mask = IBV_QP_STATE;
	attr = usual_attr(world, &pair, 0, to, &wish);
	attr.cur_qp_state = from;
	attr.en_sqd_async_notify = 1;
	if (one_in(world, 3))
		mask &= ~(1 << pick(world, 21));
	while (one_in(world, 2))
		mask |= 1 << (one_in(world, 10) ? pick(world, 26) : pick(world, 18));
	if (mask & IBV_QP_CAP) /* sizes cannot be changed */
		mask &= ~IBV_QP_CAP;
	what("modify_qp %s%s", type_names[type], state_name(from));
	what("->%s", mask & IBV_QP_STATE ? state_name(to) : "same");
	if (one_in(world, 2))
		spoil(world, &attr);
	what_bits("mask", mask, mask_names, COUNT(mask_names));
	outcome_errno("modify", ibv_modify_qp(pair.qp[0], &attr, mask));
	tell_query(pair.qp[0]);
	tell_events(world, &pair, from == IBV_QPS_SQD || to == IBV_QPS_SQD, 100);
	pair_close(&pair);
}

void case_modify(struct world *world)
{
	modify(world, IBV_QPT_RC);
}

void case_modify_unreliable(struct world *world)
{
	modify(world, IBV_QPT_UC);
}

void case_modify_datagram(struct world *world)
{
	modify(world, IBV_QPT_UD);
}
