/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "shim/path.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Atomic int weft_path_inside;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char sysroot[PATH_MAX]; /* empty when it cannot be found: then no path is ours */
static size_t sysroot_len;

static void find_sysroot(void)
{
	char beside[PATH_MAX], *slash;
	Dl_info self;

	if (!dladdr(&once, &self) ||
	    snprintf(beside, sizeof(beside), "%s", self.dli_fname) >= (int)sizeof(beside))
		return;
	slash = strrchr(beside, '/');
	if (!slash || slash + sizeof("/sysroot") > beside + sizeof(beside))
		return;
	memcpy(slash, "/sysroot", sizeof("/sysroot"));
	if (WEFT_NEXT(realpath)(beside, sysroot))
		sysroot_len = strlen(sysroot);
	else
		sysroot[0] = '\0';
}

void weft_path_entered(void)
{
	atomic_store_explicit(&weft_path_inside, WEFT_PATH_INSIDE, memory_order_relaxed);
}

const char *weft_path_logical(const char *path)
{
	pthread_once(&once, find_sysroot);
	if (!sysroot_len || strncmp(path, sysroot, sysroot_len) || path[sysroot_len] != '/')
		return NULL;
	return path + sysroot_len;
}

/* Whether an absolute path without needless parts is the top of a tree of ours. */
static bool is_top(const char *path)
{
	static const char class[] = "/sys/class/infiniband"; /* and infiniband_verbs, … */

	return !strncmp(path, class, sizeof(class) - 1) || !strcmp(path, "/sys/devices/weft0") ||
	       !strcmp(path, "/sys/bus/weft") || !strcmp(path, "/dev/infiniband");
}

/* What follows the top is left to the kernel, whose links and dots are exact. */
static const char *found_below(char *out, const char *rest, char buf[PATH_MAX])
{
	if (!strcmp(out, "/dev/infiniband") &&
	    (!strcmp(rest, "/uverbs0") || !strcmp(rest, "/rdma_cm")))
		return "/dev/null";
	if (snprintf(buf, PATH_MAX, "%s%s%s", sysroot, out, rest) >= PATH_MAX)
		return NULL;
	return buf;
}

/* Walks an absolute path down to a top of ours, past doubled slashes and dots. */
static const char *map_absolute(const char *path, char buf[PATH_MAX])
{
	char out[PATH_MAX] = "";
	size_t len = 0;

	while (*path) {
		size_t part;

		path += strspn(path, "/");
		part = strcspn(path, "/");
		if (part == 2 && !memcmp(path, "..", 2)) {
			while (len && out[--len] != '/')
				;
		} else if (part && !(part == 1 && *path == '.')) {
			if (len + 1 + part >= sizeof(out))
				return NULL;
			out[len] = '/';
			memcpy(out + len + 1, path, part);
			len += 1 + part;
		}
		out[len] = '\0';
		path += part;
		if (is_top(out))
			return found_below(out, path, buf);
	}
	return NULL;
}

/* The name of the folder that a relative path starts from; false without /proc. */
static bool read_base(int dirfd, char base[PATH_MAX])
{
	char link[32];
	ssize_t n;

	if (dirfd == AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/thread-self/cwd");
	else
		snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", dirfd);
	n = WEFT_NEXT(readlink)(link, base, PATH_MAX - 1);
	if (n <= 0)
		return false;
	base[n] = '\0';
	return base[0] == '/';
}

static const char *map_relative(int dirfd, const char *path, char buf[PATH_MAX])
{
	char base[PATH_MAX], whole[PATH_MAX];
	const char *logical;

	if (!read_base(dirfd, base))
		return NULL;
	logical = weft_path_logical(base);
	if (atomic_load_explicit(&weft_path_inside, memory_order_relaxed) == WEFT_PATH_UNKNOWN &&
	    dirfd == AT_FDCWD)
		atomic_store_explicit(&weft_path_inside,
				      logical ? WEFT_PATH_INSIDE : WEFT_PATH_OUTSIDE,
				      memory_order_relaxed);
	if (snprintf(whole, sizeof(whole), "%s/%s", logical ?: base, path) >= (int)sizeof(whole))
		return NULL;
	return map_absolute(whole, buf);
}

const char *weft_path_map(int dirfd, const char *path, char buf[PATH_MAX])
{
	int saved = errno;
	const char *mapped;

	pthread_once(&once, find_sysroot);
	if (!sysroot_len)
		return path;
	mapped = path[0] == '/' ? map_absolute(path, buf) : map_relative(dirfd, path, buf);
	errno = saved;
	return mapped ?: path;
}
