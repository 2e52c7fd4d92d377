/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/pool.h"

const struct weft_pool_calls weft_pool_calls = {
	.window = weft_pool_window,
	.populate = weft_pool_populate,
	.see_mr = weft_pool_see_mr,
	.see_qp = weft_pool_see_qp,
	.keep_mr = weft_pool_keep_mr,
	.take_qp = weft_pool_take_qp,
	.drop_qp = weft_pool_drop_qp,
	.take_mr = weft_pool_take_mr,
	.drop_mr = weft_pool_drop_mr,
	.alloc = weft_pool_alloc,
	.free = weft_pool_free,
	.retire = weft_pool_retire,
	.quiesce = weft_pool_quiesce,
	.stopped_at = weft_pool_stopped_at,
	.barrier = weft_pool_barrier,
	.share_lock = weft_pool_share_lock,
	.share_unlock = weft_pool_share_unlock,
	.member = weft_pool_member,
	.alive = weft_pool_alive,
	.visit = weft_pool_visit,
	.depart = weft_pool_depart,
	.signal = weft_pool_signal,
	.claim = weft_pool_claim,
	.alarm = weft_pool_alarm,
};
