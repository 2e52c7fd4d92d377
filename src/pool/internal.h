/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the pool's own files share: the private half of an attachment. */
#ifndef WEFT_POOL_INTERNAL_H
#define WEFT_POOL_INTERNAL_H

#include <limits.h>
#include <pthread.h>

#include "backing/backing.h"
#include "pool/pool.h"
#include "pool/slice.h"
#include "pool/sizes.h"

/* Books of one segment that extents are cut from, a bit a page. */
struct weft_segment_books {
	uint64_t used[WEFT_SEGMENT / WEFT_PAGE / 64];
	uint32_t free_pages;
	uint32_t next; /* where the search goes on */
};

/* What this member has posted: when, for slots whose addressee does not take them. */
struct weft_own_mailbox {
	struct weft_pool_mailbox *at; /* NULL: nothing yet */
	uint64_t posted_ns[WEFT_MAILBOX_SLOTS];
	uint16_t scan; /* the member whose mailbox is looked at next */
};

/* Pieces of one size: a power of two from a line up to 32 KiB. */
#define WEFT_HEAP_CLASSES 10u

struct weft_heap_class {
	uint64_t *free; /* offsets */
	uint32_t nfree, cut, room;
};

/* See quarantine.c. */
struct weft_quarantine {
	struct weft_suspect *suspect;
	struct weft_retired *retired;
	_Atomic uint32_t nsuspects;
	bool lost; /* a suspect could not be noted */
};

struct weft_hosts;

struct weft_attachment {
	struct weft_pool pool;
	struct weft_attachment *parents; /* in a fork's child: what it has inherited, unused */
	char path[PATH_MAX];		 /* absolute */
	const struct weft_backing *on;
	struct weft_backed *backed;
	struct weft_hosts *hosts; /* host.h; NULL: the pool has its home in itself */
	unsigned int references;
	pthread_mutex_t quarantine_mutex; /* guards the next; not held while freeing */
	struct weft_quarantine quarantine;
	_Atomic uint32_t watched; /* where the next look for dead members begins */
	pthread_mutex_t mutex;	  /* guards all below */

	struct weft_segment_books *books[WEFT_SEGMENTS];
	uint32_t books_first, books_end; /* there are none outside */
	struct weft_heap_class heap[WEFT_HEAP_CLASSES];
	uint64_t heap_top, heap_end; /* of the slab that is being cut */

	uint64_t *qp_used; /* a bit an entry of the blocks that are ours */
	uint64_t *mr_used, *object_used;
	uint32_t qp_next, mr_next, object_next;
	uint64_t lines_used;
	struct weft_own_mailbox mailbox; /* guarded by its posters and takers */
	pthread_mutex_t shared_line;
	pthread_mutex_t
		visit_mutex; /* guards the next; nothing is taken under it but the two above */
	struct weft_caller visitor;
	/* as published; guarded by the file lock */
	uint64_t ports_off;
	uint32_t ports;
};

static inline struct weft_attachment *weft_attachment(struct weft_pool *pool)
{
	return (struct weft_attachment *)pool;
}

/* signature.c: of the layout of everything that is shared. */
uint64_t weft_signature(void);

/* room.c: zeroed memory of this process alone, of which only what is touched is allocated. NULL:
 * there is none. */
void *weft_room(size_t bytes);
void weft_room_free(void *at, size_t bytes);

/* open.c: the row that a path names; NULL: the path is $WEFT_POOL. */
const struct weft_backing *weft_open_backing(const char *path);
/* An attachment of its own, whether the process has another or not; weft_pool_put drops it,
 * too. As weft_pool_get; -EOPNOTSUPP: the backing lacks what the pool needs. */
int weft_open_attach(const struct weft_backing *on, const char *path, bool own,
		     struct weft_attachment **out, const char **why);

/* The backing's, as the pool's files call them most; what they return is said there
 * (backing/backing.h). */
static inline int weft_reserve_pages(const struct weft_attachment *a, uint64_t off,
				     uint64_t len_bytes)
{
	return a->on->reserve(a->backed, off, len_bytes);
}

static inline int weft_release_pages(const struct weft_attachment *a, uint64_t off,
				     uint64_t len_bytes)
{
	return a->on->release(a->backed, off, len_bytes);
}

static inline int weft_enter(const struct weft_attachment *a)
{
	return a->on->enter(a->backed);
}

static inline void weft_leave(const struct weft_attachment *a, int key)
{
	a->on->leave(a->backed, key);
}

/* lease.c. Callers of the first three hold a->mutex. */
uint64_t weft_lease_word(const struct weft_pool *pool);
int weft_lease_segments(struct weft_attachment *a, uint32_t count, uint32_t *first);
void weft_lease_drop_segments(struct weft_attachment *a, uint32_t first, uint32_t count);
/* What is leased under `word`: the first ends all access to it (died: queue pairs become DIED, format_qp.h); the second, once no
 * executor has access, frees it. The latter fails with -errno if the file cannot be opened. */
void weft_lease_end_rights(struct weft_pool *pool, uint64_t word, bool died);
int weft_lease_give_back(struct weft_attachment *a, uint64_t word);
/* The next lease from *at on, which starts as 0; 0: none. */
uint64_t weft_lease_next(const struct weft_pool *pool, uint32_t *at);

/* member.c: members of that host that were ever used: from its slice's first on, below `end`. */
struct weft_slice weft_members_of(const struct weft_pool *pool, uint32_t host);

/* The lock is held. -ESTALE: the memory lost its name before we were in it. */
int weft_member_join(struct weft_attachment *a);
/* bell.c: waits until no living thread executes at `member`, whose own lines count only if it is this process.
 * -ETIMEDOUT. */
int weft_bell_wait_idle(struct weft_pool *pool, uint16_t member, uint64_t timeout_ns);

/* wake.c: closes the descriptors of channels that have gone; of all, as the pool is left; and, in a fork's child,
 * its parent's. */
void weft_wake_sweep(struct weft_pool *pool);
void weft_wake_end(void);
void weft_wake_forget(void);

/* The same for executors of this host, at `member` or at that queue pair of it. */
int weft_bell_wait_near(struct weft_pool *pool, uint16_t member, uint32_t qp, uint64_t timeout_ns);

/* As a line of a suspect: all of host `member`, with its life as the word, and the question it owes us as the
 * incarnation. */
#define WEFT_LINE_HOST UINT32_MAX

/* quarantine.c: is that line, with that word, a suspect's? -ENOENT: no; -ETIMEDOUT: yes; 0: yes, but what was made
 * at that age is out of its reach. */
int weft_quarantine_look(struct weft_pool *pool, uint16_t member, uint32_t line, uint64_t busy,
			 uint64_t made);
void weft_quarantine_suspect(struct weft_pool *pool, uint16_t member, uint32_t line,
			     uint64_t incarnation, uint64_t busy);
void weft_quarantine_end(struct weft_quarantine *q);

/* gate.c: exchanges on that pool's words are looked at from now on; NULL: of none. */
#ifdef WEFT_GATES
void weft_gate_open(const struct weft_pool *pool);
#else
#define weft_gate_open(pool) ((void)0)
#endif

/* life.c: gives back all that this member holds. */
void weft_life_leave(struct weft_attachment *a);

#endif
