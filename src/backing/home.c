/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The home of a host: a sparse file in tmpfs, named by the pool and the host's number, laid out as a pool is and of
 * which only the home's part is used. $WEFT_HOST gives the number; else the one home of the pool that is here does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backing/private.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/step.h"

void weft_home_path_of(const struct weft_pool_header *header, uint32_t host, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "/dev/shm/weft-%016jx-%u", (uintmax_t)header->pool_id, host);
}

static int parse_host(const char *text, uint32_t hosts, uint32_t *host)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || number >= hosts)
		return -EINVAL;
	*host = (uint32_t)number;
	return 0;
}

/* Good until the thread's next call. */
static const char *host_range(uint32_t hosts)
{
	static _Thread_local char text[80];

	snprintf(text, sizeof(text), "WEFT_HOST, or --host: the hosts of the pool are 0 to %u",
		 hosts - 1);
	return text;
}

int weft_home_path(const struct weft_pool_header *header, char path[PATH_MAX], uint32_t *host,
		   const char **why)
{
	const char *text = getenv("WEFT_HOST");
	uint32_t found = 0;

	if (text && *text) {
		*why = host_range(header->hosts);
		if (parse_host(text, header->hosts, host))
			return -EINVAL;
		weft_home_path_of(header, *host, path);
		return 0;
	}
	for (uint32_t i = 0; i < header->hosts; i++) {
		weft_home_path_of(header, i, path);
		if (access(path, F_OK))
			continue;
		*host = i;
		found++;
	}
	*why = "several hosts of the pool have their homes here: WEFT_HOST=NUMBER says which";
	if (found > 1)
		return -EINVAL;
	*why = "no host of the pool has its home here: WEFT_HOST=NUMBER makes one";
	if (!found)
		return -ENOENT;
	weft_home_path_of(header, *host, path);
	return 0;
}

static int open_home(const char *path, const char **why)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	/* where any user may make files the kernel opens none of another user for a process that would make it */
	if (fd < 0 && errno == ENOENT)
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	*why = "the home of the host cannot be opened";
	return fd < 0 ? -errno : fd;
}

/* With its lock held: a process that dies in between leaves what the next one makes again. */
static int make_home(int fd, const struct weft_pool_header *header, uint32_t host,
		     const struct stat *far, const char **why)
{
	struct weft_pool_home home = {
		.magic = WEFT_HOME_MAGIC, .pool_id = header->pool_id, .host = host};
	int err;

	*why = "no room for the home of the host";
	if (ftruncate(fd, WEFT_OFF_HOME_END))
		return -errno;
	err = weft_reserve_file(fd, WEFT_OFF_HOME, sizeof(home));
	if (err)
		return err;
	fchmod(fd, far->st_mode & 0666);
	if (fchown(fd, (uid_t)-1, far->st_gid))
		errno = 0; /* then it is the group that we have */
	WEFT_STEP(home_reserved);
	return pwrite(fd, &home, sizeof(home), WEFT_OFF_HOME) == sizeof(home) ? 0 : -ENOSPC;
}

static int check_home(int fd, const struct weft_pool_header *header, uint32_t host,
		      const struct stat *far, const char **why)
{
	struct weft_pool_home home = {.magic = 0};
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (pread(fd, &home, sizeof(home), WEFT_OFF_HOME) != sizeof(home) || !home.magic)
		return make_home(fd, header, host, far, why);
	*why = "the home of the host is another pool's, or another host's";
	return home.magic != WEFT_HOME_MAGIC || home.pool_id != header->pool_id ||
			       home.host != host || st.st_size != WEFT_OFF_HOME_END
		       ? -EPROTO
		       : 0;
}

int weft_home_open(struct weft_backed *b, const struct weft_pool_header *header, const char **why)
{
	struct stat st, far;
	char path[PATH_MAX];
	uint32_t host;
	int fd, err = weft_home_path(header, path, &host, why);

	if (err)
		return err;
	weft_named_init(&b->apart, path);
	b->home = &b->apart;
	fd = weft_file_lock_named(path, open_home, &st, why);
	if (fd < 0)
		return fd;
	err = fstat(b->far.fd, &far) ? -errno : check_home(fd, header, host, &far, why);
	if (!err)
		err = weft_named_open(b->home, fd);
	weft_lock_release(fd);
	close(fd);
	return err;
}
