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
#include <sys/mman.h>
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
	if (!path)
		return -EINVAL;
	if (path[PREFIX_CHARS] == '/' || !getcwd(here, sizeof(here)))
		len = snprintf(chosen, PATH_MAX, "%s", path);
	else
		len = snprintf(chosen, PATH_MAX, "shm:%s/%s", here, path + PREFIX_CHARS);
	return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int open_shm(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
		    uint64_t *bytes, const char **why)
{
	return weft_hosts_open(path + PREFIX_CHARS, signature, backed, bytes, why);
}

static int look_at_file(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
			uint64_t *bytes, bool *locked, const char **why)
{
	return weft_look_hosts(path + PREFIX_CHARS, signature, backed, bytes, locked, why);
}

/* What is a hole is filled now: a load or a store there would be a signal where there is no room. */
static int expose_file(const char *path, uint64_t bytes, struct weft_pages *pages, const char **why)
{
	int err = weft_hosts_expose(path + PREFIX_CHARS, bytes, pages, why);

	if (err || !madvise(pages->mapped, pages->mapped_bytes, MADV_POPULATE_WRITE) ||
	    errno == EINVAL)
		return err;
	weft_hosts_pages_end(pages);
	*why = "no room for what is to be tried";
	return -ENOSPC;
}

static int identify_file(const char *path, uint64_t identity[2])
{
	return weft_hosts_identify(path + PREFIX_CHARS, identity);
}

static int reserve_tables(int fd, const struct weft_parts *parts, uint64_t bytes)
{
	const uint64_t hosts_bytes = parts->hosts * sizeof(struct weft_pool_host);
	int err;

	if (ftruncate(fd, 0) || ftruncate(fd, (off_t)bytes))
		return -errno;
	err = weft_reserve_file(fd, 0, WEFT_OFF_LEASES + sizeof(struct weft_pool_leases));
	return err
		       ?: weft_reserve_file(fd, weft_parts_at(parts, WEFT_OFF_HOSTS, hosts_bytes),
					    hosts_bytes);
}

/* Nothing is lost in a file that is empty, has a first page of zeros, or was a pool of several hosts, damaged or not. */
static int check_free(int fd, const struct stat *st, const char **why)
{
	uint8_t page[WEFT_PAGE] = {0};
	struct weft_pool_header header;
	ssize_t n = pread(fd, page, sizeof(page), 0);

	*why = "the pool is not a regular file";
	if (!S_ISREG(st->st_mode))
		return -EPROTO;
	*why = "the file cannot be read";
	if (n < 0)
		return -errno;
	memcpy(&header, page, sizeof(header));
	*why = "the file is a pool of one host: weft pool rm removes it";
	if (weft_file_is_pool(&header))
		return header.pool_id ? 0 : -EPROTO;
	if (!header.magic && header.version == WEFT_POOL_VERSION && header.pool_id)
		return 0;
	*why = "the file has other contents: remove it first";
	return page[0] || memcmp(page, page + 1, sizeof(page) - 1) != 0 ? -EPROTO : 0;
}

static int create_file(const char *path, const struct weft_backing_plan *plan, uint64_t signature,
		       const char **why)
{
	uint64_t bytes = plan->bytes ?: weft_file_new_bytes();
	struct weft_parts parts;
	int fd, err = weft_hosts_check_plan(plan, bytes, &parts, why);
	struct stat st;

	if (err)
		return err;
	fd = open(path + PREFIX_CHARS, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
		  0600);
	*why = "the pool file cannot be made";
	if (fd < 0)
		return -errno;
	err = fstat(fd, &st) ? -errno : check_free(fd, &st, why);
	if (!err)
		err = weft_hosts_take(fd, why);
	if (!err) {
		*why = "no room for the pool's tables";
		err = reserve_tables(fd, &parts, bytes);
	}
	if (!err)
		err = weft_hosts_lay_out(fd, plan, bytes, &parts, signature);
	close(fd);
	return err;
}

static int remove_file(const char *path, bool own, const char **why)
{
	int err = weft_hosts_end(path + PREFIX_CHARS, why);

	if (err)
		return err;
	*why = "the pool file cannot be removed";
	return unlink(path + PREFIX_CHARS) ? -errno : 0;
}

const struct weft_backing weft_backing_shm = {
	.name = "shm",
	.can = WEFT_BACKING_NEEDED,
	WEFT_BACKING_LOCKED_FILE,
	WEFT_BACKING_MAPPED_FILE,
	.choose = choose_named,
	.open = open_shm,
	.identify = identify_file,
	.create = create_file,
	.remove = remove_file,
	.look = look_at_file,
	.expose = expose_file,
	WEFT_BACKING_LOOKED_AT_BY_MAPPING,
};
