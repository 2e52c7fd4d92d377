/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/pins.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/clock.h"
#include "migrate/named.h"
#include "migrate/numbers.h"

/* So many shared mappings, at a microsecond each, are looked at each time. */
#define CHEAP_LOOK 64u

static int open_proc(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | flags);
}

/* Fixed buffers, of rings that cannot be seen, too: whichever process holds the ring, they are pages of ours. */
static bool has_pinned(void)
{
	static char text
		[8192]; /* the line stands behind that of the groups, of which there may be many */
	int fd = open_proc("/proc/thread-self/status", 0);
	const char *line = NULL;
	long len;

	if (fd < 0)
		return true; /* cannot tell */
	len = syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	if (len > 0) {
		text[len] = '\0';
		line = strstr(text, "\nVmPin:");
	}
	if (!line)
		return true;
	line += strlen("\nVmPin:");
	return line[strcspn(line, "123456789\n")] != '\n';
}

struct look {
	int folder;
	bool found;
};

/* Only files without a type can be rings: sockets and their like need not be asked for their name. */
static void see_descriptor(int fd, void *arg)
{
	static const char ring[] = "anon_inode:[io_uring]";
	struct look *look = arg;
	char name[WEFT_NUMBERS_NAME], target[sizeof(ring) + 1];
	struct stat st;

	if (look->found || syscall(SYS_fstat, fd, &st) || st.st_mode & S_IFMT)
		return;
	weft_numbers_name(fd, name);
	look->found = syscall(SYS_readlinkat, look->folder, name, target, sizeof(target)) ==
			      (long)strlen(ring) &&
		      !strncmp(target, ring, strlen(ring));
}

static bool has_ring_descriptor(void)
{
	struct look look = {.folder = open_proc("/proc/thread-self/fd", O_DIRECTORY)};
	int err;

	if (look.folder < 0)
		return true; /* cannot tell */
	err = weft_numbers_each(look.folder, see_descriptor, &look);
	syscall(SYS_close, look.folder);
	return err || look.found;
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
	found = weft_named_shared(names, &looked_at);
	if (!found && looked_at > CHEAP_LOOK)
		next_ns = begun_ns + 20 * (weft_clock_now_ns() - begun_ns);
	return found;
}

bool weft_pins_any(void)
{
	return has_pinned() || has_ring_mapping() || has_ring_descriptor();
}
