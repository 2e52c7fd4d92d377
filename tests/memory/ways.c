/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "ways.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memfd_source.h"

#define NOBODY 65534

const struct way ways[] = {
	{"userfaultfd", "uffd"},
	{"userfaultfd, as a user", "uffd", .user = true},
	{"protection", "segv"},
	{"protection, as a user", "segv", .user = true},
	{"in a container, as a user that it has become", NULL, .user = true, .undumpable = true,
	 .container = true},
};
const size_t nways = sizeof(ways) / sizeof(ways[0]);

int way_enter_container(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xc0686611, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static bool has_userfaultfd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	return fd >= 0 && !close(fd);
}

/* Makes this process as the way wants it. Returns whether that was possible. */
static bool enter(const struct way *way)
{
	if (way->user && !getuid() && setresuid(NOBODY, NOBODY, NOBODY))
		return false;
	if (!way->undumpable)
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	if (way->container && way_enter_container())
		return false;
	if (way->forced)
		setenv("WEFT_MIGRATE", way->forced, 1);
	return !way->forced || strcmp(way->forced, "uffd") || has_userfaultfd();
}

bool way_run(const struct way *way, int (*fn)(void *arg), void *arg)
{
	int status;
	pid_t pid;

	printf("# %s: ", way->name);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (!enter(way)) {
			printf("this kernel does not allow it\n");
			exit(0);
		}
		memfd_source_attach();
		exit(fn(arg)); /* exit() writes the counts of coverage */
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return false;
	if (WIFSIGNALED(status))
		printf("killed by signal %d\n", WTERMSIG(status));
	return status == 0;
}

bool way_migrate_once(void *memory, size_t len_bytes)
{
	struct weft_region region;
	bool pooled;

	if (weft_region_acquire(memory, len_bytes, WEFT_REGION_MIGRATE, &region)) {
		printf("registration failed\n");
		exit(1);
	}
	pooled = region.pieces[0].off != WEFT_IN_PLACE;
	weft_region_release(&region);
	return pooled;
}

void way_migrate(void *memory, size_t len_bytes, unsigned long migrations)
{
	unsigned long stayed = 0;

	for (unsigned long made = 0; made < migrations;) {
		if (way_migrate_once(memory, len_bytes)) {
			made += 2;
			continue;
		}
		if (++stayed > 20 + migrations / 10) {
			printf("memory does not migrate\n");
			exit(1);
		}
	}
	printf("%lu migrations, %lu times memory had to stay; ", migrations, stayed);
	fflush(stdout);
}
