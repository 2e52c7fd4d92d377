/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Extended completion queues: the program reads a completion field by field between start_poll and
 * end_poll, during which no other thread does.
 */
#include <errno.h>

#include "nic/limits.h"
#include "pool/clock.h"
#include "verbs/cq.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "process/process.h"
#include "verbs/verbs.h"

#define FIELDS                                                                                     \
	(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |                    \
	 IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |                         \
	 IBV_WC_EX_WITH_DLID_PATH_BITS | STAMPS)
#define STAMPS (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define FLAGS  (IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
#define MASK   (IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)

static inline struct weft_verbs_cq *cq_of(struct ibv_cq_ex *ex)
{
	return weft_cq(ibv_cq_ex_to_cq(ex));
}

/* ---- Polling ---- */

static int next_poll(struct ibv_cq_ex *ex)
{
	struct weft_verbs_cq *cq = cq_of(ex);

	if (!ibv_poll_cq(&cq->cq, 1, &cq->wc))
		return ENOENT;
	ex->wr_id = cq->wc.wr_id;
	ex->status = cq->wc.status;
	return 0;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	if (!cq_of(ex)->single_threaded)
		weft_unlock(&cq_of(ex)->polling, cq_of(ex)->polling_own);
}

/* What it does not find ends the polling, too (ibv_create_cq_ex(3)). */
static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct weft_verbs_cq *cq = cq_of(ex);
	int err;

	if (attr->comp_mask)
		return weft_broken("ibv_start_poll", UNKNOWN_BITS, weft_value("comp_mask"),
				   attr->comp_mask);
	if (!cq->single_threaded) {
		bool own = weft_lock(cq->nic.nic, &cq->polling, weft_caller()->thread);

		cq->polling_own = own;
	}
	err = next_poll(ex);
	if (err)
		end_poll(ex);
	return err;
}

/* ---- Reading ---- */

#define READER(type, name, field)                                                                  \
	static type name(struct ibv_cq_ex *ex)                                                     \
	{                                                                                          \
		return cq_of(ex)->wc.field;                                                        \
	}

READER(enum ibv_wc_opcode, read_opcode, opcode)
READER(uint32_t, read_vendor_err, vendor_err)
READER(uint32_t, read_byte_len, byte_len)
READER(__be32, read_imm_data, imm_data)
READER(uint32_t, read_qp_num, qp_num)
READER(uint32_t, read_src_qp, src_qp)
READER(unsigned int, read_wc_flags, wc_flags)
READER(uint32_t, read_slid, slid)
READER(uint8_t, read_sl, sl)
READER(uint8_t, read_dlid_path_bits, dlid_path_bits)

/* In ticks of hca_core_clock, as ibv_query_rt_values_ex reads it. */
static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->nic.polled_ns;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	uint64_t now_ns = weft_clock_now_ns();

	return weft_clock_wall_ns() - now_ns + cq_of(ex)->nic.polled_ns;
}

/* What a RoCE device has none of: no program can ask for these, but some read them all the same. */
static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	return 0;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ex)
{
	return 0;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *tm_info)
{
	*tm_info = (struct ibv_wc_tm_info){0};
}

/* ---- Creating ---- */

static int check_cq_ex(const struct ibv_cq_init_attr_ex *init)
{
	bool has_flags = init && init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS;
	const char *verb = "ibv_create_cq_ex";

	if (!init)
		return weft_broken(verb, MISSING, weft_value("cq_attr"));
	if (init->comp_mask & ~(uint32_t)MASK)
		return weft_broken(verb, NOT_OFFERED, weft_value("comp_mask"), init->comp_mask);
	if (init->wc_flags & ~(uint64_t)FIELDS)
		return weft_broken(verb, NOT_OFFERED, weft_value("wc_flags"), init->wc_flags);
	if (has_flags && init->flags & ~(uint32_t)FLAGS)
		return weft_broken(verb, NOT_OFFERED, weft_value("flags"), init->flags);
	if (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD &&
	    weft_explain_no_domain(verb, init->parent_domain))
		return EINVAL;
	if (init->cqe > WEFT_MAX_CQE)
		return weft_broken(verb, RANGE, weft_value("cqe"), init->cqe, 1, WEFT_MAX_CQE);
	if (init->comp_vector > INT32_MAX)
		return weft_broken(verb, RANGE, weft_value("comp_vector"), init->comp_vector, 0,
				   INT32_MAX);
	return 0;
}

static void fill_cq_calls(struct ibv_cq_ex *ex)
{
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_completion_ts = read_completion_ts;
	ex->read_cvlan = read_cvlan;
	ex->read_flow_tag = read_flow_tag;
	ex->read_tm_info = read_tm_info;
	ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

struct ibv_cq_ex *weft_verbs_create_cq_ex(struct ibv_context *context,
					  struct ibv_cq_init_attr_ex *init)
{
	int err = check_cq_ex(init);
	uint32_t flags;
	struct ibv_cq *cq;

	if (err) {
		errno = err;
		return NULL;
	}
	cq = ibv_create_cq(context, (int)init->cqe, init->cq_context, init->channel,
			   (int)init->comp_vector);
	if (!cq)
		return NULL;
	flags = init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? init->flags : 0;
	weft_cq(cq)->single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	weft_cq(cq)->nic.ignores_overrun = flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	weft_cq(cq)->nic.stamps = init->wc_flags & STAMPS;
	fill_cq_calls(&weft_cq(cq)->ex);
	return &weft_cq(cq)->ex;
}

/* Every completion is told at once: there is nothing to moderate, as rdma_rxe says. */
int weft_verbs_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	if (weft_explain_stale("ibv_modify_cq", cq, WEFT_HANDLE_CQ))
		return EINVAL;
	return attr ? weft_broken("ibv_modify_cq", NOT_OFFERED, weft_value("attr_mask"),
				  attr->attr_mask)
		    : weft_broken("ibv_modify_cq", MISSING, weft_value("cq_attr"));
}
