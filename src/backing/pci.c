/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The window of a PCIe device as the memory of several hosts, each with a kernel of its own: pci:ADDRESS, the device's
 * BAR 2. It has a size, no holes, and what it held: it is zeroed when the pool is made, and what is given back
 * then. Its pages are the device's: the kernel reads none of them for system calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backing/private.h"
#include "pool/format.h"

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

static int identify_device(const char *path, uint64_t identity[2])
{
	char file[PATH_MAX];
	int err = file_of_device(path, file);

	return err ? err : weft_hosts_identify(file, identity);
}

/* ---- Making and unmaking ---- */

static int zero_all(int fd, uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	memset(at, 0, bytes);
	munmap(at, bytes);
	return 0;
}

static int make_in(int fd, const struct weft_backing_plan *plan, uint64_t signature,
		   const char **why)
{
	uint64_t bytes;
	struct stat st;
	int err;

	*why = "the device's memory cannot be looked at";
	if (fstat(fd, &st))
		return -errno;
	*why = "the pool is larger than the device's memory";
	bytes = plan->bytes ?: (uint64_t)st.st_size;
	if (bytes > (uint64_t)st.st_size)
		return -EINVAL;
	err = weft_hosts_check_plan(plan, bytes, why);
	if (err)
		return err;
	err = weft_hosts_take(fd, why);
	if (err)
		return err;
	*why = "the device's memory cannot be mapped";
	err = zero_all(fd, bytes);
	return err ? err : weft_hosts_lay_out(fd, plan, bytes, signature);
}

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
	err = make_in(fd, plan, signature, why);
	close(fd);
	return err;
}

static int wipe_device(const char *path, bool own, const char **why)
{
	char file[PATH_MAX];
	int err = find_file(path, file, why);

	return err ? err : weft_hosts_end(file, why);
}

/* ---- Its bytes ---- */

static bool is_near(uint64_t off)
{
	return off >= WEFT_OFF_HOME && off < WEFT_OFF_HOME_END;
}

/* Three mappings in room of ours: a mapping of a device is not to be cut, nor merges with its neighbour. All of it may
 * be touched, as nothing of it is allocated. */
static int map_parts(struct weft_backed *b)
{
	const struct {
		uint64_t off, end;
		int fd, rights;
	} parts[] = {
		{0, WEFT_OFF_HOME, b->far.fd, PROT_READ | PROT_WRITE},
		{WEFT_OFF_HOME, WEFT_OFF_HOME_END, b->life, PROT_NONE},
		{WEFT_OFF_HOME_END, b->bytes, b->far.fd, PROT_READ | PROT_WRITE},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (mmap(b->base + parts[i].off, parts[i].end - parts[i].off, parts[i].rights,
			 MAP_SHARED | MAP_NORESERVE | MAP_FIXED, parts[i].fd,
			 (off_t)parts[i].off) == MAP_FAILED)
			return -errno;
	return 0;
}

static int map_device(struct weft_backed *b, uint8_t **base)
{
	void *room =
		mmap(NULL, b->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int err;

	if (room == MAP_FAILED)
		return -errno;
	b->base = room;
	err = map_parts(b);
	if (err) {
		weft_map_end(b);
		return err;
	}
	/* a child must not keep our proof of life, nor a core dump hold other members' memory */
	madvise(room, b->bytes, MADV_DONTFORK);
	madvise(room, b->bytes, MADV_DONTDUMP);
	*base = b->base;
	return 0;
}

static int reserve_home(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
	return is_near(off) ? weft_reserve(b, off, len_bytes) : 0;
}

static int release(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
	if (is_near(off))
		return weft_reserve_end(b, off, len_bytes);
	memset(b->base + off, 0, len_bytes);
	return 0;
}

/* Its pages are there. */
static void populate(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
}

static uint64_t head_room(void)
{
	return UINT64_MAX;
}

const struct weft_backing weft_backing_pci = {
	.name = "pci",
	WEFT_BACKING_LOCKED_FILE,
	.choose = choose_device,
	.open = open_bar,
	.identify = identify_device,
	.create = create_in_device,
	.remove = wipe_device,
	.map = map_device,
	.populate = populate,
	.reserve = reserve_home,
	.release = release,
	.head_room = head_room,
	.look = look_at_bar,
	WEFT_BACKING_LOOKED_AT_BY_MAPPING,
};
