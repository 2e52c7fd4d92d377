/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finding the libcuda that a program has loaded, and asking it what memory is its own. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "child.h"
#include "cuda/find.h"
#include "cuda/memory.h"
#include "facts.h"

#define PAGE 4096ul

static struct weft_cuda found;

/* Two objects that facts.h declares: its kinds of memory are used here. */
sigjmp_buf facts_escape;
_Atomic int facts_guarded;
void facts_say(const char *fact, const char *answer)
{
}
void facts_say_number(const char *fact, long long answer)
{
}

/* ---- finding ---- */

static void finds_it(void **state)
{
	const char *lacks = "";
	void *library;

	assert_int_equal(weft_cuda_find(&found, &lacks), -ENOENT);
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
	assert_int_equal(weft_cuda_find(&found, &lacks), 0);
	assert_null(lacks);
#define SAME(name, args) assert_ptr_equal(*(void **)&found.name, dlsym(library, #name));
	WEFT_CUDA_CALLS(SAME)
	WEFT_CUDA_OLD_CALLS(SAME)
#undef SAME
	dlclose(library);
	assert_int_equal(weft_cuda_find(&found, NULL), -ENOENT);
}

/* A library that has the name of libcuda, but not its calls. */
static void says_what_is_missing(void **state)
{
	char folder[] = "/tmp/weft-find-XXXXXX", name[64];
	const char *lacks = NULL;
	void *library;

	assert_non_null(mkdtemp(folder));
	snprintf(name, sizeof(name), "%s/libcuda.so.1", folder);
	assert_int_equal(symlink(HOLLOW_CUDA, name), 0);
	library = dlopen(name, RTLD_NOW);
	unlink(name);
	rmdir(folder);
	assert_non_null(library);
	assert_int_equal(weft_cuda_find(&found, &lacks), -ENOSYS);
	assert_non_null(lacks);
	assert_null(found.cuMemAlloc_v2);
	dlclose(library);
}

/* Looks for libcuda while another thread is in the constructor of a library that it loads, and waits there for this one. */
static void *find(void *arg)
{
	*(int *)arg = weft_cuda_find(&found, NULL);
	return NULL;
}

static pthread_t finder;
static int result = 1;

__attribute__((visibility("default"))) void slow_begins(void);

void slow_begins(void)
{
	pthread_create(&finder, NULL, find, &result);
	pthread_join(finder, NULL);
}

static void without_the_loaders_lock(void **state)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *slow;

	alarm(20);
	slow = dlopen(SLOW, RTLD_NOW);
	assert_non_null(slow);
	assert_int_equal(result, 0);
	alarm(0);
	dlclose(slow);
	dlclose(library);
}

/* ---- memory ---- */

static struct weft_cuda_memory look(weft_cu_ptr at, size_t bytes)
{
	struct weft_cuda_memory memory;
	int err = weft_cuda_look(&found, at, bytes, &memory);

	if (err) {
		fprintf(stderr, "weft_cuda_look: %s\n", strerror(-err));
		_exit(4);
	}
	return memory;
}

static weft_cu_context begin(void)
{
	weft_cu_context context = gpu_context();

	WANT(!weft_cuda_find(&found, NULL));
	return context;
}

static void kinds(void)
{
	static const enum weft_cuda_kind wanted[] = {
		[FACTS_LEGACY] = WEFT_CUDA_DEVICE,     [FACTS_POOL] = WEFT_CUDA_DEVICE,
		[FACTS_MANAGED] = WEFT_CUDA_MANAGED,   [FACTS_VMM] = WEFT_CUDA_DEVICE,
		[FACTS_VMM_FD] = WEFT_CUDA_DEVICE,     [FACTS_HOST] = WEFT_CUDA_PINNED,
		[FACTS_REGISTERED] = WEFT_CUDA_PINNED, [FACTS_PAGEABLE] = WEFT_CUDA_UNKNOWN,
	};
	weft_cu_context context = begin();
	weft_cu_ptr at[FACTS_KINDS];

	for (enum facts_kind kind = 0; kind < FACTS_KINDS; kind++)
		at[kind] = facts_memory(kind);
	/* whichever context is current, if any */
	GPU_OK(cu.cuCtxPopCurrent_v2(NULL));
	for (enum facts_kind kind = 0; kind < FACTS_KINDS; kind++) {
		struct weft_cuda_memory memory = look(at[kind] + 100, 5000);

		WANT(memory.kind == wanted[kind]);
		WANT(memory.exportable == (kind == FACTS_LEGACY));
		if (kind == FACTS_PAGEABLE)
			continue;
		WANT(memory.parts == 1 && memory.device == 0);
		WANT(memory.part[0].start == at[kind] && memory.part[0].bytes == FACTS_BYTES);
		WANT(!memory.context || memory.context == context);
		WANT(kind != FACTS_LEGACY || memory.context == context);
		WANT(weft_cuda_is_still(&found, &memory));
		weft_cuda_forget(&memory);
	}
	_exit(0);
}

static void leaves_its_allocation(void)
{
	struct weft_cuda_memory memory;
	weft_cu_ptr legacy, registered;

	begin();
	legacy = facts_memory(FACTS_LEGACY);
	registered = facts_memory(FACTS_REGISTERED);
	memory = look(legacy, FACTS_BYTES);
	weft_cuda_forget(&memory);
	WANT(weft_cuda_look(&found, legacy + 1, FACTS_BYTES, &memory) == -EFAULT);
	WANT(weft_cuda_look(&found, registered + FACTS_BYTES - PAGE, 2 * PAGE, &memory) == -EFAULT);
	/* a range whose first pages are the program's own, and the others CUDA's */
	GPU_OK(cu.cuMemHostUnregister((void *)(uintptr_t)registered));
	GPU_OK(cu.cuMemHostRegister_v2((void *)(uintptr_t)(registered + 8 * PAGE), PAGE, 0));
	WANT(weft_cuda_look(&found, registered, 16 * PAGE, &memory) == -EFAULT);
	WANT(weft_cuda_may_pin(&found, registered, 16 * PAGE));
	WANT(!weft_cuda_may_pin(&found, registered, 8 * PAGE));
	WANT(!weft_cuda_may_pin(&found, registered + 9 * PAGE, PAGE));
	_exit(0);
}

static bool is_run(weft_cu_ptr at, size_t pages, uint64_t from, size_t run_pages)
{
	uint64_t first, end;

	return weft_cuda_pinned_run(&found, at, pages * PAGE, &first, &end) && first == from &&
	       end == from + run_pages * PAGE;
}

/* Two registrations, one of whole pages and one that begins and ends within pages. */
static void pinned_runs(void)
{
	uint8_t *pages =
		mmap(NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	weft_cu_ptr at = (uintptr_t)pages;
	uint64_t first, end;

	WANT(pages != MAP_FAILED);
	WANT(!weft_cuda_pinned_run(&found, at, 32 * PAGE, &first, &end)); /* before cuInit */
	begin();
	WANT(!weft_cuda_pinned_run(&found, at, 32 * PAGE, &first, &end));
	GPU_OK(cu.cuMemHostRegister_v2(pages + 4 * PAGE, 3 * PAGE, 0));
	GPU_OK(cu.cuMemHostRegister_v2(pages + 10 * PAGE + 100, PAGE, 0));
	WANT(is_run(at, 32, at + 4 * PAGE, 3));
	WANT(is_run(at + 5 * PAGE, 27, at + 5 * PAGE, 2));
	WANT(is_run(at + 7 * PAGE, 25, at + 10 * PAGE, 2));
	WANT(!weft_cuda_pinned_run(&found, at + 12 * PAGE, 20 * PAGE, &first, &end));
	WANT(!weft_cuda_pinned_run(&found, at, 4 * PAGE, &first, &end));
	_exit(0);
}

/* An address that was freed and given out again: another allocation. */
static void given_out_again(void)
{
	struct weft_cuda_memory memory;
	weft_cu_ptr at, again;

	begin();
	at = facts_memory(FACTS_LEGACY);
	memory = look(at, FACTS_BYTES);
	GPU_OK(cu.cuMemFree_v2(at));
	WANT(!weft_cuda_is_still(&found, &memory));
	again = facts_memory(FACTS_LEGACY);
	WANT(at == again);
	WANT(!weft_cuda_is_still(&found, &memory));
	weft_cuda_forget(&memory);
	memory = look(at, FACTS_BYTES);
	WANT(weft_cuda_is_still(&found, &memory));
	_exit(0);
}

/* Two mappings side by side are one range of memory, until another handle is mapped in the place of one. */
static void several_handles(void)
{
	struct weft_cu_access access = {{WEFT_CU_MEM_LOCATION_TYPE_DEVICE, 0},
					WEFT_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	struct weft_cuda_memory memory;
	weft_cu_ptr at;

	begin();
	GPU_OK(cu.cuMemAddressReserve(&at, 2 * FACTS_BYTES, 0, 0, 0));
	GPU_OK(cu.cuMemMap(at, FACTS_BYTES, 0, facts_handle(false), 0));
	GPU_OK(cu.cuMemMap(at + FACTS_BYTES, FACTS_BYTES, 0, facts_handle(false), 0));
	GPU_OK(cu.cuMemSetAccess(at, 2 * FACTS_BYTES, &access, 1));
	memory = look(at + 1, 2 * FACTS_BYTES - 1);
	WANT(memory.parts == 2 && memory.part[1].start == at + FACTS_BYTES);
	GPU_OK(cu.cuMemUnmap(at + FACTS_BYTES, FACTS_BYTES));
	WANT(!weft_cuda_is_still(&found, &memory));
	GPU_OK(cu.cuMemMap(at + FACTS_BYTES, FACTS_BYTES, 0, facts_handle(false), 0));
	WANT(!weft_cuda_is_still(&found, &memory));
	_exit(0);
}

static void no_answer(void)
{
	struct weft_cuda_memory memory;
	weft_cu_ptr at;
	pid_t pid;

	begin();
	at = facts_memory(FACTS_LEGACY);
	memory = look(at, FACTS_BYTES);
	pid = fork();
	if (!pid) {
		struct weft_cuda_memory other;

		WANT(weft_cuda_look(&found, at, FACTS_BYTES, &other) == -EIO);
		WANT(!weft_cuda_is_still(&found, &memory));
		WANT(weft_cuda_may_pin(&found, (uintptr_t)&other, 1));
		_exit(0);
	}
	_exit(child_status(pid) != 0);
}

#define CASE(name)                                                                                 \
	static void memory_##name(void **state)                                                    \
	{                                                                                          \
		child_ok(name);                                                                    \
	}
CASE(kinds)
CASE(leaves_its_allocation)
CASE(pinned_runs)
CASE(given_out_again)
CASE(several_handles)
CASE(no_answer)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_it),
		cmocka_unit_test(says_what_is_missing),
		cmocka_unit_test(without_the_loaders_lock),
		cmocka_unit_test(memory_kinds),
		cmocka_unit_test(memory_leaves_its_allocation),
		cmocka_unit_test(memory_pinned_runs),
		cmocka_unit_test(memory_given_out_again),
		cmocka_unit_test(memory_several_handles),
		cmocka_unit_test(memory_no_answer),
	};

	return cmocka_run_group_tests_name("find", tests, NULL, NULL);
}
