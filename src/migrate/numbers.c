/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/numbers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's format of a directory's entry. */
struct entry {
	uint64_t inode;
	int64_t next;
	uint16_t len_bytes;
	uint8_t type;
	char name[];
};

#define LIST_BYTES 4096

/* One thread at a time is here. */
static union {
	struct entry first;
	char bytes[LIST_BYTES];
} list;

static bool parse_number(const char *name, int *number)
{
	*number = 0;
	if (*name < '0' || *name > '9')
		return false;
	for (; *name >= '0' && *name <= '9'; name++)
		*number = *number * 10 + (*name - '0');
	return true;
}

int weft_numbers_each(int folder, void (*fn)(int number, void *arg), void *arg)
{
	long len;

	if (syscall(SYS_lseek, folder, 0, SEEK_SET))
		return -errno;
	while ((len = syscall(SYS_getdents64, folder, &list, sizeof(list))) > 0) {
		const struct entry *entry;
		int number;

		for (long at = 0; at < len; at += entry->len_bytes) {
			entry = (const struct entry *)(list.bytes + at);
			if (parse_number(entry->name, &number))
				fn(number, arg);
		}
	}
	return len < 0 ? -errno : 0;
}

int weft_numbers_name(int number, char name[WEFT_NUMBERS_NAME])
{
	char digits[WEFT_NUMBERS_NAME];
	int count = 0, at = 0;

	do
		digits[count++] = (char)('0' + number % 10);
	while (number /= 10);
	while (count)
		name[at++] = digits[--count];
	name[at] = '\0';
	return at;
}
