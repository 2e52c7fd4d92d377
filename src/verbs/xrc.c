/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Extended reliable connections (InfiniBand volume 1, annex A14): domains, and the queue pairs that receive in
 * them. They have no protection domain and no completion queue: each request names a shared receive queue of their
 * domain, which has both.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "nic/cq.h"
#include "nic/qp.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/srq.h"
#include "process/process.h"
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
static int check_xrcd(struct ibv_context *context, const struct ibv_xrcd_init_attr *init,
		      struct stat *st)
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
	return init->fd != -1 && fstat(init->fd, st)
		       ? weft_broken(verb, XRCD_FILE, (uint64_t)init->fd)
		       : 0;
}

struct ibv_xrcd *weft_verbs_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *init)
{
	struct weft_verbs_xrcd *d = NULL;
	struct stat st;
	int err = check_xrcd(context, init, &st);

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

	if (weft_handle_inherited(xrcd))
		return 0;
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
