/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Removing a pool's file, so that no process goes on in it while others make a new one. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backing/private.h"
#include "pool/format.h"

static int remove_unused(const char *path, int fd, bool own, const char **why)
{
	struct weft_pool_header header;
	struct stat st, now;
	int err;

	*why = "the pool file cannot be looked at";
	if (fstat(fd, &st))
		return -errno;
	if (pread(fd, &header, sizeof(header), 0) != sizeof(header))
		header.magic = 0;
	*why = "the file is not a pool";
	/* the user's own pool has a name of ours: what stands there half made is ours, too */
	if (!S_ISREG(st.st_mode) || (!weft_file_is_pool(&header) && !own))
		return -EPROTO;
	*why = WEFT_BACKING_HAS_HOSTS;
	if (header.magic == WEFT_POOL_MAGIC && header.pool_id)
		return -EPROTO;
	*why = "programs use the pool";
	if (weft_lock_any_held(fd))
		return -EBUSY;
	/* a member that attaches now waits for the lock, and then finds the file gone */
	err = weft_lock_file(fd, true);
	if (err == -ETIMEDOUT)
		*why = WEFT_BACKING_STUCK;
	if (err)
		return err;
	if (weft_lock_any_held(fd))
		return -EBUSY;
	*why = "the pool file cannot be removed";
	if (lstat(path, &now) || now.st_ino != st.st_ino || now.st_dev != st.st_dev)
		return -ENOENT;
	return unlink(path) ? -errno : 0;
}

int weft_remove(const char *path, bool own, const char **why)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), err;

	*why = "the pool file cannot be opened";
	if (fd < 0)
		return -errno;
	err = remove_unused(path, fd, own, why);
	close(fd); /* and drops the lock */
	return err;
}
