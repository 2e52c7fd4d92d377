/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Fixed buffers of io_uring beside registrations, as a program sees them: the bytes that a request stores
 * after its region was deregistered, or its device closed, are in the program's memory, and a peer's READ of
 * a new region has them. tests/memory/test_rings.c has all cases.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "../memory/ring.h"
#include "rig.h"

#define BYTES 16384u
#define PART  4096u

static uint8_t *memory;
static uint8_t pattern[PART];
static int pipes[2];
static struct ring ring;

static struct ibv_mr *register_memory(struct rig *rig)
{
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, memory, BYTES, RIG_ALL);

	assert_non_null(mr);
	return mr;
}

/* Registers a region before there is a ring, so that it migrates; then has a request wait whose buffer is its
 * second page. */
static struct ibv_mr *begin(struct rig *rig)
{
	struct ibv_mr *mr;

	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	memset(memory, 1, BYTES);
	mr = register_memory(rig);
	if (!ring_open(&ring, BY_DESCRIPTOR, memory, BYTES)) {
		print_message("no io_uring here\n");
		skip();
	}
	assert_int_equal(pipe(pipes), 0);
	ring_submit(&ring, IORING_OP_READ_FIXED, pipes[0], memory + PART, PART);
	return mr;
}

static void end_request(void)
{
	assert_int_equal(write(pipes[1], pattern, PART), PART);
	assert_int_equal(ring_wait(&ring), PART);
	assert_memory_equal(memory + PART, pattern, PART);
}

static void check_as_peer(struct rig *rig, const struct ibv_mr *mr)
{
	struct ibv_mr *local = rig_region(rig->pd, PART);

	assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_RDMA_READ, 1, local, local->addr, PART,
				  (uintptr_t)memory + PART, mr->rkey),
			 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
	assert_memory_equal(local->addr, pattern, PART);
	rig_region_end(local);
}

/* MADV_DONTNEED zeroes private memory, and not pages that still lie in the pool. */
static bool is_home(void)
{
	memset(memory, 2, BYTES);
	return !madvise(memory, BYTES, MADV_DONTNEED) && !memory[0] && !memory[BYTES - 1];
}

static void end(void)
{
	ring_close(&ring);
	close(pipes[0]);
	close(pipes[1]);
	for (int i = 0; !is_home() && i < 500; i++)
		usleep(10000);
	assert_true(is_home());
	munmap(memory, BYTES);
}

static void test_deregistered(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = begin(rig);

	assert_int_equal(ibv_dereg_mr(mr), 0);
	end_request();
	mr = register_memory(rig);
	check_as_peer(rig, mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	end();
}

static void test_registered_again(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = begin(rig);

	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = register_memory(rig);
	end_request();
	check_as_peer(rig, mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	end();
}

/* While the request is outstanding the pages stay in the pool, and the process, too, stays a member:
 * otherwise the next process would be given those pages. */
static void test_closed(void **state)
{
	for (int again = 0; again < 2; again++) {
		struct rig rig;
		struct ibv_mr *mr;

		rig_open(&rig);
		mr = begin(&rig);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		rig_close(&rig);
		if (again)
			rig_open(&rig);
		end_request();
		if (again) {
			rig_connect(&rig, &(struct rig_wish){0});
			mr = register_memory(&rig);
			check_as_peer(&rig, mr);
			assert_int_equal(ibv_dereg_mr(mr), 0);
			rig_close(&rig);
		}
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_deregistered, rig_setup_connected,
						rig_teardown),
		cmocka_unit_test_setup_teardown(test_registered_again, rig_setup_connected,
						rig_teardown),
		cmocka_unit_test(test_closed),
	};

	for (size_t i = 0; i < PART; i++)
		pattern[i] = (uint8_t)(i * 31 + 7);
	return cmocka_run_group_tests_name("rings", tests, make_pool, remove_pool);
}
