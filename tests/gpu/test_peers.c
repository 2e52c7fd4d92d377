/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A libcuda between processes and between devices: the stand-in and hardware alike. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu.h"

#define BYTES (2ul << 20)

static const char *image;

/* What an owner tells a peer that wants its memory. */
struct offer {
	pid_t pid;
	int fd; /* of cuMemCreate's memory */
	struct weft_cu_ipc_memory handle;
	void *host; /* of cuMemAllocHost */
};

/* An owner in a process of its own, whose memory is full of sevens: until it is told to end. */
struct owner {
	pid_t pid;
	int ask[2], answer[2];
	struct offer offer;
};

static weft_cu_ptr map(weft_cu_memory memory)
{
	struct weft_cu_access access = {{WEFT_CU_MEM_LOCATION_TYPE_DEVICE, 0},
					WEFT_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	weft_cu_ptr at;

	GPU_OK(cu.cuMemAddressReserve(&at, BYTES, 0, 0, 0));
	GPU_OK(cu.cuMemMap(at, BYTES, 0, memory, 0));
	GPU_OK(cu.cuMemSetAccess(at, BYTES, &access, 1));
	return at;
}

static void unmap(weft_cu_ptr at)
{
	GPU_OK(cu.cuMemUnmap(at, BYTES));
	GPU_OK(cu.cuMemAddressFree(at, BYTES));
}

/* In the owner, when the peer has written nines: whether all three memories have them. */
static void own(struct owner *self)
{
	struct weft_cu_memory_prop prop = {
		.type = WEFT_CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = WEFT_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {WEFT_CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	struct offer offer = {.pid = getpid()};
	weft_cu_context context;
	weft_cu_memory memory;
	weft_cu_ptr legacy, mapped;
	char seen[3] = "";

	alarm(60);
	if (!gpu_load())
		_exit(3);
	context = gpu_context();
	GPU_OK(cu.cuMemAlloc_v2(&legacy, BYTES));
	GPU_OK(cu.cuMemCreate(&memory, BYTES, &prop, 0));
	mapped = map(memory);
	GPU_OK(cu.cuMemAllocHost_v2(&offer.host, BYTES));
	GPU_OK(cu.cuMemsetD8_v2(legacy, 7, BYTES));
	GPU_OK(cu.cuMemsetD8_v2(mapped, 7, BYTES));
	memset(offer.host, 7, BYTES);
	GPU_OK(cu.cuCtxSynchronize());
	GPU_OK(cu.cuIpcGetMemHandle(&offer.handle, legacy));
	GPU_OK(cu.cuMemExportToShareableHandle(&offer.fd, memory, 1, 0));
	if (write(self->answer[1], &offer, sizeof(offer)) != sizeof(offer) ||
	    read(self->ask[0], seen, 1) != 1)
		_exit(3);
	GPU_OK(cu.cuMemcpyDtoH_v2(&seen[0], legacy + BYTES - 1, 1));
	GPU_OK(cu.cuMemcpyDtoH_v2(&seen[1], mapped + BYTES - 1, 1));
	seen[2] = ((char *)offer.host)[BYTES - 1];
	if (write(self->answer[1], seen, 3) != 3)
		_exit(3);
	unmap(mapped);
	GPU_OK(cu.cuMemRelease(memory));
	GPU_OK(cu.cuCtxDestroy_v2(context));
	exit(0);
}

static void owner_start(struct owner *self)
{
	assert_int_equal(pipe(self->ask), 0);
	assert_int_equal(pipe(self->answer), 0);
	self->pid = fork();
	if (!self->pid)
		own(self);
	assert_int_equal(read(self->answer[0], &self->offer, sizeof(self->offer)),
			 sizeof(self->offer));
}

/* The nth of the owner's memories has nines at its end now. */
static void owner_end(struct owner *self, unsigned int nth)
{
	char seen[3];
	int status;

	assert_int_equal(write(self->ask[1], "", 1), 1);
	assert_int_equal(read(self->answer[0], seen, 3), 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(seen[i], i == nth ? 9 : 7);
	assert_int_equal(waitpid(self->pid, &status, 0), self->pid);
	assert_int_equal(status, 0);
}

/* Reads the sevens, writes nines. */
static void check_and_change(weft_cu_ptr at)
{
	char *seen = malloc(BYTES);

	GPU_OK(cu.cuMemcpyDtoH_v2(seen, at, BYTES));
	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(seen[i], 7);
	free(seen);
	GPU_OK(cu.cuMemsetD8_v2(at + BYTES - 1, 9, 1));
	GPU_OK(cu.cuCtxSynchronize());
}

/* The owner must be forked before this process begins CUDA: so each case is a process. */
static void in_child(void (*run)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		run();
		exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void by_handle(void)
{
	struct owner owner;
	weft_cu_context context;
	weft_cu_ptr at;

	owner_start(&owner);
	assert_true(gpu_load());
	context = gpu_context();
	GPU_OK(cu.cuIpcOpenMemHandle_v2(&at, owner.offer.handle,
					WEFT_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	check_and_change(at);
	GPU_OK(cu.cuIpcCloseMemHandle(at));
	owner_end(&owner, 0);
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

static void by_descriptor(void)
{
	struct owner owner;
	weft_cu_context context;
	weft_cu_memory memory;
	weft_cu_ptr at;
	int process, fd;

	owner_start(&owner);
	process = (int)syscall(SYS_pidfd_open, owner.pid, 0);
	fd = (int)syscall(SYS_pidfd_getfd, process, owner.offer.fd, 0);
	assert_true(fd >= 0);
	assert_true(gpu_load());
	context = gpu_context();
	GPU_OK(cu.cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)fd, 1));
	close(fd);
	at = map(memory);
	GPU_OK(cu.cuMemRelease(memory));
	check_and_change(at);
	owner_end(&owner, 1);
	/* the memory outlives its owner, while it is open here */
	GPU_OK(cu.cuMemsetD8_v2(at, 1, BYTES));
	GPU_OK(cu.cuCtxSynchronize());
	unmap(at);
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

/* CUDA's own host memory is the host's. */
static void by_process_vm(void)
{
	char nine = 9, seven = 0;
	struct owner owner;
	struct iovec local = {&seven, 1}, remote;

	owner_start(&owner);
	remote = (struct iovec){(char *)owner.offer.host + BYTES - 1, 1};
	assert_int_equal(process_vm_readv(owner.pid, &local, 1, &remote, 1, 0), 1);
	assert_int_equal(seven, 7);
	local.iov_base = &nine;
	assert_int_equal(process_vm_writev(owner.pid, &local, 1, &remote, 1, 0), 1);
	owner_end(&owner, 2);
}

/* The owner is killed while its memory is open here. */
static void by_handle_of_the_dead(void)
{
	struct owner owner;
	weft_cu_context context;
	weft_cu_ptr at;
	int status;

	owner_start(&owner);
	assert_true(gpu_load());
	context = gpu_context();
	GPU_OK(cu.cuIpcOpenMemHandle_v2(&at, owner.offer.handle,
					WEFT_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	kill(owner.pid, SIGKILL);
	waitpid(owner.pid, &status, 0);
	check_and_change(at);
	GPU_OK(cu.cuIpcCloseMemHandle(at));
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

/* ---- two devices ---- */

static bool two_devices(void)
{
	int count = 0;

	return gpu_load() && !cu.cuInit(0) && !cu.cuDeviceGetCount(&count) && count > 1;
}

static void across(void)
{
	weft_cu_context one, two;
	weft_cu_ptr here, there;
	char seen[64] = "";

	if (!two_devices())
		exit(77);
	GPU_OK(cu.cuCtxCreate_v2(&one, 0, 0));
	GPU_OK(cu.cuMemAlloc_v2(&here, BYTES));
	GPU_OK(cu.cuMemsetD8_v2(here, 7, BYTES));
	GPU_OK(cu.cuCtxSynchronize());
	GPU_OK(cu.cuCtxCreate_v2(&two, 0, 1));
	GPU_OK(cu.cuMemAlloc_v2(&there, BYTES));
	GPU_OK(cu.cuMemcpyPeer(there, two, here, one, BYTES));
	GPU_OK(cu.cuMemcpyDtoH_v2(seen, there + BYTES - 64, 64));
	assert_int_equal(seen[63], 7);
	GPU_OK(cu.cuCtxDestroy_v2(two));
	GPU_OK(cu.cuCtxDestroy_v2(one));
}

/* A kernel on device 1 stores there; the result of waiting for it. */
static weft_cu_result store(weft_cu_ptr at)
{
	struct {
		uint64_t at, count, value;
	} args = {at, 16, 5};
	void *params[] = {&args};
	weft_cu_module module;
	weft_cu_function fill;
	weft_cu_result result;

	module = gpu_module(image);
	GPU_OK(cu.cuModuleGetFunction(&fill, module, "fill"));
	GPU_OK(cu.cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	result = cu.cuCtxSynchronize();
	if (!result)
		GPU_OK(cu.cuModuleUnload(module));
	return result;
}

static void expect_store(weft_cu_ptr at, bool allowed)
{
	weft_cu_result result = store(at);
	uint64_t seen[16];

	if (!allowed) {
		assert_int_equal(result, WEFT_CUDA_ERROR_ILLEGAL_ADDRESS);
		_exit(0); /* in this context nothing works any more */
	}
	GPU_OK(result);
	GPU_OK(cu.cuMemcpyDtoH_v2(seen, at, sizeof(seen)));
	assert_int_equal(seen[15], 20);
}

/* Memory of device 0: only with peer access. */
static void store_across(bool allowed)
{
	weft_cu_context one, two;
	weft_cu_ptr here;

	if (!two_devices())
		exit(77);
	GPU_OK(cu.cuCtxCreate_v2(&one, 0, 0));
	GPU_OK(cu.cuMemAlloc_v2(&here, BYTES));
	GPU_OK(cu.cuCtxCreate_v2(&two, 0, 1));
	if (allowed)
		GPU_OK(cu.cuCtxEnablePeerAccess(one, 0));
	expect_store(here, allowed);
	GPU_OK(cu.cuCtxDestroy_v2(two));
	GPU_OK(cu.cuCtxDestroy_v2(one));
}

static void store_allowed(void)
{
	store_across(true);
}

static void store_refused(void)
{
	store_across(false);
}

/* A mapping: only with access for that device, peer access or not. */
static void store_mapped(bool allowed)
{
	struct weft_cu_access access = {{WEFT_CU_MEM_LOCATION_TYPE_DEVICE, 1},
					WEFT_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	struct weft_cu_memory_prop prop = {
		.type = WEFT_CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {WEFT_CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	weft_cu_context one, two;
	weft_cu_memory memory;
	weft_cu_ptr here;

	if (!two_devices())
		exit(77);
	GPU_OK(cu.cuCtxCreate_v2(&one, 0, 0));
	GPU_OK(cu.cuMemCreate(&memory, BYTES, &prop, 0));
	here = map(memory);
	GPU_OK(cu.cuMemRelease(memory));
	GPU_OK(cu.cuCtxCreate_v2(&two, 0, 1));
	GPU_OK(cu.cuCtxEnablePeerAccess(one, 0));
	if (allowed)
		GPU_OK(cu.cuMemSetAccess(here, BYTES, &access, 1));
	expect_store(here, allowed);
	unmap(here);
	GPU_OK(cu.cuCtxDestroy_v2(two));
	GPU_OK(cu.cuCtxDestroy_v2(one));
}

static void mapped_allowed(void)
{
	store_mapped(true);
}

static void mapped_refused(void)
{
	store_mapped(false);
}

static void expect_devices(void (*run)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		run();
		exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip(); /* one device */
	assert_int_equal(status, 0);
}

#define CASE(how, name)                                                                            \
	static void is_##name(void **state)                                                        \
	{                                                                                          \
		how(name);                                                                         \
	}
CASE(in_child, by_handle)
CASE(in_child, by_descriptor)
CASE(in_child, by_process_vm)
CASE(in_child, by_handle_of_the_dead)
CASE(expect_devices, across)
CASE(expect_devices, store_allowed)
CASE(expect_devices, store_refused)
CASE(expect_devices, mapped_allowed)
CASE(expect_devices, mapped_refused)

/* test_peers MODULE */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_by_handle),	     cmocka_unit_test(is_by_descriptor),
		cmocka_unit_test(is_by_process_vm),  cmocka_unit_test(is_by_handle_of_the_dead),
		cmocka_unit_test(is_across),	     cmocka_unit_test(is_store_allowed),
		cmocka_unit_test(is_store_refused),  cmocka_unit_test(is_mapped_allowed),
		cmocka_unit_test(is_mapped_refused),
	};

	image = argc > 1 ? argv[1] : "";
	return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
