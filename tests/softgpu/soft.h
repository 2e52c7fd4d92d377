/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The soft GPU: a libcuda.so.1 for tests on machines without a GPU, no kinder than the real one. Work
 * takes effect as late as CUDA allows, in pieces whose order a seed shuffles; addresses of device memory
 * fault when the CPU touches them; handles that have ended are known as such.
 *
 * One lock, soft_lock, guards everything declared here. Exported calls take it by SOFT_BEGIN; the other
 * functions expect it held unless they say otherwise. Objects that a handle names are never freed, so
 * that a stale handle is told from a good one.
 */
#ifndef WEFT_SOFT_H
#define WEFT_SOFT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cuda/driver.h"

/* What the soft GPU exports: the calls of the driver API. */
#define SOFT_CALL(name, args) __attribute__((visibility("default"))) weft_cu_result name args;
WEFT_CUDA_CALLS(SOFT_CALL)
WEFT_CUDA_OLD_CALLS(SOFT_CALL)
#undef SOFT_CALL

#define SOFT_DEVICES	  2
#define SOFT_DEVICE_BYTES (4ull << 30)
#define SOFT_UNIT	  512ul /* cuMemAlloc's alignment: allocations lie close to each other */
#define SOFT_BLOCK	  (2ul << 20) /* the granularity of mappings */
#define SOFT_PAGE	  4096ul

/* ---- device.c: beginning, end, chance ---- */

extern pthread_mutex_t soft_lock;
extern pthread_cond_t soft_changed; /* something was done, or is wanted */

/* Takes the lock and gives CUDA_SUCCESS; or the error of a process that has not called cuInit, is a fork
 * of one that had, or is at its end, without the lock. */
weft_cu_result soft_gate(void);
void soft_leave(int *locked);
#define SOFT_BEGIN()                                                                               \
	weft_cu_result gate_ = soft_gate();                                                        \
	if (gate_)                                                                                 \
		return gate_;                                                                      \
	__attribute__((cleanup(soft_leave), unused)) int locked_ = 1
/* Also sets the caller's context; the error if there is none, or it has ended or failed. */
#define SOFT_BEGIN_IN(context)                                                                     \
	SOFT_BEGIN();                                                                              \
	weft_cu_context context;                                                                   \
	gate_ = soft_current(&context);                                                            \
	if (gate_)                                                                                 \
	return gate_

/* Where the sequence of chance begins for the nth operation of a stream, whatever other threads do. */
uint64_t soft_chance_of(uint64_t stream, uint64_t nth);
/* The next number of the sequence, below `bound`. */
uint64_t soft_chance(uint64_t *state, uint64_t bound);
uint64_t soft_now_ns(void);
/* Ends the process: the program did what corrupts memory on hardware. */
__attribute__((noreturn, format(printf, 1, 2))) void soft_die(const char *format, ...);

/* ---- context.c ---- */

struct CUctx_st {
	int device;
	bool primary, alive;
	bool held; /* a thread waits in a call that, as hardware's does, holds up others in the context */
	unsigned int retained; /* of a primary one */
	unsigned int peers;    /* devices whose memory its kernels may use, a bit each */
	weft_cu_result fault;  /* what every call answers from now on */
	weft_cu_stream legacy; /* the stream NULL */
	struct CUctx_st *next;
};
extern struct CUctx_st *soft_contexts;
extern bool soft_dying[]; /* by device: a kernel's fault is ending what runs there */

weft_cu_result soft_current(weft_cu_context *context);
/* CUDA_SUCCESS, or the error that such a handle gets. */
weft_cu_result soft_context_check(weft_cu_context context);
/* From now on every call in a context of this process on that device answers `fault`. */
void soft_context_fail(weft_cu_context context, weft_cu_result fault);

/* ---- memory.c: bytes, and the addresses that show them ---- */

struct soft_memory {
	int fd; /* what peers map; -1: they cannot */
	size_t bytes;
	uint8_t *at;		    /* where engines and kernels find it */
	int device;		    /* -1: the host's */
	bool exportable, counted;   /* counted: is of this process, and fills the device */
	unsigned int refs, handles; /* all that keep it; of these cuMemCreate's */
};

enum soft_kind {
	SOFT_LEGACY,	 /* cuMemAlloc */
	SOFT_POOL,	 /* cuMemAllocAsync */
	SOFT_MANAGED,	 /* cuMemAllocManaged */
	SOFT_MAPPED,	 /* cuMemMap */
	SOFT_OPENED,	 /* cuIpcOpenMemHandle */
	SOFT_HOST,	 /* cuMemAllocHost */
	SOFT_REGISTERED, /* cuMemHostRegister */
};

struct soft_range {
	enum soft_kind kind;
	uint64_t start, id; /* ids are never used twice */
	size_t bytes;
	struct soft_memory *memory; /* NULL: the process's own, at these addresses */
	size_t into;		    /* where in it the range starts */
	weft_cu_context context;
	unsigned int access; /* of MAPPED: devices that may use it, a bit each */
	bool sync;	     /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
	unsigned int opens;  /* of OPENED */
	uint64_t peer_inode;
	struct soft_pin *pin;
	struct soft_range *next;
};
extern struct soft_range *soft_ranges;

/* NULL without memory or room on the device. A reference is the caller's. */
struct soft_memory *soft_memory_new(size_t bytes, int device, bool exportable);
/* The memory that `fd` shows; takes the descriptor. NULL if it cannot be mapped. */
struct soft_memory *soft_memory_of(int fd, size_t bytes, int device);
void soft_memory_drop(struct soft_memory *memory);
size_t soft_memory_used(int device);

/* Takes free addresses of device memory: `wanted`, if these are free, else the lowest that fit; 0 if none do.
 * An address may be given out again although the program still knows it from before. */
uint64_t soft_area_take(size_t bytes, size_t alignment, uint64_t wanted);
/* The bytes of the area that starts there; 0: none does. */
size_t soft_area_at(uint64_t at);
void soft_area_give(uint64_t at);
bool soft_is_device_address(uint64_t at);

/* A new range with a new id; takes the reference to `memory`. NULL without memory. */
struct soft_range *soft_range_new(enum soft_kind kind, uint64_t start, size_t bytes,
				  struct soft_memory *memory, weft_cu_context context);
struct soft_range *soft_range_at(uint64_t at);	  /* that holds the address, or NULL */
struct soft_range *soft_range_start(uint64_t at); /* that starts there, or NULL */
bool soft_range_overlaps(uint64_t start, size_t bytes);
/* The range and its addresses are gone. */
void soft_range_end(struct soft_range *range);
/* All memory of the context is gone. */
void soft_ranges_end(weft_cu_context context);
bool soft_is_host(const struct soft_range *range);

/* ---- view.c: addresses as engines and kernels see them ---- */

struct soft_view {
	struct soft_segment *segment;
	unsigned int count;
};
/* What lies at [at, at + bytes), which stays there until the view is closed. CUDA_ERROR_ILLEGAL_ADDRESS if
 * it is not all mapped. Ends the process if pages that CUDA has pinned are no longer those. */
weft_cu_result soft_view_open(struct soft_view *view, uint64_t at, size_t bytes);
void soft_view_close(struct soft_view *view);
/* The byte at `at`, and how many follow it; without the lock. */
uint8_t *soft_view_at(const struct soft_view *view, uint64_t at, size_t *left);

/* ---- pin.c: host memory that CUDA has pinned ---- */

/* Remembers which pages are there now. NULL: not all are mapped. */
struct soft_pin *soft_pin_new(uint64_t start, size_t bytes);
/* Ends the process if others are there now. */
void soft_pin_check(const struct soft_pin *pin);
void soft_pin_free(struct soft_pin *pin);

/* ---- stream.c ---- */

struct soft_op {
	/* The effect, in the stream's thread, without the lock. What it answers fails the context. */
	weft_cu_result (*run)(struct soft_op *op);
	weft_cu_stream stream;
	uint64_t seq, born_ns, chance;
	struct soft_after {
		weft_cu_stream stream;
		uint64_t seq;
	} * after; /* what must be done before */
	unsigned int afters;
	uint64_t to, from, value;
	size_t bytes;
	unsigned int flags;
	uint8_t *staged; /* the bytes, if the source was read when it was called */
	bool pins[2];	 /* `to`, `from` were pinned then */
	void *call;	 /* a kernel's launch, or the argument of `fn` */
	weft_cu_host_fn fn;
	struct soft_op *next;
};

struct CUstream_st {
	weft_cu_context context;
	bool alive, blocking, working;
	uint64_t issued, done, demanded; /* of operations, by their numbers */
	uint64_t number, queries, chance;
	struct soft_op *first, **last;
	pthread_t worker;
	struct CUstream_st *next;
};
extern struct CUstream_st *soft_streams;

/* NULL without memory. */
struct soft_op *soft_op_new(weft_cu_result (*run)(struct soft_op *op));
/* The stream of a handle in the context; NULL is the context's own. */
weft_cu_result soft_stream_find(weft_cu_context context, weft_cu_stream handle,
				weft_cu_stream *out);
weft_cu_stream soft_stream_new(weft_cu_context context, bool blocking);
/* Puts it behind what it must come after. Takes the operation. */
weft_cu_result soft_enqueue(weft_cu_stream stream, struct soft_op *op);
weft_cu_result soft_after(struct soft_op *op, weft_cu_stream stream, uint64_t seq);
/* Waits until the stream has done so many; lets go of the lock meanwhile. The context's fault. */
weft_cu_result soft_wait(weft_cu_stream stream, uint64_t seq);
/* The answer of a query: not ready for some times, whatever has been done. */
weft_cu_result soft_query(weft_cu_stream stream, uint64_t seq);
weft_cu_result soft_wait_all(weft_cu_context context);
/* The same by a call that, as hardware's does, holds up all copies of the process meanwhile: soft_await_driver waits for it. */
weft_cu_result soft_hold_all(weft_cu_context context);
void soft_await_driver(void);
/* Waits until no thread holds the context. */
void soft_await_context(weft_cu_context context);
/* As soft_wait, and holds the stream's context meanwhile. */
weft_cu_result soft_hold(weft_cu_stream stream, uint64_t seq);

/* ---- kernel.c, ipc.c, event.c, vmm.c, leak.c ---- */

/* How many there are that the program has not ended. */
unsigned int soft_modules_left(void);
unsigned int soft_events_left(void);
unsigned int soft_handles_left(void);
unsigned int soft_reservations_left(void);
/* What CUDA tells of the range of a mapping (vmm.c). */
void soft_mapping_around(const struct soft_range *range, uint64_t *start, size_t *bytes);
/* Says on stderr what the process leaves behind. */
void soft_leak_list(void);

#endif
