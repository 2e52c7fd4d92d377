/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "link/owner.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/address.h"

struct entry {
	unsigned int uid;
	unsigned long inode;
};

/* Whether a line of the kernel's table is of that port, and of that address or of all addresses. */
static bool is_it(const char *line, const uint8_t gid[16], uint16_t port, struct entry *entry)
{
	char address[33];
	unsigned int at_port, word[4] = {0}, ours[4];
	bool is_four;

	if (sscanf(line, " %*d: %32[0-9A-F]:%X %*s %*s %*s %*s %*s %u %*s %lu", address, &at_port,
		   &entry->uid, &entry->inode) != 4 ||
	    at_port != port)
		return false;
	is_four = strlen(address) == 8;
	/* words of four bytes as they lie in memory */
	memcpy(ours, gid, sizeof(ours));
	for (int i = is_four ? 3 : 0; i < 4; i++)
		sscanf(address + (is_four ? 0 : 8 * i), "%8X", &word[i]);
	if (!(word[0] | word[1] | word[2] | word[3]))
		return true;
	return is_four == weft_address_is_ipv4(gid) &&
	       !memcmp(word + (is_four ? 3 : 0), ours + (is_four ? 3 : 0), is_four ? 4 : 16);
}

static bool find_in(const char *table, const uint8_t gid[16], uint16_t port, struct entry *entry)
{
	FILE *file = fopen(table, "re");
	char line[512];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = is_it(line, gid, port, entry);
	if (file)
		fclose(file);
	return found;
}

static bool holds_socket(const char *pid, unsigned long inode)
{
	char path[300], wanted[64], found[64];
	struct dirent *d;
	bool holds_it = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	dir = opendir(path);
	while (dir && !holds_it && (d = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), d->d_name, found, sizeof(found) - 1);

		found[n > 0 ? n : 0] = 0;
		holds_it = !strcmp(found, wanted);
	}
	if (dir)
		closedir(dir);
	return holds_it;
}

static bool name_program(unsigned long inode, char text[WEFT_OWNER_TEXT])
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	bool found = false;

	while (dir && !found && (d = readdir(dir))) {
		char path[300], comm[32] = "?";
		FILE *file;

		if (d->d_name[0] < '0' || d->d_name[0] > '9' || !holds_socket(d->d_name, inode))
			continue;
		found = true;
		snprintf(path, sizeof(path), "/proc/%s/comm", d->d_name);
		file = fopen(path, "re");
		if (file && fgets(comm, sizeof(comm), file))
			comm[strcspn(comm, "\n")] = 0;
		if (file)
			fclose(file);
		snprintf(text, WEFT_OWNER_TEXT, "%s, process %.16s", comm, d->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

bool weft_owner_of_port(const uint8_t gid[16], uint16_t port, char text[WEFT_OWNER_TEXT])
{
	struct entry entry;

	if (!find_in("/proc/net/udp", gid, port, &entry) &&
	    !find_in("/proc/net/udp6", gid, port, &entry))
		return false;
	if (!name_program(entry.inode, text))
		snprintf(text, WEFT_OWNER_TEXT, "%sa program of user %u",
			 entry.uid ? "" : "the kernel's rdma_rxe, or ", entry.uid);
	return true;
}
