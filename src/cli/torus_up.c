/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The files and cards of a torus: made, ended, removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/delivery.h"
#include "cli/torus.h"
#include "link/ring.h"
#include "pool/clock.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define S_NS	1000000000ull
#define UP_NS	(20 * S_NS)
#define TERM_NS (3 * S_NS)
#define KILL_NS (10 * S_NS)

static void nap(void)
{
	usleep(2000);
}

/* ---- Cards ---- */

uint32_t weft_torus_card_pid(const char *node)
{
	struct weft_torus_door *door;
	char path[PATH_MAX];
	uint32_t pid = 0;
	int fd;

	if (snprintf(path, sizeof(path), "%s/door", node) >= PATH_MAX)
		return 0;
	door = weft_torus_door_open(path, false, &fd);
	if (!door)
		return 0;
	if (weft_torus_door_is_locked(fd))
		pid = atomic_load(&door->pid);
	weft_torus_door_close(door);
	close(fd);
	return pid;
}

/* The number may be another's by the time of the signal: a descriptor is not. */
static void signal_card(const char *node, int signal)
{
	uint32_t pid = weft_torus_card_pid(node);
	int fd = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (fd < 0)
		return;
	if (weft_torus_card_pid(node) == pid)
		syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
	close(fd);
}

/* Of each node that has a folder: signals its card. How many live. */
static int signal_cards(const char *home, int signal)
{
	DIR *folder = opendir(home);
	struct dirent *entry;
	char node[PATH_MAX];
	int alive = 0;

	while (folder && (entry = readdir(folder))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' ||
		    snprintf(node, sizeof(node), "%s/%s", home, entry->d_name) >= PATH_MAX ||
		    !weft_torus_card_pid(node))
			continue;
		alive++;
		if (signal)
			signal_card(node, signal);
	}
	if (folder)
		closedir(folder);
	return alive;
}

static bool end_cards(const char *home, int signal, uint64_t patience_ns)
{
	uint64_t until = weft_clock_now_ns() + patience_ns;

	while (signal_cards(home, signal)) {
		signal = signal == SIGKILL ? SIGKILL : 0;
		if (weft_clock_now_ns() > until)
			return false;
		nap();
	}
	return true;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

int weft_torus_clear(const char *home)
{
	int alive = signal_cards(home, 0);
	struct stat st;

	if (lstat(home, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return -EPERM;
	if (!end_cards(home, SIGTERM, TERM_NS) && !end_cards(home, SIGKILL, KILL_NS))
		return -EBUSY;
	if (nftw(home, remove_entry, 16, FTW_DEPTH | FTW_PHYS))
		return -errno;
	return alive;
}

int weft_torus_down(struct weft_torus_options *o, char **words)
{
	int ended = weft_torus_clear(o->home);

	if (ended == -ENOENT) {
		fprintf(stderr, "weft torus: there is no torus '%s'\n", o->name);
		return 1;
	}
	if (ended < 0) {
		fprintf(stderr, "weft torus: %s: %s\n", o->home, strerror(-ended));
		return 1;
	}
	printf("%s is down: %d cards ended\n", o->name, ended);
	return 0;
}

/* ---- Up ---- */

static int make_folder(const char *path)
{
	return mkdir(path, 0700) ? -errno : 0;
}

static int make_node(const struct weft_torus_options *o, const struct weft_ape_lattice *l,
		     struct weft_ape_coord at)
{
	struct weft_ape_coord other;
	struct weft_torus_door *door;
	char path[PATH_MAX];
	int err = weft_torus_node(o->home, at.at, NULL, path), fd;

	err = err ? err : make_folder(path);
	err = err ? err : weft_torus_node(o->home, at.at, "door", path);
	if (err)
		return err;
	door = weft_torus_door_open(path, true, &fd);
	if (!door)
		return -errno;
	weft_torus_door_close(door);
	close(fd);
	for (unsigned int i = 0; i < WEFT_APE_CABLES && !err; i++)
		if (weft_ape_lattice_neighbour(l, at, i, &other)) {
			err = weft_torus_cable(o->home, at.at, i, path);
			err = err ? err
				  : weft_ring_make(path, weft_torus_ring_quads(&o->shape),
						   weft_torus_ring_beats(&o->shape));
		}
	return err;
}

static int make_files(const struct weft_torus_options *o, const struct weft_ape_lattice *l,
		      unsigned int nodes)
{
	char path[PATH_MAX];
	int err = make_folder(o->home);

	if (err)
		return err;
	if (snprintf(path, sizeof(path), "%s/cables", o->home) >= PATH_MAX)
		return -ENAMETOOLONG;
	err = make_folder(path);
	for (unsigned int i = 0; i < nodes && !err; i++)
		if (weft_torus_is_here(&o->shape, i))
			err = make_node(o, l, weft_ape_lattice_coord(l, i));
	return err ? err : weft_torus_save(o->home, &o->shape);
}

static char card_program[PATH_MAX + sizeof("/weftd")];

/*
 * What happens to the terminal, and its keys, does not reach the card. But it stays in the session: Linux gives sessions their
 * shares of the processor as wholes (autogroup), and a card in one of its own, asleep most of the time, was seen to wait 12 s
 * for a core beside programs that poll in another.
 */
static void leave_terminal(void)
{
	setpgid(0, 0);
	signal(SIGHUP, SIG_IGN);
}

/* In the child: it becomes the card, and holds nothing of its maker's but what it is to keep. */
static void exec_card(const struct weft_torus_options *o, struct weft_ape_coord at, int keep)
{
	char path[PATH_MAX], node[16];
	int null = open("/dev/null", O_RDWR), log;
	unsigned int first = 3;

	snprintf(node, sizeof(node), "%u,%u,%u", at.at[0], at.at[1], at.at[2]);
	if (weft_torus_node(o->home, at.at, "log", path))
		_exit(1);
	log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	leave_terminal();
	if (null < 0 || log < 0 || chdir("/"))
		_exit(1);
	dup2(null, 0);
	dup2(log, 1);
	dup2(log, 2);
	if (keep >= 0 && dup2(keep, 3) == 3)
		first = 4;
	syscall(SYS_close_range, first, ~0u, CLOSE_RANGE_CLOEXEC);
	execl(card_program, card_program, "ape", o->home, node, (char *)NULL);
	perror(card_program);
	_exit(1);
}

static bool is_card_ready(const struct weft_torus_options *o, struct weft_ape_coord at)
{
	struct weft_torus_door *door;
	char path[PATH_MAX];
	bool ready = false;
	int fd;

	if (weft_torus_node(o->home, at.at, "door", path))
		return false;
	door = weft_torus_door_open(path, false, &fd);
	if (!door)
		return false;
	/* the lock last: a card that is just coming must not find it taken */
	ready = atomic_load(&door->ready) && weft_torus_door_is_locked(fd);
	weft_torus_door_close(door);
	close(fd);
	return ready;
}

/* What a card said before it ended. */
static void show_log(const struct weft_torus_options *o, struct weft_ape_coord at)
{
	char path[PATH_MAX], line[512];
	FILE *log;

	if (weft_torus_node(o->home, at.at, "log", path))
		return;
	log = fopen(path, "re");
	while (log && fgets(line, sizeof(line), log))
		fputs(line, stderr);
	if (log)
		fclose(log);
}

static int fork_cards(const struct weft_torus_options *o, const struct weft_ape_lattice *l,
		      unsigned int nodes)
{
	for (unsigned int i = 0; i < nodes; i++) {
		pid_t pid = weft_torus_is_here(&o->shape, i) ? fork() : getpid();

		if (pid < 0)
			return -errno;
		if (!pid)
			exec_card(o, weft_ape_lattice_coord(l, i), -1);
	}
	return 0;
}

static int await_cards(const struct weft_torus_options *o, const struct weft_ape_lattice *l,
		       unsigned int nodes)
{
	uint64_t until = weft_clock_now_ns() + UP_NS;

	for (unsigned int i = 0; i < nodes;) {
		struct weft_ape_coord at = weft_ape_lattice_coord(l, i);

		if (!weft_torus_is_here(&o->shape, i) || is_card_ready(o, at)) {
			i++;
			continue;
		}
		if (weft_clock_now_ns() > until) {
			show_log(o, at);
			return -ETIMEDOUT;
		}
		nap();
	}
	return 0;
}

static int start_cards(const struct weft_torus_options *o, const struct weft_ape_lattice *l,
		       unsigned int nodes)
{
	struct weft_delivery delivery;
	int err;

	if (weft_delivery_find(&delivery))
		return -ENOENT;
	snprintf(card_program, sizeof(card_program), "%s/weftd", delivery.libs);
	err = o->shape.netns ? weft_torus_netns_start(o, l, nodes, exec_card)
			     : fork_cards(o, l, nodes);
	return err ? err : await_cards(o, l, nodes);
}

int weft_torus_up(struct weft_torus_options *o)
{
	unsigned int nodes = o->shape.size[0] * o->shape.size[1] * o->shape.size[2];
	struct weft_ape_lattice l = weft_torus_lattice(&o->shape);
	int err;

	signal(SIGCHLD, SIG_IGN);
	if (signal_cards(o->home, 0)) {
		fprintf(stderr, "weft torus: '%s' is up; weft torus down ends it\n", o->name);
		return 1;
	}
	if (!access(o->home, F_OK) && weft_torus_clear(o->home) >= 0)
		fprintf(stderr, "weft torus: what was left of a torus '%s' is removed\n", o->name);
	err = make_files(o, &l, nodes);
	if (!err)
		err = start_cards(o, &l, nodes);
	if (!err) {
		if (o->shape.parts > 1)
			printf("part %u/%u of %s is up: %u of %u nodes\n", o->shape.part,
			       o->shape.parts, o->name,
			       weft_torus_first(&o->shape, o->shape.part + 1) -
				       weft_torus_first(&o->shape, o->shape.part),
			       nodes);
		else
			printf("%s is up: %u nodes\n", o->name, nodes);
		return 0;
	}
	fprintf(stderr, "weft torus: %s: %s\n", o->home, strerror(-err));
	if (err != -EEXIST)
		weft_torus_clear(o->home);
	return 1;
}
