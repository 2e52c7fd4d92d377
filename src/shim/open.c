/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The calls that open a file. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/expand.h"
#include "shim/path.h"

/* The mode stands behind the flags only where it counts; reading it elsewhere reads garbage. */
#define MODE(flags)                                                                                \
	({                                                                                         \
		mode_t mode_ = 0;                                                                  \
		if ((flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE) {                         \
			va_list ap_;                                                               \
			va_start(ap_, flags);                                                      \
			mode_ = va_arg(ap_, mode_t);                                               \
			va_end(ap_);                                                               \
		}                                                                                  \
		mode_;                                                                             \
	})

/* Opens a mapped path. sysroot may belong to the user, but sysfs is read-only for everyone. */
static int open_ours(const char *mapped, int flags)
{
	struct stat st;
	int fd;

	if (weft_path_logical(mapped) && ((flags & (O_ACCMODE | O_CREAT | O_TRUNC)) != O_RDONLY ||
					  (flags & O_TMPFILE) == O_TMPFILE)) {
		errno = EACCES;
		return -1;
	}
	fd = WEFT_NEXT(open)(mapped, flags & ~O_CREAT);
	if (fd < 0)
		return fd;
	if (!fstat(fd, &st) && S_ISDIR(st.st_mode)) {
		weft_path_entered();
		return fd;
	}
	return flags & O_PATH || !weft_path_logical(mapped) ? fd
							    : weft_expand_fd(fd, mapped, flags);
}

#define DEFINE_OPEN(name)                                                                          \
	WEFT_INTERPOSED int name(const char *path, int flags, ...)                                 \
	{                                                                                          \
		const char *mapped = WEFT_MAP(AT_FDCWD, path);                                     \
                                                                                                   \
		return mapped != path ? open_ours(mapped, flags)                                   \
				      : WEFT_NEXT(name)(path, flags, MODE(flags));                 \
	}

#define DEFINE_OPENAT(name)                                                                        \
	WEFT_INTERPOSED int name(int dirfd, const char *path, int flags, ...)                      \
	{                                                                                          \
		const char *mapped = WEFT_MAP(dirfd, path);                                        \
                                                                                                   \
		return mapped != path ? open_ours(mapped, flags)                                   \
				      : WEFT_NEXT(name)(dirfd, path, flags, MODE(flags));          \
	}

DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

/* What open() becomes in programs built with _FORTIFY_SOURCE. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);

#define DEFINE_OPEN_2(name)                                                                        \
	WEFT_INTERPOSED int name(const char *path, int flags)                                      \
	{                                                                                          \
		const char *mapped = WEFT_MAP(AT_FDCWD, path);                                     \
                                                                                                   \
		return mapped != path ? open_ours(mapped, flags) : WEFT_NEXT(name)(path, flags);   \
	}

#define DEFINE_OPENAT_2(name)                                                                      \
	WEFT_INTERPOSED int name(int dirfd, const char *path, int flags)                           \
	{                                                                                          \
		const char *mapped = WEFT_MAP(dirfd, path);                                        \
                                                                                                   \
		return mapped != path ? open_ours(mapped, flags)                                   \
				      : WEFT_NEXT(name)(dirfd, path, flags);                       \
	}

DEFINE_OPEN_2(__open_2)
DEFINE_OPEN_2(__open64_2)
DEFINE_OPENAT_2(__openat_2)
DEFINE_OPENAT_2(__openat64_2)

/* The flags of a mode of fopen(3). */
static int mode_flags(const char *mode)
{
	int flags = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;

	if (mode[0] == 'w')
		flags |= O_CREAT | O_TRUNC;
	return flags | (strchr(mode, 'e') ? O_CLOEXEC : 0);
}

static FILE *fopen_ours(const char *mapped, const char *mode)
{
	int fd = open_ours(mapped, mode_flags(mode));
	FILE *f = fd >= 0 ? fdopen(fd, mode) : NULL;

	if (fd >= 0 && !f)
		close(fd);
	return f;
}

static FILE *freopen_ours(const char *mapped, const char *mode, FILE *stream)
{
	int fd = open_ours(mapped, mode_flags(mode)), saved;
	char link[32];
	FILE *f;

	if (fd < 0) {
		saved = errno;
		fclose(stream); /* as freopen(3) does when it fails */
		errno = saved;
		return NULL;
	}
	snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
	f = WEFT_NEXT(freopen)(link, mode, stream);
	saved = errno;
	close(fd);
	errno = saved;
	return f;
}

#define DEFINE_FOPEN(name)                                                                         \
	WEFT_INTERPOSED FILE *name(const char *path, const char *mode)                             \
	{                                                                                          \
		const char *mapped = WEFT_MAP(AT_FDCWD, path);                                     \
                                                                                                   \
		return mapped != path ? fopen_ours(mapped, mode) : WEFT_NEXT(name)(path, mode);    \
	}

#define DEFINE_FREOPEN(name)                                                                       \
	WEFT_INTERPOSED FILE *name(const char *path, const char *mode, FILE *stream)               \
	{                                                                                          \
		const char *mapped = WEFT_MAP(AT_FDCWD, path);                                     \
                                                                                                   \
		return mapped != path ? freopen_ours(mapped, mode, stream)                         \
				      : WEFT_NEXT(name)(path, mode, stream);                       \
	}

DEFINE_FOPEN(fopen)
DEFINE_FOPEN(fopen64)
DEFINE_FREOPEN(freopen)
DEFINE_FREOPEN(freopen64)
