/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Many threads: on one queue pair, on shared completion queues, while objects come and go. */
#include "rig.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../abi/pool.h"

#define PATIENCE_NS 30000000000ull
#define BYTES	    65536u

/* The first thread that fails names the cause here, and the test reports it. */
static const char *_Atomic failure;
static struct ibv_mr *memory;
static uint8_t *bytes; /* of it */
static uint64_t deadline_ns;

static bool failed(void)
{
	const char *none = NULL;

	if (rig_now_ns() > deadline_ns)
		atomic_compare_exchange_strong(&failure, &none, "time is over");
	return atomic_load(&failure);
}

static void must(bool ok, const char *what)
{
	const char *none = NULL;

	if (!ok)
		atomic_compare_exchange_strong(&failure, &none, what);
}

static int setup(void **state)
{
	rig_setup(state);
	memory = rig_region(((struct rig *)*state)->pd, BYTES);
	bytes = memory->addr;
	atomic_store(&failure, NULL);
	deadline_ns = rig_now_ns() + PATIENCE_NS;
	return 0;
}

static int teardown(void **state)
{
	rig_region_end(memory);
	return rig_teardown(state);
}

static void run_threads(int n, void *(*fn)(void *), void *args, size_t arg_bytes)
{
	pthread_t thread[128];

	for (int i = 0; i < n; i++)
		assert_int_equal(
			pthread_create(&thread[i], NULL, fn, (char *)args + (size_t)i * arg_bytes),
			0);
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	if (atomic_load(&failure))
		fail_msg("%s", atomic_load(&failure));
}

/* ---- One queue pair ---- */

struct poster {
	struct ibv_qp *qp;
	enum ibv_wr_opcode opcode;
	uint64_t number, count;
	atomic_int *credits; /* how many more requests the posters may have outstanding */
};

static void *post_many(void *arg)
{
	struct poster *p = arg;
	uint8_t *slot = bytes + 1024 * p->number;

	for (uint64_t i = 0; i < p->count && !failed(); i++) {
		while (atomic_fetch_sub(p->credits, 1) <= 0 && !failed()) {
			atomic_fetch_add(p->credits, 1);
			sched_yield();
		}
		must(!rig_rdma(p->qp, p->opcode, p->number << 32 | i, memory, slot, 8,
			       (uintptr_t)slot + 64, memory->rkey),
		     "a post was refused");
	}
	return NULL;
}

struct poller {
	struct ibv_cq *cq;
	/* NULL, or the queue pair whose receives are posted again as they complete */
	struct ibv_qp *refill;
	_Atomic uint64_t *left;
	atomic_int *credits;
	/* for each poster the wr_id that completes next, as its requests complete in order */
	uint64_t next[8];
	bool ordered;
};

static void *poll_many(void *arg)
{
	struct poller *p = arg;
	struct ibv_wc wc[8];

	while (atomic_load(p->left) && !failed()) {
		int n = ibv_poll_cq(p->cq, 8, wc);

		if (!n)
			sched_yield();
		for (int i = 0; i < n; i++) {
			must(wc[i].status == IBV_WC_SUCCESS, "a request failed");
			must(!p->ordered ||
				     (wc[i].wr_id & UINT32_MAX) == p->next[wc[i].wr_id >> 32]++,
			     "out of order");
			if (p->refill)
				must(!rig_receive(p->refill, 0, NULL, NULL, 0), "post_recv");
			if (p->credits)
				atomic_fetch_add(p->credits, 1);
		}
		atomic_fetch_sub(p->left, (uint64_t)n);
	}
	return NULL;
}

static void posters_on_one_qp(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct rig *rig = *state;
	struct poster poster[4];
	pthread_t thread;

	rig_connect(rig, &(struct rig_wish){0});
	for (size_t op = 0; op < COUNT(opcodes); op++) {
		_Atomic uint64_t left = 4 * 3000;
		atomic_int credits = RIG_DEPTH;
		struct poller poller = {rig->cq[0], NULL, &left, &credits, {0}, true};

		for (uint64_t i = 0; i < 4; i++) {
			poster[i] = (struct poster){rig->qp[0], opcodes[op], i, 3000, &credits};
			memset(bytes + 1024 * i, 0, 1024);
		}
		assert_int_equal(pthread_create(&thread, NULL, poll_many, &poller), 0);
		run_threads(4, post_many, poster, sizeof(*poster));
		pthread_join(thread, NULL);
		assert_null(atomic_load(&failure));
		rig_none(rig->cq[0]);
	}
	for (size_t i = 0; i < 4; i++) /* the last four requests were fetch-and-adds of 1 */
		assert_int_equal(*(uint64_t *)(bytes + 1024 * i + 64), 3000);
}

/* Receives, SENDs and both sorts of completions, each by a thread of its own; the receiver is often not
 * ready. */
static void senders_and_receivers(void **state)
{
	struct rig *rig = *state;
	_Atomic uint64_t sent = 2 * 3000, received = 2 * 3000;
	atomic_int credits = RIG_DEPTH;
	struct poller poller[2] = {{rig->cq[0], NULL, &sent, &credits, {0}, true},
				   {rig->cq[1], rig->qp[1], &received, NULL, {0}, false}};
	struct poster poster[2];
	pthread_t thread[2];

	rig_connect(rig, &(struct rig_wish){0});
	for (int i = 0; i < 3; i++)
		assert_int_equal(rig_receive(rig->qp[1], 0, NULL, NULL, 0), 0);
	/* these requests have no bytes, as the receives have no room */
	for (uint64_t i = 0; i < 2; i++)
		poster[i] =
			(struct poster){rig->qp[0], IBV_WR_RDMA_WRITE_WITH_IMM, i, 3000, &credits};
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, poll_many, &poller[i]), 0);
	run_threads(2, post_many, poster, sizeof(*poster));
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_null(atomic_load(&failure));
	assert_int_equal(sent, 0);
	assert_int_equal(received, 0);
}

/* ---- Shared completion queues ---- */

static void shared_cqs(void **state)
{
	struct rig *rig = *state;
	_Atomic uint64_t left = 4 * RIG_DEPTH * 2;
	atomic_int credits = 100;
	struct poller poller[2];
	struct poster poster[4];
	struct ibv_qp *qp[4][2];
	pthread_t thread[2];

	for (uint64_t i = 0; i < 4; i++) {
		struct ibv_qp_init_attr init = rig_init(rig->cq[0], rig->cq[0]);

		qp[i][0] = ibv_create_qp(rig->pd, &init);
		qp[i][1] = ibv_create_qp(rig->pd, &init);
		for (int k = 0; k < 2; k++)
			rig_modify(qp[i][k], IBV_QPS_INIT, 0);
		for (int k = 0; k < RIG_DEPTH; k++)
			assert_int_equal(rig_receive(qp[i][1], i, NULL, NULL, 0), 0);
		for (int k = 0; k < 2; k++) {
			struct ibv_qp_attr attr =
				rig_attr(rig->context, IBV_QPS_RTR, qp[i][!k]->qp_num);

			assert_int_equal(ibv_modify_qp(qp[i][k], &attr, RIG_RTR_MASK), 0);
			attr.qp_state = IBV_QPS_RTS;
			assert_int_equal(ibv_modify_qp(qp[i][k], &attr, RIG_RTS_MASK), 0);
		}
		/* all receives are posted before, so that no thread has to post them again */
		poster[i] = (struct poster){qp[i][0], IBV_WR_RDMA_WRITE_WITH_IMM, i, RIG_DEPTH,
					    &credits};
	}
	for (int i = 0; i < 2; i++) {
		poller[i] = (struct poller){rig->cq[0], NULL, &left, &credits, {0}, false};
		assert_int_equal(pthread_create(&thread[i], NULL, poll_many, &poller[i]), 0);
	}
	run_threads(4, post_many, poster, sizeof(*poster));
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_null(atomic_load(&failure));
	assert_int_equal(left, 0);
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 2; k++)
			assert_int_equal(ibv_destroy_qp(qp[i][k]), 0);
}

/* ---- More threads than busy lines ---- */

#define CROWD 100

struct one {
	struct rig *rig;
	uint64_t number;
	pthread_barrier_t *barrier;
	uint32_t key;
};

/* With queues of its own each thread adds to one counter in pooled memory and to one in memory in place. */
static void *add_and_write(void *arg)
{
	static struct ibv_mr *_Atomic in_place;
	static uint64_t counter;
	struct one *one = arg;
	struct ibv_cq *cq = ibv_create_cq(one->rig->context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = rig_init(cq, cq);
	struct ibv_qp *qp = ibv_create_qp(one->rig->pd, &init);
	uint8_t *slot = bytes + 256 + 256 * one->number;
	uint64_t at[2] = {(uintptr_t)bytes, (uintptr_t)&counter};
	uint32_t key[2] = {memory->rkey, 0};
	struct ibv_wc wc;

	rig_modify(qp, IBV_QPS_RTS, qp->qp_num);
	if (one->number == 0)
		atomic_store(&in_place, ibv_reg_mr(one->rig->pd, &counter, 8, RIG_ALL));
	pthread_barrier_wait(one->barrier);
	key[1] = atomic_load(&in_place)->rkey;
	for (uint64_t i = 0; i < 50 && !failed(); i++)
		for (int k = 0; k < 3; k++) {
			memcpy(slot, &i, 8);
			must(!(k < 2 ? rig_rdma(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, i, memory,
						slot + 64, 8, at[k], key[k])
				     : rig_rdma(qp, IBV_WR_RDMA_WRITE, i, memory, slot, 8,
						(uintptr_t)slot + 128, memory->rkey)),
			     "a post was refused");
			while (!ibv_poll_cq(cq, 1, &wc) && !failed())
				sched_yield();
			must(wc.status == IBV_WC_SUCCESS && wc.wr_id == i, "a request failed");
			must(k < 2 || *(uint64_t *)(slot + 128) == i, "not written");
		}
	pthread_barrier_wait(one->barrier);
	if (one->number == 0) {
		must(counter == CROWD * 50, "the counter in place");
		must(!ibv_dereg_mr(atomic_load(&in_place)), "dereg");
	}
	must(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq), "destroy");
	return NULL;
}

static void crowd(void **state)
{
	pthread_barrier_t barrier;
	struct one one[CROWD];

	pthread_barrier_init(&barrier, NULL, CROWD);
	for (uint64_t i = 0; i < CROWD; i++)
		one[i] = (struct one){*state, i, &barrier, 0};
	memset(bytes, 0, BYTES);
	run_threads(CROWD, add_and_write, one, sizeof(*one));
	assert_int_equal(*(uint64_t *)bytes, CROWD * 50);
}

/* One thread after the other, so that each takes the busy line of one that has ended. */
static void many_short_ones(void **state)
{
	struct rig *rig = *state;
	struct poster poster;
	atomic_int credits;

	rig_connect(rig, &(struct rig_wish){0});
	for (uint64_t i = 0; i < 300; i++) {
		atomic_store(&credits, 10);
		poster = (struct poster){rig->qp[0], IBV_WR_RDMA_WRITE, 1, 3, &credits};
		run_threads(1, post_many, &poster, sizeof(poster));
		for (uint64_t k = 0; k < 3; k++)
			rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1ull << 32 | k);
	}
}

/* ---- Objects that come and go ---- */

static atomic_bool stop;

static void *write_until_stopped(void *arg)
{
	struct ibv_qp *qp = ((struct rig *)arg)->qp[0];
	struct ibv_cq *cq = ((struct rig *)arg)->cq[0];
	struct ibv_wc wc;

	for (uint64_t i = 0; !atomic_load(&stop) && !failed(); i++) {
		memcpy(bytes, &i, 8);
		must(!rig_rdma(qp, IBV_WR_RDMA_WRITE, i, memory, bytes, 4096,
			       (uintptr_t)bytes + 8192, memory->rkey),
		     "a post was refused");
		while (!ibv_poll_cq(cq, 1, &wc) && !failed())
			sched_yield();
		must(wc.status == IBV_WC_SUCCESS && wc.wr_id == i, "a request failed");
		must(!memcmp(bytes, bytes + 8192, 4096), "not written");
	}
	return NULL;
}

/* Regions of many sizes, some of them beside regions in use. */
static void *register_many(void *arg)
{
	struct rig *rig = arg;
	unsigned int seed = (unsigned int)(uintptr_t)&rig;

	for (int i = 0; i < 200 && !failed(); i++) {
		size_t length = 1 + (size_t)rand_r(&seed) % 300000;
		uint8_t *at = malloc(length);
		struct ibv_mr *mr;

		memset(at, i, length);
		mr = ibv_reg_mr(rig->pd, at, length, RIG_ALL);
		must(mr != NULL, "reg_mr");
		at[0] ^= 1;
		must(mr && !ibv_dereg_mr(mr), "dereg_mr");
		must(at[0] == (uint8_t)(i ^ 1), "the first byte");
		for (size_t k = 1; k < length; k += 997)
			must(at[k] == (uint8_t)i, "the bytes");
		free(at);
	}
	return NULL;
}

static void *create_many(void *arg)
{
	struct rig *rig = arg;

	for (int i = 0; i < 100 && !failed(); i++) {
		struct ibv_pd *pd = ibv_alloc_pd(rig->context);
		struct ibv_cq *cq = ibv_create_cq(rig->context, 100, NULL, rig->channel, 0);
		struct ibv_qp_init_attr init = rig_init(cq, cq);
		struct ibv_qp *qp = ibv_create_qp(pd, &init);
		struct ibv_mr *mr = ibv_reg_mr(pd, &init, sizeof(init), RIG_ALL);

		must(pd && cq && qp && mr, "create");
		rig_modify(qp, IBV_QPS_RTS, qp->qp_num);
		/* waits, as there is no receive */
		must(!rig_send(qp, 1, mr, &init, 8), "post_send");
		must(!ibv_req_notify_cq(cq, 0), "arm");
		if (i % 2)
			must(!rig_receive(qp, 2, mr, &init, 8), "post_recv");
		must(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq), "destroy");
		must(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd), "destroy");
	}
	return NULL;
}

static void while_traffic_flows(struct rig *rig, void *(*fn)(void *))
{
	pthread_t thread;

	rig_connect(rig, &(struct rig_wish){0});
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, write_until_stopped, rig), 0);
	run_threads(3, fn, rig, 0);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	assert_null(atomic_load(&failure));
}

static void registering(void **state)
{
	while_traffic_flows(*state, register_many);
}

static void creating(void **state)
{
	while_traffic_flows(*state, create_many);
}

/* A region is deregistered while requests use it: each of them succeeds, or fails by its key with a status
 * that a stale key has. */
static void *use_a_dying_key(void *arg)
{
	struct one *one = arg;
	struct ibv_cq *cq = one->rig->cq[one->number];
	struct ibv_wc wc = {0};

	for (uint64_t i = 0; !atomic_load(&stop) && !failed() && wc.status == IBV_WC_SUCCESS; i++) {
		must(!rig_rdma(one->rig->qp[one->number], IBV_WR_RDMA_WRITE, i, memory, bytes, 4096,
			       (uintptr_t)bytes + 16384 + 4096 * one->number, one->key),
		     "a post was refused");
		while (!ibv_poll_cq(cq, 1, &wc) && !failed())
			sched_yield();
	}
	must(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_WR_FLUSH_ERR,
	     "no such error");
	return NULL;
}

static void revoking(void **state)
{
	struct rig *rig = *state;

	for (int round = 0; round < 30; round++) {
		struct ibv_mr *mr = ibv_reg_mr(rig->pd, bytes + 16384, 8192, RIG_ALL);
		struct one one[2] = {{rig, 0, NULL, mr->rkey}, {rig, 1, NULL, mr->rkey}};
		pthread_t thread[2];

		rig_reconnect(rig, &(struct rig_wish){0});
		atomic_store(&stop, false);
		for (int i = 0; i < 2; i++)
			assert_int_equal(pthread_create(&thread[i], NULL, use_a_dying_key, &one[i]),
					 0);
		for (uint64_t end = rig_now_ns() + (uint64_t)round * 50000; rig_now_ns() < end;)
			sched_yield();
		assert_int_equal(ibv_dereg_mr(mr), 0);
		for (int i = 0; i < 2; i++)
			pthread_join(thread[i], NULL);
		if (atomic_load(&failure))
			fail_msg("%s", atomic_load(&failure));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(posters_on_one_qp, setup, teardown),
		cmocka_unit_test_setup_teardown(senders_and_receivers, setup, teardown),
		cmocka_unit_test_setup_teardown(shared_cqs, setup, teardown),
		cmocka_unit_test_setup_teardown(crowd, setup, teardown),
		cmocka_unit_test_setup_teardown(many_short_ones, setup, teardown),
		cmocka_unit_test_setup_teardown(registering, setup, teardown),
		cmocka_unit_test_setup_teardown(creating, setup, teardown),
		cmocka_unit_test_setup_teardown(revoking, setup, teardown),
	};

	return cmocka_run_group_tests_name("threads", tests, make_pool, remove_pool);
}
