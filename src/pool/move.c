/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/move.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pool/format.h"
#include "pool/hold.h"
#include "pool/movable.h"
#include "pool/step.h"
#include "pool/unhooked.h"

enum way {
	AUTO,
	COPY,
	UFFD,
	SEGV,
	NEVER,
};

static enum way forced;

void weft_move_copy(void *to, const void *from, size_t len_bytes)
{
#ifdef __x86_64__
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(len_bytes) : : "memory");
#else
	memcpy(to, from, len_bytes);
#endif
}

int weft_move_map(const struct weft_move *chunk)
{
	/* populated: a first store into each page would cost a fault */
	void *at = weft_unhooked_mmap((void *)chunk->va, chunk->len_bytes, chunk->prot,
				      MAP_SHARED | MAP_FIXED | MAP_POPULATE, chunk->fd,
				      (off_t)chunk->off);

	return at == MAP_FAILED ? -errno : 0;
}

int weft_move_replace(const struct weft_move *chunk, uint8_t *scratch)
{
	int err;

	weft_move_copy(scratch, chunk->alias, chunk->len_bytes);
	WEFT_STEP(move_copied_out);
	if (weft_unhooked_mprotect(scratch, chunk->len_bytes, chunk->prot))
		return -errno;
	if (weft_unhooked_mremap(scratch, chunk->len_bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
				 chunk->va) != MAP_FAILED)
		return 0;
	err = -errno;
	weft_move_map(chunk); /* a failed mremap may have unmapped it */
	return err;
}

static size_t copy_in(const struct weft_move *move)
{
	weft_move_copy(move->alias, (void *)move->va, move->len_bytes);
	WEFT_STEP(move_copied_in);
	return weft_move_map(move) ? 0 : move->len_bytes;
}

/* Straight to its address, so that the mapping merges with its neighbours again. */
static size_t copy_out(const struct weft_move *move)
{
	if (weft_unhooked_mmap((void *)move->va, move->len_bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1,
			       0) == MAP_FAILED) {
		weft_move_map(move); /* a failed mmap may have unmapped it */
		return 0;
	}
	WEFT_STEP(move_out_mapped);
	weft_move_copy((void *)move->va, move->alias, move->len_bytes);
	if (move->prot != (PROT_READ | PROT_WRITE))
		weft_unhooked_mprotect((void *)move->va, move->len_bytes, move->prot);
	return move->len_bytes;
}

/* The chunk that begins `done` bytes into the move; chunks end on multiples of their size. */
static struct weft_move chunk_at(const struct weft_move *move, size_t done)
{
	struct weft_move chunk = *move;
	size_t left = move->len_bytes - done;

	chunk.va += done;
	chunk.alias += done;
	chunk.off += done;
	chunk.len_bytes = WEFT_HOLD_CHUNK - chunk.va % WEFT_HOLD_CHUNK;
	if (chunk.len_bytes > left)
		chunk.len_bytes = left;
	return chunk;
}

static size_t hold_in(const struct weft_hold *hold, const struct weft_move *move)
{
	size_t done = 0, moved = 1;

	while (done < move->len_bytes && moved) {
		struct weft_move chunk = chunk_at(move, done);

		moved = hold->in(&chunk);
		done += moved;
	}
	return done;
}

/* One scratch for all, so that the chunks become one mapping: it does not merge with its
 * neighbours, since pages that were moved remember where they were first. */
static size_t hold_out(const struct weft_hold *hold, const struct weft_move *move)
{
	uint8_t *scratch = weft_unhooked_mmap(NULL, move->len_bytes, PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	size_t done = 0;

	if (scratch == MAP_FAILED)
		return 0;
	while (done < move->len_bytes) {
		struct weft_move chunk = chunk_at(move, done);

		if (hold->out(&chunk, scratch + done)) {
			weft_unhooked_munmap(scratch + done, move->len_bytes - done);
			break;
		}
		done += chunk.len_bytes;
	}
	return done;
}

static bool one_thread(void)
{
	return forced ? forced == COPY : weft_movable_threads() == 1;
}

/* NULL: there is no way here. */
static const struct weft_hold *begin(bool in)
{
	if (forced != SEGV && !weft_uffd_hold.begin())
		return &weft_uffd_hold;
	/* on the way out staying would be worse than the risk */
	if (forced != UFFD && (!in || weft_segv_deliverable()) && !weft_segv_hold.begin())
		return &weft_segv_hold;
	return NULL;
}

static size_t move_pages(const struct weft_move *move, bool in)
{
	const struct weft_hold *hold;

	if (one_thread())
		return in ? copy_in(move) : copy_out(move);
	hold = begin(in);
	if (!hold)
		return 0;
	if (in)
		return hold_in(hold, move);
	return hold_out(hold, move);
}

static size_t move_undisturbed(const struct weft_move *move, bool in)
{
	sigset_t all, old;
	size_t done;

	/* a handler in this thread could store into the chunk, or wait for it for ever */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	done = move_pages(move, in);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return done;
}

size_t weft_move_in(const struct weft_move *move)
{
	size_t done = move_undisturbed(move, true);

	if (!done)
		return 0;
	WEFT_STEP(move_mapped_in);
	weft_unhooked_madvise((void *)move->va, done, MADV_DONTFORK);
	/*
	 * A hint without effect makes two mappings of it: mremap then refuses to grow them, which
	 * would show what lies behind in the pool. One page cannot be guarded so.
	 */
	if (done > WEFT_PAGE)
		weft_unhooked_madvise((void *)(move->va + done - WEFT_PAGE), WEFT_PAGE,
				      MADV_RANDOM);
	return done;
}

size_t weft_move_out(const struct weft_move *move)
{
	/* one mapping again */
	weft_unhooked_madvise((void *)move->va, move->len_bytes, MADV_NORMAL);
	return move_undisturbed(move, false);
}

void weft_move_end(void)
{
	weft_uffd_close();
}

void weft_move_begin(void)
{
	static const char *const names[] = {
		[COPY] = "copy",
		[UFFD] = "uffd",
		[SEGV] = "segv",
		[NEVER] = "never",
	};
	const char *wanted = getenv("WEFT_MOVE");

	forced = AUTO;
	for (enum way way = COPY; wanted && way <= NEVER; way++) {
		if (!strcmp(wanted, names[way]))
			forced = way;
	}
}

bool weft_move_allowed(void)
{
	return forced != NEVER;
}
