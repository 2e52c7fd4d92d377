/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/pins.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/clock.h"
#include "migrate/vma.h"

/* So many shared mappings, at a microsecond each, are looked at each time. */
#define CHEAP_LOOK 64u

/* Fixed buffers, of rings that nobody can see, too: whichever process holds the ring, they are pages of ours. */
static bool has_pinned(void)
{
	char text[8192]; /* the line stands behind that of the groups, of which there may be many */
	int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
	const char *line = NULL;
	ssize_t len;

	if (fd < 0)
		return true; /* cannot tell */
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len > 0) {
		text[len] = '\0';
		line = strstr(text, "\nVmPin:");
	}
	return !line || strtoul(line + 7, NULL, 10) != 0;
}

/* Only files without a type can be rings: sockets and their like need not be asked for their name. */
static bool is_ring(int dir, const char *name)
{
	char target[32];
	struct stat st;
	ssize_t len;

	if (name[0] == '.' || fstat(atoi(name), &st) || st.st_mode & S_IFMT)
		return false;
	len = readlinkat(dir, name, target, sizeof(target) - 1);
	if (len <= 0)
		return false;
	target[len] = '\0';
	return !strcmp(target, "anon_inode:[io_uring]");
}

static bool has_ring_descriptor(void)
{
	DIR *dir = opendir("/proc/thread-self/fd");
	struct dirent *entry;
	bool found = false;

	if (!dir)
		return true; /* cannot tell */
	while (!found && (entry = readdir(dir)))
		found = is_ring(dirfd(dir), entry->d_name);
	closedir(dir);
	return found;
}

/* A ring goes on without its descriptor, as long as it is mapped or a thread has registered it. Where there are
 * many mappings, looking takes a twentieth of the time at most. */
static bool has_ring_mapping(void)
{
	static const char *const names[] = {"anon_inode:[io_uring]", "/[aio]", NULL};
	static uint64_t next_ns;
	uint64_t begun_ns = weft_clock_now_ns();
	unsigned int looked_at;
	bool found;

	if (begun_ns < next_ns)
		return false;
	found = weft_vma_shared_named(names, &looked_at);
	if (!found && looked_at > CHEAP_LOOK)
		next_ns = begun_ns + 20 * (weft_clock_now_ns() - begun_ns);
	return found;
}

bool weft_pins_any(void)
{
	return has_pinned() || has_ring_mapping() || has_ring_descriptor();
}
