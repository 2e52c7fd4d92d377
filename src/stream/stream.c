/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "link/crc32c.h"
#include "stream/internal.h"

#define PUBLIC __attribute__((visibility("default")))

_Static_assert((int)WEFT_STREAM_RESTARTED == (int)WEFT_CLOP_RESTARTED &&
		       (int)WEFT_STREAM_APE == (int)WEFT_PROTOCOL_APE,
	       "the engine's, under names for applications");

/* ---- Set-up ---- */

PUBLIC int weft_stream_open(uint64_t spin_ns, struct weft_stream **stream)
{
	struct weft_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->spin_ns = spin_ns;
	s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	s->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->shared == MAP_FAILED || s->kick < 0) {
		if (s->shared != MAP_FAILED)
			munmap(s->shared, sizeof(*s->shared));
		free(s);
		return -ENOMEM;
	}
	*stream = s;
	return 0;
}

static int say_wrong(struct weft_stream *s, const char *why)
{
	s->wrong = why;
	return -EINVAL;
}

PUBLIC const char *weft_stream_wrong(const struct weft_stream *s)
{
	return s->wrong;
}

/* With its pages: none is to be made while datagrams come. */
static void *map_shared(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE, -1, 0);
}

static size_t memory_of(const struct weft_clop_options *o)
{
	return (size_t)o->buffers * o->bytes;
}

static size_t datagrams_of(const struct weft_clop_options *o)
{
	return (size_t)o->buffers * o->slots * sizeof(struct weft_stream_datagram);
}

PUBLIC void weft_stream_lay_out(const struct weft_stream_list *list,
				struct weft_stream_layout *layout)
{
	uint64_t buffers = (uint64_t)list->buffers * list->bytes;

	layout->words = (buffers + 7) & ~7ull;
	layout->datagrams = layout->words + 8ull * list->buffers;
	layout->bytes = layout->datagrams +
			(uint64_t)list->buffers * list->slots * sizeof(struct weft_stream_datagram);
}

static void end_list(struct weft_stream_list_of *to, const struct weft_clop_options *o)
{
	if (to->ferry) {
		weft_ferry_end(to->ferry);
		return;
	}
	if (to->made && to->memory != MAP_FAILED)
		munmap(to->memory, memory_of(o));
	if (o->slots && to->datagram != MAP_FAILED)
		munmap(to->datagram, datagrams_of(o));
}

/* Nothing is told there yet, whatever was in that memory before. */
static int clear_words(struct weft_stream_list_of *to)
{
	uint64_t from = to->layout.words;
	int answer = weft_ferry_issue(to->ferry, from, to->layout.bytes - from);
	int waited = weft_ferry_wait(to->ferry);

	return answer || waited ? -EIO : 0;
}

static int begin_on_gpu(struct weft_stream_list_of *to, void *memory)
{
	int answer = weft_ferry_begin(memory, to->layout.bytes, to->flags & WEFT_STREAM_PULL,
				      &to->ferry);

	if (answer)
		return answer;
	to->memory = weft_ferry_host(to->ferry);
	to->datagram = (void *)(to->memory + to->layout.datagrams);
	answer = clear_words(to);
	if (answer)
		weft_ferry_end(to->ferry);
	return answer;
}

static int begin_on_host(struct weft_stream_list_of *to, const struct weft_clop_options *o)
{
	if (to->made)
		to->memory = map_shared(memory_of(o));
	if (o->slots)
		to->datagram = map_shared(datagrams_of(o));
	return to->memory == MAP_FAILED || to->datagram == MAP_FAILED ? -ENOMEM : 0;
}

static int begin_list(struct weft_stream_list_of *to, const struct weft_stream_list *list,
		      const struct weft_clop_options *o)
{
	int answer;

	*to = (struct weft_stream_list_of){
		.flags = list->flags, .made = !list->memory, .memory = list->memory};
	weft_stream_lay_out(list, &to->layout);
	if (list->flags & WEFT_STREAM_GPU) {
		answer = begin_on_gpu(to, list->memory);
		if (answer)
			return answer;
	} else {
		answer = begin_on_host(to, o);
	}
	if (!answer)
		answer = weft_landing_begin(&to->landing, o->buffers, o->slots, o->slot_bytes,
					    o->bytes, o->footer_bytes, to->memory);
	if (answer)
		end_list(to, o);
	return answer;
}

PUBLIC int weft_stream_register(struct weft_stream *s, const struct weft_stream_list *list,
				uint32_t *number, void **memory)
{
	const struct weft_clop_options o = {
		.buffers = list->buffers,
		.bytes = list->bytes,
		.slots = list->slots,
		.slot_bytes = list->slot_bytes,
		.footer_bytes = list->flags & WEFT_STREAM_STAMPS ? WEFT_STREAM_STAMPS_BYTES : 0,
		.ordered = list->flags & WEFT_STREAM_ORDERED,
		.datagrams = list->datagrams,
		.events = list->events,
		.timeout_ns = list->timeout_ns,
		.bursts = list->flags & WEFT_STREAM_BURSTS,
	};
	int answer;

	if (s->started)
		return -EBUSY;
	if (list->flags & ~WEFT_STREAM_FLAGS)
		return say_wrong(s, "a list has flags that there are not");
	if (!weft_clop_valid(&o))
		return say_wrong(
			s, "a list has no buffers, no bytes, or no room for its slots, or for "
			   "stamps in them; or an ordered one ends by number");
	if (list->flags & WEFT_STREAM_PULL && !(list->flags & WEFT_STREAM_GPU))
		return say_wrong(s, "a kernel is to fill a list that is not a GPU's");
	if (list->flags & WEFT_STREAM_GPU && (!list->memory || o.footer_bytes))
		return say_wrong(s, "a list of a GPU has no memory, or is to have stamps");
	if (s->lists == WEFT_STREAM_LISTS)
		return -ENOSPC;
	answer = begin_list(&s->list[s->lists], list, &o);
	if (answer == -EINVAL)
		return say_wrong(s, "not all of a list's memory is of one GPU");
	if (answer)
		return answer;
	s->clop[s->lists] = o;
	if (number)
		*number = s->lists;
	if (memory)
		*memory = list->memory ?: s->list[s->lists].memory;
	s->lists++;
	return 0;
}

/* Fills in window, history and jump where they are 0, from the field and the list. */
static void fill_in(const struct weft_stream *s, struct weft_nanet_source_options *o)
{
	const struct weft_clop_options *list = &s->clop[o->list];
	struct weft_protocol p = o->protocol;
	uint64_t half;

	if (!weft_protocol_settle(&p) || !weft_protocol_is_numbered(&p) || !p.step)
		return;
	half = (1ull << (p.bits - 1)) / p.step;
	if (!o->history)
		o->history = half < 4096 ? 64 : 4096;
	if (!o->window)
		o->window = list->ordered && list->slots <= 1024 ? list->slots - 1
			    : o->history < 1024			 ? o->history
								 : 1024;
	if (!o->jump)
		o->jump = half - 1 < 1u << 20 ? half - 1 : 1u << 20;
}

PUBLIC int weft_stream_bind(struct weft_stream *s, const struct weft_stream_source *source,
			    uint32_t *number)
{
	struct weft_stream_link_options link = {.socket_bytes = source->socket_bytes};
	struct weft_nanet_source_options o = {
		.list = source->list,
		.protocol = {.kind = (enum weft_protocol_kind)source->protocol,
			     .offset = source->offset,
			     .bits = (uint8_t)source->bits,
			     .big_endian = source->big_endian,
			     .step = source->step ?: 1,
			     .id = source->id,
			     .crc32c = weft_crc32c},
		.window = source->window,
		.history = source->history,
		.jump = source->jump,
	};
	int answer;

	if (s->started)
		return -EBUSY;
	if (source->list >= s->lists)
		return say_wrong(s, "a source is bound to a list that is not there");
	if (!source->from || source->bits > 64)
		return say_wrong(s, "a source comes from nowhere, or its field has no such width");
	if (s->sources == WEFT_STREAM_SOURCES)
		return -ENOSPC;
	answer = weft_stream_link_open(source->from, &link, &s->source[s->sources].link);
	if (answer == -EINVAL)
		return say_wrong(s, link.wrong);
	if (answer)
		return answer;
	fill_in(s, &o);
	s->source_options[s->sources] = o;
	if (number)
		*number = s->sources;
	s->sources++;
	return 0;
}

/* ---- Starting and ending ---- */

static int begin_thread(struct weft_stream *s)
{
	sigset_t all, before;
	int answer;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	answer = -pthread_create(&s->thread, NULL, weft_stream_receiver_run, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return answer;
}

static void stop_ferries(struct weft_stream *s)
{
	for (uint32_t i = 0; i < s->lists; i++)
		if (s->list[i].ferry)
			weft_ferry_stop(s->list[i].ferry);
}

static int start_ferries(struct weft_stream *s)
{
	int answer = 0;

	for (uint32_t i = 0; i < s->lists && !answer; i++)
		if (s->list[i].ferry)
			answer = weft_ferry_start(s->list[i].ferry);
	if (answer)
		stop_ferries(s);
	return answer;
}

static uint32_t number_buffers(struct weft_stream *s)
{
	uint32_t buffers = 0;

	for (uint32_t i = 0; i < s->lists; i++) {
		s->base[i] = buffers;
		buffers += s->clop[i].buffers;
	}
	return buffers;
}

PUBLIC int weft_stream_start(struct weft_stream *s)
{
	const struct weft_nanet_options o = {s->sources, s->lists, s->source_options, s->clop};
	const char *why = weft_nanet_wrong(&o);
	void *memory;
	int answer;

	if (s->started)
		return -EBUSY;
	if (why)
		return say_wrong(s, why);
	answer = weft_tell_begin(&s->tell, number_buffers(s));
	if (answer)
		return answer;
	memory = malloc(weft_nanet_bytes(&o));
	answer = memory ? weft_stream_receiver_begin(s) : -ENOMEM;
	if (answer)
		goto end_tell;
	s->engine = weft_nanet_begin(&o, memory);
	answer = start_ferries(s);
	if (answer)
		goto end_receiver;
	answer = begin_thread(s);
	if (answer)
		goto stop_ferries;
	s->started = true;
	return 0;
stop_ferries:
	stop_ferries(s);
end_receiver:
	weft_stream_receiver_end(s);
end_tell:
	free(memory);
	weft_tell_end(&s->tell);
	return answer;
}

PUBLIC void weft_stream_stop(struct weft_stream *s)
{
	if (!s->started || s->ended)
		return;
	/* with the acquire in weft_stream_receiver_run */
	atomic_store_explicit(&s->shared->stop, 1, memory_order_release);
	eventfd_write(s->kick, 1);
	pthread_join(s->thread, NULL);
	stop_ferries(s);
	s->ended = true;
}

PUBLIC void weft_stream_close(struct weft_stream *s)
{
	weft_stream_stop(s);
	if (s->started) {
		weft_stream_receiver_end(s);
		free(s->engine);
		weft_tell_end(&s->tell);
	}
	for (uint32_t i = 0; i < s->sources; i++)
		s->source[i].link->kind->close(s->source[i].link);
	for (uint32_t i = 0; i < s->lists; i++) {
		weft_landing_end(&s->list[i].landing);
		end_list(&s->list[i], &s->clop[i]);
	}
	close(s->kick);
	munmap(s->shared, sizeof(*s->shared));
	free(s);
}

/* ---- What is told ---- */

PUBLIC int weft_stream_fd(const struct weft_stream *s)
{
	return s->started ? s->tell.fd : -1;
}

PUBLIC int weft_stream_arm(struct weft_stream *s)
{
	return s->started ? weft_tell_arm(&s->tell) : say_wrong(s, "the stream has not started");
}

PUBLIC int weft_stream_wait(struct weft_stream *s, struct weft_stream_event *event, int timeout_ms)
{
	int answer, came = 1;

	if (!s->started)
		return say_wrong(s, "the stream has not started");
	while ((answer = weft_tell_take(&s->tell, s->base, event)) == -EAGAIN && timeout_ms &&
	       came) {
		struct pollfd wait = {.fd = s->tell.fd, .events = POLLIN};

		if (weft_tell_arm(&s->tell))
			continue;
		came = poll(&wait, 1, timeout_ms);
		if (came < 0)
			return -errno;
	}
	return answer;
}

PUBLIC const uint64_t *weft_stream_words(const struct weft_stream *s, uint32_t list)
{
	return s->started && list < s->lists ? (const uint64_t *)(s->tell.word + s->base[list])
					     : NULL;
}

PUBLIC const struct weft_stream_datagram *weft_stream_datagrams(const struct weft_stream *s,
								uint32_t list, uint32_t buffer)
{
	if (list >= s->lists || !s->clop[list].slots || buffer >= s->clop[list].buffers)
		return NULL;
	return s->list[list].datagram + (size_t)buffer * s->clop[list].slots;
}

PUBLIC int weft_stream_give_back(struct weft_stream *s, uint32_t list, uint32_t buffer,
				 uint32_t generation)
{
	if (!s->started || list >= s->lists || buffer >= s->clop[list].buffers)
		return say_wrong(s, "there is no such buffer, or the stream has not started");
	return weft_tell_give_back(&s->tell, s->base[list] + buffer, generation);
}

PUBLIC int weft_stream_flush(struct weft_stream *s, uint32_t list)
{
	if (!s->started || list >= s->lists)
		return say_wrong(s, "there is no such list, or the stream has not started");
	atomic_fetch_or(&s->shared->flush, 1ull << list);
	eventfd_write(s->kick, 1);
	return 0;
}

/* ---- Counters ---- */

static void read_snapshot(const struct weft_stream_snapshot *from, uint64_t to[])
{
	uint64_t turn;

	do {
		/* with the release in publish_counters (stream/receiver.c) */
		turn = atomic_load_explicit(&from->turn, memory_order_acquire);
		for (size_t i = 0; i < sizeof(struct weft_stream_counters) / 8; i++)
			to[i] = atomic_load_explicit(&from->word[i], memory_order_relaxed);
		/* with the fence in publish_counters (stream/receiver.c) */
		atomic_thread_fence(memory_order_acquire);
	} while (turn % 2 || atomic_load_explicit(&from->turn, memory_order_relaxed) != turn);
}

PUBLIC int weft_stream_counters(const struct weft_stream *s, uint32_t source,
				struct weft_stream_counters *counters)
{
	uint64_t sum[sizeof(*counters) / 8] = {0}, one[sizeof(*counters) / 8];
	uint64_t failed = 0;

	if (source >= s->sources && source != WEFT_STREAM_ALL)
		return -EINVAL;
	for (uint32_t i = 0; i < s->sources; i++) {
		if (source != i && source != WEFT_STREAM_ALL)
			continue;
		read_snapshot(&s->shared->snapshot[i], one);
		for (size_t k = 0; k < sizeof(*counters) / 8; k++)
			sum[k] += one[k];
		memcpy(counters, one, sizeof(*counters));
		failed = counters->failed ?: failed;
	}
	memcpy(counters, sum, sizeof(*counters));
	counters->failed = failed;
	return 0;
}
