/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/stream_trigger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/clock.h"
#include "stream/sender.h"

#define WAIT_MS 20
#define LOOK_US 20000 /* between looks whether it is to end */
/* How many events all buffers of a line hold at least, and how many buffers it has. */
#define EVENTS	      (1u << 17)
#define BUFFERS_LEAST 128u
#define BUFFERS_MOST  1024u

struct live {
	const struct weft_stream_trigger *asked;
	const struct weft_detector *detector;
	struct weft_stream_capture *capture;
	FILE *fits;
	struct weft_stream_line line[WEFT_STREAM_TRIGGER_LINES];
};

/* ---- A thread ---- */

/* Buffers leave in the order in which they were taken, whichever thread is done first. */
static void leave_in_turn(struct weft_stream_line *l, struct weft_stream_judge *j, uint64_t turn,
			  uint64_t time_ns)
{
	pthread_mutex_lock(&l->leave);
	while (l->sent != turn)
		pthread_cond_wait(&l->left, &l->leave);
	weft_stream_judge_send(j, l->capture, time_ns, l->sender);
	l->sent++;
	pthread_cond_broadcast(&l->left);
	pthread_mutex_unlock(&l->leave);
	weft_stream_judge_count_chain(j);
}

static void judge_here(struct weft_stream_line *l, struct weft_stream_judge *j,
		       const struct weft_stream_event *e, uint64_t turn)
{
	const uint8_t *at = l->memory + (size_t)e->buffer * l->buffer_bytes;

	weft_histogram_add(&j->gathering, e->last_ns - e->first_ns);
	if (!weft_stream_judge_buffer(j, at, at + e->bytes))
		j->tally.changed++;
	weft_stream_give_back(l->stream, 0, e->buffer, e->generation);
	weft_stream_judge_flush(j);
	leave_in_turn(l, j, turn, e->last_ns);
}

static int take_next(struct weft_stream_line *l, struct weft_stream_event *e, uint64_t *turn)
{
	int err;

	pthread_mutex_lock(&l->take);
	err = weft_stream_wait(l->stream, e, WAIT_MS);
	*turn = l->taken;
	l->taken += !err;
	pthread_mutex_unlock(&l->take);
	return err;
}

static void *work(void *context)
{
	const struct weft_stream_worker *w = context;
	struct weft_stream_event event;
	uint64_t turn;
	int err = 0;

	if (w->line->gpu) {
		weft_stream_trigger_gpu_run(w->line, w->judge);
		return NULL;
	}
	while (err != -ESHUTDOWN) {
		err = take_next(w->line, &event, &turn);
		if (!err)
			judge_here(w->line, w->judge, &event, turn);
	}
	return NULL;
}

/* ---- Beginning and end ---- */

static int register_list(struct weft_stream_line *l)
{
	const struct weft_stream_trigger *asked = l->asked;
	struct weft_stream_list list = {.buffers = l->buffers,
					.bytes = l->buffer_bytes,
					.events = (uint32_t)asked->events,
					.flags = WEFT_STREAM_BURSTS,
					.timeout_ns = asked->timeout_us * 1000};
	struct weft_stream_layout layout;
	void *memory;
	int err = 0;

	if (asked->on_gpu) {
		list.flags |= WEFT_STREAM_GPU | (asked->pull ? WEFT_STREAM_PULL : 0);
		weft_stream_lay_out(&list, &layout);
		err = weft_stream_trigger_gpu_memory(l, layout.bytes);
		if (err)
			return weft_stream_fail("trigger", "the GPU",
						weft_stream_trigger_gpu_why(err));
		list.memory = l->memory;
	}
	err = weft_stream_register(l->stream, &list, NULL, &memory);
	if (err)
		return weft_stream_fail("trigger", "its buffers",
					err == -EINVAL ? weft_stream_wrong(l->stream)
						       : strerror(-err));
	l->memory = memory;
	return 0;
}

static int bind_line(struct weft_stream_line *l, const char *from)
{
	const struct weft_stream_source source = {.from = from,
						  .protocol = WEFT_STREAM_MGP,
						  .id = -1,
						  .socket_bytes = (uint32_t)l->asked->socket_bytes};
	int err = weft_stream_bind(l->stream, &source, NULL);

	return err ? weft_stream_fail("trigger", from,
				      err == -EINVAL ? weft_stream_wrong(l->stream)
						     : strerror(-err))
		   : 0;
}

/* The kernel, once the list is there: before any stream starts, as the streams' own may stay. */
static int begin_gpu(struct live *live, struct weft_stream_line *l)
{
	int err = weft_stream_trigger_gpu_begin(l, live->detector);

	return err ? weft_stream_fail("trigger", "the GPU", weft_stream_trigger_gpu_why(err)) : 0;
}

static int make_judges(struct live *live, struct weft_stream_line *l)
{
	for (uint32_t i = 0; i < live->asked->threads; i++) {
		struct weft_stream_worker *w = &l->worker[i];

		w->line = l;
		w->judge = weft_stream_judge_make(live->detector, &live->asked->rings,
						  l->buffer_bytes);
		if (!w->judge)
			return weft_stream_fail("trigger", "it cannot begin", strerror(ENOMEM));
		w->judge->fits = live->fits;
	}
	return 0;
}

static uint32_t buffers_for(uint64_t events)
{
	uint64_t buffers = EVENTS / events;

	if (buffers < BUFFERS_LEAST)
		return BUFFERS_LEAST;
	return buffers < BUFFERS_MOST ? (uint32_t)buffers : BUFFERS_MOST;
}

/* Buffers have room for all events that end one, and a datagram more; together for 50 milliseconds of 2.5 million a second. */
static int open_line(struct live *live, uint32_t number)
{
	const struct weft_stream_trigger *asked = live->asked;
	const char *to = number < asked->senders ? asked->to[number] : NULL;
	struct weft_stream_line *l = &live->line[number];
	int err;

	l->asked = asked;
	l->capture = live->capture;
	l->buffers = buffers_for(asked->events);
	l->buffer_bytes = (uint32_t)asked->events * 128 + 65536;
	err = to ? weft_sender_open(to, WEFT_SENDER_SEGMENTS, &l->sender) : 0;
	if (err)
		return weft_stream_fail("trigger", to, strerror(-err));
	if (to)
		weft_sender_until(l->sender, weft_stream_sender_over, l->sender);
	err = weft_stream_open(asked->spin_us * 1000, &l->stream);
	if (err)
		return weft_stream_fail("trigger", "it cannot begin", strerror(-err));
	if (register_list(l) || bind_line(l, asked->from[number]) || make_judges(live, l))
		return 1;
	return l->gpu ? begin_gpu(live, l) : 0;
}

static int start_line(struct weft_stream_line *l)
{
	int err = weft_stream_start(l->stream);

	for (uint32_t i = 0; i < l->asked->threads && !err; i++) {
		struct weft_stream_worker *w = &l->worker[i];

		err = -pthread_create(&w->thread, NULL, work, w);
		w->runs = !err;
	}
	if (!err)
		return 0;
	return weft_stream_fail("trigger", "it cannot begin",
				err == -EINVAL ? weft_stream_wrong(l->stream) : strerror(-err));
}

static void join_line(struct weft_stream_line *l)
{
	for (uint32_t i = 0; i < WEFT_STREAM_TRIGGER_THREADS; i++)
		if (l->worker[i].runs)
			pthread_join(l->worker[i].thread, NULL);
}

static void close_line(struct weft_stream_line *l)
{
	for (uint32_t i = 0; i < WEFT_STREAM_TRIGGER_THREADS; i++)
		weft_stream_judge_free(l->worker[i].judge);
	weft_stream_trigger_gpu_end(l);
	if (l->stream)
		weft_stream_close(l->stream);
	weft_stream_trigger_gpu_free(l);
	if (l->sender)
		weft_sender_close(l->sender);
}

/* ---- While it runs ---- */

static bool line_has_failed(const struct weft_stream_line *l)
{
	struct weft_stream_counters now;

	return l->failed || weft_stream_counters(l->stream, WEFT_STREAM_ALL, &now) || now.failed;
}

static void wait_for_end(const struct live *live)
{
	uint64_t end_ns = weft_clock_now_ns() + (uint64_t)(live->asked->seconds * 1e9);
	bool ends = false;

	while (!ends) {
		usleep(LOOK_US);
		ends = weft_stream_interrupted() ||
		       (live->asked->seconds > 0 && weft_clock_now_ns() >= end_ns);
		for (uint32_t i = 0; i < live->asked->lines; i++)
			ends |= line_has_failed(&live->line[i]);
	}
}

static void sum_counters(struct weft_stream_counters *to, const struct weft_stream *stream)
{
	uint64_t sum[sizeof(*to) / 8], more[sizeof(*to) / 8];
	struct weft_stream_counters c;

	weft_stream_counters(stream, WEFT_STREAM_ALL, &c);
	memcpy(sum, to, sizeof(sum));
	memcpy(more, &c, sizeof(more));
	for (size_t i = 0; i < sizeof(sum) / 8; i++)
		sum[i] += more[i];
	memcpy(to, sum, sizeof(sum));
}

static int run_lines(struct live *live, struct weft_stream_judge *total,
		     struct weft_stream_counters *counters)
{
	uint32_t lines = live->asked->lines;
	int status = 0;

	for (uint32_t i = 0; i < lines && !status; i++)
		status = open_line(live, i);
	for (uint32_t i = 0; i < lines && !status; i++)
		status = start_line(&live->line[i]);
	if (!status)
		wait_for_end(live);
	for (uint32_t i = 0; i < lines && live->line[i].stream; i++)
		weft_stream_stop(live->line[i].stream);
	for (uint32_t i = 0; i < lines; i++)
		join_line(&live->line[i]);
	for (uint32_t i = 0; i < lines && !status; i++) {
		const struct weft_stream_line *l = &live->line[i];

		if (l->failed)
			status = weft_stream_fail("trigger", "the GPU", strerror(l->failed));
		for (uint32_t k = 0; k < live->asked->threads; k++)
			weft_stream_judge_merge(total, l->worker[k].judge);
		sum_counters(counters, l->stream);
	}
	for (uint32_t i = 0; i < lines; i++)
		close_line(&live->line[i]);
	return status;
}

int weft_stream_trigger_live(const struct weft_stream_trigger *asked,
			     struct weft_stream_capture *capture, struct weft_stream_judge *total,
			     struct weft_stream_counters *counters)
{
	struct live *live = calloc(1, sizeof(*live));
	int status;

	if (!live)
		return weft_stream_fail("trigger", "it cannot begin", strerror(ENOMEM));
	live->asked = asked;
	live->detector = total->detector;
	live->capture = capture;
	live->fits = total->fits;
	for (uint32_t i = 0; i < asked->lines; i++) {
		pthread_mutex_init(&live->line[i].take, NULL);
		pthread_mutex_init(&live->line[i].leave, NULL);
		pthread_cond_init(&live->line[i].left, NULL);
	}
	weft_stream_catch();
	status = run_lines(live, total, counters);
	free(live);
	return status;
}
