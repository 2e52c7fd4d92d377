/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Queue pairs of XRC that receive. Each is shared by those that open it in its domain, and ends with the
 * last of them. Its maker carries out what others want of it: handles of this process reach it
 * directly, those of other processes by calls to the helper of its own (process/ask.c).
 */
#include "verbs/async.h"
#include "verbs/receiver.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "nic/cq.h"
#include "nic/lock.h"
#include "nic/qp.h"
#include "pool/clock.h"
#include "pool/format_qp.h"
#include "pool/sizes.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/qp.h"
#include "verbs/srq.h"
#include "process/ask.h"
#include "process/process.h"
#include "verbs/verbs.h"

#define PATIENCE_NS 10000000000ull /* with one whose mutex is held */
#define EVENTS_KEPT 4u

/* Another process has it open, so often. Made and ended by the helper alone. */
struct weft_receiver_opener {
	struct weft_receiver_opener *next;
	uint16_t member;
	uint64_t incarnation;
	uint32_t handles;
};

/* Guards the two lists and what each has open. Taken after a queue pair's lock. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct weft_verbs_qp *ours;   /* by next_receiver */
static struct weft_verbs_qp *opened; /* handles of others', by next_receiver */

void weft_receiver_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	ours = opened = NULL;
}

/* ---- What is open. The mutex is held. ---- */

static struct weft_verbs_qp *find_receiver(uint32_t qpn, uint32_t domain)
{
	struct weft_verbs_qp *qp = ours;

	while (qp && (qp->nic.qpn != qpn || qp->nic.xrcd != domain))
		qp = qp->next_receiver;
	return qp;
}

static void unlist(struct weft_verbs_qp **at, const struct weft_verbs_qp *qp)
{
	while (*at != qp)
		at = &(*at)->next_receiver;
	*at = qp->next_receiver;
}

static void add_handle(struct weft_verbs_qp *real, struct weft_verbs_qp *handle)
{
	handle->real = real;
	handle->next_handle = real->handles;
	real->handles = handle;
}

/* Whether no handle of it is open any more: then it is not found from here on. */
static bool is_last(struct weft_verbs_qp *real)
{
	bool last = !real->handles && !real->openers;

	if (last)
		unlist(&ours, real);
	return last;
}

static void end_receiver(struct weft_verbs_qp *real)
{
	weft_verbs_end_queues(real);
	weft_cq_destroy(&real->no_cq);
	free(real);
}

void weft_receiver_end(void)
{
	while (ours) {
		struct weft_verbs_qp *real = ours;

		while (real->openers) {
			struct weft_receiver_opener *next = real->openers->next;

			free(real->openers);
			real->openers = next;
		}
		ours = real->next_receiver;
		end_receiver(real);
	}
}

/* ---- Events ---- */

/* The last few, and above them how many there were. */
static void tell_others(struct weft_verbs_qp *real, enum ibv_event_type type)
{
	struct weft_pool_qp *slot = real->nic.slot;
	uint64_t events = atomic_load_explicit(&slot->events, memory_order_relaxed);

	events = ((events >> 32) + 1) << 32 | (uint32_t)(events << 8) | (uint32_t)type;
	/* release: pairs with the acquire in weft_receiver_events */
	atomic_store_explicit(&slot->events, events, memory_order_release);
	for (const struct weft_receiver_opener *o = real->openers; o; o = o->next)
		weft_pool_signal(weft_process.pool, o->member, WEFT_SIGNAL_CALL);
}

static void raise(struct weft_verbs_qp *handle, enum ibv_event_type type)
{
	struct ibv_async_event e = {.event_type = type, .element.qp = &handle->qp};

	weft_async_raise(handle->qp.context, &e);
}

void weft_receiver_raise(struct weft_verbs_qp *real, enum ibv_event_type type)
{
	pthread_mutex_lock(&mutex);
	for (struct weft_verbs_qp *qp = real->handles; qp; qp = qp->next_handle)
		raise(qp, type);
	tell_others(real, type);
	pthread_mutex_unlock(&mutex);
}

static struct weft_pool_qp *qp_entry(uint32_t qpn)
{
	uint32_t index = qpn & (WEFT_QPS - 1);

	return weft_pool_see_qp(weft_process.pool, index) ? NULL : &weft_process.pool->qps[index];
}

/* The pool may be damaged, and events of other objects are acknowledged by way of those. */
static bool is_of_queue_pair(uint32_t type)
{
	return (type >= IBV_EVENT_QP_FATAL && type <= IBV_EVENT_SQ_DRAINED) ||
	       type == IBV_EVENT_QP_LAST_WQE_REACHED;
}

void weft_receiver_events(void)
{
	pthread_mutex_lock(&mutex);
	for (struct weft_verbs_qp *qp = opened; qp; qp = qp->next_receiver) {
		uint64_t events = atomic_load_explicit(&qp_entry(qp->qp.qp_num)->events,
						       memory_order_acquire);
		uint32_t news = (uint32_t)(events >> 32) - qp->opened.events_seen;

		qp->opened.events_seen += news;
		for (news = news < EVENTS_KEPT ? news : EVENTS_KEPT; news; news--) {
			uint32_t type = events >> 8 * (news - 1) & 0xff;

			if (is_of_queue_pair(type))
				raise(qp, (enum ibv_event_type)type);
		}
	}
	pthread_mutex_unlock(&mutex);
}

/* ---- Calls of others, answered by the helper ---- */

static struct weft_receiver_opener **opener_of(struct weft_verbs_qp *real, uint16_t member,
					       uint64_t incarnation)
{
	struct weft_receiver_opener **at = &real->openers;

	while (*at && ((*at)->member != member || (*at)->incarnation != incarnation))
		at = &(*at)->next;
	return at;
}

static int open_for(struct weft_verbs_qp *real, uint16_t member, uint64_t incarnation)
{
	struct weft_receiver_opener **at = opener_of(real, member, incarnation);

	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (!*at)
			return -ENOMEM;
		(*at)->member = member;
		(*at)->incarnation = incarnation;
	}
	(*at)->handles++;
	return 0;
}

static void close_for(struct weft_receiver_opener **at)
{
	struct weft_receiver_opener *opener = *at;

	if (--opener->handles)
		return;
	*at = opener->next;
	free(opener);
}

/* Its opener waits for us, so that it stays. */
static int work_on(struct weft_verbs_qp *real, enum weft_ask_kind kind,
		   struct weft_receiver_call *call, struct weft_caller *caller)
{
	struct ibv_qp_attr attr;
	int err = 0;

	/* the lock's owner may wait for us */
	if (pthread_mutex_trylock(&real->qp.mutex))
		return -EAGAIN;
	if (kind == WEFT_ASK_QP_MODIFY) {
		attr = weft_receiver_attr_get(&call->attr);
		err = -weft_verbs_modify(real, &attr, call->mask, caller);
	}
	call->attr = weft_receiver_attr_of(&real->attr);
	call->attr.qp_state = call->attr.cur_qp_state = (uint32_t)real->nic.state;
	pthread_mutex_unlock(&real->qp.mutex);
	return err;
}

int weft_receiver_answer(struct weft_caller *caller, uint16_t member, uint64_t incarnation,
			 enum weft_ask_kind kind, uint64_t id, void *message)
{
	struct weft_receiver_call *call = message;
	struct weft_receiver_opener **opener = NULL;
	struct weft_verbs_qp *real;
	bool last = false;
	int err = -EINVAL;

	pthread_mutex_lock(&mutex);
	real = find_receiver((uint32_t)id, (uint32_t)(id >> 32));
	if (real)
		opener = opener_of(real, member, incarnation);
	if (real && kind == WEFT_ASK_QP_OPEN) {
		err = open_for(real, member, incarnation);
		call->events_seen = (uint32_t)(atomic_load_explicit(&real->nic.slot->events,
								    memory_order_relaxed) >>
					       32);
	} else if (real && *opener) {
		err = 0;
		if (kind == WEFT_ASK_QP_CLOSE)
			close_for(opener);
		last = is_last(real);
	}
	pthread_mutex_unlock(&mutex);
	if (last)
		end_receiver(real);
	else if (!err && (kind == WEFT_ASK_QP_MODIFY || kind == WEFT_ASK_QP_QUERY))
		err = work_on(real, kind, call, caller);
	return err;
}

/* One of which only the dead had handles, if there is one; it is not found any more. */
static struct weft_verbs_qp *forget_dead(struct weft_pool *pool)
{
	for (struct weft_verbs_qp *real = ours; real; real = real->next_receiver) {
		for (struct weft_receiver_opener **at = &real->openers; *at;) {
			struct weft_receiver_opener *o = *at;

			if (weft_pool_alive(pool, o->member, o->incarnation)) {
				at = &o->next;
				continue;
			}
			*at = o->next;
			free(o);
		}
		if (is_last(real))
			return real;
	}
	return NULL;
}

void weft_receiver_watch(struct weft_pool *pool)
{
	struct weft_verbs_qp *real;

	do {
		pthread_mutex_lock(&mutex);
		real = forget_dead(pool);
		pthread_mutex_unlock(&mutex);
		if (real)
			end_receiver(real);
	} while (real);
}

/* ---- Calls to others ---- */

static uint64_t receiver_id(const struct weft_verbs_qp *handle)
{
	return (uint64_t)handle->xrcd->number << 32 | handle->qp.qp_num;
}

/* 0 or -errno. */
static int call_maker(uint16_t member, enum weft_ask_kind kind, uint64_t id,
		      struct weft_receiver_call *call)
{
	uint64_t deadline_ns = weft_clock_now_ns() + PATIENCE_NS;
	int err;

	do {
		err = weft_ask_call(weft_process.pool, member, kind, id, call, sizeof(*call));
		if (err == -EAGAIN)
			sched_yield();
	} while (err == -EAGAIN && weft_clock_now_ns() < deadline_ns);
	return err;
}

/* The errno of what its maker said. */
static int explained(const char *verb, uint32_t qpn, int err)
{
	switch (-err) {
	case 0:
	case EOPNOTSUPP: /* explained there */
		return -err;
	case EINVAL:
		return weft_broken(verb, QP_FAR, qpn, weft_value(strerror(-err)));
	case ENOMEM:
	case ENOSPC:
		return weft_explain_errno(verb, -err);
	default:
		return weft_broken(verb, QP_MAKER, qpn);
	}
}

int weft_receiver_modify(struct weft_verbs_qp *handle, const struct ibv_qp_attr *attr, int mask)
{
	struct weft_receiver_call call = {.attr = weft_receiver_attr_of(attr), .mask = mask};
	int err = call_maker(handle->opened.member, WEFT_ASK_QP_MODIFY, receiver_id(handle), &call);

	if (!err)
		weft_verbs_tell_state(&handle->qp, attr, mask);
	return explained("ibv_modify_qp", handle->qp.qp_num, err);
}

int weft_receiver_query(struct weft_verbs_qp *handle, struct ibv_qp_attr *attr, int mask)
{
	struct weft_receiver_call call = {.mask = 0};
	int err = call_maker(handle->opened.member, WEFT_ASK_QP_QUERY, receiver_id(handle), &call);

	if (err)
		return explained("ibv_query_qp", handle->qp.qp_num, err);
	*attr = weft_receiver_attr_get(&call.attr);
	weft_verbs_tell_state(&handle->qp, attr, mask);
	return 0;
}

/* ---- Opening and closing ---- */

static void fill_receiver(struct weft_verbs_qp *qp, struct weft_verbs_xrcd *xrcd, void *qp_context,
			  uint32_t qpn)
{
	qp->qp = (struct ibv_qp){.context = xrcd->xrcd.context,
				 .qp_context = qp_context,
				 .qp_num = qpn,
				 .handle = qpn,
				 .qp_type = IBV_QPT_XRC_RECV};
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	qp->init = (struct ibv_qp_init_attr){.qp_context = qp_context, .qp_type = IBV_QPT_XRC_RECV};
	qp->xrcd = xrcd;
	xrcd->users++;
}

static void close_at_maker(struct weft_verbs_qp *qp)
{
	struct weft_receiver_call call = {.mask = 0};

	call_maker(qp->opened.member, WEFT_ASK_QP_CLOSE, receiver_id(qp), &call);
	pthread_mutex_lock(&mutex);
	unlist(&opened, qp);
	pthread_mutex_unlock(&mutex);
}

void weft_receiver_close(struct weft_verbs_qp *qp)
{
	struct weft_verbs_qp *real = qp->real, **at = &real->handles;
	bool last = false;

	if (qp->opened.is) {
		close_at_maker(qp);
	} else {
		pthread_mutex_lock(&mutex);
		while (*at != qp)
			at = &(*at)->next_handle;
		*at = qp->next_handle;
		last = is_last(real);
		pthread_mutex_unlock(&mutex);
	}
	weft_async_finish(qp->qp.context, qp, weft_qp_acks(&qp->qp));
	qp->xrcd->users--;
	if (qp != real || qp->opened.is)
		free(qp);
	if (last)
		end_receiver(real);
}

static int check_open(struct ibv_context *context, const struct ibv_qp_open_attr *attr)
{
	const uint32_t needed =
		IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	const char *verb = "ibv_open_qp";

	if (weft_explain_closed(verb, context))
		return EINVAL;
	if (!attr || (attr->comp_mask & needed) != needed)
		return weft_broken(verb, MISSING,
				   weft_value("qp_num, xrcd or qp_type, by comp_mask"),
				   attr ? attr->comp_mask : 0);
	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
		return weft_broken(verb, UNKNOWN_BITS, weft_value("comp_mask"), attr->comp_mask);
	if (attr->qp_type != IBV_QPT_XRC_RECV)
		return weft_broken(verb, NO_SERVICE, attr->qp_type);
	if (weft_explain_stale(verb, attr->xrcd, WEFT_HANDLE_XRCD))
		return EINVAL;
	return attr->xrcd->context == context ? 0
					      : weft_broken(verb, OTHER_CONTEXT, weft_value("xrcd"),
							    weft_value(attr->xrcd));
}

/* Of a queue pair that another process has made: the helper there says whether it exists. An errno. */
static int open_at_maker(struct weft_verbs_qp *qp)
{
	const struct weft_pool_qp *slot = qp_entry(qp->qp.qp_num);
	struct weft_receiver_call call = {.mask = 0};
	int err;

	if (!slot || slot->qpn != qp->qp.qp_num || slot->type != WEFT_QPT_XRC_RECV ||
	    slot->owner == weft_process.pool->me)
		return weft_broken("ibv_open_qp", OPEN_NUMBER, qp->qp.qp_num);
	err = -weft_helper_start();
	if (err)
		return weft_explain_errno("ibv_open_qp", err);
	qp->opened.is = true;
	qp->real = qp;
	qp->opened.member = slot->owner;
	err = call_maker(qp->opened.member, WEFT_ASK_QP_OPEN, receiver_id(qp), &call);
	if (err == -EINVAL)
		return weft_broken("ibv_open_qp", OPEN_NUMBER, qp->qp.qp_num);
	if (err)
		return explained("ibv_open_qp", qp->qp.qp_num, err);
	pthread_mutex_lock(&mutex);
	qp->opened.events_seen = call.events_seen;
	qp->next_receiver = opened;
	opened = qp;
	pthread_mutex_unlock(&mutex);
	weft_receiver_events(); /* events that came in between */
	return 0;
}

struct ibv_qp *weft_verbs_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	int err = check_open(context, attr);
	struct weft_verbs_qp *qp, *real;

	if (err)
		goto fail;
	if (posix_memalign((void **)&qp, 64, sizeof(*qp))) {
		err = weft_explain_errno("ibv_open_qp", ENOMEM);
		goto fail;
	}
	*qp = (struct weft_verbs_qp){.nic.nic = &weft_process_nic};
	fill_receiver(qp, weft_xrcd(attr->xrcd),
		      attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL,
		      attr->qp_num);
	pthread_mutex_lock(&mutex);
	real = find_receiver(attr->qp_num, qp->xrcd->number);
	if (real)
		add_handle(real, qp);
	pthread_mutex_unlock(&mutex);
	err = real ? 0 : open_at_maker(qp);
	if (err)
		goto free_object;
	if (!weft_handle_add(qp, WEFT_HANDLE_QP))
		return &qp->qp;
	weft_receiver_close(qp);
	err = weft_explain_errno("ibv_open_qp", ENOMEM);
	goto fail;
free_object:
	qp->xrcd->users--;
	free(qp);
fail:
	errno = err;
	return NULL;
}

static int check_receiver(struct ibv_context *context, const struct ibv_qp_init_attr_ex *init)
{
	const char *verb = "ibv_create_qp_ex";

	if (!(init->comp_mask & IBV_QP_INIT_ATTR_XRCD))
		return weft_broken(verb, MISSING, weft_value("xrcd, by comp_mask"),
				   init->comp_mask);
	if (weft_explain_stale(verb, init->xrcd, WEFT_HANDLE_XRCD))
		return EINVAL;
	if (init->xrcd->context != context)
		return weft_broken(verb, OTHER_CONTEXT, weft_value("xrcd"), weft_value(init->xrcd));
	return 0;
}

struct ibv_qp *weft_receiver_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
	struct weft_qp_cap cap = {0};
	struct weft_verbs_qp *qp;
	int err = check_receiver(context, init);

	if (err) {
		errno = err;
		return NULL;
	}
	err = -weft_helper_start(); /* others may call */
	if (err)
		goto fail;
	err = ENOMEM;
	if (posix_memalign((void **)&qp, 64, sizeof(*qp)))
		goto fail;
	*qp = (struct weft_verbs_qp){.nic.xrcd = weft_xrcd(init->xrcd)->number};
	err = -weft_cq_create(&weft_process_nic, &qp->no_cq, 1);
	if (err)
		goto free_object;
	weft_rehome_share();
	err = -weft_qp_create(&weft_process_nic, &qp->nic, WEFT_QPT_XRC_RECV, 0, &qp->no_cq,
			      &qp->no_cq, NULL, &cap, false);
	weft_rehome_unshare();
	if (err)
		goto destroy_cq;
	err = -weft_handle_add(qp, WEFT_HANDLE_QP);
	if (err)
		goto destroy_queues;
	fill_receiver(qp, weft_xrcd(init->xrcd), init->qp_context, qp->nic.qpn);
	pthread_mutex_lock(&mutex);
	add_handle(qp, qp);
	qp->next_receiver = ours;
	ours = qp;
	pthread_mutex_unlock(&mutex);
	return &qp->qp;
destroy_queues:
	weft_verbs_end_queues(qp);
destroy_cq:
	weft_cq_destroy(&qp->no_cq);
free_object:
	free(qp);
fail:
	errno = weft_explain_errno("ibv_create_qp_ex", err);
	return NULL;
}
