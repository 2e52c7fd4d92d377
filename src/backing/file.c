/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The pool as a file: which one, whose, is it one of ours; making it, and opening it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backing/private.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/step.h"
#include "pool/sizes.h"

#define SMALLEST (4ull << 30)

static int choose(const char *path, char chosen[PATH_MAX], bool *own)
{
	char here[PATH_MAX];
	int len;

	if (!path)
		path = getenv("WEFT_POOL");
	*own = !path || !*path;
	if (*own)
		len = snprintf(chosen, PATH_MAX, "/dev/shm/weft-%u", (unsigned int)geteuid());
	else if (*path == '/' || !getcwd(here, sizeof(here)))
		len = snprintf(chosen, PATH_MAX, "%s", path);
	else /* absolute: it is opened again when the program may be in another folder */
		len = snprintf(chosen, PATH_MAX, "%s/%s", here, path);
	return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Good until the thread's next call. */
__attribute__((format(printf, 1, 0))) static const char *sizes(const char *format, uint64_t is,
							       uint64_t should)
{
	static _Thread_local char text[192];

	snprintf(text, sizeof(text), format, (uintmax_t)is, (uintmax_t)should);
	return text;
}

static int check_kind(const struct stat *st, bool own, const char **why)
{
	if (!S_ISREG(st->st_mode)) { /* NOLINT(clang-analyzer-core.UndefinedBinaryOperatorResult) */
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
uint64_t weft_file_new_bytes(void)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t bytes = SMALLEST;

	while (bytes < memory && bytes < WEFT_SEGMENTS * WEFT_SEGMENT)
		bytes <<= 1;
	return bytes;
}

/* The kernel ends a process that makes a file larger than it may. */
static int check_limit(const char **why)
{
	uint64_t bytes = weft_file_new_bytes();
	struct rlimit most;

	if (getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur >= bytes)
		return 0;
	*why = sizes(
		"the limit on the size of a file (ulimit -f) is %ju bytes, and a new pool has %ju, "
		"nearly all of them a hole",
		most.rlim_cur, bytes);
	return -EFBIG;
}

/* The file is ours from the first word on, and is a pool with the last: a member that dies in between leaves
 * what the next one makes again. */
static int make_pool(int fd, uint64_t signature, const char **why)
{
	struct weft_pool_header header = {.magic = WEFT_POOL_MAKING,
					  .version = WEFT_POOL_VERSION,
					  .hosts = 1,
					  .signature = signature,
					  .file_bytes = weft_file_new_bytes()};
	uint64_t magic = WEFT_POOL_MAGIC;
	int err = check_limit(why);

	if (err)
		return err;
	*why = "no room for the pool's tables";
	if (pwrite(fd, &header.magic, sizeof(header.magic), 0) != sizeof(header.magic))
		return -ENOSPC;
	WEFT_STEP(file_begun);
	err = weft_reserve_file(fd, 0, WEFT_OFF_LEASES + sizeof(struct weft_pool_leases));
	if (!err)
		err = weft_reserve_file(fd, WEFT_OFF_HOME, sizeof(struct weft_pool_home));
	if (err)
		return err;
	WEFT_STEP(file_reserved);
	if (ftruncate(fd, (off_t)header.file_bytes) ||
	    pwrite(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    pwrite(fd, &magic, sizeof(magic), 0) != sizeof(magic)) {
		*why = "the file system takes no sparse file of the pool's size";
		return -errno;
	}
	return 0;
}

static bool is_unmade(int fd, const struct stat *st)
{
	uint64_t magic;

	return !st->st_size ||
	       (pread(fd, &magic, sizeof(magic), 0) == sizeof(magic) && magic == WEFT_POOL_MAKING);
}

bool weft_file_is_pool(const struct weft_pool_header *header)
{
	return header->magic == WEFT_POOL_MAGIC || header->magic == WEFT_POOL_MAKING;
}

int weft_file_check_header(const struct weft_pool_header *header, uint64_t signature,
			   const char **why)
{
	*why = "the file is not a pool";
	if (header->magic != WEFT_POOL_MAGIC)
		return -EPROTO;
	*why = "the pool was made by another version of Weft";
	return header->version != WEFT_POOL_VERSION || header->signature != signature ? -EPROTO : 0;
}

int weft_file_check(int fd, bool own, uint64_t signature, uint64_t *bytes, const char **why)
{
	struct weft_pool_header header;
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return -errno;
	err = check_kind(&st, own, why);
	if (err)
		return err;
	if (pread(fd, &header, sizeof(header), 0) != sizeof(header))
		header.magic = 0;
	err = weft_file_check_header(&header, signature, why);
	if (err)
		return err;
	if (header.hosts != 1) {
		*why = WEFT_BACKING_HAS_HOSTS;
		return -EPROTO;
	}
	if ((uint64_t)st.st_size != header.file_bytes || header.file_bytes < SMALLEST ||
	    header.file_bytes > WEFT_SEGMENTS * WEFT_SEGMENT) {
		*why = sizes("the file has %ju bytes, while the pool's header says %ju",
			     (uint64_t)st.st_size, header.file_bytes);
		return -EPROTO;
	}
	*bytes = header.file_bytes;
	return 0;
}

/* The user's alone from its creation on, whatever the umask takes away from the mode; a file that was
 * there keeps its own. */
static int open_or_create(const char *path, const char **why)
{
	const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd, err;

	*why = "the pool file cannot be opened";
	do {
		fd = open(path, flags);
		if (fd >= 0 || errno != ENOENT)
			return fd < 0 ? -errno : fd;
		err = check_limit(why);
		if (err)
			return err;
		fd = open(path, flags | O_CREAT | O_EXCL, 0600);
	} while (fd < 0 && errno == EEXIST);
	if (fd < 0)
		return -errno;
	fchmod(fd, 0600);
	return fd;
}

/* Again if it lost its name in between, else two pools live side by side. */
int weft_file_lock_named(const char *path, int (*open_it)(const char *path, const char **why),
			 struct stat *st, const char **why)
{
	struct stat now;
	int fd, err;

	for (;;) {
		fd = open_it(path, why);
		if (fd < 0)
			return fd;
		*why = "the pool file cannot be locked";
		err = weft_lock_file(fd, true);
		if (err == -ETIMEDOUT)
			*why = WEFT_BACKING_STUCK;
		if (!err && fstat(fd, st))
			err = -errno;
		if (!err && !stat(path, &now) && now.st_ino == st->st_ino &&
		    now.st_dev == st->st_dev)
			return fd;
		close(fd);
		if (err)
			return err;
	}
}

/* With the file lock held. */
static int open_locked(const char *path, bool own, uint64_t signature, uint64_t *bytes,
		       const char **why)
{
	struct stat st;
	int fd = weft_file_lock_named(path, open_or_create, &st, why), err;

	if (fd < 0)
		return fd;
	err = check_kind(&st, own, why);
	if (!err && is_unmade(fd, &st))
		err = make_pool(fd, signature, why);
	if (!err)
		err = weft_file_check(fd, own, signature, bytes, why);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* A second description without locks is what stays. */
static int open_file(struct weft_backed *b, bool own, uint64_t signature, const char **why)
{
	int fd = open_locked(b->far.path, own, signature, &b->bytes, why), err;

	if (fd < 0)
		return fd;
	*why = "the pool file cannot be opened";
	err = weft_named_open(&b->far, fd);
	weft_lock_release(fd);
	close(fd);
	return err;
}

void weft_file_close(struct weft_backed *b)
{
	if (b->life >= 0)
		close(b->life);
	weft_named_close(&b->far);
	if (b->home != &b->far)
		weft_named_close(b->home);
	free(b);
}

struct weft_backed *weft_file_begin(const char *path, const char **why)
{
	struct weft_backed *b = calloc(1, sizeof(*b));

	*why = "out of memory";
	if (!b)
		return NULL;
	weft_named_init(&b->far, path);
	b->home = &b->far;
	b->life = -1;
	return b;
}

int weft_file_end_open(struct weft_backed *b, int err, struct weft_backed **backed, uint64_t *bytes,
		       const char **why)
{
	if (!err) {
		*why = "the pool file cannot be opened";
		err = b->life = weft_descriptor_another(b->home);
	}
	if (err < 0) {
		weft_file_close(b);
		return err;
	}
	*bytes = b->bytes;
	*backed = b;
	return 0;
}

static int open_backed(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
		       uint64_t *bytes, const char **why)
{
	struct weft_backed *b = weft_file_begin(path, why);

	if (!b)
		return -ENOMEM;
	return weft_file_end_open(b, open_file(b, own, signature, why), backed, bytes, why);
}

/* Its mapping was not inherited. */
void weft_file_forget(struct weft_backed *b)
{
	weft_named_close(&b->far);
	if (b->home != &b->far)
		weft_named_close(b->home);
}

/* What its members share: in a pool of several hosts what can be handed from one to another, by descriptors. */
void weft_file_identity(const struct weft_backed *b, uint64_t identity[2])
{
	identity[0] = b->home->dev;
	identity[1] = b->home->ino;
}

static int identify(const char *path, uint64_t identity[2])
{
	struct stat st;

	if (stat(path, &st))
		return -errno;
	identity[0] = st.st_dev;
	identity[1] = st.st_ino;
	return 0;
}

const struct weft_backing weft_backing_file = {
	.name = "file",
	.can = WEFT_BACKING_NEEDED,
	WEFT_BACKING_LOCKED_FILE,
	WEFT_BACKING_MAPPED_FILE,
	.choose = choose,
	.open = open_backed,
	.identify = identify,
	.remove = weft_remove,
	.look = weft_look,
	.unlock = weft_look_unlock,
	.read = weft_look_read,
	.read_home = weft_look_read_home,
	.proven = weft_look_proven,
	.allocated = weft_look_allocated,
	.lock_owner = weft_look_lock_owner,
};
