/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Preloaded, it makes the file $WEFT_TEST_DAX the device-dax /dev/dax9.9, as Linux's are: a character
 * device with its size and its align in sysfs, without read and write, that refuses a mapping, or a cut through one, that is not on multiples of
 * the align, at addresses, too. It knows libc's functions alone.
 */
#undef _FILE_OFFSET_BITS /* else the names with and without 64 are the same */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define DEVICE "/dev/dax9.9"
#define SYSFS  "/sys/dev/char/250:9/"
#define MAPPED 64

static struct mapped {
	uintptr_t from, to;
} mapped[MAPPED];

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static uint64_t align(void)
{
	const char *text = getenv("WEFT_TEST_DAX_ALIGN");

	return text ? strtoull(text, NULL, 0) : 2u << 20;
}

static int file_stat(struct stat *st)
{
	static int (*real)(const char *, struct stat *);
	const char *file = getenv("WEFT_TEST_DAX");

	if (!real)
		real = next("stat");
	return file ? real(file, st) : -1;
}

static bool is_file(const struct stat *st)
{
	struct stat file;

	return !file_stat(&file) && file.st_dev == st->st_dev && file.st_ino == st->st_ino;
}

static void make_device(struct stat *st)
{
	st->st_mode = (st->st_mode & 0777) | S_IFCHR;
	st->st_rdev = makedev(250, 9);
	st->st_size = st->st_blocks = 0;
}

static int open_it(const char *name, const char *path, int flags, mode_t mode)
{
	int (*real)(const char *, int, ...) = next(name);

	if (!strcmp(path, DEVICE))
		return getenv("WEFT_TEST_DAX") ? real(getenv("WEFT_TEST_DAX"), flags & ~O_NOFOLLOW)
					       : (errno = ENOENT, -1);
	return real(path, flags, mode);
}

#define OPEN(name)                                                                                 \
	EXPORT int name(const char *path, int flags, ...)                                          \
	{                                                                                          \
		mode_t mode = 0;                                                                   \
		va_list list;                                                                      \
                                                                                                   \
		va_start(list, flags);                                                             \
		if (flags & (O_CREAT | __O_TMPFILE))                                               \
			mode = va_arg(list, mode_t);                                               \
		va_end(list);                                                                      \
		return open_it(#name, path, flags, mode);                                          \
	}
OPEN(open)
OPEN(open64)

#define STAT(name, kind)                                                                           \
	EXPORT int name(const char *path, kind *st)                                                \
	{                                                                                          \
		int (*real)(const char *, kind *) = next(#name);                                   \
                                                                                                   \
		if (strcmp(path, DEVICE))                                                          \
			return real(path, st);                                                     \
		if (!getenv("WEFT_TEST_DAX") || real(getenv("WEFT_TEST_DAX"), st))                 \
			return errno = ENOENT, -1;                                                 \
		make_device((struct stat *)st);                                                    \
		return 0;                                                                          \
	}
STAT(stat, struct stat)
STAT(stat64, struct stat64)

#define FSTAT(name, kind)                                                                          \
	EXPORT int name(int fd, kind *st)                                                          \
	{                                                                                          \
		int (*real)(int, kind *) = next(#name), err = real(fd, st);                        \
                                                                                                   \
		if (!err && is_file((struct stat *)st))                                            \
			make_device((struct stat *)st);                                            \
		return err;                                                                        \
	}
FSTAT(fstat, struct stat)
FSTAT(fstat64, struct stat64)

static FILE *open_stream(const char *name, const char *path, const char *how)
{
	FILE *(*real)(const char *, const char *) = next(name);
	static char text[32];
	struct stat st;

	if (strncmp(path, SYSFS, strlen(SYSFS)) || file_stat(&st))
		return real(path, how);
	snprintf(text, sizeof(text), "%ju\n",
		 strcmp(path + strlen(SYSFS), "align") ? (uintmax_t)st.st_size
						       : (uintmax_t)align());
	return fmemopen(text, strlen(text), "r");
}

EXPORT FILE *fopen(const char *path, const char *how)
{
	return open_stream("fopen", path, how);
}

EXPORT FILE *fopen64(const char *path, const char *how)
{
	return open_stream("fopen64", path, how);
}

static void note(uintptr_t from, uintptr_t to)
{
	for (int i = 0; i < MAPPED; i++)
		if (!mapped[i].to) {
			mapped[i] = (struct mapped){from, to};
			return;
		}
	abort();
}

static void *map_it(const char *name, void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	void *(*real)(void *, size_t, int, int, int, off_t) = next(name);
	uint64_t unit = align();
	struct stat st;
	uint8_t *room;

	/* of the file itself, whatever it plays */
	if (fd < 0 || fstat(fd, &st) || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(250, 9))
		return real(at, len, prot, flags, fd, off);
	if (((flags & MAP_FIXED) && (uintptr_t)at % unit) || len % unit || (uint64_t)off % unit ||
	    !(flags & MAP_SHARED)) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	if (!(flags & MAP_FIXED)) {
		room = real(NULL, len + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (room == MAP_FAILED)
			return room;
		at = room + -(uintptr_t)room % unit;
	}
	at = real(at, len, prot, flags | MAP_FIXED, fd, off);
	if (at != MAP_FAILED)
		note((uintptr_t)at, (uintptr_t)at + len);
	return at;
}

EXPORT void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	return map_it("mmap", at, len, prot, flags, fd, off);
}

EXPORT void *mmap64(void *at, size_t len, int prot, int flags, int fd, off64_t off)
{
	return map_it("mmap64", at, len, prot, flags, fd, off);
}

EXPORT int munmap(void *at, size_t len)
{
	int (*real)(void *, size_t) = next("munmap");
	uintptr_t from = (uintptr_t)at, to = from + len;

	for (int i = 0; i < MAPPED; i++) {
		struct mapped *m = &mapped[i];

		if (to <= m->from || from >= m->to)
			continue;
		if ((from > m->from && from % align()) || (to < m->to && to % align())) {
			fprintf(stderr, "a cut through a mapping of the device\n");
			return errno = EINVAL, -1;
		}
		if (from <= m->from && to >= m->to)
			m->to = m->from = 0;
	}
	return real(at, len);
}

EXPORT ssize_t pread(int fd, void *to, size_t len, off_t off)
{
	ssize_t (*real)(int, void *, size_t, off_t) = next("pread");
	struct stat st;

	if (!fstat(fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(250, 9))
		return errno = EINVAL, -1;
	return real(fd, to, len, off);
}
