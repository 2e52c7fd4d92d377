/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Host memory that the program has had CUDA pin; and what Weft has it pin for copies, in the context of the region that needs it
 * first, and for all regions. */
#include <errno.h>
#include <stdlib.h>

#include "cuda/find.h"
#include "cuda/mutation.h"
#include "cuda/plugin.h"

bool weft_cuda_pins(uint64_t va, uint64_t len_bytes, uint64_t *from, uint64_t *end)
{
	struct weft_cuda cuda;
	int err = weft_cuda_find(&cuda, NULL);

	if (err == -ENOENT || WEFT_MUTATED(pins_unasked))
		return false;
	*from = va;
	*end = va + len_bytes;
	return err || weft_cuda_pinned_run(&cuda, va, len_bytes, from, end);
}

struct pin {
	struct weft_cuda cuda;
	void *at;
	unsigned long long id;
};

int weft_cuda_pin(void *memory, void *at, uint64_t len_bytes, void **pin)
{
	const struct weft_cuda_region *m = memory;
	struct pin *p = calloc(1, sizeof(*p));
	weft_cu_result result;

	if (!p)
		return -ENOMEM;
	p->cuda = m->cuda;
	p->at = at;
	if (!weft_cuda_has_context(m) || weft_cuda_push(m))
		goto free_pin;
	result = m->cuda.cuMemHostRegister_v2(at, len_bytes, WEFT_CU_MEMHOSTREGISTER_PORTABLE);
	weft_cuda_pop(m);
	if (result)
		goto free_pin;
	p->cuda.cuPointerGetAttribute(&p->id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, (uintptr_t)at);
	*pin = p;
	return 0;
free_pin:
	free(p);
	return -ENOTSUP;
}

/* Whether the memory is still pinned as it was. A pin ends with its context: then CUDA knows no memory of that id there. */
static bool cuda_knows(const struct pin *p)
{
	unsigned long long id = 0;

	return !p->cuda.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID,
					      (uintptr_t)p->at) &&
	       id == p->id;
}

void weft_cuda_unpin(void *pin)
{
	weft_cu_context context = NULL, ours;
	struct pin *p = pin;

	if (cuda_knows(p) &&
	    !p->cuda.cuPointerGetAttribute(&context, WEFT_CU_POINTER_ATTRIBUTE_CONTEXT,
					   (uintptr_t)p->at) &&
	    !p->cuda.cuCtxPushCurrent_v2(context)) {
		p->cuda.cuMemHostUnregister(p->at);
		p->cuda.cuCtxPopCurrent_v2(&ours);
	}
	free(p);
}
