/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of the rows share: a pool that is a sparse file, open, and the home of a host. */
#ifndef WEFT_BACKING_PRIVATE_H
#define WEFT_BACKING_PRIVATE_H

#include <pthread.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "backing/backing.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; elsewhere the first access pays */
#endif

/* A file, open. */
struct weft_named {
	char path[PATH_MAX]; /* absolute */
	dev_t dev;
	ino_t ino;
	pthread_mutex_t fd_mutex; /* guards the next; taken last */
	int fd;			  /* for reserving and mapping; it holds no lock */
	bool unlinked;		  /* and the user has been told */
};

/* A run of the pool's offsets, and where it is in the memory. */
struct weft_part {
	uint64_t off, bytes, at;
};

#define WEFT_PARTS 6u
#define WEFT_PART_BYTES                                                                            \
	((uint64_t)2 << 20) /* a part is so many times some: a device-dax maps no less */

/* What of a pool of several hosts is in its memory. */
struct weft_parts {
	uint32_t hosts, slice_bits, cut_bits; /* as the header has them */
	uint32_t count;			      /* 0: all, as it is */
	uint64_t end;			      /* of the pool's offsets */
	struct weft_part part[WEFT_PARTS];    /* segments last */
};

struct weft_backed {
	struct weft_named far;
	struct weft_parts parts;
	struct weft_named *home; /* has the locks; in a pool that is a file that file */
	struct weft_named apart; /* the home of a pool of several hosts */
	uint64_t bytes;		 /* its offsets are below this */
	uint8_t *base; /* of the mapping, which holds the description of `life`; NULL: none yet */
	int life; /* of the home, until it has proved that we live; then only the mapping holds that */
};

/* descriptor.c: nothing open yet. */
void weft_named_init(struct weft_named *n, const char *path);
/* What the program has not closed. */
void weft_named_close(struct weft_named *n);
/* The file that is open as fd; n has a descriptor of its own then. -errno. */
int weft_named_open(struct weft_named *n, int fd);
/* The descriptor of the file, opened again if the program closed it. fd or -errno. */
int weft_descriptor(struct weft_named *n);
/* Is fd the file still, or has the program closed that number and used it anew? */
bool weft_descriptor_is_ours(const struct weft_named *n, int fd);
/* A description of its own. By its path, else through the descriptor that is still open. */
int weft_descriptor_another(struct weft_named *n);

struct weft_pool_header;

/* file.c: whether it is the header of a pool of any version, or of one that is being made. */
bool weft_file_is_pool(const struct weft_pool_header *header);
/* Whether it is that of a pool of this version and layout. -EPROTO */
int weft_file_check_header(const struct weft_pool_header *header, uint64_t signature,
			   const char **why);
/* Whether the file is a pool of one host. The same, -EPERM, or fstat(2)'s. */
int weft_file_check(int fd, bool own, uint64_t signature, uint64_t *bytes, const char **why);
uint64_t weft_file_new_bytes(void);
/* The file that has the path's name now, as `open_it` opens it, locked. fd and *st; or -errno. */
int weft_file_lock_named(const char *path, int (*open_it)(const char *path, const char **why),
			 struct stat *st, const char **why);
/* One of that path, of which nothing is open; its home is the file itself. NULL: there is no memory. */
struct weft_backed *weft_file_begin(const char *path, const char **why);
/* Ends an opening that has come so far with `err`: opens the description for the proof of life, or closes all. */
int weft_file_end_open(struct weft_backed *b, int err, struct weft_backed **backed, uint64_t *bytes,
		       const char **why);
void weft_file_close(struct weft_backed *b);
void weft_file_forget(struct weft_backed *b);
void weft_file_identity(const struct weft_backed *b, uint64_t identity[2]);

/* hosts.c: a memory of several hosts, which that file is. As `open` and `identify` say (backing.h). */
int weft_hosts_open(const char *file, uint64_t signature, struct weft_backed **backed,
		    uint64_t *bytes, const char **why);
int weft_hosts_identify(const char *file, uint64_t identity[2]);
/* Whether that file is such a memory; its header, and where it has what. -EPROTO, or fstat(2)'s. */
int weft_hosts_check(int fd, uint64_t signature, struct weft_pool_header *header,
		     struct weft_parts *parts, const char **why);
/* A mapping that is looked at for a moment. */
struct weft_pages weft_hosts_pages(int fd, uint64_t off, uint64_t len_bytes, int rights);
void weft_hosts_pages_end(const struct weft_pages *p);
/* As `expose` says. */
int weft_hosts_expose(const char *file, uint64_t bytes, struct weft_pages *pages, const char **why);
/* How large that memory is, and what mappings of it are multiples of. -EPROTO: it is neither a file nor a device-dax. */
int weft_hosts_extent(int fd, uint64_t *bytes, uint64_t *align);
/* Before another pool is made there, or none: homes of the one that was there go, as far as they are here. Looks for the
 * pool's silence, where a host of it may be of another kernel. -EBUSY: a host of it lives. */
int weft_hosts_take(int fd, const char **why);
/* Where it will have what. -EINVAL: no pool can be made so. */
int weft_hosts_check_plan(const struct weft_backing_plan *plan, uint64_t bytes,
			  struct weft_parts *parts, const char **why);
/* Makes it one: its tables are zero. */
int weft_hosts_lay_out(int fd, const struct weft_backing_plan *plan, uint64_t bytes,
		       const struct weft_parts *parts, uint64_t signature);
/* It is none any more, and the homes that are here go. As `remove` says, but that the file stays. */
int weft_hosts_end(const char *file, const char **why);

/*
 * home.c: opens the home of this process's host, which is made if need be, by the header of the pool: number and
 * path. -EINVAL ($WEFT_HOST), -ENOENT (which host is not said), -EPROTO, or as open(2)'s.
 */
int weft_home_open(struct weft_backed *b, const struct weft_pool_header *header, const char **why);
/* Where it is; nothing is opened. */
int weft_home_path(const struct weft_pool_header *header, char path[PATH_MAX], uint32_t *host,
		   const char **why);
void weft_home_path_of(const struct weft_pool_header *header, uint32_t host, char path[PATH_MAX]);

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
bool weft_lock_is_proven(int fd, uint16_t member);
int weft_lock_enter(struct weft_backed *b);
int weft_lock_enter_too(struct weft_backed *b, int fd, bool wait);
void weft_lock_leave(struct weft_backed *b, int fd);
int weft_lock_prove(struct weft_backed *b, uint16_t member);
int weft_lock_claim(struct weft_backed *b, uint16_t member);
bool weft_lock_lives(struct weft_backed *b, uint16_t member);

/* parts.c: the first three words for a memory of so many bytes; the rest from these. -EPROTO: they cannot be; -ENOSPC: there is
 * not a segment for each host, or there are too many. */
void weft_parts_plan(uint32_t hosts, uint64_t bytes, struct weft_parts *p);
int weft_parts_find(uint64_t bytes, struct weft_parts *p);
/* Where in the memory that range is; UINT64_MAX: it is not in one part. */
uint64_t weft_parts_at(const struct weft_parts *p, uint64_t off, uint64_t len_bytes);
/* As `map` says, and the home in its place. */
int weft_parts_map(struct weft_backed *b, int rights, uint8_t **base);
uint64_t weft_parts_shift(const struct weft_backed *b);

/* map.c */
int weft_map(struct weft_backed *b, uint8_t **base);
int weft_map_descriptor(struct weft_backed *b);
void weft_map_end(struct weft_backed *b);
int weft_map_touch(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
void weft_map_populate(struct weft_backed *b, uint64_t off, uint64_t len_bytes);

/* reserve.c: pages of the file that may be touched without SIGBUS or the cgroup's SIGKILL; of its offsets some are the
 * home's. */
int weft_reserve_file(int fd, uint64_t off, uint64_t len_bytes);
int weft_reserve(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
int weft_reserve_end(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
uint64_t weft_reserve_head_room(void);

/* fixed.c: the memory of a device, which that file is. */
int weft_fixed_make(int fd, const struct weft_backing_plan *plan, uint64_t signature,
		    const char **why);
int weft_fixed_map(struct weft_backed *b, uint8_t **base);
void weft_fixed_populate(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
int weft_fixed_reserve(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
int weft_fixed_release(struct weft_backed *b, uint64_t off, uint64_t len_bytes);
uint64_t weft_fixed_head_room(void);

#define WEFT_BACKING_FIXED                                                                         \
	.map = weft_fixed_map, .populate = weft_fixed_populate, .reserve = weft_fixed_reserve,     \
	.release = weft_fixed_release, .head_room = weft_fixed_head_room

/* wait.c */
int weft_wait_join(void); /* before this process is a member: the barriers of others reach it. */
void weft_wait_sleep(struct weft_backed *b, _Atomic uint32_t *word, uint32_t value,
		     int64_t timeout_ns);
void weft_wait_wake(struct weft_backed *b, _Atomic uint32_t *word);
void weft_wait_barrier(struct weft_backed *b);

/* What the rows have in common: locks, proofs of life and waiting by a file on this host. */
#define WEFT_BACKING_LOCKED_FILE                                                                   \
	.close = weft_file_close, .forget = weft_file_forget, .identity = weft_file_identity,      \
	.new_bytes = weft_file_new_bytes, .unmap = weft_map_end, .touch = weft_map_touch,          \
	.descriptor = weft_map_descriptor, .shift = weft_parts_shift, .prove = weft_lock_prove,    \
	.lives = weft_lock_lives, .claim = weft_lock_claim, .enter = weft_lock_enter,              \
	.enter_too = weft_lock_enter_too, .leave = weft_lock_leave, .sleep = weft_wait_sleep,      \
	.wake = weft_wait_wake, .barrier = weft_wait_barrier

/* What those have whose memory is a file, too. */
#define WEFT_BACKING_MAPPED_FILE                                                                   \
	.map = weft_map, .populate = weft_map_populate, .reserve = weft_reserve,                   \
	.release = weft_reserve_end, .head_room = weft_reserve_head_room

/* look.c */
int weft_look(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
	      uint64_t *bytes, bool *locked, const char **why);
void weft_look_unlock(struct weft_backed *b);
bool weft_look_read(const struct weft_backed *b, void *to, uint64_t bytes, uint64_t off);
bool weft_look_read_home(const struct weft_backed *b, uint32_t host, void *to, uint64_t bytes,
			 uint64_t off);
int weft_look_proven(struct weft_backed *b, uint32_t host, uint16_t member);
uint64_t weft_look_allocated(const struct weft_backed *b);
void weft_look_lock_owner(const struct weft_backed *b, char *text, size_t text_bytes);

/* look_hosts.c: the same of a memory of several hosts, by mappings of what is read, and of the homes that are here. */
int weft_look_hosts(const char *file, uint64_t signature, struct weft_backed **backed,
		    uint64_t *bytes, bool *locked, const char **why);
void weft_look_hosts_unlock(struct weft_backed *b);
bool weft_look_hosts_read(const struct weft_backed *b, void *to, uint64_t bytes, uint64_t off);
bool weft_look_hosts_read_home(const struct weft_backed *b, uint32_t host, void *to, uint64_t bytes,
			       uint64_t off);
int weft_look_hosts_proven(struct weft_backed *b, uint32_t host, uint16_t member);
uint64_t weft_look_hosts_allocated(const struct weft_backed *b);

/* What the rows of such a memory have in common, but for its name. */
#define WEFT_BACKING_LOOKED_AT_BY_MAPPING                                                          \
	.unlock = weft_look_hosts_unlock, .read = weft_look_hosts_read,                            \
	.read_home = weft_look_hosts_read_home, .proven = weft_look_hosts_proven,                  \
	.allocated = weft_look_hosts_allocated, .cover = weft_hosts_pages_end

/* remove.c */
int weft_remove(const char *path, bool own, const char **why);

#endif
