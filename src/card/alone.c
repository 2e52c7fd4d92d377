/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "card/alone.h"

#include <errno.h>

#include "nic/nic.h"

static int refuse_call(struct weft_caller *caller, uint16_t member, uint64_t incarnation,
		       enum weft_ask_kind kind, uint64_t id, void *message)
{
	return -EOPNOTSUPP;
}

static void nothing(void)
{
}

static void watch_nothing(struct weft_pool *pool)
{
}

static const struct weft_nic_api
	nic_api; /* a card has no queue whose owner is to be told of anything */

const struct weft_process_api weft_alone_api = {
	.nic = &nic_api,
	.answer = refuse_call,
	.signalled = nothing,
	.watch = watch_nothing,
	.addresses_changed = nothing,
	.rehome = nothing,
	.leave = nothing,
	.forget = nothing,
};
