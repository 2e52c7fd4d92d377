/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Once rights have been taken away, no byte changes: writers in other processes write at full speed, a verb
 * revokes their rights, and when it returns the memory is filled with a pattern, which must stay. Arguments:
 * "helper": no process may copy another's memory itself; a number: how many seconds all tests take.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "../verbs/rig.h"
#include "scene.h"
#include "writer.h"

#define MIB   (1u << 20)
#define SLACK MIB /* of the pool's size: room for rings and tables */
#define TRIES 10  /* to stop a writer in the middle of an execution */

static uint64_t seconds = 12;
static bool by_helper;

/* ---- Full speed ---- */

/* Importers can lose a region, and not their own queue pairs. */
static enum way ways(void)
{
	return scene.imports ? TO_ERROR : WAYS;
}

static void full_speed(enum place place)
{
	static const uint64_t sizes[] = {256, 64 << 10, 4 << 20};
	uint64_t end_ns = rig_now_ns() + seconds * 1000 * MS / (2 * PLACES * COUNT(sizes));

	for (size_t s = 0; s < COUNT(sizes); s++) {
		scene_begin_memory(place, sizes[s]);
		do
			for (enum way way = 0; way < ways(); way++)
				scene_play(way);
		while (rig_now_ns() < end_ns);
		scene_end_memory();
		end_ns += seconds * 1000 * MS / (2 * PLACES * COUNT(sizes));
	}
}

static void full_speed_pooled(void **state)
{
	full_speed(POOLED);
}

static void full_speed_mixed(void **state)
{
	full_speed(MIXED);
}

static void full_speed_in_place(void **state)
{
	full_speed(IN_PLACE);
}

/* ---- Stopped in the middle ---- */

static uint64_t pool_bytes(void)
{
	const char *path = getenv("WEFT_POOL");
	struct stat st = {0};

	if (path && !strncmp(path, "shm:", 4))
		path += 4;
	assert_true(path && !stat(path, &st));
	return (uint64_t)st.st_blocks * 512;
}

static void await_pool_bytes(uint64_t most)
{
	uint64_t deadline_ns = rig_now_ns() + 10000 * MS;

	while (pool_bytes() > most) {
		if (rig_now_ns() > deadline_ns)
			fail_msg("the pool holds %" PRIu64 " bytes, not %" PRIu64, pool_bytes(),
				 most);
		usleep(1000);
	}
}

/* Revokes while a writer is stopped. Returns whether that was in the middle of an execution, so that the verb
 * has waited for it in vain. */
static bool play_stopped(enum way way, bool dies)
{
	uint64_t before, with, begun_ns, took_ns;

	scene_end_region();
	before = pool_bytes();
	scene_begin_round(true);
	scene_nap(2 * MS);
	writer_stop(&scene.writer[0]);
	with = pool_bytes();
	begun_ns = rig_now_ns();
	scene_take_away(way);
	took_ns = rig_now_ns() - begun_ns;
	assert_in_range(took_ns, 0, 10000 * MS);
	scene_fill();
	scene_guard("stopped", way, 20 * MS);
	if (took_ns > 900 * MS && way == DEREGISTER && scene.place != IN_PLACE)
		/* the memory is kept out of use */
		assert_in_range(pool_bytes(), with - SLACK, with + SLACK);
	if (dies) {
		writer_kill(&scene.writer[0]);
		scene_guard("killed", way, 20 * MS);
	} else {
		writer_continue(&scene.writer[0]);
		scene_guard("going on", way, 50 * MS);
	}
	scene_end_round(way);
	scene_end_region();
	await_pool_bytes(before + SLACK);
	return took_ns > 900 * MS;
}

/* Whether the writers ask the test's helper for each copy: one that waits for it is in the middle of no
 * execution. */
static bool asks_for_all(enum place place)
{
	return by_helper && place == IN_PLACE;
}

static void stopped(enum place place)
{
	uint64_t end_ns = rig_now_ns() + seconds * 1000 * MS / (2 * PLACES);

	scene_begin_memory(place, WRITE_MOST);
	do {
		for (enum way way = 0; way < ways(); way++) {
			int tries = 1;

			while (!play_stopped(way, false) && !asks_for_all(place))
				assert_in_range(++tries, 1, TRIES);
		}
	} while (rig_now_ns() < end_ns);
	scene_end_memory();
}

static void stopped_pooled(void **state)
{
	stopped(POOLED);
}

static void stopped_mixed(void **state)
{
	stopped(MIXED);
}

static void stopped_in_place(void **state)
{
	stopped(IN_PLACE);
}

/* ---- Rights that stay ---- */

/* The first word behind what writer 0 writes: writer 1 counts in it. */
static uint64_t *word_behind(void)
{
	uint8_t *end = scene_region_at(scene.pages) + scene.bytes;

	return (uint64_t *)(end + (8 - (uintptr_t)end % 8) % 8);
}

static uint64_t counted(void)
{
	return atomic_load((_Atomic uint64_t *)word_behind());
}

/* A thread of the test adds to the second word, by a queue pair that is connected to itself, and has the old
 * values placed in the third word. */
static struct {
	pthread_t thread;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	atomic_bool stop;
	uint64_t adds;
	enum ibv_wc_status failed;
} own;

static void *add(void *unused)
{
	struct ibv_wc wc;

	for (own.adds = 0; !atomic_load(&own.stop); own.adds++) {
		if (rig_rdma(own.qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, scene.mr, word_behind() + 2, 8,
			     (uintptr_t)(word_behind() + 1), scene.mr->rkey))
			break;
		while (!ibv_poll_cq(own.cq, 1, &wc))
			;
		own.failed = wc.status;
		if (own.failed)
			break;
		usleep(10);
	}
	return NULL;
}

static void begin_own(void)
{
	struct ibv_qp_init_attr init;

	own.cq = ibv_create_cq(scene.context, RIG_DEPTH, NULL, NULL, 0);
	assert_non_null(own.cq);
	init = rig_init(own.cq, own.cq);
	own.qp = ibv_create_qp(scene.pd, &init);
	assert_non_null(own.qp);
	rig_modify(own.qp, IBV_QPS_RTS, own.qp->qp_num);
}

static void start_own(void)
{
	own.stop = false;
	assert_int_equal(pthread_create(&own.thread, NULL, add, NULL), 0);
}

static void carry_out(enum ibv_wr_opcode opcode, const struct ibv_mr *from)
{
	struct ibv_wc wc;

	assert_int_equal(rig_rdma(own.qp, opcode, 0, from, scene.spare, (uint32_t)scene.bytes,
				  (uintptr_t)scene.mr->addr, scene.mr->rkey),
			 0);
	while (!ibv_poll_cq(own.cq, 1, &wc))
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_memory_equal(scene.spare, scene_region_at(scene.pages), scene.bytes);
}

/* By its old keys all of the region can still be reached, as source and as target. */
static void look_over(void)
{
	struct ibv_mr *mr = ibv_reg_mr(scene.pd, scene.spare, scene.bytes, RIG_ALL);

	assert_non_null(mr);
	carry_out(IBV_WR_RDMA_READ, mr);
	memset(scene.spare, 0x3c, scene.bytes);
	carry_out(IBV_WR_RDMA_WRITE, mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void end_own(void)
{
	usleep(1000);
	atomic_store(&own.stop, true);
	assert_int_equal(pthread_join(own.thread, NULL), 0);
	assert_int_equal(own.failed, 0);
	assert_true(own.adds);
	assert_int_equal(word_behind()[1], own.adds);
	assert_int_equal(word_behind()[2], own.adds - 1);
	look_over();
	assert_int_equal(ibv_destroy_qp(own.qp), 0);
	assert_int_equal(ibv_destroy_cq(own.cq), 0);
}

/* Binds a window, through which writer 1 counts. */
static struct ibv_mw *show_window(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(scene.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {scene.mr, (uintptr_t)scene.mr->addr,
						 scene.mr->length, IBV_ACCESS_REMOTE_ATOMIC}};
	struct ibv_wc wc;

	assert_non_null(mw);
	assert_int_equal(ibv_bind_mw(own.qp, mw, &bind), 0);
	while (!ibv_poll_cq(own.cq, 1, &wc))
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	scene.writer[1].wire->rkey = mw->rkey;
	return mw;
}

/* Stops writer 0 while both write, takes rights from it in that way, and lets it go on to its end; a
 * failure's message names `guarded`. Writer 1 writes throughout. Returns whether taking had to wait for writer
 * 0: whether it was stopped in the middle of an execution. */
static bool take_from_stopped(enum way way, enum way guarded)
{
	const struct wire *wire = scene.writer[1].wire;
	uint64_t begun_ns, took_ns;

	for (int i = 0; i < WRITERS; i++)
		writer_begin(&scene.writer[i]);
	for (int i = 0; i < WRITERS; i++)
		writer_await_writes(&scene.writer[i], 1);
	scene_nap(2 * MS);
	writer_stop(&scene.writer[0]);
	begun_ns = rig_now_ns();
	scene_take_from(0, way);
	took_ns = rig_now_ns() - begun_ns;
	scene_fill();
	scene_guard("counting", guarded, 20 * MS);
	writer_continue(&scene.writer[0]);
	scene_guard("going on", guarded, 50 * MS);
	writer_await_end(&scene.writer[0]);
	writer_await_writes(&scene.writer[1], atomic_load(&wire->writes) + 100);
	return took_ns > 900 * MS;
}

/* A queue pair is taken from a writer that is stopped, while others count in the same memory: nothing that
 * they add is lost, and they see no error. Returns whether the stopped writer was in the middle of an
 * execution. */
static bool play_bystander(enum way way)
{
	const struct wire *wire = scene.writer[1].wire;
	struct ibv_mw *mw;
	bool waited;

	/* because of this region the one over all of the memory is two runs in the pool */
	scene.other = ibv_reg_mr(scene.pd, scene.pages + 8192, 8192, RIG_ALL);
	assert_non_null(scene.other);
	scene.mr = ibv_reg_mr(scene.pd, scene_region_at(scene.pages), scene.bytes + 32,
			      RIG_ALL | IBV_ACCESS_MW_BIND);
	assert_non_null(scene.mr);
	memset(word_behind(), 0, 24);
	for (int i = 0; i < WRITERS; i++) {
		scene_begin_qp(i);
		scene_fill_wire(i, true, false);
	}
	/* writer 0 does not touch the word, writer 1 nothing else */
	scene.writer[1].wire->counts = true;
	scene.writer[1].wire->at = (uintptr_t)word_behind();
	begin_own();
	mw = show_window();
	start_own();
	waited = take_from_stopped(way, way);
	scene_take_from(1, way);
	writer_await_end(&scene.writer[1]);
	assert_int_equal(counted(), atomic_load(&wire->writes));
	end_own();
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	scene_end_region();
	return waited;
}

static void bystander(enum place place)
{
	static const enum way ways[] = {TO_ERROR, TO_RESET, DESTROY};

	scene_begin_memory(place, WRITE_MOST);
	for (size_t i = 0; i < COUNT(ways); i++) {
		int tries = 1;

		while (!play_bystander(ways[i]))
			assert_in_range(++tries, 1, TRIES);
	}
	scene_end_memory();
}

static void bystander_pooled(void **state)
{
	bystander(POOLED);
}

static void bystander_mixed(void **state)
{
	bystander(MIXED);
}

/* While there is a region over all memory, pages that have to leave their place in the pool go home and get
 * no other place there. */
static void bystander_held(void **state)
{
	struct ibv_mr *all;

	scene_begin_memory(POOLED, WRITE_MOST);
	for (int tries = 1;; tries++) {
		/* registered before that region, so that the pages are in the pool */
		struct ibv_mr *first =
			ibv_reg_mr(scene.pd, scene.pages, scene_mapping_bytes(), RIG_ALL);
		bool stopped;

		assert_non_null(first);
		all = ibv_reg_mr(scene.pd, NULL, SIZE_MAX, RIG_ALL | IBV_ACCESS_ON_DEMAND);
		assert_non_null(all);
		stopped = play_bystander(TO_ERROR);
		assert_int_equal(ibv_dereg_mr(all), 0);
		assert_int_equal(ibv_dereg_mr(first), 0);
		if (stopped)
			break;
		assert_in_range(tries, 1, TRIES);
	}
	scene_end_memory();
}

static void kill_one(void)
{
	scene_begin_memory(POOLED, WRITE_MOST);
	for (int tries = 1;; tries++) {
		bool caught = play_stopped(DEREGISTER, true);

		writer_start(&scene.writer[0], 0xe2, next_random(&scene.random));
		if (caught)
			break;
		assert_in_range(tries, 1, TRIES);
	}
	scene_end_memory();
}

static void killed(void **state)
{
	kill_one();
}

/* ---- Importers ---- */

static void imported(void (*test)(enum place place), enum place place)
{
	scene.imports = true;
	test(place);
	scene.imports = false;
}

static void imported_pooled(void **state)
{
	imported(full_speed, POOLED);
}

static void imported_mixed(void **state)
{
	imported(full_speed, MIXED);
}

static void imported_in_place(void **state)
{
	imported(full_speed, IN_PLACE);
}

static void importer_stopped(void **state)
{
	imported(stopped, POOLED);
}

static void importer_stopped_in_place(void **state)
{
	imported(stopped, IN_PLACE);
}

/* One importer is stopped, and the region that it writes to is deregistered. Another importer counts in a
 * region that stays, and is rehomed meanwhile. Returns whether the stopped one was in the middle of an
 * execution. */
static bool play_counting_importer(void)
{
	const struct wire *wire = scene.writer[1].wire;
	bool waited;

	scene.mr = ibv_reg_mr(scene.pd, scene_region_at(scene.pages), scene.bytes + 32, RIG_ALL);
	scene.other = ibv_reg_mr(scene.pd, scene_region_at(scene.pages), scene.bytes + 32, RIG_ALL);
	assert_non_null(scene.mr);
	assert_non_null(scene.other);
	memset(word_behind(), 0, 24);
	for (int i = 0; i < WRITERS; i++) {
		scene_fill_wire(i, true, false);
		writer_give(&scene.writer[i], scene.context->cmd_fd);
	}
	scene.writer[1].wire->counts = true;
	scene.writer[1].wire->at = (uintptr_t)word_behind();
	scene.writer[1].wire->rkey = scene.other->rkey;
	waited = take_from_stopped(DEREGISTER, ONE_OF_TWO);
	scene_end_region();
	writer_await_end(&scene.writer[1]);
	assert_int_equal(counted(), atomic_load(&wire->writes));
	return waited;
}

static void counting_importer(void **state)
{
	scene.imports = true;
	scene_begin_memory(POOLED, WRITE_MOST);
	for (int caught = 0, tries = 0; caught < 3; tries++) {
		assert_in_range(tries, 0, 3 * TRIES);
		caught += play_counting_importer();
	}
	scene_end_memory();
	scene.imports = false;
}

static void importer_killed(void **state)
{
	scene.imports = true;
	kill_one();
	scene.imports = false;
}

/* ---- Completion queues ---- */

static void receive(int i)
{
	assert_int_equal(rig_receive(scene.qp[i], 0, NULL, NULL, 0), 0);
}

static void resize(int i)
{
	uint32_t cqe = RIG_DEPTH + (uint32_t)(next_random(&scene.random) % (64 * RIG_DEPTH));

	assert_int_equal(ibv_resize_cq(scene.cq[i], (int)cqe), 0);
}

/* While the completion queue is resized no completion is lost, doubled or out of order; and none comes into
 * the queue that is made after one was destroyed. */
static void resize_round(uint32_t completions)
{
	uint32_t next[WRITERS] = {0};
	struct ibv_wc wc;

	scene_begin_region();
	for (int i = 0; i < WRITERS; i++) {
		scene_begin_qp(i);
		rig_none(scene.cq[i]);
		for (int k = 0; k < RIG_DEPTH; k++)
			receive(i);
		scene_begin_writer(i, false, true);
	}
	while (next[0] < completions || next[1] < completions)
		for (int i = 0; i < WRITERS; i++) {
			for (int k = 0; k < 100 && ibv_poll_cq(scene.cq[i], 1, &wc); k++) {
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
				assert_int_equal(wc.imm_data, next[i]++);
				receive(i);
			}
			resize(i);
		}
	scene_take_away(DESTROY);
	scene_end_round(DESTROY);
	scene_end_region();
}

static void completions(void **state)
{
	uint64_t end_ns = rig_now_ns() + seconds * 1000 * MS / 10;

	scene_begin_memory(POOLED, 4096);
	for (int i = 0; i < WRITERS; i++)
		if (scene.qp[i])
			scene_destroy(i);
	do
		resize_round(2000);
	while (rig_now_ns() < end_ns);
	scene_end_memory();
}

/* ---- The test program ---- */

static int open_all(void **state)
{
	make_pool(state);
	for (int i = 0; i < WRITERS; i++)
		writer_start(&scene.writer[i], (uint8_t)(0xe0 + i), next_random(&scene.random));
	scene.context = rig_context();
	scene.pd = ibv_alloc_pd(scene.context);
	scene.other_pd = ibv_alloc_pd(scene.context);
	return scene.pd && scene.other_pd ? 0 : -1;
}

static int close_all(void **state)
{
	for (int i = 0; i < WRITERS; i++)
		writer_kill(&scene.writer[i]);
	for (enum place place = 0; place < PLACES; place++)
		for (enum way way = 0; way < WAYS; way++)
			print_message("%-8s  %-16s  %6" PRIu64 " times\n", place_name[place],
				      way_name[way], scene.rounds[place][way]);
	return remove_pool(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_speed_pooled),
		cmocka_unit_test(full_speed_mixed),
		cmocka_unit_test(full_speed_in_place),
		cmocka_unit_test(stopped_pooled),
		cmocka_unit_test(stopped_mixed),
		cmocka_unit_test(stopped_in_place),
		cmocka_unit_test(bystander_pooled),
		cmocka_unit_test(bystander_mixed),
		cmocka_unit_test(bystander_held),
		cmocka_unit_test(killed),
		cmocka_unit_test(imported_pooled),
		cmocka_unit_test(imported_mixed),
		cmocka_unit_test(imported_in_place),
		cmocka_unit_test(importer_stopped),
		cmocka_unit_test(importer_stopped_in_place),
		cmocka_unit_test(counting_importer),
		cmocka_unit_test(importer_killed),
		cmocka_unit_test(completions),
	};
	const struct CMUnitTest between_hosts[] = {
		cmocka_unit_test(full_speed_pooled),   cmocka_unit_test(full_speed_mixed),
		cmocka_unit_test(full_speed_in_place), cmocka_unit_test(stopped_pooled),
		cmocka_unit_test(stopped_mixed),       cmocka_unit_test(stopped_in_place),
	};
	const char *seed = getenv("SEED");

	scene.random = seed ? strtoull(seed, NULL, 0) : rig_now_ns() | 1;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "helper")) {
			by_helper = true;
			rig_forbid_process_vm();
		} else
			seconds = strtoull(argv[i], NULL, 0);
	}
	print_message("SEED=%" PRIu64 ", %" PRIu64 " seconds\n", scene.random, seconds);
	/* when an executor of another host stands still, all connections with that host end; imports are
	 * possible within a host only */
	if (getenv("WEFT_TEST_HOSTS"))
		return cmocka_run_group_tests_name("revoke", between_hosts, open_all, close_all);
	return cmocka_run_group_tests_name("revoke", tests, open_all, close_all);
}
