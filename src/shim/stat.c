/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The calls that ask about a file without opening it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shim/path.h"

#define DEFINE_STAT(name, type)                                                                    \
	WEFT_INTERPOSED int name(const char *path, struct type *st)                                \
	{                                                                                          \
		return WEFT_NEXT(name)(WEFT_MAP(AT_FDCWD, path), st);                              \
	}

#define DEFINE_FSTATAT(name, type)                                                                 \
	WEFT_INTERPOSED int name(int dirfd, const char *path, struct type *st, int flags)          \
	{                                                                                          \
		return WEFT_NEXT(name)(dirfd, WEFT_MAP(dirfd, path), st, flags);                   \
	}

DEFINE_STAT(stat, stat)
DEFINE_STAT(stat64, stat64)
DEFINE_STAT(lstat, stat)
DEFINE_STAT(lstat64, stat64)
DEFINE_FSTATAT(fstatat, stat)
DEFINE_FSTATAT(fstatat64, stat64)

/* What stat() was in programs built before glibc 2.33. */
#define DEFINE_XSTAT(name, type)                                                                   \
	int name(int version, const char *path, struct type *st);                                  \
	WEFT_INTERPOSED int name(int version, const char *path, struct type *st)                   \
	{                                                                                          \
		return WEFT_NEXT(name)(version, WEFT_MAP(AT_FDCWD, path), st);                     \
	}

#define DEFINE_FXSTATAT(name, type)                                                                \
	int name(int version, int dirfd, const char *path, struct type *st, int flags);            \
	WEFT_INTERPOSED int name(int version, int dirfd, const char *path, struct type *st,        \
				 int flags)                                                        \
	{                                                                                          \
		return WEFT_NEXT(name)(version, dirfd, WEFT_MAP(dirfd, path), st, flags);          \
	}

DEFINE_XSTAT(__xstat, stat)
DEFINE_XSTAT(__xstat64, stat64)
DEFINE_XSTAT(__lxstat, stat)
DEFINE_XSTAT(__lxstat64, stat64)
DEFINE_FXSTATAT(__fxstatat, stat)
DEFINE_FXSTATAT(__fxstatat64, stat64)

WEFT_INTERPOSED int statx(int dirfd, const char *path, int flags, unsigned int mask,
			  struct statx *st)
{
	return WEFT_NEXT(statx)(dirfd, WEFT_MAP(dirfd, path), flags, mask, st);
}

WEFT_INTERPOSED int access(const char *path, int mode)
{
	return WEFT_NEXT(access)(WEFT_MAP(AT_FDCWD, path), mode);
}

WEFT_INTERPOSED int eaccess(const char *path, int mode)
{
	return WEFT_NEXT(eaccess)(WEFT_MAP(AT_FDCWD, path), mode);
}

WEFT_INTERPOSED int euidaccess(const char *path, int mode)
{
	return WEFT_NEXT(euidaccess)(WEFT_MAP(AT_FDCWD, path), mode);
}

WEFT_INTERPOSED int faccessat(int dirfd, const char *path, int mode, int flags)
{
	return WEFT_NEXT(faccessat)(dirfd, WEFT_MAP(dirfd, path), mode, flags);
}

/* ls(1) complains about every file of which it cannot ask this. */
WEFT_INTERPOSED ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	return WEFT_NEXT(getxattr)(WEFT_MAP(AT_FDCWD, path), name, value, size);
}

WEFT_INTERPOSED ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	return WEFT_NEXT(lgetxattr)(WEFT_MAP(AT_FDCWD, path), name, value, size);
}

WEFT_INTERPOSED ssize_t readlink(const char *path, char *buf, size_t size)
{
	return WEFT_NEXT(readlink)(WEFT_MAP(AT_FDCWD, path), buf, size);
}

WEFT_INTERPOSED ssize_t readlinkat(int dirfd, const char *path, char *buf, size_t size)
{
	return WEFT_NEXT(readlinkat)(dirfd, WEFT_MAP(dirfd, path), buf, size);
}

ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t room);
WEFT_INTERPOSED ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t room)
{
	return WEFT_NEXT(__readlink_chk)(WEFT_MAP(AT_FDCWD, path), buf, size, room);
}

ssize_t __readlinkat_chk(int dirfd, const char *path, char *buf, size_t size, size_t room);
WEFT_INTERPOSED ssize_t __readlinkat_chk(int dirfd, const char *path, char *buf, size_t size,
					 size_t room)
{
	return WEFT_NEXT(__readlinkat_chk)(dirfd, WEFT_MAP(dirfd, path), buf, size, room);
}

/* Resolves in sysroot, and answers with the name that the program knows. */
static char *realpath_ours(const char *path, const char *mapped, char *resolved)
{
	char whole[PATH_MAX], node[PATH_MAX];
	const char *logical;

	if (!WEFT_NEXT(realpath)(mapped, whole))
		return NULL;
	logical = weft_path_logical(whole);
	if (!logical) { /* a device node */
		snprintf(node, sizeof(node), "/dev/infiniband/%s", strrchr(path, '/') + 1);
		logical = node;
	}
	return resolved ? strcpy(resolved, logical) : strdup(logical);
}

WEFT_INTERPOSED char *realpath(const char *path, char *resolved)
{
	const char *mapped = WEFT_MAP(AT_FDCWD, path);

	return mapped != path ? realpath_ours(path, mapped, resolved)
			      : WEFT_NEXT(realpath)(path, resolved);
}

char *__realpath_chk(const char *path, char *resolved, size_t room);
WEFT_INTERPOSED char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	const char *mapped = WEFT_MAP(AT_FDCWD, path);

	return mapped != path ? realpath_ours(path, mapped, resolved)
			      : WEFT_NEXT(__realpath_chk)(path, resolved, room);
}

WEFT_INTERPOSED char *canonicalize_file_name(const char *path)
{
	const char *mapped = WEFT_MAP(AT_FDCWD, path);

	return mapped != path ? realpath_ours(path, mapped, NULL)
			      : WEFT_NEXT(canonicalize_file_name)(path);
}
