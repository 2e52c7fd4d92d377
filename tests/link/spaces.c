/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "spaces.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int spaces[2];
static pid_t holder;

static int put(const char *path, const char *format, unsigned int id)
{
	char text[64];
	int n = snprintf(text, sizeof(text), format, id), fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t written = fd < 0 ? -1 : write(fd, text, (size_t)n);

	close(fd);
	return written == n ? 0 : -1;
}

static int here(void)
{
	return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

static int run(const char *commands)
{
	return system(commands);
}

/* Makes a process in the second namespace, so that an interface can be sent there by that process's id. */
static int make_second(void)
{
	if (unshare(CLONE_NEWNET))
		return -1;
	spaces[1] = here();
	holder = fork();
	if (!holder) {
		pause();
		_exit(0);
	}
	spaces_enter(0);
	return holder < 0 ? -1 : 0;
}

const char *spaces_make(void)
{
	unsigned int uid = getuid(), gid = getgid();
	char move[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) || put("/proc/self/setgroups", "deny", 0) ||
	    put("/proc/self/uid_map", "0 %u 1", uid) || put("/proc/self/gid_map", "0 %u 1", gid))
		return "this user may make no namespaces";
	spaces[0] = here();
	if (make_second())
		return "no second namespace";
	snprintf(move, sizeof(move), "ip link set w1 netns %d", (int)holder);
	if (run("ip link set lo up && ip link add w0 mtu 9000 type veth peer name w1 mtu 9000") ||
	    run(move) ||
	    run("ip link set w0 addrgenmode none up && ip address add 192.0.2.1/24 dev w0 &&"
		"ip address add 2001:db8::1/64 dev w0 nodad && ip address add fe80::1/64 dev w0 "
		"nodad"))
		return "no veth";
	spaces_enter(1);
	if (run("ip link set lo up && ip link set w1 addrgenmode none up &&"
		"ip address add 192.0.2.2/24 dev w1 && ip address add 2001:db8::2/64 dev w1 nodad "
		"&&"
		"ip address add fe80::2/64 dev w1 nodad"))
		return "the second end of the veth has no addresses";
	spaces_enter(0);
	return NULL;
}

void spaces_enter(int which)
{
	if (setns(spaces[which], CLONE_NEWNET)) {
		perror("setns");
		exit(1);
	}
}

void spaces_end(void)
{
	if (holder > 0) {
		kill(holder, SIGKILL);
		waitpid(holder, NULL, 0);
	}
}
