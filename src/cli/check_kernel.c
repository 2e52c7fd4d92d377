/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/checkup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

static void check_version(struct weft_checkup *c)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;
	char finding[sizeof(name.release) + 32];

	uname(&name);
	sscanf(name.release, "%u.%u", &major, &minor);
	snprintf(finding, sizeof(finding), "Linux %s", name.release);
	if (major > 6 || (major == 6 && minor >= 1))
		weft_checkup_say(c, "kernel", WEFT_VERDICT_OK, finding, NULL);
	else
		weft_checkup_say(c, "kernel", WEFT_VERDICT_NOTE, finding,
				 "Weft is tested on Linux 6.1 and later");
}

static void check_membarrier(struct weft_checkup *c)
{
	const int needed =
		MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
	long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	char finding[128];

	if (commands >= 0 && (commands & needed) == needed) {
		weft_checkup_say(c, "membarrier", WEFT_VERDICT_OK, "allowed", NULL);
		return;
	}
	snprintf(finding, sizeof(finding), "no program can join a pool: membarrier: %s",
		 commands < 0 ? strerror(errno) : "no global expedited barrier");
	weft_checkup_say(
		c, "membarrier", WEFT_VERDICT_PROBLEM, finding,
		"let the container's seccomp profile allow membarrier (Docker's default does)");
}

/* As src/migrate/uffd.c opens it. */
static int try_userfaultfd(void)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_HUGETLBFS_SHMEM};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY), err;

	if (fd < 0)
		return errno;
	err = ioctl(fd, UFFDIO_API, &api) ? errno : 0;
	close(fd);
	return err;
}

static void check_userfaultfd(struct weft_checkup *c)
{
	int err = try_userfaultfd();
	char finding[128];

	if (!err) {
		weft_checkup_say(c, "userfaultfd", WEFT_VERDICT_OK, "allowed", NULL);
		return;
	}
	snprintf(finding, sizeof(finding),
		 "memory migrates into the pool under page protection and SIGSEGV: userfaultfd: %s",
		 strerror(err));
	weft_checkup_say(c, "userfaultfd", WEFT_VERDICT_NOTE, finding,
			 "let the seccomp profile allow userfaultfd (Linux 5.19 or later)");
}

/* A process may always read itself: what fails here is forbidden by a filter, or not built in. */
static int try_process_vm(void)
{
	char from = 1, to = 0;
	struct iovec local = {&to, 1}, remote = {&from, 1};

	if (syscall(SYS_process_vm_readv, (long)getpid(), &local, 1L, &remote, 1L, 0L) != 1 ||
	    syscall(SYS_process_vm_writev, (long)getpid(), &local, 1L, &remote, 1L, 0L) != 1)
		return errno;
	return 0;
}

static int ptrace_scope(void)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;

	if (f) {
		if (fscanf(f, "%d", &scope) != 1)
			scope = 0;
		fclose(f);
	}
	return scope;
}

static void check_process_vm(struct weft_checkup *c)
{
	int err = try_process_vm(), scope = ptrace_scope();
	char finding[160];

	if (err) {
		snprintf(finding, sizeof(finding),
			 "memory outside the pool is copied by its owner's helper: "
			 "process_vm_readv: %s",
			 strerror(err));
		weft_checkup_say(
			c, "process_vm", WEFT_VERDICT_NOTE, finding,
			"let the seccomp profile allow process_vm_readv and process_vm_writev");
	} else if (scope > 1) {
		snprintf(finding, sizeof(finding),
			 "memory outside the pool is copied by its owner's helper: Yama's "
			 "ptrace_scope is %d",
			 scope);
		weft_checkup_say(c, "process_vm", WEFT_VERDICT_NOTE, finding,
				 "sysctl kernel.yama.ptrace_scope=1");
	} else {
		weft_checkup_say(c, "process_vm", WEFT_VERDICT_OK, "allowed", NULL);
	}
}

void weft_check_kernel(struct weft_checkup *c)
{
	check_version(c);
	check_membarrier(c);
	check_userfaultfd(c);
	check_process_vm(c);
}
