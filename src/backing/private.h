/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of one row share: a pool that is a sparse file, open. */
#ifndef WEFT_BACKING_PRIVATE_H
#define WEFT_BACKING_PRIVATE_H

#include <pthread.h>
#include <sys/types.h>

#include "backing/backing.h"

struct weft_backed {
	char path[PATH_MAX]; /* absolute */
	dev_t dev;
	ino_t ino;
	uint64_t bytes;
	uint8_t *base; /* of the mapping, which holds the description of `life`; NULL: none yet */
	int life;      /* until it has proved that we live; then only the mapping holds that */
	pthread_mutex_t fd_mutex; /* guards the next; taken last */
	int fd;			  /* for reserving and mapping; it holds no lock */
	bool unlinked;		  /* and the user has been told */
};

/* descriptor.c: the descriptor of the file, opened again if the program closed it. fd or -errno. */
int weft_descriptor(struct weft_backed *b);
/* Is fd the file still, or has the program closed that number and used it anew? */
bool weft_descriptor_is_ours(const struct weft_backed *b, int fd);
/* A description of its own. By its path, else through the descriptor that is still open. */
int weft_descriptor_another(struct weft_backed *b);

/* file.c: whether the file is a pool of this version and layout. -EPROTO, -EPERM, or fstat(2)'s. */
int weft_file_check(int fd, bool own, uint64_t signature, uint64_t *bytes, const char **why);
uint64_t weft_file_new_bytes(void);

/*
 * lock.c: the file lock over leases (byte 0), and a member's proof of life (its own byte). A
 * critical section has a descriptor of its own from enter to leave: two of one process exclude each
 * other, too.
 */
/* -EAGAIN if it may not wait; -ETIMEDOUT: as `enter` says. */
int weft_lock_file(int fd, bool wait);
int weft_lock_file_shared(int fd); /* does not wait; also where fd is open for reading only */
void weft_lock_release(int fd);	   /* all that fd holds */
bool weft_lock_any_held(int fd);   /* a member's, or the file's */
int weft_lock_enter(struct weft_backed *b);
int weft_lock_enter_too(struct weft_backed *b, int fd, bool wait);
void weft_lock_leave(struct weft_backed *b, int fd);
int weft_lock_prove(struct weft_backed *b, uint16_t member);
int weft_lock_claim(struct weft_backed *b, uint16_t member);
bool weft_lock_lives(struct weft_backed *b, uint16_t member);

/* map.c */
int weft_map(struct weft_backed *b, uint8_t **base);
void weft_map_end(struct weft_backed *b);
int weft_map_touch(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
void weft_map_populate(struct weft_backed *b, uint64_t off, uint64_t len_bytes);

/* reserve.c: pages of the file that may be touched without SIGBUS or the cgroup's SIGKILL. */
int weft_reserve_file(int fd, uint64_t off, uint64_t len_bytes);
int weft_reserve(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
int weft_reserve_end(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
uint64_t weft_reserve_head_room(void);

/* wait.c */
int weft_wait_join(void); /* before this process is a member: the barriers of others reach it. */
void weft_wait_sleep(struct weft_backed *b, _Atomic uint32_t *word, uint32_t value,
		     int64_t timeout_ns);
void weft_wait_wake(struct weft_backed *b, _Atomic uint32_t *word);
void weft_wait_barrier(struct weft_backed *b);

/* look.c */
int weft_look(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
	      uint64_t *bytes, bool *locked, const char **why);
void weft_look_unlock(struct weft_backed *b);
bool weft_look_read(const struct weft_backed *b, void *to, uint64_t bytes, uint64_t off);
uint64_t weft_look_allocated(const struct weft_backed *b);
void weft_look_lock_owner(const struct weft_backed *b, char *text, size_t text_bytes);

/* remove.c */
int weft_remove(const char *path, bool own, const char **why);

#endif
