/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Asking the helpers of other members, and being asked. */
#ifndef WEFT_PROCESS_ASK_H
#define WEFT_PROCESS_ASK_H

#include "nic/machine.h"
#include "pool/ask.h"

/* ask.c: by the helper that the memory's owner has, which is waited for. 0 or -errno, -ETIMEDOUT among them. */
int weft_ask_copy(struct weft_pool *pool, const struct weft_caller *caller,
		  const struct weft_in_place *memory, uint8_t *here, uint64_t len_bytes,
		  bool write);
int weft_ask_atomic(struct weft_pool *pool, const struct weft_caller *caller,
		    const struct weft_in_place *memory, enum weft_ask_kind kind,
		    const uint64_t operand[2], uint64_t *value);
/*
 * Has the helper of another member do something; `message` goes there and comes back. What that says;
 * -ESRCH (it is gone), -ETIMEDOUT, -ENOMEM, -ENOSPC. Nothing is locked for which that helper could wait.
 */
int weft_ask_call(struct weft_pool *pool, uint16_t member, enum weft_ask_kind kind, uint64_t id,
		  void *message, uint64_t len_bytes);

/* In place of a read-modify-write: as `change` of struct weft_pool says. */
int weft_ask_change(struct weft_pool *pool, const struct weft_grant *grant, uint16_t owner,
		    struct weft_pool_change *changes, uint32_t n);

/* answer.c. The helper was asked. */
void weft_answer_asks(struct weft_pool *pool);
/* The helper was called; `caller` is its own. Not while it waits for others. */
void weft_answer_calls(struct weft_pool *pool, struct weft_caller *caller);

#endif
