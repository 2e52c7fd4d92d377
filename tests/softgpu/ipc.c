/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* cuMemAlloc's memory in other processes: 64 bytes that name the owner and its descriptor. */
#include "soft.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x55504754464f53ull /* "SOFTGPU" */

struct wire {
	uint64_t magic, inode, bytes, id;
	int32_t pid, fd, device;
};
_Static_assert(sizeof(struct wire) <= sizeof(struct weft_cu_ipc_memory), "the handle's size");

weft_cu_result cuIpcGetMemHandle(struct weft_cu_ipc_memory *handle, weft_cu_ptr at)
{
	struct soft_range *range;
	struct wire wire;
	struct stat st;

	SOFT_BEGIN_IN(context);
	range = soft_range_at(at);
	if (!range || range->kind != SOFT_LEGACY || fstat(range->memory->fd, &st))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	wire = (struct wire){MAGIC,    st.st_ino,	  range->bytes,		range->id,
			     getpid(), range->memory->fd, range->memory->device};
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &wire, sizeof(wire));
	return WEFT_CUDA_SUCCESS;
}

/* The owner's descriptor, taken from its process, if it is still of that memory. */
static int descriptor(const struct wire *wire)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", wire->pid, wire->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || (!fstat(fd, &st) && st.st_ino == wire->inode))
		return fd;
	close(fd);
	return -1;
}

static weft_cu_result map(const struct wire *wire, int fd, weft_cu_context context, weft_cu_ptr *at)
{
	size_t bytes = (wire->bytes + SOFT_PAGE - 1) & ~(SOFT_PAGE - 1);
	struct soft_memory *memory = soft_memory_of(fd, bytes, wire->device);
	struct soft_range *range = NULL;
	uint64_t start;

	if (!memory)
		return WEFT_CUDA_ERROR_MAP_FAILED;
	start = soft_area_take((bytes + SOFT_BLOCK - 1) & ~(SOFT_BLOCK - 1), SOFT_BLOCK, 0);
	if (start)
		range = soft_range_new(SOFT_OPENED, start, wire->bytes, memory, context);
	if (!range) {
		soft_memory_drop(memory);
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	}
	range->opens = 1;
	range->peer_inode = wire->inode;
	*at = start;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuIpcOpenMemHandle_v2(weft_cu_ptr *at, struct weft_cu_ipc_memory handle,
				     unsigned int flags)
{
	struct wire wire;
	int fd;

	SOFT_BEGIN_IN(context);
	memcpy(&wire, &handle, sizeof(wire));
	if (wire.magic != MAGIC || flags != WEFT_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	if (wire.pid == getpid())
		return WEFT_CUDA_ERROR_INVALID_CONTEXT;
	for (struct soft_range *range = soft_ranges; range; range = range->next)
		if (range->kind == SOFT_OPENED && range->peer_inode == wire.inode &&
		    range->context == context) {
			range->opens++;
			*at = range->start;
			return WEFT_CUDA_SUCCESS;
		}
	fd = descriptor(&wire);
	return fd < 0 ? WEFT_CUDA_ERROR_MAP_FAILED : map(&wire, fd, context, at);
}

weft_cu_result cuIpcCloseMemHandle(weft_cu_ptr at)
{
	struct soft_range *range;
	weft_cu_result err;

	SOFT_BEGIN_IN(context);
	range = soft_range_start(at);
	if (!range || range->kind != SOFT_OPENED)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	err = soft_hold_all(context);
	range = soft_range_start(at);
	if (!err && range && !--range->opens)
		soft_range_end(range);
	return err;
}
