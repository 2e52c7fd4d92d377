/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Streams. Each has a thread, which carries out an operation when a call waits for it, or at last
 * when it is late enough: on hardware, too, everything ends at some time without being waited for.
 */
#include "soft.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "softgpu.h"

#define LATE_NS	    50000000ull /* what no call waits for is done after this */
#define QUERIES_MAX 4 /* how often at most a query says "not ready" though the work could be done */

struct CUstream_st *soft_streams;
static bool held;
static unsigned long synchronized;
static unsigned int waiting; /* calls that wait for work, or for such a call */
static bool driver_held;     /* a call waits for kernels, and lets no other in */

void weft_soft_gpu_hold(bool hold)
{
	pthread_mutex_lock(&soft_lock);
	held = hold;
	pthread_cond_broadcast(&soft_changed);
	pthread_mutex_unlock(&soft_lock);
}

unsigned long weft_soft_gpu_waits(void)
{
	unsigned long n;

	pthread_mutex_lock(&soft_lock);
	n = synchronized;
	pthread_mutex_unlock(&soft_lock);
	return n;
}

unsigned int weft_soft_gpu_blocked(void)
{
	unsigned int n;

	pthread_mutex_lock(&soft_lock);
	n = waiting;
	pthread_mutex_unlock(&soft_lock);
	return n;
}

struct soft_op *soft_op_new(weft_cu_result (*run)(struct soft_op *op))
{
	struct soft_op *op = calloc(1, sizeof(*op));

	if (op)
		op->run = run;
	return op;
}

static void op_free(struct soft_op *op)
{
	free(op->staged);
	free(op->after);
	free(op->call);
	free(op);
}

weft_cu_stream soft_stream_new(weft_cu_context context, bool blocking)
{
	static uint64_t number;
	weft_cu_stream stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	*stream = (struct CUstream_st){.context = context,
				       .alive = true,
				       .blocking = blocking,
				       .last = &stream->first,
				       .next = soft_streams};
	stream->number = number++;
	stream->chance = soft_chance_of(stream->number, 0);
	soft_streams = stream;
	return stream;
}

weft_cu_result soft_stream_find(weft_cu_context context, weft_cu_stream handle, weft_cu_stream *out)
{
	weft_cu_stream known = soft_streams;
	weft_cu_result err;

	if (!handle || handle == (weft_cu_stream)1) {
		*out = context->legacy;
		return WEFT_CUDA_SUCCESS;
	}
	while (known && known != handle)
		known = known->next;
	if (!known)
		return WEFT_CUDA_ERROR_INVALID_HANDLE;
	err = soft_context_check(known->context);
	if (err)
		return err;
	*out = known;
	return known->alive ? WEFT_CUDA_SUCCESS : WEFT_CUDA_ERROR_INVALID_HANDLE;
}

/* ---- a stream's thread ---- */

/* Whether the operation's turn has come; demands the operations of other streams that it must come after. */
static bool is_due(struct soft_op *op, bool *waits)
{
	weft_cu_stream stream = op->stream;
	bool wanted = stream->demanded >= op->seq || soft_now_ns() - op->born_ns > LATE_NS;

	*waits = false;
	if (stream->context->fault)
		return true;
	if (held || !wanted)
		return false;
	for (unsigned int i = 0; i < op->afters; i++) {
		struct soft_after *after = &op->after[i];

		if (after->stream->done >= after->seq || after->stream->context->fault)
			continue;
		*waits = true;
		if (after->stream->demanded < after->seq) {
			after->stream->demanded = after->seq;
			pthread_cond_broadcast(&soft_changed);
		}
	}
	return !*waits;
}

static void sleep_until_late(const struct soft_op *op, bool waits)
{
	uint64_t until = (waits || held ? soft_now_ns() : op->born_ns) + LATE_NS + 1000;
	struct timespec at = {(time_t)(until / 1000000000), (long)(until % 1000000000)};

	pthread_cond_timedwait(&soft_changed, &soft_lock, &at);
}

static unsigned int running[SOFT_DEVICES]; /* operations */
bool soft_dying[SOFT_DEVICES];

/* A fault is told when it has ended all that runs on the device. */
static void fail(weft_cu_context context, weft_cu_result fault)
{
	soft_dying[context->device] = true;
	while (running[context->device])
		pthread_cond_wait(&soft_changed, &soft_lock);
	soft_context_fail(context, fault);
}

static void carry_out(weft_cu_stream stream, struct soft_op *op)
{
	weft_cu_result fault = stream->context->fault;

	stream->first = op->next;
	if (!stream->first)
		stream->last = &stream->first;
	if (!fault) {
		running[stream->context->device]++;
		pthread_mutex_unlock(&soft_lock);
		fault = op->run(op);
		pthread_mutex_lock(&soft_lock);
		running[stream->context->device]--;
		pthread_cond_broadcast(&soft_changed);
		if (fault)
			fail(stream->context, fault);
	}
	stream->done = op->seq;
	pthread_cond_broadcast(&soft_changed);
	op_free(op);
}

static void *work(void *arg)
{
	weft_cu_stream stream = arg;

	pthread_mutex_lock(&soft_lock);
	while (stream->first || stream->alive) {
		bool waits;

		if (!stream->first)
			pthread_cond_wait(&soft_changed, &soft_lock);
		else if (is_due(stream->first, &waits))
			carry_out(stream, stream->first);
		else
			sleep_until_late(stream->first, waits);
	}
	pthread_mutex_unlock(&soft_lock);
	return NULL;
}

/* Begins the stream's thread. The program's signals are for its own threads; but a thread that touches memory on the program's
 * behalf has to take the faults for which the program has a handler. */
static bool employ(weft_cu_stream stream)
{
	sigset_t all, before;

	if (stream->working)
		return true;
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	stream->working = !pthread_create(&stream->worker, NULL, work, stream);
	if (stream->working)
		pthread_detach(stream->worker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return stream->working;
}

/* ---- order ---- */

weft_cu_result soft_after(struct soft_op *op, weft_cu_stream stream, uint64_t seq)
{
	struct soft_after *more = realloc(op->after, (op->afters + 1) * sizeof(*more));

	if (!more)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	op->after = more;
	op->after[op->afters++] = (struct soft_after){stream, seq};
	return WEFT_CUDA_SUCCESS;
}

/* Work of the legacy stream and work of streams that block it come one after the other. */
static weft_cu_result put_behind(weft_cu_stream stream, struct soft_op *op)
{
	weft_cu_stream legacy = stream->context->legacy;
	weft_cu_result err = WEFT_CUDA_SUCCESS;

	for (weft_cu_stream other = soft_streams; other && !err; other = other->next)
		if (other != stream && other->context == stream->context && other->blocking &&
		    stream->blocking && (stream == legacy || other == legacy) &&
		    other->done < other->issued)
			err = soft_after(op, other, other->issued);
	return err;
}

weft_cu_result soft_enqueue(weft_cu_stream stream, struct soft_op *op)
{
	weft_cu_result err;

	if (!op)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	err = put_behind(stream, op);
	if (!err && !employ(stream))
		err = WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	if (err) {
		op_free(op);
		return err;
	}
	op->stream = stream;
	op->seq = ++stream->issued;
	op->chance = soft_chance_of(stream->number, op->seq);
	op->born_ns = soft_now_ns();
	*stream->last = op;
	stream->last = &op->next;
	pthread_cond_broadcast(&soft_changed);
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result soft_wait(weft_cu_stream stream, uint64_t seq)
{
	if (stream->demanded < seq)
		stream->demanded = seq;
	pthread_cond_broadcast(&soft_changed);
	while (stream->done < seq && !stream->context->fault)
		pthread_cond_wait(&soft_changed, &soft_lock);
	return stream->context->fault;
}

weft_cu_result soft_query(weft_cu_stream stream, uint64_t seq)
{
	if (stream->context->fault)
		return stream->context->fault;
	if (stream->done >= seq)
		return WEFT_CUDA_SUCCESS;
	if (++stream->queries > soft_chance(&stream->chance, QUERIES_MAX)) {
		stream->queries = 0;
		if (stream->demanded < seq)
			stream->demanded = seq;
		pthread_cond_broadcast(&soft_changed);
	}
	return WEFT_CUDA_ERROR_NOT_READY;
}

weft_cu_result soft_wait_all(weft_cu_context context)
{
	weft_cu_result err = context->fault;

	waiting++;
	for (weft_cu_stream stream = soft_streams; stream && !err; stream = stream->next)
		if (stream->context == context)
			err = soft_wait(stream, stream->issued);
	waiting--;
	return err;
}

weft_cu_result soft_hold_all(weft_cu_context context)
{
	weft_cu_result err;

	soft_await_driver();
	driver_held = true;
	err = soft_wait_all(context);
	driver_held = false;
	pthread_cond_broadcast(&soft_changed);
	return err;
}

void soft_await_driver(void)
{
	waiting++;
	while (driver_held)
		pthread_cond_wait(&soft_changed, &soft_lock);
	waiting--;
}

void soft_await_context(weft_cu_context context)
{
	waiting++;
	while (context->held)
		pthread_cond_wait(&soft_changed, &soft_lock);
	waiting--;
}

weft_cu_result soft_hold(weft_cu_stream stream, uint64_t seq)
{
	weft_cu_context context = stream->context;
	weft_cu_result err;

	soft_await_context(context);
	waiting++;
	context->held = true;
	err = soft_wait(stream, seq);
	context->held = false;
	waiting--;
	pthread_cond_broadcast(&soft_changed);
	return err;
}

/* ---- the calls ---- */

weft_cu_result cuStreamCreate(weft_cu_stream *stream, unsigned int flags)
{
	SOFT_BEGIN_IN(context);
	if (flags & ~1u)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	soft_await_context(context);
	*stream = soft_stream_new(context, !(flags & WEFT_CU_STREAM_NON_BLOCKING));
	return *stream ? WEFT_CUDA_SUCCESS : WEFT_CUDA_ERROR_OUT_OF_MEMORY;
}

weft_cu_result cuStreamCreateWithPriority(weft_cu_stream *stream, unsigned int flags, int priority)
{
	return cuStreamCreate(stream, flags);
}

/* The work that is in the stream goes on. */
weft_cu_result cuStreamDestroy_v2(weft_cu_stream handle)
{
	weft_cu_context context;
	weft_cu_stream stream;
	weft_cu_result err;

	SOFT_BEGIN();
	/* hardware's libcuda has freed such a stream with its context, and would free it again */
	for (stream = soft_streams; stream; stream = stream->next)
		if (stream == handle && !stream->context->alive)
			soft_die("cuStreamDestroy of a stream whose context has ended");
	err = soft_current(&context);
	if (!err)
		err = handle ? soft_stream_find(context, handle, &stream)
			     : WEFT_CUDA_ERROR_INVALID_HANDLE;
	if (err)
		return err;
	stream->alive = false;
	pthread_cond_broadcast(&soft_changed);
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuStreamSynchronize(weft_cu_stream handle)
{
	weft_cu_stream stream;
	weft_cu_result err;

	SOFT_BEGIN_IN(context);
	soft_await_driver();
	synchronized++;
	err = soft_stream_find(context, handle, &stream);
	return err ? err : soft_wait(stream, stream->issued);
}

weft_cu_result cuStreamQuery(weft_cu_stream handle)
{
	weft_cu_stream stream;
	weft_cu_result err;

	SOFT_BEGIN_IN(context);
	err = soft_stream_find(context, handle, &stream);
	return err ? err : soft_query(stream, stream->issued);
}

weft_cu_result cuStreamGetCtx(weft_cu_stream handle, weft_cu_context *out)
{
	weft_cu_stream stream;
	weft_cu_result err;

	SOFT_BEGIN_IN(context);
	err = soft_stream_find(context, handle, &stream);
	if (!err)
		*out = stream->context;
	return err;
}
