/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The window of a PCIe device as the memory of several hosts, each with a kernel of its own: pci:ADDRESS, the device's
 * BAR 2. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backing/private.h"

#define PREFIX_CHARS 4u /* pci: */

static int choose_device(const char *path, char chosen[PATH_MAX], bool *own)
{
	path = path ?: getenv("WEFT_POOL");
	*own = false;
	return snprintf(chosen, PATH_MAX, "%s", path) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* The domain may be left out, as lspci does. -EINVAL: no such address can be. */
static int file_of_device(const char *path, char file[PATH_MAX])
{
	const char *address = path + PREFIX_CHARS;
	unsigned int domain = 0, bus, slot, function;
	int end = 0;

	if (sscanf(address, "%4x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &end) != 4 ||
	    address[end]) {
		domain = 0;
		end = 0;
		if (sscanf(address, "%2x:%2x.%1x%n", &bus, &slot, &function, &end) != 3 ||
		    address[end])
			return -EINVAL;
	}
	snprintf(file, PATH_MAX, "/sys/bus/pci/devices/%04x:%02x:%02x.%x/resource2", domain, bus,
		 slot, function);
	return 0;
}

static int find_file(const char *path, char file[PATH_MAX], const char **why)
{
	int err = file_of_device(path, file);

	*why = "that is no address of a PCI device: pci:0000:00:05.0";
	if (err)
		return err;
	*why = "there is no such PCI device, or it has no memory as BAR 2";
	return access(file, F_OK) ? -errno : 0;
}

static int open_bar(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
		    uint64_t *bytes, const char **why)
{
	char file[PATH_MAX];
	int err = find_file(path, file, why);

	return err ? err : weft_hosts_open(file, signature, backed, bytes, why);
}

static int look_at_bar(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
		       uint64_t *bytes, bool *locked, const char **why)
{
	char file[PATH_MAX];
	int err = find_file(path, file, why);

	return err ? err : weft_look_hosts(file, signature, backed, bytes, locked, why);
}

static int expose_bar(const char *path, uint64_t bytes, struct weft_pages *pages, const char **why)
{
	char file[PATH_MAX];
	int err = find_file(path, file, why);

	return err ? err : weft_hosts_expose(file, bytes, pages, why);
}

static int identify_device(const char *path, uint64_t identity[2])
{
	char file[PATH_MAX];
	int err = file_of_device(path, file);

	return err ? err : weft_hosts_identify(file, identity);
}

/* ---- Making and unmaking ---- */

static int create_in_device(const char *path, const struct weft_backing_plan *plan,
			    uint64_t signature, const char **why)
{
	char file[PATH_MAX];
	int fd, err = find_file(path, file, why);

	if (err)
		return err;
	fd = open(file, O_RDWR | O_CLOEXEC);
	*why = "the device's memory cannot be opened";
	if (fd < 0)
		return -errno;
	err = weft_fixed_make(fd, plan, signature, why);
	close(fd);
	return err;
}

static int wipe_device(const char *path, bool own, const char **why)
{
	char file[PATH_MAX];
	int err = find_file(path, file, why);

	return err ? err : weft_hosts_end(file, why);
}

const struct weft_backing weft_backing_pci = {
	.name = "pci",
	.can = WEFT_BACKING_DEVICE | WEFT_BACKING_NEEDED,
	WEFT_BACKING_LOCKED_FILE,
	.choose = choose_device,
	.open = open_bar,
	.identify = identify_device,
	.create = create_in_device,
	.remove = wipe_device,
	WEFT_BACKING_FIXED,
	.look = look_at_bar,
	.expose = expose_bar,
	WEFT_BACKING_LOOKED_AT_BY_MAPPING,
};
