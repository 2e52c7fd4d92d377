/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The limit of this machine for copying bytes: memcpy of BYTES over and over from private memory,
 * and from shared memory, into a file of shared memory, all populated. Registered memory is shared memory.
 * Prints the median over batches in MiB/s.
 *
 *   copy CORE BYTES
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BATCHES	    51u
#define BATCH_BYTES (64u << 20)

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void *map(size_t bytes, int flags, int fd)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, fd, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	memset(p, 1, bytes);
	return p;
}

static void *map_shared(size_t bytes)
{
	char name[] = "/dev/shm/weft-copy-XXXXXX";
	int fd = mkstemp(name);
	void *p;

	if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
		perror(name);
		exit(1);
	}
	p = map(bytes, MAP_SHARED, fd);
	unlink(name);
	close(fd);
	return p;
}

static double measure(void *to, const void *from, size_t bytes)
{
	static double batch[BATCHES];
	size_t rounds = BATCH_BYTES / bytes ? BATCH_BYTES / bytes : 1;

	for (unsigned int i = 0; i < BATCHES; i++) {
		double start = now_s();

		for (size_t j = 0; j < rounds; j++) {
			memcpy(to, from, bytes);
			__asm__ volatile("" ::: "memory"); /* the compiler leaves out no copy */
		}
		batch[i] = (double)(rounds * bytes) / (now_s() - start) / (1 << 20);
	}
	qsort(batch, BATCHES, sizeof(*batch), compare);
	return batch[BATCHES / 2];
}

int main(int argc, char **argv)
{
	cpu_set_t set;
	size_t bytes;
	void *to;

	if (argc != 3 || !(bytes = strtoul(argv[2], NULL, 10))) {
		fprintf(stderr, "usage: copy CORE BYTES\n");
		return 2;
	}
	CPU_ZERO(&set);
	CPU_SET(strtoul(argv[1], NULL, 10), &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror(argv[1]);
		return 1;
	}
	to = map_shared(bytes);
	printf("{\"private_mib_s\": %.0f, \"shared_mib_s\": %.0f}\n",
	       measure(to, map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1), bytes),
	       measure(to, map_shared(bytes), bytes));
	return 0;
}
