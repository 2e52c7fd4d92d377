/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Shows that the stand-in does always what hardware does only seldom: what takes
 * effect late, in which order, and what it notices. It runs on the stand-in alone. */
#include <linux/capability.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "child.h"
#include "gpu.h"

#define PAGE   4096ul
#define BYTES  (64 * PAGE)
#define ROUNDS 100

static const char *image;

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* A context's end takes its memory and streams along. */
static weft_cu_context context;

/* ---- late ---- */

static void late(void)
{
	weft_cu_stream stream;
	weft_cu_ptr at;
	uint64_t *to;

	context = gpu_context();
	to = gpu_pinned(BYTES);
	at = gpu_alloc(BYTES);
	GPU_OK(cu.cuStreamCreate(&stream, WEFT_CU_STREAM_NON_BLOCKING));
	GPU_OK(cu.cuMemsetD8_v2(at, 1, BYTES));
	GPU_OK(cu.cuCtxSynchronize());
	GPU_OK(cu.cuMemcpyDtoHAsync_v2(to, at, BYTES, stream));
	sleep_ms(5);
	WANT(to[0] == 0 && to[BYTES / 8 - 1] == 0);
	GPU_OK(cu.cuStreamSynchronize(stream));
	WANT(to[0] == 0x0101010101010101 && to[BYTES / 8 - 1] == 0x0101010101010101);
	/* no call waits for the copy: it is done in the end all the same */
	memset(to, 0, BYTES);
	GPU_OK(cu.cuMemcpyDtoHAsync_v2(to, at, BYTES, stream));
	for (int i = 0; i < 2000 && !__atomic_load_n(&to[BYTES / 8 - 1], __ATOMIC_RELAXED); i++)
		sleep_ms(1);
	WANT(__atomic_load_n(&to[BYTES / 8 - 1], __ATOMIC_RELAXED));
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

/* cuStreamQuery makes the work go on, but the first query need not find it done. */
static void late_for_queries(void)
{
	unsigned int not_ready = 0, at_once = 0;
	weft_cu_stream stream;
	weft_cu_ptr at;
	uint64_t *to;

	context = gpu_context();
	to = gpu_pinned(PAGE);
	at = gpu_alloc(PAGE);
	GPU_OK(cu.cuMemsetD8_v2(at, 1, PAGE));
	GPU_OK(cu.cuStreamCreate(&stream, WEFT_CU_STREAM_NON_BLOCKING));
	GPU_OK(cu.cuCtxSynchronize());
	for (int i = 0; i < ROUNDS; i++) {
		weft_cu_result result;
		unsigned int asked = 0;

		to[0] = 0;
		GPU_OK(cu.cuMemcpyDtoHAsync_v2(to, at, PAGE, stream));
		while ((result = cu.cuStreamQuery(stream)) == WEFT_CUDA_ERROR_NOT_READY)
			asked++;
		GPU_OK(result);
		WANT(to[0]);
		not_ready += asked > 0;
		at_once += !asked;
	}
	WANT(not_ready == ROUNDS && !at_once);
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

/* The calls that return while all work is held back; the others would wait for ever. */
static void late_calls(void)
{
	weft_cu_ptr at, other;
	char own[PAGE] = "";

	context = gpu_context();
	at = gpu_alloc(PAGE);
	other = gpu_alloc(PAGE);
	gpu_hold(true);
	alarm(5);
	GPU_OK(cu.cuMemcpyHtoD_v2(at, own, PAGE)); /* staged */
	gpu_hold(false);
	GPU_OK(cu.cuCtxSynchronize());
	gpu_hold(true);
	GPU_OK(cu.cuMemcpyDtoD_v2(other, at, PAGE));
	GPU_OK(cu.cuMemsetD8_v2(at, 1, PAGE));
	gpu_hold(false);
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

static void *let_go(void *arg)
{
	sleep_ms(100);
	__atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
	gpu_hold(false);
	return NULL;
}

/* While work is held back, a thread that waits for it does not return. */
static void held(void)
{
	pthread_t thread;
	weft_cu_ptr at;
	char own[PAGE];
	int gone = 0;

	context = gpu_context();
	at = gpu_alloc(PAGE);
	gpu_hold(true);
	GPU_OK(cu.cuMemsetD8_v2(at, 1, PAGE));
	for (int i = 0; i < 100; i++)
		WANT(cu.cuStreamQuery(NULL) == WEFT_CUDA_ERROR_NOT_READY);
	sleep_ms(100);
	WANT(cu.cuStreamQuery(NULL) == WEFT_CUDA_ERROR_NOT_READY);
	WANT(!pthread_create(&thread, NULL, let_go, &gone));
	GPU_OK(cu.cuMemcpyDtoH_v2(own, at, PAGE));
	WANT(__atomic_load_n(&gone, __ATOMIC_ACQUIRE) && own[0] == 1);
	pthread_join(thread, NULL);
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

/* ---- order ---- */

/* The last word of one copy is there before others: a kernel that polls it sees holes. */
static void torn(void)
{
	enum { WORDS = 1024 };
	struct {
		uint64_t words, count, answer, rounds;
	} args = {0, WORDS, 0, ROUNDS};
	void *params[] = {&args};
	uint64_t *from, *answer;
	weft_cu_stream running, copying;
	weft_cu_function poll;
	weft_cu_module module;

	context = gpu_context();
	args.words = gpu_alloc(8 * WORDS);
	from = gpu_pinned(8 * WORDS);
	answer = gpu_pinned(16);
	args.answer = (uintptr_t)answer;
	module = gpu_module(image);
	GPU_OK(cu.cuModuleGetFunction(&poll, module, "poll"));
	GPU_OK(cu.cuMemsetD8_v2(args.words, 0, 8 * WORDS));
	GPU_OK(cu.cuStreamCreate(&running, WEFT_CU_STREAM_NON_BLOCKING));
	GPU_OK(cu.cuStreamCreate(&copying, WEFT_CU_STREAM_NON_BLOCKING));
	GPU_OK(cu.cuCtxSynchronize());
	GPU_OK(cu.cuLaunchKernel(poll, 1, 1, 1, 32, 1, 1, 0, running, params, NULL));
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		for (unsigned int i = 0; i < WORDS; i++)
			from[i] = round;
		GPU_OK(cu.cuMemcpyHtoDAsync_v2(args.words, from, 8 * WORDS, copying));
		GPU_OK(cu.cuStreamSynchronize(copying));
		while (__atomic_load_n(&answer[0], __ATOMIC_ACQUIRE) != round)
			;
	}
	GPU_OK(cu.cuStreamSynchronize(running));
	WANT(answer[1] > 0);
	GPU_OK(cu.cuModuleUnload(module));
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

static uint8_t *watched;
static char touched[BYTES / PAGE + 1];
static unsigned int touches;

/* A handler of SIGSEGV that notes when an engine comes to a page for the first time. */
static void note_page(int signal, siginfo_t *info, void *arg)
{
	size_t page = ((uintptr_t)info->si_addr - (uintptr_t)watched) / PAGE;

	if (page >= BYTES / PAGE)
		_exit(5);
	touched[touches++] = (char)('0' + page);
	mprotect(watched + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
}

static void order_of_pages(void)
{
	struct sigaction action = {.sa_sigaction = note_page, .sa_flags = SA_SIGINFO};
	weft_cu_ptr at;

	context = gpu_context();
	at = gpu_alloc(BYTES);
	watched = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &action, NULL);
	GPU_OK(cu.cuMemcpyDtoH_v2(watched, at, BYTES));
	WANT(touches == BYTES / PAGE);
	fprintf(stderr, "pages %s\n", touched);
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

/* ---- what it notices ---- */

static uint8_t *anonymous(void *at)
{
	uint8_t *memory = mmap(at, BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	WANT(memory != MAP_FAILED);
	memset(memory, 0, BYTES);
	return memory;
}

static void use(uint8_t *memory)
{
	weft_cu_ptr at = gpu_alloc(BYTES);

	GPU_OK(cu.cuMemcpyHtoDAsync_v2(at, memory, BYTES, NULL));
	GPU_OK(cu.cuCtxSynchronize());
	GPU_OK(cu.cuMemFree_v2(at));
}

static void pinned_stays(void)
{
	uint8_t *memory = anonymous(NULL);

	context = gpu_context();
	GPU_OK(cu.cuMemHostRegister_v2(memory, BYTES, 0));
	use(memory);
	mprotect(memory + PAGE, PAGE, PROT_READ); /* the same pages, in two mappings */
	use(memory);
	GPU_OK(cu.cuMemHostUnregister(memory));
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

/* A page of pinned memory is replaced by one of a file, as a library does that moves memory. */
static void pinned_moves(void)
{
	uint8_t *memory = anonymous(NULL);
	int file = memfd_create("elsewhere", 0);

	context = gpu_context();
	GPU_OK(cu.cuMemHostRegister_v2(memory, BYTES, 0));
	WANT(!ftruncate(file, PAGE));
	(void)mmap(memory + 9 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
		   0);
	use(memory);
}

/* Anonymous pages are replaced by other anonymous ones. */
static void pinned_moves_back(void)
{
	uint8_t *memory = anonymous(NULL);

	context = gpu_context();
	GPU_OK(cu.cuMemHostRegister_v2(memory, BYTES, 0));
	anonymous(memory);
	use(memory);
}

/* Where the stand-in cannot lock memory it still notices a page of another file at the same offset. */
static void pinned_moves_unlocked(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};
	int one = memfd_create("one", 0), other = memfd_create("other", 0);
	uint8_t *memory;

	WANT(!ftruncate(one, BYTES) && !ftruncate(other, BYTES));
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, one, 0);
	WANT(memory != MAP_FAILED);
	WANT(!setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){0, 0}));
	WANT(!syscall(SYS_capset, &header, none));
	WANT(mlock(&header, 1));
	context = gpu_context();
	GPU_OK(cu.cuMemHostRegister_v2(memory, BYTES, 0));
	use(memory);
	(void)mmap(memory + 9 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, other,
		   9 * PAGE);
	use(memory);
}

/* The end of a registration waits for the work of its own context alone. */
static void pinned_ends(void)
{
	uint8_t *memory = anonymous(NULL);
	weft_cu_ptr at;

	gpu_context();
	GPU_OK(cu.cuMemHostRegister_v2(memory, BYTES, WEFT_CU_MEMHOSTREGISTER_PORTABLE));
	context = gpu_context();
	at = gpu_alloc(BYTES);
	gpu_hold(true);
	GPU_OK(cu.cuMemcpyHtoDAsync_v2(at, memory, BYTES, NULL));
	GPU_OK(cu.cuMemHostUnregister(memory));
	gpu_hold(false);
	cu.cuCtxSynchronize();
}

/* Memory that is freed while a copy into it waits in a stream makes its context fail. */
static void freed_in_flight(void)
{
	weft_cu_stream one, other;
	weft_cu_ptr at;
	void *from;

	context = gpu_context();
	from = gpu_pinned(PAGE);
	GPU_OK(cu.cuStreamCreate(&one, WEFT_CU_STREAM_NON_BLOCKING));
	GPU_OK(cu.cuStreamCreate(&other, WEFT_CU_STREAM_NON_BLOCKING));
	GPU_OK(cu.cuMemAllocAsync(&at, PAGE, one));
	GPU_OK(cu.cuStreamSynchronize(one));
	GPU_OK(cu.cuMemcpyHtoDAsync_v2(at, from, PAGE, other));
	GPU_OK(cu.cuMemFreeAsync(at, one));
	GPU_OK(cu.cuStreamSynchronize(one));
	WANT(cu.cuStreamSynchronize(other) == WEFT_CUDA_ERROR_ILLEGAL_ADDRESS);
	WANT(cu.cuMemAlloc_v2(&at, PAGE) == WEFT_CUDA_ERROR_ILLEGAL_ADDRESS);
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

static void leaves_all(void)
{
	weft_cu_stream stream;
	weft_cu_event event;
	weft_cu_ptr at;

	gpu_context();
	GPU_OK(cu.cuMemHostRegister_v2(anonymous(NULL), BYTES, 0));
	gpu_pinned(PAGE);
	gpu_alloc(PAGE);
	gpu_alloc(PAGE);
	GPU_OK(cu.cuMemAllocAsync(&at, PAGE, NULL));
	GPU_OK(cu.cuStreamCreate(&stream, 0));
	GPU_OK(cu.cuEventCreate(&event, 0));
	GPU_OK(cu.cuMemAddressReserve(&at, 2ul << 20, 0, 0, 0));
}

#define OK_CASE(name)                                                                              \
	static void is_##name(void **state)                                                        \
	{                                                                                          \
		child_ok(name);                                                                    \
	}
OK_CASE(late)
OK_CASE(late_for_queries)
OK_CASE(late_calls)
OK_CASE(held)
OK_CASE(torn)
OK_CASE(pinned_stays)
OK_CASE(freed_in_flight)

static void notices_moved_pages(void **state)
{
	child_dies(pinned_moves, "whose page is no longer the one that was pinned");
}

static void notices_moved_pages_unlocked(void **state)
{
	child_dies(pinned_moves_unlocked, "whose page is no longer the one that was pinned");
}

static void notices_pages_that_came_back(void **state)
{
	child_dies(pinned_moves_back, "whose page is no longer the one that was pinned");
}

static void notices_the_end_of_pinning(void **state)
{
	child_dies(pinned_ends, "no longer registered with CUDA");
}

/* The order in which the engine of a copy comes to the pages, with this seed. */
static void order_by_seed(const char *seed, char order[BYTES / PAGE + 1])
{
	const char *found;
	int status;

	setenv("WEFT_SOFT_GPU_SEED", seed, 1);
	found = strstr(child_said(order_of_pages, &status), "pages ");
	unsetenv("WEFT_SOFT_GPU_SEED");
	assert_int_equal(status, 0);
	assert_non_null(found);
	snprintf(order, BYTES / PAGE + 1, "%s", found + strlen("pages "));
}

static void seed_repeats_the_order(void **state)
{
	char first[BYTES / PAGE + 1], again[BYTES / PAGE + 1], other[BYTES / PAGE + 1];

	order_by_seed("1", first);
	order_by_seed("1", again);
	order_by_seed("2", other);
	assert_string_equal(first, again);
	assert_string_not_equal(first, other);
}

static void lists_what_leaks(void **state)
{
	static const char *const lines[] = {
		"2 of cuMemAlloc\n",	      "1 of cuMemAllocAsync\n", "1 of cuMemAllocHost\n",
		"1 of cuMemHostRegister\n",   "1 of cuStreamCreate\n",	"1 of cuEventCreate\n",
		"1 of cuMemAddressReserve\n", "1 of cuCtxCreate\n",
	};
	int status;
	const char *text = child_said(leaves_all, &status);

	assert_int_equal(status, 0);
	assert_non_null(strstr(text, "WEFT_SOFT_GPU_SEED="));
	for (unsigned int i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (!strstr(text, lines[i]))
			fail_msg("no '%s' in: %s", lines[i], text);
}

/* test_soft MODULE */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_late),
		cmocka_unit_test(is_late_for_queries),
		cmocka_unit_test(is_late_calls),
		cmocka_unit_test(is_held),
		cmocka_unit_test(is_torn),
		cmocka_unit_test(is_pinned_stays),
		cmocka_unit_test(is_freed_in_flight),
		cmocka_unit_test(notices_moved_pages),
		cmocka_unit_test(notices_moved_pages_unlocked),
		cmocka_unit_test(notices_pages_that_came_back),
		cmocka_unit_test(notices_the_end_of_pinning),
		cmocka_unit_test(seed_repeats_the_order),
		cmocka_unit_test(lists_what_leaks),
	};

	image = argc > 1 ? argv[1] : "";
	return cmocka_run_group_tests_name("soft", tests, NULL, NULL);
}
