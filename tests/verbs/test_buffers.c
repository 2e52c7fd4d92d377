/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What rdma-core's newer releases have for regions: buffers that the device allocates, parent domains for
 * confidential guests, one verb that registers memory of all sorts. Also null regions, which outlive their
 * domain.
 */
#include "rig.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../abi/pool.h"

#define PAGE 4096

/* As the headers of rdma-core 65 define them. */
enum {
	IOVA = 1,
	ADDR = 2,
	FD = 4,
	FD_OFFSET = 8,
	DMAH = 16,
	BUF = 32,
	ALLOW_CC_UNPROTECTED_ALLOC = 4,
};

struct ibv_buf;
struct ibv_mr_init_attr_65 {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct ibv_buf *buf;
};

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr_65 *attr);

static void refused(const void *object, int err)
{
	assert_null(object);
	assert_int_equal(errno, err);
	errno = 0;
}

/* A region works: its first byte is written to its second, with its lkey and its rkey. */
static void used(struct rig *rig, struct ibv_mr *mr, uint8_t *at, uint64_t iova)
{
	struct ibv_sge sge = {iova, 1, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = iova + 1;
	wr.wr.rdma.rkey = mr->rkey;
	at[0] = 7;
	at[1] = 0;
	assert_int_equal(ibv_post_send(rig->qp[0], &wr, &bad), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
	assert_int_equal(at[1], 7);
}

static void domains_of_buffers(void **state)
{
	struct rig *rig = *state;
	struct ibv_parent_domain_init_attr init = {.pd = rig->pd,
						   .comp_mask = ALLOW_CC_UNPROTECTED_ALLOC};
	struct ibv_pd *parent = ibv_alloc_parent_domain(rig->context, &init),
		      *other = ibv_alloc_pd(rig->context);
	struct ibv_pd *pds[] = {rig->pd, parent, other};

	assert_non_null(parent);
	for (size_t i = 0; i < COUNT(pds); i++) {
		struct ibv_buf *buf;
		uint8_t *at = ibv_alloc_buf(pds[i], 2 * PAGE, &buf);
		struct ibv_mr *mr;

		for (size_t k = 0; k < COUNT(pds); k++) {
			struct ibv_mr_init_attr_65 attr = {.length = PAGE,
							   .access = RIG_ALL,
							   .comp_mask = ADDR | BUF,
							   .addr = at + PAGE,
							   .buf = buf};

			mr = ibv_reg_buf_mr(pds[k], buf, at, PAGE, RIG_ALL);
			if (i != k) {
				refused(mr, EINVAL);
				refused(ibv_reg_mr_ex(pds[k], &attr), EINVAL);
				continue;
			}
			assert_non_null(mr);
			/* the queue pairs are of the first domain */
			if (pds[k] != other)
				used(rig, mr, at, (uintptr_t)at);
			assert_int_equal(ibv_dereg_mr(mr), 0);
			mr = ibv_reg_mr_ex(pds[k], &attr);
			assert_non_null(mr);
			assert_ptr_equal(mr->addr, at + PAGE);
			if (pds[k] != other)
				used(rig, mr, at + PAGE, (uintptr_t)at + PAGE);
			assert_int_equal(ibv_dereg_mr(mr), 0);
		}
		/* a buffer has no descriptor that other devices could register */
		assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
		assert_int_equal(errno, ENODATA);
		ibv_free_buf(buf);
		assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
		assert_int_equal(errno, EINVAL);
	}
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	init.comp_mask = ALLOW_CC_UNPROTECTED_ALLOC << 1;
	refused(ibv_alloc_parent_domain(rig->context, &init), EINVAL);
}

/* ---- Memory of all sorts by one verb ---- */

static const struct {
	const char *name;
	uint64_t mask;
	int err;
} masks[] = {
	{"memory", ADDR, 0},
	{"memory, seen elsewhere", ADDR | IOVA, 0},
	{"a descriptor", FD | IOVA, 0},
	{"a descriptor, seen from 0", FD, 0},
	{"a descriptor, from within", FD | FD_OFFSET | IOVA, 0},
	{"a buffer", BUF | ADDR, 0},
	{"a buffer, seen elsewhere", BUF | ADDR | IOVA, 0},
	{"nothing", 0, EINVAL},
	{"an address of nothing", IOVA, EINVAL},
	{"both memory and a descriptor", ADDR | FD, EINVAL},
	{"an offset in memory", ADDR | FD_OFFSET, EINVAL},
	{"a buffer without its part", BUF, EINVAL},
	{"a buffer and a descriptor", BUF | FD, EINVAL},
	{"a buffer, memory and a descriptor", BUF | ADDR | FD, EINVAL},
	{"hints", ADDR | DMAH, EOPNOTSUPP},
	{"something later", ADDR | 64, EOPNOTSUPP},
	{"something much later", ADDR | 1ull << 63, EOPNOTSUPP},
};

static void every_mask(void **state)
{
	struct rig *rig = *state;
	int fd = memfd_create("region", 0);
	struct ibv_mr_init_attr_65 attr = {
		.length = PAGE, .access = RIG_ALL, .iova = 5 * PAGE, .fd = fd, .fd_offset = PAGE};
	uint8_t *memory = rig_pages(PAGE), *file,
		*in_buffer = ibv_alloc_buf(rig->pd, PAGE, &attr.buf);

	assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
	file = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (size_t i = 0; i < COUNT(masks); i++) {
		uint64_t mask = attr.comp_mask = masks[i].mask;
		uint8_t *at = mask & BUF    ? in_buffer
			      : mask & ADDR ? memory
					    : file + (mask & FD_OFFSET ? PAGE : 0);
		struct ibv_mr *mr;
		int err;

		attr.addr = mask & BUF ? in_buffer : memory;
		mr = ibv_reg_mr_ex(rig->pd, &attr);
		err = mr ? 0 : errno;
		if (err != masks[i].err)
			fail_msg("%s: errno %d, not %d", masks[i].name, err, masks[i].err);
		if (!mr)
			continue;
		used(rig, mr, at, mask & IOVA ? attr.iova : mask & ADDR ? (uintptr_t)at : 0);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	errno = 0;
	refused(ibv_reg_mr_ex(rig->pd, NULL), EINVAL);
	attr.comp_mask = ADDR;
	refused(ibv_reg_mr_ex(NULL, &attr), EINVAL);
	attr.comp_mask = ADDR | BUF;
	attr.length = PAGE + 1; /* one byte more than the buffer has */
	refused(ibv_reg_mr_ex(rig->pd, &attr), EINVAL);
	attr.access = 1 << 10;
	attr.comp_mask = ADDR;
	refused(ibv_reg_mr_ex(rig->pd, &attr), EINVAL);
	ibv_free_buf(attr.buf);
	munmap(file, 2 * PAGE);
	munmap(memory, PAGE);
	close(fd);
}

/* ---- Null regions ---- */

/* perftest deallocates the domain before the null region in it. */
static void null_regions(void **state)
{
	struct rig *rig = *state;
	struct ibv_pd *pd = ibv_alloc_pd(rig->context);
	struct ibv_mr *before = ibv_alloc_null_mr(pd), *mr = rig_region(pd, PAGE);

	assert_non_null(before);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	rig_region_end(mr);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	pd = ibv_alloc_pd(rig->context);
	assert_int_equal(ibv_dereg_mr(before), 0);
	RIG_REFUSED(ibv_dereg_mr(before));
	/* a null region that is left ends with its context */
	before = ibv_alloc_null_mr(pd);
	assert_non_null(before);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(domains_of_buffers, rig_setup_connected,
						rig_teardown),
		cmocka_unit_test_setup_teardown(every_mask, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(null_regions, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("buffers", tests, make_pool, remove_pool);
}
