/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Holding stores back by userfaultfd: threads sleep in their fault, without a signal. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/format.h"
#include "pool/hold.h"
#include "pool/step.h"
#include "pool/unhooked.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* Kept open: closing it takes time for each mapping of the process. */
static int uffd = -1;
static struct stat identity; /* the program may have closed it and opened something else */

static bool is_open(void)
{
	struct stat now;

	return uffd >= 0 && !fstat(uffd, &now) && now.st_dev == identity.st_dev &&
	       now.st_ino == identity.st_ino;
}

static int open_uffd(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_HUGETLBFS_SHMEM };

	/* the privileged kind also lets other threads' system calls wait, not fail */
	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0)
		uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (uffd < 0)
		return -errno;
	if (!ioctl(uffd, UFFDIO_API, &api) && !fstat(uffd, &identity))
		return 0;
	close(uffd);
	uffd = -1;
	return -EOPNOTSUPP;
}

void weft_uffd_close(void)
{
	if (is_open())
		close(uffd);
	uffd = -1;
}

static int uffd_begin(void)
{
	return is_open() ? 0 : open_uffd();
}

static int hold(const struct weft_move *chunk, uint64_t mode)
{
	struct uffdio_register range = {
		.range = { .start = chunk->va, .len = chunk->len_bytes },
		.mode = mode,
	};

	return ioctl(uffd, UFFDIO_REGISTER, &range) ? -errno : 0;
}

static void let_go(const struct weft_move *chunk)
{
	struct uffdio_range range = { .start = chunk->va, .len = chunk->len_bytes };

	ioctl(uffd, UFFDIO_UNREGISTER, &range);
	ioctl(uffd, UFFDIO_WAKE, &range);
}

static int move_in(const struct weft_move *chunk)
{
	void *at = (void *)chunk->va, *away;
	int err = hold(chunk, UFFDIO_REGISTER_MODE_MISSING);

	if (err)
		return err;
	/* from here on every access to the chunk waits; not MREMAP_FIXED, which unmaps what is
	 * there even if it fails */
	away = weft_unhooked_mremap(at, chunk->len_bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
	if (away == MAP_FAILED) {
		err = -errno;
		goto let_go;
	}
	WEFT_STEP(uffd_taken_away);
	weft_move_copy(chunk->alias, away, chunk->len_bytes);
	err = weft_move_map(chunk);
	if (!err)
		weft_unhooked_munmap(away, chunk->len_bytes);
	else if (weft_unhooked_mremap(away, chunk->len_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, chunk->va) ==
		 MAP_FAILED)
		abort(); /* the program's memory is lost to it */
let_go:
	let_go(chunk);
	return err;
}

static size_t uffd_in(const struct weft_move *chunk)
{
	struct weft_move page = *chunk;
	int err = move_in(chunk);

	if (!err)
		return chunk->len_bytes;
	if (err != -EFAULT)
		return 0;
	/* mremap takes pages of one mapping, and here are several: just the first one */
	page.len_bytes = WEFT_PAGE;
	return move_in(&page) ? 0 : page.len_bytes;
}

static int uffd_out(const struct weft_move *chunk, uint8_t *scratch)
{
	struct uffdio_writeprotect protect = {
		.range = { .start = chunk->va, .len = chunk->len_bytes },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	int err = hold(chunk, UFFDIO_REGISTER_MODE_WP);

	if (err)
		return err;
	WEFT_STEP(uffd_held_out);
	/* from here on every store into the chunk waits */
	err = ioctl(uffd, UFFDIO_WRITEPROTECT, &protect) ? -errno :
							   weft_move_replace(chunk, scratch);
	WEFT_STEP(uffd_replaced);
	let_go(chunk);
	return err;
}

const struct weft_hold weft_uffd_hold = { uffd_begin, uffd_in, uffd_out };
