/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "gpu.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct weft_cuda cu;
void (*gpu_hold)(bool hold);
unsigned long (*gpu_waits)(void);
unsigned int (*gpu_blocked)(void);

bool gpu_load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		return false;
#define FIND(name, args) *(void **)&cu.name = dlsym(library, #name);
	WEFT_CUDA_CALLS(FIND)
	WEFT_CUDA_OLD_CALLS(FIND)
#undef FIND
	*(void **)&gpu_hold = dlsym(library, "weft_soft_gpu_hold");
	*(void **)&gpu_waits = dlsym(library, "weft_soft_gpu_waits");
	*(void **)&gpu_blocked = dlsym(library, "weft_soft_gpu_blocked");
	return true;
}

const char *gpu_error(weft_cu_result result)
{
	static char number[32];

#define NAME(constant, value)                                                                      \
	if (!strncmp(#constant, "CUDA_", 5) && (value) == result)                                  \
		return #constant;
	WEFT_CUDA_CONSTANTS(NAME)
#undef NAME
	snprintf(number, sizeof(number), "%u", result);
	return number;
}

void gpu_ok(weft_cu_result result, const char *call)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s\n", call, gpu_error(result));
	fflush(NULL);
	_exit(3);
}

weft_cu_context gpu_context(void)
{
	weft_cu_context context;

	GPU_OK(cu.cuInit(0));
	GPU_OK(cu.cuCtxCreate_v2(&context, 0, 0));
	return context;
}

void *gpu_image(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *image;

	if (fd < 0 || fstat(fd, &st)) {
		fprintf(stderr, "%s: %m\n", path);
		_exit(3);
	}
	image = calloc(1, (size_t)st.st_size + 1);
	if (!image || read(fd, image, (size_t)st.st_size) != st.st_size)
		_exit(3);
	close(fd);
	return image;
}

weft_cu_module gpu_module(const char *path)
{
	void *image = gpu_image(path);
	weft_cu_module module;

	GPU_OK(cu.cuModuleLoadData(&module, image));
	free(image);
	return module;
}

void *gpu_pinned(size_t bytes)
{
	void *at;

	GPU_OK(cu.cuMemAllocHost_v2(&at, bytes));
	memset(at, 0, bytes);
	return at;
}

weft_cu_ptr gpu_alloc(size_t bytes)
{
	weft_cu_ptr at;

	GPU_OK(cu.cuMemAlloc_v2(&at, bytes));
	return at;
}
