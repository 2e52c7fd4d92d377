/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "link/torus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_name(const char *name)
{
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789-_");

	return length && !name[length] && length < WEFT_TORUS_NAME_BYTES;
}

static int path_fits(int length)
{
	return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int weft_torus_home(const char *name, char path[PATH_MAX])
{
	const char *base = getenv(WEFT_TORUS_HOME_ENV);

	if (!is_name(name))
		return -EINVAL;
	return path_fits(snprintf(path, PATH_MAX, "%s/weft-torus-%u-%s",
				  base && *base ? base : "/dev/shm", (unsigned int)geteuid(),
				  name));
}

int weft_torus_node(const char *home, const uint8_t at[3], const char *file, char path[PATH_MAX])
{
	return path_fits(snprintf(path, PATH_MAX, "%s/%u.%u.%u%s%s", home, at[0], at[1], at[2],
				  file ? "/" : "", file ? file : ""));
}

int weft_torus_cable(const char *home, const uint8_t at[3], unsigned int cable, char path[PATH_MAX])
{
	return path_fits(snprintf(path, PATH_MAX, "%s/cables/%u.%u.%u-%u", home, at[0], at[1],
				  at[2], cable));
}

/* ---- The lattice ---- */

#define FORMAT "size %u %u %u\nline %u %u %u\norder %u %u %u\ntie %u\nchannels %u\nquads %u\n"
#define MORE   "fifo %u %u\nengines %u\nlocals %u\n"
#define FIELDS 16

static int path_of(const char *home, char path[PATH_MAX])
{
	return path_fits(snprintf(path, PATH_MAX, "%s/lattice", home));
}

static int open_shape(const char *home, const char *mode, FILE **f)
{
	char path[PATH_MAX];
	int err = path_of(home, path);

	if (err)
		return err;
	*f = fopen(path, mode);
	return *f ? 0 : -errno;
}

int weft_torus_save(const char *home, const struct weft_torus_shape *s)
{
	FILE *f;
	int err = open_shape(home, "wxe", &f);

	if (err)
		return err;
	fprintf(f, FORMAT MORE, s->size[0], s->size[1], s->size[2], s->line[0], s->line[1],
		s->line[2], s->order[0], s->order[1], s->order[2], s->tie, s->channels, s->quads,
		s->header_depth, s->data_depth, s->engines, s->locals);
	return fclose(f) ? -errno : 0;
}

int weft_torus_load(const char *home, struct weft_torus_shape *s)
{
	FILE *f;
	int err = open_shape(home, "re", &f), fields;

	if (err)
		return err;
	fields = fscanf(f, FORMAT MORE, &s->size[0], &s->size[1], &s->size[2], &s->line[0],
			&s->line[1], &s->line[2], &s->order[0], &s->order[1], &s->order[2], &s->tie,
			&s->channels, &s->quads, &s->header_depth, &s->data_depth, &s->engines,
			&s->locals);
	fclose(f);
	return fields == FIELDS ? 0 : -EPROTO;
}

/* ---- Doors ---- */

struct weft_torus_door *weft_torus_door_open(const char *path, bool make, int *fd)
{
	int file = open(path, O_RDWR | O_CLOEXEC | (make ? O_CREAT : 0), 0600), err = 0;
	struct weft_torus_door *door = MAP_FAILED;
	struct stat st;

	*fd = -1;
	if (file < 0)
		return NULL;
	if (make)
		err = posix_fallocate(file, 0, sizeof(*door));
	else if (fstat(file, &st) || (size_t)st.st_size < sizeof(*door))
		err = EPROTO;
	if (!err)
		door = mmap(NULL, sizeof(*door), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (door == MAP_FAILED) {
		err = err ? err : errno;
		close(file);
		errno = err;
		return NULL;
	}
	*fd = file;
	return door;
}

void weft_torus_door_close(struct weft_torus_door *door)
{
	munmap(door, sizeof(*door));
}
