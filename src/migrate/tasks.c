/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's format of a directory's entry. */
struct entry {
	uint64_t inode;
	int64_t next;
	uint16_t len_bytes;
	uint8_t type;
	char name[];
};

#define LIST_BYTES   4096
#define PATH_BYTES   32
#define STATUS_BYTES 2048

/* One thread at a time is here. */
static union {
	struct entry first;
	char bytes[LIST_BYTES];
} list;

static int opened(int at, const char *path, int flags)
{
	long fd = syscall(SYS_openat, at, path, O_RDONLY | O_CLOEXEC | flags);

	return fd < 0 ? -errno : (int)fd;
}

int weft_tasks_open(void)
{
	return opened(AT_FDCWD, "/proc/self/task", O_DIRECTORY);
}

void weft_tasks_close(int fd)
{
	syscall(SYS_close, fd);
}

unsigned int weft_tasks_count(int tasks)
{
	struct stat st;

	if (syscall(SYS_fstat, tasks, &st) || st.st_nlink < 3)
		return 0;
	return (unsigned int)st.st_nlink - 2;
}

int weft_tasks_each(int tasks, void (*fn)(pid_t tid))
{
	long len;

	if (syscall(SYS_lseek, tasks, 0, SEEK_SET))
		return -errno;
	while ((len = syscall(SYS_getdents64, tasks, &list, sizeof(list))) > 0) {
		const struct entry *entry;

		for (long at = 0; at < len; at += entry->len_bytes) {
			pid_t tid = 0;

			entry = (const struct entry *)(list.bytes + at);
			for (const char *c = entry->name; *c >= '0' && *c <= '9'; c++)
				tid = tid * 10 + (*c - '0');
			if (tid)
				fn(tid);
		}
	}
	return len < 0 ? -errno : 0;
}

static int open_of(int tasks, pid_t tid, const char *file)
{
	char path[PATH_BYTES], digits[12];
	int count = 0, at = 0;

	for (; tid; tid /= 10)
		digits[count++] = (char)('0' + tid % 10);
	while (count)
		path[at++] = digits[--count];
	path[at++] = '/';
	for (; *file; file++)
		path[at++] = *file;
	path[at] = '\0';
	return opened(tasks, path, 0);
}

int weft_tasks_open_call(int tasks, pid_t tid)
{
	return open_of(tasks, tid, "syscall");
}

bool weft_tasks_read_call(int fd, char line[WEFT_TASKS_LINE])
{
	long len = syscall(SYS_pread64, fd, line, WEFT_TASKS_LINE - 1, 0);

	line[len > 0 ? len : 0] = '\0';
	return len > 0;
}

/* The mask in a line of the status that begins with `name`. */
static uint64_t mask_of(const char *text, const char *name)
{
	uint64_t mask = 0;

	while (*text) {
		const char *c = text, *n = name;

		while (*n && *c == *n)
			c++, n++;
		if (!*n) {
			for (; *c && *c != '\n'; c++) {
				if (*c >= '0' && *c <= '9')
					mask = mask << 4 | (uint64_t)(*c - '0');
				else if (*c >= 'a' && *c <= 'f')
					mask = mask << 4 | (uint64_t)(*c - 'a' + 10);
			}
			return mask;
		}
		while (*text && *text++ != '\n')
			;
	}
	return mask;
}

uint64_t weft_tasks_blocked(int tasks, pid_t tid)
{
	static char text[STATUS_BYTES];
	int fd = open_of(tasks, tid, "status");
	long len;

	if (fd < 0)
		return 0;
	len = syscall(SYS_read, fd, text, sizeof(text) - 1);
	weft_tasks_close(fd);
	text[len > 0 ? len : 0] = '\0';
	return mask_of(text, "SigBlk:");
}
