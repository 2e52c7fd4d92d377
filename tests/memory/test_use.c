/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What programs do with memory that is or was registered: free, calloc, realloc, mremap, io_uring, thousands
 * of regions. Also run under jemalloc. Arguments: a factor for the rounds; the name of one test.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "memfd_source.h"
#include "pool/clock.h"
#include "migrate/vma.h"

#define PAGE 4096ul
#define MIB  (1ul << 20)

static unsigned long rounds = 1;

static struct weft_region acquire(void *addr, size_t len)
{
	struct weft_region region;

	assert_int_equal(weft_region_acquire(addr, len, WEFT_REGION_MIGRATE, &region), 0);
	return region;
}

static bool is_pooled(const struct weft_region *region)
{
	for (unsigned int i = 0; i < region->npieces; i++) {
		if (region->pieces[i].off != WEFT_IN_PLACE)
			return true;
	}
	return false;
}

static void *map(size_t len)
{
	void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static size_t resident(void)
{
	unsigned long total, pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file || fscanf(file, "%lu %lu", &total, &pages) != 2)
		fail();
	fclose(file);
	return pages * PAGE;
}

static void test_calloc_after_free(void **state)
{
	for (unsigned long i = 0; i < 300 * rounds; i++) {
		size_t len = (i % 37 + 1) * 3 * PAGE + i;
		uint8_t *memory = malloc(len);
		struct weft_region region;

		memset(memory, 0xee, len);
		region = acquire(memory, len);
		memset(memory, 0xdd, len);
		weft_region_release(&region);
		free(memory);
		if (i % 3 == 0)
			malloc_trim(0);
		memory = calloc(1, len);
		for (size_t k = 0; k < len; k++)
			assert_int_equal(memory[k], 0);
		free(memory);
	}
}

/* glibc grows a large block by mremap, which fails where the block is several mappings; then it copies. */
static void test_growing(void **state)
{
	static const size_t lens[] = {3 * PAGE, 100 * PAGE, 600 * PAGE};

	for (size_t i = 0; i < 3; i++) {
		uint8_t *memory = malloc(lens[i]), *grown;
		struct weft_region region;

		memset(memory, 0x5a, lens[i]);
		region = acquire(memory, lens[i]);
		assert_true(is_pooled(&region));
		grown = realloc(memory, 4 * lens[i]);
		assert_non_null(grown);
		memset(grown + lens[i], 0xa5, 3 * lens[i]);
		for (size_t k = 0; k < 4 * lens[i]; k++)
			assert_int_equal(grown[k], k < lens[i] ? 0x5a : 0xa5);
		weft_region_release(&region);
		for (size_t k = 0; k < 4 * lens[i]; k++)
			assert_int_equal(grown[k], k < lens[i] ? 0x5a : 0xa5);
		free(grown);
		assert_int_equal(memfd_source_extents(), 0);
	}
}

/* Growing by mremap must not reach the neighbour's extent; moving by mremap takes the contents along. */
static void test_mremap(void **state)
{
	uint8_t *memory = map(4 * PAGE), *other = map(4 * PAGE), *moved, *target = map(8 * PAGE);
	struct weft_region region = acquire(memory, 4 * PAGE);
	struct weft_region neighbour = acquire(other, 4 * PAGE);

	memset(memory, 1, 4 * PAGE);
	memset(other, 2, 4 * PAGE);
	moved = mremap(memory, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
	assert_ptr_equal(moved, MAP_FAILED);
	moved = mremap(memory, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target);
	assert_ptr_equal(moved, target);
	memset(moved, 3, PAGE);
	assert_int_equal(memfd_source_at(region.pieces[0].off)[0], 3);
	weft_region_release(&region);
	/* the page that mremap has moved is out of the pool now */
	assert_int_equal(memfd_source_extents(), 1);
	region = acquire(target + 4 * PAGE, PAGE);
	memset(target + 4 * PAGE, 4, PAGE);
	assert_int_equal(moved[0], 3);
	assert_int_equal(memory[PAGE], 1);
	assert_int_equal(other[0], 2);
	weft_region_release(&region);
	weft_region_release(&neighbour);
	assert_int_equal(moved[0], 3);
	assert_int_equal(other[0], 2);
	assert_int_equal(memfd_source_extents(), 0);
	munmap(other, 4 * PAGE);
	munmap(target, 8 * PAGE);
	munmap(memory + PAGE, 3 * PAGE);
}

static void rounds_of_changing_sizes(unsigned long count)
{
	size_t resident_before = 0;
	unsigned int mappings_before = 0;

	for (unsigned long i = 0; i < count; i++) {
		unsigned int random = (unsigned int)(i * 2654435761u);
		size_t len = random % 4 ? random % 20000 + 1 : random % (300 << 10) + 1;
		uint8_t *memory = malloc(len);
		struct weft_region region = acquire(memory, len);

		memory[random % len] = 1;
		weft_region_release(&region);
		free(memory);
		if (i == count / 2) {
			resident_before = resident();
			mappings_before = weft_vma_count();
		}
	}
	assert_int_equal(memfd_source_extents(), 0);
	assert_int_equal(memfd_source_resident(), 0);
	assert_in_range(resident(), 0, resident_before + MIB);
	assert_in_range(weft_vma_count(), 0, mappings_before + 64);
}

static void test_rounds(void **state)
{
	rounds_of_changing_sizes(100000 * rounds);
}

static void *sleeper(void *lock)
{
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
	return NULL;
}

static void test_rounds_with_threads(void **state)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;

	pthread_mutex_lock(&lock);
	assert_int_equal(pthread_create(&thread, NULL, sleeper, &lock), 0);
	rounds_of_changing_sizes(10000 * rounds);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
}

/* Mappings that a migration has left apart are merged by the next one. */
static void test_same_memory(void **state)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint8_t *memory = map(MIB);
	struct weft_region region;
	unsigned int mappings;
	pthread_t thread;

	pthread_mutex_lock(&lock);
	assert_int_equal(pthread_create(&thread, NULL, sleeper, &lock), 0);
	for (size_t i = 0; i < MIB; i++)
		memory[i] = (uint8_t)(i / 61);
	region = acquire(memory, MIB);
	weft_region_release(&region);
	mappings = weft_vma_count();
	for (size_t i = 0; i < 100 * rounds; i++) {
		size_t from = i * 7919 % 200 * PAGE, len = (i * 31 % 50 + 1) * PAGE;

		region = acquire(memory + from, len);
		assert_int_equal(region.npieces, 1);
		weft_region_release(&region);
	}
	region = acquire(memory, MIB);
	assert_int_equal(region.npieces, 1);
	weft_region_release(&region);
	assert_in_range(weft_vma_count(), 0, mappings + 4);
	for (size_t i = 0; i < MIB; i++)
		assert_int_equal(memory[i], (uint8_t)(i / 61));
	munmap(memory, MIB);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
}

static void test_many_regions(void **state)
{
	enum { COUNT = 40000 };
	uint8_t *memory = map(COUNT * PAGE);
	struct weft_region *regions = calloc(COUNT, sizeof(*regions));
	double start = now(), middle;
	unsigned int pooled = 0;

	for (size_t i = 0; i < COUNT; i++) {
		/* in an order that leaves gaps at first */
		size_t page = i * 7919 % COUNT;

		memory[page * PAGE] = (uint8_t)page;
		regions[page] = acquire(memory + page * PAGE, PAGE);
		pooled += is_pooled(&regions[page]);
	}
	middle = now();
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(memory[i * PAGE], (uint8_t)i);
		weft_region_release(&regions[i]);
		assert_int_equal(memory[i * PAGE], (uint8_t)i);
	}
	print_message("%u of %d pooled, %.1f s to register, %.1f s to deregister\n", pooled, COUNT,
		      middle - start, now() - middle);
	assert_int_equal(memfd_source_extents(), 0);
	assert_in_range((uintmax_t)(middle - start), 0, 30);
	free(regions);
	munmap(memory, COUNT * PAGE);
}

static void test_large(void **state)
{
	size_t len = 256 * MIB;
	uint8_t *block = calloc(1, len + 2 * PAGE);
	/* it touches one page more than its length, wherever the allocator begins a block */
	uint8_t *memory = block + PAGE - (uintptr_t)block % PAGE + 64;
	double start = now(), middle, end;
	struct weft_region region = acquire(memory, len);

	middle = now();
	assert_int_equal(region.npieces, 3);
	assert_true(is_pooled(&region));
	assert_int_equal(region.pieces[1].len_bytes, len - PAGE);
	memory[len / 2] = 1;
	end = now();
	weft_region_release(&region);
	print_message("256 MiB: %.2f s to register, %.2f s to deregister\n", middle - start,
		      now() - end);
	assert_int_equal(memory[len / 2], 1);
	assert_int_equal(memory[len / 2 + 1], 0);
	free(block);
	assert_int_equal(memfd_source_resident(), 0);
}

static void dump_core(const char *directory, const char *pool)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	uint8_t *memory = map(4 * PAGE);
	int file = open(pool, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct weft_region region;

	memfd_source_attach_file(file);
	/* a word that is nowhere else in the process */
	for (size_t i = 0; i < 4 * PAGE; i += 8)
		*(uint64_t *)(memory + i) = ~0x5745465457454654ul;
	region = acquire(memory, 4 * PAGE);
	if (!is_pooled(&region) || setrlimit(RLIMIT_CORE, &limit) || chdir(directory))
		_exit(1);
	signal(SIGABRT, SIG_DFL);
	abort();
}

static unsigned int words_in(const char *path)
{
	unsigned int words = 0;
	FILE *file = fopen(path, "re");
	uint64_t word;

	assert_non_null(file);
	while (fread(&word, sizeof(word), 1, file) == 1)
		words += word == ~0x5745465457454654ul;
	fclose(file);
	return words;
}

static void test_core_dump(void **state)
{
	char directory[] = "/tmp/weft-core-XXXXXX", pool[64], core[64], pattern[8] = "";
	int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC), status;
	pid_t pid;

	if (fd < 0 || read(fd, pattern, sizeof(pattern) - 1) < 0 || strcmp(pattern, "core\n") != 0)
		skip();
	close(fd);
	assert_non_null(mkdtemp(directory));
	snprintf(pool, sizeof(pool), "/dev/shm/%s", directory + strlen("/tmp/"));
	pid = fork();
	if (!pid)
		dump_core(directory, pool);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	unlink(pool);
	assert_true(WIFSIGNALED(status));
	snprintf(core, sizeof(core), "%s/core", directory);
	if (access(core, R_OK))
		snprintf(core, sizeof(core), "%s/core.%d", directory, (int)pid);
	assert_int_equal(words_in(core), 4 * PAGE / 8);
	unlink(core);
	rmdir(directory);
}

#ifdef HAVE_LIBURING
#include <liburing.h>

/* Fixed buffers are pinned pages: whether registered before or after, the bytes that are read arrive. */
static void read_fixed(struct io_uring *ring, int fd, void *buffer, unsigned int len)
{
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_read_fixed(sqe, fd, buffer, len, 0, 0);
	assert_int_equal(io_uring_submit(ring), 1);
	assert_int_equal(io_uring_wait_cqe(ring, &cqe), 0);
	assert_int_equal(cqe->res, len);
	io_uring_cqe_seen(ring, cqe);
}

static void test_io_uring(void **state)
{
	uint8_t *memory = map(4 * PAGE);
	struct iovec vector = {memory, 4 * PAGE};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct weft_region before, after;
	struct io_uring ring;
	uint8_t expected[PAGE];

	assert_int_equal(pread(fd, expected, PAGE, 0), PAGE);
	before = acquire(memory, 2 * PAGE);
	assert_true(is_pooled(&before));
	if (io_uring_queue_init(4, &ring, 0)) {
		weft_region_release(&before);
		skip();
	}
	after = acquire(memory + 2 * PAGE, 2 * PAGE);
	assert_false(is_pooled(&after));
	assert_int_equal(io_uring_register_buffers(&ring, &vector, 1), 0);
	for (size_t i = 0; i < 4; i++) {
		read_fixed(&ring, fd, memory + i * PAGE, PAGE);
		assert_memory_equal(memory + i * PAGE, expected, PAGE);
	}
	io_uring_queue_exit(&ring);
	weft_region_release(&after);
	weft_region_release(&before);
	assert_memory_equal(memory, expected, PAGE);
	/* the kernel ends a ring some time after it is closed */
	for (int i = 0; weft_region_is_away() && i < 2500; i++) {
		weft_region_bring_home(weft_clock_now_ns());
		usleep(2000);
	}
	assert_int_equal(memfd_source_extents(), 0);
	after = acquire(memory, 4 * PAGE);
	assert_int_equal(after.npieces, 1);
	assert_true(is_pooled(&after));
	weft_region_release(&after);
	close(fd);
	munmap(memory, 4 * PAGE);
}
#else
static void test_io_uring(void **state)
{
	skip();
}
#endif

static int setup(void **state)
{
	memfd_source_attach();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calloc_after_free),
		cmocka_unit_test(test_growing),
		cmocka_unit_test(test_mremap),
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_rounds_with_threads),
		cmocka_unit_test(test_same_memory),
		cmocka_unit_test(test_many_regions),
		cmocka_unit_test(test_io_uring),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_core_dump),
	};

	if (argc > 1)
		rounds = strtoul(argv[1], NULL, 10);
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	return cmocka_run_group_tests_name("use", tests, setup, NULL);
}
