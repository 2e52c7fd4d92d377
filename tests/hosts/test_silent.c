/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Silence: all processes of another host are stopped at random moments, while they write. Stopped for less than the pool's
 * silence, none notices; stopped for longer, requests to them end, memory that they could reach is taken from them
 * and used for something else, and when they go on none of its bytes changes. Argument: how often (40).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "../revoke/writer.h"
#include "../verbs/rig.h"

#define SILENCE	   "500" /* ms */
#define SILENCE_NS 500000000ull
#define MS	   1000000ull
#define TIMER	   14u /* 67 ms */
#define RETRIES	   6u
#define TIMERS_NS  ((RETRIES + 1) * (4096ull << TIMER))
/* the bound is T and a second; as much for a machine that has other work */
#define LATE_NS	  (SILENCE_NS + 1000 * MS + 2000 * MS)
#define REVOKE_NS (2000 * MS)
#define PATTERN	  0x5a

static uint64_t times = 40, seed = 1;
static struct writer writer;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint64_t late_ns, longest_ns;

/* ---- One round ---- */

static void begin_round(void)
{
	static const uint64_t sizes[] = {4096, 64 << 10, 4 << 20};
	uint64_t bytes = sizes[next_random(&seed) % (sizeof(sizes) / sizeof(sizes[0]))];
	struct ibv_qp_init_attr init = rig_init(cq, cq);
	struct ibv_qp_attr attr;

	mr = rig_region(pd, bytes);
	qp = ibv_create_qp(pd, &init);
	assert_non_null(qp);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		attr = rig_attr(context, s, writer_await_ready(&writer));
		attr.timeout = TIMER;
		attr.retry_cnt = RETRIES;
		assert_int_equal(ibv_modify_qp(qp, &attr, rig_mask(IBV_QPT_RC, s)), 0);
	}
	writer.wire->counts = writer.wire->numbered = writer.wire->imports = false;
	writer.wire->large = next_random(&seed) % 2;
	writer.wire->qpn = qp->qp_num;
	writer.wire->rkey = mr->rkey;
	writer.wire->at = (uintptr_t)mr->addr;
	writer.wire->bytes = bytes;
	writer_begin(&writer);
	writer_await_writes(&writer, 1 + next_random(&seed) % 50);
	usleep((useconds_t)(next_random(&seed) % 3000));
	writer_stop(&writer);
}

static void end_round(void)
{
	writer_await_end(&writer);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	rig_region_end(mr);
}

/* The status of a WRITE of no bytes to the writer. */
static enum ibv_wc_status probe(void)
{
	struct ibv_send_wr *bad,
		wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	uint64_t deadline_ns = rig_now_ns() + 60000 * MS;
	struct ibv_wc wc;

	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	while (!ibv_poll_cq(cq, 1, &wc))
		assert_true(rig_now_ns() < deadline_ns);
	return wc.status;
}

/* ---- Not noticed, and noticed ---- */

static void stop_briefly(void)
{
	uint64_t writes;

	begin_round();
	usleep(1000 * (unsigned int)(next_random(&seed) % 120));
	writes = atomic_load(&writer.wire->writes);
	writer_continue(&writer);
	writer_await_writes(&writer, writes + 10);
	assert_int_equal(probe(), IBV_WC_SUCCESS);
	assert_int_equal(
		ibv_modify_qp(qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE), 0);
	end_round();
}

/* They succeed as long as the writer is not silent: its memory is there. */
static void await_failure(uint64_t stopped_ns)
{
	enum ibv_wc_status status;

	do
		status = probe();
	while (!status && rig_now_ns() - stopped_ns < 60000 * MS);
	assert_int_equal(status, IBV_WC_RETRY_EXC_ERR);
	late_ns = rig_now_ns() - stopped_ns - TIMERS_NS > late_ns
			  ? rig_now_ns() - stopped_ns - TIMERS_NS
			  : late_ns;
	assert_in_range(rig_now_ns() - stopped_ns, SILENCE_NS, LATE_NS + TIMERS_NS);
}

static void check(const struct ibv_mr *again, const char *when)
{
	const uint8_t *at = again->addr;

	for (uint64_t i = 0; i < again->length; i++)
		if (at[i] != PATTERN)
			fail_msg("%s: byte %ju of %zu is %02x", when, (uintmax_t)i, again->length,
				 at[i]);
}

static void stop_for_long(bool ask)
{
	uint64_t stopped_ns, begun_ns, took_ns;
	struct ibv_mr *again;

	begin_round();
	stopped_ns = rig_now_ns();
	if (ask)
		await_failure(stopped_ns);
	begun_ns = rig_now_ns();
	rig_region_end(mr);
	took_ns = rig_now_ns() - begun_ns;
	longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
	assert_in_range(took_ns, 0, REVOKE_NS);
	again = rig_region(pd, writer.wire->bytes);
	memset(again->addr, PATTERN, again->length);
	while (rig_now_ns() - stopped_ns < SILENCE_NS + 100 * MS)
		usleep(10000);
	check(again, "silent");
	writer_continue(&writer);
	writer_await_end(&writer);
	check(again, "going on");
	mr = again;
	end_round();
}

static void test_stops(void **state)
{
	uint64_t for_long = 0;

	for (uint64_t i = 0; i < times; i++) {
		if (i % 2) {
			stop_briefly();
			continue;
		}
		stop_for_long(for_long++ % 4 == 0);
	}
	print_message(
		"%ju stops, %ju of them longer than the silence: requests ended %ju ms after the "
		"stop but for their timers, revocations took %ju ms, at most\n",
		(uintmax_t)times, (uintmax_t)for_long, (uintmax_t)(late_ns / MS),
		(uintmax_t)(longest_ns / MS));
}

/* ---- The whole ---- */

static int begin(void **state)
{
	setenv("WEFT_TEST_SILENCE", SILENCE, 1);
	if (make_pool(state))
		return -1;
	writer_start(&writer, 1, 99);
	context = rig_context();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, RIG_DEPTH, NULL, NULL, 0);
	return pd && cq ? 0 : -1;
}

static int end(void **state)
{
	writer_kill(&writer);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	return remove_pool(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stops),
	};

	if (argc > 1)
		times = strtoull(argv[1], NULL, 10);
	return cmocka_run_group_tests_name("silent", tests, begin, end);
}
