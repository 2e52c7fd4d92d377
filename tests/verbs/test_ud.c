/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Datagrams: address handles, the header in front of the bytes that are received, Q_Keys, multicast groups;
 * what is dropped without a word, what fails, and what becomes of receives that a killed sender had taken.
 */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"

#define GRH   40u
#define BYTES 1024u
#define MTU   4096u
#define ROOM  (GRH + BYTES)

struct ends {
	struct rig rig;
	struct ibv_ah *ah; /* to this process's own address */
	struct ibv_mr *from, *to;
};

static struct ibv_ah_attr address(struct ibv_context *context, uint8_t index)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.sgid_index = index,
					   .hop_limit = 64,
					   .traffic_class = 5,
					   .flow_label = 0x12345}};

	assert_int_equal(ibv_query_gid(context, 1, index, &attr.grh.dgid), 0);
	return attr;
}

static struct ibv_ah *handle(struct ibv_pd *pd, uint8_t index)
{
	struct ibv_ah_attr attr = address(pd->context, index);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);

	assert_non_null(ah);
	return ah;
}

static int setup(void **state)
{
	static struct ends e;

	rig_open(&e.rig);
	rig_connect(&e.rig, &(struct rig_wish){.type = IBV_QPT_UD});
	e.ah = handle(e.rig.pd, 3);
	e.from = rig_region(e.rig.pd, 2 * MTU);
	e.to = rig_region(e.rig.pd, 2 * MTU);
	for (uint32_t i = 0; i < 2 * MTU; i++)
		((uint8_t *)e.from->addr)[i] = (uint8_t)(i * 7 + 1);
	*state = &e;
	return 0;
}

static int teardown(void **state)
{
	struct ends *e = *state;

	assert_int_equal(ibv_destroy_ah(e->ah), 0);
	rig_region_end(e->from);
	rig_region_end(e->to);
	rig_close(&e->rig);
	return 0;
}

static int send_to(struct ends *e, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)e->from->addr, len, e->from->lkey};
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = 0x12345678,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {ah, qpn, qkey}};
	struct ibv_send_wr *bad;

	return ibv_post_send(e->rig.qp[0], &wr, &bad);
}

/* Sends a datagram, which completes as sent whatever becomes of it. */
static void send_one(struct ends *e, uint32_t qkey, uint32_t len)
{
	assert_int_equal(send_to(e, e->ah, e->rig.qp[1]->qp_num, qkey, len), 0);
	rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, 7);
}

static int receive(struct ends *e, int i, uint64_t wr_id, uint32_t len)
{
	memset(e->to->addr, 0, ROOM);
	return rig_receive(e->rig.qp[i], wr_id, e->to, e->to->addr, len);
}

/* ---- Address handles ---- */

static void refuse_handle(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	errno = 0;
	assert_null(ibv_create_ah(pd, attr));
	assert_int_equal(errno, EINVAL);
}

static void handles(void **state)
{
	struct ends *e = *state;
	struct ibv_ah_attr good = address(e->rig.context, 1), bad;
	struct ibv_pd *gone = ibv_alloc_pd(e->rig.context);
	struct ibv_ah *ah;

	assert_int_equal(ibv_dealloc_pd(gone), 0);
	refuse_handle(NULL, &good);
	refuse_handle(gone, &good);
	refuse_handle((struct ibv_pd *)e->rig.cq[0], &good);
	refuse_handle(e->rig.pd, NULL);
	bad = good;
	bad.is_global = 0; /* on Ethernet every address handle needs a GRH */
	refuse_handle(e->rig.pd, &bad);
	bad = good;
	bad.grh.sgid_index = 255;
	refuse_handle(e->rig.pd, &bad);
	bad = good;
	bad.port_num = 2;
	refuse_handle(e->rig.pd, &bad);
	gone = ibv_alloc_pd(e->rig.context);
	ah = ibv_create_ah(gone, &good);
	assert_non_null(ah);
	assert_ptr_equal(ah->context, e->rig.context);
	assert_ptr_equal(ah->pd, gone);
	assert_int_equal(ibv_dealloc_pd(gone), EBUSY);
	RIG_REFUSED(ibv_destroy_ah(NULL));
	RIG_REFUSED(ibv_destroy_ah((struct ibv_ah *)gone));
	assert_int_equal(ibv_destroy_ah(ah), 0);
	RIG_REFUSED(ibv_destroy_ah(ah));
	assert_int_equal(ibv_dealloc_pd(gone), 0);
}

/* ---- What arrives ---- */

static uint32_t checksum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	return (sum & 0xffff) + (sum >> 16);
}

/* As network cards leave it: the header of IPv4 in the last 20 bytes (A17.4.5). */
static void expect_ipv4(const struct ends *e, const uint8_t *grh)
{
	struct ibv_ah_attr attr = address(e->rig.context, 3);
	const uint8_t *ip = grh + 20;

	assert_int_equal(ip[0], 0x45);
	assert_int_equal(ip[1], 5);
	assert_int_equal(ip[2] << 8 | ip[3], 20 + 8 + 20 + 4 + BYTES + 4);
	assert_int_equal(ip[8], 64);
	assert_int_equal(ip[9], IPPROTO_UDP);
	assert_memory_equal(ip + 12, attr.grh.dgid.raw + 12, 4);
	assert_memory_equal(ip + 16, attr.grh.dgid.raw + 12, 4);
	assert_int_equal(checksum(ip), 0xffff);
}

static void expect_ipv6(const struct ends *e, const struct ibv_grh *grh, uint8_t index)
{
	struct ibv_ah_attr attr = address(e->rig.context, index);

	assert_int_equal(ntohl(grh->version_tclass_flow), 6u << 28 | 5u << 20 | 0x12345);
	assert_int_equal(grh->next_hdr, index % 2 ? IPPROTO_UDP : 0x1b);
	assert_int_equal(ntohs(grh->paylen), (index % 2 ? 8 : 0) + 20 + 4 + BYTES + 4);
	assert_int_equal(grh->hop_limit, 64);
	assert_memory_equal(&grh->sgid, &attr.grh.dgid, 16);
	assert_memory_equal(&grh->dgid, &attr.grh.dgid, 16);
}

static void reply(struct ends *e, struct ibv_wc *wc, uint8_t index)
{
	struct ibv_ah_attr want = address(e->rig.context, index), attr;
	struct ibv_ah *ah;
	struct ibv_grh grh;

	memcpy(&grh, e->to->addr, sizeof(grh));
	assert_int_equal(ibv_init_ah_from_wc(e->rig.context, 1, wc, &grh, &attr), 0);
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.grh.sgid_index, index);
	assert_memory_equal(&attr.grh.dgid, &want.grh.dgid, 16);
	assert_int_equal(attr.grh.traffic_class, 5);
	assert_int_equal(attr.grh.hop_limit, want.grh.hop_limit);
	ah = ibv_create_ah_from_wc(e->rig.pd, wc, &grh, 1);
	assert_non_null(ah);
	assert_int_equal(receive(e, 0, 9, ROOM), 0);
	assert_int_equal(send_to(e, ah, wc->src_qp, RIG_QKEY, BYTES), 0);
	rig_next(e->rig.cq[0]);
	rig_next(e->rig.cq[0]);
	rig_none(e->rig.cq[0]);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void each_address(void **state)
{
	/* of wc.sl, which tells the sort of header as mlx5 does: 0 RoCE v1, 1 IPv6, 2 IPv4 */
	static const uint8_t levels[] = {0, 1, 0, 2};
	struct ends *e = *state;

	/* RoCE v1 and v2 with link-local addresses, then v1 and v2 with IPv4 addresses */
	for (uint8_t i = 0; i < 4; i++) {
		struct ibv_ah *ah = handle(e->rig.pd, i);
		struct ibv_wc wc;

		assert_int_equal(receive(e, 1, i, ROOM), 0);
		assert_int_equal(send_to(e, ah, e->rig.qp[1]->qp_num, RIG_QKEY, BYTES), 0);
		rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, 7);
		wc = rig_expect(e->rig.cq[1], IBV_WC_SUCCESS, i);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, ROOM);
		assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
		assert_int_equal(wc.imm_data, 0x12345678);
		assert_int_equal(wc.src_qp, e->rig.qp[0]->qp_num);
		assert_int_equal(wc.qp_num, e->rig.qp[1]->qp_num);
		assert_int_equal(wc.sl, levels[i]);
		assert_int_equal(wc.slid, 0);
		if (i == 3)
			expect_ipv4(e, e->to->addr);
		else
			expect_ipv6(e, e->to->addr, i);
		assert_memory_equal((char *)e->to->addr + GRH, e->from->addr, BYTES);
		reply(e, &wc, i);
		assert_int_equal(ibv_destroy_ah(ah), 0);
	}
}

static void bad_headers(void **state)
{
	struct ends *e = *state;
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = {0};
	struct ibv_ah_attr attr;

	errno = 0;
	assert_int_equal(ibv_init_ah_from_wc(NULL, 1, &wc, &grh, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_init_ah_from_wc(e->rig.context, 2, &wc, &grh, &attr), -1);
	assert_int_equal(ibv_init_ah_from_wc(e->rig.context, 1, NULL, &grh, &attr), -1);
	assert_int_equal(ibv_init_ah_from_wc(e->rig.context, 1, &wc, &grh, NULL), -1);
	assert_int_equal(ibv_init_ah_from_wc(e->rig.context, 1, &wc, &grh, &attr), -1);
	assert_int_equal(errno, EPROTONOSUPPORT);
	/* an IPv6 packet to an address that this process does not have */
	grh.version_tclass_flow = htonl(6u << 28);
	grh.next_hdr = IPPROTO_UDP;
	assert_int_equal(ibv_init_ah_from_wc(e->rig.context, 1, &wc, &grh, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_ah_from_wc(NULL, &wc, &grh, 1));
	assert_null(ibv_create_ah_from_wc(e->rig.pd, &wc, &grh, 1));
	wc.wc_flags = 0;
	assert_int_equal(ibv_init_ah_from_wc(e->rig.context, 1, &wc, &grh, &attr), 0);
	assert_int_equal(attr.is_global, 0);
}

/* They arrive in order, whatever the sizes of the receives' elements; many more than the queue holds. */
static void many(void **state)
{
	struct ends *e = *state;

	for (uint32_t i = 0; i < 10 * RIG_DEPTH; i++) {
		struct ibv_sge list[] = {{(uintptr_t)e->to->addr, 10, e->to->lkey},
					 {(uintptr_t)e->to->addr + 10, 35, e->to->lkey},
					 {(uintptr_t)e->to->addr + 45, MTU, e->to->lkey}};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = list, .num_sge = 3}, *bad;
		uint32_t bytes = i % 7 * 100;

		memset(e->to->addr, 0, ROOM);
		assert_int_equal(ibv_post_recv(e->rig.qp[1], &wr, &bad), 0);
		send_one(e, RIG_QKEY, bytes);
		assert_int_equal(rig_expect(e->rig.cq[1], IBV_WC_SUCCESS, i).byte_len, GRH + bytes);
		assert_memory_equal((char *)e->to->addr + GRH, e->from->addr, bytes);
		assert_int_equal(((char *)e->to->addr)[GRH + bytes], 0);
	}
}

static void full(void **state)
{
	struct ends *e = *state;

	for (uint64_t i = 0; i < RIG_DEPTH; i++)
		assert_int_equal(receive(e, 1, i, ROOM), 0);
	assert_int_equal(receive(e, 1, 0, ROOM), ENOMEM);
	send_one(e, RIG_QKEY, 1);
	assert_int_equal(receive(e, 1, 0, ROOM), ENOMEM);
	rig_expect(e->rig.cq[1], IBV_WC_SUCCESS, 0);
	assert_int_equal(receive(e, 1, RIG_DEPTH, ROOM), 0);
	for (uint64_t i = 1; i <= RIG_DEPTH; i++) {
		send_one(e, RIG_QKEY, 1);
		rig_expect(e->rig.cq[1], IBV_WC_SUCCESS, i);
	}
	rig_none(e->rig.cq[1]);
}

/* ---- What does not arrive ---- */

static void dropped(void **state)
{
	struct ends *e = *state;
	struct ibv_qp *qp = e->rig.qp[1];
	struct ibv_qp_attr attr = {.qkey = 0x80000001};

	send_one(e, RIG_QKEY, BYTES); /* there is no receive */
	assert_int_equal(receive(e, 1, 1, ROOM - 1), 0);
	send_one(e, RIG_QKEY, BYTES); /* too long for the receive */
	send_one(e, RIG_QKEY + 1, 8);
	/* to no queue pair */
	assert_int_equal(send_to(e, e->ah, qp->qp_num ^ 0x40000, RIG_QKEY, 8), 0);
	rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, 7);
	rig_none(e->rig.cq[1]);
	/* the highest bit means the Q_Key of the sender's queue pair, whatever the other bits are (10.2.5) */
	send_one(e, 0x80000123, 8);
	rig_expect(e->rig.cq[1], IBV_WC_SUCCESS, 1);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_QKEY), 0);
	assert_int_equal(receive(e, 1, 2, ROOM), 0);
	send_one(e, 0x80000001, 8);
	rig_none(e->rig.cq[1]);
	assert_int_equal(ibv_modify_qp(e->rig.qp[0], &attr, IBV_QP_QKEY), 0);
	send_one(e, 0x80000123, 8);
	rig_expect(e->rig.cq[1], IBV_WC_SUCCESS, 2);
	rig_modify(qp, IBV_QPS_RESET, 0);
	send_one(e, RIG_QKEY, 8);
	rig_none(e->rig.cq[1]);
	assert_int_equal(rig_state(e->rig.qp[0]), IBV_QPS_RTS);
}

/* What is wrong on the sender's side stops its send queue alone (10.3.1.6). */
static void expect_stopped(struct ends *e, enum ibv_wc_status status)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};

	rig_expect(e->rig.cq[0], status, 7);
	assert_int_equal(rig_state(e->rig.qp[0]), IBV_QPS_SQE);
	assert_int_equal(ibv_modify_qp(e->rig.qp[0], &attr, IBV_QP_STATE), 0);
}

/* A region over all memory, whose key allows an address where nothing is mapped. */
static struct ibv_mr *all_memory(const struct ends *e)
{
	struct ibv_mr *all = ibv_reg_mr(e->rig.pd, NULL, SIZE_MAX,
					IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);

	assert_non_null(all);
	return all;
}

static void wrong_here(void **state)
{
	struct ends *e = *state;
	uint32_t qpn = e->rig.qp[1]->qp_num;
	struct ibv_pd *pd = ibv_alloc_pd(e->rig.context);
	struct ibv_ah *other = handle(pd, 3);
	struct ibv_mr *from = e->from, wrong = *from, *all = all_memory(e);

	assert_int_equal(receive(e, 1, 1, ROOM), 0);
	assert_int_equal(send_to(e, e->ah, qpn, RIG_QKEY, MTU + 1), 0);
	expect_stopped(e, IBV_WC_LOC_LEN_ERR);
	/* an address handle of another domain */
	assert_int_equal(send_to(e, other, qpn, RIG_QKEY, 8), 0);
	expect_stopped(e, IBV_WC_LOC_QP_OP_ERR);
	wrong.lkey ^= 1;
	e->from = &wrong;
	assert_int_equal(send_to(e, e->ah, qpn, RIG_QKEY, 8), 0);
	expect_stopped(e, IBV_WC_LOC_PROT_ERR);
	wrong = (struct ibv_mr){.addr = (void *)8, .lkey = all->lkey};
	assert_int_equal(send_to(e, e->ah, qpn, RIG_QKEY, 8), 0);
	expect_stopped(e, IBV_WC_LOC_PROT_ERR);
	e->from = from;
	assert_int_equal(send_to(e, NULL, qpn, RIG_QKEY, 8), EINVAL);
	for (enum ibv_wr_opcode op = IBV_WR_RDMA_WRITE; op <= IBV_WR_ATOMIC_FETCH_AND_ADD; op++)
		if (op != IBV_WR_SEND && op != IBV_WR_SEND_WITH_IMM)
			assert_int_equal(rig_rdma(e->rig.qp[0], op, 1, from, from->addr, 8, 0, 0),
					 EINVAL);
	rig_none(e->rig.cq[1]);
	send_one(e, RIG_QKEY, 8);
	rig_expect(e->rig.cq[1], IBV_WC_SUCCESS, 1);
	assert_int_equal(ibv_dereg_mr(all), 0);
	assert_int_equal(ibv_destroy_ah(other), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* A wrong receive fails its queue pair. */
static void check_bad_receive(struct ends *e, const struct ibv_mr *wrong, void *at)
{
	assert_int_equal(rig_receive(e->rig.qp[1], 1, wrong, at, ROOM), 0);
	assert_int_equal(receive(e, 1, 2, ROOM), 0);
	send_one(e, RIG_QKEY, 8);
	/* right behind it, when the receiver's process may not have seen the fault yet */
	send_one(e, RIG_QKEY, 8);
	rig_await_state(e->rig.qp[1], IBV_QPS_ERR);
	rig_expect(e->rig.cq[1], IBV_WC_LOC_PROT_ERR, 1);
	rig_expect(e->rig.cq[1], IBV_WC_WR_FLUSH_ERR, 2);
	assert_int_equal(receive(e, 1, 3, ROOM), 0);
	rig_expect(e->rig.cq[1], IBV_WC_WR_FLUSH_ERR, 3);
	rig_event(e->rig.context, IBV_EVENT_QP_FATAL, e->rig.qp[1]);
	rig_modify(e->rig.qp[1], IBV_QPS_RESET, 0);
	rig_modify(e->rig.qp[1], IBV_QPS_RTS, 0);
	assert_int_equal(receive(e, 1, 4, ROOM), 0);
	send_one(e, RIG_QKEY, 8);
	rig_expect(e->rig.cq[1], IBV_WC_SUCCESS, 4);
}

static void bad_receive(void **state)
{
	struct ends *e = *state;
	struct ibv_mr wrong = *e->to, *all = all_memory(e);

	wrong.lkey ^= 1;
	check_bad_receive(e, &wrong, e->to->addr);
	check_bad_receive(e, all, (void *)8);
	assert_int_equal(ibv_dereg_mr(all), 0);
}

/* In ERR receives are flushed; after RESET neither they nor completions are there. */
static void flush(void **state)
{
	struct ends *e = *state;

	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(receive(e, 1, i, ROOM), 0);
	send_one(e, RIG_QKEY, 8);
	rig_modify(e->rig.qp[1], IBV_QPS_ERR, 0);
	rig_expect(e->rig.cq[1], IBV_WC_SUCCESS, 0);
	for (uint64_t i = 1; i < 5; i++)
		rig_expect(e->rig.cq[1], IBV_WC_WR_FLUSH_ERR, i);
	rig_modify(e->rig.qp[1], IBV_QPS_RESET, 0);
	rig_modify(e->rig.qp[1], IBV_QPS_RTS, 0);
	assert_int_equal(receive(e, 1, 6, ROOM), 0);
	send_one(e, RIG_QKEY, 8);
	rig_modify(e->rig.qp[1], IBV_QPS_RESET, 0);
	rig_none(e->rig.cq[1]);
	rig_modify(e->rig.qp[1], IBV_QPS_RTS, 0);
	send_one(e, RIG_QKEY, 8);
	rig_none(e->rig.cq[1]);
	for (uint64_t i = 0; i < RIG_DEPTH; i++)
		assert_int_equal(receive(e, 1, i, ROOM), 0);
}

static void events(void **state)
{
	struct ends *e = *state;
	struct ibv_cq *cq;
	void *context;

	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(receive(e, 1, i, ROOM), 0);
		assert_int_equal(ibv_req_notify_cq(e->rig.cq[1], 0), 0);
		send_one(e, RIG_QKEY, 8);
		assert_int_equal(ibv_get_cq_event(e->rig.channel, &cq, &context), 0);
		assert_ptr_equal(cq, e->rig.cq[1]);
		rig_expect(cq, IBV_WC_SUCCESS, i);
	}
	ibv_ack_cq_events(e->rig.cq[1], 100);
}

/* ---- Multicast ---- */

static void groups(void **state)
{
	struct ends *e = *state;
	struct ibv_ah_attr attr = address(e->rig.context, 3);
	const union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 224, 1, 2, 3}};
	const union ibv_gid other = {.raw = {0xff, 0x0e, [15] = 7}};
	struct ibv_ah *ah;

	RIG_REFUSED(ibv_attach_mcast(NULL, &group, 0));
	RIG_REFUSED(ibv_attach_mcast(e->rig.qp[0], NULL, 0));
	RIG_REFUSED(ibv_attach_mcast(e->rig.qp[0], &attr.grh.dgid, 0)); /* an address of one host */
	RIG_REFUSED(ibv_detach_mcast(e->rig.qp[0], &group, 0));
	memcpy(&attr.grh.dgid, &group, 16);
	ah = ibv_create_ah(e->rig.pd, &attr);
	assert_non_null(ah);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_attach_mcast(e->rig.qp[i], &group, 0), 0);
		/* a second time changes nothing */
		assert_int_equal(ibv_attach_mcast(e->rig.qp[i], &group, 0), 0);
		assert_int_equal(receive(e, i, 1, ROOM), 0);
	}
	assert_int_equal(ibv_attach_mcast(e->rig.qp[1], &other, 0), 0);
	assert_int_equal(ibv_destroy_qp(e->rig.qp[1]), EBUSY);
	assert_int_equal(send_to(e, ah, 0xffffff, RIG_QKEY, BYTES), 0);
	/* each queue pair of the group gets the datagram, the sender too */
	rig_next(e->rig.cq[0]);
	rig_next(e->rig.cq[0]);
	rig_expect(e->rig.cq[1], IBV_WC_SUCCESS, 1);
	rig_none(e->rig.cq[0]);
	rig_none(e->rig.cq[1]);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_detach_mcast(e->rig.qp[i], &group, 0), 0);
		RIG_REFUSED(ibv_detach_mcast(e->rig.qp[i], &group, 0));
		assert_int_equal(receive(e, i, 1, ROOM), 0);
	}
	assert_int_equal(send_to(e, ah, 0xffffff, RIG_QKEY, BYTES), 0);
	rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, 7);
	rig_none(e->rig.cq[1]);
	assert_int_equal(ibv_detach_mcast(e->rig.qp[1], &other, 0), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void too_many_groups(void **state)
{
	struct ends *e = *state;
	union ibv_gid group = {.raw = {0xff, 0x0e}};
	struct ibv_device_attr limits;
	int i;

	assert_int_equal(ibv_query_device(e->rig.context, &limits), 0);
	for (i = 0; i < limits.max_total_mcast_qp_attach; i++) {
		group.raw[15] = (uint8_t)i;
		assert_int_equal(ibv_attach_mcast(e->rig.qp[0], &group, 0), 0);
	}
	group.raw[15] = (uint8_t)i;
	assert_int_equal(ibv_attach_mcast(e->rig.qp[0], &group, 0), ENOMEM);
	while (i--) {
		group.raw[15] = (uint8_t)i;
		assert_int_equal(ibv_detach_mcast(e->rig.qp[0], &group, 0), 0);
	}
}

/* ---- Death ---- */

/* Sends to a queue pair of another process until it is killed. */
static void flood(uint32_t qpn, int ready)
{
	struct ends *e;
	void *state;
	struct ibv_wc wc;

	setup(&state);
	e = state;
	for (uint64_t n = 0;; n++) {
		send_to(e, e->ah, qpn, RIG_QKEY, BYTES);
		ibv_poll_cq(e->rig.cq[0], 1, &wc);
		if (n == 10 && write(ready, "", 1) != 1)
			_exit(1);
	}
}

/* Wherever the sender was killed: all receives complete in the end, with whole messages. */
static void killed_senders(void **state)
{
	uint32_t *qpn = rig_pages(4096);
	struct ends *e;
	int pipes[2];
	char c;

	for (int round = 0; round < 8; round++) {
		uint64_t posted = 0, got = 0;
		struct ibv_wc wc;
		pid_t pid;

		assert_int_equal(pipe(pipes), 0);
		setup(state);
		e = *state;
		*qpn = e->rig.qp[1]->qp_num;
		pid = fork_peer();
		if (!pid)
			flood(*qpn, pipes[1]);
		assert_int_equal(read(pipes[0], &c, 1), 1);
		/* longer each round, so that the kill comes at different places */
		for (uint64_t end = rig_now_ns() + 5000000u * (uint64_t)(round + 1);;) {
			while (posted - got < RIG_DEPTH &&
			       !rig_receive(e->rig.qp[1], posted, e->to, e->to->addr, ROOM))
				posted++;
			while (ibv_poll_cq(e->rig.cq[1], 1, &wc) == 1) {
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
				assert_int_equal(wc.byte_len, ROOM);
				got++;
			}
			if (rig_now_ns() > end)
				break;
		}
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		for (uint64_t end = rig_now_ns() + 10000000000u; got < posted;) {
			assert_true(rig_now_ns() < end);
			send_one(e, RIG_QKEY, BYTES);
			got += (uint64_t)ibv_poll_cq(e->rig.cq[1], 1, &wc);
		}
		teardown(state);
		close(pipes[0]);
		close(pipes[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(handles, setup, teardown),
		cmocka_unit_test_setup_teardown(each_address, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_headers, setup, teardown),
		cmocka_unit_test_setup_teardown(many, setup, teardown),
		cmocka_unit_test_setup_teardown(full, setup, teardown),
		cmocka_unit_test_setup_teardown(dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(wrong_here, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_receive, setup, teardown),
		cmocka_unit_test_setup_teardown(flush, setup, teardown),
		cmocka_unit_test_setup_teardown(events, setup, teardown),
		cmocka_unit_test_setup_teardown(groups, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many_groups, setup, teardown),
		cmocka_unit_test(killed_senders),
	};

	return cmocka_run_group_tests_name("ud", tests, make_pool, remove_pool);
}
