/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cuda/memory.h"

#include "cuda/mutation.h"

#include <errno.h>
#include <stdlib.h>

#define PAGE	4096ull
#define GRANULE (2ull << 20) /* the least that cuMemMap maps */

enum { TYPE, MANAGED, DEVICE, CONTEXT, ID, START, BYTES, IPC, ASKED };

static const unsigned int attributes[ASKED] = {
	[TYPE] = WEFT_CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	[MANAGED] = WEFT_CU_POINTER_ATTRIBUTE_IS_MANAGED,
	[DEVICE] = WEFT_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
	[CONTEXT] = WEFT_CU_POINTER_ATTRIBUTE_CONTEXT,
	[ID] = WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID,
	[START] = WEFT_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
	[BYTES] = WEFT_CU_POINTER_ATTRIBUTE_RANGE_SIZE,
	[IPC] = WEFT_CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
};

/* The answers for one address, each in the low bytes of its word. 0 or -EIO. */
static int ask(const struct weft_cuda *cuda, weft_cu_ptr at, uint64_t answer[ASKED])
{
	unsigned int names[ASKED];
	void *data[ASKED];

	for (unsigned int i = 0; i < ASKED; i++) {
		names[i] = attributes[i];
		answer[i] = 0;
		data[i] = &answer[i];
	}
	return cuda->cuPointerGetAttributes(ASKED, names, data, at) ? -EIO : 0;
}

static enum weft_cuda_kind answered_kind(const uint64_t answer[ASKED])
{
	if (!(uint32_t)answer[TYPE])
		return WEFT_CUDA_UNKNOWN;
	if ((uint32_t)answer[MANAGED])
		return WEFT_CUDA_MANAGED;
	return (uint32_t)answer[TYPE] == WEFT_CU_MEMORYTYPE_HOST ? WEFT_CUDA_PINNED
								 : WEFT_CUDA_DEVICE;
}

static int add_part(struct weft_cuda_memory *memory, const struct weft_cuda_part *part)
{
	struct weft_cuda_part *more =
		realloc(memory->part, (memory->parts + 1) * sizeof(*memory->part));

	if (!more)
		return -ENOMEM;
	memory->part = more;
	memory->part[memory->parts++] = *part;
	return 0;
}

static bool has_id(const struct weft_cuda *cuda, weft_cu_ptr at, unsigned long long wanted)
{
	unsigned long long id = 0;

	return !cuda->cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, at) &&
	       id == wanted;
}

/* CUDA tells of the range of mappings that lie side by side as of one; their ids differ. */
static void keep_one_mapping(const struct weft_cuda *cuda, weft_cu_ptr at,
			     struct weft_cuda_part *part)
{
	weft_cu_ptr end = part->start + part->bytes, first = at - (at - part->start) % GRANULE,
		    last = first + GRANULE;

	while (first > part->start && has_id(cuda, first - GRANULE, part->id))
		first -= GRANULE;
	while (last < end && has_id(cuda, last, part->id))
		last += GRANULE;
	part->start = first;
	part->bytes = (last < end ? last : end) - first;
}

/* Takes what the answers tell of the part at `at`. Its end, or -errno. */
static int take_part(const struct weft_cuda *cuda, struct weft_cuda_memory *memory, weft_cu_ptr at,
		     const uint64_t answer[ASKED], weft_cu_ptr *end)
{
	struct weft_cuda_part part = {answer[START], answer[BYTES], answer[ID]};

	if (!memory->parts) {
		memory->kind = answered_kind(answer);
		memory->device = (int)(uint32_t)answer[DEVICE];
		memory->context = (weft_cu_context)(uintptr_t)answer[CONTEXT];
		memory->exportable = (uint32_t)answer[IPC];
	}
	if (answered_kind(answer) != memory->kind ||
	    (int)(uint32_t)answer[DEVICE] != memory->device || at < part.start ||
	    at - part.start >= part.bytes)
		return -EFAULT;
	if (!memory->context && !WEFT_MUTATED(mappings_joined))
		keep_one_mapping(cuda, at, &part);
	*end = part.start + part.bytes;
	return add_part(memory, &part);
}

/* Programs round what they register to whole pages, as cards need it: where the first or the last page is of
 * two allocations, or none, the one that has the rest is meant. Memory that others map comes in whole pages. */
static void round_inwards(const struct weft_cuda *cuda, weft_cu_ptr *at, size_t *bytes)
{
	weft_cu_ptr end = *at + *bytes, first = (*at | (PAGE - 1)) + 1, last = end & ~(PAGE - 1);
	uint64_t answer[ASKED];

	if (*at & (PAGE - 1) || end & (PAGE - 1))
		return;
	last -= PAGE;
	if (first > last)
		first = last = *at;
	/* what lies in the middle is what the program means */
	if (ask(cuda, (first + last) / 2 & ~(PAGE - 1), answer) || !(uint32_t)answer[TYPE])
		return;
	if (answer[START] > *at && answer[START] - *at < PAGE) {
		*bytes -= answer[START] - *at;
		*at = answer[START];
	}
	if (answer[START] + answer[BYTES] < end && end - (answer[START] + answer[BYTES]) < PAGE)
		*bytes -= end - (answer[START] + answer[BYTES]);
}

int weft_cuda_look(const struct weft_cuda *cuda, weft_cu_ptr at, size_t bytes,
		   struct weft_cuda_memory *memory)
{
	uint64_t answer[ASKED];
	weft_cu_ptr next;
	int err = 0;

	round_inwards(cuda, &at, &bytes);
	next = at;

	*memory = (struct weft_cuda_memory){0};
	while (!err && next - at < bytes) {
		err = ask(cuda, next, answer);
		if (!err && answered_kind(answer) == WEFT_CUDA_UNKNOWN && !memory->parts) {
			err = weft_cuda_may_pin(cuda, at, bytes) ? -EFAULT : 0;
			break;
		}
		if (!err)
			err = take_part(cuda, memory, next, answer, &next);
		if (WEFT_MUTATED(one_part_looked_at))
			break;
	}
	if (err)
		weft_cuda_forget(memory);
	return err;
}

void weft_cuda_forget(struct weft_cuda_memory *memory)
{
	free(memory->part);
	*memory = (struct weft_cuda_memory){0};
}

bool weft_cuda_is_still(const struct weft_cuda *cuda, const struct weft_cuda_memory *memory)
{
	for (unsigned int i = 0; i < (WEFT_MUTATED(first_id_only) ? 1 : memory->parts); i++) {
		unsigned long long id = 0;

		if (cuda->cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID,
						memory->part[i].start) ||
		    id != memory->part[i].id)
			return false;
	}
	return true;
}

enum knows { NOT, KNOWS, SILENT };

static enum knows knows_of(const struct weft_cuda *cuda, weft_cu_ptr at)
{
	unsigned long long id;

	switch (cuda->cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, at)) {
	case WEFT_CUDA_ERROR_INVALID_VALUE:
		return NOT;
	case WEFT_CUDA_SUCCESS:
		return KNOWS;
	default:
		return SILENT;
	}
}

/* The first byte and the last of that page, as far as they are below `end`: what is pinned between two of them is not seen. */
static enum knows knows_of_page(const struct weft_cuda *cuda, weft_cu_ptr at, weft_cu_ptr end)
{
	weft_cu_ptr last = at | (PAGE - 1);
	enum knows first = knows_of(cuda, at);

	return first == NOT ? knows_of(cuda, last < end ? last : end - 1) : first;
}

bool weft_cuda_may_pin(const struct weft_cuda *cuda, weft_cu_ptr at, size_t bytes)
{
	weft_cu_ptr end = at + bytes;

	for (; at < end; at = (at & ~(PAGE - 1)) + PAGE)
		if (knows_of_page(cuda, at, end) != NOT)
			return true;
	return false;
}

/* The page behind the last that has a byte of the memory around `at`, of which CUDA knows. */
static weft_cu_ptr end_of_known(const struct weft_cuda *cuda, weft_cu_ptr at)
{
	uint64_t answer[ASKED];
	weft_cu_ptr end = (at & ~(PAGE - 1)) + PAGE;

	if (!ask(cuda, at, answer) && answer[START] + answer[BYTES] > end)
		end = (answer[START] + answer[BYTES] + PAGE - 1) & ~(PAGE - 1);
	return end;
}

bool weft_cuda_pinned_run(const struct weft_cuda *cuda, weft_cu_ptr at, size_t bytes,
			  uint64_t *from, uint64_t *end)
{
	unsigned long long id;

	*end = at + bytes;
	if (cuda->cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, at) ==
	    WEFT_CUDA_ERROR_NOT_INITIALIZED)
		return false;
	for (*from = at; *from < at + bytes; *from += PAGE) {
		switch (knows_of_page(cuda, *from, at + bytes)) {
		case NOT:
			continue;
		case KNOWS:
			/* a registration that begins within the page is asked for by the page's last byte */
			*end = end_of_known(cuda, *from | (PAGE - 1));
			break;
		case SILENT:
			break;
		}
		return true;
	}
	return false;
}
