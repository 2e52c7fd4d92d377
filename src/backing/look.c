/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The file, for a process that is no member: opened for reading only, and never mapped, as a load from a hole
 * would allocate it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backing/lock_owner.h"
#include "backing/private.h"

#define NO_POOL	    "there is no pool yet"
#define PATIENCE_MS 100 /* the process that holds the lock needs microseconds */
#define MS_NS	    1000000ull

/* A member that leaves adds its counters to those of the departed, and zeroes them: under the lock it is one
 * step. Yet no other process may make this one wait for ever. */
static bool lock_shared(int fd)
{
	for (int i = 0; i < PATIENCE_MS; i++) {
		if (!weft_lock_file_shared(fd))
			return true;
		weft_pause(16 * MS_NS);
	}
	return false;
}

static int check_file(struct weft_backed *b, bool own, uint64_t signature, const char **why)
{
	struct stat st;

	*why = "the pool cannot be read";
	if (fstat(b->far.fd, &st))
		return -errno;
	b->far.dev = st.st_dev;
	b->far.ino = st.st_ino;
	if (S_ISREG(st.st_mode) && !st.st_size) {
		*why = NO_POOL;
		return -ENOENT;
	}
	return weft_file_check(b->far.fd, own, signature, &b->bytes, why);
}

int weft_look(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
	      uint64_t *bytes, bool *locked, const char **why)
{
	struct weft_backed *b = weft_file_begin(path, why);
	int err;

	if (!b)
		return -ENOMEM;
	/* O_NONBLOCK: a FIFO of that name must not hold us */
	b->far.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	*why = errno == ENOENT ? NO_POOL : "the pool file cannot be opened";
	err = -errno;
	if (b->far.fd < 0)
		goto free_b;
	*locked = lock_shared(b->far.fd);
	err = check_file(b, own, signature, why);
	if (err)
		goto close_file;
	*bytes = b->bytes;
	*backed = b;
	return 0;
close_file:
	close(b->far.fd);
free_b:
	free(b);
	return err;
}

void weft_look_unlock(struct weft_backed *b)
{
	weft_lock_release(b->far.fd);
}

bool weft_look_read(const struct weft_backed *b, void *to, uint64_t bytes, uint64_t off)
{
	return pread(b->far.fd, to, bytes, (off_t)off) == (ssize_t)bytes;
}

/* It is a part of the file. */
bool weft_look_read_home(const struct weft_backed *b, uint32_t host, void *to, uint64_t bytes,
			 uint64_t off)
{
	return weft_look_read(b, to, bytes, off);
}

int weft_look_proven(struct weft_backed *b, uint32_t host, uint16_t member)
{
	return weft_lock_lives(b, member);
}

uint64_t weft_look_allocated(const struct weft_backed *b)
{
	struct stat st;

	return fstat(b->far.fd, &st) ? 0 : (uint64_t)st.st_blocks * 512;
}

void weft_look_lock_owner(const struct weft_backed *b, char *text, size_t text_bytes)
{
	weft_lock_owner_text(b->far.fd, text, text_bytes);
}
