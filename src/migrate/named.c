/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/named.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "migrate/procmap.h"

/* A name that is longer is none of those that are asked for. */
#define NAME_BYTES 512
#define TEXT_BYTES 4096

static bool has_word(const char *name, const char *const *words)
{
	while (*words && !strstr(name, *words))
		words++;
	return *words;
}

/* Mappings of one file have one name: that of the next is asked for only where the file is another. -errno: the kernel
 * does not answer. */
static int by_query(int fd, const char *const *words, unsigned int *looked_at)
{
	struct weft_procmap query = {0}, last = {0};
	char name[NAME_BYTES];

	for (uint64_t at = 0;; at = query.vma_end) {
		query = (struct weft_procmap){
			.size = sizeof(query),
			.query_flags = WEFT_PROCMAP_COVERING_OR_NEXT | WEFT_PROCMAP_SHARED |
				       WEFT_PROCMAP_OF_FILE,
			.query_addr = at,
		};
		if (syscall(SYS_ioctl, fd, WEFT_PROCMAP_QUERY, &query))
			return errno == ENOENT ? 0 : -errno;
		++*looked_at;
		if (query.inode == last.inode && query.dev_minor == last.dev_minor &&
		    query.dev_major == last.dev_major)
			continue;
		last = query;
		query.vma_name_addr = (uintptr_t)name;
		query.vma_name_size = sizeof(name);
		if (!syscall(SYS_ioctl, fd, WEFT_PROCMAP_QUERY, &query) && has_word(name, words))
			return 1;
	}
}

/* Of a line `7f0000000000-7f0000001000 rw-s 00000000 00:0e 1 /name`. */
static bool is_shared(const char *line)
{
	const char *flags = strchr(line, ' ');

	return flags && strlen(flags) > 4 && flags[4] == 's';
}

static int by_text(int fd, const char *const *words, unsigned int *looked_at)
{
	static char text[TEXT_BYTES];
	char line[NAME_BYTES];
	size_t len = 0;
	long got;

	while ((got = syscall(SYS_read, fd, text, sizeof(text))) > 0) {
		for (long i = 0; i < got; i++) {
			if (text[i] != '\n') {
				if (len < sizeof(line) - 1)
					line[len++] = text[i];
				continue;
			}
			line[len] = '\0';
			len = 0;
			++*looked_at;
			if (is_shared(line) && has_word(line, words))
				return 1;
		}
	}
	return got < 0 ? -errno : 0;
}

bool weft_named_shared(const char *const *words, unsigned int *looked_at)
{
	long fd = syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
	int found;

	*looked_at = 0;
	if (fd < 0)
		return true;
	found = by_query((int)fd, words, looked_at);
	if (found < 0)
		found = by_text((int)fd, words, looked_at);
	syscall(SYS_close, fd);
	return found;
}
