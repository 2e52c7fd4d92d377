/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Nodes as hosts: each card, and each program of its node, in a network namespace of its own, within one user namespace that any user
 * may make. Beside the torus the nodes have an ordinary network, a bridge in a namespace that only the cards keep, where each
 * has the address that its verbs have: what goes to it by sockets goes by the bridge, what goes by verbs goes by the cables.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/torus.h"

static int write_map(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t length = (ssize_t)strlen(text), done = -1;

	if (fd >= 0) {
		done = write(fd, text, (size_t)length);
		close(fd);
	}
	return done == length ? 0 : -errno;
}

/* The user is root there, and nowhere else. */
static int enter_new_user(void)
{
	char user[32], group[32];
	int err;

	snprintf(user, sizeof(user), "0 %u 1", (unsigned int)geteuid());
	snprintf(group, sizeof(group), "0 %u 1", (unsigned int)getegid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return -errno;
	err = write_map("/proc/self/setgroups", "deny");
	err = err ? err : write_map("/proc/self/uid_map", user);
	return err ? err : write_map("/proc/self/gid_map", group);
}

/* Runs ip(8) on these lines, in the namespace of the caller. */
static int run_ip(const char *lines)
{
	FILE *ip = popen("PATH=$PATH:/usr/sbin:/sbin ip -batch - >/dev/null", "we");

	if (!ip)
		return -errno;
	fputs(lines, ip);
	return pclose(ip) ? -EIO : 0;
}

static int go_to(const char *path, int kind)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (setns(fd, kind))
		err = -errno;
	close(fd);
	return err;
}

static int join_network(struct weft_ape_coord at, unsigned int index, pid_t card, int hub)
{
	char lines[256], path[64];
	int err;

	if (setns(hub, CLONE_NEWNET))
		return -errno;
	snprintf(lines, sizeof(lines),
		 "link add node%u type veth peer name torus0 netns %d\n"
		 "link set node%u master nodes up\n",
		 index, (int)card, index);
	err = run_ip(lines);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)card);
	err = err ? err : go_to(path, CLONE_NEWNET);
	snprintf(lines, sizeof(lines),
		 "link set lo up\naddr add 10.%u.%u.%u/8 dev torus0\nlink set torus0 up\n",
		 at.at[0], at.at[1], at.at[2] + 1);
	return err ? err : run_ip(lines);
}

/* In a process of its own, which ends when all is made. */
static int make_nodes(const struct weft_torus_options *o, const struct weft_ape_lattice *l,
		      unsigned int nodes, weft_torus_card_fn *become_card)
{
	int err = enter_new_user(), hub = -1;

	err = err ? err : run_ip("link add nodes type bridge\nlink set nodes up\n");
	if (!err)
		hub = open("/proc/self/ns/net", O_RDONLY);
	if (!err && hub < 0)
		err = -errno;
	for (unsigned int i = 0; i < nodes && !err; i++) {
		struct weft_ape_coord at = weft_ape_lattice_coord(l, i);
		pid_t card;

		if (unshare(CLONE_NEWNET))
			return -errno;
		card = fork();
		if (!card)
			become_card(o, at, hub);
		err = card < 0 ? -errno : join_network(at, i, card, hub);
	}
	return err;
}

int weft_torus_netns_start(const struct weft_torus_options *o, const struct weft_ape_lattice *l,
			   unsigned int nodes, weft_torus_card_fn *become_card)
{
	int status;
	pid_t maker;

	signal(SIGCHLD, SIG_DFL);
	maker = fork();
	if (!maker)
		_exit(-make_nodes(o, l, nodes, become_card) & 0xff);
	if (maker < 0 || waitpid(maker, &status, 0) < 0)
		return -errno;
	if (!WIFEXITED(status))
		return -EIO;
	if (WEXITSTATUS(status))
		fputs("weft torus: --netns needs ip(8), and user namespaces for all users\n",
		      stderr);
	return -WEXITSTATUS(status);
}

int weft_torus_netns_enter(uint32_t card)
{
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%u/ns/user", card);
	err = go_to(path, CLONE_NEWUSER);
	snprintf(path, sizeof(path), "/proc/%u/ns/net", card);
	return err ? err : go_to(path, CLONE_NEWNET);
}
