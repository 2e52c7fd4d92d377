/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Extended reliable connections (InfiniBand volume 1, annex A14): domains, and the queue pairs that
 * receive in them. They have no protection domain and no completion queue: each request names a shared
 * receive queue of their domain, whose own these are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "verbs/explain.h"
#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/verbs.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct weft_verbs_xrcd *domains;
static uint32_t last_nameless;

/* The same in all processes that have the file open. */
static uint32_t number_of(const struct stat *st)
{
	uint64_t hash = (st->st_ino ^ (uint64_t)st->st_dev << 32) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(hash >> 33) | 0x80000000u;
}

static uint32_t nameless(void)
{
	return (uint32_t)weft_process.pool->me << 16 | (++last_nameless & 0xffff);
}

static bool exists(uint32_t number)
{
	const struct weft_verbs_xrcd *d = domains;

	while (d && d->number != number)
		d = d->next;
	return d;
}

/* Whether another process has a file's domain open is not known: it counts as made. */
static int check(struct ibv_context *context, const struct ibv_xrcd_init_attr *init, struct stat *st)
{
	const uint32_t mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

	const char *verb = "ibv_open_xrcd";

	if (weft_explain_closed(verb, context))
		return EINVAL;
	if (!init)
		return weft_broken(verb, MISSING, weft_value("xrcd_init_attr"));
	if (init->comp_mask != mask || init->oflags & ~(O_CREAT | O_EXCL) ||
	    (init->fd == -1 && !(init->oflags & O_CREAT)))
		return weft_broken(verb, XRCD, init->comp_mask, (uint64_t)init->oflags,
				   (uint64_t)init->fd);
	return init->fd != -1 && fstat(init->fd, st) ?
		       weft_broken(verb, XRCD_FILE, (uint64_t)init->fd) :
		       0;
}

struct ibv_xrcd *weft_verbs_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *init)
{
	struct weft_verbs_xrcd *d = NULL;
	struct stat st;
	int err = check(context, init, &st);

	pthread_mutex_lock(&mutex);
	if (!err && init->fd != -1 && init->oflags & O_EXCL && exists(number_of(&st)))
		err = weft_broken("ibv_open_xrcd", XRCD_EXISTS, (uint64_t)init->fd);
	if (!err) {
		d = calloc(1, sizeof(*d));
		if (!d || weft_handle_add(d, WEFT_HANDLE_XRCD))
			err = weft_explain_errno("ibv_open_xrcd", ENOMEM);
	}
	if (err) {
		pthread_mutex_unlock(&mutex);
		free(d);
		errno = err;
		return NULL;
	}
	d->xrcd.context = context;
	d->number = init->fd == -1 ? nameless() : number_of(&st);
	d->next = domains;
	domains = d;
	pthread_mutex_unlock(&mutex);
	return &d->xrcd;
}

int weft_verbs_close_xrcd(struct ibv_xrcd *xrcd)
{
	struct weft_verbs_xrcd **at = &domains;

	if (weft_explain_stale("ibv_close_xrcd", xrcd, WEFT_HANDLE_XRCD))
		return EINVAL;
	if (weft_xrcd(xrcd)->users)
		return weft_broken("ibv_close_xrcd", IN_USE, weft_xrcd(xrcd)->users,
				   weft_value("XRC domain"));
	weft_handle_remove(xrcd);
	pthread_mutex_lock(&mutex);
	while (*at != weft_xrcd(xrcd))
		at = &(*at)->next;
	*at = weft_xrcd(xrcd)->next;
	pthread_mutex_unlock(&mutex);
	free(weft_xrcd(xrcd));
	return 0;
}

/* ---- Queue pairs that receive, each shared by those who open it ---- */

static pthread_mutex_t handles = PTHREAD_MUTEX_INITIALIZER; /* taken after a queue pair's lock */

/* The mutex is held. */
static void add_handle(struct weft_verbs_qp *real, struct weft_verbs_qp *handle)
{
	handle->real = real;
	handle->next_handle = real->handles;
	real->handles = handle;
}

/* Whether it was the last. */
static bool remove_handle(struct weft_verbs_qp *handle)
{
	struct weft_verbs_qp **at = &handle->real->handles;
	bool last;

	pthread_mutex_lock(&handles);
	while (*at != handle)
		at = &(*at)->next_handle;
	*at = handle->next_handle;
	last = !handle->real->handles;
	pthread_mutex_unlock(&handles);
	return last;
}

void weft_xrc_raise(struct weft_verbs_qp *real, enum ibv_event_type type)
{
	pthread_mutex_lock(&handles);
	for (struct weft_verbs_qp *qp = real->handles; qp; qp = qp->next_handle) {
		struct ibv_async_event e = { .event_type = type, .element.qp = &qp->qp };

		weft_async_raise(qp->qp.context, &e);
	}
	pthread_mutex_unlock(&handles);
}

void weft_xrc_close_receiver(struct weft_verbs_qp *qp)
{
	struct weft_verbs_qp *real = qp->real;
	bool last = remove_handle(qp);

	if (last)
		weft_qp_destroy(&real->nic);
	weft_async_finish(qp->qp.context, qp, weft_qp_acks(&qp->qp));
	qp->xrcd->users--;
	if (qp != real)
		free(qp);
	if (last) {
		weft_cq_destroy(&real->no_cq);
		free(real);
	}
}

static void fill(struct weft_verbs_qp *qp, struct weft_verbs_xrcd *xrcd, void *qp_context, uint32_t qpn)
{
	qp->qp = (struct ibv_qp){ .context = xrcd->xrcd.context,
				  .qp_context = qp_context,
				  .qp_num = qpn,
				  .handle = qpn,
				  .qp_type = IBV_QPT_XRC_RECV };
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	qp->init = (struct ibv_qp_init_attr){ .qp_context = qp_context, .qp_type = IBV_QPT_XRC_RECV };
	qp->xrcd = xrcd;
	xrcd->users++;
}

static bool is_handle(const void *object, const void *arg)
{
	const struct weft_verbs_qp *qp = object;
	const struct ibv_qp_open_attr *wanted = arg;

	return qp->real && qp->qp.qp_num == wanted->qp_num &&
	       qp->xrcd->number == weft_xrcd(wanted->xrcd)->number;
}

/* One of another process ends with that, so that we could not keep it. An errno. */
static int why_not(const struct ibv_qp_open_attr *attr)
{
	uint32_t index = attr->qp_num & (WEFT_QPS - 1);
	const struct weft_pool_qp *slot = &weft_process.pool->qps[index];

	return !weft_pool_see_qp(weft_process.pool, index) &&
			       atomic_load_explicit(&slot->qpn, memory_order_acquire) == attr->qp_num &&
			       slot->type == WEFT_QPT_XRC_RECV &&
			       slot->qkey == weft_xrcd(attr->xrcd)->number ?
		       weft_broken("ibv_open_qp", OPEN_FOREIGN, attr->qp_num) :
		       weft_broken("ibv_open_qp", OPEN_NUMBER, attr->qp_num);
}

static int check_open(struct ibv_context *context, const struct ibv_qp_open_attr *attr)
{
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	const char *verb = "ibv_open_qp";

	if (weft_explain_closed(verb, context))
		return EINVAL;
	if (!attr || (attr->comp_mask & needed) != needed)
		return weft_broken(verb, MISSING, weft_value("qp_num, xrcd or qp_type, by comp_mask"),
				   attr ? attr->comp_mask : 0);
	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
		return weft_broken(verb, UNKNOWN_BITS, weft_value("comp_mask"), attr->comp_mask);
	if (attr->qp_type != IBV_QPT_XRC_RECV)
		return weft_broken(verb, NO_SERVICE, attr->qp_type);
	if (weft_explain_stale(verb, attr->xrcd, WEFT_HANDLE_XRCD))
		return EINVAL;
	return attr->xrcd->context == context ?
		       0 :
		       weft_broken(verb, OTHER_CONTEXT, weft_value("xrcd"), weft_value(attr->xrcd));
}

struct ibv_qp *weft_verbs_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	int err = check_open(context, attr);
	struct weft_verbs_qp *qp, *other;

	if (err)
		goto fail;
	if (posix_memalign((void **)&qp, 64, sizeof(*qp))) {
		err = weft_explain_errno("ibv_open_qp", ENOMEM);
		goto fail;
	}
	*qp = (struct weft_verbs_qp){ .nic.nic = &weft_process.nic };
	pthread_mutex_lock(&handles);
	other = weft_handle_find(WEFT_HANDLE_QP, is_handle, attr);
	if (!other)
		err = why_not(attr);
	else if (weft_handle_add(qp, WEFT_HANDLE_QP))
		err = weft_explain_errno("ibv_open_qp", ENOMEM);
	if (!err) {
		fill(qp, weft_xrcd(attr->xrcd),
		     attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL,
		     attr->qp_num);
		add_handle(other->real, qp);
	}
	pthread_mutex_unlock(&handles);
	if (err)
		goto free_object;
	return &qp->qp;
free_object:
	free(qp);
fail:
	errno = err;
	return NULL;
}

static int check_receiver(struct ibv_context *context, const struct ibv_qp_init_attr_ex *init)
{
	const char *verb = "ibv_create_qp_ex";

	if (!(init->comp_mask & IBV_QP_INIT_ATTR_XRCD))
		return weft_broken(verb, MISSING, weft_value("xrcd, by comp_mask"), init->comp_mask);
	if (weft_explain_stale(verb, init->xrcd, WEFT_HANDLE_XRCD))
		return EINVAL;
	if (init->xrcd->context != context)
		return weft_broken(verb, OTHER_CONTEXT, weft_value("xrcd"), weft_value(init->xrcd));
	return 0;
}

struct ibv_qp *weft_xrc_create_receiver(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
	struct weft_qp_cap cap = { 0 };
	struct weft_verbs_qp *qp;
	int err = check_receiver(context, init);

	if (err) {
		errno = err;
		return NULL;
	}
	err = ENOMEM;
	if (posix_memalign((void **)&qp, 64, sizeof(*qp)))
		goto fail;
	*qp = (struct weft_verbs_qp){ .nic.xrcd = weft_xrcd(init->xrcd)->number };
	err = -weft_cq_create(&weft_process.nic, &qp->no_cq, 1);
	if (err)
		goto free_object;
	err = -weft_qp_create(&weft_process.nic, &qp->nic, WEFT_QPT_XRC_RECV, 0, &qp->no_cq,
			      &qp->no_cq, NULL, &cap, false);
	if (err)
		goto destroy_cq;
	err = -weft_handle_add(qp, WEFT_HANDLE_QP);
	if (err)
		goto destroy_queues;
	pthread_mutex_lock(&handles);
	fill(qp, weft_xrcd(init->xrcd), init->qp_context, qp->nic.qpn);
	add_handle(qp, qp);
	pthread_mutex_unlock(&handles);
	return &qp->qp;
destroy_queues:
	weft_qp_destroy(&qp->nic);
destroy_cq:
	weft_cq_destroy(&qp->no_cq);
free_object:
	free(qp);
fail:
	errno = weft_explain_errno("ibv_create_qp_ex", err);
	return NULL;
}
