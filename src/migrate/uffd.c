/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Holding stores back by userfaultfd: threads sleep in their fault, without a signal. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/sizes.h"
#include "migrate/hold.h"
#include "pool/step.h"
#include "backing/unhooked.h"

#define WP_UNPOPULATED (1 << 13) /* the floor's headers are older */

/* Kept open: closing it takes time for each mapping of the process. */
static int uffd = -1;
static struct stat identity; /* the program may have closed it and opened something else */

static bool is_open(void)
{
	struct stat now;

	return uffd >= 0 && !fstat(uffd, &now) && now.st_dev == identity.st_dev &&
	       now.st_ino == identity.st_ino;
}

/* With that, untouched pages can be protected, too (Linux 6.4). */
static bool untouched;

/*
 * Never the privileged kind, which also lets system calls wait: they do so deaf to a debugger that
 * attaches, while the thread that they wait for is stopped by it already.
 */
static int open_with(uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};

	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (uffd < 0)
		return -errno;
	if (!ioctl(uffd, UFFDIO_API, &api) && !fstat(uffd, &identity))
		return 0;
	close(uffd);
	uffd = -1;
	return -EOPNOTSUPP;
}

static int open_uffd(void)
{
	untouched = !open_with(UFFD_FEATURE_WP_HUGETLBFS_SHMEM | WP_UNPOPULATED);
	return untouched ? 0 : open_with(UFFD_FEATURE_WP_HUGETLBFS_SHMEM);
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

static void uffd_let_go(const struct weft_migrate *chunk, bool migrated)
{
	struct uffdio_range range = {.start = chunk->va, .len = chunk->len_bytes};

	if (!migrated)
		syscall(SYS_ioctl, uffd, UFFDIO_UNREGISTER, &range);
	WEFT_STEP(uffd_released);
	syscall(SYS_ioctl, uffd, UFFDIO_WAKE, &range);
}

static int uffd_hold(const struct weft_migrate *chunk)
{
	struct uffdio_register range = {
		.range = {.start = chunk->va, .len = chunk->len_bytes},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	struct uffdio_writeprotect protect = {
		.range = range.range,
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	int err;

	if (!untouched &&
	    weft_unhooked_madvise((void *)chunk->va, chunk->len_bytes, MADV_POPULATE_READ))
		return -errno;
	if (syscall(SYS_ioctl, uffd, UFFDIO_REGISTER, &range))
		return -errno;
	if (!syscall(SYS_ioctl, uffd, UFFDIO_WRITEPROTECT, &protect)) {
		WEFT_STEP(uffd_held);
		return 0;
	}
	err = -errno;
	uffd_let_go(chunk, false);
	return err;
}

const struct weft_hold weft_uffd_hold = {
	.begin = uffd_begin,
	.hold = uffd_hold,
	.let_go = uffd_let_go,
};
