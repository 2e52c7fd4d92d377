/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/tell.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define TOLD(generation)  ((uint64_t)(generation) << 2 | 1)
#define TAKEN(generation) ((uint64_t)(generation) << 2 | 2)

_Static_assert(sizeof(struct weft_stream_event) % 8 == 0, "it is copied in words");

static size_t words_of(uint64_t bits)
{
	return (size_t)((bits + 63) / 64);
}

int weft_tell_begin(struct weft_tell *t, uint32_t buffers)
{
	uint64_t ring = 2;
	_Atomic uint64_t *at;

	while (ring < buffers)
		ring *= 2;
	*t = (struct weft_tell){.mask = ring - 1, .buffers = buffers};
	t->bytes = sizeof(*t->shared) + ring * sizeof(*t->record) + 2 * 8 * (size_t)buffers +
		   8 * (words_of(buffers) + words_of(words_of(buffers)));
	t->memory = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (t->memory == MAP_FAILED)
		return -ENOMEM;
	t->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->fd < 0) {
		munmap(t->memory, t->bytes);
		return -errno;
	}
	t->shared = t->memory;
	t->record = (void *)(t->shared + 1);
	at = (_Atomic uint64_t *)(t->record + ring);
	t->held = at;
	t->word = t->held + buffers;
	t->given = t->word + buffers;
	t->some = t->given + words_of(buffers);
	return 0;
}

void weft_tell_end(struct weft_tell *t)
{
	close(t->fd);
	munmap(t->memory, t->bytes);
}

/* Signals, once for each arming. */
static void signal_armed(struct weft_tell *t)
{
	atomic_thread_fence(memory_order_seq_cst); /* with the one in weft_tell_arm */
	if (atomic_load_explicit(&t->shared->armed, memory_order_relaxed) &&
	    atomic_exchange_explicit(&t->shared->armed, 0, memory_order_relaxed) &&
	    eventfd_write(t->fd, 1))
		return; /* it is readable already */
}

void weft_tell_put(struct weft_tell *t, uint32_t buffer, const struct weft_stream_event *event,
		   bool word_only)
{
	uint64_t tail = atomic_load_explicit(&t->shared->tail, memory_order_relaxed);
	uint64_t words[WEFT_TELL_WORDS];

	atomic_store_explicit(&t->held[buffer],
			      word_only ? TAKEN(event->generation) : TOLD(event->generation),
			      memory_order_relaxed);
	/* with the acquire of the application that polls it; before the record, which says the same */
	atomic_store_explicit(&t->word[buffer], (uint64_t)event->generation << 32 | event->bytes,
			      memory_order_release);
	if (!word_only) {
		memcpy(words, event, sizeof(words));
		for (uint32_t i = 0; i < WEFT_TELL_WORDS; i++)
			atomic_store_explicit(&t->record[tail & t->mask][i], words[i],
					      memory_order_relaxed);
		/* with the acquire in weft_tell_take: the record, and the buffer's bytes */
		atomic_store_explicit(&t->shared->tail, tail + 1, memory_order_release);
	}
	signal_armed(t);
}

void weft_tell_stop(struct weft_tell *t)
{
	/* with the acquire in weft_tell_take: all records */
	atomic_store_explicit(&t->shared->stopped, 1, memory_order_release);
	signal_armed(t);
}

int weft_tell_take(struct weft_tell *t, const uint32_t base[], struct weft_stream_event *event)
{
	uint64_t head = atomic_load_explicit(&t->shared->head, memory_order_relaxed);
	uint64_t words[WEFT_TELL_WORDS];

	do {
		/* with the release in weft_tell_stop, before the tail is looked at */
		bool stopped = atomic_load_explicit(&t->shared->stopped, memory_order_acquire) != 0;

		/* with the release in weft_tell_put */
		if (head == atomic_load_explicit(&t->shared->tail, memory_order_acquire))
			return stopped ? -ESHUTDOWN : -EAGAIN;
		for (uint32_t i = 0; i < WEFT_TELL_WORDS; i++)
			words[i] = atomic_load_explicit(&t->record[head & t->mask][i],
							memory_order_relaxed);
		/* while the head stands the record does: acquire and release for others that take */
	} while (!atomic_compare_exchange_weak_explicit(
		&t->shared->head, &head, head + 1, memory_order_acq_rel, memory_order_relaxed));
	memcpy(event, words, sizeof(words));
	/* with the acquire in weft_tell_give_back, which another thread may call: the record has been read */
	atomic_store_explicit(&t->held[base[event->list] + event->buffer], TAKEN(event->generation),
			      memory_order_release);
	return 0;
}

int weft_tell_arm(struct weft_tell *t)
{
	eventfd_t before;

	if (eventfd_read(t->fd, &before) && errno != EAGAIN)
		return -errno;
	atomic_store_explicit(&t->shared->armed, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst); /* with the one in signal_armed */
	if (atomic_load_explicit(&t->shared->head, memory_order_relaxed) ==
		    atomic_load_explicit(&t->shared->tail, memory_order_relaxed) &&
	    !atomic_load_explicit(&t->shared->stopped, memory_order_relaxed))
		return 0;
	atomic_store_explicit(&t->shared->armed, 0, memory_order_relaxed);
	return -EAGAIN;
}

int weft_tell_give_back(struct weft_tell *t, uint32_t buffer, uint32_t generation)
{
	uint64_t expected = TAKEN(generation);

	/* acquire: with the release in weft_tell_take, so that the release below is behind both */
	if (!atomic_compare_exchange_strong_explicit(&t->held[buffer], &expected, 0,
						     memory_order_acquire, memory_order_relaxed))
		return expected == TOLD(generation) ? -EBUSY : -ESTALE;
	/* with the acquires in weft_tell_returned: what was read of the buffer was read before */
	atomic_fetch_or_explicit(&t->given[buffer / 64], 1ull << buffer % 64, memory_order_release);
	atomic_fetch_or_explicit(&t->some[buffer / 4096], 1ull << buffer / 64 % 64,
				 memory_order_release);
	return 0;
}

void weft_tell_returned(struct weft_tell *t, void (*free)(void *context, uint32_t buffer),
			void *context)
{
	for (size_t i = 0; i < words_of(words_of(t->buffers)); i++) {
		uint64_t some = 0;

		/* with the releases in weft_tell_give_back, both */
		if (atomic_load_explicit(&t->some[i], memory_order_relaxed))
			some = atomic_exchange_explicit(&t->some[i], 0, memory_order_acquire);
		for (; some; some &= some - 1) {
			uint32_t word = (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(some);
			uint64_t given =
				atomic_exchange_explicit(&t->given[word], 0, memory_order_acquire);

			for (; given; given &= given - 1)
				free(context, word * 64 + (uint32_t)__builtin_ctzll(given));
		}
	}
}
