/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "memfd_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096ul
#define SIZE (1ul << 36)
#define MOST 65536u

/* The allocated extents, ordered by offset; each is followed by a page that is a hole. */
static struct {
	uint64_t off;
	size_t len_bytes;
} extents[MOST];
static unsigned int count, fail_at, revoked;
static size_t bytes, limit, size = SIZE;
static bool is_device;
static int fd = -1;
static uint8_t *base;

/* First fit behind the last extent, else from the front. */
static int place(size_t len_bytes, uint64_t *off)
{
	uint64_t at = PAGE;
	unsigned int i = 0;

	if (count == MOST)
		return -ENOSPC;
	if (count &&
	    extents[count - 1].off + extents[count - 1].len_bytes + 2 * PAGE + len_bytes < size) {
		i = count;
		at = extents[i - 1].off + extents[i - 1].len_bytes + PAGE;
	} else {
		for (; i < count && extents[i].off < at + len_bytes + PAGE; i++)
			at = extents[i].off + extents[i].len_bytes + PAGE;
	}
	for (unsigned int k = count++; k > i; k--)
		extents[k] = extents[k - 1];
	extents[i].off = at;
	extents[i].len_bytes = len_bytes;
	*off = at;
	return 0;
}

static int source_alloc(void *arg, size_t len_bytes, uint64_t *off, void **alias)
{
	if (fail_at && !--fail_at) {
		fail_at = 1;
		return -ENOSPC;
	}
	if ((limit && bytes + len_bytes > limit) || place(len_bytes, off))
		return -ENOSPC;
	if (!is_device && fallocate(fd, 0, (off_t)*off, (off_t)len_bytes))
		abort();
	bytes += len_bytes;
	*alias = base + *off;
	return 0;
}

static void source_free(void *arg, uint64_t off, size_t len_bytes)
{
	unsigned int i = 0, top = count;

	while (i < top) {
		unsigned int mid = (i + top) / 2;

		if (extents[mid].off < off)
			i = mid + 1;
		else
			top = mid;
	}
	if (i == count || extents[i].off != off || extents[i].len_bytes != len_bytes) {
		fprintf(stderr, "free of an extent that is not allocated\n");
		abort();
	}
	for (count--; i < count; i++)
		extents[i] = extents[i + 1];
	bytes -= len_bytes;
	if (!is_device &&
	    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len_bytes))
		abort();
}

static struct {
	uint64_t off;
	size_t len_bytes;
} retired[8];
static unsigned int nretired;

static void source_retire(void *arg, uint64_t off, size_t len_bytes)
{
	if (nretired == sizeof(retired) / sizeof(retired[0]))
		abort();
	retired[nretired].off = off;
	retired[nretired++].len_bytes = len_bytes;
}

void memfd_source_go_on(void)
{
	while (nretired) {
		nretired--;
		source_free(NULL, retired[nretired].off, retired[nretired].len_bytes);
	}
}

static int source_fd(void *arg)
{
	return fd;
}

static void source_revoke(void *arg, uint64_t off, size_t len_bytes)
{
	revoked++;
}

const struct weft_extent_source memfd_source = {
	.revoke = source_revoke,
	.alloc = source_alloc,
	.free = source_free,
	.retire = source_retire,
	.fd = source_fd,
};

static void attach(const struct weft_extent_source *source)
{
	base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED || madvise(base, size, MADV_DONTDUMP) ||
	    weft_region_attach(source)) {
		perror("attach");
		exit(1);
	}
}

void memfd_source_attach_file(int file)
{
	fd = file;
	if (fd < 0 || ftruncate(fd, SIZE)) {
		perror("memfd");
		exit(1);
	}
	attach(&memfd_source);
}

void memfd_source_attach_device(const char *path, size_t bytes_of_it)
{
	static struct weft_extent_source source;

	source = memfd_source;
	source.device = is_device = true;
	size = bytes_of_it;
	fd = path ? open(path, O_RDWR | O_CLOEXEC) : memfd_create("weft-test", MFD_CLOEXEC);
	if (fd < 0 || (!path && ftruncate(fd, (off_t)size))) {
		perror(path);
		exit(1);
	}
	attach(&source);
}

void memfd_source_attach(void)
{
	memfd_source_attach_file(memfd_create("weft-test", MFD_CLOEXEC));
}

void memfd_source_fail_at(unsigned int n)
{
	fail_at = n;
}

void memfd_source_limit(size_t most)
{
	limit = most;
}

unsigned int memfd_source_extents(void)
{
	return count;
}

unsigned int memfd_source_revoked(void)
{
	return revoked;
}

size_t memfd_source_bytes(void)
{
	return bytes;
}

size_t memfd_source_resident(void)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : (size_t)st.st_blocks * 512;
}

uint8_t *memfd_source_at(uint64_t off)
{
	return base + off;
}
