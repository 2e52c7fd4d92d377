/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Steps as calls of libibverbs, by its public header alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define IOVA_SHIFT (1ll << 30)

/* ---- Names ---- */

static uint32_t key_number(const struct worker *w, const struct key *k, bool remote)
{
	uint32_t lkey = w->board->region[k->region.process][k->region.slot].lkey;
	uint32_t rkey = w->board->region[k->region.process][k->region.slot].rkey;

	if (k->kind == KEY_ZERO)
		return 0;
	return (remote ? rkey : lkey) ^ (k->kind == KEY_GARBLED ? 0x80 : 0);
}

static uint64_t address(const struct worker *w, const struct step_sge *s)
{
	return (uint64_t)(w->board->region[s->key.region.process][s->key.region.slot].base + s->at);
}

static void fill_sges(const struct worker *w, const struct step_sge *from, int n, bool inlined,
		      struct ibv_sge *to)
{
	for (int i = 0; i < n; i++)
		to[i] = (struct ibv_sge){
			inlined ? (uintptr_t)worker_memory.before(w, (uint32_t)from[i].at)
				: address(w, &from[i]),
			from[i].length, key_number(w, &from[i].key, false)};
}

/* ---- Objects ---- */

static int outcome_of(const void *made)
{
	return made ? 0 : errno;
}

static int reg_mr(struct worker *w, const struct step *s)
{
	const struct step_region *r = &s->region;
	uint8_t *at = worker_memory.at(w, r->at);
	int64_t base = (intptr_t)at - (int64_t)r->at;
	struct ibv_mr *mr;

	if (r->kind == REGION_IOVA) {
		base += IOVA_SHIFT;
		mr = ibv_reg_mr_iova(w->pd[r->pd], at, r->length, (uintptr_t)at + IOVA_SHIFT,
				     r->access);
	} else {
		mr = ibv_reg_mr(w->pd[r->pd], at, r->length, r->access);
	}
	w->mr[s->slot] = mr;
	if (!mr)
		return errno;
	w->board->region[w->me][s->slot].lkey = mr->lkey;
	w->board->region[w->me][s->slot].rkey = mr->rkey;
	w->board->region[w->me][s->slot].base =
		r->kind == REGION_ZERO_BASED ? -(int64_t)r->at : base;
	return 0;
}

static int create_qp(struct worker *w, const struct step *s, struct ibv_qp_cap *granted)
{
	struct ibv_qp_init_attr init = {.send_cq = w->cq[s->qp.send_cq],
					.recv_cq = w->cq[s->qp.recv_cq],
					.cap = s->qp.cap,
					.qp_type = IBV_QPT_RC,
					.sq_sig_all = s->qp.signal_all};
	struct ibv_qp *qp;

	if (init.cap.max_send_sge > SGES)
		init.cap.max_send_sge = 100000;
	if (init.cap.max_recv_sge > SGES)
		init.cap.max_recv_sge = 100000;
	qp = w->qp[s->slot] = ibv_create_qp(w->pd[s->qp.pd], &init);
	if (!qp)
		return errno;
	w->board->qpn[w->me][s->slot] = qp->qp_num;
	*granted = init.cap;
	return 0;
}

static int modify_qp(struct worker *w, const struct step *s)
{
	const struct step_modify *m = &s->modify;
	struct ibv_qp_attr attr = {
		.qp_state = m->to,
		.cur_qp_state = m->current,
		.path_mtu = m->mtu,
		.dest_qp_num = w->board->qpn[m->dest.process][m->dest.slot],
		.qp_access_flags = m->access,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {w->gid, .hop_limit = 1}},
		.pkey_index = m->pkey,
		.max_rd_atomic = m->max_rd_atomic,
		.max_dest_rd_atomic = m->max_dest_rd_atomic,
		.min_rnr_timer = m->min_rnr_timer,
		.port_num = m->port,
		.timeout = m->timeout,
		.retry_cnt = m->retry_cnt,
		.rnr_retry = m->rnr_retry,
		.path_mig_state = IBV_MIG_MIGRATED,
	};

	attr.alt_ah_attr = attr.ah_attr;
	attr.alt_port_num = 1;
	return ibv_modify_qp(w->qp[s->slot], &attr, (int)m->mask);
}

static void acknowledge(struct worker *w, int cq)
{
	ibv_ack_cq_events(w->cq[cq], w->unacknowledged[cq]);
	w->unacknowledged[cq] = 0;
}

static int destroy_cq(struct worker *w, const struct step *s)
{
	int err;

	acknowledge(w, s->slot); /* with unacknowledged events ibv_destroy_cq would wait */
	err = ibv_destroy_cq(w->cq[s->slot]);
	if (!err)
		w->cq[s->slot] = NULL;
	return err;
}

/* ---- Posting ---- */

static void post_recv(struct worker *w, const struct step *s, struct report *r)
{
	struct ibv_sge sge[BATCH][SGES];
	struct ibv_recv_wr wr[BATCH], *bad = NULL;

	for (int i = 0; i < s->count; i++) {
		fill_sges(w, s->receive[i].sge, s->receive[i].num_sge, false, sge[i]);
		wr[i] = (struct ibv_recv_wr){.wr_id = s->receive[i].wr_id,
					     .next = i + 1 < s->count ? &wr[i + 1] : NULL,
					     .sg_list = sge[i],
					     .num_sge = s->receive[i].num_sge};
	}
	r->error = ibv_post_recv(w->qp[s->slot], wr, &bad);
	r->done = !r->error ? s->count : bad ? (int)(bad - wr) : -1;
}

static void fill_send(const struct worker *w, const struct step_send *s, struct ibv_sge *sge,
		      struct ibv_send_wr *wr)
{
	uint64_t remote = address(w, &s->remote);
	uint32_t rkey = key_number(w, &s->remote.key, true);

	fill_sges(w, s->sge, s->num_sge, s->flags & IBV_SEND_INLINE, sge);
	*wr = (struct ibv_send_wr){.wr_id = s->wr_id,
				   .sg_list = sge,
				   .num_sge = s->num_sge,
				   .opcode = s->opcode,
				   .send_flags = s->flags,
				   .imm_data = s->imm};
	if (s->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = remote;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.compare_add = s->compare_add;
		wr->wr.atomic.swap = s->swap;
	} else {
		wr->wr.rdma.remote_addr = remote;
		wr->wr.rdma.rkey = rkey;
	}
}

static void post_send(struct worker *w, const struct step *s, struct report *r)
{
	struct ibv_sge sge[BATCH][SGES];
	struct ibv_send_wr wr[BATCH], *bad = NULL;

	for (int i = 0; i < s->count; i++) {
		fill_send(w, &s->send[i], sge[i], &wr[i]);
		wr[i].next = i + 1 < s->count ? &wr[i + 1] : NULL;
	}
	r->error = ibv_post_send(w->qp[s->slot], wr, &bad);
	r->done = !r->error ? s->count : bad ? (int)(bad - wr) : -1;
}

/* ---- Completions and events ---- */

static void lie(struct report *r)
{
	for (unsigned int i = 0; i < r->n; i++)
		if (r->wc[i].opcode == IBV_WC_RECV && r->wc[i].byte_len > 40)
			r->wc[i].byte_len--;
}

/* Waits for the completions that must come, and looks for more. */
static void poll_cq(struct worker *w, const struct order *o, struct report *r)
{
	struct ibv_cq *cq = w->cq[o->step.slot];
	unsigned int most = o->step.count;
	uint64_t begun_ns = 0;

	while (r->n < o->completions) {
		int n = ibv_poll_cq(cq, (int)(o->completions - r->n), r->wc + r->n);

		r->n += (unsigned int)(n > 0 ? n : 0);
		if (n < 0 || (!n && !worker_wait(w, &begun_ns)))
			break;
	}
	if (r->n == o->completions && most > r->n)
		r->n += (unsigned int)ibv_poll_cq(cq, (int)(most - r->n), r->wc + r->n);
	r->done = (int)r->n;
	if (w->board->lie)
		lie(r);
}

static void get_cq_events(struct worker *w, const struct order *o, struct report *r)
{
	unsigned int want = o->cq_events[0] + o->cq_events[1];
	uint64_t begun_ns = 0;
	struct ibv_cq *cq;
	void *context;

	/* one more than must come, to see that there is none */
	for (unsigned int got = 0; got <= want;) {
		if (!ibv_get_cq_event(w->channel, &cq, &context)) {
			int i = cq == w->cq[0] ? 0 : 1;

			r->cq_events[i]++;
			got++;
			if (w->unacknowledged[i]++ % 3 == 2)
				acknowledge(w, i);
		} else if (got == want || !worker_wait(w, &begun_ns)) {
			break;
		}
	}
}

static void get_async_events(struct worker *w, const struct order *o, struct report *r)
{
	struct ibv_async_event event;
	uint64_t begun_ns = 0;

	while (r->n <= o->async && r->n < 64) {
		if (!ibv_get_async_event(w->context, &event)) {
			struct async *a = &r->async[r->n++];

			a->type = event.event_type;
			for (a->qp = 0; a->qp < QPS && w->qp[a->qp] != event.element.qp; a->qp++)
				;
			ibv_ack_async_event(&event);
		} else if (r->n == o->async || !worker_wait(w, &begun_ns)) {
			break;
		}
	}
}

/* ---- All verbs ---- */

static void store(const struct worker *w, const struct step *s)
{
	uint8_t bytes[ARENA_BYTES];

	step_pattern(bytes, s->store.length, s->store.seed);
	worker_memory.write(w, s->store.at, bytes, s->store.length);
}

#define FORGET_IF_GONE(err, object)                                                                \
	do {                                                                                       \
		if (!(err))                                                                        \
			(object) = NULL;                                                           \
	} while (0)

static void object_call(struct worker *w, const struct step *s, struct report *r)
{
	switch ((enum verb)s->verb) {
	case ALLOC_PD:
		r->error = outcome_of(w->pd[s->slot] = ibv_alloc_pd(w->context));
		break;
	case DEALLOC_PD:
		r->error = ibv_dealloc_pd(w->pd[s->slot]);
		FORGET_IF_GONE(r->error, w->pd[s->slot]);
		break;
	case REG_MR:
		r->error = reg_mr(w, s);
		break;
	case DEREG_MR:
		r->error = ibv_dereg_mr(w->mr[s->slot]);
		break;
	case CREATE_CQ:
		w->cq[s->slot] = ibv_create_cq(w->context, s->cq.cqe, w,
					       s->cq.channel ? w->channel : NULL, 0);
		r->error = outcome_of(w->cq[s->slot]);
		break;
	case RESIZE_CQ:
		r->error = ibv_resize_cq(w->cq[s->slot], s->cq.cqe);
		break;
	case DESTROY_CQ:
		r->error = destroy_cq(w, s);
		break;
	case CREATE_QP:
		r->error = create_qp(w, s, &r->cap);
		break;
	case MODIFY_QP:
		r->error = modify_qp(w, s);
		break;
	case DESTROY_QP:
		r->error = ibv_destroy_qp(w->qp[s->slot]);
		FORGET_IF_GONE(r->error, w->qp[s->slot]);
		break;
	default: /* worker_call handles the other verbs */
		break;
	}
}

void worker_call(struct worker *w, const struct order *o, struct report *r)
{
	const struct step *s = &o->step;

	switch ((enum verb)s->verb) {
	case CREATE_CHANNEL:
		w->channel = ibv_create_comp_channel(w->context);
		r->error = outcome_of(w->channel);
		if (w->channel)
			worker_nonblocking(w->channel->fd);
		break;
	case DESTROY_CHANNEL:
		r->error = ibv_destroy_comp_channel(w->channel);
		FORGET_IF_GONE(r->error, w->channel);
		break;
	case POST_RECV:
		post_recv(w, s, r);
		break;
	case POST_SEND:
		post_send(w, s, r);
		break;
	case POLL_CQ:
		poll_cq(w, o, r);
		break;
	case NOTIFY_CQ:
		r->error = ibv_req_notify_cq(w->cq[s->slot], s->solicited_only);
		break;
	case GET_CQ_EVENTS:
		get_cq_events(w, o, r);
		break;
	case GET_ASYNC_EVENTS:
		get_async_events(w, o, r);
		break;
	case STORE:
		store(w, s);
		break;
	default:
		object_call(w, s, r);
		break;
	}
}
