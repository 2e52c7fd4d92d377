/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The descriptor of the file: programs close descriptors that they did not open, and the number is then another
 * file's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backing/private.h"

void weft_named_init(struct weft_named *n, const char *path)
{
	strcpy(n->path, path);
	n->fd = -1;
	pthread_mutex_init(&n->fd_mutex, NULL);
}

void weft_named_close(struct weft_named *n)
{
	if (weft_descriptor_is_ours(n, n->fd))
		close(n->fd);
}

int weft_named_open(struct weft_named *n, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	n->dev = st.st_dev;
	n->ino = st.st_ino;
	n->fd = open(n->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (weft_descriptor_is_ours(n, n->fd))
		return 0;
	return n->fd < 0 ? -errno : -ESTALE;
}

bool weft_descriptor_is_ours(const struct weft_named *n, int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && st.st_dev == n->dev && st.st_ino == n->ino;
}

/* Members go on in a file that has lost its name, but no process can join them: the user is told so once. */
static void tell_unlinked(struct weft_named *n)
{
	if (!n->unlinked)
		fprintf(stderr,
			"weft: %s was removed while in use: programs that start now will not meet "
			"those that run (systemd's RemoveIPC= does this at logout)\n",
			n->path);
	n->unlinked = true;
}

static bool is_good(struct weft_named *n)
{
	struct stat st;

	if (n->fd < 0 || fstat(n->fd, &st) || st.st_dev != n->dev || st.st_ino != n->ino)
		return false;
	if (!st.st_nlink)
		tell_unlinked(n);
	return true;
}

static int open_anew(struct weft_named *n)
{
	n->fd = open(n->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (n->fd < 0)
		return -errno;
	if (is_good(n))
		return n->fd;
	close(n->fd);
	n->fd = -1;
	return -ESTALE;
}

int weft_descriptor(struct weft_named *n)
{
	int fd;

	pthread_mutex_lock(&n->fd_mutex);
	fd = is_good(n) ? n->fd : open_anew(n);
	pthread_mutex_unlock(&n->fd_mutex);
	return fd;
}

/* The file may have lost its name. */
int weft_descriptor_another(struct weft_named *n)
{
	int fd = weft_descriptor(n), again;
	char path[32];

	if (fd < 0)
		return fd;
	again = open(n->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (weft_descriptor_is_ours(n, again))
		return again;
	if (again < 0 && errno != ENOENT)
		return -errno;
	if (again >= 0)
		close(again);
	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	return again < 0 ? -errno : again;
}
