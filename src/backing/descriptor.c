/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The descriptor of the file: programs close descriptors that they did not open, and the number is then another
 * file's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backing/private.h"

bool weft_descriptor_is_ours(const struct weft_backed *b, int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && st.st_dev == b->dev && st.st_ino == b->ino;
}

/* Members go on in a file that has lost its name, but no process can join them: the user is told so once. */
static void tell_unlinked(struct weft_backed *b)
{
	if (!b->unlinked)
		fprintf(stderr,
			"weft: %s was removed while in use: programs that start now will not meet "
			"those that run (systemd's RemoveIPC= does this at logout)\n",
			b->path);
	b->unlinked = true;
}

static bool is_good(struct weft_backed *b)
{
	struct stat st;

	if (b->fd < 0 || fstat(b->fd, &st) || st.st_dev != b->dev || st.st_ino != b->ino)
		return false;
	if (!st.st_nlink)
		tell_unlinked(b);
	return true;
}

static int open_anew(struct weft_backed *b)
{
	b->fd = open(b->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (b->fd < 0)
		return -errno;
	if (is_good(b))
		return b->fd;
	close(b->fd);
	b->fd = -1;
	return -ESTALE;
}

int weft_descriptor(struct weft_backed *b)
{
	int fd;

	pthread_mutex_lock(&b->fd_mutex);
	fd = is_good(b) ? b->fd : open_anew(b);
	pthread_mutex_unlock(&b->fd_mutex);
	return fd;
}

/* The file may have lost its name. */
int weft_descriptor_another(struct weft_backed *b)
{
	int fd = weft_descriptor(b), again;
	char path[32];

	if (fd < 0)
		return fd;
	again = open(b->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (weft_descriptor_is_ours(b, again))
		return again;
	if (again < 0 && errno != ENOENT)
		return -errno;
	if (again >= 0)
		close(again);
	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	return again < 0 ? -errno : again;
}
