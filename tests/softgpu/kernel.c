/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Kernels: device code compiled for the CPU (cuda/device.h), a thread a warp, in this process. */
#include "soft.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/device.h"

#define WARP	  32u
#define WARPS_MAX 32u /* at a time; a launch with more runs its blocks one after the other */
#define IMAGE_MAX (64ul << 20)

struct CUmod_st {
	void *object; /* NULL: unloaded */
	weft_cu_context context;
	struct CUmod_st *next;
};

struct CUfunc_st {
	weft_cu_module module;
	weft_soft_kernel *run;
	size_t params_bytes;
	struct CUfunc_st *next;
};

static struct CUmod_st *modules;
static struct CUfunc_st *functions;

unsigned int soft_modules_left(void)
{
	unsigned int left = 0;

	for (weft_cu_module module = modules; module; module = module->next)
		left += module->object && module->context->alive;
	return left;
}

/* ---- modules ---- */

/* A shared object's size is not told: its table of sections stands last. */
static size_t image_bytes(const ElfW(Ehdr) * elf)
{
	if (memcmp(elf->e_ident, ELFMAG, SELFMAG) || elf->e_type != ET_DYN)
		return 0;
	return elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize;
}

/* Each loading is another object, with variables of its own. */
static void *open_image(const void *image)
{
	size_t bytes = image_bytes(image);
	int fd = bytes && bytes < IMAGE_MAX ? memfd_create("soft GPU's module", MFD_CLOEXEC) : -1;
	void *object = NULL;
	char path[64];

	if (fd < 0)
		return NULL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (write(fd, image, bytes) == (ssize_t)bytes)
		object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	close(fd);
	return object;
}

weft_cu_result cuModuleLoadData(weft_cu_module *out, const void *image)
{
	weft_cu_module module;

	SOFT_BEGIN_IN(context);
	gate_ = soft_hold_all(context);
	if (gate_)
		return gate_;
	module = calloc(1, sizeof(*module));
	if (!module)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	*module = (struct CUmod_st){open_image(image), context, modules};
	modules = module;
	*out = module;
	return module->object ? WEFT_CUDA_SUCCESS : WEFT_CUDA_ERROR_INVALID_IMAGE;
}

static weft_cu_module find_module(weft_cu_module module)
{
	weft_cu_module known = modules;

	while (known && known != module)
		known = known->next;
	return known && known->object ? known : NULL;
}

weft_cu_result cuModuleUnload(weft_cu_module module)
{
	weft_cu_result err;

	SOFT_BEGIN_IN(context);
	if (!find_module(module))
		return WEFT_CUDA_ERROR_INVALID_HANDLE;
	err = soft_wait_all(module->context);
	if (module->object)
		dlclose(module->object);
	module->object = NULL;
	return err;
}

weft_cu_result cuModuleGetFunction(weft_cu_function *out, weft_cu_module module, const char *name)
{
	weft_cu_function function;
	const size_t *bytes;
	char of_params[256];
	void *run;

	SOFT_BEGIN_IN(context);
	if (!find_module(module))
		return WEFT_CUDA_ERROR_INVALID_HANDLE;
	snprintf(of_params, sizeof(of_params), "%s_params_bytes", name);
	run = dlsym(module->object, name);
	bytes = dlsym(module->object, of_params);
	if (!run || !bytes)
		return WEFT_CUDA_ERROR_NOT_FOUND;
	function = calloc(1, sizeof(*function));
	if (!function)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	*function = (struct CUfunc_st){module, (weft_soft_kernel *)run, *bytes, functions};
	functions = function;
	*out = function;
	return WEFT_CUDA_SUCCESS;
}

/* ---- a launch ---- */

struct launch {
	weft_cu_function function;
	weft_cu_context context;
	unsigned int blocks, warps; /* warps: of a block */
	_Atomic weft_cu_result fault;
	_Alignas(16) uint8_t params[];
};

struct warp {
	struct weft_soft_warp self; /* first, as this is all that the kernel knows of the struct */
	struct launch *launch;
};

static bool may_use(const struct launch *launch, const struct soft_range *range)
{
	int device = launch->context->device;

	if (!range)
		return false;
	if (soft_is_host(range) || range->kind == SOFT_MANAGED || range->kind == SOFT_OPENED)
		return true;
	if (range->kind == SOFT_MAPPED)
		return range->access & 1u << device;
	return range->memory->device == device ||
	       launch->context->peers & 1u << range->memory->device;
}

/* Where the bytes at the kernel's address lie; ends the warp if there are none that its device may use. */
static void *translate(const struct weft_soft_warp *self, uint64_t at, size_t bytes)
{
	struct launch *launch = ((const struct warp *)self)->launch;
	struct soft_range *range;
	void *found = NULL;

	pthread_mutex_lock(&soft_lock);
	range = soft_range_at(at);
	if (may_use(launch, range) && bytes <= range->bytes - (at - range->start)) {
		if (range->pin)
			soft_pin_check(range->pin);
		found = range->kind == SOFT_REGISTERED
				? (void *)(uintptr_t)at
				: range->memory->at + range->into + (at - range->start);
	}
	pthread_mutex_unlock(&soft_lock);
	if (found)
		return found;
	launch->fault = WEFT_CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_exit(NULL);
}

/* A kernel's fault ends all that run in its device's contexts. */
static void pause_warp(const struct weft_soft_warp *self)
{
	const struct launch *launch = ((const struct warp *)self)->launch;
	bool ends;

	pthread_mutex_lock(&soft_lock);
	ends = launch->context->fault || soft_dying[launch->context->device];
	pthread_mutex_unlock(&soft_lock);
	if (ends || launch->fault)
		pthread_exit(NULL);
	sched_yield();
}

static void *run_warp(void *arg)
{
	struct warp *warp = arg;

	warp->launch->function->run(warp->launch->params, &warp->self);
	return NULL;
}

/* Runs the warps of the blocks [first, first + blocks). */
static void run_blocks(struct launch *launch, unsigned int first, unsigned int blocks)
{
	unsigned int count = blocks * launch->warps;
	struct warp *warps = calloc(count, sizeof(*warps));
	pthread_t *threads = calloc(count, sizeof(*threads));

	if (!warps || !threads)
		soft_die("no memory for %u warps", count);
	for (unsigned int i = 0; i < count; i++) {
		warps[i] = (struct warp){{translate, pause_warp, i % launch->warps, launch->warps,
					  first + i / launch->warps, launch->blocks},
					 launch};
		if (pthread_create(&threads[i], NULL, run_warp, &warps[i]))
			soft_die("no thread for a warp");
	}
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	free(warps);
}

static weft_cu_result run_launch(struct soft_op *op)
{
	struct launch *launch = op->call;
	unsigned int at_once = WARPS_MAX / launch->warps ? WARPS_MAX / launch->warps : 1;

	for (unsigned int first = 0; first < launch->blocks && !launch->fault; first += at_once) {
		unsigned int left = launch->blocks - first;

		run_blocks(launch, first, left < at_once ? left : at_once);
	}
	return launch->fault;
}

weft_cu_result cuLaunchKernel(weft_cu_function function, unsigned int grid_x, unsigned int grid_y,
			      unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			      unsigned int block_z, unsigned int shared_bytes,
			      weft_cu_stream handle, void **params, void **extra)
{
	weft_cu_function known = functions;
	struct launch *launch;
	weft_cu_stream stream;
	weft_cu_result err;
	struct soft_op *op;

	SOFT_BEGIN_IN(context);
	while (known && known != function)
		known = known->next;
	if (!known || !find_module(function->module))
		return WEFT_CUDA_ERROR_INVALID_HANDLE;
	err = soft_stream_find(context, handle, &stream);
	if (err)
		return err;
	soft_await_context(context);
	/* the stream's context counts, whichever is current */
	if (stream->context != function->module->context)
		return WEFT_CUDA_ERROR_INVALID_HANDLE;
	if (!grid_x || grid_y != 1 || grid_z != 1 || !block_x || block_x > 1024 || block_y != 1 ||
	    block_z != 1 || extra)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	op = soft_op_new(run_launch);
	launch = malloc(sizeof(*launch) + function->params_bytes);
	if (!op || !launch) {
		free(op);
		free(launch);
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	}
	launch->function = function;
	launch->context = stream->context;
	launch->blocks = grid_x;
	launch->warps = (block_x + WARP - 1) / WARP;
	launch->fault = WEFT_CUDA_SUCCESS;
	memcpy(launch->params, params[0], function->params_bytes);
	op->call = launch;
	return soft_enqueue(stream, op);
}
