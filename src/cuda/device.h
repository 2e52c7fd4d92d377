/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What device code is written with: CUDA's compiler makes kernels of it, and a C compiler a shared object
 * that the soft GPU (tests/softgpu/) runs, a thread a warp, so that a warp has one lane there. Device code
 * keeps to C that both take. A kernel has one parameter, a struct; memory is named by 64-bit addresses and
 * reached by weft_at, with which the soft GPU sees what a device may not use.
 */
#ifndef WEFT_CUDA_DEVICE_H
#define WEFT_CUDA_DEVICE_H

#include <stdint.h>

#ifdef __CUDACC__

#define WEFT_DEVICE		 static __device__ __forceinline__
#define WEFT_KERNEL(name, type)	 extern "C" __global__ void name(const struct type args)

#define weft_at(type, at, count) ((type *)(uintptr_t)(at))
#define weft_lane()		 (threadIdx.x & 31u)
#define weft_lanes()		 32u
#define weft_warp()		 (threadIdx.x / 32)
#define weft_warps()		 ((blockDim.x + 31) / 32)
#define weft_block()		 (blockIdx.x)
#define weft_blocks()		 (gridDim.x)

/* Ordered for the whole system: other devices and the host. */
WEFT_DEVICE uint64_t weft_acquire(const uint64_t *word)
{
	uint64_t value;

	asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
}

WEFT_DEVICE void weft_release(uint64_t *word, uint64_t value)
{
	asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

WEFT_DEVICE uint64_t weft_add(uint64_t *word, uint64_t value)
{
	return atomicAdd_system((unsigned long long *)word, (unsigned long long)value);
}

WEFT_DEVICE void weft_fence(void)
{
	__threadfence_system();
}

/* Orders, by way of relaxed words, what is before it with what is behind the other side's: of the whole system, and of this GPU alone. */
WEFT_DEVICE void weft_order(void)
{
	asm volatile("fence.acq_rel.sys;" ::: "memory");
}

WEFT_DEVICE void weft_order_near(void)
{
	asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

WEFT_DEVICE uint64_t weft_add_near(uint64_t *word, uint64_t value)
{
	return atomicAdd((unsigned long long *)word, (unsigned long long)value);
}

WEFT_DEVICE uint64_t weft_look(const uint64_t *word)
{
	uint64_t value;

	asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
}

WEFT_DEVICE void weft_put(uint64_t *word, uint64_t value)
{
	asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

/* Lines of eight words that follow each other round a ring, as many as one look of a warp finds: a word in each lane. */
#define WEFT_LINES 4u

struct weft_lines {
	uint64_t mine;
};

/* Asked for at once by the whole warp; each word acquired, from the whole system, for all its lanes. */
WEFT_DEVICE void weft_acquire_lines(const uint64_t *ring, uint64_t count, uint64_t first,
				    struct weft_lines *lines)
{
	uint64_t line = (first + weft_lane() / 8) % count;

	lines->mine = weft_acquire(ring + 8 * line + weft_lane() % 8);
	__syncwarp();
}

/* The words of one of them, for each lane. */
WEFT_DEVICE void weft_line(const struct weft_lines *lines, unsigned int which, uint64_t word[8])
{
#pragma unroll
	for (unsigned int i = 0; i < 8; i++)
		word[i] = __shfl_sync(~0u, lines->mine, (int)(8 * which + i));
}

/* Eight words, each relaxed, that lie in one line: asked for at once by the whole warp, of which each lane has all then. */
WEFT_DEVICE void weft_look_at_line(const uint64_t *line, uint64_t word[8])
{
	uint64_t mine = weft_look(line + weft_lane() % 8);

#pragma unroll
	for (unsigned int i = 0; i < 8; i++)
		word[i] = __shfl_sync(~0u, mine, (int)i);
}

/* Stores them, the same in each lane, relaxed. */
WEFT_DEVICE void weft_put_line(uint64_t *line, const uint64_t word[8])
{
	uint64_t mine = word[0];

#pragma unroll
	for (unsigned int i = 1; i < 8; i++)
		mine = weft_lane() == i ? word[i] : mine;
	if (weft_lane() < 8)
		weft_put(line + weft_lane(), mine);
}

/* All lanes of the warp are here, and what each has stored is before what any does next. */
WEFT_DEVICE void weft_converge(void)
{
	__syncwarp();
}

/* In a loop that looks for something. */
WEFT_DEVICE void weft_pause(void)
{
}

#define WEFT_TAKES_SELF
#define WEFT_GIVES_SELF

#else

#include <stddef.h>
#include <string.h>

struct weft_soft_warp {
	void *(*translate)(const struct weft_soft_warp *warp, uint64_t at, size_t bytes);
	void (*pause)(
		const struct weft_soft_warp *warp); /* where the warp may end, as its context has */
	unsigned int warp, warps, block, blocks;
};
typedef void weft_soft_kernel(const void *params, const struct weft_soft_warp *warp);

#define WEFT_DEVICE static inline
#define WEFT_KERNEL(name, type)                                                                    \
	static void name##_body(const struct type args,                                            \
				const struct weft_soft_warp *weft_soft_self);                      \
	__attribute__((visibility("default"))) extern const size_t name##_params_bytes;            \
	const size_t name##_params_bytes = sizeof(struct type);                                    \
	__attribute__((visibility("default"))) weft_soft_kernel name;                              \
	void name(const void *params, const struct weft_soft_warp *warp)                           \
	{                                                                                          \
		struct type args;                                                                  \
                                                                                                   \
		memcpy(&args, params, sizeof(args));                                               \
		name##_body(args, warp);                                                           \
	}                                                                                          \
	static void name##_body(const struct type args, const struct weft_soft_warp *weft_soft_self)

/* In a kernel, which hands what it found to its functions. */
#define weft_at(type, at, count)                                                                   \
	((type *)weft_soft_self->translate(weft_soft_self, at, (count) * sizeof(type)))
#define weft_pause()	(weft_soft_self->pause(weft_soft_self))
/* Last among the parameters of a function that pauses, and of what it is called with. */
#define WEFT_TAKES_SELF , const struct weft_soft_warp *weft_soft_self
#define WEFT_GIVES_SELF , weft_soft_self
#define weft_lane()	0u
#define weft_lanes()	1u
#define weft_warp()	(weft_soft_self->warp)
#define weft_warps()	(weft_soft_self->warps)
#define weft_block()	(weft_soft_self->block)
#define weft_blocks()	(weft_soft_self->blocks)

WEFT_DEVICE uint64_t weft_acquire(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

WEFT_DEVICE void weft_release(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

WEFT_DEVICE uint64_t weft_add(uint64_t *word, uint64_t value)
{
	return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
}

WEFT_DEVICE void weft_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

WEFT_DEVICE void weft_order(void)
{
	__atomic_thread_fence(__ATOMIC_ACQ_REL);
}

#define weft_order_near weft_order
#define weft_add_near	weft_add

WEFT_DEVICE uint64_t weft_look(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

WEFT_DEVICE void weft_put(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

#define WEFT_LINES	1u

struct weft_lines {
	uint64_t word[8];
};

WEFT_DEVICE void weft_acquire_lines(const uint64_t *ring, uint64_t count, uint64_t first,
				    struct weft_lines *lines)
{
	for (unsigned int i = 0; i < 8; i++)
		lines->word[i] = weft_acquire(ring + 8 * (first % count) + i);
}

WEFT_DEVICE void weft_line(const struct weft_lines *lines, unsigned int which, uint64_t word[8])
{
	memcpy(word, lines->word, sizeof(lines->word));
}

WEFT_DEVICE void weft_look_at_line(const uint64_t *line, uint64_t word[8])
{
	for (unsigned int i = 0; i < 8; i++)
		word[i] = weft_look(line + i);
}

WEFT_DEVICE void weft_put_line(uint64_t *line, const uint64_t word[8])
{
	for (unsigned int i = 0; i < 8; i++)
		weft_put(line + i, word[i]);
}

WEFT_DEVICE void weft_converge(void)
{
}

#endif
#endif
