/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the parts of the plugin share. */
#ifndef WEFT_CUDA_PLUGIN_H
#define WEFT_CUDA_PLUGIN_H

#include "cuda/driver.h"
#include "cuda/memory.h"
#include "process/plugin.h"

/* What a region of this process was made of. */
struct weft_cuda_region {
	struct weft_cuda cuda;
	struct weft_cuda_memory what;
	weft_cu_context context; /* the memory's, or one that reaches it */
	bool retained; /* that is the device's primary one, of which the region holds a reference */
	weft_cu_context copier; /* in which it is copied: `context`, or one of Weft's own */
	weft_cu_stream stream;
	int shared; /* a descriptor for other processes; -1: none */
};

/* context.c: chooses both contexts. 0 or -EIO. */
int weft_cuda_choose_contexts(struct weft_cuda_region *region);
void weft_cuda_let_go_of_context(struct weft_cuda_region *region);
/* Whether the one in which it is copied is there, as far as can be told without touching it. */
bool weft_cuda_has_context(const struct weft_cuda_region *region);
/* Makes the one in which it is copied the thread's, until pop, which makes current again what was; 0 or -EFAULT. */
int weft_cuda_push(const struct weft_cuda_region *region);
/* The same of the memory's, for kernels: in one of Weft's own they would get the device's processors in turns with the program's. */
int weft_cuda_push_memory(const struct weft_cuda_region *region);
void weft_cuda_pop(const struct weft_cuda_region *region);

/* Whether the memory is still there; with it its context may have ended. */
bool weft_cuda_has_memory(const struct weft_cuda_region *region);

/* Copies, the last bytes last, and waits. With its context pushed. 0 or -EFAULT. */
int weft_cuda_copy(const struct weft_cuda_region *region, weft_cu_ptr to, weft_cu_ptr from,
		   uint64_t len_bytes);

/* pin.c: see struct weft_plugin. */
bool weft_cuda_pins(uint64_t va, uint64_t len_bytes, uint64_t *from, uint64_t *end);
int weft_cuda_pin(void *memory, void *at, uint64_t len_bytes, void **pin);
void weft_cuda_unpin(void *pin);

/* module.c: a kernel of Weft's, out of the file of that name beside this library, or that the environment names: text that the driver
 * compiles for its GPU. With the context pushed. 0 or -ENOTSUP; *module is to be unloaded unless it is NULL. */
int weft_cuda_load(const struct weft_cuda *cuda, const char *file, const char *environment,
		   const char *kernel, weft_cu_module *module, weft_cu_function *function);
/* What the environment says of a kernel's size, if it does. */
unsigned int weft_cuda_number(const char *environment, unsigned int otherwise);

/* judge.c: see struct weft_plugin. */
int weft_cuda_allocate(uint32_t device, uint64_t len_bytes, uint64_t *va);
void weft_cuda_free(uint32_t device, uint64_t va);
int weft_cuda_judge_begin(void *memory, const struct weft_plugin_judge *options, void **judge);
int weft_cuda_judge_put(void *judge, uint32_t lane, uint64_t va, uint64_t len_bytes);
int weft_cuda_judge_take(void *judge, uint32_t lane, struct weft_plugin_judged *judged);
void weft_cuda_judge_end(void *judge);

/* pull.c: see struct weft_plugin. */
int weft_cuda_pull_begin(void *memory, uint64_t va, void *host, uint64_t len_bytes, void **pull);
int weft_cuda_pull_start(void *pull);
int weft_cuda_pull_put(void *pull, const struct weft_plugin_part part[2], uint64_t word_at,
		       uint64_t word);
int weft_cuda_pull_wait(void *pull);
uint64_t weft_cuda_pull_done(void *pull);
void weft_cuda_pull_stop(void *pull);
void weft_cuda_pull_end(void *pull);

/* share.c: see struct weft_plugin. */
void weft_cuda_share(void *memory, struct weft_share *share);
void weft_cuda_unshare(struct weft_cuda_region *region);
int weft_cuda_open(void *ours, const struct weft_share *theirs, void **view);
void weft_cuda_close(void *view);
bool weft_cuda_close_waits(const void *view);
int weft_cuda_copy_view(void *view, uint64_t theirs, uint64_t ours, uint64_t len_bytes, bool write);

#endif
