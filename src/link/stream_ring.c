/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The reader's end of a ring: its file is new each time, so that a writer of one that is gone harms none. */
#include "link/stream_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/stream.h"

struct ring {
	struct weft_stream_link link; /* its descriptor is the pipe's */
	char path[PATH_MAX - 8], wake[PATH_MAX];
	struct weft_stream_ring_file *shared;
	uint64_t tail; /* up to where runs have been given */
	bool made;
};

#define FILE_BYTES (sizeof(struct weft_stream_ring_file) + WEFT_RING_BYTES)

static void close_ring(struct weft_stream_link *link)
{
	struct ring *r = (struct ring *)link;

	if (r->made) {
		unlink(r->path);
		unlink(r->wake);
	}
	if (r->shared != MAP_FAILED)
		munmap(r->shared, FILE_BYTES);
	if (r->link.fd >= 0)
		close(r->link.fd);
	free(r);
}

/* What stands at the path is nothing, or what a reader has left that is gone: other files are not replaced. */
static int look_at_path(const struct ring *r)
{
	uint64_t magic = 0;
	struct stat stat;
	int fd, answer = 0;

	if (lstat(r->path, &stat))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(stat.st_mode) || stat.st_size != (off_t)FILE_BYTES)
		return -EEXIST;
	fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (read(fd, &magic, sizeof(magic)) != sizeof(magic) || magic != WEFT_RING_FILE_MAGIC)
		answer = -EEXIST;
	close(fd);
	return answer;
}

/* A writer that looks whether a reader lives has the lock for a moment. */
#define LOCK_TRIES 5

static int lock_pipe(const struct ring *r)
{
	for (int i = 1; flock(r->link.fd, LOCK_EX | LOCK_NB); i++) {
		if (errno != EWOULDBLOCK || i == LOCK_TRIES)
			return errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
		usleep(1000);
	}
	return 0;
}

/* The pipe tells whether a reader lives. */
static int make_pipe(struct ring *r)
{
	int answer;

	if (mkfifo(r->wake, 0600) && errno != EEXIST)
		return -errno;
	r->link.fd = open(r->wake, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (r->link.fd < 0)
		return -errno;
	answer = lock_pipe(r);
	r->made = !answer;
	return answer;
}

/* It has its name when it is whole: a writer that finds it can write. */
static int make_ring_file(struct ring *r)
{
	char unnamed[PATH_MAX];
	int fd, answer = 0;

	snprintf(unnamed, sizeof(unnamed), "%s.new", r->path);
	if (unlink(unnamed) && errno != ENOENT)
		return -errno;
	fd = open(unnamed, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, FILE_BYTES))
		answer = -errno;
	else
		r->shared = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!answer && r->shared == MAP_FAILED)
		answer = -errno;
	close(fd);
	if (!answer) {
		r->shared->magic = WEFT_RING_FILE_MAGIC;
		if (rename(unnamed, r->path))
			answer = -errno;
	}
	if (answer)
		unlink(unnamed);
	return answer;
}

static int open_ring(const char *where, struct weft_stream_link_options *options,
		     struct weft_stream_link **link)
{
	struct ring *r;
	int answer;

	options->wrong = "ring: it is no path, or too long";
	if (!*where || strlen(where) >= sizeof(r->path))
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->link = (struct weft_stream_link){&weft_stream_ring, -1};
	r->shared = MAP_FAILED;
	strcpy(r->path, where);
	snprintf(r->wake, sizeof(r->wake), "%s.wake", where);
	answer = look_at_path(r);
	if (!answer)
		answer = make_pipe(r);
	if (!answer)
		answer = make_ring_file(r);
	if (answer)
		close_ring(&r->link);
	else
		*link = &r->link;
	return answer;
}

/* The next datagram before the head: 1; 0: there is none. -EPROTO: what stands there makes no sense. */
static int next_datagram(struct ring *r, uint64_t head, struct weft_stream_run *run)
{
	uint32_t at = (uint32_t)(r->tail % WEFT_RING_BYTES), bytes;

	if (r->tail == head)
		return 0;
	memcpy(&bytes, r->shared->bytes + at, 4);
	if (bytes == WEFT_RING_SKIP) {
		r->tail += WEFT_RING_BYTES - at;
		if (!at || head - r->tail > WEFT_RING_BYTES)
			return -EPROTO;
		return next_datagram(r, head, run);
	}
	if (bytes > WEFT_STREAM_LONGEST || weft_ring_room(bytes) > head - r->tail ||
	    weft_ring_room(bytes) > WEFT_RING_BYTES - at)
		return -EPROTO;
	*run = (struct weft_stream_run){r->shared->bytes + at + 4, bytes, bytes ? bytes : 1,
					WEFT_STREAM_NOWHERE};
	r->tail += weft_ring_room(bytes);
	return 1;
}

static int receive_ring(struct weft_stream_link *link, const struct weft_stream_places *places,
			struct weft_stream_run run[])
{
	struct ring *r = (struct ring *)link;
	uint64_t head;
	int runs = 0, more = 1;

	/* with the acquire in weft_ring_writer_put: what was given before is done with */
	atomic_store_explicit(&r->shared->tail, r->tail, memory_order_release);
	/* with the release in publish_head (link/ring_writer.c) */
	head = atomic_load_explicit(&r->shared->head, memory_order_acquire);
	if (head - r->tail > WEFT_RING_BYTES || head % 8)
		return -EPROTO;
	while (runs < (int)WEFT_STREAM_RUN && (more = next_datagram(r, head, &run[runs])) > 0)
		runs++;
	return more < 0 ? more : runs;
}

static bool sleep_ring(struct weft_stream_link *link)
{
	struct ring *r = (struct ring *)link;
	uint8_t bytes[64];

	while (read(r->link.fd, bytes, sizeof(bytes)) == sizeof(bytes))
		;
	atomic_store_explicit(&r->shared->asleep, 1, memory_order_relaxed);
	atomic_thread_fence(
		memory_order_seq_cst); /* with the fence in publish_head (link/ring_writer.c) */
	return atomic_load_explicit(&r->shared->head, memory_order_relaxed) == r->tail;
}

const struct weft_stream_link_kind weft_stream_ring = {
	.name = "ring",
	.open = open_ring,
	.receive = receive_ring,
	.sleep = sleep_ring,
	.close = close_ring,
};
