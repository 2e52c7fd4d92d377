/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * errors.tsv: what becomes of a request when something is wrong, and of both queue pairs. The table's path is
 * the argument; each of its rows is a test. Everything is run with WEFT_EXPLAIN: for each completion in
 * error, and for each event of a queue pair's error, there is one line, and the request's line names the
 * row's clause and the value that was wrong.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ends.h"
#include "errors.h"
#include "told.h"

#include "../abi/pool.h"

#define REQUESTS   5 /* the one at fault, and those posted behind it */
#define RECEIVES   4 /* of the peer; their wr_ids begin with: */
#define RECEIVE_ID 100
#define PEERS_ID   50 /* wr_id of a request of the peer's own */

/* ---- The table ---- */

static void a_row_for_each_cause(void **state)
{
	bool ok = true;

	for (size_t i = 0; i < nrows; i++) {
		if (rows[i].trouble)
			print_error("line %d: %s\n", rows[i].line, rows[i].trouble);
		ok &= !rows[i].trouble;
	}
	for (size_t i = 0; i < ncauses; i++)
		for (enum verb v = 0; v < VERBS; v++) {
			unsigned int n = 0;

			for (size_t k = 0; k < nrows; k++)
				n += rows[k].cause == &causes[i] && rows[k].verb == v;
			if (n == (causes[i].verbs >> v & 1))
				continue;
			print_error("%s, %s: %u rows\n", verb_name[v], causes[i].name, n);
			ok = false;
		}
	assert_true(ok);
}

/* ---- The objects of a test ---- */

static struct rig rig;
static struct ibv_pd *other;
static uint8_t *memory[2];
static struct ibv_mr *region[2][KEYS];
static uint32_t stale[2];

static void make_regions(int side)
{
	memory[side] = rig_pages(CAUSES_BYTES);
	memset(memory[side], 0x11 << side, CAUSES_BYTES);
	for (enum key k = 0; k < KEYS; k++) {
		int access = k == READ_ONLY ? 0 : k == LOCAL ? IBV_ACCESS_LOCAL_WRITE : RIG_ALL;

		region[side][k] = ibv_reg_mr(k == FOREIGN ? other : rig.pd, memory[side],
					     CAUSES_BYTES, access);
		assert_non_null(region[side][k]);
	}
	stale[side] = region[side][STALE]->rkey;
	assert_int_equal(ibv_dereg_mr(region[side][STALE]), 0);
	region[side][STALE] = NULL;
}

static int setup(void **state)
{
	rig = (struct rig){0};
	rig_open(&rig);
	other = ibv_alloc_pd(rig.context);
	assert_non_null(other);
	make_regions(0);
	make_regions(1);
	return 0;
}

static int teardown(void **state)
{
	told_end();
	for (int side = 0; side < 2; side++) {
		for (enum key k = 0; k < KEYS; k++)
			if (region[side][k])
				assert_int_equal(ibv_dereg_mr(region[side][k]), 0);
		assert_int_equal(munmap(memory[side], CAUSES_BYTES), 0);
	}
	assert_int_equal(ibv_dealloc_pd(other), 0);
	rig_close(&rig);
	return 0;
}

static uint32_t key_of(int side, enum key key)
{
	if (key == ZERO)
		return 0;
	if (key == STALE)
		return stale[side];
	return region[side][key]->rkey ^ (key == GARBLED ? 0x800 : 0);
}

/* An address at either side; the offset may lie outside its memory. */
static uint64_t at(int side, int offset)
{
	return (uintptr_t)memory[side] + (uintptr_t)(intptr_t)offset;
}

/* ---- Posting ---- */

static void post_receives(struct ibv_qp *qp, const struct cause *c, uint64_t id, int n)
{
	uint32_t room = c->room == NO_ROOM ? 0 : c->room ? (uint32_t)c->room : 64;
	struct ibv_sge sge = {at(1, c->receive_at), room, key_of(1, c->receive)};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	for (wr.wr_id = id; n--; wr.wr_id++)
		assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

/* Posted as one list. Only the first request has a wrong key; the others are good. */
static void post_requests(struct ibv_qp *qp, const struct row *row, int n, uint64_t add)
{
	const struct cause *c = row->cause;
	uint32_t length = c->length ? c->length : 8, half = c->split ? length / 2 : 0;
	struct ibv_sge sge[2] = {{at(0, c->from), half, key_of(0, GOOD)},
				 {at(0, c->from) + half, length - half, key_of(0, c->here)}};
	struct ibv_send_wr *bad, wr = {.sg_list = c->split ? sge : &sge[1],
				       .num_sge = c->split ? 2 : 1,
				       .opcode = opcode_of(row->verb)};
	struct ibv_send_wr list[RIG_DEPTH];

	if (wr.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = at(1, c->to);
		wr.wr.atomic.rkey = key_of(1, c->there);
		wr.wr.atomic.compare_add = add;
	} else {
		wr.wr.rdma.remote_addr = at(1, c->to);
		wr.wr.rdma.rkey = key_of(1, c->there);
	}
	for (int i = 0; i < n; i++) {
		list[i] = wr;
		list[i].wr_id = (uint64_t)i;
		list[i].send_flags = add ? 0 : IBV_SEND_SIGNALED;
		list[i].next = i + 1 < n ? &list[i + 1] : NULL;
	}
	assert_int_equal(ibv_post_send(qp, list, &bad), 0);
}

/* ---- What WEFT_EXPLAIN tells ---- */

/* What is known of the request under test, noted while its queue pair still exists. */
static struct {
	uint32_t qpn, peer;
	unsigned int events, elsewhere; /* errors that another process tells, not this one */
} seen;

static void see(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init), 0);
	seen.qpn = qp->qp_num;
	seen.peer = attr.dest_qp_num;
}

/* The value that is wrong, in the words of the explanation. */
static void tell_value(const struct row *row, char *to, size_t room)
{
	const struct cause *c = row->cause;

	switch (row->outcome.status) {
	case IBV_WC_LOC_LEN_ERR:
		snprintf(to, room, ": %u bytes:", c->length);
		break;
	case IBV_WC_LOC_QP_OP_ERR:
		snprintf(to, room, "max_rd_atomic 0");
		break;
	case IBV_WC_LOC_PROT_ERR:
		snprintf(to, room, "lkey 0x%x for [0x%lx, +%u)", key_of(0, c->here),
			 at(0, c->from) + (c->split ? 4 : 0),
			 c->length  ? c->length
			 : c->split ? 4
				    : 8);
		break;
	case IBV_WC_REM_ACCESS_ERR:
		snprintf(to, room, "rkey 0x%x for [0x%lx, +8)", key_of(1, c->there), at(1, c->to));
		break;
	case IBV_WC_REM_INV_REQ_ERR:
		if (c->no_right || c->no_reads)
			snprintf(to, room, "QP 0x%x refuses it: its qp_access_flags", seen.peer);
		else if (c->to)
			snprintf(to, room, "address 0x%lx", at(1, c->to));
		else
			snprintf(to, room, ": %u bytes are more", c->length);
		break;
	case IBV_WC_REM_OP_ERR:
		snprintf(to, room, "QP 0x%x", seen.peer);
		break;
	case IBV_WC_RETRY_EXC_ERR:
		snprintf(to, room, "%sQP 0x%x%s",
			 strcmp(c->name, CAUSE_NO_ADDRESS)
				 ? ""
				 : "member of the pool has the address of ",
			 seen.peer,
			 strcmp(c->name, CAUSE_PSN)
				 ? ""
				 : " has rq_psn 0x123456, and this one sq_psn 0x123457");
		break;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		snprintf(to, room, "after %d retries",
			 c->rnr_retry == RIG_NO_RNR_RETRY ? 0 : c->rnr_retry);
		break;
	case IBV_WC_WR_FLUSH_ERR:
		snprintf(to, room, "is in ERR");
		break;
	default: /* the completion is lost, and an event tells of that */
		snprintf(to, room, "%s",
			 ibv_event_type_str(row->verb == RECV ? IBV_EVENT_QP_LAST_WQE_REACHED
							      : IBV_EVENT_QP_FATAL));
	}
}

static void check_told(const struct row *row)
{
	bool lost = row->outcome.status == LOST,
	     unmapped = !strcmp(row->cause->name, CAUSE_UNMAPPED);
	char qp[32], id[32], value[96], clause[32];
	const char *words[] = {qp, id, value, clause,
			       lost ? NULL
				    : ibv_wc_status_str((enum ibv_wc_status)row->outcome.status)};
	unsigned int lines, all;

	snprintf(qp, sizeof(qp), "weft: QP 0x%x: ", seen.qpn);
	snprintf(id, sizeof(id), lost ? "QP" : " of wr_id %d: ", unmapped);
	snprintf(clause, sizeof(clause), "; IBTA %s", row->clause);
	tell_value(row, value, sizeof(value));
	lines = told_lines(words, COUNT(words));
	all = told_lines(NULL, 0);
	if (lines == 1 && all == rig_errors + seen.events + seen.elsewhere)
		return;
	told_show();
	fail_msg("%u lines, of %u, have \"%s\"%s\"%s\"%s\"; %u completions and %u events were in "
		 "error",
		 lines, all, qp, id, value, clause, rig_errors, seen.events + seen.elsewhere);
}

/* ---- What has happened ---- */

/* Waits for the events that must come, and demands that no other comes. */
static void check_events(const struct outcome *must, const struct ibv_qp *own,
			 const struct ibv_cq *cq)
{
	struct pollfd fd = {rig.context->async_fd, POLLIN, 0};
	unsigned int had = 0, peer_had = 0;
	struct ibv_async_event event;

	while (had != must->event || peer_had != must->peer_event) {
		assert_int_equal(poll(&fd, 1, 10000), 1);
		assert_int_equal(ibv_get_async_event(rig.context, &event), 0);
		if (event.element.qp == own || event.element.cq == cq)
			had |= 1u << event.event_type;
		else if (event.element.qp == rig.qp[1])
			peer_had |= 1u << event.event_type;
		ibv_ack_async_event(&event);
		assert_false(had & ~must->event || peer_had & ~must->peer_event);
		seen.events++;
	}
	assert_int_equal(poll(&fd, 1, 0), 0);
}

static void check_requester(const struct row *row)
{
	rig_expect(rig.cq[0], (enum ibv_wc_status)row->outcome.status, 0);
	for (uint64_t i = 1; i < REQUESTS; i++)
		rig_expect(rig.cq[0], IBV_WC_WR_FLUSH_ERR, i);
	assert_int_equal(rig_state(rig.qp[0]), row->outcome.state);
	/* requests that are posted from now on are flushed as well */
	assert_int_equal(rig_send(rig.qp[0], 7, NULL, NULL, 0), 0);
	assert_int_equal(rig_receive(rig.qp[0], 8, NULL, NULL, 0), 0);
	rig_expect(rig.cq[0], IBV_WC_WR_FLUSH_ERR, 7);
	rig_expect(rig.cq[0], IBV_WC_WR_FLUSH_ERR, 8);
	rig_none(rig.cq[0]);
}

static void check_responder(const struct row *row)
{
	uint64_t receive = RECEIVE_ID, last = receive + (row->cause->no_receive ? 0 : RECEIVES);

	assert_int_equal(rig.qp[1] ? rig_state(rig.qp[1]) : GONE, row->outcome.peer);
	if (row->outcome.receive)
		rig_expect(rig.cq[1], (enum ibv_wc_status)row->outcome.receive, receive++);
	/* receives are flushed in their order and sends in theirs, but the two in any order */
	for (uint64_t send = PEERS_ID;
	     row->outcome.peer == IBV_QPS_ERR && (receive < last || send == PEERS_ID);) {
		struct ibv_wc wc = rig_next(rig.cq[1]);

		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.wr_id, wc.wr_id >= RECEIVE_ID ? receive++ : send++);
		assert_int_equal(wc.qp_num, rig.qp[1]->qp_num);
	}
	rig_none(rig.cq[1]);
}

/* A request that fails has moved no bytes. */
static void check_memory(void)
{
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < CAUSES_BYTES; i++)
			assert_int_equal(memory[side][i], 0x11 << side);
}

static void renew_peer(void)
{
	struct ibv_qp_init_attr init = rig_init(rig.cq[1], rig.cq[1]);

	rig.qp[1] = ibv_create_qp(rig.pd, &init);
	assert_non_null(rig.qp[1]);
}

/* The way out of each error is the same: after RESET and a new connection everything works. */
static void check_recovery(void)
{
	if (!rig.qp[1])
		renew_peer();
	rig_reconnect(&rig, &(struct rig_wish){0});
	assert_int_equal(rig_receive(rig.qp[1], 2, NULL, NULL, 0), 0);
	assert_int_equal(rig_send(rig.qp[0], 1, NULL, NULL, 0), 0);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 1);
	rig_expect(rig.cq[1], IBV_WC_SUCCESS, 2);
	rig_none(rig.cq[0]);
	rig_none(rig.cq[1]);
}

/* ---- Rows ---- */

static void play(void **state)
{
	const struct row *row = *state;
	const struct cause *c = row->cause;
	struct rig_wish wish = {.access = RIG_ALL & ~(c->no_right ? right_of(row->verb) : 0),
				.timeout = 1,
				.rnr_retry = c->rnr_retry,
				.no_reads = c->no_reads,
				.forever = c->forever | 2};

	rig_connect(&rig, &wish);
	if (!c->no_receive)
		post_receives(rig.qp[1], c, RECEIVE_ID, RECEIVES);
	/* this request of the peer waits for a receive */
	assert_int_equal(rig_send(rig.qp[1], PEERS_ID, NULL, NULL, 0), 0);
	if (c->before)
		c->before(&rig);
	see(rig.qp[0]);
	if (row->verb == RECV)
		post_receives(rig.qp[0], c, 0, REQUESTS);
	else
		post_requests(rig.qp[0], row, REQUESTS, 1);
	if (c->after)
		c->after(&rig);
	check_requester(row);
	check_events(&row->outcome, rig.qp[0], NULL);
	check_responder(row);
	check_memory();
	check_recovery();
}

/* Good requests, until the completion queue has no room for a completion of theirs. */
static void play_full_queue(void **state)
{
	const struct row *row = *state;
	struct ibv_cq *cq = ibv_create_cq(rig.context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = rig_init(cq, rig.cq[0]);
	struct ibv_qp *qp = ibv_create_qp(rig.pd, &init);

	assert_non_null(qp);
	assert_true(cq->cqe < RIG_DEPTH);
	rig_modify(rig.qp[1], IBV_QPS_RTS, qp->qp_num);
	rig_modify(qp, IBV_QPS_RTS, rig.qp[1]->qp_num);
	post_receives(rig.qp[1], row->cause, RECEIVE_ID, RIG_DEPTH);
	post_requests(qp, row, cq->cqe, 0);
	see(qp);
	check_events(&(struct outcome){0}, qp, cq); /* the queue is full, and has lost nothing */
	post_requests(qp, row, 1, 0);
	check_events(&row->outcome, qp, cq);
	for (int i = 0; i < cq->cqe; i++)
		rig_expect(cq, IBV_WC_SUCCESS, (uint64_t)i);
	assert_int_equal(row->outcome.status, LOST);
	rig_none(cq);
	assert_int_equal(rig_state(qp), row->outcome.state);
	assert_int_equal(rig_state(rig.qp[1]), row->outcome.peer);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* The unmapped memory is another process's: an access to unmapped memory of its own would end this one. */
static void play_unmapped(void **state)
{
	const struct row *row = *state;
	bool sends = row->verb == SEND || row->verb == SEND_IMM;
	static struct end near;
	struct peer peer;
	struct ibv_sge sge = {0};

	ends_open(&near, &peer, true);
	if (sends)
		sge = (struct ibv_sge){peer.buffer[KIND_SHARED].at, 64,
				       peer.buffer[KIND_SHARED].key};
	see(near.qp);
	seen.elsewhere = 2;
	peer_receive(&peer, RECEIVE_ID, &sge, 1);
	peer_unmap(&peer, KIND_SHARED);
	assert_int_equal(rig_rdma(near.qp, opcode_of(row->verb), 1, near.mr[KIND_POOLED],
				  near.mr[KIND_POOLED]->addr, 8, peer.buffer[KIND_SHARED].at,
				  peer.buffer[KIND_SHARED].key),
			 0);
	rig_expect(near.cq, (enum ibv_wc_status)row->outcome.status, 1);
	assert_int_equal(rig_state(near.qp), row->outcome.state);
	assert_int_equal(1u << peer_event(&peer), row->outcome.peer_event);
	assert_int_equal(peer_state(&peer), row->outcome.peer);
	assert_int_equal(peer_next(&peer).status,
			 row->outcome.receive ? row->outcome.receive : IBV_WC_WR_FLUSH_ERR);
	ends_close(&near, &peer);
}

/* A receive that the failed queue pair has not taken stays in the shared queue, for other queue pairs. */
static void play_shared_queue(void **state)
{
	const struct row *row = *state;
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_qp_init_attr init = rig_init(rig.cq[0], rig.cq[0]);
	struct ibv_recv_wr wr = {.wr_id = 0}, *bad;
	struct ibv_qp *qp;

	init.srq = ibv_create_srq(rig.pd, &srq_init);
	assert_non_null(init.srq);
	qp = ibv_create_qp(rig.pd, &init);
	assert_non_null(qp);
	rig_modify(rig.qp[1], IBV_QPS_RTS, qp->qp_num);
	rig_modify(qp, IBV_QPS_RTS, rig.qp[1]->qp_num);
	assert_int_equal(ibv_post_srq_recv(init.srq, &wr, &bad), 0);
	see(qp);
	rig_modify(qp, IBV_QPS_ERR, 0);
	check_events(&row->outcome, qp, NULL);
	assert_int_equal(row->outcome.status, LOST);
	rig_none(rig.cq[0]);
	assert_int_equal(rig_state(qp), row->outcome.state);
	assert_int_equal(rig_state(rig.qp[1]), row->outcome.peer);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(init.srq), 0);
}

static void play_explained(void **state)
{
	const struct row *row = *state;
	const char *name = row->cause->name;

	memset(&seen, 0, sizeof(seen));
	rig_errors = 0;
	told_begin();
	if (!strcmp(name, CAUSE_FULL_QUEUE))
		play_full_queue(state);
	else if (!strcmp(name, CAUSE_UNMAPPED))
		play_unmapped(state);
	else if (!strcmp(name, CAUSE_SHARED_QUEUE))
		play_shared_queue(state);
	else
		play(state);
	told_end();
	check_told(row);
}

static struct CMUnitTest test_of(struct row *row)
{
	return (struct CMUnitTest){
		.name = row->name,
		.test_func = play_explained,
		.setup_func = setup,
		.teardown_func = teardown,
		.initial_state = row,
	};
}

static int run(void)
{
	static struct CMUnitTest tests[ERRORS_ROWS + 1] = {cmocka_unit_test(a_row_for_each_cause)};
	size_t n = 1;

	for (size_t i = 0; i < nrows; i++)
		if (rows[i].cause)
			tests[n++] = test_of(&rows[i]);
	return _cmocka_run_group_tests("errors", tests, n, make_pool, remove_pool);
}

int main(int argc, char **argv)
{
	setenv("WEFT_EXPLAIN", "1", 1);
	/* with two arguments this process is a peer */
	if (argc != 3 && !read_table(argc == 2 ? argv[1] : NULL)) {
		fprintf(stderr, "usage: %s errors.tsv\n", argv[0]);
		return 2;
	}
	return ends_main(argc, argv, run);
}
