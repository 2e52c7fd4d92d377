/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What orders streams: events, values in memory, calls of the host's functions. */
#include "soft.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct CUevent_st {
	weft_cu_context context;
	bool alive;
	weft_cu_stream stream; /* where it was recorded last, NULL: nowhere */
	uint64_t seq;
	struct CUevent_st *next;
};
static struct CUevent_st *events;

unsigned int soft_events_left(void)
{
	unsigned int left = 0;

	for (weft_cu_event event = events; event; event = event->next)
		left += event->alive && event->context->alive;
	return left;
}

static weft_cu_result find(weft_cu_event event)
{
	weft_cu_event known = events;

	while (known && known != event)
		known = known->next;
	if (!known || !known->alive)
		return WEFT_CUDA_ERROR_INVALID_HANDLE;
	return soft_context_check(known->context);
}

weft_cu_result cuEventCreate(weft_cu_event *event, unsigned int flags)
{
	weft_cu_event made;

	SOFT_BEGIN_IN(context);
	made = calloc(1, sizeof(*made));
	if (!made)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	*made = (struct CUevent_st){.context = context, .alive = true, .next = events};
	events = made;
	*event = made;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuEventDestroy_v2(weft_cu_event event)
{
	weft_cu_result err;

	SOFT_BEGIN();
	err = find(event);
	if (!err)
		event->alive = false;
	return err;
}

static weft_cu_result nothing(struct soft_op *op)
{
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuEventRecord(weft_cu_event event, weft_cu_stream handle)
{
	weft_cu_stream stream;
	weft_cu_result err;

	SOFT_BEGIN_IN(context);
	err = find(event);
	if (!err)
		err = soft_stream_find(context, handle, &stream);
	if (!err && stream->context != event->context)
		err = WEFT_CUDA_ERROR_INVALID_HANDLE;
	if (!err)
		err = soft_enqueue(stream, soft_op_new(nothing));
	if (err)
		return err;
	event->stream = stream;
	event->seq = stream->issued;
	return WEFT_CUDA_SUCCESS;
}

/* An event that was never recorded counts as done. */
weft_cu_result cuEventQuery(weft_cu_event event)
{
	weft_cu_result err;

	SOFT_BEGIN();
	err = find(event);
	return err || !event->stream ? err : soft_query(event->stream, event->seq);
}

weft_cu_result cuEventSynchronize(weft_cu_event event)
{
	weft_cu_result err;

	SOFT_BEGIN();
	err = find(event);
	return err || !event->stream ? err : soft_wait(event->stream, event->seq);
}

weft_cu_result cuStreamWaitEvent(weft_cu_stream handle, weft_cu_event event, unsigned int flags)
{
	weft_cu_stream stream;
	weft_cu_result err;
	struct soft_op *op;

	SOFT_BEGIN_IN(context);
	err = find(event);
	if (!err)
		err = soft_stream_find(context, handle, &stream);
	if (err || !event->stream)
		return err;
	op = soft_op_new(nothing);
	if (op)
		err = soft_after(op, event->stream, event->seq);
	return err ? err : soft_enqueue(stream, op);
}

/* ---- values in memory ---- */

/* bytes is 4 or 8. */
static weft_cu_result enqueue_value(weft_cu_stream handle, weft_cu_result (*run)(struct soft_op *),
				    uint64_t at, uint64_t value, size_t bytes, unsigned int flags)
{
	const struct soft_range *range;
	struct soft_view view;
	weft_cu_stream stream;
	weft_cu_result err;
	struct soft_op *op;

	SOFT_BEGIN_IN(context);
	err = soft_stream_find(context, handle, &stream);
	range = soft_range_at(at);
	if (!err &&
	    (!range || range->kind == SOFT_POOL || at % bytes || soft_view_open(&view, at, bytes)))
		err = WEFT_CUDA_ERROR_INVALID_VALUE;
	if (err)
		return err;
	soft_view_close(&view);
	op = soft_op_new(run);
	if (!op)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	op->to = at;
	op->value = value;
	op->bytes = bytes;
	op->flags = flags;
	return soft_enqueue(stream, op);
}

static weft_cu_result open_word(const struct soft_op *op, struct soft_view *view, void **word)
{
	weft_cu_result err;
	size_t left;

	pthread_mutex_lock(&soft_lock);
	err = soft_view_open(view, op->to, op->bytes);
	pthread_mutex_unlock(&soft_lock);
	if (!err)
		*word = soft_view_at(view, op->to, &left);
	return err;
}

static void close_word(struct soft_view *view)
{
	pthread_mutex_lock(&soft_lock);
	soft_view_close(view);
	pthread_mutex_unlock(&soft_lock);
}

static weft_cu_result write_value(struct soft_op *op)
{
	struct soft_view view;
	void *word;
	weft_cu_result err = open_word(op, &view, &word);

	if (err)
		return err;
	if (op->bytes == 4)
		atomic_store_explicit((_Atomic uint32_t *)word, (uint32_t)op->value,
				      memory_order_release);
	else
		atomic_store_explicit((_Atomic uint64_t *)word, op->value, memory_order_release);
	close_word(&view);
	return WEFT_CUDA_SUCCESS;
}

static weft_cu_result wait_value(struct soft_op *op)
{
	uint32_t wanted = (uint32_t)op->value, now;
	struct soft_view view;
	void *word;
	weft_cu_result err = open_word(op, &view, &word);

	if (err)
		return err;
	for (;;) {
		now = atomic_load_explicit((_Atomic uint32_t *)word, memory_order_acquire);
		if (op->flags == WEFT_CU_STREAM_WAIT_VALUE_EQ ? now == wanted
							      : (int32_t)(now - wanted) >= 0)
			break;
		sched_yield();
	}
	close_word(&view);
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuStreamWriteValue32_v2(weft_cu_stream stream, weft_cu_ptr at, uint32_t value,
				       unsigned int flags)
{
	return enqueue_value(stream, write_value, at, value, 4, flags);
}

weft_cu_result cuStreamWriteValue64_v2(weft_cu_stream stream, weft_cu_ptr at, uint64_t value,
				       unsigned int flags)
{
	return enqueue_value(stream, write_value, at, value, 8, flags);
}

weft_cu_result cuStreamWaitValue32_v2(weft_cu_stream stream, weft_cu_ptr at, uint32_t value,
				      unsigned int flags)
{
	return flags > WEFT_CU_STREAM_WAIT_VALUE_EQ
		       ? WEFT_CUDA_ERROR_NOT_SUPPORTED
		       : enqueue_value(stream, wait_value, at, value, 4, flags);
}

/* ---- the host's functions ---- */

static weft_cu_result call_host(struct soft_op *op)
{
	op->fn((void *)(uintptr_t)op->value);
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuLaunchHostFunc(weft_cu_stream handle, weft_cu_host_fn fn, void *arg)
{
	weft_cu_stream stream;
	weft_cu_result err;
	struct soft_op *op;

	SOFT_BEGIN_IN(context);
	err = soft_stream_find(context, handle, &stream);
	if (err)
		return err;
	op = soft_op_new(call_host);
	if (!op)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	op->fn = fn;
	op->value = (uintptr_t)arg;
	return soft_enqueue(stream, op);
}
