/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "migrate/numbers.h"

#define PATH_BYTES   32
#define STATUS_BYTES 2048

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

struct call {
	void (*fn)(pid_t tid);
};

static void call_for(int tid, void *call)
{
	((const struct call *)call)->fn(tid);
}

int weft_tasks_each(int tasks, void (*fn)(pid_t tid))
{
	struct call call = {fn};

	return weft_numbers_each(tasks, call_for, &call);
}

static int open_of(int tasks, pid_t tid, const char *file)
{
	char path[PATH_BYTES];
	int at = weft_numbers_name(tid, path);

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
