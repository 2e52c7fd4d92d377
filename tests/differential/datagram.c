/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cases of UD: datagrams good and bad, Q_Keys, the header before them, address handles. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "cases.h"
#include "request.h"

#define GRH_BYTES   40
#define IPV4_AT	    20
#define PLAIN_KEYS  2 /* how many of the wrong Q_Keys have the highest bit clear */
#define SMALL_SIZES 5 /* any three of these fit into a packet */

static const enum ibv_wr_opcode foreign_opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};

struct target {
	struct ibv_ah *usual, *foreign, *nowhere;
};

static struct ibv_ah_attr usual_address(const struct world *world)
{
	return (struct ibv_ah_attr){.is_global = 1,
				    .port_num = 1,
				    .grh = {.dgid = world->gid,
					    .sgid_index = world->gid_index,
					    .hop_limit = 33,
					    .traffic_class = 0x20,
					    .flow_label = 0x12345}};
}

static void open_target(struct world *world, struct target *target)
{
	struct ibv_ah_attr attr = usual_address(world);

	target->usual = ibv_create_ah(world->pd, &attr);
	target->foreign = ibv_create_ah(world->other_pd, &attr);
	attr.grh.dgid.raw[15] ^= 0x40; /* the address of a neighbour that does not exist */
	target->nowhere = ibv_create_ah(world->pd, &attr);
	need(target->usual && target->foreign && target->nowhere, "ibv_create_ah");
}

static void close_target(struct target *target)
{
	need(ibv_destroy_ah(target->usual) == 0, "ibv_destroy_ah");
	need(ibv_destroy_ah(target->foreign) == 0, "ibv_destroy_ah");
	need(ibv_destroy_ah(target->nowhere) == 0, "ibv_destroy_ah");
}

/* ---- The header before the bytes ---- */

static uint32_t sum_of(const uint8_t *at)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	return (sum & 0xffff) + (sum >> 16);
}

/* Tells of each header that has arrived, without the fields that may differ (the identification). */
static void tell_headers(struct world *world, const struct pair *pair)
{
	for (uint32_t slot = 0; slot < SLOTS * 2; slot++) {
		uint8_t *at = world->memory[RECEIVE] + (slot % SLOTS) * SLOT_BYTES;
		uint8_t *ip = at + IPV4_AT;

		if (!(pair->arrived[slot / SLOTS] >> slot % SLOTS & 1))
			continue;
		outcome("ip=%02x tos=%02x bytes=%u frag=%04x ttl=%u proto=%u sum=%s src=%s dst=%s",
			ip[0], ip[1], ip[2] << 8 | ip[3], ip[6] << 8 | ip[7], ip[8], ip[9],
			sum_of(ip) == 0xffff ? "ok" : "bad",
			memcmp(ip + 12, world->gid.raw + 12, 4) == 0 ? "ours" : "other",
			memcmp(ip + 16, world->gid.raw + 12, 4) == 0 ? "ours" : "other");
		memset(at, 0, GRH_BYTES);
	}
}

/* ---- Requests ---- */

/* A Q_Key with the highest bit set, which stands for the sender's own, comes in lists of one request: rxe does not
 * know it. */
static void pick_qkey(struct world *world, struct ibv_send_wr *wr, bool alone)
{
	static const uint32_t keys[] = {QKEY ^ 1, 0, 0x80000000u, 0x80000000u | QKEY};
	uint32_t which = pick(world, alone ? 6 : 16);

	if (!alone && which >= PLAIN_KEYS)
		which = COUNT(keys);
	wr->wr.ud.remote_qkey = which < COUNT(keys) ? keys[which] : QKEY;
	if (which < COUNT(keys))
		what(" qkey=%x", keys[which]);
}

/* A datagram to the missing neighbour is alone in its list: rxe gets it back, as no host answers. */
static void pick_whom(struct world *world, const struct pair *pair, const struct target *target,
		      struct ibv_send_wr *wr, bool alone)
{
	wr->wr.ud.ah = target->usual;
	wr->wr.ud.remote_qpn = pair->qp[1]->qp_num;
	switch (pick(world, alone ? 8 : 16)) {
	case 0:
		what(" to=itself");
		wr->wr.ud.remote_qpn = pair->qp[0]->qp_num;
		break;
	case 1:
		what(" to=nobody");
		wr->wr.ud.remote_qpn = 0xfffff0;
		break;
	case 2:
		if (!alone)
			break;
		what(" to=neighbour");
		wr->wr.ud.ah = target->nowhere;
		break;
	default:
		break;
	}
}

static void pick_too_long(struct world *world, struct request *request)
{
	what(" mtu+1");
	request->wr.num_sge = 1;
	request->sge[0].length = request->bytes = world->mtu + 1;
	request->sge[0].addr = (uintptr_t)world->memory[LOCAL];
	request->sge[0].lkey = world->all[LOCAL]->lkey;
}

static void pick_local_fault(struct world *world, struct request *request,
			     const struct target *target)
{
	bool inside = request->wr.send_flags & IBV_SEND_INLINE;

	if (request->wr.num_sge && !inside && one_in(world, 2)) {
		struct ibv_sge *sge = &request->sge[pick(world, request->wr.num_sge)];

		what(" lkey=%s", spoil_key(world, LOCAL, &sge->lkey, &sge->addr));
	} else {
		what(" ah=other-domain");
		request->wr.wr.ud.ah = target->foreign;
	}
}

static void pick_datagram(struct world *world, const struct pair *pair, const struct target *target,
			  struct request *request, uint32_t slot, bool faulty)
{
	struct ibv_send_wr *wr = &request->wr;

	*request = (struct request){0};
	wr->wr_id = slot + 1;
	wr->opcode = one_in(world, 2) ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
	if (faulty && one_in(world, 3))
		wr->opcode = foreign_opcodes[pick(world, COUNT(foreign_opcodes))];
	/* the calls of extended queue pairs do not post others */
	if (pair->qp_ex && wr->opcode != IBV_WR_SEND)
		wr->opcode = IBV_WR_SEND_WITH_IMM;
	wr->imm_data = 0x01020304 * (slot + 1);
	what(" [%d", wr->opcode);
	pick_sges(world, request, slot, SMALL_SIZES);
	if (faulty && one_in(world, 6))
		pick_too_long(world, request);
	pick_flags(world, request);
	pick_whom(world, pair, target, wr, faulty);
	pick_qkey(world, wr, faulty);
	if (faulty && one_in(world, 2) &&
	    (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM))
		pick_local_fault(world, request, target);
	what("]");
}

static void pick_wish(struct world *world, struct wish *wish)
{
	wish->sig_all = one_in(world, 4);
	if (one_in(world, 2))
		wish->qkey = QKEY ^ 0x100;
	what("%s%s", wish->sig_all ? " sig_all" : "", wish->qkey == QKEY ? "" : " own-qkey");
	what_extended(wish);
}

void run_datagrams(struct world *world, struct wish wish)
{
	struct request requests[SLOTS] = {0};
	struct target target;
	struct pair pair;
	bool faulty;
	uint32_t count = 1 + pick(world, SLOTS);
	uint32_t receives = one_in(world, 4) ? pick(world, SLOTS) : SLOTS;
	uint64_t last;

	world_fill(world);
	open_target(world, &target);
	what("datagrams");
	pick_wish(world, &wish);
	pair_open(world, &pair, &wish);
	pair_modify(world, &pair, 0, IBV_QPS_RTS, &wish);
	pair_modify(world, &pair, 1, one_in(world, 5) ? IBV_QPS_RTR : IBV_QPS_RTS, &wish);
	what(" peer=%s", state_name(qp_state(pair.qp[1])));
	for (uint32_t i = 0; i < receives; i++)
		post_receive(world, &pair, 1, i);
	/* a request that fails is alone: whether those behind it are sent differs */
	faulty = one_in(world, 4);
	if (faulty)
		count = 1;
	for (uint32_t i = 0; i < count; i++)
		pick_datagram(world, &pair, &target, &requests[i], i, faulty);
	requests[count - 1].wr.send_flags |= IBV_SEND_SIGNALED;
	last = post_list(&pair, requests, count);
	tell_completions(world, &pair, last);
	tell_headers(world, &pair);
	outcome("data=%08x", world_digest(world));
	pair_close(&pair);
	close_target(&target);
}

static struct wish datagram_wish(void)
{
	struct wish wish = usual;

	wish.type = IBV_QPT_UD;
	return wish;
}

void case_datagrams(struct world *world)
{
	run_datagrams(world, datagram_wish());
}

/* One of the two ends is in some state. */
void case_datagram_in_state(struct world *world)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						   IBV_QPS_SQD,	  IBV_QPS_ERR,	IBV_QPS_RTS};
	enum ibv_qp_state state = states[pick(world, COUNT(states))];
	int end = (int)pick(world, 2);
	struct request request = {0};
	struct target target;
	struct wish wish = datagram_wish();
	struct pair pair;
	uint64_t last;
	bool waits;

	what("datagram: %s in %s", end ? "receiver" : "sender", state_name(state));
	pick_wish(world, &wish);
	world_fill(world);
	open_target(world, &target);
	pair_open(world, &pair, &wish);
	if (state != IBV_QPS_RESET)
		pair_modify(world, &pair, end, state, &wish);
	pair_modify(world, &pair, !end, IBV_QPS_RTS, &wish);
	post_receive(world, &pair, 1, 1);
	pick_datagram(world, &pair, &target, &request, 0, false);
	request.wr.send_flags |= IBV_SEND_SIGNALED;
	last = post_list(&pair, &request, 1);
	waits = end == 0 && state == IBV_QPS_SQD;
	tell_completions(world, &pair, waits ? 0 : last);
	tell_headers(world, &pair);
	pair_modify(world, &pair, 0, IBV_QPS_ERR, &wish);
	tell_completions(world, &pair, waits ? last : 0);
	pair_close(&pair);
	close_target(&target);
}

/* ---- Address handles ---- */

static void spoil_address(struct world *world, struct ibv_ah_attr *attr)
{
	switch (pick(world, 9)) {
	case 0:
		what(" sgid_index=250");
		attr->grh.sgid_index = 250;
		break;
	case 1:
		what(" port=%u", attr->port_num = pick(world, 2) * 2);
		break;
	case 2:
		what(" without_grh");
		attr->is_global = 0;
		break;
	case 3:
		what(" dlid=7 path_bits=3");
		attr->dlid = 7;
		attr->src_path_bits = 3;
		break;
	case 4:
		what(" sl=9");
		attr->sl = 9;
		break;
	case 5:
		what(" rate=99");
		attr->static_rate = 99;
		break;
	case 6:
		what(" flow_label=ffffffff");
		attr->grh.flow_label = UINT32_MAX;
		break;
	case 7:
		what(" dgid=0");
		attr->grh.dgid = (union ibv_gid){0};
		break;
	default:
		break;
	}
}

void case_address(struct world *world)
{
	struct ibv_ah_attr attr = usual_address(world);
	struct ibv_pd *pd = ibv_alloc_pd(world->context);
	struct ibv_ah *ah;

	need(pd, "ibv_alloc_pd");
	what("create_ah");
	spoil_address(world, &attr);
	if (one_in(world, 3))
		spoil_address(world, &attr);
	errno = 0;
	ah = ibv_create_ah(pd, &attr);
	outcome_errno("create", ah ? 0 : errno);
	if (ah) {
		outcome_errno("dealloc_pd", ibv_dealloc_pd(pd));
		outcome_errno("destroy", ibv_destroy_ah(ah));
	}
	need(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
}

/* The header that has arrived says which address to answer; sometimes it has none. */
void case_answer(struct world *world)
{
	uint8_t *header = world->memory[RECEIVE];
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH, .slid = 5, .sl = 3, .dlid_path_bits = 1};
	struct request request = {0};
	struct ibv_ah_attr attr = {0};
	struct target target;
	struct wish wish = datagram_wish();
	struct pair pair;
	struct ibv_ah *ah;
	uint8_t port = one_in(world, 8) ? 2 : 1;
	int result;

	what("answer port=%u", port);
	pick_wish(world, &wish);
	world_fill(world);
	open_target(world, &target);
	pair_open(world, &pair, &wish);
	for (int end = 0; end < 2; end++)
		pair_modify(world, &pair, end, IBV_QPS_RTS, &wish);
	post_receive(world, &pair, 1, 0);
	request.wr = (struct ibv_send_wr){.wr_id = 1,
					  .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED,
					  .wr.ud = {target.usual, pair.qp[1]->qp_num, QKEY}};
	tell_completions(world, &pair, post_list(&pair, &request, 1));
	if (one_in(world, 4)) {
		uint32_t at = IPV4_AT + pick(world, 20);

		what(" spoilt=%u", at);
		header[at] ^= 1 << pick(world, 8);
	}
	if (one_in(world, 8)) {
		what(" no-grh");
		wc.wc_flags = 0;
	}
	if (!pair.arrived[1])
		goto close_pair;
	result = ibv_init_ah_from_wc(world->context, port, &wc, (struct ibv_grh *)header, &attr);
	outcome_errno("init_ah", result ? errno : 0);
	if (result == 0)
		outcome("global=%u dlid=%u sl=%u bits=%u port=%u dgid=%s index=%s flow=%x hops=%u "
			"class=%x",
			attr.is_global, attr.dlid, attr.sl, attr.src_path_bits, attr.port_num,
			memcmp(&attr.grh.dgid, &world->gid, 16) == 0 ? "ours" : "other",
			attr.grh.sgid_index == world->gid_index ? "ours" : "other",
			attr.grh.flow_label, attr.grh.hop_limit, attr.grh.traffic_class);
	ah = ibv_create_ah_from_wc(world->pd, &wc, (struct ibv_grh *)header, port);
	outcome_errno("create_ah", ah ? 0 : errno);
	if (ah)
		need(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
close_pair:
	pair_close(&pair);
	close_target(&target);
}
