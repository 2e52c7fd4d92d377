/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The calls that list folders or enter them. */
#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/path.h"

WEFT_INTERPOSED DIR *opendir(const char *path)
{
	const char *mapped = WEFT_MAP(AT_FDCWD, path);
	DIR *dir = WEFT_NEXT(opendir)(mapped);

	if (dir && mapped != path)
		weft_path_entered();
	return dir;
}

WEFT_INTERPOSED int chdir(const char *path)
{
	const char *mapped = WEFT_MAP(AT_FDCWD, path);
	int ret = WEFT_NEXT(chdir)(mapped);

	if (!ret && mapped != path)
		weft_path_entered();
	return ret;
}

#define DEFINE_SCANDIR(name, dirent)                                                               \
	WEFT_INTERPOSED int name(const char *path, struct dirent ***list,                          \
				 int (*filter)(const struct dirent *),                             \
				 int (*compare)(const struct dirent **, const struct dirent **))   \
	{                                                                                          \
		return WEFT_NEXT(name)(WEFT_MAP(AT_FDCWD, path), list, filter, compare);           \
	}

#define DEFINE_SCANDIRAT(name, dirent)                                                             \
	WEFT_INTERPOSED int name(int dirfd, const char *path, struct dirent ***list,               \
				 int (*filter)(const struct dirent *),                             \
				 int (*compare)(const struct dirent **, const struct dirent **))   \
	{                                                                                          \
		return WEFT_NEXT(name)(dirfd, WEFT_MAP(dirfd, path), list, filter, compare);       \
	}

DEFINE_SCANDIR(scandir, dirent)
DEFINE_SCANDIR(scandir64, dirent64)
DEFINE_SCANDIRAT(scandirat, dirent)
DEFINE_SCANDIRAT(scandirat64, dirent64)

static void *open_dir(const char *path)
{
	return opendir(path);
}

static void close_dir(void *dir)
{
	closedir(dir);
}

/* libc's glob calls its own opendir, but takes others where it is told to. */
#define DEFINE_GLOB(name, type, dirent, read, stat, lstat)                                         \
	WEFT_INTERPOSED int name(const char *pattern, int flags, int (*failed)(const char *, int), \
				 type *result)                                                     \
	{                                                                                          \
		if (weft_path_suspect(pattern) && !(flags & GLOB_ALTDIRFUNC)) {                    \
			flags |= GLOB_ALTDIRFUNC;                                                  \
			result->gl_opendir = open_dir;                                             \
			result->gl_readdir = (struct dirent * (*)(void *)) read;                   \
			result->gl_closedir = close_dir;                                           \
			result->gl_stat = stat;                                                    \
			result->gl_lstat = lstat;                                                  \
		}                                                                                  \
		return WEFT_NEXT(name)(pattern, flags, failed, result);                            \
	}

DEFINE_GLOB(glob, glob_t, dirent, readdir, stat, lstat)
DEFINE_GLOB(glob64, glob64_t, dirent64, readdir64, stat64, lstat64)
