/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Locks of the pool file. They belong to the open file description, so the kernel drops them when
 * the process ends, however it ends, and not before: the mappings of the window keep the
 * description alive even if the program closes our descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "pool/internal.h"

static int set(int fd, int command, short type, off_t byte)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
	int err;

	do
		err = fcntl(fd, command, &lock) ? errno : 0;
	while (err == EINTR);
	return -err;
}

static off_t member_byte(uint16_t member)
{
	return (off_t)WEFT_OFF_MEMBERS + member;
}

int weft_lock_file(int fd)
{
	return set(fd, F_OFD_SETLKW, F_WRLCK, 0);
}

int weft_lock_file_shared(int fd)
{
	return set(fd, F_OFD_SETLK, F_RDLCK, 0);
}

void weft_lock_file_release(int fd)
{
	set(fd, F_OFD_SETLK, F_UNLCK, 0);
}

int weft_lock_member(int fd, uint16_t member)
{
	int err = set(fd, F_OFD_SETLK, F_WRLCK, member_byte(member));

	return err == -EACCES ? -EAGAIN : err;
}

void weft_lock_member_release(int fd, uint16_t member)
{
	set(fd, F_OFD_SETLK, F_UNLCK, member_byte(member));
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
