/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../masks.h"
#include "world.h"

#define PATIENCE_S   5 /* for completions that must come */
#define DEPTH	     16
#define UC_RTR_MASK  (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define UD_INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define EVENTS	     16
#define MORE_MS	     20 /* to see whether more events come than must */

const struct wish usual = {.type = IBV_QPT_RC,
			   .qkey = QKEY,
			   .access = ALL_RIGHTS,
			   .rnr_retry = 0,
			   .retry_cnt = 7,
			   .timeout = 18};

static void open_cq(struct world *world, struct pair *pair, int end, const struct wish *wish)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 4 * DEPTH, .wc_flags = wish->fields};

	if (!wish->extended) {
		pair->cq[end] = ibv_create_cq(world->context, 4 * DEPTH, NULL, NULL, 0);
		need(pair->cq[end], "ibv_create_cq");
		return;
	}
	pair->cq_ex[end] = ibv_create_cq_ex(world->context, &init);
	need(pair->cq_ex[end], "ibv_create_cq_ex");
	pair->cq[end] = ibv_cq_ex_to_cq(pair->cq_ex[end]);
}

/* An extended queue pair, with all operations of its service that requests have here. */
static struct ibv_qp *open_extended(struct world *world, const struct ibv_qp_init_attr *usual_init)
{
	uint64_t sends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	uint64_t others = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = usual_init->send_cq,
		.recv_cq = usual_init->recv_cq,
		.cap = usual_init->cap,
		.qp_type = usual_init->qp_type,
		.sq_sig_all = usual_init->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = world->pd,
		.send_ops_flags = usual_init->qp_type == IBV_QPT_UD ? sends : sends | others,
	};

	return ibv_create_qp_ex(world->context, &init);
}

void pair_open(struct world *world, struct pair *pair, const struct wish *wish)
{
	*pair = (struct pair){.srq = wish->srq, .fields = wish->fields, .aborts = wish->aborts};
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = {
			.qp_type = wish->type,
			.srq = i ? wish->srq : NULL,
			.sq_sig_all = wish->sig_all,
			.cap = {.max_send_wr = DEPTH,
				.max_recv_wr = DEPTH,
				.max_send_sge = 4,
				.max_recv_sge = 4,
				.max_inline_data = 64},
		};

		open_cq(world, pair, i, wish);
		init.send_cq = init.recv_cq = pair->cq[i];
		pair->qp[i] = wish->extended ? open_extended(world, &init)
					     : ibv_create_qp(world->pd, &init);
		need(pair->qp[i], "ibv_create_qp");
	}
	if (wish->extended)
		pair->qp_ex = ibv_qp_to_qp_ex(pair->qp[0]);
}

void pair_close(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		need(ibv_destroy_qp(pair->qp[i]) == 0, "ibv_destroy_qp");
		need(ibv_destroy_cq(pair->cq[i]) == 0, "ibv_destroy_cq");
	}
	*pair = (struct pair){0};
}

int usual_mask(enum ibv_qp_type type, enum ibv_qp_state to)
{
	static const struct {
		int init, rtr, rts;
	} masks[] = {
		[IBV_QPT_RC] = {INIT_MASK, RTR_MASK, RTS_MASK},
		[IBV_QPT_UC] = {INIT_MASK, UC_RTR_MASK, IBV_QP_STATE | IBV_QP_SQ_PSN},
		[IBV_QPT_UD] = {UD_INIT_MASK, IBV_QP_STATE, IBV_QP_STATE | IBV_QP_SQ_PSN},
	};

	return to == IBV_QPS_INIT  ? masks[type].init
	       : to == IBV_QPS_RTR ? masks[type].rtr
	       : to == IBV_QPS_RTS ? masks[type].rts
				   : IBV_QP_STATE;
}

struct ibv_qp_attr usual_attr(struct world *world, const struct pair *pair, int end,
			      enum ibv_qp_state to, const struct wish *wish)
{
	return (struct ibv_qp_attr){
		.qp_state = to,
		.port_num = 1,
		.qp_access_flags = end ? wish->access : ALL_RIGHTS,
		.path_mtu = IBV_MTU_1024,
		.qkey = end ? QKEY : wish->qkey,
		.dest_qp_num = pair->qp[!end]->qp_num,
		.rq_psn = 100,
		.sq_psn = 100,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = wish->timeout,
		.retry_cnt = wish->retry_cnt,
		.rnr_retry = wish->rnr_retry,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = world->gid,
				    .sgid_index = world->gid_index,
				    .hop_limit = 64}},
	};
}

/* A queue pair may not leave SQD before it is drained. */
static bool draining(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	need(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
	return attr.sq_draining;
}

void pair_modify(struct world *world, struct pair *pair, int end, enum ibv_qp_state to,
		 const struct wish *wish)
{
	static const enum ibv_qp_state steps[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
						  IBV_QPS_SQD};
	/* from RESET the only way to ERR is through INIT */
	bool direct = to == IBV_QPS_RESET ||
		      (to == IBV_QPS_ERR && qp_state(pair->qp[end]) != IBV_QPS_RESET);

	for (size_t i = 0; i < COUNT(steps); i++) {
		enum ibv_qp_state step = direct ? to : steps[i];
		struct ibv_qp_attr attr = usual_attr(world, pair, end, step, wish);

		need(ibv_modify_qp(pair->qp[end], &attr, usual_mask(wish->type, step)) == 0,
		     "ibv_modify_qp");
		while (step == IBV_QPS_SQD && draining(pair->qp[end]))
			;
		if (step == to)
			return;
		direct = to == IBV_QPS_ERR;
	}
}

enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	need(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
	return attr.qp_state;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* What is told of one side: of its requests and of its receives, which have no order among each other. */
struct told {
	size_t length;
	char text[2048];
};

__attribute__((format(printf, 2, 3))) static void tell(struct told *told, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	told->length += vsnprintf(told->text + told->length, sizeof(told->text) - told->length,
				  format, args);
	va_end(args);
	need(told->length < sizeof(told->text), "a line's length");
}

static void tell_completion(const struct pair *pair, struct told *told, int end,
			    const struct ibv_wc *wc)
{
	tell(told, " %c%llu:%s", 'A' + end, (unsigned long long)wc->wr_id,
	     ibv_wc_status_str(wc->status));
	if (wc->status != IBV_WC_SUCCESS)
		return; /* no other field is valid */
	tell(told, " op=%d", wc->opcode);
	/* the length of a receive, and of a READ */
	if (wc->opcode & IBV_WC_RECV || wc->opcode == IBV_WC_RDMA_READ)
		tell(told, " len=%u", wc->byte_len);
	if (wc->opcode & IBV_WC_RECV)
		tell(told, " flags=%x", wc->wc_flags);
	if (wc->opcode & IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_IMM)
		tell(told, " imm=%x", wc->imm_data);
	if (wc->opcode & IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_INV)
		tell(told, " inv");
	if (pair->fields & IBV_WC_EX_WITH_QP_NUM)
		tell(told, " qp=%s", wc->qp_num == pair->qp[end]->qp_num ? "own" : "other");
	if (pair->fields)
		tell(told, " slid=%u bits=%u", wc->slid, wc->dlid_path_bits);
	if (wc->opcode & IBV_WC_RECV && pair->qp[0]->qp_type == IBV_QPT_UD)
		tell(told, " src=%s", wc->src_qp == pair->qp[0]->qp_num ? "A" : "B");
}

/* What is to be known of one side's completions, to decide how long to wait. */
struct seen {
	struct told requests, receives;
	uint64_t last; /* the wr_id of the last completion of a request */
	bool failed;
	bool broke;	   /* by another error than a flush */
	bool failed_there; /* by an error after which the other side fails itself */
};

static void see(struct pair *pair, int end, struct seen *seen, const struct ibv_wc *wc)
{
	if (wc->wr_id < FIRST_RECV)
		seen->last = wc->wr_id;
	else
		pair->receives[end]--;
	if (wc->wr_id >= FIRST_RECV && wc->status == IBV_WC_SUCCESS)
		pair->arrived[end] |= 1U << (wc->wr_id - FIRST_RECV);
	seen->failed |= wc->status != IBV_WC_SUCCESS;
	seen->broke |= wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR;
	seen->failed_there |= wc->status == IBV_WC_REM_INV_REQ_ERR ||
			      wc->status == IBV_WC_REM_ACCESS_ERR ||
			      wc->status == IBV_WC_REM_OP_ERR;
	tell_completion(pair, wc->wr_id < FIRST_RECV ? &seen->requests : &seen->receives, end, wc);
}

/* Reads the fields that were asked for; the others are 0. */
static struct ibv_wc read_fields(struct ibv_cq_ex *cq, uint64_t fields)
{
	struct ibv_wc wc = {.wr_id = cq->wr_id, .status = cq->status};

	if (wc.status != IBV_WC_SUCCESS)
		return wc;
	wc.opcode = ibv_wc_read_opcode(cq);
	wc.wc_flags = ibv_wc_read_wc_flags(cq);
	if (fields & IBV_WC_EX_WITH_BYTE_LEN)
		wc.byte_len = ibv_wc_read_byte_len(cq);
	if (fields & IBV_WC_EX_WITH_IMM && wc.wc_flags & IBV_WC_WITH_IMM)
		wc.imm_data = ibv_wc_read_imm_data(cq);
	if (fields & IBV_WC_EX_WITH_QP_NUM)
		wc.qp_num = ibv_wc_read_qp_num(cq);
	if (fields & IBV_WC_EX_WITH_SRC_QP)
		wc.src_qp = ibv_wc_read_src_qp(cq);
	if (fields & IBV_WC_EX_WITH_SLID)
		wc.slid = ibv_wc_read_slid(cq);
	if (fields & IBV_WC_EX_WITH_DLID_PATH_BITS)
		wc.dlid_path_bits = ibv_wc_read_dlid_path_bits(cq);
	return wc;
}

/* Polls without ibv_next_poll: one that finds nothing makes librxe 44 skip a completion. */
static bool take_extended(struct pair *pair, int end, struct seen *seen)
{
	struct ibv_cq_ex *cq = pair->cq_ex[end];
	struct ibv_poll_cq_attr attr = {0};
	int result = ibv_start_poll(cq, &attr);
	struct ibv_wc wc;

	if (result) {
		need(result == ENOENT, "ibv_start_poll");
		return false;
	}
	wc = read_fields(cq, pair->fields);
	ibv_end_poll(cq);
	see(pair, end, seen, &wc);
	return true;
}

static bool take(struct pair *pair, int end, struct seen *seen)
{
	struct ibv_wc wc;
	int count;

	if (pair->cq_ex[end])
		return take_extended(pair, end, seen);
	count = ibv_poll_cq(pair->cq[end], 1, &wc);
	if (count < 0)
		outcome("poll=%d", count);
	if (count <= 0)
		return false;
	see(pair, end, seen, &wc);
	return true;
}

/* Whether everything that must come from one side has come. */
static bool settled(struct pair *pair, int end, bool must_fail)
{
	enum ibv_qp_state state = qp_state(pair->qp[end]);

	if (must_fail && state != IBV_QPS_ERR)
		return false;
	/* a shared queue keeps its receives */
	return state != IBV_QPS_ERR || pair->receives[end] == 0 || (pair->srq && end == 1);
}

static void await_quiet(const struct world *world, struct pair *pair, struct seen seen[2])
{
	double end = 0;
	bool took;

	do {
		took = take(pair, 0, &seen[0]) || take(pair, 1, &seen[1]);
		if (took || end == 0)
			end = now_s() + world->quiet_ms / 1e3;
	} while (took || now_s() < end);
}

/* How many events must come: those of errors, and of a shared queue that few receives are left, and that no
 * more of them come to its queue pair. */
static size_t events_due(struct pair *pair, const struct seen *asking, const struct seen *other)
{
	size_t due = asking->failed_there || other->broke;

	if (!pair->srq)
		return due;
	if (pair->receives[1] < pair->limit) {
		pair->limit = 0;
		due++;
	}
	return due + (qp_state(pair->qp[1]) == IBV_QPS_ERR);
}

bool tell_completions(struct world *world, struct pair *pair, uint64_t last)
{
	bool unreliable = pair->qp[0]->qp_type != IBV_QPT_RC;
	double deadline = now_s() + PATIENCE_S;
	int asker = pair->asker, other = !asker;
	struct seen seen[2] = {0};

	/* once the asking side's completions have come, the other's are there, but for flushes */
	while (seen[asker].last < last && now_s() < deadline)
		take(pair, asker, &seen[asker]);
	if (unreliable)
		await_quiet(world, pair, seen);
	while (!settled(pair, asker, seen[asker].failed && !unreliable) && now_s() < deadline)
		take(pair, asker, &seen[asker]);
	while (take(pair, asker, &seen[asker]))
		;
	while (!settled(pair, other, unreliable ? seen[other].failed : seen[asker].failed_there) &&
	       now_s() < deadline)
		take(pair, other, &seen[other]);
	while (take(pair, other, &seen[other]))
		;
	for (int end = 0; end < 2; end++) {
		if (seen[end].requests.length || seen[end].receives.length)
			outcome("%s%s", seen[end].requests.text + !!seen[end].requests.length,
				seen[end].receives.text + !seen[end].requests.length);
	}
	if (now_s() >= deadline)
		outcome("INCOMPLETE");
	outcome("states=%s,%s", state_name(qp_state(pair->qp[0])),
		state_name(qp_state(pair->qp[1])));
	tell_events(world, pair, events_due(pair, &seen[asker], &seen[other]), world->event_ms);
	return !seen[0].failed && !seen[1].failed;
}

static const char *object(const struct pair *pair, const struct ibv_async_event *event)
{
	if (event->event_type == IBV_EVENT_CQ_ERR)
		return pair && event->element.cq == pair->cq[0] ? "cqA" : "cqB";
	if (event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
		return "srq";
	if (event->event_type > IBV_EVENT_PATH_MIG_ERR &&
	    event->event_type != IBV_EVENT_QP_LAST_WQE_REACHED)
		return "";
	return pair && event->element.qp == pair->qp[0] ? "A" : "B";
}

struct event {
	const char *name, *object;
};

static int compare(const void *a, const void *b)
{
	const struct event *one = a, *other = b;

	return strcmp(one->name, other->name);
}

void tell_events(struct world *world, const struct pair *pair, size_t due, int patience_ms)
{
	struct pollfd wait = {.fd = world->context->async_fd, .events = POLLIN};
	struct event events[EVENTS];
	struct ibv_async_event event;
	size_t count = 0;
	bool whose;

	while (count < EVENTS &&
	       poll(&wait, 1,
		    count < due ? patience_ms
		    : count	? MORE_MS
				: 0) == 1 &&
	       ibv_get_async_event(world->context, &event) == 0) {
		events[count++] =
			(struct event){ibv_event_type_str(event.event_type), object(pair, &event)};
		ibv_ack_async_event(&event);
	}
	qsort(events, count, sizeof(events[0]), compare);
	whose = count == 1 || (pair && pair->srq);
	for (size_t i = 0; i < count; i++)
		outcome("event=%s%s%s", events[i].name, whose ? " of " : "",
			whose ? events[i].object : "");
}
