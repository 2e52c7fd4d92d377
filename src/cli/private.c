/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/private.h"

#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/nic.h"

#define FOLDER                                                                                     \
	"/dev/shm/weft-private-" /* the program's process number, and the namespace of that */
#define MEMBERS_POLL_NS 100000000
#define OLD_S		2 /* a folder of which nothing is known yet is none that was left */

/* A member holds a lock on the pool file for as long as it lives (backing/backing.h). */
static bool has_members(const char *pool)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open(pool, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	bool busy = fd >= 0 && !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;

	if (fd >= 0)
		close(fd);
	return busy;
}

/* False: another process has opened it once more in between, as a child may that outlives the program. */
static bool remove_private_pool(const char *folder, const char *pool)
{
	unlink(pool);
	return !rmdir(folder) || access(pool, F_OK);
}

/* That process numbers belong to; 0: not known. */
static unsigned long namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : (unsigned long)st.st_ino;
}

/* Leaves everything that would tie the janitor to the program's terminal, pipes and signals. */
static void detach_janitor(int keep, int lock)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	if (chdir("/")) {
		/* it then keeps a folder busy, no more */
	}
	prctl(PR_SET_NAME, "weft-janitor");
	/* two that are out of the way of the numbers that they get */
	keep = fcntl(keep, F_DUPFD, 10);
	lock = fcntl(lock, F_DUPFD, 10);
	dup2(keep, 3);
	dup2(lock, 4);
	syscall(__NR_close_range, 0, 2, 0);
	syscall(__NR_close_range, 5, ~0u, 0);
}

static void janitor(int program, int lock, const char *folder, const char *pool)
{
	struct pollfd end = {.fd = 3, .events = POLLIN};

	detach_janitor(program, lock);
	while (poll(&end, 1, -1) < 0)
		;
	while (has_members(pool) || !remove_private_pool(folder, pool)) {
		weft_nic_end_lone_cards(pool);
		nanosleep(&(struct timespec){.tv_nsec = MEMBERS_POLL_NS}, NULL);
	}
	_exit(0);
}

/* Forks twice, so that the program finds no child that it did not make. */
static int start_janitor(int program, int lock, const char *folder, const char *pool)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		return -errno;
	if (!child) {
		child = fork();
		if (!child)
			janitor(program, lock, folder, pool);
		_exit(child < 0 ? errno : 0);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EAGAIN;
}

/* ---- As process 1, with which all others of its namespace end, a janitor, too ---- */

/* Those of the terminal go to the program anyway, whose process group is ours. */
static void pass_signal_on(pid_t program, const siginfo_t *signal)
{
	if (signal->si_code != SI_KERNEL)
		kill(program, signal->si_signo);
}

/* All children that have ended, as process 1 has to; whether the program has: its status. */
static bool reap(pid_t program, int *status)
{
	bool ended = false;
	pid_t pid;
	int s;

	while ((pid = waitpid(-1, &s, WNOHANG)) > 0) {
		if (pid != program)
			continue;
		*status = WIFEXITED(s) ? WEXITSTATUS(s) : 128 + WTERMSIG(s);
		ended = true;
	}
	return ended;
}

/* Returns in the program, with the signals that it had; else -errno. */
static int stay_first(const char *folder, const char *pool)
{
	sigset_t all, before;
	siginfo_t signal;
	int status = 0;
	pid_t program;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	program = fork();
	if (program <= 0) {
		int err = program ? -errno : 0;

		sigprocmask(SIG_SETMASK, &before, NULL);
		return err;
	}
	do {
		if (sigwaitinfo(&all, &signal) > 0 && signal.si_signo != SIGCHLD)
			pass_signal_on(program, &signal);
	} while (!reap(program, &status));
	remove_private_pool(folder, pool);
	_exit(status);
}

/* ---- Making one ---- */

static int watch_pool(int lock, const char *folder, const char *pool)
{
	int err, program;

	if (getpid() == 1) {
		fcntl(lock, F_SETFD, FD_CLOEXEC);
		return stay_first(folder, pool);
	}
	program = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (program < 0)
		return -errno;
	err = start_janitor(program, lock, folder, pool);
	close(program);
	close(lock);
	return err;
}

int weft_private_make(char pool[PATH_MAX])
{
	char folder[96];
	int lock, err;

	weft_private_sweep(true);
	snprintf(folder, sizeof(folder), FOLDER "%d-%lu-XXXXXX", (int)getpid(), namespace());
	if (!mkdtemp(folder))
		return -errno;
	snprintf(pool, PATH_MAX, "%s/pool", folder);
	/* held by the janitor that removes it: told from one that was left, also in other namespaces */
	lock = open(folder, O_RDONLY | O_DIRECTORY);
	err = lock < 0 || flock(lock, LOCK_EX) ? -errno : watch_pool(lock, folder, pool);
	if (err)
		remove_private_pool(folder, pool);
	return err;
}

static bool is_held(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	bool held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;

	if (fd >= 0)
		close(fd);
	return held;
}

/* Whether its program may live. Of one in another namespace the number says nothing. */
static bool may_live(const char *folder, const struct stat *st)
{
	unsigned long of = 0;
	int program = 0;

	if (sscanf(folder + strlen(FOLDER), "%d-%lu-", &program, &of) == 2 && of &&
	    of != namespace())
		return time(NULL) - st->st_ctime < OLD_S;
	return program <= 0 || !kill(program, 0) || errno != ESRCH;
}

static bool is_left(const char *folder, const char *pool)
{
	struct stat st;

	return !lstat(folder, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !is_held(folder) && !may_live(folder, &st) && !has_members(pool);
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
			remove_private_pool(found.gl_pathv[i], pool);
	}
	globfree(&found);
	return left;
}
