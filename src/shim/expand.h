/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Files whose contents are known only at the moment of reading, because they depend on the network
 * namespace or the machine. In sysroot such a file holds one word:
 *
 *	@gid, @type, @ndev	entry N of the GID table, N being the name of the file
 *	@guid			of the device: the interface identifier of GID 0
 *	@cpus			the mask of the processors that are online
 *	@cpulist		the same as a list
 */
#ifndef WEFT_SHIM_EXPAND_H
#define WEFT_SHIM_EXPAND_H

/*
 * Turns fd, just opened from path in sysroot with flags, into a descriptor of the same number from
 * which the contents are read; does nothing for files that hold no template, and for folders.
 * Returns fd, or closes it and returns -1 with errno.
 *
 * As the kernel has it, reading the type or the interface of an unused entry gives EINVAL.
 */
int weft_expand_fd(int fd, const char *path, int flags);

#endif
