/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Regions over something else than a program's own buffers: on demand over all memory, null regions, device
 * memory, descriptors, buffers of the device, and imported regions. */
#include "rig.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../abi/pool.h"

#define PAGE 4096u

struct ibv_buf;
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

static void expect_null(const void *object, int err)
{
	assert_null(object);
	assert_int_equal(errno, err);
	errno = 0;
}

static void rdma(struct rig *rig, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, void *at,
		 uint32_t len, uint64_t remote, uint32_t rkey)
{
	assert_int_equal(rig_rdma(rig->qp[0], opcode, 1, mr, at, len, remote, rkey), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
}

/* ---- On demand ---- */

static void implicit(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *all = ibv_reg_mr(rig->pd, NULL, SIZE_MAX, RIG_ALL | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *mr = rig_region(rig->pd, PAGE);
	uint8_t here[300], *later = rig_pages(2 * PAGE);
	uint32_t rkey;

	assert_non_null(all);
	rkey = all->rkey;
	memset(here, 7, sizeof(here));
	/* from the stack, into memory that was mapped after the region was made, and into memory of another
	 * region */
	rdma(rig, IBV_WR_RDMA_WRITE, all, here, sizeof(here), (uintptr_t)later + 100, all->rkey);
	assert_memory_equal(later + 100, here, sizeof(here));
	rdma(rig, IBV_WR_RDMA_WRITE, all, here, 100, (uintptr_t)mr->addr, all->rkey);
	assert_memory_equal(mr->addr, here, 100);
	memset(here, 0, sizeof(here));
	rdma(rig, IBV_WR_RDMA_READ, all, here, 300, (uintptr_t)later + 100, all->rkey);
	assert_int_equal(here[299], 7);
	assert_int_equal(ibv_rereg_mr(all, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_dereg_mr(all), 0);
	assert_int_equal(
		rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE, 2, mr, mr->addr, 8, (uintptr_t)later, rkey),
		0);
	rig_expect(rig->cq[0], IBV_WC_REM_ACCESS_ERR, 2);
	rig_region_end(mr);
	/* without IBV_ACCESS_ON_DEMAND this is no valid range */
	expect_null(ibv_reg_mr(rig->pd, NULL, SIZE_MAX, RIG_ALL), EINVAL);
	munmap(later, 2 * PAGE);
}

/* What is mapped at the time of a request counts, for requests of the owner and of others. */
static void follows(void **state)
{
	struct rig *rig = *state;
	uint8_t *at = rig_pages(2 * PAGE);
	struct ibv_mr *mr = rig_region(rig->pd, 2 * PAGE);
	struct ibv_mr *odp = ibv_reg_mr(rig->pd, at, 2 * PAGE, RIG_ALL | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *over = ibv_reg_mr(rig->pd, at, 2 * PAGE, RIG_ALL);

	assert_non_null(odp);
	assert_non_null(over);
	for (uint8_t turn = 1; turn < 4; turn++) {
		assert_true(mmap(at, 2 * PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
		memset(at, turn, PAGE);
		rdma(rig, IBV_WR_RDMA_WRITE, odp, at, PAGE, (uintptr_t)mr->addr, mr->rkey);
		rdma(rig, IBV_WR_RDMA_WRITE, mr, mr->addr, PAGE, (uintptr_t)at + PAGE, odp->rkey);
		assert_memory_equal(at, at + PAGE, PAGE);
		/* the region is at both ends of the request */
		rdma(rig, IBV_WR_RDMA_READ, odp, at + 1, PAGE - 1, (uintptr_t)at + PAGE, odp->rkey);
		assert_int_equal(at[PAGE - 1], turn);
	}
	assert_int_equal(ibv_dereg_mr(odp), 0);
	assert_int_equal(ibv_dereg_mr(over), 0);
	rig_region_end(mr);
	munmap(at, 2 * PAGE);
}

/* A region over all memory allows an address where nothing is mapped: the side whose address that is, is at
 * fault. */
static void holes(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *all = ibv_reg_mr(rig->pd, NULL, SIZE_MAX, RIG_ALL | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *mr = rig_region(rig->pd, PAGE);
	const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
					      IBV_WR_ATOMIC_FETCH_AND_ADD};
	uint8_t *hole = rig_pages(2 * PAGE);

	assert_non_null(all);
	munmap(hole + PAGE, PAGE);
	/* the last mapped bytes, and some behind them */
	for (unsigned int i = 0; i < COUNT(opcodes); i++)
		for (int remote = 0; remote < 2; remote++) {
			uint8_t *here = remote ? mr->addr : hole + PAGE - (i < 2 ? 3 : 0);
			uint8_t *there = remote ? hole + PAGE - (i < 2 ? 3 : 0) : mr->addr;

			rig_reconnect(rig, &(struct rig_wish){0});
			assert_int_equal(rig_rdma(rig->qp[0], opcodes[i], i, remote ? mr : all,
						  here, 8, (uintptr_t)there,
						  remote ? all->rkey : mr->rkey),
					 0);
			rig_expect(rig->cq[0], remote ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_PROT_ERR, i);
			assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_ERR);
		}
	rig_reconnect(rig, &(struct rig_wish){0});
	assert_int_equal(rig_receive(rig->qp[1], 7, mr, mr->addr, 8), 0);
	assert_int_equal(rig_send(rig->qp[0], 8, all, hole + PAGE, 8), 0);
	rig_expect(rig->cq[0], IBV_WC_LOC_PROT_ERR, 8);
	rig_reconnect(rig, &(struct rig_wish){0});
	assert_int_equal(rig_receive(rig->qp[1], 7, all, hole + PAGE, 8), 0);
	assert_int_equal(rig_send(rig->qp[0], 8, mr, mr->addr, 8), 0);
	rig_expect(rig->cq[0], IBV_WC_REM_OP_ERR, 8);
	rig_expect(rig->cq[1], IBV_WC_LOC_PROT_ERR, 7);
	/* once something is mapped there again, it is used */
	rig_reconnect(rig, &(struct rig_wish){0});
	rdma(rig, IBV_WR_RDMA_READ, all, hole, 8, (uintptr_t)mr->addr, mr->rkey);
	assert_int_equal(ibv_dereg_mr(all), 0);
	rig_region_end(mr);
	munmap(hole, PAGE);
}

static void null_region(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *none = ibv_alloc_null_mr(rig->pd);
	struct ibv_mr *mr = rig_region(rig->pd, 16 * PAGE);
	struct ibv_sge list[3] = {{(uintptr_t)mr->addr, 10, mr->lkey},
				  {0x1234567, 3 * PAGE, none->lkey},
				  {(uintptr_t)mr->addr + 10, 10, mr->lkey}};
	struct ibv_send_wr wr = {.sg_list = list,
				 .num_sge = 3,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint8_t *to = (uint8_t *)mr->addr + 8 * PAGE;

	memset(mr->addr, 9, 16 * PAGE);
	wr.wr.rdma.remote_addr = (uintptr_t)to;
	wr.wr.rdma.rkey = mr->rkey;
	/* a null region reads as zeros, also after it was written to */
	rdma(rig, IBV_WR_RDMA_READ, none, NULL, 4 * PAGE, (uintptr_t)mr->addr, mr->rkey);
	assert_int_equal(ibv_post_send(rig->qp[0], &wr, &bad), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 0);
	for (unsigned int i = 0; i < 3 * PAGE + 21; i++)
		assert_int_equal(to[i], i < 10 || i >= 3 * PAGE + 10 ? 9 : 0);
	/* and a SEND into it completes with its full length */
	assert_int_equal(rig_receive(rig->qp[1], 5, none, (void *)8, 8 * PAGE), 0);
	assert_int_equal(rig_send(rig->qp[0], 6, mr, mr->addr, 5 * PAGE), 0);
	assert_int_equal(rig_expect(rig->cq[1], IBV_WC_SUCCESS, 5).byte_len, 5 * PAGE);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 6);
	/* a peer cannot reach a null region */
	assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE, 2, mr, mr->addr, 8, 0, none->rkey),
			 0);
	rig_expect(rig->cq[0], IBV_WC_REM_ACCESS_ERR, 2);
	assert_int_equal(ibv_dereg_mr(none), 0);
	RIG_REFUSED(ibv_dereg_mr(none));
	errno = 0;
	expect_null(verbs_get_ctx(rig->context)->alloc_null_mr(NULL), EINVAL);
	rig_region_end(mr);
}

static int advise(struct ibv_pd *pd, unsigned int advice, uint32_t flags, uint64_t addr,
		  uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = {addr, length, lkey};

	return ibv_advise_mr(pd, advice, flags, &sge, 1);
}

static void advice(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = rig_region(rig->pd, 4 * PAGE);
	struct ibv_mr *all = ibv_reg_mr(rig->pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND);
	struct ibv_pd *other = ibv_alloc_pd(rig->context);
	uint64_t at = (uintptr_t)mr->addr;
	uint8_t *hole = rig_pages(PAGE), in;
	int flush = IBV_ADVISE_MR_FLAG_FLUSH;

	munmap(hole, PAGE);
	for (unsigned int a = 0; a < 3; a++)
		assert_int_equal(advise(rig->pd, a, a ? flush : 0, at + 5, 2 * PAGE, mr->lkey), 0);
	assert_int_equal(advise(rig->pd, 9, 0, at, 1, mr->lkey), EOPNOTSUPP);
	assert_int_equal(advise(rig->pd, 0, 1 << 6, at, 1, mr->lkey), EINVAL);
	assert_int_equal(ibv_advise_mr(rig->pd, 0, 0, NULL, 0), EINVAL);
	assert_int_equal(advise(rig->pd, 0, 0, at, 1, mr->lkey ^ 1), ENOENT);
	assert_int_equal(advise(other, 0, 0, at, 1, mr->lkey), EPERM);
	/* advice to prefetch for writing, for memory that may not be written */
	assert_int_equal(advise(rig->pd, 1, 0, at, 1, all->lkey), EPERM);
	assert_int_equal(advise(rig->pd, 0, 0, at + 4 * PAGE, 1, mr->lkey), EFAULT);
	assert_int_equal(advise(rig->pd, 0, 0, (uintptr_t)hole, PAGE, all->lkey), EFAULT);
	/* after the advice the page is there */
	hole = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(mincore(hole, PAGE, &in), 0);
	assert_int_equal(in & 1, 0);
	assert_int_equal(advise(rig->pd, 0, 0, (uintptr_t)hole, PAGE, all->lkey), 0);
	assert_int_equal(mincore(hole, PAGE, &in), 0);
	assert_int_equal(in & 1, 1);
	munmap(hole, PAGE);
	assert_int_equal(ibv_dereg_mr(all), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	rig_region_end(mr);
}

/* ---- Device memory ---- */

static void device_memory(void **state)
{
	struct rig *rig = *state;
	struct ibv_alloc_dm_attr attr = {.length = 10000};
	struct ibv_dm *dm = ibv_alloc_dm(rig->context, &attr);
	struct ibv_mr *mr = rig_region(rig->pd, PAGE), *dm_mr;
	uint8_t back[256];

	assert_non_null(dm);
	memset(mr->addr, 3, PAGE);
	dm_mr = ibv_reg_dm_mr(rig->pd, dm, 1000, 9000, RIG_ALL | IBV_ACCESS_ZERO_BASED);
	assert_non_null(dm_mr);
	rdma(rig, IBV_WR_RDMA_WRITE, mr, mr->addr, 256, 8, dm_mr->rkey);
	assert_int_equal(ibv_memcpy_from_dm(back, dm, 1008, 256), 0);
	assert_memory_equal(back, mr->addr, 256);
	memset(back, 4, sizeof(back));
	assert_int_equal(ibv_memcpy_to_dm(dm, 1008, back, 256), 0);
	rdma(rig, IBV_WR_RDMA_READ, mr, mr->addr, 256, 8, dm_mr->rkey);
	assert_memory_equal(back, mr->addr, 256);
	assert_int_equal(ibv_memcpy_to_dm(dm, 2, back, 4), EINVAL);
	assert_int_equal(ibv_memcpy_to_dm(dm, 0, back, 3), EINVAL);
	assert_int_equal(ibv_memcpy_to_dm(dm, 9996, back, 8), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(back, dm, UINT64_MAX - 3, 8), EINVAL);
	/* device memory that is registered cannot be freed */
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	assert_int_equal(
		rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE, 2, mr, mr->addr, 8, 8996, dm_mr->rkey), 0);
	rig_expect(rig->cq[0], IBV_WC_REM_ACCESS_ERR, 2);
	expect_null(ibv_reg_dm_mr(rig->pd, dm, 0, 100, RIG_ALL), EINVAL);
	expect_null(ibv_reg_dm_mr(rig->pd, dm, 9000, 1001, RIG_ALL | IBV_ACCESS_ZERO_BASED),
		    EINVAL);
	expect_null(
		ibv_reg_dm_mr(rig->pd, dm, 0, 8, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED),
		EINVAL);
	expect_null(ibv_reg_dm_mr(rig->pd, (struct ibv_dm *)mr, 0, 8, IBV_ACCESS_ZERO_BASED),
		    EINVAL);
	assert_int_equal(ibv_dereg_mr(dm_mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
	RIG_REFUSED(verbs_get_ctx(rig->context)->free_dm(dm));
	attr.length = 0;
	expect_null(ibv_alloc_dm(rig->context, &attr), EINVAL);
	attr.length = 1ull << 40;
	expect_null(ibv_alloc_dm(rig->context, &attr), EINVAL);
	attr = (struct ibv_alloc_dm_attr){.length = 8, .comp_mask = 1};
	expect_null(ibv_alloc_dm(rig->context, &attr), EINVAL);
	attr = (struct ibv_alloc_dm_attr){.length = 8, .log_align_req = 30};
	expect_null(ibv_alloc_dm(rig->context, &attr), EINVAL);
	rig_region_end(mr);
}

/* ---- Descriptors ---- */

static void descriptors(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = rig_region(rig->pd, PAGE), *file;
	int fd = memfd_create("dmabuf", 0);
	uint8_t *seen;

	assert_int_equal(ftruncate(fd, 4 * PAGE), 0);
	seen = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(mr->addr, 3, PAGE);
	file = ibv_reg_dmabuf_mr(rig->pd, PAGE + 16, PAGE, 0x10010, fd, RIG_ALL);
	assert_non_null(file);
	assert_ptr_equal(file->addr, (void *)(uintptr_t)(PAGE + 16));
	rdma(rig, IBV_WR_RDMA_WRITE, mr, mr->addr, 100, 0x10010 + 50, file->rkey);
	assert_int_equal(seen[PAGE + 16 + 49], 0);
	assert_memory_equal(seen + PAGE + 16 + 50, mr->addr, 100);
	assert_int_equal(seen[PAGE + 16 + 150], 0);
	assert_int_equal(ibv_rereg_mr(file, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_dereg_mr(file), 0);
	expect_null(ibv_reg_dmabuf_mr(rig->pd, 0, 5 * PAGE, 0, fd, RIG_ALL), EINVAL);
	expect_null(ibv_reg_dmabuf_mr(rig->pd, 0, 0, 0, fd, RIG_ALL), EINVAL);
	expect_null(ibv_reg_dmabuf_mr(rig->pd, 8, 8, 0, fd, RIG_ALL), EINVAL);
	expect_null(ibv_reg_dmabuf_mr(rig->pd, 0, 8, 0, fd, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	expect_null(ibv_reg_dmabuf_mr(NULL, 0, 8, 0, fd, RIG_ALL), EINVAL);
	expect_null(ibv_reg_dmabuf_mr(rig->pd, 0, 8, 0, -2, RIG_ALL), EBADF);
	expect_null(ibv_reg_dmabuf_mr(NULL, 0, 0, 0, -1, 0), EINVAL);
	munmap(seen, 4 * PAGE);
	close(fd);
	rig_region_end(mr);
}

#define ENOTSUPP_OF_LINUX 524 /* the kernel's headers for programs do not define it */

/* From now on mmap of that descriptor fails with `err`, as it does for memory of a GPU. */
static void refuse_mmap(int fd, unsigned int err)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[4])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)fd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

/* NCCL tries ibv_reg_dmabuf_mr with a bad descriptor: any error but EOPNOTSUPP means to it that the device
 * can do it, and the failure that then follows ends the program. */
static void descriptors_of_a_gpu(void **state)
{
	static const unsigned int refusals[] = {ENOTSUPP_OF_LINUX, ENODEV, EINVAL};
	struct rig *rig = *state;

	expect_null(ibv_reg_dmabuf_mr(rig->pd, 0, 0, 0, -1, 0), EOPNOTSUPP);
	for (int i = 0; i < 3; i++) {
		int fd = memfd_create("gpu", 0);

		assert_int_equal(dup2(fd, 900 + i), 900 + i);
		close(fd);
		assert_int_equal(ftruncate(900 + i, 4 * PAGE), 0);
		refuse_mmap(900 + i, refusals[i]);
		expect_null(ibv_reg_dmabuf_mr(rig->pd, 0, PAGE, 0x7f0000000000, 900 + i, RIG_ALL),
			    EOPNOTSUPP);
		close(900 + i);
	}
}

static void buffers(void **state)
{
	struct rig *rig = *state;
	struct ibv_buf *buf;
	uint8_t *at = ibv_alloc_buf(rig->pd, 3 * PAGE, &buf);
	struct ibv_mr *mr = ibv_reg_buf_mr(rig->pd, buf, at + PAGE, 2 * PAGE, RIG_ALL);

	assert_non_null(mr);
	at[PAGE] = 8;
	rdma(rig, IBV_WR_RDMA_WRITE, mr, at + PAGE, 1, (uintptr_t)at + 2 * PAGE, mr->rkey);
	assert_int_equal(at[2 * PAGE], 8);
	errno = 0;
	expect_null(ibv_reg_buf_mr(rig->pd, buf, at + PAGE, 2 * PAGE + 1, RIG_ALL), EINVAL);
	expect_null(ibv_reg_buf_mr(rig->pd, buf, at - 1, 1, RIG_ALL), EINVAL);
	expect_null(ibv_reg_buf_mr(rig->pd, NULL, at, 1, RIG_ALL), EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);
	ibv_free_buf(buf); /* freeing NULL does nothing */
	expect_null(ibv_alloc_buf(rig->pd, 0, &buf), EINVAL);
	expect_null(ibv_alloc_buf(NULL, 8, &buf), EINVAL);
}

/* ---- Imported ---- */

static void imports(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = rig_region(rig->pd, PAGE), *same;
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(rig->context, &attr), *same_dm;
	struct ibv_context *context = ibv_import_device(dup(rig->context->cmd_fd));
	struct ibv_context *stranger = rig_context();
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;
	uint32_t word = 5;

	assert_non_null(context);
	pd = ibv_import_pd(context, rig->pd->handle);
	same = ibv_import_mr(pd, mr->handle);
	same_dm = ibv_import_dm(context, dm->handle);
	assert_non_null(same);
	assert_non_null(same_dm);
	assert_int_equal(same->rkey, mr->rkey);
	assert_int_equal(same->lkey, mr->lkey);
	assert_int_equal(same->length, PAGE);
	assert_int_equal(ibv_memcpy_to_dm(dm, 8, &word, 4), 0);
	word = 0;
	assert_int_equal(ibv_memcpy_from_dm(&word, same_dm, 8, 4), 0);
	assert_int_equal(word, 5);
	/* a queue pair of the imported domain may use the domain's regions */
	cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	init = rig_init(cq, cq);
	qp = ibv_create_qp(pd, &init);
	assert_non_null(qp);
	rig_modify(qp, IBV_QPS_RTS, rig->qp[1]->qp_num);
	rig_modify(rig->qp[1], IBV_QPS_RESET, 0);
	rig_modify(rig->qp[1], IBV_QPS_RTS, qp->qp_num);
	*(uint8_t *)mr->addr = 77;
	assert_int_equal(rig_rdma(qp, IBV_WR_RDMA_WRITE, 3, same, mr->addr, 1,
				  (uintptr_t)mr->addr + 9, same->rkey),
			 0);
	rig_expect(cq, IBV_WC_SUCCESS, 3);
	assert_int_equal(((uint8_t *)mr->addr)[9], 77);
	/* another context, or another number, does not find them */
	expect_null(ibv_import_pd(context, 0xfffffff), ENOENT);
	expect_null(ibv_import_pd(stranger, rig->pd->handle), ENOENT);
	expect_null(ibv_import_dm(stranger, dm->handle), ENOENT);
	expect_null(ibv_import_mr(pd, 0xfffffff), ENOENT);
	expect_null(ibv_import_pd(NULL, 1), EINVAL);
	expect_null(ibv_import_mr(NULL, 1), EINVAL);
	expect_null(ibv_import_dm(NULL, 1), EINVAL);
	expect_null(ibv_import_device(-1), EBADF);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	ibv_unimport_dm(same_dm);
	ibv_unimport_dm(dm); /* this memory was not imported, so it stays */
	assert_int_equal(ibv_free_dm(dm), 0);
	ibv_unimport_mr(same);
	ibv_unimport_mr(mr);
	/* the domain still has a queue pair, so it lasts as long as the context */
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_close_device(context), 0);
	assert_int_equal(ibv_close_device(stranger), 0);
	rig_region_end(mr);
}

/* ---- Domains ---- */

static void domains(void **state)
{
	struct rig *rig = *state;
	struct ibv_td_init_attr none = {0}, bad = {.comp_mask = 1};
	struct ibv_td *td = ibv_alloc_td(rig->context, &none);
	struct ibv_parent_domain_init_attr init = {.pd = rig->pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(rig->context, &init);
	struct ibv_context *other = rig_context();
	struct ibv_qp_init_attr qp_init = rig_init(rig->cq[0], rig->cq[0]);
	struct ibv_mr *mr = rig_region(rig->pd, PAGE);
	struct ibv_cq_init_attr_ex cq_init = {
		.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = parent};
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;

	assert_non_null(parent);
	qp = ibv_create_qp(parent, &qp_init);
	assert_non_null(qp);
	rig_modify(qp, IBV_QPS_RTS, rig->qp[1]->qp_num);
	rig_modify(rig->qp[1], IBV_QPS_RTS, qp->qp_num);
	/* a queue pair of a parent domain may use the regions of its base domain */
	assert_int_equal(
		rig_rdma(qp, IBV_WR_RDMA_WRITE, 1, mr, mr->addr, 8, (uintptr_t)mr->addr, mr->rkey),
		0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	cq = ibv_create_cq_ex(rig->context, &cq_init);
	assert_non_null(cq);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
	RIG_REFUSED(verbs_get_ctx(rig->context)->dealloc_td(td));
	errno = 0;
	expect_null(ibv_alloc_parent_domain(rig->context, &init),
		    EINVAL); /* the thread domain is gone */
	init.td = NULL;
	init.comp_mask = 1 << 7;
	expect_null(ibv_alloc_parent_domain(rig->context, &init), EINVAL);
	init.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	expect_null(ibv_alloc_parent_domain(rig->context, &init), EINVAL);
	init.comp_mask = 0;
	expect_null(ibv_alloc_parent_domain(other, &init), EINVAL);
	init.pd = NULL;
	expect_null(ibv_alloc_parent_domain(rig->context, &init), EINVAL);
	expect_null(ibv_alloc_td(rig->context, &bad), EINVAL);
	assert_int_equal(ibv_close_device(other), 0);
	rig_region_end(mr);
}

/* Objects that were not ended end with their context, whichever depends on which. */
static void left_behind(void **state)
{
	struct ibv_context *context = rig_context();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_td *td = ibv_alloc_td(context, &(struct ibv_td_init_attr){0});
	struct ibv_parent_domain_init_attr init = {.pd = pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &init);
	struct ibv_alloc_dm_attr attr = {.length = PAGE};
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);

	assert_non_null(ibv_reg_dm_mr(parent, dm, 0, PAGE, IBV_ACCESS_ZERO_BASED));
	assert_non_null(ibv_alloc_mw(parent, IBV_MW_TYPE_2));
	assert_int_equal(ibv_close_device(context), 0);
	errno = 0;
	expect_null(ibv_alloc_pd(context), EINVAL);
	RIG_REFUSED(ibv_dealloc_pd(pd));
	RIG_REFUSED(ibv_dealloc_pd(parent));
}

static void capabilities(void **state)
{
	struct rig *rig = *state;
	struct ibv_device_attr_ex attr;
	struct ibv_ece ece;

	assert_int_equal(ibv_query_device_ex(rig->context, NULL, &attr), 0);
	assert_int_equal(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	assert_int_equal(attr.odp_caps.per_transport_caps.rc_odp_caps, 0x3f);
	assert_int_equal(attr.tso_caps.max_tso, 0);
	assert_int_equal(attr.rss_caps.supported_qpts, 0);
	assert_int_equal(attr.max_wq_type_rq, 0);
	assert_true(attr.max_dm_size > 0);
	assert_true(attr.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	assert_int_equal(ibv_query_ece(rig->qp[0], &ece), 0);
	assert_int_equal(ece.vendor_id, attr.orig_attr.vendor_id);
	assert_int_equal(ece.options, 0);
	assert_int_equal(ibv_set_ece(rig->qp[0], &ece), 0);
	ece.vendor_id++;
	assert_int_equal(ibv_set_ece(rig->qp[0], &ece), EINVAL);
	RIG_REFUSED(ibv_set_ece(NULL, &ece));
	RIG_REFUSED(ibv_query_ece((struct ibv_qp *)rig->pd, &ece));
	RIG_REFUSED(ibv_query_ece(rig->qp[0], NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(implicit, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(follows, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(holes, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(null_region, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(advice, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(device_memory, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(descriptors, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(buffers, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(imports, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(domains, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(left_behind, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(capabilities, rig_setup, rig_teardown),
		/* last, as its seccomp filter stays */
		cmocka_unit_test_setup_teardown(descriptors_of_a_gpu, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("regions", tests, make_pool, remove_pool);
}
