/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What cards do with access flags, and with `state` of struct ibv_qp: programs are written for both. A queue
 * pair takes each flag that is defined, and heeds only the rights of peers; a region refuses flags that are
 * neither optional nor supported.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../abi/pool.h"

#define PAGE  4096
#define LOCAL IBV_ACCESS_LOCAL_WRITE

static struct rig *rig;
static struct ibv_dm *memory;
static uint8_t *page;
static int file;

/* ---- Flags ---- */

/* These return 0 or an errno. */
static int object(struct ibv_mr *mr)
{
	int err = mr ? 0 : errno;

	if (mr)
		assert_int_equal(ibv_dereg_mr(mr), 0);
	return err;
}

static int reg_mr(unsigned int access)
{
	return object((ibv_reg_mr)(rig->pd, page, PAGE, (int)access));
}

static int reg_mr_iova(unsigned int access)
{
	return object(ibv_reg_mr_iova2(rig->pd, page, PAGE, PAGE, access));
}

static int rereg_mr(unsigned int access)
{
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, page, PAGE, LOCAL);
	int err = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, (int)access) ? errno
											   : 0;

	assert_int_equal(ibv_dereg_mr(mr), 0);
	return err;
}

static int reg_dmabuf_mr(unsigned int access)
{
	return object(ibv_reg_dmabuf_mr(rig->pd, 0, PAGE, 0, file, (int)access));
}

static int reg_dm_mr(unsigned int access)
{
	return object(ibv_reg_dm_mr(rig->pd, memory, 0, PAGE, access | IBV_ACCESS_ZERO_BASED));
}

static int modify_qp(unsigned int access)
{
	struct ibv_qp_attr attr = rig_attr(rig->context, IBV_QPS_INIT, 0);
	struct ibv_qp_init_attr init;
	int err;

	attr.qp_access_flags = access;
	err = ibv_modify_qp(rig->qp[0], &attr, RIG_INIT_MASK);
	assert_int_equal(ibv_query_qp(rig->qp[0], &attr, IBV_QP_ACCESS_FLAGS, &init), 0);
	assert_int_equal(attr.qp_access_flags, err ? 0 : access);
	rig_modify(rig->qp[0], IBV_QPS_RESET, 0);
	return err;
}

static const struct {
	const char *name;
	int (*call)(unsigned int access);
} verbs[] = {
	{"ibv_reg_mr", reg_mr},	      {"ibv_reg_mr_iova2", reg_mr_iova},
	{"ibv_rereg_mr", rereg_mr},   {"ibv_reg_dmabuf_mr", reg_dmabuf_mr},
	{"ibv_reg_dm_mr", reg_dm_mr}, {"ibv_modify_qp", modify_qp},
};

enum outcome {
	TAKEN,
	QUEUE_PAIRS, /* taken by queue pairs, refused for regions */
	REFUSED,
};

static const struct {
	const char *name;
	unsigned int access;
	enum outcome outcome;
} flags[] = {
	{"none", 0, TAKEN},
	{"LOCAL_WRITE", LOCAL, TAKEN},
	{"REMOTE_WRITE", LOCAL | IBV_ACCESS_REMOTE_WRITE, TAKEN},
	{"REMOTE_READ", IBV_ACCESS_REMOTE_READ, TAKEN},
	{"REMOTE_ATOMIC", LOCAL | IBV_ACCESS_REMOTE_ATOMIC, TAKEN},
	{"REMOTE_WRITE alone", IBV_ACCESS_REMOTE_WRITE, QUEUE_PAIRS},
	{"REMOTE_ATOMIC alone", IBV_ACCESS_REMOTE_ATOMIC, QUEUE_PAIRS},
	{"MW_BIND", IBV_ACCESS_MW_BIND, TAKEN},
	{"ZERO_BASED", IBV_ACCESS_ZERO_BASED, TAKEN},
	{"ON_DEMAND", IBV_ACCESS_ON_DEMAND, TAKEN},
	{"HUGETLB", IBV_ACCESS_HUGETLB, TAKEN},
	{"FLUSH_GLOBAL", 1u << 8, QUEUE_PAIRS},
	{"FLUSH_PERSISTENT", 1u << 9, QUEUE_PAIRS},
	{"both of these, and all rights", 1u << 8 | 1u << 9 | RIG_ALL, QUEUE_PAIRS},
	{"the first without a meaning", 1u << 10, REFUSED},
	{"the last without a meaning", 1u << 19, REFUSED},
	{"RELAXED_ORDERING", IBV_ACCESS_RELAXED_ORDERING, TAKEN},
	{"RELAXED_ORDERING, and all rights", IBV_ACCESS_RELAXED_ORDERING | RIG_ALL, TAKEN},
	{"the second optional one", 1u << 21, TAKEN},
	{"the last optional one", 1u << 29, TAKEN},
	{"behind those", 1u << 30, REFUSED},
	{"the last bit", 1u << 31, REFUSED},
};

static void every_flag(void **state)
{
	rig = *state;
	memory = ibv_alloc_dm(rig->context, &(struct ibv_alloc_dm_attr){.length = PAGE});
	page = rig_pages(PAGE);
	file = memfd_create("page", 0);
	assert_non_null(memory);
	assert_int_equal(ftruncate(file, PAGE), 0);
	for (size_t v = 0; v < COUNT(verbs); v++) {
		enum outcome worst = verbs[v].call == modify_qp ? QUEUE_PAIRS : TAKEN;

		for (size_t f = 0; f < COUNT(flags); f++) {
			int want = flags[f].outcome > worst ? EINVAL : 0;
			int err = verbs[v].call(flags[f].access);

			if (err != want)
				fail_msg("%s with %s: errno %d, not %d", verbs[v].name,
					 flags[f].name, err, want);
		}
	}
	close(file);
	munmap(page, PAGE);
	assert_int_equal(ibv_free_dm(memory), 0);
}

/* Flags that are no rights of peers take no right away and give none. */
static void rights_beside_others(void **state)
{
	struct rig *r = *state;
	struct rig_wish wish = {.access = 1u << 8 | IBV_ACCESS_RELAXED_ORDERING |
					  IBV_ACCESS_REMOTE_WRITE};
	struct ibv_mr *mr;

	rig_connect(r, &wish);
	mr = rig_region(r->pd, PAGE);
	assert_int_equal(rig_rdma(r->qp[0], IBV_WR_RDMA_WRITE, 1, mr, mr->addr, 8,
				  (uintptr_t)mr->addr, mr->rkey),
			 0);
	rig_expect(r->cq[0], IBV_WC_SUCCESS, 1);
	assert_int_equal(rig_rdma(r->qp[0], IBV_WR_RDMA_READ, 2, mr, mr->addr, 8,
				  (uintptr_t)mr->addr, mr->rkey),
			 0);
	rig_expect(r->cq[0], IBV_WC_REM_INV_REQ_ERR, 2);
	rig_region_end(mr);
}

/* ---- The state in the handle ---- */

static int query(struct ibv_qp *qp, int mask)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(qp, &attr, mask, &init);
}

/* The handle's `state` is what the program was told last. */
static void state_told(void **state)
{
	struct rig *r = *state;
	struct ibv_qp *qp = r->qp[0];
	struct ibv_qp_attr attr = rig_attr(r->context, IBV_QPS_RTS, 0);

	qp->state = IBV_QPS_UNKNOWN; /* any write to it would be seen */
	assert_int_equal(query(qp, IBV_QP_CAP | IBV_QP_QKEY), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
	RIG_REFUSED(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU));
	attr.qp_state = IBV_QPS_INIT;
	RIG_REFUSED(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	RIG_REFUSED(ibv_query_qp(qp, &attr, IBV_QP_STATE, NULL));
	assert_int_equal(qp->state, IBV_QPS_UNKNOWN);
	assert_int_equal(query(qp, IBV_QP_STATE), 0);
	assert_int_equal(qp->state, IBV_QPS_RTS);
	attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(qp->state, IBV_QPS_ERR);
}

/* A queue pair that fails by itself keeps its handle's `state`, as its program was not told. */
static void fails_in_silence(void **state)
{
	struct rig *r = *state;
	struct ibv_mr *mr = rig_region(r->pd, PAGE);

	assert_int_equal(
		rig_rdma(r->qp[0], IBV_WR_RDMA_WRITE, 1, mr, mr->addr, 8, (uintptr_t)mr->addr, 0),
		0);
	rig_expect(r->cq[0], IBV_WC_REM_ACCESS_ERR, 1);
	assert_int_equal(query(r->qp[0], 0), 0);
	assert_int_equal(r->qp[0]->state, IBV_QPS_RTS);
	assert_int_equal(query(r->qp[0], IBV_QP_STATE), 0);
	assert_int_equal(r->qp[0]->state, IBV_QPS_ERR);
	rig_region_end(mr);
}

/* One queue pair has two handles, as those of two processes: each has the state that was asked or set by
 * itself. */
static void handles(void **state)
{
	struct rig *r = *state;
	struct ibv_xrcd_init_attr attr = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	struct ibv_xrcd *domain = ibv_open_xrcd(r->context, &attr);
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = domain};
	struct ibv_qp *made = ibv_create_qp_ex(r->context, &init);
	struct ibv_qp_open_attr open = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						     IBV_QP_OPEN_ATTR_TYPE,
					.qp_num = made->qp_num,
					.xrcd = domain,
					.qp_type = IBV_QPT_XRC_RECV};
	struct ibv_qp *other = ibv_open_qp(r->context, &open);
	struct ibv_qp_attr to = rig_attr(r->context, IBV_QPS_INIT, 0);

	assert_non_null(other);
	assert_int_equal(ibv_modify_qp(made, &to, RIG_INIT_MASK), 0);
	assert_int_equal(made->state, IBV_QPS_INIT);
	assert_int_equal(query(other, 0), 0);
	assert_int_equal(other->state, IBV_QPS_RESET);
	assert_int_equal(query(other, IBV_QP_STATE), 0);
	assert_int_equal(other->state, IBV_QPS_INIT);
	assert_int_equal(ibv_destroy_qp(other), 0);
	assert_int_equal(ibv_destroy_qp(made), 0);
	assert_int_equal(ibv_close_xrcd(domain), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_flag, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(rights_beside_others, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(state_told, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(fails_in_silence, rig_setup_connected,
						rig_teardown),
		cmocka_unit_test_setup_teardown(handles, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("flags", tests, make_pool, remove_pool);
}
