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

	if (!weft_context_find(context) || !init || init->comp_mask != mask ||
	    init->oflags & ~(O_CREAT | O_EXCL))
		return EINVAL;
	if (init->fd == -1)
		return init->oflags & O_CREAT ? 0 : EINVAL;
	return fstat(init->fd, st) ? EBADF : 0;
}

struct ibv_xrcd *weft_verbs_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *init)
{
	struct weft_verbs_xrcd *d = NULL;
	struct stat st;
	int err = check(context, init, &st);

	pthread_mutex_lock(&mutex);
	if (!err && init->fd != -1 && init->oflags & O_EXCL && exists(number_of(&st)))
		err = EEXIST;
	if (!err) {
		d = calloc(1, sizeof(*d));
		if (!d || weft_handle_add(d, WEFT_HANDLE_XRCD))
			err = ENOMEM;
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

	if (!weft_handle_is(xrcd, WEFT_HANDLE_XRCD))
		return EINVAL;
	if (weft_xrcd(xrcd)->users)
		return EBUSY;
	weft_handle_remove(xrcd);
	pthread_mutex_lock(&mutex);
	while (*at != weft_xrcd(xrcd))
		at = &(*at)->next;
	*at = weft_xrcd(xrcd)->next;
	pthread_mutex_unlock(&mutex);
	free(weft_xrcd(xrcd));
	return 0;
}

struct ibv_qp *weft_xrc_create_receiver(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
	struct weft_qp_cap cap = { 0 };
	struct weft_verbs_qp *qp;
	int err = EINVAL;

	if (!(init->comp_mask & IBV_QP_INIT_ATTR_XRCD) ||
	    !weft_handle_is(init->xrcd, WEFT_HANDLE_XRCD) || init->xrcd->context != context)
		goto fail;
	err = ENOMEM;
	if (posix_memalign((void **)&qp, 64, sizeof(*qp)))
		goto fail;
	*qp = (struct weft_verbs_qp){ .xrcd = weft_xrcd(init->xrcd) };
	err = -weft_cq_create(&weft_process.nic, &qp->no_cq, 1);
	if (err)
		goto free_object;
	err = -weft_qp_create(&weft_process.nic, &qp->nic, WEFT_QPT_XRC_RECV, 0, &qp->no_cq,
			      &qp->no_cq, NULL, &cap, false);
	if (err)
		goto destroy_cq;
	qp->nic.xrcd = qp->xrcd->number;
	err = -weft_handle_add(qp, WEFT_HANDLE_QP);
	if (err)
		goto destroy_queues;
	qp->qp = (struct ibv_qp){ .context = context,
				  .qp_context = init->qp_context,
				  .qp_num = qp->nic.qpn,
				  .handle = qp->nic.qpn,
				  .qp_type = IBV_QPT_XRC_RECV };
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	qp->init = (struct ibv_qp_init_attr){ .qp_context = init->qp_context,
					      .qp_type = IBV_QPT_XRC_RECV };
	qp->xrcd->users++;
	return &qp->qp;
destroy_queues:
	weft_qp_destroy(&qp->nic);
destroy_cq:
	weft_cq_destroy(&qp->no_cq);
free_object:
	free(qp);
fail:
	errno = err == ENOSPC ? ENOMEM : err;
	return NULL;
}
