/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Opening a pool: which file, whose, is it one of ours; and the one attachment of the process. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/internal.h"

#define SMALLEST (4ull << 30)

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static struct weft_attachment *attached; /* under opening */

/* Two builds that lay any shared struct out differently must not meet in one pool. */
static uint64_t signature(void)
{
	static const uint64_t layout[] = {
		sizeof(struct weft_pool_header),
		sizeof(struct weft_pool_leases),
		sizeof(struct weft_pool_line),
		sizeof(struct weft_pool_ask),
		offsetof(struct weft_pool_ask, answered),
		sizeof(struct weft_pool_member),
		offsetof(struct weft_pool_member, gid),
		offsetof(struct weft_pool_member, rung),
		offsetof(struct weft_pool_member, asleep),
		offsetof(struct weft_pool_member, box_off),
		offsetof(struct weft_pool_member, line),
		offsetof(struct weft_pool_member, ask),
		offsetof(struct weft_pool_member, taken),
		sizeof(struct weft_pool_box),
		offsetof(struct weft_pool_slip, bytes),
		sizeof(struct weft_pool_port),
		sizeof(struct weft_pool_qp),
		offsetof(struct weft_pool_qp, rq_posted),
		offsetof(struct weft_pool_qp, rq_taken),
		offsetof(struct weft_pool_qp, fault_qpn),
		sizeof(struct weft_pool_recv),
		sizeof(struct weft_pool_cqe),
		offsetof(struct weft_pool_cqe, lap),
		offsetof(struct weft_pool_ring, produced),
		offsetof(struct weft_pool_ring, cqe),
		sizeof(struct weft_pool_mr),
		offsetof(struct weft_pool_mr, off),
		WEFT_KEY_BITS,
		sizeof(struct weft_pool_piece),
		WEFT_SEGMENT,
		WEFT_SEGMENTS,
		WEFT_MEMBERS,
		WEFT_QP_BLOCK,
		WEFT_MR_BLOCK,
		WEFT_OFF_MEMBERS,
		WEFT_OFF_QPS,
		WEFT_OFF_MRS,
	};
	uint64_t hash = 14695981039346656037ull; /* FNV-1a */

	for (size_t i = 0; i < sizeof(layout) / sizeof(*layout); i++)
		hash = (hash ^ layout[i]) * 1099511628211ull;
	return hash;
}

int weft_open_choose(const char *path, char chosen[PATH_MAX], bool *own)
{
	int len;

	if (!path)
		path = getenv("WEFT_POOL");
	*own = !path || !*path;
	if (*own)
		len = snprintf(chosen, PATH_MAX, "/dev/shm/weft-%u", (unsigned int)geteuid());
	else
		len = snprintf(chosen, PATH_MAX, "%s", path);
	return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int check_file(const struct stat *st, bool own, const char **why)
{
	if (!S_ISREG(st->st_mode)) {
		*why = "the pool is not a regular file";
		return -EPROTO;
	}
	if (own && (st->st_uid != geteuid() || st->st_mode & 077)) {
		*why = "the user's own pool belongs to somebody else or is open to others";
		return -EPERM;
	}
	return 0;
}

/* As large as the machine's memory, rounded up: offsets cost nothing until they are used. */
uint64_t weft_pool_new_bytes(void)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t bytes = SMALLEST;

	while (bytes < memory && bytes < WEFT_SEGMENTS * WEFT_SEGMENT)
		bytes <<= 1;
	return bytes;
}

static int make(int fd, const char **why)
{
	struct weft_pool_header header = { .version = WEFT_POOL_VERSION,
					   .signature = signature(),
					   .file_bytes = weft_pool_new_bytes() };
	uint64_t magic = WEFT_POOL_MAGIC;
	int err;

	*why = "no room for the pool's tables";
	err = weft_reserve(fd, 0, WEFT_OFF_LEASES + sizeof(struct weft_pool_leases));
	if (err)
		return err;
	if (ftruncate(fd, (off_t)header.file_bytes) ||
	    pwrite(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    pwrite(fd, &magic, sizeof(magic), 0) != sizeof(magic)) {
		*why = "the file system takes no sparse file of the pool's size";
		return -errno;
	}
	return 0;
}

int weft_open_check(int fd, bool own, uint64_t *bytes, const char **why)
{
	struct weft_pool_header header;
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return -errno;
	err = check_file(&st, own, why);
	if (err)
		return err;
	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    header.magic != WEFT_POOL_MAGIC) {
		*why = "the file is not a pool";
		return -EPROTO;
	}
	if (header.version != WEFT_POOL_VERSION || header.signature != signature()) {
		*why = "the pool was made by another version of Weft";
		return -EPROTO;
	}
	if ((uint64_t)st.st_size != header.file_bytes || header.file_bytes < SMALLEST ||
	    header.file_bytes > WEFT_SEGMENTS * WEFT_SEGMENT) {
		*why = "the pool file is truncated";
		return -EPROTO;
	}
	*bytes = header.file_bytes;
	return 0;
}

/* Opens and locks the file; again if it was unlinked in between, else two pools live side by side. */
static int open_locked(struct weft_attachment *a, bool own, const char **why)
{
	struct stat st, now;
	int err;

	for (;;) {
		a->fd = open(a->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (a->fd < 0) {
			*why = "the pool file cannot be opened";
			return -errno;
		}
		*why = "the pool file cannot be locked";
		err = weft_lock_file(a->fd);
		if (err)
			break;
		if (fstat(a->fd, &st)) {
			err = -errno;
			break;
		}
		if (!stat(a->path, &now) && now.st_ino == st.st_ino && now.st_dev == st.st_dev) {
			err = check_file(&st, own, why);
			if (!err && !st.st_size)
				err = make(a->fd, why);
			if (!err)
				err = weft_open_check(a->fd, own, &a->pool.bytes, why);
			a->dev = st.st_dev;
			a->ino = st.st_ino;
			break;
		}
		close(a->fd);
	}
	if (err)
		close(a->fd);
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
	list[3] = (struct reserved){ (void **)&a->pool.mr_ready, WEFT_MRS * sizeof(uint32_t) };
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

static int map(struct weft_attachment *a)
{
	struct weft_pool *pool = &a->pool;
	struct reserved list[7];
	void *base;

	list_reserved(a, list);
	for (struct reserved *r = list; r->at; r++) {
		*r->at = private_array(r->bytes);
		if (!*r->at)
			return -ENOMEM;
	}
	base = mmap(NULL, pool->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return -ENOMEM;
	madvise(base, pool->bytes, MADV_DONTFORK);
	madvise(base, pool->bytes, MADV_DONTDUMP);
	pool->base = base;
	pool->segments = (uint32_t)(pool->bytes / WEFT_SEGMENT);
	pool->leases = (void *)(pool->base + WEFT_OFF_LEASES);
	pool->members = (void *)(pool->base + WEFT_OFF_MEMBERS);
	pool->qps = (void *)(pool->base + WEFT_OFF_QPS);
	pool->mrs = (void *)(pool->base + WEFT_OFF_MRS);
	pool->mr_ready[0] = UINT32_MAX; /* no key: the entry of key 0 may not be mapped */
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
}

static int attach(const char *path, bool own, struct weft_attachment **out, const char **why)
{
	struct weft_attachment *a = calloc(1, sizeof(*a));
	int err;

	*why = "out of memory";
	if (!a)
		return -ENOMEM;
	strcpy(a->path, path);
	a->pool.me = UINT16_MAX; /* nobody yet */
	init_mutexes(a);
	err = open_locked(a, own, why);
	if (err)
		goto free_attachment;
	*why = "no address space for the pool";
	err = map(a);
	if (err)
		goto unmap_window;
	weft_pool_recover(&a->pool);
	weft_lock_file(a->fd);
	*why = "the pool takes no further member";
	err = weft_member_join(a);
	weft_lock_file_release(a->fd);
	if (err)
		goto unmap_window;
	a->references = 1;
	*out = a;
	return 0;
unmap_window:
	unmap(a);
	close(a->fd);
free_attachment:
	free(a);
	return err;
}

int weft_pool_get(const char *path, struct weft_pool **pool, char *where, const char **why)
{
	bool own;
	int err = weft_open_choose(path, where, &own);

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

static void detach(struct weft_attachment *a)
{
	int fd;

	pthread_mutex_lock(&a->mutex);
	fd = weft_open_fd(a);
	if (fd >= 0 && !weft_lock_file(fd)) {
		weft_member_leave(a, a->pool.me);
		weft_lock_file_release(fd);
	}
	pthread_mutex_unlock(&a->mutex);
	unmap(a);
	if (fd >= 0)
		close(fd);
	for (uint32_t i = 0; i < WEFT_SEGMENTS; i++)
		free(a->books[i]);
	free(a);
}

void weft_pool_put(struct weft_pool *pool)
{
	struct weft_attachment *a = weft_attachment(pool);

	pthread_mutex_lock(&opening);
	if (--a->references == 0) {
		attached = NULL;
		detach(a);
	}
	pthread_mutex_unlock(&opening);
}

const char *weft_pool_path(const struct weft_pool *pool)
{
	return ((const struct weft_attachment *)pool)->path;
}

static bool is_ours(const struct weft_attachment *a, int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && st.st_dev == a->dev && st.st_ino == a->ino;
}

/* Programs close descriptors that they did not open, and the number is then somebody else's. The
 * proof of life does not suffer: the window's mappings hold the description. */
int weft_open_fd(struct weft_attachment *a)
{
	if (is_ours(a, a->fd))
		return a->fd;
	a->fd = open(a->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (is_ours(a, a->fd))
		return a->fd;
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
	return -ESTALE;
}

/* Async-signal-safe. The window was not inherited; the private arrays are left where they are. */
void weft_pool_forget(void)
{
	if (attached)
		close(attached->fd);
	attached = NULL;
	pthread_mutex_init(&opening, NULL);
}
