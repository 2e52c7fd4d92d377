/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Threads have the kernel write into pages, by direct I/O from a disk, which pins them, and by way of pipes,
 * while the pages migrate into the pool and back: the bytes that a call says it has read are there, and no
 * call fails, although its thread was asleep when it was parked. Argument: how many migrations in each way.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ways.h"

#define PAGE   4096ul
#define BLOCK  (4 * PAGE)
#define BLOCKS 64u
#define XFS    0x58465342

static int file;
static uint8_t *memory;
static atomic_bool stop;
static atomic_ulong reads, lost, failed;

/* The bytes of a block differ from those of all others. */
static void fill(uint64_t *at, unsigned int block)
{
	for (size_t i = 0; i < BLOCK / sizeof(*at); i++)
		at[i] = (uint64_t)block << 32 | i;
}

struct reader {
	uint8_t *at; /* BLOCK bytes */
	int pipe[2];
};

/* Reads the block to reader->at. Returns BLOCK; less or -1: it has failed. */
typedef ssize_t read_fn(struct reader *reader, unsigned int block);

static ssize_t directly(struct reader *reader, unsigned int block)
{
	return pread(file, reader->at, BLOCK, (off_t)(block * BLOCK));
}

/* The thread wakes at any time of a migration. */
static ssize_t after_a_nap(struct reader *reader, unsigned int block)
{
	usleep(20 + block * 37 % 150);
	return directly(reader, block);
}

static ssize_t directly_in_parts(struct reader *reader, unsigned int block)
{
	struct iovec parts[] = {{reader->at, PAGE}, {reader->at + PAGE, BLOCK - PAGE}};

	return preadv(file, parts, 2, (off_t)(block * BLOCK));
}

static ssize_t by_vmsplice(struct reader *reader, unsigned int block)
{
	static _Thread_local uint64_t source[BLOCK / sizeof(uint64_t)];
	struct iovec to = {reader->at, BLOCK};

	fill(source, block);
	if (write(reader->pipe[1], source, BLOCK) != BLOCK)
		return -1;
	return vmsplice(reader->pipe[0], &to, 1, 0);
}

static ssize_t by_splice(struct reader *reader, unsigned int block)
{
	loff_t from = (loff_t)(block * BLOCK);

	if (splice(file, &from, reader->pipe[1], NULL, BLOCK, 0) != BLOCK)
		return -1;
	return read(reader->pipe[0], reader->at, BLOCK);
}

/* The bytes that were given to the pipe can be read from it, even if their pages have migrated since. */
static ssize_t by_giving(struct reader *reader, unsigned int block)
{
	struct iovec from = {reader->at, BLOCK};
	uint64_t got[BLOCK / sizeof(uint64_t)];

	fill((uint64_t *)reader->at, block);
	if (vmsplice(reader->pipe[1], &from, 1, 0) != BLOCK)
		return -1;
	sched_yield();
	if (read(reader->pipe[0], got, BLOCK) != BLOCK)
		return -1;
	return memcmp(got, reader->at, BLOCK) ? 0 : BLOCK;
}

static ssize_t by_pipe(struct reader *reader, unsigned int block)
{
	static read_fn *const ways_through[] = {by_vmsplice, by_splice, by_giving};

	return ways_through[block % 3](reader, block);
}

static read_fn *const kinds[] = {directly, after_a_nap, directly_in_parts, by_pipe};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void close_pipe(struct reader *reader)
{
	close(reader->pipe[0]);
	close(reader->pipe[1]);
}

static void new_pipe(struct reader *reader)
{
	close_pipe(reader);
	if (pipe(reader->pipe) || fcntl(reader->pipe[1], F_SETPIPE_SZ, 4 * BLOCK) < 0)
		abort();
}

static void *read_on(void *arg)
{
	size_t kind = (size_t)arg;
	struct reader reader = {.at = memory + kind * BLOCK, .pipe = {-1, -1}};
	uint64_t wanted[BLOCK / sizeof(uint64_t)];

	new_pipe(&reader);
	for (unsigned int block = 0; !atomic_load(&stop); block = (block + 1) % BLOCKS) {
		fill(wanted, block);
		if (kinds[kind](&reader, block) != BLOCK) {
			atomic_fetch_add(&failed, 1);
			/* a new pipe, as the old one may have bytes left in it */
			new_pipe(&reader);
		} else if (memcmp(reader.at, wanted, BLOCK) != 0) {
			atomic_fetch_add(&lost, 1);
		}
		atomic_fetch_add(&reads, 1);
	}
	close_pipe(&reader);
	return NULL;
}

static int race(void *migrations)
{
	pthread_t thread[KINDS];

	memory = mmap(NULL, KINDS * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	for (size_t kind = 0; kind < KINDS; kind++)
		pthread_create(&thread[kind], NULL, read_on, (void *)kind);
	way_migrate(memory, KINDS * BLOCK, *(unsigned long *)migrations);
	atomic_store(&stop, true);
	for (size_t kind = 0; kind < KINDS; kind++)
		pthread_join(thread[kind], NULL);
	printf("%lu reads, %lu lost, %lu failed\n", reads, lost, failed);
	return lost || failed;
}

/* A file in the working folder, if its file system's direct I/O pins pages; else -1. */
static int open_file(void)
{
	uint64_t *block =
		mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) || (fs.f_type != EXT4_SUPER_MAGIC && fs.f_type != XFS))
		return -1;
	for (unsigned int i = 0; i < BLOCKS; i++) {
		fill(block, i);
		if (pwrite(fd, block, BLOCK, (off_t)(i * BLOCK)) != BLOCK)
			return -1;
	}
	munmap(block, BLOCK);
	return fd;
}

int main(int argc, char **argv)
{
	unsigned long migrations = argc > 1 ? strtoul(argv[1], NULL, 0) : 20000;
	int failures = 0;

	file = open_file();
	if (file < 0) {
		printf("1..0 # SKIP the working folder is not on ext4 or xfs, where direct I/O "
		       "pins pages\n");
		return 77;
	}
	for (size_t i = 0; i < nways; i++)
		failures += !way_run(&ways[i], race, &migrations);
	return failures != 0;
}
