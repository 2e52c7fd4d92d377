/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A memory of several hosts, for a process that is of none of them: what it reads it maps for as long, as a device
 * has no read. Of homes those are read that are here. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backing/private.h"
#include "pool/format.h"

static int open_to_look(struct weft_backed *b, uint64_t signature, const char **why)
{
	struct weft_pool_header header = {.magic = 0};
	struct stat st;
	int err;

	b->far.fd = open(b->far.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	*why = errno == ENOENT ? "there is no pool yet: weft pool create makes it"
			       : "the pool's memory cannot be opened";
	if (b->far.fd < 0 || fstat(b->far.fd, &st))
		return -errno;
	b->far.dev = st.st_dev;
	b->far.ino = st.st_ino;
	err = weft_hosts_check(b->far.fd, signature, &header, &b->parts, why);
	b->bytes = b->parts.end;
	return err;
}

int weft_look_hosts(const char *file, uint64_t signature, struct weft_backed **backed,
		    uint64_t *bytes, bool *locked, const char **why)
{
	struct weft_backed *b = weft_file_begin(file, why);
	int err;

	if (!b)
		return -ENOMEM;
	err = open_to_look(b, signature, why);
	if (err) {
		weft_file_close(b);
		return err;
	}
	*locked = true;
	*bytes = b->bytes;
	*backed = b;
	return 0;
}

void weft_look_hosts_unlock(struct weft_backed *b)
{
}

bool weft_look_hosts_read(const struct weft_backed *b, void *to, uint64_t bytes, uint64_t off)
{
	uint64_t at = weft_parts_at(&b->parts, off, bytes);
	struct weft_pages pages;

	if (at == UINT64_MAX)
		return false;
	pages = weft_hosts_pages(b->far.fd, at, bytes, PROT_READ);
	if (!pages.at)
		return false;
	memcpy(to, pages.at, bytes);
	weft_hosts_pages_end(&pages);
	return true;
}

static int open_home_there(const struct weft_backed *b, uint32_t host)
{
	struct weft_pool_header header;
	char path[PATH_MAX];
	int fd;

	if (!weft_look_hosts_read(b, &header, sizeof(header), 0))
		return -EPROTO;
	weft_home_path_of(&header, host, path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

bool weft_look_hosts_read_home(const struct weft_backed *b, uint32_t host, void *to, uint64_t bytes,
			       uint64_t off)
{
	int fd = open_home_there(b, host);
	bool is_read = fd >= 0 && pread(fd, to, bytes, (off_t)off) == (ssize_t)bytes;

	if (fd >= 0)
		close(fd);
	return is_read;
}

int weft_look_hosts_proven(struct weft_backed *b, uint32_t host, uint16_t member)
{
	int fd = open_home_there(b, host), proven;

	if (fd < 0)
		return fd;
	proven = weft_lock_is_proven(fd, member);
	close(fd);
	return proven;
}

/* Of a device all is there. */
uint64_t weft_look_hosts_allocated(const struct weft_backed *b)
{
	struct stat st;

	return fstat(b->far.fd, &st) ? 0 : st.st_blocks ? (uint64_t)st.st_blocks * 512 : b->bytes;
}
