/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reserving pages. A tmpfs that is full answers fallocate with ENOSPC, which is what we want; a
 * memory cgroup that is full answers with SIGKILL, so its head-room is looked at first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backing/private.h"
#include "pool/sizes.h"

#define MARGIN	(1ull << 20) /* left to the program itself */
#define TRUSTED (1ull << 20)

static uint64_t read_number(const char *dir, const char *file)
{
	char path[PATH_MAX], text[32];
	uint64_t value = UINT64_MAX;
	FILE *f;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path))
		return value;
	f = fopen(path, "re");
	if (!f)
		return value;
	if (fgets(text, sizeof(text), f) && text[0] >= '0' && text[0] <= '9')
		value = strtoull(text, NULL, 10);
	fclose(f);
	return value;
}

/* The least head-room from the cgroup at root/path up to the root. */
static uint64_t head_room_of(const char *root, const char *path, const char *limit,
			     const char *usage)
{
	uint64_t least = UINT64_MAX;
	char dir[PATH_MAX];
	size_t bare = strlen(root);

	if ((size_t)snprintf(dir, sizeof(dir), "%s%s", root, path) >= sizeof(dir))
		return least;
	for (;;) {
		uint64_t max = read_number(dir, limit), now = read_number(dir, usage);
		char *slash;

		/* v1 says "no limit" with a number near 2^63 */
		if (max < (1ull << 62) && now != UINT64_MAX) {
			uint64_t left = max > now ? max - now : 0;

			least = left < least ? left : least;
		}
		slash = strrchr(dir + bare, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

uint64_t weft_reserve_head_room(void)
{
	uint64_t least = UINT64_MAX, room;
	char line[PATH_MAX];
	FILE *f = fopen("/proc/self/cgroup", "re");

	if (!f)
		return least;
	while (fgets(line, sizeof(line), f)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (!controllers[1])
			room = head_room_of("/sys/fs/cgroup", path, "memory.max", "memory.current");
		else if (!strcmp(controllers + 1, "memory"))
			room = head_room_of("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes",
					    "memory.usage_in_bytes");
		else
			continue;
		least = room < least ? room : least;
	}
	fclose(f);
	return least;
}

/*
 * Small reservations under no limit are the common case and must not read files each time: what
 * the last look found is trusted until it is used up.
 */
static bool fits(uint64_t len_bytes)
{
	static _Thread_local uint64_t left;
	uint64_t room;

	if (len_bytes <= left) {
		left -= len_bytes;
		return true;
	}
	room = weft_reserve_head_room();
	if (room < MARGIN || len_bytes > room - MARGIN)
		return false;
	room -= MARGIN + len_bytes;
	left = room < TRUSTED ? room : TRUSTED;
	return true;
}

int weft_reserve_file(int fd, uint64_t off, uint64_t len_bytes)
{
	int err;

	if (!fits(len_bytes))
		return -ENOSPC;
	do
		err = fallocate(fd, 0, (off_t)off, (off_t)len_bytes) ? errno : 0;
	while (err == EINTR);
	return err == ENOMEM ? -ENOSPC : -err;
}

/* What it lies in, and where there. A range is the home's whole, or not at all. */
static int descriptor_of(struct weft_backed *b, uint64_t off, uint64_t len_bytes, uint64_t *at)
{
	bool near = off >= WEFT_OFF_HOME && off < WEFT_OFF_HOME_END;

	*at = near ? off : weft_parts_at(&b->parts, off, len_bytes);
	return *at == UINT64_MAX ? -ENOSPC : weft_descriptor(near ? b->home : &b->far);
}

int weft_reserve(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
	uint64_t at;
	int fd = descriptor_of(b, off, len_bytes, &at);

	return fd < 0 ? fd : weft_reserve_file(fd, at, len_bytes);
}

int weft_reserve_end(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
	uint64_t at;
	int fd = descriptor_of(b, off, len_bytes, &at);

	if (fd < 0)
		return fd;
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)len_bytes);
	return 0;
}
