/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The host's side of the pull kernel, which stays in the context of a stream's memory because the program has asked for it.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cuda/plugin.h"
#include "cuda/pull.h"

#define WARP	    32u
#define BLOCK_WARPS 16u /* more leave too few registers for the loads that each has under way */
#define WARPS	    384u
#define TEAM	    4u
#define WARPS_MOST  512u
#define LOOKS	    2048u /* at an entry, before others may have the processor, */
#define ASK	    128u  /* and as often that, before it is asked whether the kernel lives */

struct pull {
	struct weft_cuda_region *memory;
	struct weft_pull_ring *ring;
	void *pin;
	weft_cu_module module;
	weft_cu_function function;
	weft_cu_stream stream;
	struct weft_pull_args args;
	uint64_t turn, waited; /* of the last entry that was given, and waited for */
	bool runs;
};

/* ---- Beginning and end ---- */

/* What needs the context, which is pushed: a running kernel would hold some of it up, so all is there before. */
static int make_parts(struct pull *p)
{
	const struct weft_cuda *cuda = &p->memory->cuda;
	size_t bytes = sizeof(struct weft_pull_relay);
	int err = weft_cuda_load(cuda, "weft-pull.ptx", "WEFT_PULL_KERNEL", "weft_pull", &p->module,
				 &p->function);
	weft_cu_ptr at;

	if (err)
		return err;
	if (cuda->cuMemAlloc_v2(&at, bytes))
		return -ENOMEM;
	p->args.relay = at;
	if (cuda->cuMemsetD8_v2(at, 0, bytes) || cuda->cuCtxSynchronize() ||
	    cuda->cuStreamCreate(&p->stream, WEFT_CU_STREAM_NON_BLOCKING))
		return -EIO;
	return 0;
}

static void free_parts(struct pull *p)
{
	const struct weft_cuda *cuda = &p->memory->cuda;

	if (!weft_cuda_has_memory(p->memory) || weft_cuda_push_memory(p->memory))
		return;
	if (p->stream)
		cuda->cuStreamDestroy_v2(p->stream);
	if (p->args.relay)
		cuda->cuMemFree_v2(p->args.relay);
	if (p->module)
		cuda->cuModuleUnload(p->module);
	weft_cuda_pop(p->memory);
}

void weft_cuda_pull_end(void *pull)
{
	struct pull *p = pull;

	weft_cuda_pull_stop(p);
	free_parts(p);
	if (p->pin)
		weft_cuda_unpin(p->pin);
	if (p->ring != MAP_FAILED)
		munmap(p->ring, sizeof(*p->ring));
	free(p);
}

int weft_cuda_pull_begin(void *memory, uint64_t va, void *host, uint64_t len_bytes, void **pull)
{
	struct pull *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->memory = memory;
	p->ring = mmap(NULL, sizeof(*p->ring), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	p->args = (struct weft_pull_args){
		.ring = (uintptr_t)p->ring, .host = (uintptr_t)host, .gpu = va, .bytes = len_bytes};
	err = p->ring == MAP_FAILED ? -ENOMEM : 0;
	if (!err)
		err = weft_cuda_pin(memory, p->ring, sizeof(*p->ring), &p->pin);
	if (!err)
		err = weft_cuda_push_memory(p->memory);
	if (!err) {
		err = make_parts(p);
		weft_cuda_pop(p->memory);
	}
	if (err)
		weft_cuda_pull_end(p);
	else
		*pull = p;
	return err;
}

int weft_cuda_pull_start(void *pull)
{
	unsigned int warps = weft_cuda_number("WEFT_PULL_WARPS", WARPS);
	unsigned int team = weft_cuda_number("WEFT_PULL_TEAM", TEAM), block;
	struct pull *p = pull;
	void *params[] = {&p->args};
	int err = weft_cuda_push_memory(p->memory);

	/* one relays what the others copy */
	if (warps < 2 || warps > WARPS_MOST)
		warps = WARPS;
	block = warps < BLOCK_WARPS ? warps : BLOCK_WARPS;
	/* there are lines for as many teams as two warps each make */
	p->args.team = team > 1 ? team : TEAM;
	if (err)
		return err;
	if (p->memory->cuda.cuLaunchKernel(p->function, warps / block, 1, 1, block * WARP, 1, 1, 0,
					   p->stream, params, NULL))
		err = -EIO;
	weft_cuda_pop(p->memory);
	p->runs = !err;
	return err;
}

/* ---- Entries ---- */

static bool is_done(const struct pull *p, uint64_t turn)
{
	_Atomic uint64_t *done = (_Atomic uint64_t *)&p->ring->done[turn % WEFT_PULL_ENTRIES];

	/* with weft_release of cuda/pull_kernel.c: the bytes are there */
	return atomic_load_explicit(done, memory_order_acquire) == turn;
}

static bool kernel_lives(const struct pull *p)
{
	weft_cu_result result;

	if (!weft_cuda_has_memory(p->memory) || weft_cuda_push_memory(p->memory))
		return false;
	result = p->memory->cuda.cuStreamQuery(p->stream);
	weft_cuda_pop(p->memory);
	return result == WEFT_CUDA_ERROR_NOT_READY;
}

/* 0 or -EFAULT: the kernel has died, or its context. */
static int wait_for_entry(struct pull *p, uint64_t turn)
{
	for (uint32_t looks = 1; !is_done(p, turn); looks++) {
		if (looks % LOOKS)
			continue;
		sched_yield();
		if (looks % (LOOKS * ASK) || kernel_lives(p) || is_done(p, turn))
			continue;
		p->runs = false;
		return -EFAULT;
	}
	return 0;
}

/* The next line, written anew: what it says of all but its turn. */
static int publish_line(struct pull *p, uint64_t word[WEFT_PULL_WORDS])
{
	_Atomic uint64_t *to =
		(_Atomic uint64_t *)p->ring->line[(p->turn + 1) % WEFT_PULL_ENTRIES].word;
	int err = p->runs ? 0 : -EFAULT;

	/* the entry that had the line before; its `done` is looked at while it is there */
	for (; !err && p->waited + WEFT_PULL_ENTRIES <= p->turn; p->waited += !err)
		err = wait_for_entry(p, p->waited + 1);
	if (err)
		return err;
	word[WEFT_PULL_TURN] = ++p->turn & WEFT_PULL_VALUE;
	/* with weft_order in take_entries (cuda/pull_kernel.c): what the line names of the host's room */
	atomic_thread_fence(memory_order_release);
	for (unsigned int i = 0; i < WEFT_PULL_WORDS; i++)
		atomic_store_explicit(&to[i], word[i] | WEFT_PULL_TAG(p->turn),
				      memory_order_relaxed);
	return 0;
}

int weft_cuda_pull_put(void *pull, const struct weft_plugin_part part[2], uint64_t word_at,
		       uint64_t word)
{
	uint64_t line[WEFT_PULL_WORDS] = {
		[WEFT_PULL_OFFSET] = part[0].offset,
		part[1].offset,
		[WEFT_PULL_BYTES] = part[0].len_bytes,
		part[1].len_bytes,
		[WEFT_PULL_WORD_AT] = word_at,
		[WEFT_PULL_WORD] = (uint32_t)word,
		word >> 32,
	};

	return publish_line(pull, line);
}

uint64_t weft_cuda_pull_done(void *pull)
{
	struct pull *p = pull;

	while (p->waited < p->turn && is_done(p, p->waited + 1))
		p->waited++;
	return p->waited;
}

int weft_cuda_pull_wait(void *pull)
{
	struct pull *p = pull;
	int err = p->runs || p->waited == p->turn ? 0 : -EFAULT;

	for (; !err && p->waited < p->turn; p->waited++)
		err = wait_for_entry(p, p->waited + 1);
	return err;
}

void weft_cuda_pull_stop(void *pull)
{
	uint64_t end[WEFT_PULL_WORDS] = {0};
	struct pull *p = pull;

	if (!p->runs || publish_line(p, end))
		return;
	p->runs = false;
	if (!weft_cuda_has_memory(p->memory) || weft_cuda_push_memory(p->memory))
		return;
	p->memory->cuda.cuStreamSynchronize(p->stream);
	weft_cuda_pop(p->memory);
}
