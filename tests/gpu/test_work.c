/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Copies, streams and kernels of a libcuda: what they must come to on the stand-in and on hardware
 * alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "gpu.h"

#define BYTES  (1ul << 20)
#define ROUNDS 200u

static const char *image;
static weft_cu_context context;
static weft_cu_module module;

static weft_cu_function function(const char *name)
{
	weft_cu_function found;

	GPU_OK(cu.cuModuleGetFunction(&found, module, name));
	return found;
}

static void fill(uint8_t *at, size_t bytes, unsigned int seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)((i + seed) * 2654435761u >> 13);
}

/* Bytes go there and back by way of two places on the device, at odd addresses; bytes beside them stay. */
static void copies(void **state)
{
	static const size_t sizes[] = {1, 7, 8, 63, 64, 65, 127, 4096, 65537, 300000};
	uint8_t *from = malloc(BYTES), *to = malloc(BYTES), *wanted = malloc(BYTES);
	weft_cu_ptr one = gpu_alloc(BYTES), two = gpu_alloc(BYTES);

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t into = 3 * i;

		fill(from, BYTES, i);
		GPU_OK(cu.cuMemsetD8_v2(two, 0xee, BYTES));
		GPU_OK(cu.cuMemcpyHtoD_v2(one + into, from + i, sizes[i]));
		GPU_OK(cu.cuMemcpyDtoD_v2(two + 2 * into, one + into, sizes[i]));
		GPU_OK(cu.cuMemcpyDtoH_v2(to, two, BYTES));
		memset(wanted, 0xee, BYTES);
		memcpy(wanted + 2 * into, from + i, sizes[i]);
		assert_memory_equal(to, wanted, BYTES);
	}
	GPU_OK(cu.cuMemFree_v2(one));
	GPU_OK(cu.cuMemFree_v2(two));
	free(from);
	free(to);
	free(wanted);
}

/* When the call that copies from pageable memory has returned, the source may be changed. */
static void source_changes(void **state)
{
	uint8_t *from = malloc(BYTES), *to = malloc(BYTES);
	weft_cu_ptr at = gpu_alloc(BYTES);

	fill(from, BYTES, 5);
	GPU_OK(cu.cuMemcpyHtoD_v2(at, from, BYTES));
	memset(from, 0, BYTES);
	GPU_OK(cu.cuMemcpyDtoH_v2(to, at, BYTES));
	fill(from, BYTES, 5);
	assert_memory_equal(to, from, BYTES);
	GPU_OK(cu.cuMemFree_v2(at));
	free(from);
	free(to);
}

/* Operations of a stream come one after the other, and those of two by an event. */
static void order_of_streams(void **state)
{
	uint8_t *from = gpu_pinned(BYTES), *to = gpu_pinned(BYTES);
	weft_cu_ptr one = gpu_alloc(BYTES), two = gpu_alloc(BYTES);
	weft_cu_stream first, second;
	weft_cu_event event;

	GPU_OK(cu.cuStreamCreate(&first, WEFT_CU_STREAM_NON_BLOCKING));
	GPU_OK(cu.cuStreamCreate(&second, WEFT_CU_STREAM_NON_BLOCKING));
	GPU_OK(cu.cuEventCreate(&event, WEFT_CU_EVENT_DISABLE_TIMING));
	for (unsigned int round = 0; round < 10; round++) {
		fill(from, BYTES, round);
		GPU_OK(cu.cuMemsetD8Async(one, 0, BYTES, first));
		GPU_OK(cu.cuMemcpyHtoDAsync_v2(one, from, BYTES, first));
		GPU_OK(cu.cuMemcpyDtoDAsync_v2(two, one, BYTES, first));
		GPU_OK(cu.cuEventRecord(event, first));
		GPU_OK(cu.cuStreamWaitEvent(second, event, 0));
		GPU_OK(cu.cuMemcpyDtoHAsync_v2(to, two, BYTES, second));
		if (round & 1)
			GPU_OK(cu.cuStreamSynchronize(second));
		else
			while (cu.cuStreamQuery(second) == WEFT_CUDA_ERROR_NOT_READY)
				;
		assert_memory_equal(to, from, BYTES);
	}
	GPU_OK(cu.cuEventDestroy_v2(event));
	GPU_OK(cu.cuStreamDestroy_v2(first));
	GPU_OK(cu.cuStreamDestroy_v2(second));
	GPU_OK(cu.cuMemFree_v2(one));
	GPU_OK(cu.cuMemFree_v2(two));
	GPU_OK(cu.cuMemFreeHost(from));
	GPU_OK(cu.cuMemFreeHost(to));
}

/* The stream NULL waits for blocking ones, and they for it. */
static void legacy_stream(void **state)
{
	uint8_t *from = gpu_pinned(BYTES), *to = gpu_pinned(BYTES);
	weft_cu_ptr at = gpu_alloc(BYTES);
	weft_cu_stream blocking;

	GPU_OK(cu.cuStreamCreate(&blocking, WEFT_CU_STREAM_DEFAULT));
	for (unsigned int round = 0; round < 10; round++) {
		fill(from, BYTES, round);
		GPU_OK(cu.cuMemcpyHtoDAsync_v2(at, from, BYTES, blocking));
		GPU_OK(cu.cuMemcpyDtoHAsync_v2(to, at, BYTES, NULL));
		GPU_OK(cu.cuMemsetD8Async(at, 0, BYTES, blocking));
		GPU_OK(cu.cuCtxSynchronize());
		assert_memory_equal(to, from, BYTES);
	}
	GPU_OK(cu.cuStreamDestroy_v2(blocking));
	GPU_OK(cu.cuMemFree_v2(at));
	GPU_OK(cu.cuMemFreeHost(from));
	GPU_OK(cu.cuMemFreeHost(to));
}

/* The device reaches memory that the program registered with CUDA; it is the same memory. */
static void registered(void **state)
{
	uint8_t *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *wanted = malloc(BYTES);
	weft_cu_ptr memory = gpu_alloc(BYTES);
	weft_cu_stream stream;

	fill(wanted, BYTES, 9);
	GPU_OK(cu.cuMemHostRegister_v2(at, BYTES, 0));
	GPU_OK(cu.cuStreamCreate(&stream, WEFT_CU_STREAM_NON_BLOCKING));
	memcpy(at, wanted, BYTES);
	GPU_OK(cu.cuMemcpyHtoDAsync_v2(memory, at, BYTES, stream));
	GPU_OK(cu.cuStreamSynchronize(stream));
	memset(at, 0, BYTES);
	GPU_OK(cu.cuMemcpyDtoHAsync_v2(at, memory, BYTES, stream));
	GPU_OK(cu.cuStreamSynchronize(stream));
	assert_memory_equal(at, wanted, BYTES);
	GPU_OK(cu.cuMemHostUnregister(at));
	GPU_OK(cu.cuStreamDestroy_v2(stream));
	GPU_OK(cu.cuMemFree_v2(memory));
	munmap(at, BYTES);
	free(wanted);
}

/* ---- kernels ---- */

static void kernels_fill(void **state)
{
	struct {
		uint64_t at, count, value;
	} args = {gpu_alloc(BYTES), BYTES / 8, 77};
	void *params[] = {&args};
	uint64_t *seen = malloc(BYTES);

	GPU_OK(cu.cuLaunchKernel(function("fill"), 40, 1, 1, 96, 1, 1, 0, NULL, params, NULL));
	args.value = 0; /* the launch has copied the arguments */
	GPU_OK(cu.cuMemcpyDtoH_v2(seen, args.at, BYTES));
	for (uint64_t i = 0; i < args.count; i++)
		assert_int_equal(seen[i], 77 + i);
	GPU_OK(cu.cuMemFree_v2(args.at));
	free(seen);
}

/* Device memory, pinned memory and managed memory, each by many warps. */
static void kernels_add(void **state)
{
	struct {
		uint64_t word, times;
	} args = {0, 1000};
	void *params[] = {&args};
	uint64_t *host = gpu_pinned(8), seen;
	weft_cu_ptr at = gpu_alloc(8);

	GPU_OK(cu.cuMemsetD8_v2(at, 0, 8));
	args.word = at;
	GPU_OK(cu.cuLaunchKernel(function("add"), 4, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
	args.word = (uintptr_t)host;
	GPU_OK(cu.cuLaunchKernel(function("add"), 4, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
	GPU_OK(cu.cuMemcpyDtoH_v2(&seen, at, 8));
	assert_int_equal(seen, 8000);
	assert_int_equal(*host, 8000);
	GPU_OK(cu.cuMemFree_v2(at));
	GPU_OK(cu.cuMemFreeHost(host));
}

/* A running kernel polls the last word of what another stream copies; the last word as an operation
 * of its own comes when all others are there. */
static void last_word_last(void **state)
{
	enum { WORDS = 1024 };
	struct {
		uint64_t words, count, answer, rounds;
	} args = {gpu_alloc(8 * WORDS), WORDS, 0, ROUNDS};
	void *params[] = {&args};
	uint64_t *from = gpu_pinned(8 * WORDS), *answer = gpu_pinned(16);
	weft_cu_stream running, copying;

	args.answer = (uintptr_t)answer;
	GPU_OK(cu.cuMemsetD8_v2(args.words, 0, 8 * WORDS));
	GPU_OK(cu.cuStreamCreate(&running, WEFT_CU_STREAM_NON_BLOCKING));
	GPU_OK(cu.cuStreamCreate(&copying, WEFT_CU_STREAM_NON_BLOCKING));
	GPU_OK(cu.cuCtxSynchronize());
	GPU_OK(cu.cuLaunchKernel(function("poll"), 1, 1, 1, 32, 1, 1, 0, running, params, NULL));
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		for (unsigned int i = 0; i < WORDS; i++)
			from[i] = round;
		GPU_OK(cu.cuMemcpyHtoDAsync_v2(args.words, from, 8 * (WORDS - 1), copying));
		GPU_OK(cu.cuMemcpyHtoDAsync_v2(args.words + 8 * (WORDS - 1), &from[WORDS - 1], 8,
					       copying));
		GPU_OK(cu.cuStreamSynchronize(copying));
		while (__atomic_load_n(&answer[0], __ATOMIC_ACQUIRE) != round)
			;
	}
	GPU_OK(cu.cuStreamSynchronize(running));
	assert_int_equal(answer[1], 0);
	GPU_OK(cu.cuStreamDestroy_v2(running));
	GPU_OK(cu.cuStreamDestroy_v2(copying));
	GPU_OK(cu.cuMemFree_v2(args.words));
	GPU_OK(cu.cuMemFreeHost(from));
	GPU_OK(cu.cuMemFreeHost(answer));
}

static int begin(void **state)
{
	if (!gpu_load()) {
		fputs("no libcuda.so.1\n", stderr);
		return -1;
	}
	context = gpu_context();
	module = gpu_module(image);
	return 0;
}

static int end(void **state)
{
	GPU_OK(cu.cuModuleUnload(module));
	GPU_OK(cu.cuCtxDestroy_v2(context));
	return 0;
}

/* test_work MODULE */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies),	    cmocka_unit_test(source_changes),
		cmocka_unit_test(order_of_streams), cmocka_unit_test(legacy_stream),
		cmocka_unit_test(registered),	    cmocka_unit_test(kernels_fill),
		cmocka_unit_test(kernels_add),	    cmocka_unit_test(last_word_last),
	};

	image = argc > 1 ? argv[1] : "";
	return cmocka_run_group_tests_name("gpu", tests, begin, end);
}
