/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The pool as the place where regions' extents come from. */
#include <errno.h>

#include "pool/internal.h"
#include "migrate/region.h"
#include "pool/step.h"

static int alloc(void *arg, size_t len_bytes, uint64_t *off, void **alias)
{
	struct weft_attachment *a = arg;
	int err = weft_pool_extent_alloc(&a->pool, len_bytes, off);

	if (err)
		return err;
	WEFT_STEP(source_allocated);
	*alias = weft_pool_populate(&a->pool, *off, len_bytes);
	if (*alias)
		return 0;
	weft_pool_extent_free(&a->pool, *off, len_bytes);
	return -ENOSPC;
}

static void give_range_back(void *arg, uint64_t off, size_t len_bytes)
{
	struct weft_attachment *a = arg;

	weft_pool_extent_free(&a->pool, off, len_bytes);
}

static void retire(void *arg, uint64_t off, size_t len_bytes)
{
	struct weft_attachment *a = arg;

	weft_pool_retire(&a->pool, WEFT_RETIRE_EXTENT, off, len_bytes);
}

static uint64_t age(void *arg)
{
	const struct weft_attachment *a = arg;

	return weft_pool_age(&a->pool);
}

static int descriptor(void *arg)
{
	const struct weft_attachment *a = arg;

	return a->on->descriptor ? a->on->descriptor(a->backed) : -EOPNOTSUPP;
}

struct weft_extent_source weft_pool_extent_source(struct weft_pool *pool)
{
	const struct weft_attachment *a = weft_attachment(pool);

	return (struct weft_extent_source){
		.alloc = alloc,
		.free = give_range_back,
		.retire = retire,
		.age = age,
		.fd = descriptor,
		.device = a->on->can & WEFT_BACKING_DEVICE,
		.shift = a->on->shift ? a->on->shift(a->backed) : 0,
		.arg = weft_attachment(pool),
	};
}
