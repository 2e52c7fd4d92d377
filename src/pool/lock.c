/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Locks of the pool file. They belong to an open file description and end with it.
 *
 * A member's proof of life has a description of its own that only the mapping of the window holds:
 * no descriptor that the program could close or a child inherit. So the kernel drops the lock when
 * the process ends, however it ends, and not before.
 *
 * A critical section opens the file anew, since the mappings of moved memory would keep another
 * description locked if the program closed its descriptor in the middle.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "pool/internal.h"
#include "pool/step.h"

static int set(int fd, int command, short type, off_t byte, off_t bytes)
{
	struct flock lock = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = bytes
	};
	int err;

	do
		err = fcntl(fd, command, &lock) ? errno : 0;
	while (err == EINTR);
	return err == EACCES ? -EAGAIN : -err;
}

static off_t member_byte(uint16_t member)
{
	return (off_t)WEFT_OFF_MEMBERS + member;
}

int weft_lock_file(int fd, bool wait)
{
	return set(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, F_WRLCK, 0, 1);
}

int weft_lock_file_shared(int fd)
{
	return set(fd, F_OFD_SETLK, F_RDLCK, 0, 1);
}

int weft_lock_member(int fd, uint16_t member)
{
	return set(fd, F_OFD_SETLK, F_WRLCK, member_byte(member), 1);
}

void weft_lock_release(int fd)
{
	set(fd, F_OFD_SETLK, F_UNLCK, 0, 0);
}

/* By its path, else through the descriptor that is still open: the file may have lost its name. */
int weft_lock_open(struct weft_attachment *a)
{
	int fd = weft_open_fd(a), again;
	char path[32];

	if (fd < 0)
		return fd;
	again = open(a->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (weft_open_is_ours(a, again))
		return again;
	if (again < 0 && errno != ENOENT)
		return -errno;
	if (again >= 0)
		close(again);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	return again < 0 ? -errno : again;
}

int weft_lock_enter(struct weft_attachment *a)
{
	int fd = weft_lock_open(a), err;

	if (fd < 0)
		return fd;
	err = weft_lock_file(fd, true);
	WEFT_STEP(lock_entered);
	if (!err)
		return fd;
	close(fd);
	return err;
}

void weft_lock_leave(const struct weft_attachment *a, int fd)
{
	/* the number may be the program's by now */
	if (!weft_open_is_ours(a, fd))
		return;
	/* a raw clone of this process may have inherited the descriptor */
	WEFT_STEP(lock_leaving);
	weft_lock_release(fd);
	close(fd);
}

static bool held(int fd, off_t byte, off_t bytes)
{
	struct flock lock = { .l_type = F_WRLCK,
			      .l_whence = SEEK_SET,
			      .l_start = byte,
			      .l_len = bytes };

	return fcntl(fd, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

bool weft_lock_member_held(int fd, uint16_t member)
{
	return held(fd, member_byte(member), 1);
}

bool weft_lock_any_held(int fd)
{
	return held(fd, 0, 0);
}
