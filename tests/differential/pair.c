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

#define PATIENCE_S 5 /* for what must come */
#define DEPTH	   16
#define EVENTS	   16
/* AH 7, PATH_MTU 8, TIMEOUT 9, RETRY_CNT 10, RNR_RETRY 11, RQ_PSN 12, … */

const struct wish usual = {.access = ALL_RIGHTS, .rnr_retry = 0, .retry_cnt = 7, .timeout = 18};

void pair_open(struct world *world, struct pair *pair, const struct wish *wish)
{
	*pair = (struct pair){0};
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = {
			.qp_type = IBV_QPT_RC,
			.sq_sig_all = wish->sig_all,
			.cap = {.max_send_wr = DEPTH,
				.max_recv_wr = DEPTH,
				.max_send_sge = 4,
				.max_recv_sge = 4,
				.max_inline_data = 64},
		};

		pair->cq[i] = ibv_create_cq(world->context, 4 * DEPTH, NULL, NULL, 0);
		need(pair->cq[i], "ibv_create_cq");
		init.send_cq = init.recv_cq = pair->cq[i];
		pair->qp[i] = ibv_create_qp(world->pd, &init);
		need(pair->qp[i], "ibv_create_qp");
	}
}

void pair_close(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		need(ibv_destroy_qp(pair->qp[i]) == 0, "ibv_destroy_qp");
		need(ibv_destroy_cq(pair->cq[i]) == 0, "ibv_destroy_cq");
	}
}

int usual_mask(enum ibv_qp_state to)
{
	return to == IBV_QPS_INIT  ? INIT_MASK
	       : to == IBV_QPS_RTR ? RTR_MASK
	       : to == IBV_QPS_RTS ? RTS_MASK
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

/* What is not drained may not leave SQD. */
static bool draining(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	need(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
	return attr.sq_draining;
}

void pair_move(struct world *world, struct pair *pair, int end, enum ibv_qp_state to,
	       const struct wish *wish)
{
	static const enum ibv_qp_state steps[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
						  IBV_QPS_SQD};
	/* There is no way from RESET to ERR but through INIT. */
	bool direct = to == IBV_QPS_RESET ||
		      (to == IBV_QPS_ERR && qp_state(pair->qp[end]) != IBV_QPS_RESET);

	for (size_t i = 0; i < COUNT(steps); i++) {
		enum ibv_qp_state step = direct ? to : steps[i];
		struct ibv_qp_attr attr = usual_attr(world, pair, end, step, wish);

		need(ibv_modify_qp(pair->qp[end], &attr, usual_mask(step)) == 0, "ibv_modify_qp");
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

/* Of one side: its own requests and its receives, whose order among each other is nobody's. */
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

static void tell_completion(struct told *told, int end, const struct ibv_wc *wc)
{
	tell(told, " %c%llu:%s", 'A' + end, (unsigned long long)wc->wr_id,
	     ibv_wc_status_str(wc->status));
	if (wc->status != IBV_WC_SUCCESS)
		return; /* the rest counts no more */
	tell(told, " op=%d", wc->opcode);
	/* Of what one's own requests brought, the length of a READ. */
	if (wc->opcode & IBV_WC_RECV || wc->opcode == IBV_WC_RDMA_READ)
		tell(told, " len=%u", wc->byte_len);
	if (wc->opcode & IBV_WC_RECV)
		tell(told, " flags=%x", wc->wc_flags);
	if (wc->opcode & IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_IMM)
		tell(told, " imm=%x", wc->imm_data);
}

/* What of one side's completions matters for how long to wait. */
struct seen {
	struct told requests, receives;
	uint64_t last; /* the wr_id of the last completion of a request */
	bool failed;
	bool failed_there; /* what the other side found wrong, which then fails itself */
};

static bool take(struct pair *pair, int end, struct seen *seen)
{
	struct ibv_wc wc;
	int count = ibv_poll_cq(pair->cq[end], 1, &wc);

	if (count < 0) {
		outcome("poll=%d", count);
		return false;
	}
	if (count == 0)
		return false;
	if (wc.wr_id > 100)
		pair->receives[end]--;
	else
		seen->last = wc.wr_id;
	seen->failed |= wc.status != IBV_WC_SUCCESS;
	seen->failed_there |= wc.status == IBV_WC_REM_INV_REQ_ERR ||
			      wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_OP_ERR;
	tell_completion(wc.wr_id > 100 ? &seen->receives : &seen->requests, end, &wc);
	return true;
}

/* Whether all that must come from one side has come. */
static bool settled(struct pair *pair, int end, bool must_fail)
{
	enum ibv_qp_state state = qp_state(pair->qp[end]);

	if (must_fail && state != IBV_QPS_ERR)
		return false;
	return state != IBV_QPS_ERR || pair->receives[end] == 0;
}

bool tell_completions(struct world *world, struct pair *pair, uint64_t last)
{
	double deadline = now_s() + PATIENCE_S;
	struct seen seen[2] = {0};

	/* First what the asking side sees: then the other's completions are there, but for flushes.
	 */
	while (seen[0].last < last && now_s() < deadline)
		take(pair, 0, &seen[0]);
	while (!settled(pair, 0, seen[0].failed) && now_s() < deadline)
		take(pair, 0, &seen[0]);
	while (take(pair, 0, &seen[0]))
		;
	while (!settled(pair, 1, seen[0].failed_there) && now_s() < deadline)
		take(pair, 1, &seen[1]);
	while (take(pair, 1, &seen[1]))
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
	tell_events(world, pair, seen[0].failed_there || seen[1].failed ? 1000 : 0);
	return !seen[0].failed && !seen[1].failed;
}

static const char *object(const struct pair *pair, const struct ibv_async_event *event)
{
	if (event->event_type == IBV_EVENT_CQ_ERR)
		return pair && event->element.cq == pair->cq[0] ? "cqA" : "cqB";
	if (event->event_type > IBV_EVENT_PATH_MIG_ERR)
		return "";
	return pair && event->element.qp == pair->qp[0] ? "A" : "B";
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void tell_events(struct world *world, const struct pair *pair, int patience_ms)
{
	struct pollfd wait = {.fd = world->context->async_fd, .events = POLLIN};
	const char *names[EVENTS], *objects[EVENTS];
	struct ibv_async_event event;
	size_t count = 0;

	while (count < EVENTS && poll(&wait, 1, count ? 20 : patience_ms) == 1 &&
	       ibv_get_async_event(world->context, &event) == 0) {
		objects[count] = object(pair, &event);
		names[count++] = ibv_event_type_str(event.event_type);
		ibv_ack_async_event(&event);
	}
	qsort(names, count, sizeof(names[0]), compare);
	for (size_t i = 0; i < count; i++)
		outcome("event=%s%s%s", names[i], count == 1 ? " of " : "",
			count == 1 ? objects[i] : "");
}
