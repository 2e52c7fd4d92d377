/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Buffers of a list in a GPU's memory are judged there: a launch for each, several under way at once. What comes back are decisions,
 * of which this side makes the primitives.
 */
#include "cli/stream_trigger.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "cli/delivery.h"
#include "process/plugin.h"

#define LANES	  8u
#define LANES_FEW 2u /* of algorithms that need more than this of each thread of the GPU */
#define LARGE	  (64u << 10)
#define WAIT_MS	  20

struct weft_stream_trigger_gpu {
	const struct weft_plugin *plugin;
	void *region; /* the memory of the list, as the plugin knows it */
	void *judge;
	uint32_t lanes; /* buffers under way, at most */
};

/* The driver, and Weft's part for it; if that is missing, weft_plugin_load says so. */
static int load_driver(void)
{
	/* beside a kernel that stays nothing may be loaded when it is needed, nor wait in the same queue as that */
	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	if (!dlopen("libcuda.so.1", RTLD_NOW))
		return -ENOENT;
	return weft_delivery_load_plugin() == -ELIBACC ? -ELIBACC : 0;
}

static int make_gpu(struct weft_stream_line *l)
{
	int err = load_driver();

	if (err)
		return err;
	l->gpu = calloc(1, sizeof(*l->gpu));
	if (!l->gpu)
		return -ENOMEM;
	err = weft_plugin_load(&l->gpu->plugin);
	if (!err)
		return 0;
	free(l->gpu);
	l->gpu = NULL;
	return err;
}

int weft_stream_trigger_gpu_memory(struct weft_stream_line *l, uint64_t bytes)
{
	uint64_t va = 0;
	int err = make_gpu(l);

	if (err)
		return err;
	err = l->gpu->plugin->allocate((uint32_t)l->asked->gpu, bytes, &va);
	l->memory = (uint8_t *)(uintptr_t)va;
	return err;
}

int weft_stream_trigger_gpu_begin(struct weft_stream_line *l, const struct weft_detector *detector)
{
	uint64_t work_bytes = weft_rings_bytes(&l->asked->rings);
	const struct weft_plugin_judge options = {
		.detector = detector,
		.detector_bytes = sizeof(*detector),
		.work_bytes = work_bytes,
		.room = l->buffer_bytes / WEFT_M2EGP_HEADER,
		.algorithm = l->asked->rings.algorithm,
		.drop = l->asked->rings.drop,
		.lanes = work_bytes > LARGE ? LANES_FEW : LANES,
	};
	struct weft_stream_trigger_gpu *g = l->gpu;
	int err = g->plugin->begin((uintptr_t)l->memory, (uint64_t)l->buffers * l->buffer_bytes,
				   &g->region);

	g->lanes = options.lanes;
	return err ? err : g->plugin->judge_begin(g->region, &options, &g->judge);
}

const char *weft_stream_trigger_gpu_why(int err)
{
	switch (err) {
	case -ENOENT:
		return "there is no libcuda.so.1";
	case -ENOPKG:
		return weft_plugin_missing();
	case -ELIBACC:
		return "libweft-cuda.so lies with Weft's libraries, which were not found";
	case -ENODEV:
		return "there is no such GPU";
	case -ENOTSUP:
		return "weft-judge.ptx is missing, or not for this GPU";
	default:
		return strerror(-err);
	}
}

void weft_stream_trigger_gpu_end(struct weft_stream_line *l)
{
	struct weft_stream_trigger_gpu *g = l->gpu;

	if (g && g->judge)
		g->plugin->judge_end(g->judge);
	if (g && g->region)
		g->plugin->end(g->region);
}

void weft_stream_trigger_gpu_free(struct weft_stream_line *l)
{
	if (l->gpu && l->memory)
		l->gpu->plugin->free((uint32_t)l->asked->gpu, (uintptr_t)l->memory);
	free(l->gpu);
}

/* ---- Buffers ---- */

/* Those that are under way, in the order in which they were told of. */
struct queue {
	struct weft_stream_event event[LANES];
	uint32_t first, count;
};

/* 0; -EAGAIN: nothing has been told of; -ESHUTDOWN; -EFAULT */
static int launch_next(struct weft_stream_line *l, struct queue *q)
{
	uint32_t lane = (q->first + q->count) % l->gpu->lanes;
	struct weft_stream_event *e = &q->event[lane];
	int err = weft_stream_wait(l->stream, e, q->count ? 0 : WAIT_MS);

	if (err)
		return err;
	q->count++;
	return l->gpu->plugin->judge_put(
		l->gpu->judge, lane, (uintptr_t)l->memory + (uint64_t)e->buffer * l->buffer_bytes,
		e->bytes);
}

static void take_decisions(struct weft_stream_judge *j, const struct weft_plugin_judged *judged)
{
	const struct weft_decision *decision = judged->decisions;

	j->sent_ns = judged->sent_ns;
	j->tally.changed += judged->wrong;
	for (uint64_t i = 0; i < judged->events && !judged->wrong; i++)
		weft_stream_judge_add(j, &decision[i]);
	weft_stream_judge_flush(j);
}

/* 0; -EAGAIN: the first is still under way; -EFAULT */
static int finish_first(struct weft_stream_line *l, struct queue *q, struct weft_stream_judge *j)
{
	const struct weft_stream_event *e = &q->event[q->first];
	struct weft_plugin_judged judged;
	int err = l->gpu->plugin->judge_take(l->gpu->judge, q->first, &judged);

	if (err)
		return err;
	weft_stream_give_back(l->stream, 0, e->buffer, e->generation);
	weft_histogram_add(&j->gathering, e->last_ns - e->first_ns);
	take_decisions(j, &judged);
	weft_stream_judge_send(j, l->capture, e->last_ns, l->sender);
	weft_stream_judge_count_chain(j);
	q->first = (q->first + 1) % l->gpu->lanes;
	q->count--;
	return 0;
}

void weft_stream_trigger_gpu_run(struct weft_stream_line *l, struct weft_stream_judge *j)
{
	struct queue q = {0};
	int launched = 0, finished = 0;

	while (q.count || launched != -ESHUTDOWN) {
		launched = q.count < l->gpu->lanes ? launch_next(l, &q) : -EAGAIN;
		finished = q.count && launched != -EFAULT ? finish_first(l, &q, j) : 0;
		if (launched == -EFAULT || finished == -EFAULT) {
			l->failed = EFAULT;
			return;
		}
		if (launched && finished)
			sched_yield(); /* there may be more threads than processors */
	}
}
