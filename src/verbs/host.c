/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Verbs about the host rather than a device: fork, and reading sysfs. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/verbs.h"

/* Regions take care of fork themselves (migrate/region.h). */
int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}

const char *ibv_get_sysfs_path(void)
{
	const char *path = getenv("SYSFS_PATH");

	return path ? path : "/sys";
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	ssize_t len;
	int fd;

	if (!size || snprintf(path, sizeof(path), "%s/%s", dir, file) >= PATH_MAX)
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = read(fd, buf, size);
	close(fd);
	if (len > 0 && buf[len - 1] == '\n')
		len--;
	if (len < 0 || (size_t)len == size)
		return -1;
	buf[len] = '\0';
	return (int)len;
}
