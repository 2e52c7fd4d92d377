/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "two.h"

#include <string.h>
#include <sys/mman.h>

struct ibv_qp *two_make_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = rig_init(cq, cq);

	init.qp_type = type;
	return ibv_create_qp(pd, &init);
}

void two_connect(struct two *t)
{
	rig_modify(t->rig.qp[1], IBV_QPS_RESET, 0);
	rig_modify(t->qp, IBV_QPS_RESET, 0);
	rig_modify(t->qp, IBV_QPS_RTR, t->rig.qp[1]->qp_num);
	rig_modify(t->rig.qp[1], IBV_QPS_RTS, t->qp->qp_num);
	rig_modify(t->qp, IBV_QPS_RESET, 0);
	rig_modify(t->qp, IBV_QPS_RTS, t->rig.qp[1]->qp_num);
}

void two_import_region(struct two *t, unsigned int access)
{
	assert_int_equal(exporter_do(&t->exporter, EXPORT_REGISTER, access), 0);
	t->theirs = ibv_import_mr(t->pd, t->there->mr);
	assert_non_null(t->theirs);
	assert_int_equal(t->theirs->lkey, t->there->key);
	assert_int_equal(t->theirs->rkey, t->there->key);
	assert_int_equal(t->theirs->length, EXPORTED_BYTES);
	assert_null(t->theirs->addr);
}

void two_begin(struct two *t, bool in_place)
{
	memset(t, 0, sizeof(*t));
	exporter_start(&t->exporter, in_place);
	t->there = t->exporter.shared;
	t->context = ibv_import_device(t->exporter.fd);
	assert_non_null(t->context);
	t->pd = ibv_import_pd(t->context, t->there->pd);
	assert_non_null(t->pd);
	assert_int_equal(t->pd->handle, t->there->pd);
	rig_open(&t->rig);
	t->own = rig_region(t->rig.pd, TWO_BYTES);
	t->cq = ibv_create_cq(t->context, RIG_DEPTH, NULL, NULL, 0);
	assert_non_null(t->cq);
	t->qp = two_make_qp(t->pd, t->cq, IBV_QPT_RC);
	assert_non_null(t->qp);
	two_connect(t);
	two_import_region(t, RIG_ALL);
}

void two_end(struct two *t)
{
	if (t->theirs)
		ibv_unimport_mr(t->theirs);
	if (t->qp)
		assert_int_equal(ibv_destroy_qp(t->qp), 0);
	ibv_unimport_pd(t->pd);
	assert_int_equal(ibv_destroy_cq(t->cq), 0);
	assert_int_equal(ibv_close_device(t->context), 0);
	rig_region_end(t->own);
	rig_close(&t->rig);
	if (t->exporter.pid)
		exporter_kill(&t->exporter);
	munmap(t->there, 4096);
}
