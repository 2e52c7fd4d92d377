/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A plain file as the memory of several hosts: shm:PATH. Each has a home of its own (home.c), so that a pool of
 * several kernels runs on one, and containers that share nothing but the file meet in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "backing/private.h"
#include "pool/format.h"
#include "pool/format_host.h"

#define PREFIX_CHARS 4u /* shm: */

static int choose_named(const char *path, char chosen[PATH_MAX], bool *own)
{
	char here[PATH_MAX];
	int len;

	path = path ?: getenv("WEFT_POOL");
	*own = false;
	if (path[PREFIX_CHARS] == '/' || !getcwd(here, sizeof(here)))
		len = snprintf(chosen, PATH_MAX, "%s", path);
	else
		len = snprintf(chosen, PATH_MAX, "shm:%s/%s", here, path + PREFIX_CHARS);
	return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int check_memory(int fd, uint64_t signature, struct weft_pool_header *header,
			const char **why)
{
	struct stat st;
	int err;

	*why = "the pool cannot be read";
	if (fstat(fd, &st))
		return -errno;
	*why = "the pool is not a regular file";
	if (!S_ISREG(st.st_mode))
		return -EPROTO;
	if (pread(fd, header, sizeof(*header), 0) != sizeof(*header))
		header->magic = 0;
	err = weft_file_check_header(header, signature, why);
	if (err)
		return err;
	*why = "the pool has one host: name it without shm:";
	if (header->hosts == 1 && !header->pool_id)
		return -EPROTO;
	*why = "the pool's header says of hosts or a size that cannot be";
	if (!header->hosts || header->hosts > WEFT_HOSTS || header->hosts & (header->hosts - 1) ||
	    header->file_bytes > (uint64_t)st.st_size ||
	    header->file_bytes > WEFT_SEGMENTS * WEFT_SEGMENT ||
	    header->file_bytes < (WEFT_FIRST_SEGMENT + header->hosts) * WEFT_SEGMENT)
		return -EPROTO;
	return 0;
}

static int open_memory(const char *path, const char **why)
{
	int fd = open(path + PREFIX_CHARS, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	*why = errno == ENOENT ? "there is no pool yet: weft pool create makes it"
			       : "the pool file cannot be opened";
	return fd < 0 ? -errno : fd;
}

static int open_hosts(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
		      uint64_t *bytes, const char **why)
{
	struct weft_backed *b = calloc(1, sizeof(*b));
	struct weft_pool_header header;
	int fd, err;

	*why = "out of memory";
	if (!b)
		return -ENOMEM;
	weft_named_init(&b->far, path + PREFIX_CHARS);
	b->home = &b->far;
	b->life = -1;
	fd = err = open_memory(path, why);
	if (fd < 0)
		goto close;
	err = check_memory(fd, signature, &header, why);
	if (!err)
		err = weft_named_open(&b->far, fd);
	close(fd);
	if (!err)
		err = weft_home_open(b, &header, why);
	if (err)
		goto close;
	err = b->life = weft_descriptor_another(b->home);
	if (err < 0)
		goto close;
	*bytes = b->bytes = header.file_bytes;
	*backed = b;
	return 0;
close:
	weft_file_close(b);
	return err;
}

static int find_identity(const char *path, uint64_t identity[2])
{
	struct weft_pool_header header;
	char home[PATH_MAX];
	struct stat st;
	const char *why;
	uint32_t host;
	int fd = open_memory(path, &why), err;

	if (fd < 0)
		return fd;
	err = pread(fd, &header, sizeof(header), 0) == sizeof(header)
		      ? weft_home_path(&header, home, &host, &why)
		      : -EPROTO;
	close(fd);
	if (err || stat(home, &st))
		return err ? err : -errno;
	identity[0] = st.st_dev;
	identity[1] = st.st_ino;
	return 0;
}

/* ---- Making and unmaking ---- */

/* Each host that lives beats at least ten times meanwhile. */
#define LOOK_US 500000u

static uint64_t beats(int fd, uint32_t hosts)
{
	uint64_t sum = 0, beat;

	for (uint32_t i = 0; i < hosts && i < WEFT_HOSTS; i++)
		if (pread(fd, &beat, sizeof(beat),
			  (off_t)(WEFT_OFF_HOSTS + i * sizeof(struct weft_pool_host) +
				  offsetof(struct weft_pool_host, beat))) == sizeof(beat))
			sum += beat;
	return sum;
}

/* Whether it is a pool in which a host beats; whatever its version, hosts stand where they do. */
static bool has_life(int fd)
{
	struct weft_pool_header header;
	uint64_t before;

	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    header.magic != WEFT_POOL_MAGIC)
		return false;
	before = beats(fd, header.hosts);
	usleep(LOOK_US);
	return beats(fd, header.hosts) != before;
}

static int lay_out(int fd, const struct weft_backing_plan *plan, uint64_t signature)
{
	struct weft_pool_header header = {.magic = WEFT_POOL_MAKING,
					  .version = WEFT_POOL_VERSION,
					  .hosts = plan->hosts,
					  .signature = signature,
					  .file_bytes = plan->bytes ?: weft_file_new_bytes(),
					  .silence_ms = plan->silence_ms};
	struct weft_pool_leases *leases = NULL;
	uint64_t magic = WEFT_POOL_MAGIC;
	uint32_t numbers;
	int err;

	if (getrandom(&header.pool_id, sizeof(header.pool_id), 0) != sizeof(header.pool_id) ||
	    getrandom(&numbers, sizeof(numbers), 0) != sizeof(numbers))
		return -EIO;
	numbers = WEFT_NUMBERS(numbers);
	if (ftruncate(fd, 0) || ftruncate(fd, (off_t)header.file_bytes))
		return -errno;
	err = weft_reserve_file(fd, 0, WEFT_OFF_LEASES + sizeof(*leases));
	if (!err)
		err = weft_reserve_file(fd, WEFT_OFF_HOSTS,
					plan->hosts * sizeof(struct weft_pool_host));
	if (err)
		return err;
	if (pwrite(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    pwrite(fd, &numbers, sizeof(numbers),
		   WEFT_OFF_LEASES + offsetof(struct weft_pool_leases, numbers)) !=
		    sizeof(numbers) ||
	    pwrite(fd, &magic, sizeof(magic), 0) != sizeof(magic))
		return -EIO;
	return 0;
}

static int create_hosts(const char *path, const struct weft_backing_plan *plan, uint64_t signature,
			const char **why)
{
	struct stat st;
	int fd, err;

	*why = "a pool has 1, 2, 4, 8, 16, 32 or 64 hosts";
	if (!plan->hosts || plan->hosts > WEFT_HOSTS || plan->hosts & (plan->hosts - 1))
		return -EINVAL;
	*why = "so small a pool has no segment for each of its hosts";
	if (plan->bytes && (plan->bytes < (WEFT_FIRST_SEGMENT + plan->hosts) * WEFT_SEGMENT ||
			    plan->bytes > WEFT_SEGMENTS * WEFT_SEGMENT))
		return -EINVAL;
	fd = open(path + PREFIX_CHARS, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
		  0600);
	*why = "the pool file cannot be made";
	if (fd < 0)
		return -errno;
	*why = "the pool is not a regular file";
	err = fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -EPROTO;
	if (!err && has_life(fd)) {
		*why = "a host of the pool lives";
		err = -EBUSY;
	}
	if (!err) {
		*why = "no room for the pool's tables";
		err = lay_out(fd, plan, signature);
	}
	close(fd);
	return err;
}

static int end_pool(const char *path, bool own, const char **why)
{
	struct weft_pool_header header;
	char home[PATH_MAX];
	int fd = open_memory(path, why), err = 0;

	if (fd < 0)
		return fd;
	*why = "the file is not a pool";
	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    header.magic != WEFT_POOL_MAGIC || header.hosts > WEFT_HOSTS)
		err = -EPROTO;
	if (!err && has_life(fd)) {
		*why = "a host of the pool lives";
		err = -EBUSY;
	}
	close(fd);
	for (uint32_t i = 0; !err && i < header.hosts; i++) {
		weft_home_path_of(&header, i, home);
		unlink(home);
	}
	if (err)
		return err;
	*why = "the pool file cannot be removed";
	return unlink(path + PREFIX_CHARS) ? -errno : 0;
}

const struct weft_backing weft_backing_shm = {
	.name = "shm",
	.can = WEFT_BACKING_MAPS_ANYWHERE | WEFT_BACKING_ATOMICS | WEFT_BACKING_COHERENT |
	       WEFT_BACKING_REACHES_ALL,
	.choose = choose_named,
	.open = open_hosts,
	.close = weft_file_close,
	.forget = weft_file_forget,
	.identity = weft_file_identity,
	.identify = find_identity,
	.create = create_hosts,
	.remove = end_pool,
	.new_bytes = weft_file_new_bytes,
	.map = weft_map,
	.unmap = weft_map_end,
	.touch = weft_map_touch,
	.populate = weft_map_populate,
	.reserve = weft_reserve,
	.release = weft_reserve_end,
	.head_room = weft_reserve_head_room,
	.descriptor = weft_map_descriptor,
	.prove = weft_lock_prove,
	.lives = weft_lock_lives,
	.claim = weft_lock_claim,
	.enter = weft_lock_enter,
	.enter_too = weft_lock_enter_too,
	.leave = weft_lock_leave,
	.sleep = weft_wait_sleep,
	.wake = weft_wait_wake,
	.barrier = weft_wait_barrier,
};
