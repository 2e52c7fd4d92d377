/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * WEFT_EXPLAIN: a verb that fails says so in one line, with its errno, the wrong value and the clause of the
 * specification; a verb that succeeds is silent. What requests say is test_errors.c's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rig.h"
#include "told.h"

#include "../abi/pool.h"

static struct rig *rig;
static struct ibv_mr *region;
static uint8_t *memory;

/* A call with one argument that is wrong. Returns 0 or the errno. */
struct call {
	const char *verb, *error;
	int (*call)(void);
	const char *value, *clause;
};

#define CALL(name, expression)                                                                     \
	static int name(void)                                                                      \
	{                                                                                          \
		return expression;                                                                 \
	}
#define OBJECT(name, expression) CALL(name, (expression) ? 0 : errno)

/* ---- Objects ---- */

OBJECT(pd_of_nothing, ibv_alloc_pd(NULL))
CALL(pd_in_use, ibv_dealloc_pd(rig->pd))
CALL(pd_twice, ibv_dealloc_pd((struct ibv_pd *)&rig))
OBJECT(cq_of_none, ibv_create_cq(rig->context, 0, NULL, NULL, 0))
OBJECT(cq_of_vector, ibv_create_cq(rig->context, 1, NULL, NULL, -1))
CALL(cq_in_use, ibv_destroy_cq(rig->cq[0]))
CALL(cq_to_none, ibv_resize_cq(rig->cq[0], 0))
CALL(channel_in_use, ibv_destroy_comp_channel(rig->channel))
OBJECT(mr_of_nothing, ibv_reg_mr(rig->pd, memory, 0, 0))
OBJECT(mr_of_all, ibv_reg_mr(rig->pd, (void *)4096, SIZE_MAX, 0))
OBJECT(mr_beyond, ibv_reg_mr_iova(rig->pd, memory, 4096, -4096ull, 0))
OBJECT(mr_remote_only, ibv_reg_mr(rig->pd, memory, 1, IBV_ACCESS_REMOTE_WRITE))
OBJECT(mr_to_flush, (ibv_reg_mr)(rig->pd, memory, 1, 1 << 8))
OBJECT(mr_unmapped, ibv_reg_mr(rig->pd, (void *)4096, 1, 0))
CALL(mr_of_nobody, ibv_dereg_mr((struct ibv_mr *)&rig))
CALL(rereg_of_nothing, ibv_rereg_mr(region, 0, NULL, NULL, 0, 0) ? errno : 0)
OBJECT(mw_of_type_3, ibv_alloc_mw(rig->pd, 3))
CALL(gid_of_port_2, ibv_query_gid(rig->context, 2, 0, &(union ibv_gid){0}) ? errno : 0)
CALL(pkey_beyond, ibv_query_pkey(rig->context, 1, 7, &(__be16){0}) ? errno : 0)
OBJECT(device_of_nothing, ibv_open_device(NULL))
CALL(advice_of_nothing,
     ibv_advise_mr(rig->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &(struct ibv_sge){0}, 0))
OBJECT(import_no_domain, ibv_import_pd(rig->context, 0))
OBJECT(import_no_region, ibv_import_mr(rig->pd, 0))
OBJECT(import_no_memory, ibv_import_dm(rig->context, 0))

static int ah_without_gid(void)
{
	struct ibv_ah_attr attr = {.port_num = 1};

	return ibv_create_ah(rig->pd, &attr) ? 0 : errno;
}

static int srq_of_none(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_sge = 1}};

	return ibv_create_srq(rig->pd, &init) ? 0 : errno;
}

static int dm_of_nothing(void)
{
	struct ibv_alloc_dm_attr attr = {0};

	return ibv_alloc_dm(rig->context, &attr) ? 0 : errno;
}

static int cq_ex_unknown(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 1, .wc_flags = 1ull << 40};

	return ibv_create_cq_ex(rig->context, &attr) ? 0 : errno;
}

static int group_of_rc(void)
{
	union ibv_gid gid = {.raw = {0xff}};

	return ibv_attach_mcast(rig->qp[0], &gid, 0);
}

/* ---- Queue pairs ---- */

static int create(uint32_t depth, enum ibv_qp_type type, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_send_wr = depth, .max_send_sge = 1},
					.qp_type = type};

	return ibv_create_qp(rig->pd, &init) ? 0 : errno;
}

CALL(qp_too_deep, create(99999, IBV_QPT_RC, rig->cq[0]))
CALL(qp_of_raw_packets, create(1, IBV_QPT_RAW_PACKET, rig->cq[0]))
CALL(qp_without_cq, create(1, IBV_QPT_RC, NULL))

static int modify(enum ibv_qp_state to, int mask, uint8_t port)
{
	struct ibv_qp_attr attr = rig_attr(rig->context, to, 0);

	attr.port_num = port;
	return ibv_modify_qp(rig->qp[0], &attr, mask);
}

CALL(reset_to_rts, modify(IBV_QPS_RTS, IBV_QP_STATE, 1))
CALL(reset_to_nowhere, modify(99, IBV_QP_STATE, 1))
CALL(init_without_port, modify(IBV_QPS_INIT, RIG_INIT_MASK & ~IBV_QP_PORT, 1))
CALL(init_with_path, modify(IBV_QPS_INIT, RIG_INIT_MASK | IBV_QP_AV, 1))
CALL(init_of_port_2, modify(IBV_QPS_INIT, RIG_INIT_MASK, 2))

static int to_migrate(void)
{
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_REARM};
	int answer;

	rig_modify(rig->qp[0], IBV_QPS_RTS, rig->qp[0]->qp_num);
	answer = ibv_modify_qp(rig->qp[0], &attr, IBV_QP_PATH_MIG_STATE);
	rig_modify(rig->qp[0], IBV_QPS_RESET, 0);
	return answer;
}

CALL(send_in_reset, rig_send(rig->qp[0], 1, NULL, NULL, 0))
CALL(receive_in_reset, rig_receive(rig->qp[0], 1, NULL, NULL, 0))

/* ---- The table of calls ---- */

static const struct call calls[] = {
	{"ibv_alloc_pd", "EINVAL", pd_of_nothing, "0x0 is no open context", "IBTA 11.6.1"},
	{"ibv_dealloc_pd", "EBUSY", pd_in_use, "users left: 3; ", "IBTA 11.6.1"},
	{"ibv_dealloc_pd", "EINVAL", pd_twice, "is no protection domain", "IBTA 11.6.1"},
	{"ibv_create_cq", "EINVAL", cq_of_none, "cqe is 0", "IBTA 11.6.1"},
	{"ibv_create_cq", "EINVAL", cq_of_vector, "comp_vector is -1", "IBTA 11.6.1"},
	{"ibv_destroy_cq", "EBUSY", cq_in_use, "users left: 2; ", "IBTA 11.6.1"},
	{"ibv_resize_cq", "EINVAL", cq_to_none, "cqe is 0", "IBTA 10.2.6"},
	{"ibv_destroy_comp_channel", "EBUSY", channel_in_use, "users left: 2; ", "IBTA 11.6.1"},
	{"ibv_reg_mr", "EINVAL", mr_of_nothing, "+0) is no range of memory; ", "IBTA 11.2.8.2"},
	{"ibv_reg_mr", "EINVAL", mr_of_all, "addr: [0x1000, +18446744073709551615) is no range",
	 "IBTA 11.2.8.2"},
	{"ibv_reg_mr", "EINVAL", mr_beyond, "iova: [0xfffffffffffff000, +4096) is no range",
	 "IBTA 11.2.8.2"},
	{"ibv_reg_mr", "EINVAL", mr_remote_only, "access 0x2", "IBTA 11.2.8.2"},
	{"ibv_reg_mr", "EINVAL", mr_to_flush, "no peer can flush memory here", "ibv_reg_mr(3)"},
	{"ibv_reg_mr", "EFAULT", mr_unmapped, "[0x1000, +1)", "IBTA 11.2.8.2"},
	{"ibv_dereg_mr", "EINVAL", mr_of_nobody, "is no memory region", "IBTA 11.6.1"},
	{"ibv_rereg_mr", "EINVAL", rereg_of_nothing, "flags 0x0", "IBTA 11.2.8"},
	{"ibv_alloc_mw", "EINVAL", mw_of_type_3, "type 3", "IBTA 10.6.7.2"},
	{"ibv_query_gid", "EINVAL", gid_of_port_2, "port_num is 2", "IBTA 11.6.1"},
	{"ibv_query_pkey", "EINVAL", pkey_beyond, "index is 7", "IBTA 11.6.1"},
	{"ibv_open_device", "EINVAL", device_of_nothing, "device is 0x0", "IBTA 11.6.1"},
	{"ibv_import_pd", "ENOENT", import_no_domain, "0x0 is of no protection domain",
	 "ibv_import_pd(3)"},
	{"ibv_advise_mr", "EINVAL", advice_of_nothing, "num_sge is 0", "IBTA 11.6.1"},
	{"ibv_import_mr", "ENOENT", import_no_region, "0x0 is of no region", "ibv_import_mr(3)"},
	{"ibv_import_dm", "ENOENT", import_no_memory, "0x0 is of no device memory",
	 "ibv_import_dm(3)"},
	{"ibv_create_ah", "EINVAL", ah_without_gid, "is_global is 0", "IBTA A17.4.1"},
	{"ibv_create_srq", "EINVAL", srq_of_none, "max_wr is 0", "IBTA 11.6.1"},
	{"ibv_alloc_dm", "EINVAL", dm_of_nothing, "length is 0", "IBTA 11.6.1"},
	{"ibv_create_cq_ex", "EOPNOTSUPP", cq_ex_unknown, "wc_flags is 0x10000000000",
	 "IBTA 11.6.1"},
	{"ibv_attach_mcast", "EINVAL", group_of_rc, "byte 0xff", "IBTA 10.5"},
	{"ibv_create_qp", "EINVAL", qp_too_deep, "max_send_wr 99999", "IBTA 11.2.5.1"},
	{"ibv_create_qp", "EOPNOTSUPP", qp_of_raw_packets, "qp_type 8", "IBTA 11.2.5.1"},
	{"ibv_create_qp", "EINVAL", qp_without_cq, "0x0 is no completion queue", "IBTA 11.6.1"},
	{"ibv_modify_qp", "EINVAL", reset_to_rts, "from RESET to RTS", "IBTA 10.3.1"},
	{"ibv_modify_qp", "EINVAL", reset_to_nowhere, "from RESET to no state (99);",
	 "IBTA 10.3.1"},
	{"ibv_modify_qp", "EINVAL", init_without_port, "lacks IBV_QP_PORT", "IBTA 11.2.5.2"},
	{"ibv_modify_qp", "EINVAL", init_with_path, "may not have IBV_QP_AV", "IBTA 11.2.5.2"},
	{"ibv_modify_qp", "EINVAL", init_of_port_2, "port_num is 2", "IBTA 11.2.5.2"},
	{"ibv_modify_qp", "EOPNOTSUPP", to_migrate,
	 "path_mig_state is 1: paths do not migrate here", "IBTA 17.2.8"},
	{"ibv_post_send", "EINVAL", send_in_reset, "is in RESET", "IBTA 10.3.1"},
	{"ibv_post_recv", "EINVAL", receive_in_reset, "is in RESET", "IBTA 10.3.1"},
};

static void each_failure_in_a_line(void **state)
{
	char begin[64], end[64];

	for (size_t i = 0; i < COUNT(calls); i++) {
		const struct call *c = &calls[i];
		const char *words[] = {begin, c->value, end};

		snprintf(begin, sizeof(begin), "weft: %s: %s: ", c->verb, c->error);
		snprintf(end, sizeof(end), "; %s", c->clause);
		told_begin();
		errno = 0;
		assert_string_equal(strerrorname_np(c->call()), c->error);
		told_end();
		if (told_lines(NULL, 0) == 1 && told_lines(words, COUNT(words)) == 1)
			continue;
		told_show();
		fail_msg("not one line with \"%s\" \"%s\" \"%s\"", begin, c->value, end);
	}
}

static void post_into_error(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(rig_send(rig->qp[0], i, NULL, NULL, 0), 0);
		rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, i);
	}
}

/* A program that posts on and on into ERR gets some lines, not one for each request; after a RESET it gets
 * them again. */
static void flushes_are_counted(void **state)
{
	const char *each[] = {"request of wr_id ", "is in ERR"}, *sum[] = {": 256 of its requests"};

	rig_connect(rig, &(struct rig_wish){0});
	for (int round = 0; round < 2; round++) {
		rig_modify(rig->qp[0], IBV_QPS_ERR, 0);
		told_begin();
		post_into_error(500);
		told_end();
		assert_int_equal(told_lines(each, COUNT(each)), 16);
		assert_int_equal(told_lines(sum, COUNT(sum)), 1);
		/* 16 requests in a line each, then a line at 32, 64, 128 and 256 */
		assert_int_equal(told_lines(NULL, 0), 16 + 4);
		rig_modify(rig->qp[0], IBV_QPS_RESET, 0);
		rig_modify(rig->qp[0], IBV_QPS_RTS, rig->qp[1]->qp_num);
	}
}

/* Numbers of elements below 0 are told as the program has given them. */
static void lists_of_minus_one(void **state)
{
	struct ibv_send_wr *bad_send, send = {.num_sge = -1};
	struct ibv_recv_wr *bad_receive, receive = {.num_sge = -1};
	const char *words[] = {"num_sge is -1: it must be from 0 to "};

	rig_connect(rig, &(struct rig_wish){0});
	told_begin();
	assert_int_equal(ibv_post_send(rig->qp[0], &send, &bad_send), EINVAL);
	assert_int_equal(ibv_post_recv(rig->qp[0], &receive, &bad_receive), EINVAL);
	told_end();
	assert_int_equal(told_lines(NULL, 0), 2);
	assert_int_equal(told_lines(words, COUNT(words)), 2);
}

/* A peer of UC does not answer an RC queue pair, although its number is the right one. */
static void another_service(void **state)
{
	struct ibv_qp_init_attr init = rig_init(rig->cq[1], rig->cq[1]);
	const char *words[] = {"is a queue pair of UC, not of RC"};
	struct ibv_qp_attr attr;
	struct ibv_qp *uc;

	init.qp_type = IBV_QPT_UC;
	uc = ibv_create_qp(rig->pd, &init);
	assert_non_null(uc);
	rig_modify(uc, IBV_QPS_RTS, rig->qp[0]->qp_num);
	rig_modify(rig->qp[0], IBV_QPS_RTR, uc->qp_num);
	attr = rig_attr(rig->context, IBV_QPS_RTS, 0);
	attr.timeout = 1;
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, RIG_RTS_MASK), 0);
	told_begin();
	assert_int_equal(rig_send(rig->qp[0], 1, region, memory, 8), 0);
	rig_expect(rig->cq[0], IBV_WC_RETRY_EXC_ERR, 1);
	told_end();
	assert_int_equal(told_lines(words, COUNT(words)), 1);
	assert_int_equal(ibv_destroy_qp(uc), 0);
}

#define SOME_USER 64999

/* RLIMIT_NPROC is reached: the helper, which connections need, cannot be started. */
static void no_thread(void **state)
{
	struct ibv_qp_attr attr = rig_attr(rig->context, IBV_QPS_RTR, rig->qp[1]->qp_num);
	const char *words[] = {"ibv_modify_qp: EAGAIN: no thread can be started",
			       "0 (RLIMIT_NPROC)"};
	bool root = !geteuid();
	struct rlimit before, none;
	int err;

	rig_modify(rig->qp[0], IBV_QPS_INIT, 0);
	assert_int_equal(getrlimit(RLIMIT_NPROC, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NPROC, &none), 0);
	if (root) /* root has no such limit */
		assert_int_equal(setresuid(SOME_USER, SOME_USER, 0), 0);
	told_begin();
	err = ibv_modify_qp(rig->qp[0], &attr, RIG_RTR_MASK);
	told_end();
	if (root)
		assert_int_equal(setresuid(0, 0, 0), 0);
	assert_int_equal(setrlimit(RLIMIT_NPROC, &before), 0);
	assert_int_equal(err, EAGAIN);
	assert_int_equal(told_lines(words, COUNT(words)), 1);
	assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_INIT);
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, RIG_RTR_MASK), 0);
}

static void what_works_is_silent(void **state)
{
	told_begin();
	rig_connect(rig, &(struct rig_wish){0});
	assert_int_equal(rig_receive(rig->qp[1], 2, region, memory, 8), 0);
	assert_int_equal(rig_send(rig->qp[0], 1, region, memory, 8), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 2);
	told_end();
	assert_int_equal(told_lines(NULL, 0), 0);
}

/* Of a list of extended requests one line tells what was wrong first. */
static void lists_tell_the_first(void **state)
{
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC,
					   .send_cq = rig->cq[0],
					   .recv_cq = rig->cq[0],
					   .cap = {.max_send_wr = 4, .max_send_sge = 1},
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = rig->pd,
					   .send_ops_flags = IBV_QP_EX_WITH_SEND};
	struct ibv_qp *qp = ibv_create_qp_ex(rig->context, &init);
	const char *words[] = {"weft: ibv_wr_*: EINVAL: ", "is in RESET", "; IBTA 10.3.1"};
	struct ibv_qp_ex *ex;

	assert_non_null(qp);
	ex = ibv_qp_to_qp_ex(qp);
	told_begin();
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 0, 0, 0);
	ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	told_end();
	assert_int_equal(told_lines(NULL, 0), 1);
	assert_int_equal(told_lines(words, COUNT(words)), 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* The line names the verb that the program has called, not one that shares its code. */
static void unimport_in_use(void **state)
{
	struct ibv_context *context = ibv_import_device(dup(rig->context->cmd_fd));
	struct ibv_pd *pd = context ? ibv_import_pd(context, rig->pd->handle) : NULL;
	const char *words[] = {"weft: ibv_unimport_pd: EBUSY: ", "users left: 1; "};
	struct ibv_mr *mr;

	assert_non_null(pd);
	mr = ibv_reg_mr(pd, memory, 4096, 0);
	assert_non_null(mr);
	told_begin();
	ibv_unimport_pd(pd);
	told_end();
	assert_int_equal(told_lines(NULL, 0), 1);
	assert_int_equal(told_lines(words, COUNT(words)), 1);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

static int setup(void **state)
{
	rig_setup(state);
	rig = *state;
	memory = rig_pages(4096);
	region = ibv_reg_mr(rig->pd, memory, 4096, RIG_ALL);
	assert_non_null(region);
	return 0;
}

static int teardown(void **state)
{
	told_end();
	assert_int_equal(ibv_dereg_mr(region), 0);
	return rig_teardown(state);
}

/* One line, which names the broken one of the rules of 10.6.7.2. */
static void bind_says(struct ibv_mw *mw, struct ibv_mw_bind_info info, const char *rule)
{
	const char *const words[] = {"BIND_MW of wr_id 5", rule, "IBTA 10.6.7.2"};
	struct ibv_send_wr *bad, wr = {.wr_id = 5,
				       .opcode = IBV_WR_BIND_MW,
				       .send_flags = IBV_SEND_SIGNALED,
				       .bind_mw = {mw, ibv_inc_rkey(mw->rkey), info}};

	rig_modify(rig->qp[0], IBV_QPS_RESET, 0);
	rig_modify(rig->qp[0], IBV_QPS_RTS, rig->qp[1]->qp_num);
	told_begin();
	assert_int_equal(ibv_post_send(rig->qp[0], &wr, &bad), 0);
	assert_int_equal(rig_next(rig->cq[0]).status, rule ? IBV_WC_MW_BIND_ERR : IBV_WC_SUCCESS);
	told_end();
	assert_int_equal(told_lines(NULL, 0), rule ? 1 : 0);
	assert_int_equal(told_lines(words, COUNT(words)), rule ? 1 : 0);
}

static void binds(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(rig->context);
	struct ibv_mw *mw = ibv_alloc_mw(rig->pd, IBV_MW_TYPE_2);
	struct ibv_mw *foreign = ibv_alloc_mw(other, IBV_MW_TYPE_2);
	struct ibv_mr *bare = ibv_reg_mr(rig->pd, memory, 4096, IBV_ACCESS_MW_BIND);
	struct ibv_mr *zero =
		ibv_reg_mr(rig->pd, memory, 4096, IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED);
	struct ibv_mw_bind_info good = {bare, (uintptr_t)memory, 8, IBV_ACCESS_REMOTE_READ};
	struct ibv_mw_bind_info bad[] = {good, good, good, good};

	assert_true(other && mw && foreign && bare && zero);
	rig_connect(rig, &(struct rig_wish){0});
	bind_says(foreign, good, "no window of protection domain");
	bad[0].mr = region;
	bind_says(mw, bad[0], "with IBV_ACCESS_MW_BIND");
	bad[1].mr = zero;
	bind_says(mw, bad[1], "no regions of windows");
	bad[2].mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	bind_says(mw, bad[2], "access 0x2: ");
	bad[3].length = 4097;
	bind_says(mw, bad[3], "+4097) of lkey");
	good.length = 0;
	bind_says(mw, good, "of type 2: it cannot be bound to no bytes");
	good.length = 8;
	bind_says(mw, good, NULL);
	bind_says(mw, good, "invalidated before it is bound anew");
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dealloc_mw(foreign), 0);
	assert_int_equal(ibv_dereg_mr(bare), 0);
	assert_int_equal(ibv_dereg_mr(zero), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_failure_in_a_line, setup, teardown),
		cmocka_unit_test_setup_teardown(flushes_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(binds, setup, teardown),
		cmocka_unit_test_setup_teardown(lists_of_minus_one, setup, teardown),
		cmocka_unit_test_setup_teardown(another_service, setup, teardown),
		cmocka_unit_test_setup_teardown(no_thread, setup, teardown),
		cmocka_unit_test_setup_teardown(what_works_is_silent, setup, teardown),
		cmocka_unit_test_setup_teardown(lists_tell_the_first, setup, teardown),
		cmocka_unit_test_setup_teardown(unimport_in_use, setup, teardown),
	};

	setenv("WEFT_EXPLAIN", "1", 1);
	return cmocka_run_group_tests_name("explain", tests, make_pool, remove_pool);
}
