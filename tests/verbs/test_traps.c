/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What real programs rely on, and simple implementations miss: those rows of tests/traps.tsv that no other
 * test covers. */
#include "rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../abi/pool.h"

/* ---- Masks ---- */

/* The masks of ibv_modify_qp that programs use, for INIT, RTR and RTS. */
static const struct {
	enum ibv_qp_type type;
	int mask[3], required[3];
} masks[] = {
	{IBV_QPT_RC, {0x39, 0x129181, 0x12e01}, {0x39, 0x129181, 0x12e01}},
	{IBV_QPT_UC, {0x39, 0x101181, 0x10001}, {0x39, 0x101181, 0x10001}},
	{IBV_QPT_UD, {0x71, 0x1, 0x10001}, {0x71, 0x1, 0x10001}},
	{IBV_QPT_XRC_SEND, {0x39, 0x101181, 0x12e01}, {0x39, 0x101181, 0x12e01}},
	{IBV_QPT_XRC_SEND, {0x39, 0x129181, 0x12e01}, {0x39, 0x101181, 0x12e01}},
	{IBV_QPT_XRC_RECV, {0x39, 0x129181, 0x10201}, {0x39, 0x129181, 0x10201}},
	{IBV_QPT_XRC_RECV, {0x39, 0x129181, 0x12e01}, {0x39, 0x129181, 0x10201}},
};

static struct ibv_qp *make(struct rig *rig, enum ibv_qp_type type, struct ibv_xrcd *domain)
{
	struct ibv_qp_init_attr_ex init = {.send_cq = rig->cq[0],
					   .recv_cq = rig->cq[0],
					   .cap = {4, 4, 1, 1, 0},
					   .qp_type = type,
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = rig->pd};
	struct ibv_qp *qp;

	if (type == IBV_QPT_XRC_RECV)
		init = (struct ibv_qp_init_attr_ex){
			.qp_type = type, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = domain};
	qp = ibv_create_qp_ex(rig->context, &init);
	assert_non_null(qp);
	return qp;
}

/* A transition with the mask succeeds; without any one of the bits that are required it is refused. */
static void move(struct ibv_qp *qp, enum ibv_qp_state to, int mask, int required)
{
	struct ibv_qp_attr attr = rig_attr(qp->context, to, qp->qp_num);

	attr.qkey = RIG_QKEY;
	for (int bit = IBV_QP_CUR_STATE; bit <= IBV_QP_DEST_QPN; bit <<= 1)
		if (required & bit)
			RIG_REFUSED(ibv_modify_qp(qp, &attr, mask & ~bit));
	if (ibv_modify_qp(qp, &attr, mask))
		fail_msg("type %d to state %d with %#x", qp->qp_type, to, (unsigned int)mask);
}

static void masks_of_programs(void **state)
{
	struct rig *rig = *state;
	int fd = memfd_create("domain", MFD_CLOEXEC);
	struct ibv_xrcd_init_attr init = {IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd,
					  O_CREAT};
	struct ibv_xrcd *domain = ibv_open_xrcd(rig->context, &init);

	for (size_t i = 0; i < COUNT(masks); i++) {
		struct ibv_qp *qp = make(rig, masks[i].type, domain);

		for (int k = 0; k < 3; k++)
			move(qp, IBV_QPS_INIT + (enum ibv_qp_state)k, masks[i].mask[k],
			     masks[i].required[k]);
		assert_int_equal(rig_state(qp), IBV_QPS_RTS);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
	assert_int_equal(ibv_close_xrcd(domain), 0);
	close(fd);
}

/* ---- Requests ---- */

static int post_imm(struct ibv_qp *qp, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htonl(0x01020304)},
			   *bad;

	return ibv_post_send(qp, &wr, &bad);
}

/* Messages of no bytes, into a receive without elements. */
static void no_bytes(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE_WITH_IMM};
	struct rig *rig = *state;

	for (size_t i = 0; i < COUNT(opcodes); i++) {
		struct ibv_recv_wr wr = {.wr_id = i}, *bad;
		struct ibv_wc wc;

		assert_int_equal(ibv_post_recv(rig->qp[1], &wr, &bad), 0);
		assert_int_equal(post_imm(rig->qp[0], opcodes[i]), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
		wc = rig_expect(rig->cq[1], IBV_WC_SUCCESS, i);
		assert_int_equal(wc.byte_len, 0);
	}
}

/* The four bytes of immediate data arrive in the order in which they were given. */
static void immediate_data(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE_WITH_IMM};
	struct rig *rig = *state;

	for (size_t i = 0; i < COUNT(opcodes); i++) {
		struct ibv_wc wc;

		assert_int_equal(rig_receive(rig->qp[1], i, NULL, NULL, 0), 0);
		assert_int_equal(post_imm(rig->qp[0], opcodes[i]), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
		wc = rig_expect(rig->cq[1], IBV_WC_SUCCESS, i);
		assert_memory_equal(&wc.imm_data, "\1\2\3\4", 4);
	}
}

/* Packet sequence numbers begin just below 2^24 and wrap to 0. */
static void numbers_wrap(void **state)
{
	struct rig *rig = *state;

	for (int i = 0; i < 2; i++) {
		rig_modify(rig->qp[i], IBV_QPS_INIT, 0);
		for (enum ibv_qp_state s = IBV_QPS_RTR; s <= IBV_QPS_RTS; s++) {
			struct ibv_qp_attr attr = rig_attr(rig->context, s, rig->qp[!i]->qp_num);

			attr.rq_psn = attr.sq_psn = 0xfffffe;
			assert_int_equal(ibv_modify_qp(rig->qp[i], &attr, rig_mask(IBV_QPT_RC, s)),
					 0);
		}
	}
	for (uint64_t n = 0; n < 10; n++) {
		assert_int_equal(rig_receive(rig->qp[n % 2], n, NULL, NULL, 0), 0);
		assert_int_equal(rig_send(rig->qp[!(n % 2)], n, NULL, NULL, 0), 0);
		rig_expect(rig->cq[n % 2], IBV_WC_SUCCESS, n);
		rig_expect(rig->cq[!(n % 2)], IBV_WC_SUCCESS, n);
	}
}

/* A queue pair that is connected to itself. NCCL READs by one, so that all that was written before is
 * visible. */
static void to_itself(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = rig_region(rig->pd, 4096);
	char *at = mr->addr;

	rig_modify(rig->qp[0], IBV_QPS_RTS, rig->qp[0]->qp_num);
	strcpy(at, "flush");
	assert_int_equal(
		rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE, 1, mr, at, 6, (uintptr_t)at + 64, mr->rkey),
		0);
	assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_RDMA_READ, 2, mr, at + 128, 6,
				  (uintptr_t)at + 64, mr->rkey),
			 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 2);
	assert_string_equal(at + 128, "flush");
	rig_region_end(mr);
}

/* ---- Completions ---- */

static void expect_whose(struct ibv_cq *cq, const struct ibv_qp *qp, enum ibv_wc_status status,
			 uint64_t id)
{
	struct ibv_wc wc;

	memset(&wc, 0xa5, sizeof(wc));
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.qp_num, qp->qp_num);
	assert_int_not_equal(wc.vendor_err, 0xa5a5a5a5);
}

/* Of a completion in error only these fields are valid, and programs use them. */
static void fields_of_errors(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_receive(rig->qp[0], 3, NULL, NULL, 0), 0);
	assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_ATOMIC_FETCH_AND_ADD, 1, NULL, NULL, 0, 1, 1),
			 0);
	assert_int_equal(rig_send(rig->qp[0], 2, NULL, NULL, 0), 0);
	expect_whose(rig->cq[0], rig->qp[0], IBV_WC_LOC_LEN_ERR, 1);
	rig_await_state(rig->qp[0], IBV_QPS_ERR);
	/* sends are flushed in their order and receives in theirs, but the two in any order */
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = rig_next(rig->cq[0]);

		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_true(wc.wr_id == 2 || wc.wr_id == 3);
		assert_int_equal(wc.qp_num, rig->qp[0]->qp_num);
	}
}

/* Also the readers of fields that were not asked for can be called: pyverbs calls all. */
static void every_reader(void **state)
{
	struct rig *rig = *state;
	struct ibv_cq_ex *cq =
		ibv_create_cq_ex(rig->context, &(struct ibv_cq_init_attr_ex){.cqe = 4});

	assert_non_null(cq);
	assert_true(cq->start_poll && cq->next_poll && cq->end_poll && cq->read_opcode &&
		    cq->read_vendor_err && cq->read_byte_len && cq->read_imm_data &&
		    cq->read_qp_num && cq->read_src_qp && cq->read_wc_flags && cq->read_slid &&
		    cq->read_sl && cq->read_dlid_path_bits && cq->read_completion_ts &&
		    cq->read_cvlan && cq->read_flow_tag && cq->read_tm_info &&
		    cq->read_completion_wallclock_ns);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(masks_of_programs, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(no_bytes, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(immediate_data, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(numbers_wrap, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(to_itself, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(fields_of_errors, rig_setup_connected,
						rig_teardown),
		cmocka_unit_test_setup_teardown(every_reader, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("traps", tests, make_pool, remove_pool);
}
