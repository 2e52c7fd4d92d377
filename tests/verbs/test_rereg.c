/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ibv_rereg_mr: changes of a region's place, its access, its domain; and what a refusal leaves behind. */
#include "rig.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "../abi/pool.h"

#define PAGE   4096u
#define BYTES  (4 * PAGE)

#define PLACE  IBV_REREG_MR_CHANGE_TRANSLATION
#define RIGHTS IBV_REREG_MR_CHANGE_ACCESS
#define DOMAIN IBV_REREG_MR_CHANGE_PD

struct subject {
	struct rig rig;
	struct ibv_mr *from; /* the source of the WRITEs */
	struct ibv_mr *mr;   /* the region that is changed */
	uint8_t *at;
};

static int setup(void **state)
{
	static struct subject s;

	rig_open(&s.rig);
	rig_connect(&s.rig, &(struct rig_wish){0});
	s.from = rig_region(s.rig.pd, BYTES);
	memset(s.from->addr, 0x5a, BYTES);
	s.mr = rig_region(s.rig.pd, BYTES);
	s.at = s.mr->addr;
	*state = &s;
	return 0;
}

static int teardown(void **state)
{
	struct subject *s = *state;

	assert_int_equal(ibv_dereg_mr(s->mr), 0);
	munmap(s->at, BYTES);
	rig_region_end(s->from);
	rig_close(&s->rig);
	return 0;
}

/* WRITEs a page to `remote` by `rkey`, and returns the completion's status. */
static enum ibv_wc_status write_page(struct subject *s, uint64_t remote, uint32_t rkey)
{
	enum ibv_wc_status status;

	assert_int_equal(rig_rdma(s->rig.qp[0], IBV_WR_RDMA_WRITE, 1, s->from, s->from->addr, PAGE,
				  remote, rkey),
			 0);
	status = rig_next(s->rig.cq[0]).status;
	if (status)
		rig_reconnect(&s->rig, &(struct rig_wish){0});
	return status;
}

static void reaches(struct subject *s, uint8_t *at)
{
	memset(at, 0, PAGE);
	assert_int_equal(write_page(s, (uintptr_t)at, s->mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(at[0], 0x5a);
	assert_int_equal(at[PAGE - 1], 0x5a);
}

static void misses(struct subject *s, uint64_t at, uint32_t rkey)
{
	assert_int_equal(write_page(s, at, rkey), IBV_WC_REM_ACCESS_ERR);
}

static void refuse(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		   int access, int code, int error)
{
	struct ibv_mr before = *mr;

	errno = 0;
	assert_int_equal(ibv_rereg_mr(mr, flags, pd, addr, length, access), code);
	assert_int_equal(errno, error);
	assert_memory_equal(mr, &before, sizeof(before));
}

static void bad_arguments(void **state)
{
	struct subject *s = *state;
	struct ibv_mr none = *s->mr;
	int input = IBV_REREG_MR_ERR_INPUT;

	refuse(s->mr, 0, NULL, NULL, 0, 0, input, EINVAL);
	refuse(s->mr, 8, NULL, NULL, 0, 0, input, EINVAL);
	refuse(s->mr, -1, s->rig.pd, s->at, BYTES, RIG_ALL, input, EINVAL);
	refuse(&none, RIGHTS, NULL, NULL, 0, RIG_ALL, input, EINVAL);
	refuse(s->mr, PLACE, NULL, NULL, BYTES, 0, input, EINVAL);
	refuse(s->mr, PLACE, NULL, s->at, 0, 0, input, EINVAL);
	refuse(s->mr, PLACE, NULL, s->at, SIZE_MAX, 0, input, EINVAL);
	refuse(s->mr, PLACE, NULL, s->at, BYTES, RIG_ALL, input, EINVAL);
	refuse(s->mr, RIGHTS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE, input, EINVAL);
	refuse(s->mr, RIGHTS, NULL, NULL, 0, 1 << 16, input, EINVAL);
	refuse(s->mr, DOMAIN, NULL, NULL, 0, 0, input, EINVAL);
	refuse(s->mr, DOMAIN, (struct ibv_pd *)&none, NULL, 0, 0, input, EINVAL);
	errno = 0;
	assert_int_equal(ibv_rereg_mr(NULL, RIGHTS, NULL, NULL, 0, 0), input);
	assert_int_equal(errno, EINVAL);
	reaches(s, s->at);
}

/* Domains of another device, forbidden access and unmapped memory are refused, and the region is as
 * before. */
static void leaves_the_old(void **state)
{
	struct subject *s = *state;
	struct ibv_context *other = rig_context();
	struct ibv_pd *pd = ibv_alloc_pd(other);
	uint8_t *gone = rig_pages(BYTES);

	refuse(s->mr, DOMAIN, pd, NULL, 0, 0, IBV_REREG_MR_ERR_INPUT, EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(other), 0);
	munmap(gone, BYTES);
	refuse(s->mr, PLACE, NULL, gone, BYTES, 0, IBV_REREG_MR_ERR_CMD, EFAULT);
	refuse(s->mr, PLACE | DOMAIN | RIGHTS, s->rig.pd, gone, BYTES, RIG_ALL,
	       IBV_REREG_MR_ERR_CMD, EFAULT);
	reaches(s, s->at);
}

static void place(void **state)
{
	struct subject *s = *state;
	uint8_t *old = s->at, *fresh = rig_pages(2 * BYTES);
	uint32_t rkey = s->mr->rkey, handle = s->mr->handle;

	assert_int_equal(ibv_rereg_mr(s->mr, PLACE, NULL, fresh, 2 * BYTES, 0), 0);
	assert_ptr_equal(s->mr->addr, fresh);
	assert_int_equal(s->mr->length, 2 * BYTES);
	assert_int_equal(s->mr->handle, handle);
	assert_ptr_equal(s->mr->pd, s->rig.pd);
	reaches(s, fresh);
	reaches(s, fresh + 2 * BYTES - PAGE);
	misses(s, (uintptr_t)old, s->mr->rkey);
	misses(s, (uintptr_t)old, rkey);
	misses(s, (uintptr_t)fresh, rkey);
	assert_int_equal(old[0], 0);
	s->at = fresh; /* its second half stays mapped until the process ends */
	munmap(old, BYTES);
}

/* To a larger, a smaller and a shifted range: the pages that both ranges have keep their bytes. */
static void overlapping(void **state)
{
	struct subject *s = *state;

	for (unsigned int i = 0; i < BYTES; i++)
		s->at[i] = (uint8_t)(i >> 4);
	assert_int_equal(ibv_rereg_mr(s->mr, PLACE, NULL, s->at, PAGE, 0), 0);
	misses(s, (uintptr_t)s->at + PAGE, s->mr->rkey);
	assert_int_equal(ibv_rereg_mr(s->mr, PLACE, NULL, s->at + 100, BYTES - 100, 0), 0);
	misses(s, (uintptr_t)s->at, s->mr->rkey);
	assert_int_equal(ibv_rereg_mr(s->mr, PLACE, NULL, s->at, BYTES, 0), 0);
	for (unsigned int i = 0; i < BYTES; i++)
		assert_int_equal(s->at[i], (uint8_t)(i >> 4));
	reaches(s, s->at);
	reaches(s, s->at + BYTES - PAGE);
}

static void rights(void **state)
{
	struct subject *s = *state;
	uint32_t rkey = s->mr->rkey;

	assert_int_equal(ibv_rereg_mr(s->mr, RIGHTS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	misses(s, (uintptr_t)s->at, s->mr->rkey);
	assert_int_equal(ibv_rereg_mr(s->mr, RIGHTS, NULL, NULL, 0, 0), 0);
	misses(s, (uintptr_t)s->at, s->mr->rkey);
	assert_int_equal(ibv_rereg_mr(s->mr, RIGHTS, NULL, NULL, 0, RIG_ALL), 0);
	reaches(s, s->at);
	assert_int_equal(s->mr->rkey, rkey); /* the rkey stays, as peers have it already */
}

static void zero_based(void **state)
{
	struct subject *s = *state;

	assert_int_equal(
		ibv_rereg_mr(s->mr, RIGHTS, NULL, NULL, 0, RIG_ALL | IBV_ACCESS_ZERO_BASED), 0);
	assert_int_equal(write_page(s, 0, s->mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(s->at[0], 0x5a);
	assert_int_equal(ibv_rereg_mr(s->mr, RIGHTS, NULL, NULL, 0, RIG_ALL), 0);
	misses(s, 0, s->mr->rkey);
	reaches(s, s->at);
}

static void domain(void **state)
{
	struct subject *s = *state;
	struct ibv_pd *pd = ibv_alloc_pd(s->rig.context);

	assert_int_equal(ibv_rereg_mr(s->mr, DOMAIN, pd, NULL, 0, 0), 0);
	assert_ptr_equal(s->mr->pd, pd);
	misses(s, (uintptr_t)s->at, s->mr->rkey);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_rereg_mr(s->mr, DOMAIN, s->rig.pd, NULL, 0, 0), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	reaches(s, s->at);
}

static void everything(void **state)
{
	struct subject *s = *state;
	struct ibv_pd *pd = ibv_alloc_pd(s->rig.context);
	uint8_t *fresh = rig_pages(PAGE);

	assert_int_equal(ibv_rereg_mr(s->mr, PLACE | RIGHTS | DOMAIN, pd, fresh, PAGE,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
			 0);
	assert_ptr_equal(s->mr->pd, pd);
	assert_ptr_equal(s->mr->addr, fresh);
	misses(s, (uintptr_t)fresh, s->mr->rkey);
	assert_int_equal(
		ibv_rereg_mr(s->mr, PLACE | RIGHTS | DOMAIN, s->rig.pd, s->at, BYTES, RIG_ALL), 0);
	reaches(s, s->at);
	munmap(fresh, PAGE);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bad_arguments), TEST(leaves_the_old), TEST(place),	 TEST(overlapping),
		TEST(rights),	     TEST(zero_based),	   TEST(domain), TEST(everything),
	};

	return cmocka_run_group_tests_name("rereg", tests, make_pool, remove_pool);
}
