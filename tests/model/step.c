/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "step.h"

#include <inttypes.h>
#include <string.h>

const char *step_verb(enum verb verb)
{
	static const char *const names[VERBS] = {
		"alloc_pd",	  "dealloc_pd",	      "reg_mr",	   "dereg_mr",
		"create_channel", "destroy_channel",  "create_cq", "resize_cq",
		"destroy_cq",	  "create_qp",	      "modify_qp", "destroy_qp",
		"post_recv",	  "post_send",	      "poll_cq",   "req_notify_cq",
		"get_cq_events",  "get_async_events", "store",
	};

	return names[verb];
}

const char *step_state(int state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return state >= 0 && state < 7 ? names[state] : "none";
}

void step_pattern(uint8_t *to, uint32_t length, uint32_t seed)
{
	uint32_t x = seed * 2654435761u + 12345u;

	for (uint32_t i = 0; i < length; i++) {
		if (i % 4 == 0) {
			x ^= x << 13;
			x ^= x >> 17;
			x ^= x << 5;
		}
		to[i] = (uint8_t)(x >> 8 * (i % 4));
	}
}

static void print_sge(FILE *to, const struct step_sge *s)
{
	static const char *const kinds[] = {"", "~", "0*"};

	fprintf(to, " %sp%u.mr%u%+" PRId64 ":%u", kinds[s->key.kind], s->key.region.process,
		s->key.region.slot, s->at, s->length);
}

static void print_receive(FILE *to, const struct step_receive *r)
{
	fprintf(to, "\n        #%" PRIu64, r->wr_id);
	for (int i = 0; i < r->num_sge; i++)
		print_sge(to, &r->sge[i]);
}

static void print_send(FILE *to, const struct step_send *s)
{
	static const char *const names[] = {"WRITE", "WRITE_IMM", "SEND",     "SEND_IMM",
					    "READ",  "CMP_SWAP",  "FETCH_ADD"};

	fprintf(to, "\n        #%" PRIu64 " %s%s%s%s%s", s->wr_id,
		s->opcode < 7 ? names[s->opcode] : "bad opcode",
		s->flags & IBV_SEND_SIGNALED ? " signaled" : "",
		s->flags & IBV_SEND_SOLICITED ? " solicited" : "",
		s->flags & IBV_SEND_INLINE ? " inline" : "",
		s->flags & IBV_SEND_FENCE ? " fence" : "");
	for (int i = 0; i < s->num_sge; i++)
		print_sge(to, &s->sge[i]);
	fprintf(to, " at");
	print_sge(to, &s->remote);
}

static void print_modify(FILE *to, const struct step_modify *s)
{
	fprintf(to, " to %s mask %#x", s->mask & IBV_QP_STATE ? step_state(s->to) : "same",
		s->mask);
	if (s->mask & IBV_QP_DEST_QPN)
		fprintf(to, " dest p%u.qp%u", s->dest.process, s->dest.slot);
	if (s->mask & IBV_QP_ACCESS_FLAGS)
		fprintf(to, " access %#x", s->access);
	if (s->mask & IBV_QP_MIN_RNR_TIMER)
		fprintf(to, " min_rnr_timer %u", s->min_rnr_timer);
	if (s->mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		fprintf(to, " max_dest_rd_atomic %u", s->max_dest_rd_atomic);
	if (s->mask & IBV_QP_TIMEOUT)
		fprintf(to, " timeout %u", s->timeout);
	if (s->mask & IBV_QP_RETRY_CNT)
		fprintf(to, " retry_cnt %u", s->retry_cnt);
	if (s->mask & IBV_QP_RNR_RETRY)
		fprintf(to, " rnr_retry %u", s->rnr_retry);
}

static void print_arguments(FILE *to, const struct step *s)
{
	switch ((enum verb)s->verb) {
	case REG_MR:
		fprintf(to, " pd%u %u:%u access %#x%s", s->region.pd, s->region.at,
			s->region.length, s->region.access,
			s->region.kind == REGION_IOVA ? " iova" : "");
		break;
	case CREATE_CQ:
	case RESIZE_CQ:
		fprintf(to, " cqe %d%s", s->cq.cqe, s->cq.channel ? " channel" : "");
		break;
	case CREATE_QP:
		fprintf(to, " pd%u cq%u cq%u%s depth %u %u sge %u %u inline %u", s->qp.pd,
			s->qp.send_cq, s->qp.recv_cq, s->qp.signal_all ? " signal_all" : "",
			s->qp.cap.max_send_wr, s->qp.cap.max_recv_wr, s->qp.cap.max_send_sge,
			s->qp.cap.max_recv_sge, s->qp.cap.max_inline_data);
		break;
	case MODIFY_QP:
		print_modify(to, &s->modify);
		break;
	case POST_RECV:
		for (int i = 0; i < s->count; i++)
			print_receive(to, &s->receive[i]);
		break;
	case POST_SEND:
		for (int i = 0; i < s->count; i++)
			print_send(to, &s->send[i]);
		break;
	case POLL_CQ:
		fprintf(to, " %u", s->count);
		break;
	case NOTIFY_CQ:
		fprintf(to, "%s", s->solicited_only ? " solicited" : "");
		break;
	case STORE:
		fprintf(to, " %u:%u", s->store.at, s->store.length);
		break;
	case ALLOC_PD:
	case DEALLOC_PD:
	case DEREG_MR:
	case CREATE_CHANNEL:
	case DESTROY_CHANNEL:
	case DESTROY_CQ:
	case DESTROY_QP:
	case GET_CQ_EVENTS:
	case GET_ASYNC_EVENTS:
	case VERBS:
		break;
	}
}

void step_print(FILE *to, const struct step *s)
{
	fprintf(to, "p%u %s %u", s->process, step_verb(s->verb), s->slot);
	print_arguments(to, s);
	fputc('\n', to);
}
