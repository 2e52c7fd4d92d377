/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/private.h"

#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FOLDER		"/dev/shm/weft-private-" /* and the program's process number */
#define MEMBERS_POLL_NS 100000000

/* A member holds a lock on the pool file for as long as it lives (pool/lock.h). */
static bool has_members(const char *pool)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open(pool, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	bool busy = fd >= 0 && !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;

	if (fd >= 0)
		close(fd);
	return busy;
}

static void remove_pool(const char *folder, const char *pool)
{
	unlink(pool);
	rmdir(folder);
}

/* Leaves everything that would tie the janitor to the program's terminal, pipes and signals. */
static void detach(int keep)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	if (chdir("/")) {
		/* it then keeps a folder busy, no more */
	}
	prctl(PR_SET_NAME, "weft-janitor");
	dup2(keep, 3);
	syscall(__NR_close_range, 0, 2, 0);
	syscall(__NR_close_range, 4, ~0u, 0);
}

static void janitor(int program, const char *folder, const char *pool)
{
	struct pollfd end = {.fd = 3, .events = POLLIN};

	detach(program);
	while (poll(&end, 1, -1) < 0)
		;
	while (has_members(pool))
		nanosleep(&(struct timespec){.tv_nsec = MEMBERS_POLL_NS}, NULL);
	remove_pool(folder, pool);
	_exit(0);
}

/* Forks twice, so that the program finds no child that it did not make. */
static int start_janitor(int program, const char *folder, const char *pool)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		return -errno;
	if (!child) {
		child = fork();
		if (!child)
			janitor(program, folder, pool);
		_exit(child < 0 ? errno : 0);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EAGAIN;
}

int weft_private_make(char pool[PATH_MAX])
{
	char folder[64];
	int program, err;

	snprintf(folder, sizeof(folder), FOLDER "%d-XXXXXX", (int)getpid());
	if (!mkdtemp(folder))
		return -errno;
	snprintf(pool, PATH_MAX, "%s/pool", folder);
	program = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (program < 0) {
		err = -errno;
		goto remove;
	}
	err = start_janitor(program, folder, pool);
	close(program);
	if (err)
		goto remove;
	return 0;
remove:
	remove_pool(folder, pool);
	return err;
}

static bool is_left(const char *folder, const char *pool)
{
	pid_t program = (pid_t)atoi(folder + strlen(FOLDER));
	struct stat st;

	return !lstat(folder, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       program > 0 && kill(program, 0) && errno == ESRCH && !has_members(pool);
}

unsigned int weft_private_sweep(bool remove)
{
	unsigned int left = 0;
	char pool[PATH_MAX];
	glob_t found;

	if (glob(FOLDER "*", 0, NULL, &found))
		return 0;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		snprintf(pool, sizeof(pool), "%s/pool", found.gl_pathv[i]);
		if (!is_left(found.gl_pathv[i], pool))
			continue;
		left++;
		if (remove)
			remove_pool(found.gl_pathv[i], pool);
	}
	globfree(&found);
	return left;
}
