/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The one attachment of the process to a pool, and its descriptor of the file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/internal.h"

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static struct weft_attachment *attached; /* under opening */

/* A second description without locks is what stays. */
static int open_file(struct weft_attachment *a, bool own, const char **why)
{
	int fd = weft_file_open(a->path, own, &a->pool.bytes, why), err = 0;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		err = -errno;
	a->dev = st.st_dev;
	a->ino = st.st_ino;
	if (!err) {
		*why = "the pool file cannot be opened";
		a->fd = open(a->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (!weft_open_is_ours(a, a->fd))
			err = a->fd < 0 ? -errno : -ESTALE;
	}
	weft_lock_release(fd);
	close(fd);
	return err;
}

static void *private_array(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

struct reserved {
	void **at;
	size_t bytes;
};

static void list_reserved(struct weft_attachment *a, struct reserved list[7])
{
	list[0] = (struct reserved){ (void **)&a->pool.chunk_seen, a->pool.bytes >> WEFT_CHUNK_BITS };
	list[1] = (struct reserved){ (void **)&a->pool.qp_block_seen, WEFT_BLOCKS };
	list[2] = (struct reserved){ (void **)&a->pool.mr_block_seen, WEFT_BLOCKS };
	list[3] = (struct reserved){ (void **)&a->pool.mr_seen, WEFT_MRS * sizeof(*a->pool.mr_seen) };
	list[4] = (struct reserved){ (void **)&a->qp_used, WEFT_QPS / 8 };
	list[5] = (struct reserved){ (void **)&a->mr_used, WEFT_MRS / 8 };
	list[6] = (struct reserved){ NULL, 0 };
}

static void unmap(struct weft_attachment *a)
{
	struct reserved list[7];

	list_reserved(a, list);
	for (struct reserved *r = list; r->at; r++)
		if (*r->at)
			munmap(*r->at, r->bytes);
	if (a->pool.base)
		munmap(a->pool.base, a->pool.bytes);
}

static int map(struct weft_attachment *a, int life)
{
	struct weft_pool *pool = &a->pool;
	struct reserved list[7];
	int err;

	list_reserved(a, list);
	for (struct reserved *r = list; r->at; r++) {
		*r->at = private_array(r->bytes);
		if (!*r->at)
			return -ENOMEM;
	}
	err = weft_window_make(pool, life);
	if (err)
		return err;
	pool->segments = (uint32_t)(pool->bytes / WEFT_SEGMENT);
	pool->leases = (void *)(pool->base + WEFT_OFF_LEASES);
	pool->members = (void *)(pool->base + WEFT_OFF_MEMBERS);
	pool->qps = (void *)(pool->base + WEFT_OFF_QPS);
	pool->mrs = (void *)(pool->base + WEFT_OFF_MRS);
	pool->mr_seen[0].id = UINT32_MAX; /* no key: the entry of key 0 may not be mapped */
	return weft_pool_window(pool, 0, WEFT_OFF_LEASES + sizeof(struct weft_pool_leases)) ? 0 :
											      -ENOMEM;
}

static void init_mutexes(struct weft_attachment *a)
{
	pthread_mutexattr_t attr;

	/* the allocators call each other and the window */
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&a->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_mutex_init(&a->shared_line, NULL);
	pthread_mutex_init(&a->visit_mutex, NULL);
	pthread_mutex_init(&a->fd_mutex, NULL);
	pthread_mutex_init(&a->quarantine_mutex, NULL);
}

/* -ESTALE: the file lost its name before we were in it. */
static int join(struct weft_attachment *a, int life, const char **why)
{
	struct stat st;
	int fd, err;

	*why = "no address space for the pool";
	err = map(a, life);
	if (err)
		return err;
	weft_pool_recover(&a->pool);
	*why = "the pool file cannot be opened";
	fd = weft_lock_enter(a);
	if (fd == -ETIMEDOUT)
		*why = WEFT_LOCK_STUCK;
	if (fd < 0)
		return fd;
	*why = "the pool takes no further member";
	err = fstat(fd, &st) || !st.st_nlink ? -ESTALE : weft_member_join(a, life);
	weft_lock_leave(a, fd);
	return err;
}

static void let_go(struct weft_attachment *a)
{
	unmap(a);
	if (weft_open_is_ours(a, a->fd))
		close(a->fd);
	for (uint32_t i = 0; i < WEFT_SEGMENTS; i++)
		free(a->books[i]);
	for (uint32_t i = 0; i < WEFT_HEAP_CLASSES; i++)
		free(a->heap[i].free);
	weft_quarantine_end(&a->quarantine);
	free(a);
}

static int attach(const char *path, bool own, struct weft_attachment **out, const char **why)
{
	struct weft_attachment *a = calloc(1, sizeof(*a));
	int life, err;

	*why = "out of memory";
	if (!a)
		return -ENOMEM;
	strcpy(a->path, path);
	a->fd = -1;
	a->pool.me = UINT16_MAX; /* nobody yet */
	init_mutexes(a);
	err = open_file(a, own, why);
	if (err)
		goto let_go;
	life = weft_lock_open(a);
	*why = "the pool file cannot be opened";
	err = life < 0 ? life : join(a, life, why);
	/* from now on only the window's mapping holds it */
	if (life >= 0)
		close(life);
	if (err)
		goto let_go;
	a->references = 1;
	*out = a;
	return 0;
let_go:
	let_go(a);
	return err;
}

int weft_pool_get(const char *path, struct weft_pool **pool, char *where, const char **why)
{
	bool own;
	int err = weft_file_choose(path, where, &own);

	*why = "the pool's path is too long";
	if (err)
		return err;
	pthread_mutex_lock(&opening);
	if (!attached) {
		err = attach(where, own, &attached, why);
	} else if (!strcmp(attached->path, where)) {
		attached->references++;
	} else {
		*why = "the process has another pool open";
		err = -EBUSY;
	}
	if (!err)
		*pool = &attached->pool;
	pthread_mutex_unlock(&opening);
	return err;
}

void weft_pool_put(struct weft_pool *pool)
{
	struct weft_attachment *a = weft_attachment(pool);

	pthread_mutex_lock(&opening);
	if (--a->references == 0) {
		attached = NULL;
		weft_wake_end();
		weft_life_leave(a);
		let_go(a);
	}
	pthread_mutex_unlock(&opening);
}

int weft_pool_identity(uint64_t identity[2])
{
	struct stat st = { 0 };
	char where[PATH_MAX];
	int err = 0;
	bool own;

	pthread_mutex_lock(&opening);
	if (attached) {
		st.st_dev = attached->dev;
		st.st_ino = attached->ino;
	} else {
		err = weft_file_choose(NULL, where, &own);
		if (!err && stat(where, &st))
			err = -errno;
	}
	pthread_mutex_unlock(&opening);
	identity[0] = st.st_dev;
	identity[1] = st.st_ino;
	return err;
}

bool weft_open_is_ours(const struct weft_attachment *a, int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && st.st_dev == a->dev && st.st_ino == a->ino;
}

/* Its members go on; yet nobody can join them, and who is told so must not search long for why. */
static void tell_unlinked(struct weft_attachment *a)
{
	if (!a->unlinked)
		fprintf(stderr,
			"weft: %s was removed while in use: programs that start now will not meet "
			"those that run (systemd's RemoveIPC= does this at logout)\n",
			a->path);
	a->unlinked = true;
}

static bool is_good(struct weft_attachment *a)
{
	struct stat st;

	if (a->fd < 0 || fstat(a->fd, &st) || st.st_dev != a->dev || st.st_ino != a->ino)
		return false;
	if (!st.st_nlink)
		tell_unlinked(a);
	return true;
}

static int open_anew(struct weft_attachment *a)
{
	a->fd = open(a->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (a->fd < 0)
		return -errno;
	if (is_good(a))
		return a->fd;
	close(a->fd);
	a->fd = -1;
	return -ESTALE;
}

/* Programs close descriptors that they did not open, and the number is then somebody else's. */
int weft_open_fd(struct weft_attachment *a)
{
	int fd;

	pthread_mutex_lock(&a->fd_mutex);
	fd = is_good(a) ? a->fd : open_anew(a);
	pthread_mutex_unlock(&a->fd_mutex);
	return fd;
}

/* Async-signal-safe. The window was not inherited; the private arrays are left where they are, and kept in sight of
 * who looks for leaks when the child ends. */
void weft_pool_forget(void)
{
	static struct weft_attachment *inherited;

	if (attached && weft_open_is_ours(attached, attached->fd))
		close(attached->fd);
	if (attached) {
		attached->parents = inherited;
		inherited = attached;
	}
	attached = NULL;
	weft_wake_forget();
	pthread_mutex_init(&opening, NULL);
}
