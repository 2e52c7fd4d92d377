/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Once rights have been taken away, no byte changes: writers in other processes write at full speed,
 * a verb shuts them out, and when it returns the memory is filled with a pattern that must stay.
 * Arguments: "engine": no process may reach another's memory itself; a number: seconds for all.
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
#include "writer.h"

#define WRITERS 2
#define PATTERN 0x5a5a5a5a5a5a5a5aull
#define MS	1000000ull
#define MIB	(1u << 20)
#define SLACK	MIB /* of the pool's size: rings, tables */
#define TRIES	10  /* to stop a writer in the middle */

enum way { DEREGISTER, ONE_OF_TWO, MOVE, NARROW, OTHER_DOMAIN, TO_ERROR, TO_RESET, DESTROY, WAYS };
static const char *const way_name[WAYS] = {
	"dereg_mr",	"dereg_mr, of two", "rereg_mr, place", "rereg_mr, rights",
	"rereg_mr, PD", "QP to ERR",	    "QP to RESET",     "destroy_qp",
};

/* Where memory lies: in the pool; its ends in place; all of it. */
enum place { POOLED, MIXED, IN_PLACE, PLACES };
static const char *const place_name[PLACES] = { "pooled", "mixed", "in place" };

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd, *other_pd;
	struct ibv_cq *cq[WRITERS];
	struct ibv_qp *qp[WRITERS];
	struct ibv_mr *mr, *other; /* other: over the same memory */
	uint8_t *pages, *spare; /* the mapping, and one to move the region to */
	uint64_t bytes;		/* of the region */
	enum place place;
	struct writer writer[WRITERS];
	bool imports; /* writers have queue pairs of their own in our domain, and we have none */
	uint64_t random;
	uint64_t rounds[PLACES][WAYS];
} self;
static uint64_t seconds = 12;

/* ---- Memory ---- */

static uint64_t mapping_bytes(void)
{
	return self.bytes + 8192;
}

/* A mixed region begins and ends in the middle of a page. */
static uint8_t *region_at(uint8_t *pages)
{
	return pages + (self.place == MIXED ? 1000 : 0);
}

static uint8_t *map_pages(void)
{
	int how = self.place == IN_PLACE ? MAP_SHARED : MAP_PRIVATE;
	void *at = mmap(NULL, mapping_bytes(), PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static void begin_memory(enum place place, uint64_t bytes)
{
	self.place = place;
	self.bytes = bytes;
	self.pages = map_pages();
	self.spare = map_pages();
}

static void begin_region(void)
{
	self.mr = ibv_reg_mr(self.pd, region_at(self.pages), self.bytes, RIG_ALL);
	assert_non_null(self.mr);
}

static void end_region(void)
{
	if (self.mr)
		assert_int_equal(ibv_dereg_mr(self.mr), 0);
	if (self.other)
		assert_int_equal(ibv_dereg_mr(self.other), 0);
	self.mr = self.other = NULL;
}

static void end_memory(void)
{
	end_region();
	munmap(self.pages, mapping_bytes());
	munmap(self.spare, mapping_bytes());
}

/* ---- What must not change ---- */

static void check(const char *what, enum way way)
{
	const uint8_t *at = region_at(self.pages);

	for (uint64_t i = 0; i < self.bytes; i += 8) {
		uint64_t word;

		memcpy(&word, at + i, 8);
		if (word == PATTERN)
			continue;
		fail_msg("%s, %s, %s: byte %" PRIu64 " of %" PRIu64 " became %016" PRIx64,
			 what, place_name[self.place], way_name[way], i, self.bytes, word);
	}
}

static void guard(const char *what, enum way way, uint64_t duration_ns)
{
	uint64_t end_ns = rig_now_ns() + duration_ns;

	do
		check(what, way);
	while (rig_now_ns() < end_ns);
}

static void fill(void)
{
	memset(region_at(self.pages), 0x5a, self.bytes);
}

/* ---- Taking rights away ---- */

static void modify(int i, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = { .qp_state = to };

	assert_int_equal(ibv_modify_qp(self.qp[i], &attr, IBV_QP_STATE), 0);
}

static void destroy(int i)
{
	assert_int_equal(ibv_destroy_qp(self.qp[i]), 0);
	assert_int_equal(ibv_destroy_cq(self.cq[i]), 0);
	self.qp[i] = NULL;
}

static void change(int flags, struct ibv_pd *pd, uint8_t *pages, int access)
{
	assert_int_equal(ibv_rereg_mr(self.mr, flags, pd, pages ? region_at(pages) : NULL,
				      pages ? self.bytes : 0, access), 0);
}

/* For one writer, as queue pairs are; a region's end is for all. */
static void take_from(int i, enum way way)
{
	switch (way) {
	case ONE_OF_TWO:
		self.other = ibv_reg_mr(self.pd, region_at(self.pages), self.bytes / 2, RIG_ALL);
		assert_non_null(self.other);
		/* fallthrough */
	case DEREGISTER:
		assert_int_equal(ibv_dereg_mr(self.mr), 0);
		self.mr = NULL;
		break;
	case MOVE:
		change(IBV_REREG_MR_CHANGE_TRANSLATION, NULL, self.spare, 0);
		break;
	case NARROW:
		change(IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL,
		       self.imports ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_LOCAL_WRITE);
		break;
	case OTHER_DOMAIN:
		change(IBV_REREG_MR_CHANGE_PD, self.other_pd, NULL, 0);
		break;
	case TO_ERROR:
		modify(i, IBV_QPS_ERR);
		break;
	case TO_RESET:
		modify(i, IBV_QPS_RESET);
		break;
	case DESTROY:
		destroy(i);
		break;
	case WAYS:
		break;
	}
}

static void take_away(enum way way)
{
	for (int i = 0; i < (way < TO_ERROR ? 1 : WRITERS); i++)
		take_from(i, way);
}

/* ---- Rounds ---- */

static void begin_qp(int i)
{
	struct ibv_qp_init_attr init;

	if (self.qp[i]) {
		rig_move(self.qp[i], IBV_QPS_RESET, 0);
	} else {
		self.cq[i] = ibv_create_cq(self.context, RIG_DEPTH, NULL, NULL, 0);
		assert_non_null(self.cq[i]);
		init = rig_init(self.cq[i], self.cq[i]);
		self.qp[i] = ibv_create_qp(self.pd, &init);
		assert_non_null(self.qp[i]);
	}
	rig_move(self.qp[i], IBV_QPS_RTR, writer_await_ready(&self.writer[i]));
}

static void fill_wire(int i, bool large, bool numbered)
{
	struct wire *wire = self.writer[i].wire;

	wire->counts = false;
	wire->imports = self.imports;
	wire->domain = self.pd->handle;
	wire->qpn = self.imports ? 0 : self.qp[i]->qp_num;
	wire->rkey = self.mr->rkey;
	wire->at = (uintptr_t)self.mr->addr;
	wire->bytes = self.bytes;
	wire->large = large;
	wire->numbered = numbered;
}

static void begin_writer(int i, bool large, bool numbered)
{
	fill_wire(i, large, numbered);
	writer_begin(&self.writer[i]);
}

/* The writers write; the region is registered. */
static void begin_round(bool large)
{
	if (!self.mr)
		begin_region();
	for (int i = 0; i < WRITERS; i++) {
		if (self.imports)
			writer_give(&self.writer[i], self.context->cmd_fd);
		else
			begin_qp(i);
		begin_writer(i, large, false);
	}
	for (int i = 0; i < WRITERS; i++)
		writer_await_writes(&self.writer[i], large ? 1 : next_random(&self.random) % 100 + 1);
}

static void end_round(enum way way)
{
	for (int i = 0; i < WRITERS; i++)
		if (self.writer[i].pid)
			writer_await_end(&self.writer[i]);
	if (way < TO_ERROR) /* another place, right or domain */
		end_region();
	self.rounds[self.place][way]++;
}

static void nap(uint64_t most_ns)
{
	uint64_t end_ns = rig_now_ns() + next_random(&self.random) % most_ns;

	while (rig_now_ns() < end_ns)
		;
}

static void play(enum way way)
{
	begin_round(false);
	nap(200000);
	take_away(way);
	fill();
	guard("at full speed", way, 2 * MS);
	end_round(way);
}

/* ---- Full speed ---- */

/* What can be taken from importers: not their queue pairs. */
static enum way ways(void)
{
	return self.imports ? TO_ERROR : WAYS;
}

static void full_speed(enum place place)
{
	static const uint64_t sizes[] = { 256, 64 << 10, 4 << 20 };
	uint64_t end_ns = rig_now_ns() + seconds * 1000 * MS / (2 * PLACES * COUNT(sizes));

	for (size_t s = 0; s < COUNT(sizes); s++) {
		begin_memory(place, sizes[s]);
		do
			for (enum way way = 0; way < ways(); way++)
				play(way);
		while (rig_now_ns() < end_ns);
		end_memory();
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
	struct stat st = { 0 };

	assert_true(path && !stat(path, &st));
	return (uint64_t)st.st_blocks * 512;
}

static void await_pool_bytes(uint64_t most)
{
	uint64_t deadline_ns = rig_now_ns() + 10000 * MS;

	while (pool_bytes() > most) {
		if (rig_now_ns() > deadline_ns)
			fail_msg("the pool holds %" PRIu64 " bytes, not %" PRIu64, pool_bytes(), most);
		usleep(1000);
	}
}

/* Whether the writer was in the middle of something, so that the verb ran out of patience. */
static bool play_stopped(enum way way, bool dies)
{
	uint64_t before, with, begun_ns, took_ns;

	end_region();
	before = pool_bytes();
	begin_round(true);
	nap(2 * MS);
	writer_stop(&self.writer[0]);
	with = pool_bytes();
	begun_ns = rig_now_ns();
	take_away(way);
	took_ns = rig_now_ns() - begun_ns;
	assert_in_range(took_ns, 0, 10000 * MS);
	fill();
	guard("stopped", way, 20 * MS);
	if (took_ns > 900 * MS && way == DEREGISTER && self.place != IN_PLACE)
		assert_in_range(pool_bytes(), with - SLACK, with + SLACK); /* kept from others */
	if (dies) {
		writer_kill(&self.writer[0]);
		guard("killed", way, 20 * MS);
	} else {
		writer_continue(&self.writer[0]);
		guard("going on", way, 50 * MS);
	}
	end_round(way);
	end_region();
	await_pool_bytes(before + SLACK);
	return took_ns > 900 * MS;
}

static void stopped(enum place place)
{
	uint64_t end_ns = rig_now_ns() + seconds * 1000 * MS / (2 * PLACES);

	begin_memory(place, WRITE_MOST);
	do {
		for (enum way way = 0; way < ways(); way++) {
			int tries = 1;

			while (!play_stopped(way, false))
				assert_in_range(++tries, 1, TRIES);
		}
	} while (rig_now_ns() < end_ns);
	end_memory();
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

/* ---- Those who stay ---- */

/* The first word behind what writer 0 writes is counted up by writer 1. */
static uint64_t *word_behind(void)
{
	uint8_t *end = region_at(self.pages) + self.bytes;

	return (uint64_t *)(end + (8 - (uintptr_t)end % 8) % 8);
}

static uint64_t counted(void)
{
	return atomic_load((_Atomic uint64_t *)word_behind());
}

/* A thread of ours adds to the second word over a queue pair that is connected to itself, and takes
 * what was there before into the third. */
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
		if (rig_rdma(own.qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, self.mr, word_behind() + 2, 8,
			     (uintptr_t)(word_behind() + 1), self.mr->rkey))
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

	own.cq = ibv_create_cq(self.context, RIG_DEPTH, NULL, NULL, 0);
	assert_non_null(own.cq);
	init = rig_init(own.cq, own.cq);
	own.qp = ibv_create_qp(self.pd, &init);
	assert_non_null(own.qp);
	rig_move(own.qp, IBV_QPS_RTS, own.qp->qp_num);
}

static void start_own(void)
{
	own.stop = false;
	assert_int_equal(pthread_create(&own.thread, NULL, add, NULL), 0);
}

static void carry_out(enum ibv_wr_opcode opcode, const struct ibv_mr *from)
{
	struct ibv_wc wc;

	assert_int_equal(rig_rdma(own.qp, opcode, 0, from, self.spare, (uint32_t)self.bytes,
				  (uintptr_t)self.mr->addr, self.mr->rkey),
			 0);
	while (!ibv_poll_cq(own.cq, 1, &wc))
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_memory_equal(self.spare, region_at(self.pages), self.bytes);
}

/* By the keys of old all of the region is reached, both ways. */
static void look_over(void)
{
	struct ibv_mr *mr = ibv_reg_mr(self.pd, self.spare, self.bytes, RIG_ALL);

	assert_non_null(mr);
	carry_out(IBV_WR_RDMA_READ, mr);
	memset(self.spare, 0x3c, self.bytes);
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

/* A window, through which writer 1 counts. */
static struct ibv_mw *show_window(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(self.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { self.mr, (uintptr_t)self.mr->addr,
						   self.mr->length, IBV_ACCESS_REMOTE_ATOMIC } };
	struct ibv_wc wc;

	assert_non_null(mw);
	assert_int_equal(ibv_bind_mw(own.qp, mw, &bind), 0);
	while (!ibv_poll_cq(own.cq, 1, &wc))
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	self.writer[1].wire->rkey = mw->rkey;
	return mw;
}

/* A queue pair is taken from one who is stopped, in memory in which others go on to count: nothing of
 * what they add is lost, and they see no error. Whether the former was in the middle of something. */
static bool play_bystander(enum way way)
{
	const struct wire *wire = self.writer[1].wire;
	uint64_t begun_ns, took_ns;
	struct ibv_mw *mw;

	/* then the one over all of it has two runs in the pool */
	self.other = ibv_reg_mr(self.pd, self.pages + 8192, 8192, RIG_ALL);
	assert_non_null(self.other);
	self.mr = ibv_reg_mr(self.pd, region_at(self.pages), self.bytes + 32,
			     RIG_ALL | IBV_ACCESS_MW_BIND);
	assert_non_null(self.mr);
	memset(word_behind(), 0, 24);
	for (int i = 0; i < WRITERS; i++) {
		begin_qp(i);
		fill_wire(i, true, false);
	}
	/* one keeps off the word, the other does nothing else */
	self.writer[1].wire->counts = true;
	self.writer[1].wire->at = (uintptr_t)word_behind();
	begin_own();
	mw = show_window();
	start_own();
	for (int i = 0; i < WRITERS; i++)
		writer_begin(&self.writer[i]);
	for (int i = 0; i < WRITERS; i++)
		writer_await_writes(&self.writer[i], 1);
	nap(2 * MS);
	writer_stop(&self.writer[0]);
	begun_ns = rig_now_ns();
	take_from(0, way);
	took_ns = rig_now_ns() - begun_ns;
	fill();
	guard("counting", way, 20 * MS);
	writer_continue(&self.writer[0]);
	guard("going on", way, 50 * MS);
	writer_await_end(&self.writer[0]);
	writer_await_writes(&self.writer[1], atomic_load(&wire->writes) + 100);
	take_from(1, way);
	writer_await_end(&self.writer[1]);
	assert_int_equal(counted(), atomic_load(&wire->writes));
	end_own();
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	end_region();
	return took_ns > 900 * MS;
}

static void bystander(enum place place)
{
	static const enum way ways[] = { TO_ERROR, TO_RESET, DESTROY };

	begin_memory(place, WRITE_MOST);
	for (size_t i = 0; i < COUNT(ways); i++) {
		int tries = 1;

		while (!play_bystander(ways[i]))
			assert_in_range(++tries, 1, TRIES);
	}
	end_memory();
}

static void bystander_pooled(void **state)
{
	bystander(POOLED);
}

static void bystander_mixed(void **state)
{
	bystander(MIXED);
}

/* While there is a region over all memory, pages that leave their place in the pool get no other there. */
static void bystander_held(void **state)
{
	struct ibv_mr *all;

	begin_memory(POOLED, WRITE_MOST);
	for (int tries = 1;; tries++) {
		/* registered before that, to be in the pool */
		struct ibv_mr *first = ibv_reg_mr(self.pd, self.pages, mapping_bytes(), RIG_ALL);
		bool stopped;

		assert_non_null(first);
		all = ibv_reg_mr(self.pd, NULL, SIZE_MAX, RIG_ALL | IBV_ACCESS_ON_DEMAND);
		assert_non_null(all);
		stopped = play_bystander(TO_ERROR);
		assert_int_equal(ibv_dereg_mr(all), 0);
		assert_int_equal(ibv_dereg_mr(first), 0);
		if (stopped)
			break;
		assert_in_range(tries, 1, TRIES);
	}
	end_memory();
}

static void kill_one(void)
{
	begin_memory(POOLED, WRITE_MOST);
	for (int tries = 1;; tries++) {
		bool caught = play_stopped(DEREGISTER, true);

		writer_start(&self.writer[0], 0xe2, next_random(&self.random));
		if (caught)
			break;
		assert_in_range(tries, 1, TRIES);
	}
	end_memory();
}

static void killed(void **state)
{
	kill_one();
}

/* ---- Importers ---- */

static void imported(void (*test)(enum place place), enum place place)
{
	self.imports = true;
	test(place);
	self.imports = false;
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

/* One importer is stopped, and the region that it writes to ends; another counts in one that stays, and
 * whose memory moves meanwhile. Whether the former was in the middle of something. */
static bool play_counting_importer(void)
{
	const struct wire *wire = self.writer[1].wire;
	uint64_t begun_ns, took_ns;

	self.mr = ibv_reg_mr(self.pd, region_at(self.pages), self.bytes + 32, RIG_ALL);
	self.other = ibv_reg_mr(self.pd, region_at(self.pages), self.bytes + 32, RIG_ALL);
	assert_non_null(self.mr);
	assert_non_null(self.other);
	memset(word_behind(), 0, 24);
	for (int i = 0; i < WRITERS; i++) {
		fill_wire(i, true, false);
		writer_give(&self.writer[i], self.context->cmd_fd);
	}
	self.writer[1].wire->counts = true;
	self.writer[1].wire->at = (uintptr_t)word_behind();
	self.writer[1].wire->rkey = self.other->rkey;
	for (int i = 0; i < WRITERS; i++)
		writer_begin(&self.writer[i]);
	for (int i = 0; i < WRITERS; i++)
		writer_await_writes(&self.writer[i], 1);
	nap(2 * MS);
	writer_stop(&self.writer[0]);
	begun_ns = rig_now_ns();
	take_from(0, DEREGISTER);
	took_ns = rig_now_ns() - begun_ns;
	fill();
	guard("counting", ONE_OF_TWO, 20 * MS);
	writer_continue(&self.writer[0]);
	guard("going on", ONE_OF_TWO, 50 * MS);
	writer_await_end(&self.writer[0]);
	writer_await_writes(&self.writer[1], atomic_load(&wire->writes) + 100);
	end_region();
	writer_await_end(&self.writer[1]);
	assert_int_equal(counted(), atomic_load(&wire->writes));
	return took_ns > 900 * MS;
}

static void counting_importer(void **state)
{
	self.imports = true;
	begin_memory(POOLED, WRITE_MOST);
	for (int caught = 0, tries = 0; caught < 3; tries++) {
		assert_in_range(tries, 0, 3 * TRIES);
		caught += play_counting_importer();
	}
	end_memory();
	self.imports = false;
}

static void importer_killed(void **state)
{
	self.imports = true;
	kill_one();
	self.imports = false;
}

/* ---- Completion queues ---- */

static void receive(int i)
{
	assert_int_equal(rig_receive(self.qp[i], 0, NULL, NULL, 0), 0);
}

static void resize(int i)
{
	uint32_t cqe = RIG_DEPTH + (uint32_t)(next_random(&self.random) % (64 * RIG_DEPTH));

	assert_int_equal(ibv_resize_cq(self.cq[i], (int)cqe), 0);
}

/* No completion is lost, doubled or out of order while the queue changes its size; and none comes
 * into the queue that follows a destroyed one. */
static void resize_round(uint32_t completions)
{
	uint32_t next[WRITERS] = { 0 };
	struct ibv_wc wc;

	begin_region();
	for (int i = 0; i < WRITERS; i++) {
		begin_qp(i);
		rig_none(self.cq[i]);
		for (int k = 0; k < RIG_DEPTH; k++)
			receive(i);
		begin_writer(i, false, true);
	}
	while (next[0] < completions || next[1] < completions)
		for (int i = 0; i < WRITERS; i++) {
			for (int k = 0; k < 100 && ibv_poll_cq(self.cq[i], 1, &wc); k++) {
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
				assert_int_equal(wc.imm_data, next[i]++);
				receive(i);
			}
			resize(i);
		}
	take_away(DESTROY);
	end_round(DESTROY);
	end_region();
}

static void completions(void **state)
{
	uint64_t end_ns = rig_now_ns() + seconds * 1000 * MS / 10;

	begin_memory(POOLED, 4096);
	for (int i = 0; i < WRITERS; i++)
		if (self.qp[i])
			destroy(i);
	do
		resize_round(2000);
	while (rig_now_ns() < end_ns);
	end_memory();
}

/* ---- The test program ---- */

static int open_all(void **state)
{
	make_pool(state);
	for (int i = 0; i < WRITERS; i++)
		writer_start(&self.writer[i], (uint8_t)(0xe0 + i), next_random(&self.random));
	self.context = rig_context();
	self.pd = ibv_alloc_pd(self.context);
	self.other_pd = ibv_alloc_pd(self.context);
	return self.pd && self.other_pd ? 0 : -1;
}

static int close_all(void **state)
{
	for (int i = 0; i < WRITERS; i++)
		writer_kill(&self.writer[i]);
	for (enum place place = 0; place < PLACES; place++)
		for (enum way way = 0; way < WAYS; way++)
			print_message("%-8s  %-16s  %6" PRIu64 " times\n", place_name[place],
				      way_name[way], self.rounds[place][way]);
	return remove_pool(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_speed_pooled),   cmocka_unit_test(full_speed_mixed),
		cmocka_unit_test(full_speed_in_place), cmocka_unit_test(stopped_pooled),
		cmocka_unit_test(stopped_mixed),       cmocka_unit_test(stopped_in_place),
		cmocka_unit_test(bystander_pooled),    cmocka_unit_test(bystander_mixed),
		cmocka_unit_test(bystander_held),
		cmocka_unit_test(killed),	       cmocka_unit_test(imported_pooled),
		cmocka_unit_test(imported_mixed),      cmocka_unit_test(imported_in_place),
		cmocka_unit_test(importer_stopped),    cmocka_unit_test(importer_stopped_in_place),
		cmocka_unit_test(counting_importer),   cmocka_unit_test(importer_killed),
		cmocka_unit_test(completions),
	};
	const char *seed = getenv("SEED");

	self.random = seed ? strtoull(seed, NULL, 0) : rig_now_ns() | 1;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "engine"))
			rig_forbid_process_vm();
		else
			seconds = strtoull(argv[i], NULL, 0);
	}
	print_message("SEED=%" PRIu64 ", %" PRIu64 " seconds\n", self.random, seconds);
	return cmocka_run_group_tests_name("revoke", tests, open_all, close_all);
}
