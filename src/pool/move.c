/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/move.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pool/hold.h"
#include "pool/movable.h"

static enum weft_move_way forced;

int weft_move_map(const struct weft_move *chunk)
{
	/* populated: a first store into each page would cost a fault */
	void *at = mmap((void *)chunk->va, chunk->len_bytes, chunk->prot,
			MAP_SHARED | MAP_FIXED | MAP_POPULATE, chunk->fd, (off_t)chunk->off);

	return at == MAP_FAILED ? -errno : 0;
}

int weft_move_copy(const struct weft_move *chunk, void **scratch)
{
	*scratch = mmap(NULL, chunk->len_bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (*scratch == MAP_FAILED)
		return -errno;
	memcpy(*scratch, chunk->alias, chunk->len_bytes);
	if (!(chunk->prot & PROT_WRITE))
		mprotect(*scratch, chunk->len_bytes, chunk->prot);
	return 0;
}

static int copy_begin(void)
{
	return 0;
}

static int copy_in(const struct weft_move *chunk)
{
	memcpy(chunk->alias, (void *)chunk->va, chunk->len_bytes);
	return weft_move_map(chunk);
}

/* Straight to its address, so that the mapping merges with its neighbours again. */
static int copy_out(const struct weft_move *chunk)
{
	if (mmap((void *)chunk->va, chunk->len_bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return -errno;
	memcpy((void *)chunk->va, chunk->alias, chunk->len_bytes);
	if (chunk->prot != (PROT_READ | PROT_WRITE))
		mprotect((void *)chunk->va, chunk->len_bytes, chunk->prot);
	return 0;
}

static void copy_end(void)
{
}

static const struct weft_hold copy = { copy_begin, copy_in, copy_out, copy_end };

static size_t in_chunks(const struct weft_move *move, size_t chunk_bytes,
			int (*step)(const struct weft_move *chunk))
{
	struct weft_move chunk = *move;
	size_t done = 0;

	while (done < move->len_bytes) {
		/* aligned, so that the chunks of huge pages stay few */
		chunk.len_bytes = chunk_bytes - chunk.va % chunk_bytes;
		if (chunk.len_bytes > move->len_bytes - done)
			chunk.len_bytes = move->len_bytes - done;
		if (step(&chunk))
			break;
		done += chunk.len_bytes;
		chunk.va += chunk.len_bytes;
		chunk.alias += chunk.len_bytes;
		chunk.off += chunk.len_bytes;
	}
	return done;
}

static const struct weft_hold *choose(void)
{
	if (forced == WEFT_MOVE_COPY || (!forced && weft_movable_threads() == 1))
		return copy.begin() ? NULL : &copy;
	if (forced != WEFT_MOVE_SEGV && !weft_uffd_hold.begin())
		return &weft_uffd_hold;
	if (forced != WEFT_MOVE_UFFD && !weft_segv_hold.begin())
		return &weft_segv_hold;
	return NULL;
}

static size_t with_signals_blocked(const struct weft_move *move, bool in)
{
	const struct weft_hold *hold;
	sigset_t all, old;
	size_t done = 0;

	/* a handler in this thread could store into the chunk, or wait for it for ever */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	hold = choose();
	if (hold) {
		done = in_chunks(move, hold == &copy ? move->len_bytes : WEFT_HOLD_CHUNK,
				 in ? hold->in : hold->out);
		hold->end();
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return done;
}

size_t weft_move_in(const struct weft_move *move)
{
	size_t done = with_signals_blocked(move, true);

	if (done)
		madvise((void *)move->va, done, MADV_DONTFORK);
	return done;
}

size_t weft_move_out(const struct weft_move *move)
{
	return with_signals_blocked(move, false);
}

void weft_move_force(enum weft_move_way way)
{
	forced = way;
}
