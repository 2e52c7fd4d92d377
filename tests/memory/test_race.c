/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Threads store into pages while these migrate into the pool and back, in every way of migrating: no store is
 * lost, no load sees anything else, no system call fails. If root runs it, also as an ordinary user, in a
 * container whose filter forbids userfaultfd, on a kernel that cannot be asked for single mappings, with the pool on a
 * disk, and with one that is taken for a device. `test-memory-race [SECONDS [DEVICE]]`: on the memory of that device alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memfd_source.h"
#include "ways.h"

#define THREADS	     2
#define PAGE	     4096ul
#define BYTES	     (40 * PAGE)
#define WORDS	     (BYTES / sizeof(uint64_t))

#define DEVICE_BYTES (64ul << 20)
#define HOME_S	     10

static uint64_t *memory;
static const char *device;
static _Atomic int stop;
static uint64_t rounds[THREADS];
static _Atomic int lost;

/* Each thread owns every second word, and counts all of its words up together. */
static void *hammer(void *arg)
{
	size_t mine = (size_t)arg;
	uint64_t value = 0;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		for (size_t i = mine; i < WORDS; i += THREADS * 61) {
			uint64_t *word = &memory[i];

			if (__atomic_load_n(word, __ATOMIC_RELAXED) != value)
				atomic_fetch_add(&lost, 1);
			__atomic_store_n(word, value + 1, __ATOMIC_RELAXED);
		}
		value++;
	}
	rounds[mine] = value;
	return NULL;
}

/* System calls write into the last pages. */
#define CALL_BYTES (4 * PAGE)
#define CALLS	   (memory + WORDS)
#define FEW_STAYS  1
#define ALL_BYTES  (BYTES + CALL_BYTES)
static _Atomic unsigned long faults;

static void *system_calls(void *arg)
{
	uint64_t written[CALL_BYTES / sizeof(uint64_t)];
	int file = memfd_create("weft-calls", MFD_CLOEXEC);

	for (uint64_t value = 1; !atomic_load_explicit(&stop, memory_order_relaxed); value++) {
		for (size_t i = 0; i < CALL_BYTES / sizeof(uint64_t); i++)
			written[i] = value;
		if (pwrite(file, written, CALL_BYTES, 0) != (ssize_t)CALL_BYTES)
			atomic_fetch_add(&lost, 1);
		if (pread(file, CALLS, CALL_BYTES, 0) != (ssize_t)CALL_BYTES)
			atomic_fetch_add(&faults, 1);
		else if (memcmp(CALLS, written, CALL_BYTES) != 0)
			atomic_fetch_add(&lost, 1);
	}
	close(file);
	return NULL;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* What the last release could not bring home, as a thread got no core, comes home by the helper's calls. */
static void await_home(void)
{
	double end = now() + HOME_S;

	while (weft_region_is_away() && now() < end) {
		weft_region_bring_home((uint64_t)(now() * 1e9));
		usleep(1000);
	}
}

/* Returns 0, or 1 if something was wrong. */
static int race(const char *way, double seconds, int file)
{
	double end = now() + seconds;
	pthread_t thread[THREADS + 1];
	unsigned long migrations = 0, stayed = 0;

	memory = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (device || !strcmp(way, "device"))
		memfd_source_attach_device(device, DEVICE_BYTES);
	else if (file >= 0)
		memfd_source_attach_file(file);
	else
		memfd_source_attach();
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, hammer, (void *)i);
	pthread_create(&thread[THREADS], NULL, system_calls, NULL);
	while (now() < end) {
		struct weft_region region;
		size_t skip = migrations % 7 * 1000;

		if (weft_region_acquire((uint8_t *)memory + skip, ALL_BYTES - skip,
					WEFT_REGION_MIGRATE, &region)) {
			printf("acquire failed\n");
			return 1;
		}
		stayed += region.pieces[region.npieces - 1].off == WEFT_IN_PLACE;
		weft_region_release(&region);
		migrations++;
	}
	atomic_store(&stop, 1);
	for (size_t i = 0; i <= THREADS; i++)
		pthread_join(thread[i], NULL);
	await_home();
	for (size_t mine = 0; mine < THREADS; mine++) {
		for (size_t i = mine; i < WORDS; i += THREADS * 61)
			lost += memory[i] != rounds[mine];
	}
	/* On a disk nothing may migrate: no way of holding stores back is exact there. Elsewhere memory stays
	 * in place only when a thread got no core for 200 ms. */
	if (file >= 0 ? stayed < migrations : stayed > FEW_STAYS && stayed > migrations / 10) {
		printf("%lu of %lu times the memory stayed in place\n", stayed, migrations);
		return 1;
	}
	printf("%lu migrations, %d lost, %lu system calls failed, %u extents left\n", migrations,
	       lost, faults, memfd_source_extents());
	return lost || memfd_source_extents() || faults;
}

static bool has_userfaultfd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	return fd >= 0 && !close(fd);
}

/* A file in the working folder, if that is on a disk; else -1. */
static int file_on_disk(void)
{
	struct statfs fs;
	int file = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (file >= 0 && (fstatfs(file, &fs) || fs.f_type == TMPFS_MAGIC)) {
		close(file);
		file = -1;
	}
	return file;
}

static int in_child(const char *way, uid_t uid, double seconds)
{
	bool on_disk = !strcmp(way, "disk");
	int file = on_disk ? file_on_disk() : -1;
	int status;
	pid_t pid;

	printf("%s, uid %d: ", way, (int)uid);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		setenv("WEFT_MIGRATE", way, 1);
		if (setresuid(uid, uid, uid) ||
		    (!strcmp(way, "container") && way_enter_container()) ||
		    (!strcmp(way, "uffd") && !has_userfaultfd()) || (on_disk && file < 0)) {
			printf("this kernel does not allow it\n");
			status = 0;
		} else {
			status = race(way, seconds, file);
		}
		exit(status); /* exit() writes the counts of coverage */
	}
	close(file);
	if (waitpid(pid, &status, 0) < 0)
		return 1;
	if (WIFSIGNALED(status))
		printf("killed by signal %d\n", WTERMSIG(status));
	return status != 0;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.4;
	/* the way named copy is for one thread only, and is not tested here */
	static const char *const names[] = {"auto", "uffd", "segv", "container", "device", "disk"};
	size_t count = sizeof(names) / sizeof(names[0]);
	int failed = 0;

	device = argc > 2 ? argv[2] : NULL;
	/* a disk is no device */
	for (size_t i = 0; i < count - !!device; i++) {
		failed += in_child(names[i], getuid(), seconds);
		if (!getuid())
			failed += in_child(names[i], 65534, seconds);
	}
	return failed != 0;
}
