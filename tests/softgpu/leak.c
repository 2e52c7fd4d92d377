/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a process leaves behind at its end. */
#include "soft.h"

static void say(unsigned int count, const char *what)
{
	if (count)
		fprintf(stderr, "soft GPU: left behind: %u of %s\n", count, what);
}

static unsigned int ranges_of(enum soft_kind kind)
{
	unsigned int count = 0;

	for (struct soft_range *range = soft_ranges; range; range = range->next)
		count += range->kind == kind;
	return count;
}

/* The streams that the program has made: a context's own goes with it, and does not count. */
static unsigned int streams_left(void)
{
	unsigned int count = 0;

	for (weft_cu_stream stream = soft_streams; stream; stream = stream->next)
		count += stream->alive && stream != stream->context->legacy;
	return count;
}

static bool is_empty(weft_cu_context context)
{
	for (struct soft_range *range = soft_ranges; range; range = range->next)
		if (range->context == context)
			return false;
	for (weft_cu_stream stream = soft_streams; stream; stream = stream->next)
		if (stream->alive && stream->context == context && stream != context->legacy)
			return false;
	return true;
}

/* One in which nothing is left may end with the process: the plugin has such a one of its own. */
static unsigned int contexts_left(bool primary)
{
	unsigned int count = 0;

	for (weft_cu_context context = soft_contexts; context; context = context->next)
		count += context->alive && context->primary == primary &&
			 (primary || !is_empty(context));
	return count;
}

void soft_leak_list(void)
{
	say(ranges_of(SOFT_LEGACY), "cuMemAlloc");
	say(ranges_of(SOFT_POOL), "cuMemAllocAsync");
	say(ranges_of(SOFT_MANAGED), "cuMemAllocManaged");
	say(ranges_of(SOFT_MAPPED), "cuMemMap");
	say(ranges_of(SOFT_OPENED), "cuIpcOpenMemHandle");
	say(ranges_of(SOFT_HOST), "cuMemAllocHost");
	say(ranges_of(SOFT_REGISTERED), "cuMemHostRegister");
	say(soft_handles_left(), "cuMemCreate");
	say(soft_reservations_left(), "cuMemAddressReserve");
	say(soft_modules_left(), "cuModuleLoadData");
	say(streams_left(), "cuStreamCreate");
	say(soft_events_left(), "cuEventCreate");
	say(contexts_left(false), "cuCtxCreate");
	say(contexts_left(true), "cuDevicePrimaryCtxRetain");
}
