/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory windows (10.6.7): entries of the table of regions, of which the binding is a part of a
 * region seen by a key of its own. They are bound and invalidated in the order of a send queue; one
 * of type 2 can also be ended by the peer of its queue pair.
 */
#include "nic/mr.h"
#include "nic/mw.h"
#include "nic/nic.h"
#include "nic/place.h"
#include "nic/qp.h"
#include "nic/wqe.h"
#include "pool/format_region.h"
#include "pool/seen.h"
#include "pool/sizes.h"
#include "pool/slice.h"

#define REMOTE (WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_ATOMIC)
#define WINDOW_FLAGS                                                                               \
	(WEFT_ACCESS_LOCAL_WRITE | REMOTE | WEFT_ACCESS_MW_BIND | WEFT_ACCESS_ZERO_BASED)
#define TAG_BITS 8u /* of a key: the binder of a window of type 2 chooses them (10.6.7.2.3) */

static struct weft_window_entry *entry_of(const struct weft_nic *nic, uint32_t key)
{
	return &nic->windows[key >> WEFT_KEY_BITS];
}

static bool is_live(const struct weft_mw *mw)
{
	return (uint32_t)atomic_load_explicit(&mw->nic->pool->mrs[mw->index].id,
					      memory_order_relaxed);
}

int weft_mw_create(struct weft_nic *nic, struct weft_mw *mw, uint32_t pd, enum weft_mw_type type)
{
	int err = nic->pool->calls->take_mr(nic->pool, &mw->index);

	if (err)
		return err;
	mw->nic = nic;
	mw->pd = pd;
	mw->type = type;
	mw->key = weft_mr_next_key(nic->pool, mw->index);
	weft_lock(nic, &nic->window_lock, 0);
	entry_of(nic, mw->key)->window = mw;
	weft_unlock(&nic->window_lock, false);
	return 0;
}

/* ---- Unbinding; the lock is held ---- */

/* The key has ended, and no executor that does not stand still uses it any more. */
static void forget_window(struct weft_mw *mw, bool quiet)
{
	struct weft_mw **at = &mw->nic->windows[mw->parent].bound;

	if (!mw->parent)
		return;
	while (*at != mw)
		at = &(*at)->next;
	*at = mw->next;
	mw->parent = 0;
	if (mw->pieces_bytes)
		weft_mr_free_pieces(mw->nic, mw->pieces_off, mw->pieces_bytes, quiet);
	mw->pieces_bytes = 0;
}

/* The executor that it was revoked from may stand still in the middle of a copy: false. The region that it shows
 * will find that one, too, before it ends. */
static bool unbind(struct weft_mw *mw)
{
	bool live = is_live(mw);
	bool quiet = true;

	if (live || mw->parent)
		quiet = weft_mr_end_key(mw->nic, mw->index, mw->made);
	forget_window(mw, quiet);
	return quiet;
}

void weft_mw_destroy(struct weft_mw *mw)
{
	struct weft_nic *nic = mw->nic;
	bool quiet;

	weft_lock(nic, &nic->window_lock, 0);
	quiet = unbind(mw);
	entry_of(nic, mw->key)->window = NULL;
	weft_unlock(&nic->window_lock, false);
	if (quiet)
		nic->pool->calls->drop_mr(nic->pool, mw->index);
	else
		nic->pool->calls->retire(nic->pool, WEFT_RETIRE_MR, mw->index, 0);
}

bool weft_mr_close(struct weft_mr *mr)
{
	struct weft_nic *nic = mr->nic;
	struct weft_mw *next;
	bool live = false;

	weft_lock(nic, &nic->window_lock, 0);
	for (struct weft_mw *mw = nic->windows[mr->index].bound; mw; mw = next) {
		next = mw->next;
		if (is_live(mw))
			live = true;
		else
			forget_window(
				mw,
				true); /* its peer has ended it, and has one request at a time here */
	}
	if (!live)
		weft_mr_store_ended(nic->pool, mr->index);
	weft_unlock(&nic->window_lock, false);
	return !live;
}

/* ---- Binding ---- */

/* Where the part of a region lies that begins at `start`. */
static void show_run(const struct weft_pool_mr *mr, uint64_t start, struct weft_pool_mr *window)
{
	uint64_t lo = mr->lo > start ? mr->lo - start : 0, hi = mr->hi > start ? mr->hi - start : 0;

	window->lo = lo < window->len_bytes ? lo : window->len_bytes;
	window->hi = hi < window->len_bytes ? hi : window->len_bytes;
	window->off = mr->off + (start > mr->lo ? start - mr->lo : 0);
}

/* The same of one that lists its pieces: as many of them as it shows. */
static int show_pieces(struct weft_mw *mw, const struct weft_pool_mr *mr, uint64_t start,
		       struct weft_pool_mr *window)
{
	const struct weft_pool_piece *from = (const void *)(mw->nic->pool->base + mr->off);
	uint64_t first = 0, n, end = start + window->len_bytes;
	struct weft_pool_piece *to;
	int err;

	while (first + 1 < mr->hi && from[first + 1].start <= start)
		first++;
	for (n = 1; first + n < mr->hi && from[first + n].start < end; n++)
		;
	err = mw->nic->pool->calls->alloc(mw->nic->pool, n * sizeof(*to), &mw->pieces_off);
	if (err)
		return err;
	mw->pieces_bytes = n * sizeof(*to);
	to = (void *)(mw->nic->pool->base + mw->pieces_off);
	for (uint64_t i = 0; i < n; i++)
		to[i] = (struct weft_pool_piece){from[first + i].start - start,
						 from[first + i].off};
	to[0].start = 0;
	if (from[first].off != UINT64_MAX)
		to[0].off += start - from[first].start;
	window->off = mw->pieces_off;
	window->lo = WEFT_MR_LISTED;
	window->hi = n;
	return 0;
}

/* The rules of 10.6.7.2, C10-72 to C10-75 and o10-36 to o10-37. mr: what we see of the region. */
static enum weft_cause may_bind(const struct weft_qp *qp, const struct weft_mw *mw,
				const struct weft_pool_mr *mr, const struct weft_bind *bind)
{
	uint64_t start;

	if (weft_mr_prepare(qp->nic->pool, bind->lkey) ||
	    !weft_allows(mr->allowed, qp->domain, WEFT_ACCESS_MW_BIND))
		return WEFT_CAUSE_WINDOW_REGION;
	if (mr->access & WEFT_ACCESS_ZERO_BASED ||
	    (mw->type == WEFT_MW_TYPE_1 && bind->access & WEFT_ACCESS_ZERO_BASED))
		return WEFT_CAUSE_WINDOW_ZERO_BASED;
	if (bind->access & ~(uint32_t)WINDOW_FLAGS ||
	    (bind->access & (WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_ATOMIC) &&
	     !(mr->access & WEFT_ACCESS_LOCAL_WRITE)))
		return WEFT_CAUSE_WINDOW_ACCESS;
	start = bind->addr - mr->iova;
	return start > mr->len_bytes || bind->len_bytes > mr->len_bytes - start
		       ? WEFT_CAUSE_WINDOW_RANGE
		       : WEFT_CAUSE_NONE;
}

/* What of a window's entry says where it lies. 0 or -ENOSPC. */
static int show_window(struct weft_mw *mw, const struct weft_pool_mr *mr,
		       struct weft_pool_mr *window)
{
	uint64_t start = window->va - mr->va;

	if (weft_mr_is_listed(mr))
		return show_pieces(mw, mr, start, window);
	show_run(mr, start, window);
	return 0;
}

static int show_region(struct weft_qp *qp, struct weft_mw *mw, const struct weft_pool_mr *mr,
		       const struct weft_bind *bind, struct weft_pool_mr *window)
{
	window->owner = qp->nic->pool->me;
	window->pd =
		mw->type == WEFT_MW_TYPE_1 ? mw->pd | WEFT_PD_WINDOW : qp->qpn | WEFT_PD_QP_WINDOW;
	window->access = bind->access & REMOTE;
	window->iova = bind->access & WEFT_ACCESS_ZERO_BASED ? 0 : bind->addr;
	window->len_bytes = bind->len_bytes;
	window->va = mr->va + (bind->addr - mr->iova);
	return show_window(mw, mr, window);
}

/* The lock is held. */
static void redraw(struct weft_mw *mw, const struct weft_pool_mr *mr)
{
	uint64_t old_off = mw->pieces_off, old_bytes = mw->pieces_bytes;
	struct weft_pool *pool = mw->nic->pool;
	struct weft_pool_mr window = pool->mrs[mw->index];

	mw->pieces_bytes = 0;
	mw->made = weft_pool_age(pool);
	if (show_window(mw, mr, &window)) /* in place: as in weft_mr_redraw */
		window.lo = window.hi = window.len_bytes;
	if (old_bytes)
		weft_mr_free_pieces(mw->nic, old_off, old_bytes, false);
	weft_mr_publish(pool, mw->index, mw->key, &window);
}

void weft_mw_redraw(const struct weft_mr *mr, const struct weft_pool_mr *entry)
{
	struct weft_nic *nic = mr->nic;

	weft_lock(nic, &nic->window_lock, 0);
	for (struct weft_mw *mw = nic->windows[mr->index].bound; mw; mw = mw->next)
		if (is_live(mw))
			redraw(mw, entry);
	weft_unlock(&nic->window_lock, false);
}

/* The lock is held. */
static enum weft_cause bind_window(struct weft_qp *qp, uint32_t key, const struct weft_bind *bind)
{
	struct weft_mw *mw = entry_of(qp->nic, key)->window;
	const struct weft_pool_mr *mr = &qp->nic->pool->mr_seen[bind->lkey >> WEFT_KEY_BITS].mr;
	struct weft_pool_mr window = {0};
	enum weft_cause cause;

	if (!mw || (mw->key ^ key) >> TAG_BITS || mw->pd != qp->pd)
		return WEFT_CAUSE_WINDOW_KEY;
	if (mw->type == WEFT_MW_TYPE_2 && is_live(mw))
		return WEFT_CAUSE_WINDOW_BOUND;
	/* a bind of no bytes unbinds one of type 1 */
	if (mw->type == WEFT_MW_TYPE_2 && !bind->len_bytes)
		return WEFT_CAUSE_WINDOW_EMPTY;
	cause = bind->len_bytes ? may_bind(qp, mw, mr, bind) : WEFT_CAUSE_NONE;
	if (cause)
		return cause;
	unbind(mw);
	mw->key = key;
	if (!bind->len_bytes)
		return WEFT_CAUSE_NONE;
	mw->made = weft_pool_age(qp->nic->pool);
	if (show_region(qp, mw, mr, bind, &window))
		return WEFT_CAUSE_WINDOW_ROOM;
	mw->parent = bind->lkey >> WEFT_KEY_BITS;
	mw->next = qp->nic->windows[mw->parent].bound;
	qp->nic->windows[mw->parent].bound = mw;
	weft_mr_publish(qp->nic->pool, mw->index, key, &window);
	return WEFT_CAUSE_NONE;
}

/* The lock is held. Not of type 1, nor of another queue pair (o10-37.2.26). */
static enum weft_cause invalidate(struct weft_qp *qp, uint32_t key)
{
	struct weft_mw *mw = entry_of(qp->nic, key)->window;

	if (!mw || mw->type != WEFT_MW_TYPE_2 || mw->key != key || !is_live(mw) || mw->pd != qp->pd)
		return WEFT_CAUSE_LOCAL_INVALIDATE;
	unbind(mw);
	return WEFT_CAUSE_NONE;
}

enum weft_outcome weft_mw_execute(struct weft_qp *qp, struct weft_wqe *wqe, enum weft_cause *cause)
{
	bool binds = wqe->opcode == WEFT_OP_BIND_MW;
	struct weft_bind bind = weft_wqe_bind(wqe);
	struct weft_nic *nic = qp->nic;

	wqe->len_bytes = 0;
	weft_lock(nic, &nic->window_lock, 0);
	*cause = binds ? bind_window(qp, wqe->rkey, &bind) : invalidate(qp, wqe->imm);
	weft_unlock(&nic->window_lock, false);
	return *cause ? WEFT_FAILED : WEFT_DONE;
}

/* ---- By the peer ---- */

bool weft_mw_find(struct weft_pool *pool, uint32_t key, uint64_t domain, uint64_t *id)
{
	const struct weft_pool_mr *mr = &pool->mr_seen[key >> WEFT_KEY_BITS].mr;

	if (weft_mr_prepare(pool, key))
		return false;
	*id = mr->id;
	return weft_allows(mr->allowed, domain, 0);
}

void weft_mw_end(struct weft_pool *pool, uint32_t key, uint64_t id)
{
	_Atomic uint64_t *word = &pool->mrs[key >> WEFT_KEY_BITS].id;
	uint64_t ended = id & ~(uint64_t)UINT32_MAX;
	uint16_t owner = pool->mr_seen[key >> WEFT_KEY_BITS].mr.owner;

	if (weft_must_ask(pool, owner)) {
		struct weft_pool_change change =
			weft_change_of(pool, word, WEFT_CHANGE_COMPARE, id, ended);

		pool->change(pool, NULL, owner, &change, 1);
		return;
	}
	/* its owner may have ended it, and even bound it anew */
	atomic_compare_exchange_strong_explicit(word, &id, ended, memory_order_release,
						memory_order_relaxed);
}
