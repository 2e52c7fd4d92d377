/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "migrate/procmap.h"

/* So often the number of mappings is counted; eight times so often when they seem too many. */
#define CALLS_PER_COUNT 4096u

static int next_by_query(int fd, uintptr_t addr, struct weft_vma *vma)
{
	struct weft_procmap query = {
		.size = sizeof(query),
		.query_flags = WEFT_PROCMAP_COVERING_OR_NEXT,
		.query_addr = addr,
	};

	if (ioctl(fd, WEFT_PROCMAP_QUERY, &query))
		return -errno;
	*vma = (struct weft_vma){
		.start = query.vma_start,
		.end = query.vma_end,
		.off = query.vma_offset,
		.inode = query.inode,
		.dev_major = query.dev_major,
		.dev_minor = query.dev_minor,
		.prot = (query.vma_flags & WEFT_PROCMAP_READABLE ? PROT_READ : 0) |
			(query.vma_flags & WEFT_PROCMAP_WRITABLE ? PROT_WRITE : 0) |
			(query.vma_flags & WEFT_PROCMAP_EXECUTABLE ? PROT_EXEC : 0),
		.shared = query.vma_flags & WEFT_PROCMAP_SHARED,
	};
	return 0;
}

static bool parse_mapping(const char *line, struct weft_vma *vma)
{
	char flags[5];

	if (sscanf(line,
		   "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64,
		   &vma->start, &vma->end, flags, &vma->off, &vma->dev_major, &vma->dev_minor,
		   &vma->inode) != 7)
		return false;
	vma->prot = (flags[0] == 'r' ? PROT_READ : 0) | (flags[1] == 'w' ? PROT_WRITE : 0) |
		    (flags[2] == 'x' ? PROT_EXEC : 0);
	vma->shared = flags[3] == 's';
	return true;
}

/* One line, the rest of an overlong one thrown away: only names are long. */
static bool read_text_line(FILE *text, char *line, int size)
{
	if (!fgets(line, size, text))
		return false;
	if (!strchr(line, '\n')) {
		int c;

		do {
			c = getc(text);
		} while (c != '\n' && c != EOF);
	}
	return true;
}

static int next_by_text(struct weft_vma_walk *walk, uintptr_t addr, struct weft_vma *vma)
{
	char line[512];

	if (addr < walk->last.start) {
		rewind(walk->text);
		walk->last = (struct weft_vma){0};
	}
	while (walk->last.end <= addr) {
		if (!read_text_line(walk->text, line, sizeof(line)))
			return ferror(walk->text) ? -EIO : -ENOENT;
		if (!parse_mapping(line, &walk->last))
			return -EIO;
	}
	*vma = walk->last;
	return 0;
}

int weft_vma_open(struct weft_vma_walk *walk)
{
	struct weft_vma vma;

	*walk = (struct weft_vma_walk){.fd = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC)};
	if (walk->fd < 0)
		return -errno;
	if (!next_by_query(walk->fd, 0, &vma))
		return 0;
	walk->text = fdopen(walk->fd, "re");
	if (!walk->text) {
		close(walk->fd);
		return -ENOMEM;
	}
	return 0;
}

int weft_vma_next(struct weft_vma_walk *walk, uintptr_t addr, struct weft_vma *vma)
{
	if (walk->text)
		return next_by_text(walk, addr, vma);
	return next_by_query(walk->fd, addr, vma);
}

void weft_vma_close(struct weft_vma_walk *walk)
{
	if (walk->text)
		fclose(walk->text);
	else
		close(walk->fd);
}

unsigned int weft_vma_count(void)
{
	char buffer[16384];
	unsigned int count = 0;
	ssize_t got;
	int fd = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	while ((got = read(fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t i = 0; i < got; i++)
			count += buffer[i] == '\n';
	}
	close(fd);
	return count;
}

static unsigned int most_mappings(void)
{
	char text[24] = "";
	int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
	unsigned long most = 0;

	if (fd >= 0) {
		if (read(fd, text, sizeof(text) - 1) > 0)
			most = strtoul(text, NULL, 10);
		close(fd);
	}
	return (unsigned int)((most ? most : 65530) / 4 * 3);
}

bool weft_vma_room(unsigned int more)
{
	static unsigned int estimate, most, calls;

	calls++;
	if (!most || calls > CALLS_PER_COUNT ||
	    (calls > CALLS_PER_COUNT / 8 && estimate + more > most)) {
		most = most_mappings();
		estimate = weft_vma_count();
		calls = 0;
	}
	if (estimate + more > most)
		return false;
	estimate += more;
	return true;
}
