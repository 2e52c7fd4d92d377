/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Regions: which may be registered, and what each refusal says. */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../abi/pool.h"

#define PAGE 4096u
/* an optional flag, as all from bit 20 to 29: it is granted by ignoring it */
#define RELAXED IBV_ACCESS_RELAXED_ORDERING

#undef ibv_reg_mr
#undef ibv_reg_mr_iova
/* The functions behind the macros of the header: programs call either. */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access);

static void refuse(struct ibv_pd *pd, void *addr, size_t length, int access, int error)
{
	errno = 0;
	assert_null(ibv_reg_mr(pd, addr, length, access));
	assert_int_equal(errno, error);
	errno = 0;
	assert_null(ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access));
	assert_int_equal(errno, error);
}

static void grant(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, addr, length, access);

	assert_non_null(mr);
	assert_ptr_equal(mr->pd, pd);
	assert_ptr_equal(mr->context, pd->context);
	assert_ptr_equal(mr->addr, addr);
	assert_int_equal(mr->length, length);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* All 256 sets of the flags that demand something, and each of the others alone. */
static void access_flags(void **state)
{
	struct rig *rig = *state;
	uint8_t *at = rig_pages(2 * PAGE);
	int others = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	for (int access = 0; access < 256; access++) {
		if (access & others && !(access & IBV_ACCESS_LOCAL_WRITE))
			refuse(rig->pd, at, 2 * PAGE, access, EINVAL);
		else
			grant(rig->pd, at, 2 * PAGE, access);
	}
	for (unsigned int bit = 8; bit < 32; bit++) {
		if (bit >= 20 && bit < 30)
			grant(rig->pd, at, 2 * PAGE, (int)(1u << bit));
		else
			refuse(rig->pd, at, 2 * PAGE, (int)(1u << bit), EINVAL);
	}
	grant(rig->pd, at, 2 * PAGE, RIG_ALL | (int)RELAXED);
	munmap(at, 2 * PAGE);
}

static void bad_ranges(void **state)
{
	struct rig *rig = *state;
	uint8_t *at = rig_pages(4 * PAGE);

	refuse(rig->pd, at, 0, RIG_ALL, EINVAL);
	refuse(rig->pd, at, SIZE_MAX, RIG_ALL, EINVAL);
	refuse(rig->pd, at, SIZE_MAX - (uintptr_t)at + 1, RIG_ALL, EINVAL);
	refuse(rig->pd, (void *)(UINTPTR_MAX - 10), 11, 0, EINVAL);
	munmap(at + 2 * PAGE, PAGE); /* a hole */
	refuse(rig->pd, at, 4 * PAGE, RIG_ALL, EFAULT);
	refuse(rig->pd, at, 2 * PAGE + 1, RIG_ALL, EFAULT);
	refuse(rig->pd, at + 2 * PAGE, 1, 0, EFAULT);
	refuse(rig->pd, at + 3 * PAGE - 1, 2, 0, EFAULT);
	grant(rig->pd, at, 2 * PAGE, RIG_ALL);
	grant(rig->pd, at + 3 * PAGE, PAGE, RIG_ALL);
	refuse(rig->pd, NULL, PAGE, 0, EFAULT);
	munmap(at, 2 * PAGE);
	munmap(at + 3 * PAGE, PAGE);
}

/* As pinning does it: memory that may be written by the region must be writable, and none may be
 * PROT_NONE. */
static void protections(void **state)
{
	static const struct {
		int prot, access, error;
	} cases[] = {
		{PROT_READ, IBV_ACCESS_LOCAL_WRITE, EFAULT},
		{PROT_READ, RIG_ALL, EFAULT},
		{PROT_READ, 0, 0},
		{PROT_READ, IBV_ACCESS_REMOTE_READ, 0},
		{PROT_READ | PROT_EXEC, IBV_ACCESS_REMOTE_READ, 0},
		{PROT_READ | PROT_WRITE, RIG_ALL, 0},
		{PROT_NONE, 0, EFAULT},
		{PROT_NONE, IBV_ACCESS_REMOTE_READ, EFAULT},
		{PROT_NONE, RIG_ALL, EFAULT},
	};
	struct rig *rig = *state;
	uint8_t *at = rig_pages(3 * PAGE);

	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(mprotect(at + PAGE, PAGE, cases[i].prot), 0);
		if (cases[i].error)
			refuse(rig->pd, at, 3 * PAGE, cases[i].access, cases[i].error);
		else
			grant(rig->pd, at, 3 * PAGE, cases[i].access);
		at[0] = at[3 * PAGE - 1] = 1; /* the pages around it can still be written */
	}
	munmap(at, 3 * PAGE);
}

/* Read-only files: shared mappings cannot be registered for writing, private ones can. */
static void files(void **state)
{
	struct rig *rig = *state;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *at;

	at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	refuse(rig->pd, at, PAGE, RIG_ALL, EFAULT);
	grant(rig->pd, at, PAGE, IBV_ACCESS_REMOTE_READ);
	munmap(at, PAGE);
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	grant(rig->pd, at, PAGE, RIG_ALL);
	munmap(at, PAGE);
	close(fd);
	/* a mapping that is longer than its file */
	fd = memfd_create("short", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	grant(rig->pd, at, PAGE, RIG_ALL);
	refuse(rig->pd, at, PAGE + 1, RIG_ALL, EFAULT);
	munmap(at, 2 * PAGE);
	close(fd);
	refuse(rig->pd, "a constant", 10, RIG_ALL, EFAULT);
	grant(rig->pd, "a constant", 10, IBV_ACCESS_REMOTE_READ);
}

static void bad_domains(void **state)
{
	struct rig *rig = *state;
	struct ibv_pd *gone = ibv_alloc_pd(rig->context);
	uint8_t *at = rig_pages(PAGE);

	assert_int_equal(ibv_dealloc_pd(gone), 0);
	refuse(gone, at, PAGE, RIG_ALL, EINVAL);
	refuse(NULL, at, PAGE, RIG_ALL, EINVAL);
	refuse((struct ibv_pd *)rig->cq[0], at, PAGE, RIG_ALL, EINVAL);
	munmap(at, PAGE);
}

/* A region seen at another address: its offset in the page must be the same, as the tables of hardware
 * demand. */
static void iova(void **state)
{
	static const struct {
		uint64_t offset, iova;
		int error;
	} cases[] = {
		{0, 0, 0},
		{0, 0x10000000, 0},
		{0, 1, EINVAL},
		{8, 0x10000000, EINVAL},
		{8, 0x10000008, 0},
		{100, 100, 0},
		{0, UINT64_MAX - PAGE + 1, EINVAL},
		{0, UINT64_MAX & ~0xfffull, EINVAL},
		{0, (UINT64_MAX & ~0xfffull) - 2 * PAGE, 0},
	};
	struct rig *rig = *state;
	uint8_t *at = rig_pages(2 * PAGE);
	struct ibv_mr *mr;

	for (size_t i = 0; i < COUNT(cases); i++) {
		errno = 0;
		mr = ibv_reg_mr_iova(rig->pd, at + cases[i].offset, PAGE + 1, cases[i].iova,
				     RIG_ALL);
		assert_int_equal(mr ? 0 : errno, cases[i].error);
		if (!mr)
			continue;
		memset(at, 0, PAGE);
		at[cases[i].offset + 17] = 1;
		assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE, 1, mr,
					  (void *)(uintptr_t)(cases[i].iova + 16), 8,
					  cases[i].iova + 64, mr->rkey),
				 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
		assert_int_equal(at[cases[i].offset + 65], 1);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	munmap(at, 2 * PAGE);
}

/* Addresses of a zero-based region count from its first byte, wherever that lies. */
static void zero_based(void **state)
{
	static const unsigned int offsets[] = {0, 8, 40, 1000};
	struct rig *rig = *state;
	uint8_t *at = rig_pages(2 * PAGE);

	for (size_t i = 0; i < COUNT(offsets); i++) {
		uint8_t *first = at + offsets[i];
		struct ibv_mr *mr =
			ibv_reg_mr(rig->pd, first, PAGE, RIG_ALL | IBV_ACCESS_ZERO_BASED);

		assert_non_null(mr);
		memset(at, 0, 2 * PAGE);
		memcpy(first, "from", 4);
		assert_int_equal(
			rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE, i, mr, NULL, 4, PAGE - 4, mr->rkey),
			0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
		assert_memory_equal(first + PAGE - 4, "from", 4);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	munmap(at, 2 * PAGE);
}

/* An atomic's address is aligned in the region, but its word is not in memory: no processor makes such
 * atomics everywhere. */
static void zero_based_atomic(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *here = rig_region(rig->pd, PAGE);
	uint8_t *at = rig_pages(PAGE);
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, at + 60, 100, RIG_ALL | IBV_ACCESS_ZERO_BASED);

	assert_non_null(mr);
	assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_ATOMIC_FETCH_AND_ADD, 1, here, here->addr, 8,
				  0, mr->rkey),
			 0);
	rig_expect(rig->cq[0], IBV_WC_REM_INV_REQ_ERR, 1);
	assert_int_equal(at[60], 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	rig_region_end(here);
	munmap(at, PAGE);
}

/* Many regions over the same memory, deregistered in any order. */
static void overlapping(void **state)
{
	struct rig *rig = *state;
	uint8_t *at = rig_pages(16 * PAGE);
	struct ibv_mr *mr[64];

	for (size_t i = 0; i < COUNT(mr); i++) {
		size_t offset = i * 997 % (8 * PAGE);

		mr[i] = ibv_reg_mr(rig->pd, at + offset, 7 * PAGE, RIG_ALL);
		assert_non_null(mr[i]);
		for (size_t k = 0; k < i; k++) {
			assert_int_not_equal(mr[i]->rkey, mr[k]->rkey);
			assert_int_not_equal(mr[i]->lkey, mr[k]->lkey);
		}
		at[offset] = (uint8_t)i;
		assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE, i, mr[i], at + offset, 1,
					  (uintptr_t)at + offset + 1, mr[i]->rkey),
				 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
		assert_int_equal(at[offset + 1], i);
	}
	for (size_t i = 0; i < COUNT(mr); i++)
		assert_int_equal(ibv_dereg_mr(mr[i * 37 % COUNT(mr)]), 0);
	munmap(at, 16 * PAGE);
}

/* A key is used again only after many others, so that a stale one fails. */
static void keys(void **state)
{
	struct rig *rig = *state;
	uint64_t *seen = calloc(1, 1u << 29); /* a bit for each key */
	uint8_t at[8];

	assert_non_null(seen);
	for (int i = 0; i < 100000; i++) {
		struct ibv_mr *mr = ibv_reg_mr(rig->pd, at, sizeof(at), RIG_ALL);

		assert_non_null(mr);
		assert_int_equal(seen[mr->rkey / 64] >> mr->rkey % 64 & 1, 0);
		seen[mr->rkey / 64] |= 1ull << mr->rkey % 64;
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	free(seen);
}

static void dereg_mr(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = rig_region(rig->pd, PAGE);
	void *at = mr->addr;

	RIG_REFUSED(ibv_dereg_mr(NULL));
	RIG_REFUSED(ibv_dereg_mr((struct ibv_mr *)rig->pd));
	strcpy(at, "the bytes stay");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_string_equal(at, "the bytes stay");
	RIG_REFUSED(ibv_dereg_mr(mr));
	munmap(at, PAGE);
}

/* The program may unmap its memory before it deregisters it. */
static void dereg_after_unmap(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = rig_region(rig->pd, 16 * PAGE);

	munmap(mr->addr, 16 * PAGE);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(access_flags, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(bad_ranges, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(protections, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(files, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(bad_domains, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(iova, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(zero_based, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(zero_based_atomic, rig_setup_connected,
						rig_teardown),
		cmocka_unit_test_setup_teardown(overlapping, rig_setup_connected, rig_teardown),
		cmocka_unit_test_setup_teardown(keys, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(dereg_mr, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(dereg_after_unmap, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("mr", tests, make_pool, remove_pool);
}
