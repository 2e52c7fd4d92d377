/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A memory of several hosts, whatever file stands for it: its header, its hosts, opening it with the home of this one.
 * A device has no read and write: all is looked at by a mapping.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "backing/private.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/format_host.h"

#define LOOK_US	 10000u
#define US_IN_MS 1000u

/* ---- Looking ---- */

/* A number that the kernel has of that character device; 0: it has none. */
static uint64_t attribute(const struct stat *st, const char *name)
{
	char path[PATH_MAX], text[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/%s", major(st->st_rdev),
		 minor(st->st_rdev), name);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return strtoull(text, NULL, 0);
}

int weft_hosts_extent(int fd, uint64_t *bytes, uint64_t *align)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	*bytes = (uint64_t)st.st_size;
	*align = WEFT_PAGE;
	if (S_ISREG(st.st_mode))
		return 0;
	*bytes = S_ISCHR(st.st_mode) ? attribute(&st, "size") : 0;
	*align = *bytes ? attribute(&st, "align") : 0;
	return *align ? 0 : -EPROTO;
}

struct weft_pages weft_hosts_pages(int fd, uint64_t off, uint64_t len_bytes, int rights)
{
	uint64_t bytes = 0, align = WEFT_PAGE, first, end;
	struct weft_pages p = {NULL};

	if (weft_hosts_extent(fd, &bytes, &align) || bytes < off + len_bytes)
		return p;
	first = off / align * align;
	end = (off + len_bytes + align - 1) / align * align;
	p.mapped_bytes = end - first;
	p.mapped = mmap(NULL, p.mapped_bytes, rights, MAP_SHARED, fd, (off_t)first);
	if (p.mapped != MAP_FAILED)
		p.at = (uint8_t *)p.mapped + (off - first);
	return p;
}

void weft_hosts_pages_end(const struct weft_pages *p)
{
	if (p->at)
		munmap(p->mapped, p->mapped_bytes);
}

int weft_hosts_expose(const char *file, uint64_t bytes, struct weft_pages *pages, const char **why)
{
	int fd = open(file, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), err;
	uint64_t all_bytes, align;

	*why = "the memory cannot be opened";
	if (fd < 0)
		return -errno;
	*why = "that is neither a file nor a device with memory";
	err = weft_hosts_extent(fd, &all_bytes, &align);
	if (!err && all_bytes < bytes) {
		*why = "the memory is too small";
		err = -ENOSPC;
	}
	if (!err) {
		*why = "the memory cannot be mapped";
		*pages = weft_hosts_pages(fd, 0, bytes, PROT_READ | PROT_WRITE);
		err = pages->at ? 0 : -errno;
	}
	close(fd);
	return err;
}

static bool read_header(int fd, struct weft_pool_header *header)
{
	const struct weft_pages page = weft_hosts_pages(fd, 0, WEFT_PAGE, PROT_READ);

	*header = (struct weft_pool_header){.magic = 0};
	if (!page.at)
		return false;
	memcpy(header, page.at, sizeof(*header));
	weft_hosts_pages_end(&page);
	return true;
}

/* Whether it is the home with which the host came last: another machine's process that was refused the number has left one as well. */
static bool is_its_home(int fd, const struct weft_pool_host *host)
{
	struct weft_pool_home home;

	/* acquire: pairs with the release in begin_life (pool/host.c) */
	return pread(fd, &home, sizeof(home), WEFT_OFF_HOME) == sizeof(home) &&
	       home.life == atomic_load_explicit(&host->life, memory_order_acquire) &&
	       home.id == atomic_load_explicit(&host->home, memory_order_relaxed);
}

/* Whether a member holds a lock of the host's home. -ENOENT or open(2)'s: it is not here, or not ours to look at. */
static int is_home_held(const struct weft_pool_header *header, uint32_t host,
			const struct weft_pool_host *at)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char home[PATH_MAX];
	int fd, err;

	weft_home_path_of(header, host, home);
	fd = open(home, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	err = fcntl(fd, F_OFD_GETLK, &all) ? -errno : all.l_type != F_UNLCK;
	if (!err && at && !is_its_home(fd, at))
		err = -ENOENT;
	close(fd);
	return err;
}

/* Of the hosts in `of`, a bit each. */
static uint64_t beats(const struct weft_pool_host *hosts, uint64_t of)
{
	uint64_t sum = 0;

	for (; of; of &= of - 1)
		sum += atomic_load_explicit(&hosts[__builtin_ctzll(of)].beat, memory_order_relaxed);
	return sum;
}

/* Hosts whose home is here show by its locks whether they live; the others by their beat. hosts: NULL where it is not known
 * where they are, as of a pool of another version. */
static bool any_lives(const struct weft_pool_header *header, const struct weft_pool_host *hosts)
{
	/* of a header that nothing has checked */
	uint64_t silence_ms = header->silence_ms < WEFT_SILENCE_MOST_MS ? header->silence_ms
									: WEFT_SILENCE_MOST_MS;
	uint64_t elsewhere = 0, before;

	for (uint32_t i = 0; i < header->hosts && i < WEFT_HOSTS; i++) {
		int held = is_home_held(header, i, hosts ? &hosts[i] : NULL);

		if (held > 0)
			return true;
		/* acquire: pairs with the release in begin_life (host.c) */
		if (held < 0 && hosts && atomic_load_explicit(&hosts[i].life, memory_order_acquire))
			elsewhere |= 1ull << i;
	}
	before = elsewhere ? beats(hosts, elsewhere) : 0;
	for (uint64_t us = 0; elsewhere && us < silence_ms * US_IN_MS; us += LOOK_US) {
		usleep(LOOK_US);
		if (beats(hosts, elsewhere) != before)
			return true;
	}
	return false;
}

/* -EPROTO, -ENOSPC: the header is of another version, or cannot be. */
static int find_parts(const struct weft_pool_header *header, struct weft_parts *parts)
{
	*parts = (struct weft_parts){header->hosts, header->slice_bits, header->cut_bits};
	return header->version == WEFT_POOL_VERSION ? weft_parts_find(header->file_bytes, parts)
						    : -EPROTO;
}

static bool hosts_live(int fd)
{
	struct weft_pool_header header;
	struct weft_pages hosts = {NULL};
	struct weft_parts parts;
	uint64_t bytes;
	bool live;

	if (!read_header(fd, &header) || header.magic != WEFT_POOL_MAGIC || !header.pool_id)
		return false;
	bytes = header.hosts * sizeof(struct weft_pool_host);
	if (!find_parts(&header, &parts))
		hosts = weft_hosts_pages(fd, weft_parts_at(&parts, WEFT_OFF_HOSTS, bytes), bytes,
					 PROT_READ);
	live = any_lives(&header, hosts.at);
	weft_hosts_pages_end(&hosts);
	return live;
}

/* ---- Opening ---- */

int weft_hosts_check(int fd, uint64_t signature, struct weft_pool_header *header,
		     struct weft_parts *parts, const char **why)
{
	uint64_t bytes, align;
	int err;

	*why = "the pool is not a regular file, nor a device-dax";
	err = weft_hosts_extent(fd, &bytes, &align);
	if (err)
		return err;
	read_header(fd, header);
	err = weft_file_check_header(header, signature, why);
	if (err)
		return err;
	*why = "the pool has one host: name the file alone";
	if (header->hosts == 1 && !header->pool_id)
		return -EPROTO;
	*why = "the pool's header says of hosts or a size that cannot be";
	if (header->file_bytes > bytes || find_parts(header, parts))
		return -EPROTO;
	*why = "the pool's header says of a silence that cannot be";
	return header->silence_ms > WEFT_SILENCE_MOST_MS ? -EPROTO : 0;
}

static int open_memory(const char *file, const char **why)
{
	int fd = open(file, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	*why = errno == ENOENT ? "there is no pool yet: weft pool create makes it"
			       : "the pool's memory cannot be opened";
	return fd < 0 ? -errno : fd;
}

/* The memory, and the home of this process's host. */
static int open_memory_and_home(struct weft_backed *b, const char *file, uint64_t signature,
				const char **why)
{
	struct weft_pool_header header = {.magic = 0};
	int fd = open_memory(file, why), err;

	if (fd < 0)
		return fd;
	err = weft_hosts_check(fd, signature, &header, &b->parts, why);
	if (!err)
		err = weft_named_open(&b->far, fd);
	close(fd);
	b->bytes = b->parts.end;
	return err ? err : weft_home_open(b, &header, why);
}

int weft_hosts_open(const char *file, uint64_t signature, struct weft_backed **backed,
		    uint64_t *bytes, const char **why)
{
	struct weft_backed *b = weft_file_begin(file, why);

	if (!b)
		return -ENOMEM;
	return weft_file_end_open(b, open_memory_and_home(b, file, signature, why), backed, bytes,
				  why);
}

int weft_hosts_identify(const char *file, uint64_t identity[2])
{
	struct weft_pool_header header;
	char home[PATH_MAX];
	struct stat st;
	const char *why;
	uint32_t host;
	int fd = open_memory(file, &why), err;

	if (fd < 0)
		return fd;
	err = read_header(fd, &header) ? weft_home_path(&header, home, &host, &why) : -EPROTO;
	close(fd);
	if (err || stat(home, &st))
		return err ? err : -errno;
	identity[0] = st.st_dev;
	identity[1] = st.st_ino;
	return 0;
}

/* ---- Making and unmaking ---- */

int weft_hosts_check_plan(const struct weft_backing_plan *plan, uint64_t bytes,
			  struct weft_parts *parts, const char **why)
{
	*why = "a pool has 1, 2, 4, 8, 16, 32 or 64 hosts";
	if (!plan->hosts || plan->hosts > WEFT_HOSTS || plan->hosts & (plan->hosts - 1))
		return -EINVAL;
	*why = "a host is silent after 1 to 60000 ms";
	if (!plan->silence_ms || plan->silence_ms > WEFT_SILENCE_MOST_MS)
		return -EINVAL;
	*why = "a pool has at most 256 GiB";
	if (bytes > WEFT_SEGMENTS * WEFT_SEGMENT)
		return -EINVAL;
	*why = "so small a pool has no segment for each of its hosts";
	weft_parts_plan(plan->hosts, bytes, parts);
	return weft_parts_find(bytes, parts) ? -EINVAL : 0;
}

int weft_hosts_lay_out(int fd, const struct weft_backing_plan *plan, uint64_t bytes,
		       const struct weft_parts *parts, uint64_t signature)
{
	const uint64_t len_bytes = WEFT_OFF_LEASES + sizeof(struct weft_pool_leases);
	const struct weft_pages tables = weft_hosts_pages(fd, 0, len_bytes, PROT_READ | PROT_WRITE);
	struct weft_pool_header *header = tables.at;
	struct weft_pool_leases *leases;
	uint64_t pool_id;
	uint32_t numbers;

	if (!header)
		return -errno;
	leases = (void *)((uint8_t *)tables.at + WEFT_OFF_LEASES);
	if (getrandom(&pool_id, sizeof(pool_id), 0) != sizeof(pool_id) ||
	    getrandom(&numbers, sizeof(numbers), 0) != sizeof(numbers)) {
		weft_hosts_pages_end(&tables);
		return -EIO;
	}
	*header = (struct weft_pool_header){.magic = WEFT_POOL_MAKING,
					    .version = WEFT_POOL_VERSION,
					    .hosts = plan->hosts,
					    .signature = signature,
					    .file_bytes = bytes,
					    .pool_id = pool_id,
					    .silence_ms = plan->silence_ms,
					    .flags = plan->flags,
					    .slice_bits = parts->slice_bits,
					    .cut_bits = parts->cut_bits};
	atomic_store_explicit(&leases->numbers, WEFT_NUMBERS(numbers), memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	header->magic = WEFT_POOL_MAGIC;
	weft_hosts_pages_end(&tables);
	return 0;
}

static void remove_homes(const struct weft_pool_header *header)
{
	char home[PATH_MAX];

	for (uint32_t i = 0; i < header->hosts && i < WEFT_HOSTS; i++) {
		weft_home_path_of(header, i, home);
		unlink(home);
	}
}

int weft_hosts_take(int fd, const char **why)
{
	struct weft_pool_header header;

	if (!read_header(fd, &header) || header.magic != WEFT_POOL_MAGIC || !header.pool_id)
		return 0;
	*why = "a host of the pool lives";
	if (hosts_live(fd))
		return -EBUSY;
	remove_homes(&header);
	return 0;
}

int weft_hosts_end(const char *file, const char **why)
{
	struct weft_pool_header header;
	struct weft_pages page;
	int fd = open_memory(file, why), err = 0;

	if (fd < 0)
		return fd;
	*why = "the file is not a pool";
	if (!read_header(fd, &header) || header.magic != WEFT_POOL_MAGIC || !header.pool_id ||
	    header.hosts > WEFT_HOSTS)
		err = -EPROTO;
	if (!err)
		err = weft_hosts_take(fd, why);
	if (!err) {
		page = weft_hosts_pages(fd, 0, WEFT_PAGE, PROT_READ | PROT_WRITE);
		if (page.at)
			((struct weft_pool_header *)page.at)->magic = 0;
		weft_hosts_pages_end(&page);
	}
	close(fd);
	return err;
}
