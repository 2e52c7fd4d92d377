/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The memory of a device-dax, on CXL or NVDIMM, as that of several hosts: dax:PATH. It maps multiples of its align alone.
 * Whether what one host stores another loads is for those that built it to say.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backing/private.h"
#include "pool/format.h"

#define PREFIX_CHARS 4u /* dax: */

static int choose_dax(const char *path, char chosen[PATH_MAX], bool *own)
{
	path = path ?: getenv("WEFT_POOL");
	*own = false;
	if (!path)
		return -EINVAL;
	return snprintf(chosen, PATH_MAX, "%s", path) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int check_dax(const char *path, const char **why)
{
	struct stat st;

	*why = "that is no device-dax: dax:/dev/dax0.0";
	if (path[PREFIX_CHARS] != '/')
		return -EINVAL;
	if (stat(path + PREFIX_CHARS, &st))
		return -errno;
	return S_ISCHR(st.st_mode) ? 0 : -EINVAL;
}

static int open_dax(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
		    uint64_t *bytes, const char **why)
{
	int err = check_dax(path, why);

	return err ? err : weft_hosts_open(path + PREFIX_CHARS, signature, backed, bytes, why);
}

static int look_at_dax(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
		       uint64_t *bytes, bool *locked, const char **why)
{
	int err = check_dax(path, why);

	return err ? err
		   : weft_look_hosts(path + PREFIX_CHARS, signature, backed, bytes, locked, why);
}

static int expose_dax(const char *path, uint64_t bytes, struct weft_pages *pages, const char **why)
{
	int err = check_dax(path, why);

	return err ? err : weft_hosts_expose(path + PREFIX_CHARS, bytes, pages, why);
}

static int identify_dax(const char *path, uint64_t identity[2])
{
	return weft_hosts_identify(path + PREFIX_CHARS, identity);
}

static int create_in_dax(const char *path, const struct weft_backing_plan *plan, uint64_t signature,
			 const char **why)
{
	int fd, err = check_dax(path, why);

	if (err)
		return err;
	*why = "whether that memory is coherent between its hosts is not known: if it is, say "
	       "--coherent";
	if (!(plan->flags & WEFT_POOL_COHERENT))
		return -EINVAL;
	fd = open(path + PREFIX_CHARS, O_RDWR | O_CLOEXEC);
	*why = "the device's memory cannot be opened";
	if (fd < 0)
		return -errno;
	err = weft_fixed_make(fd, plan, signature, why);
	close(fd);
	return err;
}

static int wipe_dax(const char *path, bool own, const char **why)
{
	int err = check_dax(path, why);

	return err ? err : weft_hosts_end(path + PREFIX_CHARS, why);
}

static uint64_t grain_of_dax(const struct weft_backed *b)
{
	uint64_t bytes, align;

	return weft_hosts_extent(b->far.fd, &bytes, &align) ? 0 : align;
}

const struct weft_backing weft_backing_dax = {
	.name = "dax",
	.can = WEFT_BACKING_DEVICE | WEFT_BACKING_NEEDED,
	WEFT_BACKING_LOCKED_FILE,
	WEFT_BACKING_FIXED,
	WEFT_BACKING_LOOKED_AT_BY_MAPPING,
	.choose = choose_dax,
	.open = open_dax,
	.identify = identify_dax,
	.create = create_in_dax,
	.remove = wipe_dax,
	.look = look_at_dax,
	.expose = expose_dax,
	.grain = grain_of_dax,
};
