/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "shim/expand.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/path.h"
#include "process/gid.h"

/* A page, the most that a file in sysfs holds. */
struct text {
	char bytes[4096];
	size_t len;
};

static bool gid_at(unsigned long index, struct weft_gid_entry *entry)
{
	struct weft_gid_entry *table = calloc(WEFT_GID_TABLE_LEN, sizeof(*table));
	int n = table ? weft_gid_table(table, WEFT_GID_TABLE_LEN) : 0;
	bool used = n > 0 && index < (unsigned long)n;

	if (used)
		*entry = table[index];
	free(table);
	return used;
}

static void print_id(struct text *t, const uint8_t *id, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 2)
		t->len += (size_t)sprintf(t->bytes + t->len, "%s%02x%02x", i ? ":" : "", id[i],
					  id[i + 1]);
	t->bytes[t->len++] = '\n';
}

/* -EINVAL where reading the kernel's file would give that. */
static int expand_gid(const char *path, const char *word, struct text *t)
{
	bool device = !strcmp(word, "@guid");
	unsigned long index = device ? 0 : strtoul(strrchr(path, '/') + 1, NULL, 10);
	struct weft_gid_entry entry = {.index = 0};
	bool used = gid_at(index, &entry);

	if (device)
		print_id(t, entry.gid + 8, 8);
	else if (!strcmp(word, "@gid"))
		print_id(t, entry.gid, 16);
	else if (!used)
		return -EINVAL;
	else
		t->len = (size_t)snprintf(t->bytes, sizeof(t->bytes), "%s\n",
					  !strcmp(word, "@type") ? weft_gid_type_str(entry.type)
								 : entry.netdev);
	return 0;
}

static int read_online(struct text *t)
{
	FILE *f = WEFT_NEXT(fopen)("/sys/devices/system/cpu/online", "re");

	if (!f)
		return -errno;
	t->len = fread(t->bytes, 1, sizeof(t->bytes) - 1, f);
	t->bytes[t->len] = '\0';
	fclose(f);
	return 0;
}

/* "0-2,5" becomes "27": words of 32 processors in hex, the highest first, with commas. */
static void mask_of_list(struct text *t)
{
	uint32_t words[256] = {0}; /* 8,192 processors, the kernel's limit */
	char *list = t->bytes;
	size_t n = 1;

	while (*list >= '0' && *list <= '9') {
		unsigned long first = strtoul(list, &list, 10);
		unsigned long last = *list == '-' ? strtoul(list + 1, &list, 10) : first;

		for (; first <= last && first < 32 * 256; first++) {
			words[first / 32] |= 1u << first % 32;
			n = first / 32 + 1;
		}
		list += *list == ',';
	}
	t->len = (size_t)sprintf(t->bytes, "%x", words[n - 1]);
	while (--n)
		t->len += (size_t)sprintf(t->bytes + t->len, ",%08x", words[n - 1]);
	t->bytes[t->len++] = '\n';
}

static int expand(const char *path, const char *word, struct text *t)
{
	int err;

	if (strncmp(word, "@cpu", 4))
		return expand_gid(path, word, t);
	err = read_online(t);
	if (!err && !strcmp(word, "@cpus"))
		mask_of_list(t);
	return err;
}

static int make_memfd(const struct text *t)
{
	int fd = memfd_create("weft-sysfs", MFD_CLOEXEC);

	if (fd >= 0 && (write(fd, t->bytes, t->len) != (ssize_t)t->len || lseek(fd, 0, SEEK_SET))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int weft_expand_fd(int fd, const char *path, int flags)
{
	struct text t = {.len = 0};
	char word[16];
	ssize_t n = pread(fd, word, sizeof(word) - 1, 0);
	int made, err;

	if (n < 1 || word[0] != '@')
		return fd;
	word[n] = '\0';
	err = expand(path, word, &t);
	/* A descriptor that is no file for reading answers EINVAL. */
	made = err ? epoll_create1(EPOLL_CLOEXEC) : make_memfd(&t);
	if (made < 0 || dup3(made, fd, flags & O_CLOEXEC) < 0) {
		err = errno;
		if (made >= 0)
			close(made);
		close(fd);
		errno = err;
		return -1;
	}
	close(made);
	return fd;
}
