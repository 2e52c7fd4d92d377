/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What other verbs than WRITE, READ, SEND and atomics on a connection do with memory of each kind (test_verbs.c has those):
 * immediate data, datagrams, shared receive queues, extended connections, windows and their end by the peer, what is
 * imported. From memory of each kind to memory of each; all bytes of both are compared.
 */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../abi/pool.h"

#define BYTES  12288u
#define GRH    40u
#define LENGTH 1999u
#define INTO   333u

static struct rig rig;
static struct place from[PLACE_KINDS], to[PLACE_KINDS];
static weft_cu_context context;
static uint8_t sent[BYTES], wanted[BYTES], seen[BYTES];
static uint8_t round_number;

/* ---- Bytes ---- */

/* Fills both ends with new bytes. */
static void fill(enum place_kind source, enum place_kind target)
{
	round_number++;
	for (size_t i = 0; i < BYTES; i++) {
		sent[i] = (uint8_t)(i * 31 + round_number);
		wanted[i] = (uint8_t)(i * 17 + 5 * round_number);
	}
	place_write(&from[source], 0, sent, BYTES);
	place_write(&to[target], 0, wanted, BYTES);
}

static void compare(enum place_kind source, enum place_kind target, const char *what)
{
	place_read(&from[source], 0, seen, BYTES);
	if (memcmp(seen, sent, BYTES))
		fail_msg("%s from %s to %s: the source has changed", what, place_names[source],
			 place_names[target]);
	place_read(&to[target], 0, seen, BYTES);
	for (size_t i = 0; i < BYTES; i++)
		if (seen[i] != wanted[i])
			fail_msg("%s from %s to %s: byte %zu differs", what, place_names[source],
				 place_names[target], i);
}

/* LENGTH bytes from the start of the source must be at INTO of the target, and all other bytes as they were. */
static void arrived(enum place_kind source, enum place_kind target, const char *what)
{
	memcpy(wanted + INTO, sent, LENGTH);
	compare(source, target, what);
}

static void each_pair(void (*act)(enum place_kind source, enum place_kind target))
{
	for (enum place_kind s = 0; s < PLACE_KINDS; s++)
		for (enum place_kind t = 0; t < PLACE_KINDS; t++) {
			if (!from[s].at || !to[t].at)
				continue;
			fill(s, t);
			act(s, t);
		}
}

/* Does that from each place to each, by this pair of queue pairs, which is destroyed then. */
static void each_pair_by(struct ibv_qp *of_pair[2],
			 void (*act)(enum place_kind source, enum place_kind target))
{
	rig_modify(of_pair[1], IBV_QPS_RTS, of_pair[0]->qp_num);
	rig_modify(of_pair[0], IBV_QPS_RTS, of_pair[1]->qp_num);
	each_pair(act);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(of_pair[i]), 0);
}

static struct ibv_sge source_of(enum place_kind kind)
{
	return (struct ibv_sge){(uintptr_t)from[kind].at, LENGTH, from[kind].mr->lkey};
}

static void post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->wr_id = 7;
	wr->send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(ibv_post_send(qp, wr, &bad), 0);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
}

static struct ibv_wc received(uint32_t bytes)
{
	struct ibv_wc wc = rig_expect(rig.cq[1], IBV_WC_SUCCESS, 8);

	assert_int_equal(wc.byte_len, bytes);
	return wc;
}

/* ---- Immediate data ---- */

static void send_imm(enum place_kind source, enum place_kind target)
{
	struct ibv_sge sge = source_of(source);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = round_number};

	assert_int_equal(rig_receive(rig.qp[1], 8, to[target].mr, to[target].at + INTO, LENGTH), 0);
	post(rig.qp[0], &wr);
	assert_int_equal(received(LENGTH).imm_data, round_number);
	arrived(source, target, "SEND with immediate");
}

static void write_imm(enum place_kind source, enum place_kind target)
{
	struct ibv_sge sge = source_of(source);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .imm_data = round_number,
				 .wr.rdma = {(uintptr_t)to[target].at + INTO, to[target].mr->rkey}};

	assert_int_equal(rig_receive(rig.qp[1], 8, NULL, NULL, 0), 0);
	post(rig.qp[0], &wr);
	assert_int_equal(received(LENGTH).imm_data, round_number);
	arrived(source, target, "WRITE with immediate");
}

static void immediate(void **state)
{
	each_pair(send_imm);
	each_pair(write_imm);
}

/* ---- Inline ---- */

/* The CPU reads inline bytes as they are posted: from memory that it does not reach this is refused, and nothing is posted. */
static void from_inline(enum place_kind source, enum place_kind target)
{
	struct ibv_sge sge = {(uintptr_t)from[source].at + 5, 40, 0};
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
				 .wr.rdma = {(uintptr_t)to[target].at + INTO, to[target].mr->rkey}},
			   *bad = NULL;
	bool refused = place_is_device(source) && source != PLACE_MANAGED;

	assert_int_equal(ibv_post_send(rig.qp[0], &wr, &bad), refused ? EINVAL : 0);
	if (refused) {
		assert_ptr_equal(bad, &wr);
	} else {
		rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
		memcpy(wanted + INTO, sent + 5, 40);
	}
	compare(source, target, "inline WRITE");
}

static void inlined(void **state)
{
	each_pair(from_inline);
}

/* ---- Datagrams ---- */

static struct ibv_qp *datagrams[2];
static struct ibv_ah *address;

static void datagram(enum place_kind source, enum place_kind target)
{
	struct ibv_sge sge = source_of(source);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .wr.ud = {address, datagrams[1]->qp_num, RIG_QKEY}};

	assert_int_equal(rig_receive(datagrams[1], 8, to[target].mr, to[target].at + INTO - GRH,
				     GRH + LENGTH),
			 0);
	post(datagrams[0], &wr);
	received(GRH + LENGTH);
	/* the header is another test's (test_ud.c) */
	place_read(&to[target], INTO - GRH, wanted + INTO - GRH, GRH);
	arrived(source, target, "datagram");
}

static void unreliable(void **state)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.sgid_index = 3, .hop_limit = 64}};

	assert_int_equal(ibv_query_gid(rig.context, 1, 3, &attr.grh.dgid), 0);
	address = ibv_create_ah(rig.pd, &attr);
	assert_non_null(address);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = rig_init(rig.cq[i], rig.cq[i]);

		init.qp_type = IBV_QPT_UD;
		datagrams[i] = ibv_create_qp(rig.pd, &init);
		assert_non_null(datagrams[i]);
	}
	each_pair_by(datagrams, datagram);
	assert_int_equal(ibv_destroy_ah(address), 0);
}

/* ---- Shared receive queues ---- */

static struct ibv_srq *queue;
static struct ibv_qp *pair[2];
static uint32_t number; /* of the queue, of an extended connection */

static void to_queue(enum place_kind source, enum place_kind target)
{
	struct ibv_sge sge = source_of(source),
		       room = {(uintptr_t)to[target].at + INTO, LENGTH, to[target].mr->lkey};
	struct ibv_recv_wr take = {.wr_id = 8, .sg_list = &room, .num_sge = 1}, *bad;
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .qp_type.xrc.remote_srqn = number};

	assert_int_equal(ibv_post_srq_recv(queue, &take, &bad), 0);
	post(pair[0], &wr);
	received(LENGTH);
	arrived(source, target, "SEND to a shared queue");
}

static void shared(void **state)
{
	struct ibv_srq_init_attr shape = {.attr = {8, 1, 0}};

	queue = ibv_create_srq(rig.pd, &shape);
	assert_non_null(queue);
	number = 0;
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = rig_init(rig.cq[i], rig.cq[i]);

		init.srq = i ? queue : NULL;
		pair[i] = ibv_create_qp(rig.pd, &init);
		assert_non_null(pair[i]);
	}
	each_pair_by(pair, to_queue);
	assert_int_equal(ibv_destroy_srq(queue), 0);
}

static void extended(void **state)
{
	struct ibv_xrcd_init_attr shape = {IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1,
					   O_CREAT};
	struct ibv_xrcd *domain = ibv_open_xrcd(rig.context, &shape);
	struct ibv_srq_init_attr_ex of_queue = {
		.attr = {8, 1, 0},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = rig.pd,
		.xrcd = domain,
		.cq = rig.cq[1]};
	struct ibv_qp_init_attr_ex sender = {.send_cq = rig.cq[0],
					     .cap = {RIG_DEPTH, 0, 2, 0, 64},
					     .qp_type = IBV_QPT_XRC_SEND,
					     .comp_mask = IBV_QP_INIT_ATTR_PD,
					     .pd = rig.pd};
	struct ibv_qp_init_attr_ex receiver = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = domain};

	assert_non_null(domain);
	queue = ibv_create_srq_ex(rig.context, &of_queue);
	assert_non_null(queue);
	assert_int_equal(ibv_get_srq_num(queue, &number), 0);
	pair[0] = ibv_create_qp_ex(rig.context, &sender);
	pair[1] = ibv_create_qp_ex(rig.context, &receiver);
	assert_non_null(pair[0]);
	assert_non_null(pair[1]);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		for (int i = 0; i < 2; i++) {
			struct ibv_qp_attr attr = rig_attr(rig.context, s, pair[!i]->qp_num);

			assert_int_equal(ibv_modify_qp(pair[i], &attr, rig_mask(IBV_QPT_RC, s)), 0);
		}
	each_pair(to_queue);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(pair[i]), 0);
	assert_int_equal(ibv_destroy_srq(queue), 0);
	assert_int_equal(ibv_close_xrcd(domain), 0);
}

/* ---- Windows ---- */

/* Bound to the middle of the target, written to through it, and ended by the peer's SEND. */
static void through_window(enum place_kind source, enum place_kind target)
{
	struct ibv_mr *mr = ibv_reg_mr(rig.pd, to[target].at, BYTES, RIG_ALL | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(rig.pd, IBV_MW_TYPE_2);
	uint64_t start = (uintptr_t)to[target].at + INTO;
	struct ibv_sge sge = source_of(source);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr bind = {.wr_id = 9,
				   .opcode = IBV_WR_BIND_MW,
				   .send_flags = IBV_SEND_SIGNALED,
				   .bind_mw = {mw,
					       rkey,
					       {mr, start, LENGTH, IBV_ACCESS_REMOTE_WRITE}}},
			   *bad;
	struct ibv_send_wr write = {.sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_WRITE,
				    .wr.rdma = {start, rkey}};
	struct ibv_send_wr end = {.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = rkey};

	assert_non_null(mr);
	assert_int_equal(ibv_post_send(rig.qp[1], &bind, &bad), 0);
	rig_expect(rig.cq[1], IBV_WC_SUCCESS, 9);
	post(rig.qp[0], &write);
	assert_int_equal(rig_receive(rig.qp[1], 8, NULL, NULL, 0), 0);
	post(rig.qp[0], &end);
	assert_int_equal(received(0).wc_flags, IBV_WC_WITH_INV);
	arrived(source, target, "WRITE through a window");
	write.wr_id = 7;
	assert_int_equal(ibv_post_send(rig.qp[0], &write, &bad), 0);
	rig_expect(rig.cq[0], IBV_WC_REM_ACCESS_ERR, 7);
	compare(source, target, "a window that has ended");
	rig_reconnect(&rig, &(struct rig_wish){0});
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void windows(void **state)
{
	each_pair(through_window);
}

/* ---- Imports ---- */

static struct ibv_cq *their_cq;
static struct ibv_qp *theirs[2];

static void by_import(enum place_kind source, enum place_kind target)
{
	struct ibv_sge sge = source_of(source);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {(uintptr_t)to[target].at + INTO, to[target].mr->rkey}};
	struct ibv_mr *mr = ibv_import_mr(theirs[0]->pd, from[source].mr->handle);
	struct ibv_send_wr *bad;

	assert_non_null(mr);
	sge.lkey = mr->lkey;
	wr.wr_id = 7;
	wr.send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(ibv_post_send(theirs[0], &wr, &bad), 0);
	rig_expect(their_cq, IBV_WC_SUCCESS, 7);
	arrived(source, target, "WRITE from what is imported");
	ibv_unimport_mr(mr);
}

/* Requests of another context, which has imported the domain and its regions by their handles. */
static void imports(void **state)
{
	struct ibv_context *other = ibv_import_device(dup(rig.context->cmd_fd));
	struct ibv_pd *pd;

	assert_non_null(other);
	pd = ibv_import_pd(other, rig.pd->handle);
	assert_non_null(pd);
	their_cq = ibv_create_cq(other, 16, NULL, NULL, 0);
	assert_non_null(their_cq);
	for (int i = 0; i < 2; i++) {
		struct ibv_cq *cq = i ? rig.cq[1] : their_cq;
		struct ibv_qp_init_attr init = rig_init(cq, cq);

		init.cap.max_send_wr = init.cap.max_recv_wr = 8;
		theirs[i] = ibv_create_qp(i ? rig.pd : pd, &init);
		assert_non_null(theirs[i]);
	}
	each_pair_by(theirs, by_import);
	assert_int_equal(ibv_destroy_cq(their_cq), 0);
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(other), 0);
}

/* ---- weft info ---- */

static unsigned int count(const char *text, const char *part)
{
	unsigned int n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

/* Two regions of each kind, and how peers reach them. */
static void info(void **state)
{
	static char text[1 << 16], path[4096], command[4200];
	unsigned int gpus[2] = {0}, handles = 0;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	FILE *pipe;

	assert_true(n > 0);
	path[n] = '\0';
	for (int i = 0; i < 3; i++)
		*strrchr(path, '/') = '\0';
	snprintf(command, sizeof(command), "%s/weft info --json", path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	text[fread(text, 1, sizeof(text) - 1, pipe)] = '\0';
	assert_int_equal(pclose(pipe), 0);
	for (enum place_kind k = PLACE_MANAGED; k < PLACE_KINDS; k++) {
		gpus[k >= PLACE_OTHER] += from[k].at ? 2 : 0;
		/* memory of one allocation, which has a handle for other processes */
		handles += from[k].at && (k == PLACE_GPU || k >= PLACE_OTHER) ? 2 : 0;
	}
	assert_int_equal(count(text, "\"gpu0\""), gpus[0]);
	assert_int_equal(count(text, "\"gpu1\""), gpus[1]);
	assert_int_equal(count(text, "\"handle\""), handles);
	assert_int_equal(count(text, "\"owner\""), gpus[0] + gpus[1] - handles);
	assert_int_equal(count(text, "\"pooled\""), 2);
}

/* ---- Beginning and end ---- */

static int begin(void **state)
{
	make_pool(state);
	alarm(200);
	rig_open(&rig);
	rig_connect(&rig, &(struct rig_wish){0});
	for (enum place_kind k = 0; k < PLACE_KINDS; k++) {
		if (k == PLACE_HOST) {
			assert_true(gpu_load());
			context = gpu_context();
		}
		place_begin(&from[k], k, BYTES);
		place_register(&from[k], rig.pd);
		place_begin(&to[k], k, BYTES);
		place_register(&to[k], rig.pd);
	}
	return 0;
}

static int end(void **state)
{
	for (enum place_kind k = 0; k < PLACE_KINDS; k++) {
		place_end(&from[k]);
		place_end(&to[k]);
	}
	rig_close(&rig);
	GPU_OK(cu.cuCtxDestroy_v2(context));
	return remove_pool(state);
}

/* test_services [TEST] */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(immediate), cmocka_unit_test(unreliable),
		cmocka_unit_test(shared),    cmocka_unit_test(extended),
		cmocka_unit_test(windows),   cmocka_unit_test(imports),
		cmocka_unit_test(inlined),   cmocka_unit_test(info),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("services", tests, begin, end);
}
