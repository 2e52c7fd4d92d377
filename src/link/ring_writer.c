/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/stream.h"
#include "link/stream_ring.h"

struct weft_ring_writer {
	int fd, wake;
	struct weft_stream_ring_file *ring;
	uint64_t head;
};

#define FILE_BYTES (sizeof(struct weft_stream_ring_file) + WEFT_RING_BYTES)

static int map_file(struct weft_ring_writer *w)
{
	struct stat stat;

	if (flock(w->fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (fstat(w->fd, &stat))
		return -errno;
	if (stat.st_size != (off_t)FILE_BYTES)
		return -EPROTO;
	w->ring = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	if (w->ring == MAP_FAILED)
		return -errno;
	w->head = atomic_load_explicit(&w->ring->head, memory_order_relaxed);
	return w->ring->magic == WEFT_RING_FILE_MAGIC && w->head % 8 == 0 ? 0 : -EPROTO;
}

int weft_ring_writer_open(const char *path, struct weft_ring_writer **writer)
{
	struct weft_ring_writer *w = malloc(sizeof(*w));
	char wake[PATH_MAX];
	int answer;

	if (!w)
		return -ENOMEM;
	snprintf(wake, sizeof(wake), "%s.wake", path);
	*w = (struct weft_ring_writer){.ring = MAP_FAILED};
	w->fd = open(path, O_RDWR | O_CLOEXEC);
	answer = w->fd < 0 ? -errno : 0;
	/* for reading, too: a write is no SIGPIPE when the reader has gone */
	w->wake = open(wake, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (!answer && w->wake < 0)
		answer = -errno;
	if (!answer)
		answer = map_file(w);
	if (answer)
		weft_ring_writer_close(w);
	else
		*writer = w;
	return answer;
}

void weft_ring_writer_close(struct weft_ring_writer *w)
{
	if (w->ring != MAP_FAILED)
		munmap(w->ring, FILE_BYTES);
	if (w->wake >= 0)
		close(w->wake);
	if (w->fd >= 0)
		close(w->fd);
	free(w);
}

/* The reader sleeps only if it has seen no new head: whichever stores second sees the other. */
static void publish_head(struct weft_ring_writer *w)
{
	/* with the acquire in receive_ring (link/stream_ring.c): the bytes before the head */
	atomic_store_explicit(&w->ring->head, w->head, memory_order_release);
	atomic_thread_fence(
		memory_order_seq_cst); /* with the fence in sleep_ring (link/stream_ring.c) */
	if (atomic_load_explicit(&w->ring->asleep, memory_order_relaxed) &&
	    atomic_exchange_explicit(&w->ring->asleep, 0, memory_order_relaxed) &&
	    write(w->wake, "", 1) < 0)
		return; /* the pipe is full: it is readable */
}

/* It holds the lock of the pipe while it lives, and its file is its own: one that came behind it has another. */
static bool has_reader(const struct weft_ring_writer *w)
{
	struct stat stat;

	if (fstat(w->fd, &stat) || !stat.st_nlink)
		return false;
	if (flock(w->wake, LOCK_SH | LOCK_NB))
		return errno == EWOULDBLOCK;
	flock(w->wake, LOCK_UN);
	return false;
}

int weft_ring_writer_put(struct weft_ring_writer *w, const uint8_t *data, uint32_t bytes)
{
	uint32_t room = weft_ring_room(bytes), at = (uint32_t)(w->head % WEFT_RING_BYTES);
	uint32_t skip = WEFT_RING_BYTES - at < room ? WEFT_RING_BYTES - at : 0;
	/* with the release in receive_ring (link/stream_ring.c): the reader has done with what is before */
	uint64_t tail = atomic_load_explicit(&w->ring->tail, memory_order_acquire);

	if (bytes > WEFT_STREAM_LONGEST)
		return -EMSGSIZE;
	if (w->head + skip + room - tail > WEFT_RING_BYTES)
		return has_reader(w) ? -EAGAIN : -EPIPE;
	if (skip) {
		memcpy(w->ring->bytes + at, &(uint32_t){WEFT_RING_SKIP}, 4);
		at = 0;
	}
	memcpy(w->ring->bytes + at, &bytes, 4);
	memcpy(w->ring->bytes + at + 4, data, bytes);
	w->head += skip + room;
	publish_head(w);
	return 0;
}
