/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What may happen to registered memory of a GPU: it is freed, its addresses are given out again, its context is not current, is none,
 * or ends; descriptors; forks; kernels that poll. Each case is a process of its own, which must leave nothing behind.
 */
#include "child.h"
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "../abi/pool.h"

#define BYTES	   (64ul << 10)
#define ENDED_WELL 9

static const char *image;
static struct rig rig;
static struct ibv_mr *host;
static weft_cu_context context;

/* ---- What the cases share ---- */

/* Queue pairs 0 and 1 of this process, and host memory. */
static void begin(void)
{
	rig_open(&rig);
	rig_connect(&rig, &(struct rig_wish){.timeout = 8, .retry_cnt = 1});
	host = rig_region(rig.pd, BYTES);
	context = gpu_context();
}

static void end(void)
{
	rig_region_end(host);
	rig_close(&rig);
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

static uint8_t *gpu_memory(size_t bytes)
{
	weft_cu_ptr at;

	GPU_OK(cu.cuMemAlloc_v2(&at, bytes));
	GPU_OK(cu.cuMemsetD8_v2(at, 1, bytes));
	GPU_OK(cu.cuCtxSynchronize());
	return (uint8_t *)(uintptr_t)at;
}

static struct ibv_mr *gpu_region(void *at, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(rig.pd, at, bytes, RIG_ALL);

	WANT(mr);
	return mr;
}

static enum ibv_wc_status do_rdma(enum ibv_wr_opcode opcode, const void *at, uint32_t bytes,
				  uint32_t rkey)
{
	WANT(!rig_rdma(rig.qp[0], opcode, 1, host, host->addr, bytes, (uintptr_t)at, rkey));
	return rig_next(rig.cq[0]).status;
}

static enum ibv_wc_status write_to(const void *at, uint32_t bytes, uint32_t rkey)
{
	return do_rdma(IBV_WR_RDMA_WRITE, at, bytes, rkey);
}

/* All bytes are that. */
static void expect_bytes(const void *at, size_t bytes, uint8_t value)
{
	uint8_t *seen = malloc(bytes);

	GPU_OK(cu.cuMemcpyDtoH_v2(seen, (uintptr_t)at, bytes));
	for (size_t i = 0; i < bytes; i++)
		WANT(seen[i] == value);
	free(seen);
}

/* ---- Which memory it is ---- */

static void freed(void)
{
	uint8_t *at, *again;
	struct ibv_mr *mr, *other;

	begin();
	at = gpu_memory(BYTES);
	mr = gpu_region(at, BYTES);
	memset(host->addr, 5, BYTES);
	WANT(write_to(at, BYTES, mr->rkey) == IBV_WC_SUCCESS);
	expect_bytes(at, BYTES, 5);
	GPU_OK(cu.cuMemFree_v2((uintptr_t)at));
	WANT(write_to(at, BYTES, mr->rkey) != IBV_WC_SUCCESS);
	/* another allocation is there now; registered anew it has a key of its own */
	again = gpu_memory(BYTES);
	other = gpu_region(again, BYTES);
	rig_reconnect(&rig, &(struct rig_wish){.timeout = 8, .retry_cnt = 1});
	WANT(write_to(at, BYTES, mr->rkey) != IBV_WC_SUCCESS);
	expect_bytes(again, BYTES, 1);
	rig_reconnect(&rig, &(struct rig_wish){.timeout = 8, .retry_cnt = 1});
	WANT(write_to(again, BYTES, other->rkey) == IBV_WC_SUCCESS);
	expect_bytes(again, BYTES, 5);
	WANT(!ibv_dereg_mr(mr));
	WANT(!ibv_dereg_mr(other));
	GPU_OK(cu.cuMemFree_v2((uintptr_t)again));
	end();
}

/* One of two handles that lie side by side makes room for another. */
static void half_freed(void)
{
	struct weft_cu_memory_prop prop = {
		.type = WEFT_CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {WEFT_CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	struct weft_cu_access access = {{WEFT_CU_MEM_LOCATION_TYPE_DEVICE, 0},
					WEFT_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	const size_t block = 2ul << 20;
	struct place mapped;
	struct ibv_mr *mr;
	uint8_t *second;

	begin();
	place_begin(&mapped, PLACE_MAPPED, BYTES);
	mr = gpu_region(mapped.at, BYTES);
	memset(host->addr, 9, BYTES);
	WANT(write_to(mapped.at, BYTES, mr->rkey) == IBV_WC_SUCCESS);
	second = mapped.at + BYTES / 2;
	GPU_OK(cu.cuMemUnmap((uintptr_t)second, block));
	GPU_OK(cu.cuMemRelease(mapped.memory[1]));
	GPU_OK(cu.cuMemCreate(&mapped.memory[1], block, &prop, 0));
	GPU_OK(cu.cuMemMap((uintptr_t)second, block, 0, mapped.memory[1], 0));
	GPU_OK(cu.cuMemSetAccess((uintptr_t)second, block, &access, 1));
	GPU_OK(cu.cuMemsetD8_v2((uintptr_t)second, 2, BYTES / 2));
	GPU_OK(cu.cuCtxSynchronize());
	WANT(write_to(mapped.at, BYTES, mr->rkey) != IBV_WC_SUCCESS);
	expect_bytes(second, BYTES / 2, 2);
	WANT(!ibv_dereg_mr(mr));
	place_end(&mapped);
	end();
}

static void outside(void)
{
	uint8_t *at;

	begin();
	at = gpu_memory(BYTES);
	WANT(!ibv_reg_mr(rig.pd, at, BYTES + (2ul << 20), RIG_ALL) && errno == EFAULT);
	WANT(!ibv_reg_mr(rig.pd, at - BYTES, 2 * BYTES, RIG_ALL) && errno == EFAULT);
	GPU_OK(cu.cuMemFree_v2((uintptr_t)at));
	WANT(!ibv_reg_mr(rig.pd, at, BYTES, RIG_ALL) && errno == EFAULT);
	end();
}

static uint8_t *pool_memory(size_t bytes)
{
	weft_cu_ptr at;

	GPU_OK(cu.cuMemAllocAsync(&at, bytes, NULL));
	GPU_OK(cu.cuMemsetD8_v2(at, 1, bytes));
	GPU_OK(cu.cuCtxSynchronize());
	return (uint8_t *)(uintptr_t)at;
}

/* Programs round what they register to whole pages: bytes beyond the allocation are no part of the region. */
static void round_to_pages(uint8_t *(*allocate)(size_t bytes))
{
	uint8_t *one, *at, *next, *page;
	struct ibv_mr *mr;

	begin();
	one = allocate(1000);
	at = allocate(10000);
	next = allocate(1000);
	page = (uint8_t *)((uintptr_t)at & ~4095ul);
	mr = gpu_region(page, ((uintptr_t)at + 10000 - (uintptr_t)page + 4095) & ~4095ul);
	GPU_OK(cu.cuMemFree_v2((uintptr_t)one));
	GPU_OK(cu.cuMemFree_v2((uintptr_t)next));
	memset(host->addr, 4, BYTES);
	WANT(write_to(at, 10000, mr->rkey) == IBV_WC_SUCCESS);
	expect_bytes(at, 10000, 4);
	WANT(!ibv_dereg_mr(mr));
	GPU_OK(cu.cuMemFree_v2((uintptr_t)at));
	end();
}

static void rounded(void)
{
	round_to_pages(gpu_memory);
}

/* The same with memory that has no handle for other processes, as hardware says of cuMemAlloc's memory beside NCCL. */
static void rounded_without_handle(void)
{
	round_to_pages(pool_memory);
}

static void anew(void)
{
	uint8_t *at, *other;
	struct ibv_mr *mr;

	begin();
	at = gpu_memory(BYTES);
	other = gpu_memory(BYTES);
	mr = gpu_region(at, BYTES);
	memset(host->addr, 6, BYTES);
	WANT(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
	WANT(write_to(at, BYTES, mr->rkey) != IBV_WC_SUCCESS);
	expect_bytes(at, BYTES, 1);
	WANT(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			   other, BYTES, RIG_ALL));
	rig_reconnect(&rig, &(struct rig_wish){0});
	WANT(write_to(other, BYTES, mr->rkey) == IBV_WC_SUCCESS);
	expect_bytes(other, BYTES, 6);
	/* and from a GPU's memory to the host's, by ibv_rereg_mr */
	WANT(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, host->addr, 64, 0));
	WANT(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, at, 64, 0));
	WANT(write_to(at, 64, mr->rkey) == IBV_WC_SUCCESS);
	expect_bytes(at, 64, 6);
	expect_bytes(at + 64, BYTES - 64, 1);
	WANT(!ibv_dereg_mr(mr));
	GPU_OK(cu.cuMemFree_v2((uintptr_t)at));
	GPU_OK(cu.cuMemFree_v2((uintptr_t)other));
	end();
}

/* ---- Contexts ---- */

static void expect_current(weft_cu_context wanted)
{
	weft_cu_context current;

	GPU_OK(cu.cuCtxGetCurrent(&current));
	WANT(current == wanted);
}

static void not_current(void)
{
	weft_cu_context theirs, none;
	struct ibv_mr *mr;
	uint8_t *at;

	begin();
	GPU_OK(cu.cuCtxCreate_v2(&theirs, 0, 0));
	at = gpu_memory(BYTES);
	GPU_OK(cu.cuCtxPopCurrent_v2(&none));
	expect_current(context);
	mr = gpu_region(at, BYTES);
	expect_current(context);
	WANT(write_to(at, BYTES, mr->rkey) == IBV_WC_SUCCESS);
	expect_current(context);
	WANT(do_rdma(IBV_WR_RDMA_READ, at, BYTES, mr->rkey) == IBV_WC_SUCCESS);
	WANT(!ibv_dereg_mr(mr));
	expect_current(context);
	GPU_OK(cu.cuCtxDestroy_v2(theirs));
	end();
}

static void *use_without(void *arg)
{
	uint8_t *at = arg;
	struct ibv_mr *mr = gpu_region(at, BYTES);

	expect_current(NULL);
	memset(host->addr, 7, BYTES);
	WANT(write_to(at, BYTES, mr->rkey) == IBV_WC_SUCCESS);
	WANT(!ibv_dereg_mr(mr));
	expect_current(NULL);
	return NULL;
}

/* A thread that has no context, and memory that is of none: the primary context that Weft holds for it is given back. */
static void no_context(void)
{
	struct place mapped;
	unsigned int flags;
	pthread_t thread;
	int active;

	begin();
	place_begin(&mapped, PLACE_MAPPED, BYTES);
	WANT(!pthread_create(&thread, NULL, use_without, mapped.at));
	pthread_join(thread, NULL);
	expect_bytes(mapped.at, BYTES, 7);
	place_end(&mapped);
	GPU_OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
	WANT(!active);
	end();
}

/* Where the device has no room for a context of Weft's. */
static void no_room(void)
{
	setenv("WEFT_SOFT_GPU_CONTEXTS", "1", 1);
	no_context();
}

static void context_ends(void)
{
	weft_cu_context theirs;
	struct ibv_mr *mr;
	uint8_t *at;

	begin();
	GPU_OK(cu.cuCtxCreate_v2(&theirs, 0, 0));
	at = gpu_memory(BYTES);
	mr = gpu_region(at, BYTES);
	WANT(write_to(at, BYTES, mr->rkey) == IBV_WC_SUCCESS);
	GPU_OK(cu.cuCtxDestroy_v2(theirs));
	WANT(write_to(at, BYTES, mr->rkey) != IBV_WC_SUCCESS);
	WANT(!ibv_dereg_mr(mr));
	expect_current(context);
	end();
}

static atomic_bool writes, deregistered;

static void *write_all(void *at)
{
	struct ibv_mr *mr = at;

	atomic_store(&writes, true);
	WANT(write_to(mr->addr, BYTES, mr->rkey) == IBV_WC_SUCCESS);
	return NULL;
}

static void *deregister(void *mr)
{
	WANT(!ibv_dereg_mr(mr));
	atomic_store(&deregistered, true);
	return NULL;
}

/* A region ends while a copy to it is under way, which its end waits for: only then may the program free the memory. */
static void ends_in_between(void)
{
	const struct timespec while_held = {.tv_nsec = 100000000}, a_while = {.tv_nsec = 300000000};
	pthread_t writer, revoker;
	struct ibv_mr *mr;
	uint8_t *at;

	begin();
	at = gpu_memory(BYTES);
	mr = gpu_region(at, BYTES);
	memset(host->addr, 3, BYTES);
	if (gpu_hold)
		gpu_hold(true);
	WANT(!pthread_create(&writer, NULL, write_all, mr));
	while (!atomic_load(&writes))
		sched_yield();
	nanosleep(&a_while, NULL);
	WANT(!pthread_create(&revoker, NULL, deregister, mr));
	nanosleep(&while_held, NULL);
	if (gpu_hold) {
		WANT(!atomic_load(&deregistered));
		gpu_hold(false);
		pthread_join(writer, NULL);
	}
	pthread_join(revoker, NULL);
	if (!gpu_hold)
		pthread_join(writer, NULL);
	expect_bytes(at, BYTES, 3);
	GPU_OK(cu.cuMemFree_v2((uintptr_t)at));
	end();
}

/* Regions come and go while their context stays: their streams, which Weft makes, go with them. */
static void comes_and_goes(void)
{
	struct ibv_mr *mr;
	uint8_t *at;

	begin();
	at = gpu_memory(BYTES);
	for (int i = 0; i < 10; i++) {
		mr = gpu_region(at, BYTES);
		WANT(write_to(at, 100, mr->rkey) == IBV_WC_SUCCESS);
		WANT(!ibv_dereg_mr(mr));
	}
	GPU_OK(cu.cuMemFree_v2((uintptr_t)at));
	rig_region_end(host);
	rig_close(&rig);
	/* the context is not destroyed: else the streams would go with it */
}

/* ---- Descriptors ---- */

static struct ibv_mr *by_descriptor(uint8_t *at, size_t bytes, uint64_t offset, size_t len,
				    void *iova)
{
	struct ibv_mr *mr;
	int fd;

	GPU_OK(cu.cuMemGetHandleForAddressRange(&fd, (uintptr_t)at, bytes, 1, 0));
	mr = ibv_reg_dmabuf_mr(rig.pd, offset, len, (uintptr_t)iova, fd, RIG_ALL);
	close(fd);
	return mr;
}

static void descriptors(void)
{
	struct ibv_mr *mr;
	uint8_t *at;

	begin();
	at = gpu_memory(BYTES);
	WANT(!ibv_reg_dmabuf_mr(rig.pd, 0, 0, 0, -1, 0) && errno == EBADF);
	mr = by_descriptor(at, BYTES, 4096, BYTES - 8192, at + 4096);
	WANT(mr);
	memset(host->addr, 8, BYTES);
	WANT(write_to(at + 4096, (uint32_t)BYTES - 8192, mr->rkey) == IBV_WC_SUCCESS);
	expect_bytes(at, 4096, 1);
	expect_bytes(at + 4096, BYTES - 8192, 8);
	expect_bytes(at + BYTES - 4096, 4096, 1);
	WANT(!ibv_dereg_mr(mr));
	GPU_OK(cu.cuMemFree_v2((uintptr_t)at));
	end();
}

/* What a descriptor does not say, and what contradicts it: `at` is memory of three parts of BYTES, of which it names the first two. */
static void wrong_descriptors(void)
{
	uint8_t *at, *freed;
	int memfd, fd;

	begin();
	at = gpu_memory(3 * BYTES);
	freed = gpu_memory(BYTES);
	GPU_OK(cu.cuMemFree_v2((uintptr_t)freed));
	const struct {
		const char *what;
		uint64_t offset;
		size_t len;
		const uint8_t *iova;
		int error;
	} rows[] = {
		{"all of it", 0, 2 * BYTES, at, 0},
		{"its second half", BYTES, BYTES, at + BYTES, 0},
		{"another part of the allocation", 0, BYTES, at + 2 * BYTES, 0},
		{"nothing", 0, 0, at, EINVAL},
		{"more than it has", 0, 2 * BYTES + 4096, at, EINVAL},
		{"more than it has, from within", 4096, 2 * BYTES, at + 4096, EINVAL},
		{"a range that wraps", 4096, SIZE_MAX - 4095, at + 4096, EINVAL},
		{"addresses that wrap", 0, BYTES, (uint8_t *)UINTPTR_MAX - 4095, EINVAL},
		{"addresses that lie otherwise in their pages", 0, BYTES, at + 64, EINVAL},
		{"what begins before the allocation", 0, BYTES, at - 4096, EINVAL},
		{"what ends behind the allocation", 0, 2 * BYTES, at + 2 * BYTES, EINVAL},
		{"memory of the host", 0, BYTES, host->addr, EOPNOTSUPP},
		{"no address", 0, BYTES, NULL, EOPNOTSUPP},
		{"memory that was freed", 0, BYTES, freed, EOPNOTSUPP},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ibv_mr *mr = by_descriptor(at, 2 * BYTES, rows[i].offset, rows[i].len,
						  (void *)(uintptr_t)rows[i].iova);
		int error = mr ? 0 : errno;

		if (error != rows[i].error)
			fprintf(stderr, "%s: %s\n", rows[i].what, strerror(error));
		WANT(error == rows[i].error);
		WANT(!mr || !ibv_dereg_mr(mr));
	}
	/* others than CUDA's: of the host's memory as ever, wherever it is seen; nothing that is no memory */
	memfd = memfd_create("memory", MFD_CLOEXEC);
	WANT(memfd >= 0 && !ftruncate(memfd, BYTES));
	WANT(!ibv_dereg_mr(ibv_reg_dmabuf_mr(rig.pd, 0, BYTES, (uintptr_t)at, memfd, RIG_ALL)));
	close(memfd);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	WANT(!ibv_reg_dmabuf_mr(rig.pd, 0, 4096, (uintptr_t)at, fd, RIG_ALL) && errno == EACCES);
	close(fd);
	WANT(!ibv_reg_dmabuf_mr(rig.pd, 0, 4096, (uintptr_t)at, fd, RIG_ALL) && errno == EBADF);
	GPU_OK(cu.cuMemFree_v2((uintptr_t)at));
	end();
}

/* ---- Processes ---- */

static void forks(void)
{
	struct ibv_mr *mr;
	uint8_t *at;
	int status;
	pid_t pid;

	begin();
	at = gpu_memory(BYTES);
	mr = gpu_region(at, BYTES);
	pid = fork();
	if (!pid) {
		struct rig fresh;

		/* in the child CUDA answers for no memory: this is the host's */
		ibv_dereg_mr(mr);
		rig_open(&fresh);
		rig_region_end(rig_region(fresh.pd, BYTES));
		rig_close(&fresh);
		_exit(0);
	}
	WANT(waitpid(pid, &status, 0) == pid && !status);
	WANT(write_to(at, BYTES, mr->rkey) == IBV_WC_SUCCESS);
	WANT(!ibv_dereg_mr(mr));
	GPU_OK(cu.cuMemFree_v2((uintptr_t)at));
	end();
}

static struct ibv_mr *at_end_mr;

/* CUDA has ended in this process. */
static void at_end(void)
{
	WANT(write_to(at_end_mr->addr, BYTES, at_end_mr->rkey) != IBV_WC_SUCCESS);
	WANT(!ibv_dereg_mr(at_end_mr));
	_exit(ENDED_WELL);
}

/* The process ends by exit() with memory registered, and uses it behind that. */
static void exits(void)
{
	uint8_t *at;

	atexit(at_end); /* before CUDA's own, so that it runs behind that */
	begin();
	at = gpu_memory(BYTES);
	at_end_mr = gpu_region(at, BYTES);
	WANT(write_to(at, BYTES, at_end_mr->rkey) == IBV_WC_SUCCESS);
	exit(0);
}

/* A kernel of the program's stores where nothing is: from then on CUDA refuses whatever has to do with its context. */
static void faulted(void)
{
	struct {
		uint64_t at, count, value;
	} args = {4096, 16, 5};
	struct ibv_mr *mr, *other;
	void *params[] = {&args};
	weft_cu_function fill;
	weft_cu_module module;
	uint8_t *at;

	begin();
	other = rig_region(rig.pd, BYTES);
	module = gpu_module(image);
	GPU_OK(cu.cuModuleGetFunction(&fill, module, "fill"));
	at = gpu_memory(BYTES);
	mr = gpu_region(at, BYTES);
	WANT(write_to(at, BYTES, mr->rkey) == IBV_WC_SUCCESS);
	GPU_OK(cu.cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	WANT(cu.cuCtxSynchronize() == WEFT_CUDA_ERROR_ILLEGAL_ADDRESS);
	WANT(write_to(at, BYTES, mr->rkey) != IBV_WC_SUCCESS);
	rig_reconnect(&rig, &(struct rig_wish){.timeout = 8, .retry_cnt = 1});
	WANT(do_rdma(IBV_WR_RDMA_READ, at, BYTES, mr->rkey) != IBV_WC_SUCCESS);
	/* the host's memory is as it was */
	rig_reconnect(&rig, &(struct rig_wish){.timeout = 8, .retry_cnt = 1});
	memset(host->addr, 9, BYTES);
	WANT(write_to(other->addr, BYTES, other->rkey) == IBV_WC_SUCCESS);
	WANT(!memcmp(other->addr, host->addr, BYTES));
	WANT(!ibv_dereg_mr(mr));
	rig_region_end(other);
	rig_region_end(host);
	rig_close(&rig);
	_exit(ENDED_WELL); /* what the context has, its own process cannot give back */
}

/* ---- Order ---- */

/* A kernel of the program's in the stream NULL waits for bytes that a request brings. */
static void polled(void)
{
	enum { WORDS = 1024, ROUNDS = 20 };
	struct {
		uint64_t words, count, answer, rounds;
	} args = {0, WORDS, 0, ROUNDS};
	void *params[] = {&args};
	uint64_t *answer, *from;
	weft_cu_function poll;
	weft_cu_module module;
	struct ibv_mr *mr;
	uint8_t *at;

	begin();
	module = gpu_module(image);
	GPU_OK(cu.cuModuleGetFunction(&poll, module, "poll"));
	at = gpu_memory(8 * WORDS);
	GPU_OK(cu.cuMemAllocHost_v2((void **)&answer, 16));
	answer[0] = 0;
	mr = gpu_region(at, 8 * WORDS);
	args.words = (uintptr_t)at;
	args.answer = (uintptr_t)answer;
	from = host->addr;
	memset(from, 0, 8 * WORDS);
	WANT(write_to(at, 8 * WORDS, mr->rkey) == IBV_WC_SUCCESS);
	GPU_OK(cu.cuLaunchKernel(poll, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		for (unsigned int i = 0; i < WORDS; i++)
			from[i] = round;
		WANT(write_to(at, 8 * WORDS, mr->rkey) == IBV_WC_SUCCESS);
		while (__atomic_load_n(&answer[0], __ATOMIC_ACQUIRE) != round)
			sched_yield();
	}
	GPU_OK(cu.cuCtxSynchronize());
	WANT(answer[1] == 0);
	WANT(!ibv_dereg_mr(mr));
	GPU_OK(cu.cuMemFreeHost(answer));
	GPU_OK(cu.cuMemFree_v2((uintptr_t)at));
	GPU_OK(cu.cuModuleUnload(module));
	end();
}

static void *hold_context(void *at)
{
	uint64_t seen;

	GPU_OK(cu.cuCtxSetCurrent(context));
	GPU_OK(cu.cuMemcpyDtoH_v2(&seen, (uintptr_t)at, sizeof(seen)));
	return NULL;
}

/* A thread copies, by a call that holds its context, what comes behind a kernel that waits for a request's bytes: memory that is of no
 * context gets them all the same. */
static void held(void)
{
	enum { WORDS = 64 };
	struct {
		uint64_t words, count, answer, rounds;
	} args = {0, WORDS, 0, 1};
	const struct timespec a_while = {.tv_nsec = 200000000};
	void *params[] = {&args};
	struct place mapped;
	weft_cu_function poll;
	weft_cu_module module;
	uint64_t *answer, *from;
	pthread_t holder;
	struct ibv_mr *mr;

	begin();
	module = gpu_module(image);
	GPU_OK(cu.cuModuleGetFunction(&poll, module, "poll"));
	place_begin(&mapped, PLACE_MAPPED, BYTES);
	GPU_OK(cu.cuMemAllocHost_v2((void **)&answer, 16));
	mr = gpu_region(mapped.at, BYTES);
	args.words = (uintptr_t)mapped.at;
	args.answer = (uintptr_t)answer;
	from = host->addr;
	memset(from, 0, 8 * WORDS);
	WANT(write_to(mapped.at, 8 * WORDS, mr->rkey) == IBV_WC_SUCCESS);
	GPU_OK(cu.cuLaunchKernel(poll, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	WANT(!pthread_create(&holder, NULL, hold_context, mapped.at));
	nanosleep(&a_while, NULL);
	for (unsigned int i = 0; i < WORDS; i++)
		from[i] = 1;
	WANT(write_to(mapped.at, 8 * WORDS, mr->rkey) == IBV_WC_SUCCESS);
	pthread_join(holder, NULL);
	GPU_OK(cu.cuCtxSynchronize());
	WANT(!ibv_dereg_mr(mr));
	place_end(&mapped);
	GPU_OK(cu.cuMemFreeHost(answer));
	GPU_OK(cu.cuModuleUnload(module));
	end();
}

/* From the host's memory to such memory: any number of bytes, wherever they begin, and none beside them. */
static void any_length(void)
{
	static const size_t lengths[] = {1,  2,	 3,  7,	 8,    9,    15,   16,	 17,
					 23, 24, 25, 31, 4095, 4096, 4097, 4104, BYTES - 16};
	uint8_t *from, *seen = malloc(BYTES);
	struct place mapped;
	struct ibv_mr *mr;

	begin();
	place_begin(&mapped, PLACE_MAPPED, BYTES);
	mr = gpu_region(mapped.at, BYTES);
	from = host->addr;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (size_t at = 0; at < 9; at += 3) {
			memset(from, 0, BYTES);
			WANT(write_to(mapped.at, BYTES, mr->rkey) == IBV_WC_SUCCESS);
			for (size_t j = 0; j < lengths[i]; j++)
				from[j] = (uint8_t)(j + j / 251 + 1) | 1;
			WANT(write_to(mapped.at + at, (uint32_t)lengths[i], mr->rkey) ==
			     IBV_WC_SUCCESS);
			place_read(&mapped, 0, seen, BYTES);
			WANT(!memcmp(seen + at, from, lengths[i]));
			for (size_t j = 0; j < BYTES; j++)
				WANT((j >= at && j < at + lengths[i]) || !seen[j]);
		}
	WANT(!ibv_dereg_mr(mr));
	place_end(&mapped);
	free(seen);
	end();
}

#define CASE(name)                                                                                 \
	static void is_##name(void **state)                                                        \
	{                                                                                          \
		child_ok(name);                                                                    \
	}
CASE(freed)
CASE(half_freed)
CASE(outside)
CASE(rounded)
CASE(rounded_without_handle)
CASE(anew)
CASE(not_current)
CASE(no_context)
CASE(no_room)
CASE(context_ends)
CASE(ends_in_between)
CASE(descriptors)
CASE(wrong_descriptors)
CASE(forks)
CASE(polled)
CASE(held)
CASE(any_length)

/* The case leaves its context, and no stream. */
static void is_comes_and_goes(void **state)
{
	int status;
	const char *text = child_said(comes_and_goes, &status);

	assert_int_equal(status, 0);
	assert_null(strstr(text, "cuStreamCreate"));
}

/* The process ends in the middle of it all, by its own _exit. */
static void ends_well(void (*run)(void))
{
	int status;
	const char *text = child_said(run, &status);

	if (!WIFEXITED(status) || WEXITSTATUS(status) != ENDED_WELL)
		fail_msg("status %x: %s", status, text);
}

static void is_exits(void **state)
{
	ends_well(exits);
}

static void is_faulted(void **state)
{
	ends_well(faulted);
}

/* test_life MODULE [TEST] */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_freed),
		cmocka_unit_test(is_half_freed),
		cmocka_unit_test(is_outside),
		cmocka_unit_test(is_rounded),
		cmocka_unit_test(is_rounded_without_handle),
		cmocka_unit_test(is_anew),
		cmocka_unit_test(is_not_current),
		cmocka_unit_test(is_no_context),
		cmocka_unit_test(is_no_room),
		cmocka_unit_test(is_context_ends),
		cmocka_unit_test(is_ends_in_between),
		cmocka_unit_test(is_descriptors),
		cmocka_unit_test(is_wrong_descriptors),
		cmocka_unit_test(is_forks),
		cmocka_unit_test(is_exits),
		cmocka_unit_test(is_faulted),
		cmocka_unit_test(is_comes_and_goes),
		cmocka_unit_test(is_polled),
		cmocka_unit_test(is_held),
		cmocka_unit_test(is_any_length),
	};

	image = argc > 1 ? argv[1] : "";
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	return cmocka_run_group_tests_name("life", tests, make_pool, remove_pool);
}
