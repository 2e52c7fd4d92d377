/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which process holds the file lock. The kernel tells no owner of such a lock to others: it stands in what each
 * process says of its descriptors.
 */
#include "backing/lock_owner.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_number(const char *name)
{
	return isdigit((unsigned char)*name);
}

/* A line as in /proc/locks: "lock:  1: OFDLCK  ADVISORY  WRITE -1 00:19:1234 0 0", byte 0 alone. */
static bool says_locked(const char *path)
{
	static const char byte[] = " 0 0\n";
	bool found = false;
	char line[256];
	FILE *f = fopen(path, "re");

	while (f && !found && fgets(line, sizeof(line), f)) {
		size_t len = strlen(line);

		found = !strncmp(line, "lock:", 5) && strstr(line, "OFDLCK") &&
			len > sizeof(byte) && !strcmp(line + len - (sizeof(byte) - 1), byte);
	}
	if (f)
		fclose(f);
	return found;
}

static bool holds(const char *pid, const struct stat *file)
{
	char path[2 * NAME_MAX];
	struct dirent *e;
	bool found = false;
	struct stat st;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%.16s/fd/%.16s", pid, e->d_name);
		if (!is_number(e->d_name) || stat(path, &st) || st.st_ino != file->st_ino ||
		    st.st_dev != file->st_dev)
			continue;
		snprintf(path, sizeof(path), "/proc/%.16s/fdinfo/%.16s", pid, e->d_name);
		found = says_locked(path);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* "1234 (name) T ...": the name may hold anything. */
static void read_process(const char *pid, struct weft_lock_owner *owner)
{
	char path[64], text[256] = "", *from, *to;
	FILE *f;

	*owner = (struct weft_lock_owner){.pid = atoi(pid)};
	snprintf(path, sizeof(path), "/proc/%.16s/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	from = strchr(text, '(');
	to = strrchr(text, ')');
	if (!from || !to)
		return;
	snprintf(owner->comm, sizeof(owner->comm), "%.*s", (int)(to - from - 1), from + 1);
	owner->stopped = !strncmp(to, ") T", 3) || !strncmp(to, ") t", 3);
}

bool weft_lock_owner_find(int fd, struct weft_lock_owner *owner)
{
	struct dirent *e;
	bool found = false;
	struct stat file;
	DIR *proc;

	*owner = (struct weft_lock_owner){0};
	if (fstat(fd, &file))
		return false;
	proc = opendir("/proc");
	/* a child that was forked in the middle has the description, too: rather the one that is stopped */
	while (proc && !owner->stopped && (e = readdir(proc))) {
		if (!is_number(e->d_name) || !holds(e->d_name, &file))
			continue;
		read_process(e->d_name, owner);
		found = true;
	}
	if (proc)
		closedir(proc);
	return found;
}

void weft_lock_owner_text(int fd, char *text, size_t text_bytes)
{
	struct weft_lock_owner h;

	if (weft_lock_owner_find(fd, &h))
		snprintf(text, text_bytes, "process %d (%s)%s holds its lock", (int)h.pid, h.comm,
			 h.stopped ? ", which is stopped," : "");
	else
		snprintf(text, text_bytes,
			 "a process that cannot be seen from here holds its lock");
}
