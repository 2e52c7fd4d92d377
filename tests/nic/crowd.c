/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Thousands of queue pairs with a request each: a third of them goes to ERR and a third is destroyed while
 * all requests are under way; of the others each request is carried out once. */
#include "contract.h"
#include "nic/cq.h"
#include "nic/qp.h"
#include "nic/queues.h"
#include "pool/sge.h"

#include <stdlib.h>
#include <string.h>

#define PAIRS 2000u

static struct weft_qp *near, *peers;
static struct weft_cq cq;

static void make(struct weft_qp *qp)
{
	struct weft_qp_cap cap = {
		.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};

	assert_int_equal(
		weft_qp_create(&world.nic, qp, WEFT_QPT_RC, ENDS_PD, &cq, &cq, NULL, &cap, true),
		0);
}

static void connect(struct weft_qp *qp, const struct weft_qp *other, const uint8_t gid[16],
		    const uint8_t other_gid[16])
{
	struct weft_qp_attr attr = {.dest_qpn = other->qpn,
				    .path_mtu = 3,
				    .access = 15,
				    .max_rd_atomic = 1,
				    .max_dest_rd_atomic = 1,
				    .timeout = 14};

	memcpy(attr.sgid, gid, 16);
	memcpy(attr.dgid, other_gid, 16);
	for (enum weft_qp_state to = WEFT_QPS_INIT; to <= WEFT_QPS_RTS; to++)
		assert_int_equal(weft_qp_modify(qp, qp->state, to, &attr, &world.caller), 0);
}

static void add(struct weft_qp *qp, uint64_t wr_id, struct end *from, const struct end *to)
{
	struct weft_wqe *wqe = weft_sq_next(qp);

	*wqe = (struct weft_wqe){.wr_id = wr_id,
				 .opcode = WEFT_OP_FETCH_ADD,
				 .num_sge = 1,
				 .remote_addr = (uintptr_t)to->memory,
				 .rkey = to->mr.key,
				 .compare_add = 1};
	wqe->sge[0] = (struct weft_pool_sge){(uintptr_t)from->memory, 8, from->mr.key};
	weft_sq_submit(qp, wqe, &world.caller);
}

static void open_all(const struct contract_instance *in, struct end *here, struct end *there)
{
	const uint8_t *near_gid = in->apart ? ends_node_gid[0] : world_gid,
		      *peer_gid = in->apart ? ends_node_gid[1] : world_gid;

	world.nic.transports = in->transports;
	if (in->begin)
		in->begin();
	near = calloc(PAIRS, sizeof(*near));
	peers = calloc(PAIRS, sizeof(*peers));
	assert_true(near && peers);
	memset(&cq, 0, sizeof(cq));
	assert_int_equal(weft_cq_create(&world.nic, &cq, PAIRS), 0);
	memset(here, 0, sizeof(*here));
	memset(there, 0, sizeof(*there));
	ends_region(here, 0);
	ends_region(there, 0);
	for (uint32_t i = 0; i < PAIRS; i++) {
		make(&near[i]);
		make(&peers[i]);
		connect(&near[i], &peers[i], near_gid, peer_gid);
		connect(&peers[i], &near[i], peer_gid, near_gid);
	}
}

static void close_all(struct end *here, struct end *there)
{
	for (uint32_t i = 0; i < PAIRS; i++) {
		if (near[i].nic)
			weft_qp_destroy(&near[i]);
		weft_qp_destroy(&peers[i]);
	}
	ends_revoke(here);
	ends_revoke(there);
	ends_free(here);
	ends_free(there);
	weft_cq_destroy(&cq);
	free(near);
	free(peers);
}

/* Ends one queue pair of each three by ERR, and one by destroying it. */
static void disturb(uint32_t i)
{
	struct weft_qp_attr attr = {.dest_qpn = 0};

	if (i % 3 == 1) {
		assert_int_equal(
			weft_qp_modify(&near[i], near[i].state, WEFT_QPS_ERR, &attr, &world.caller),
			0);
	} else if (i % 3 == 2) {
		weft_qp_destroy(&near[i]);
		near[i].nic = NULL;
	}
}

void contract_crowd(const struct contract_instance *in)
{
	uint32_t done = 0, flushed = 0, thirds = (PAIRS + 2) / 3;
	bool late = !in->lacks[CONTRACT_LATE].why;
	struct end here, there;
	struct weft_wc wc;
	uint64_t sum;

	open_all(in, &here, &there);
	if (late)
		in->hold(true);
	for (uint32_t i = 0; i < PAIRS; i++)
		add(&near[i], i, &here, &there);
	for (uint32_t i = 0; i < PAIRS; i++)
		disturb(i);
	if (late)
		in->hold(false);
	in->settle();
	while (weft_cq_poll(&cq, 1, &wc, 0)) {
		done += !wc.status;
		flushed += wc.status == WEFT_WC_WR_FLUSH_ERR;
		assert_true(late ? wc.status == (wc.wr_id % 3 ? WEFT_WC_WR_FLUSH_ERR : 0)
				 : !wc.status);
	}
	/* requests of destroyed queue pairs have no completion */
	assert_int_equal(done, late ? thirds : PAIRS - PAIRS / 3);
	assert_int_equal(flushed, late ? (PAIRS + 1) / 3 : 0);
	there.kind->read(&there, 0, &sum, 8);
	assert_int_equal(sum, late ? thirds : PAIRS);
	close_all(&here, &there);
}
