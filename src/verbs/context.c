/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Opening and closing the device, and the tables through which programs reach the operations that
 * have no exported function.
 *
 * The memory of a context is never given back: a closed one waits in the list for the next open. So
 * a program's stale pointer can be told from a good one without touching it, and the tables behind
 * it stay readable.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "nic/qp.h"
#include "verbs/async.h"
#include "verbs/explain.h"
#include "process/process.h"
#include "verbs/service.h"
#include "verbs/verbs.h"

/* Programs find a field of either struct by its distance from the context, in every release. */
#define AT(field, bytes)                                                                           \
	_Static_assert(offsetof(struct verbs_context, context) -                                   \
				       offsetof(struct verbs_context, field) ==                    \
			       (bytes),                                                            \
		       #field " moved")
AT(sz, 8);
AT(close_xrcd, 24);
AT(open_xrcd, 32);
AT(create_srq_ex, 40);
AT(get_srq_num, 48);
AT(create_qp_ex, 56);
AT(open_qp, 64);
AT(query_device_ex, 104);
AT(create_cq_ex, 120);
AT(query_rt_values, 128);
AT(modify_cq, 184);
AT(alloc_td, 192);
AT(dealloc_td, 200);
AT(alloc_parent_domain, 208);
AT(free_dm, 248);
AT(alloc_dm, 256);
AT(reg_dm_mr, 264);
AT(alloc_null_mr, 304);
AT(advise_mr, 312);
AT(query_port, 320);
_Static_assert(offsetof(struct ibv_context, ops.alloc_mw) == 64, "ops moved");
_Static_assert(offsetof(struct ibv_context, ops.poll_cq) == 96, "ops moved");
_Static_assert(offsetof(struct ibv_context, ops.post_recv) == 216, "ops moved");
_Static_assert(offsetof(struct ibv_context, cmd_fd) == 264, "cmd_fd moved");
_Static_assert(offsetof(struct ibv_context, async_fd) == 268, "async_fd moved");
_Static_assert(offsetof(struct ibv_context, num_comp_vectors) == 272, "num_comp_vectors moved");
/* behind a mutex, which each architecture has in its own size */
_Static_assert(offsetof(struct ibv_context, abi_compat) == 280 + sizeof(pthread_mutex_t),
	       "abi_compat moved");

#define FAMILY_BITS 24 /* contexts that a process opens in its life */

enum state {
	CLOSED,
	BUSY, /* a thread is opening or closing it */
	OPEN,
	INHERITED, /* of the process that this one is forked from; never ours, so that its address stays its own */
};

static struct weft_context *_Atomic contexts;
/* Held to close one, and to tell all that are open of something. */
static pthread_mutex_t telling = PTHREAD_MUTEX_INITIALIZER;

/* Operations that stay NULL are not there: callers answer EOPNOTSUPP. */
static const struct verbs_context operations = {
	.query_port = weft_verbs_query_port,
	.advise_mr = weft_verbs_advise_mr,
	.alloc_null_mr = weft_verbs_alloc_null_mr,
	.reg_dm_mr = weft_verbs_reg_dm_mr,
	.alloc_dm = weft_verbs_alloc_dm,
	.free_dm = weft_verbs_free_dm,
	.alloc_parent_domain = weft_verbs_alloc_parent_domain,
	.dealloc_td = weft_verbs_dealloc_td,
	.alloc_td = weft_verbs_alloc_td,
	.modify_cq = weft_verbs_modify_cq,
	.query_rt_values = weft_verbs_query_rt_values,
	.create_cq_ex = weft_verbs_create_cq_ex,
	.query_device_ex = weft_verbs_query_device_ex,
	.open_qp = weft_verbs_open_qp,
	.create_qp_ex = weft_verbs_create_qp_ex,
	.get_srq_num = weft_verbs_get_srq_num,
	.create_srq_ex = weft_verbs_create_srq_ex,
	.open_xrcd = weft_verbs_open_xrcd,
	.close_xrcd = weft_verbs_close_xrcd,
	.sz = sizeof(struct verbs_context),
	.context.ops =
		{
			.alloc_mw = weft_verbs_alloc_mw,
			.bind_mw = weft_verbs_bind_mw,
			.dealloc_mw = weft_verbs_dealloc_mw,
			.poll_cq = weft_verbs_poll_cq,
			.req_notify_cq = weft_verbs_req_notify_cq,
			.post_srq_recv = weft_verbs_post_srq_recv,
			.post_send = weft_verbs_post_send,
			.post_recv = weft_verbs_post_recv,
		},
	.context.abi_compat = __VERBS_ABI_IS_EXTENDED,
};

/* A context in state BUSY that is ours, or NULL and errno. */
static struct weft_context *claim(void)
{
	struct weft_context *ctx;

	for (ctx = atomic_load_explicit(&contexts, memory_order_acquire); ctx; ctx = ctx->next) {
		int closed = CLOSED;

		if (atomic_compare_exchange_strong_explicit(
			    &ctx->state, &closed, BUSY, memory_order_acquire, memory_order_relaxed))
			return ctx;
	}
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return NULL;
	atomic_init(&ctx->state, BUSY);
	ctx->next = atomic_load_explicit(&contexts, memory_order_relaxed);
	/* Pairs with the acquire of a walk along the list: next is set. */
	while (!atomic_compare_exchange_weak_explicit(&contexts, &ctx->next, ctx,
						      memory_order_release, memory_order_relaxed))
		;
	return ctx;
}

/* That of a pointer, if it is in that state. */
static struct weft_context *find_context(const struct ibv_context *context, enum state state)
{
	struct weft_context *ctx = atomic_load_explicit(&contexts, memory_order_acquire);

	while (ctx && &ctx->vctx.context != context)
		ctx = ctx->next;
	/* Pairs with the release of OPEN in ibv_open_device(): all fields are set. */
	if (ctx && atomic_load_explicit(&ctx->state, memory_order_acquire) != (int)state)
		return NULL;
	return ctx;
}

struct weft_context *weft_context_find(const struct ibv_context *context)
{
	return find_context(context, OPEN);
}

void weft_contexts_raise(const struct ibv_async_event *event)
{
	struct weft_context *ctx;

	pthread_mutex_lock(&telling);
	for (ctx = atomic_load_explicit(&contexts, memory_order_acquire); ctx; ctx = ctx->next)
		if (atomic_load_explicit(&ctx->state, memory_order_acquire) == OPEN)
			weft_async_raise(&ctx->vctx.context, event);
	pthread_mutex_unlock(&telling);
}

void weft_context_forget(void)
{
	struct weft_context *ctx = atomic_load_explicit(&contexts, memory_order_acquire);

	pthread_mutex_init(&telling, NULL);
	for (; ctx; ctx = ctx->next)
		if (atomic_load_explicit(&ctx->state, memory_order_relaxed) != CLOSED)
			atomic_store_explicit(&ctx->state, INHERITED, memory_order_relaxed);
}

static void close_fds(struct ibv_context *context)
{
	close(context->async_fd);
	if (context->cmd_fd >= 0)
		close(context->cmd_fd);
}

/* A context with all but the number of its family and the descriptor that tells it. NULL and errno. */
static struct weft_context *open_context(struct ibv_device *device)
{
	struct weft_context *ctx = claim();
	struct ibv_context *context;
	int err;

	if (!ctx)
		return NULL;
	ctx->vctx = operations;
	if (weft_explain_wanted())
		ctx->vctx.context.ops.poll_cq = weft_blame_poll_cq;
	ctx->vctx.priv = (void *)&weft_service;
	context = &ctx->vctx.context;
	context->device = device;
	context->num_comp_vectors = get_nprocs();
	context->cmd_fd = -1;
	pthread_mutex_init(&context->mutex, NULL);
	/* A read takes one event, waits for it, and honours O_NONBLOCK. */
	context->async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	err = context->async_fd < 0 ? -errno : 0;
	if (err)
		goto release;
	err = weft_nic_attach(ctx);
	if (err)
		goto close;
	return ctx;

close:
	close_fds(context);
release:
	pthread_mutex_destroy(&context->mutex);
	atomic_store_explicit(&ctx->state, CLOSED, memory_order_release);
	errno = -err;
	return NULL;
}

static void close_context(struct weft_context *ctx)
{
	struct ibv_context *context = &ctx->vctx.context;

	weft_nic_detach(ctx);
	close_fds(context);
	pthread_mutex_destroy(&context->mutex);
	/* Pairs with the acquire of the next claim(). */
	atomic_store_explicit(&ctx->state, CLOSED, memory_order_release);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	static _Atomic uint64_t families;
	struct weft_context *ctx;
	int err;

	if (!device) {
		errno = weft_broken("ibv_open_device", MISSING, weft_value("device"));
		return NULL;
	}
	ctx = open_context(device);
	if (!ctx) {
		errno = weft_explain_errno("ibv_open_device", errno);
		return NULL;
	}
	ctx->family = weft_process.pool->incarnation << FAMILY_BITS | ++families;
	ctx->vctx.context.cmd_fd = memfd_create("weft", MFD_CLOEXEC);
	err = ctx->vctx.context.cmd_fd < 0
		      ? -errno
		      : weft_context_export(ctx->vctx.context.cmd_fd, ctx->family);
	if (err) {
		close_context(ctx);
		errno = weft_explain_errno("ibv_open_device", -err);
		return NULL;
	}
	atomic_store_explicit(&ctx->state, OPEN, memory_order_release);
	return &ctx->vctx.context;
}

struct ibv_context *weft_context_import(uint64_t family)
{
	struct weft_context *ctx = open_context(weft_device());

	if (!ctx) {
		errno = weft_explain_errno("ibv_import_device", errno);
		return NULL;
	}
	ctx->family = family;
	atomic_store_explicit(&ctx->state, OPEN, memory_order_release);
	return &ctx->vctx.context;
}

int ibv_close_device(struct ibv_context *context)
{
	struct weft_context *ctx = weft_context_find(context);
	int open = OPEN;
	bool ours;

	/* Its parent's lives on. The descriptors stay, too: the program may have closed them itself, and has
	 * others of these numbers now. */
	if (find_context(context, INHERITED))
		return 0;
	pthread_mutex_lock(&telling);
	ours = ctx && atomic_compare_exchange_strong(&ctx->state, &open, BUSY);
	pthread_mutex_unlock(&telling);
	if (!ours) {
		errno = weft_broken("ibv_close_device", CONTEXT, weft_value(context));
		return -1;
	}
	close_context(ctx);
	return 0;
}
