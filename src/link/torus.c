/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "link/torus.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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
	char whole[PATH_MAX];

	if (!is_name(name))
		return -EINVAL;
	if (!base || !*base)
		base = "/dev/shm";
	/* a card works in another folder, and a program may */
	if (*base != '/') {
		base = realpath(base, whole);
		if (!base)
			return -errno;
	}
	return path_fits(snprintf(path, PATH_MAX, "%s/weft-torus-%u-%s", base,
				  (unsigned int)geteuid(), name));
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
#define CABLES "link %u\nphy %u\nlanes %u\npart %u %u\nnetns %u\ncookie %llx\n"
#define FIELDS 23

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
	char text[INET6_ADDRSTRLEN];
	FILE *f;
	int err = open_shape(home, "wxe", &f);

	if (err)
		return err;
	fprintf(f, FORMAT MORE CABLES, s->size[0], s->size[1], s->size[2], s->line[0], s->line[1],
		s->line[2], s->order[0], s->order[1], s->order[2], s->tie, s->channels, s->quads,
		s->header_depth, s->data_depth, s->engines, s->locals, s->link, s->phy, s->lanes,
		s->part, s->parts, s->netns, (unsigned long long)s->cookie);
	for (uint32_t i = 0; i < s->parts; i++)
		fprintf(f, "at %s %u\n", inet_ntop(AF_INET6, s->at[i].address, text, sizeof(text)),
			s->at[i].port);
	return fclose(f) ? -errno : 0;
}

static bool load_places(FILE *f, struct weft_torus_shape *s)
{
	char text[INET6_ADDRSTRLEN];

	for (uint32_t i = 0; i < s->parts; i++) {
		unsigned int port;

		if (fscanf(f, "at %45s %u\n", text, &port) != 2 ||
		    inet_pton(AF_INET6, text, s->at[i].address) != 1 || port > UINT16_MAX)
			return false;
		s->at[i].port = (uint16_t)port;
	}
	return true;
}

int weft_torus_load(const char *home, struct weft_torus_shape *s)
{
	unsigned long long cookie;
	FILE *f;
	int err = open_shape(home, "re", &f), fields;
	bool whole;

	if (err)
		return err;
	fields = fscanf(f, FORMAT MORE CABLES, &s->size[0], &s->size[1], &s->size[2], &s->line[0],
			&s->line[1], &s->line[2], &s->order[0], &s->order[1], &s->order[2], &s->tie,
			&s->channels, &s->quads, &s->header_depth, &s->data_depth, &s->engines,
			&s->locals, &s->link, &s->phy, &s->lanes, &s->part, &s->parts, &s->netns,
			&cookie);
	s->cookie = cookie;
	whole = fields == FIELDS && s->link <= WEFT_TORUS_UDP && s->phy <= WEFT_TORUS_64B66B &&
		s->lanes && s->lanes <= 4 && s->parts && s->parts <= WEFT_TORUS_PARTS &&
		s->part < s->parts && load_places(f, s);
	fclose(f);
	return whole ? 0 : -EPROTO;
}

uint32_t weft_torus_first(const struct weft_torus_shape *s, uint32_t part)
{
	return s->size[0] * s->size[1] * s->size[2] * part / s->parts;
}

uint32_t weft_torus_part(const struct weft_torus_shape *s, uint32_t node)
{
	uint32_t part = s->parts - 1;

	while (node < weft_torus_first(s, part))
		part--;
	return part;
}

bool weft_torus_is_here(const struct weft_torus_shape *s, uint32_t node)
{
	return weft_torus_part(s, node) == s->part;
}

/* A beat of 128 bits is 160 of 8b10b; each 64 of a lane are 66 of 64b66b. */
uint32_t weft_torus_ring_quads(const struct weft_torus_shape *s)
{
	uint32_t bits = s->phy == WEFT_TORUS_NO_PHY  ? 64 * s->quads
			: s->phy == WEFT_TORUS_8B10B ? 160
						     : 66 * s->lanes;

	return (bits + 63) / 64;
}

#define BEATS_LEAST 2048u

uint32_t weft_torus_ring_beats(const struct weft_torus_shape *s)
{
	/* all that may be under way: a FIFO of words, what stands round packets, and a burst */
	uint32_t words = s->data_depth + s->data_depth / 64 + WEFT_TORUS_BURST, beats = BEATS_LEAST;

	/* in one of 64 bits, or a slot of one lane, a word is two */
	while (beats < words * (s->quads < 2 || s->phy != WEFT_TORUS_NO_PHY ? 2 : 1))
		beats *= 2;
	return beats;
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

bool weft_torus_door_is_locked(int fd)
{
	if (flock(fd, LOCK_SH | LOCK_NB))
		return errno == EWOULDBLOCK;
	flock(fd, LOCK_UN);
	return false;
}
