/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory of GPUs between processes: what cuMemAlloc gave by its handle of 64 bytes, what cuMemMap maps by a descriptor
 * that the other takes out of its owner's table. What has neither stays its owner's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda/mutation.h"
#include "cuda/plugin.h"
#include "pool/step.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

enum { NONE, LEGACY, MAPPED };

struct view {
	const struct weft_cuda_region *ours;
	weft_cu_ptr at; /* where the other process's memory is, in this process's context */
	uint64_t start, len_bytes;
	bool mapped;
};

/* ---- To give away ---- */

static int export_descriptor(const struct weft_cuda_region *r)
{
	unsigned long long types = 0;
	weft_cu_memory handle;
	int fd = -1;

	if (r->cuda.cuPointerGetAttribute(&types, WEFT_CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
					  r->what.part->start) ||
	    !(types & WEFT_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ||
	    r->cuda.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)r->what.part->start))
		return -1;
	if (r->cuda.cuMemExportToShareableHandle(&fd, handle,
						 WEFT_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
		fd = -1;
	r->cuda.cuMemRelease(handle);
	return fd;
}

static void fill_legacy(const struct weft_cuda_region *r, struct weft_share *share)
{
	struct weft_cu_ipc_memory handle;

	if (weft_cuda_push(r))
		return;
	if (!r->cuda.cuIpcGetMemHandle(&handle, r->what.part->start)) {
		memcpy(share->handle, &handle, sizeof(share->handle));
		atomic_store_explicit(&share->kind, LEGACY, memory_order_relaxed);
	}
	weft_cuda_pop(r);
}

void weft_cuda_share(void *memory, struct weft_share *share)
{
	struct weft_cuda_region *r = memory;
	struct weft_cu_uuid uuid = {""};
	weft_cu_device device;

	_Static_assert(sizeof(struct weft_cu_ipc_memory) == sizeof(share->handle), "it fits");
	if (!r->cuda.cuDeviceGet(&device, r->what.device))
		r->cuda.cuDeviceGetUuid_v2(&uuid, device);
	memcpy(share->device, uuid.bytes, sizeof(share->device));
	snprintf(share->name, sizeof(share->name), "gpu%d", r->what.device);
	atomic_store_explicit(&share->kind, NONE, memory_order_relaxed);
	if (r->what.parts != 1 || r->what.kind != WEFT_CUDA_DEVICE)
		return;
	share->start = r->what.part->start;
	share->len_bytes = r->what.part->bytes;
	share->pid = getpid();
	/* beside libraries such as NCCL, hardware says of cuMemAlloc's memory that it has no handle, and gives one all the same */
	if (!r->what.exportable)
		r->shared = export_descriptor(r);
	share->fd = r->shared;
	if (r->shared >= 0)
		atomic_store_explicit(&share->kind, MAPPED, memory_order_relaxed);
	else
		fill_legacy(r, share);
}

void weft_cuda_unshare(struct weft_cuda_region *r)
{
	if (r->shared >= 0)
		close(r->shared);
	r->shared = -1;
}

/* ---- To take ---- */

static int open_legacy(struct view *v, const struct weft_share *theirs)
{
	struct weft_cu_ipc_memory handle;

	memcpy(&handle, theirs->handle, sizeof(handle));
	return v->ours->cuda.cuIpcOpenMemHandle_v2(&v->at, handle,
						   WEFT_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		       ? -ENOTSUP
		       : 0;
}

static int take_descriptor(const struct weft_share *theirs)
{
	int fd, process = (int)syscall(SYS_pidfd_open, theirs->pid, 0);

	if (process < 0)
		return -1;
	fd = (int)syscall(SYS_pidfd_getfd, process, theirs->fd, 0);
	close(process);
	return fd;
}

static int map_handle(struct view *v, weft_cu_memory handle)
{
	const struct weft_cuda *cuda = &v->ours->cuda;
	struct weft_cu_access access = {{WEFT_CU_MEM_LOCATION_TYPE_DEVICE, v->ours->what.device},
					WEFT_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	if (cuda->cuMemAddressReserve(&v->at, v->len_bytes, 0, 0, 0))
		return -ENOTSUP;
	if (cuda->cuMemMap(v->at, v->len_bytes, 0, handle, 0))
		goto free_addresses;
	if (cuda->cuMemSetAccess(v->at, v->len_bytes, &access, 1))
		goto unmap;
	v->mapped = true;
	return 0;
unmap:
	cuda->cuMemUnmap(v->at, v->len_bytes);
free_addresses:
	cuda->cuMemAddressFree(v->at, v->len_bytes);
	return -ENOTSUP;
}

static int open_mapped(struct view *v, const struct weft_share *theirs)
{
	const struct weft_cuda *cuda = &v->ours->cuda;
	int fd = take_descriptor(theirs), err = -ENOTSUP;
	weft_cu_memory handle;

	if (fd < 0)
		return -ENOTSUP;
	if (!cuda->cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
						  WEFT_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
		WEFT_STEP(device_imported);
		err = map_handle(v, handle);
		cuda->cuMemRelease(handle);
	}
	close(fd);
	return err;
}

int weft_cuda_open(void *ours, const struct weft_share *theirs, void **view)
{
	struct view *v = calloc(1, sizeof(*v));
	int err = -ENOTSUP;

	if (!v)
		return -ENOMEM;
	*v = (struct view){.ours = ours, .start = theirs->start, .len_bytes = theirs->len_bytes};
	if (!weft_cuda_push(v->ours)) {
		if (theirs->kind == LEGACY)
			err = open_legacy(v, theirs);
		else if (theirs->kind == MAPPED)
			err = open_mapped(v, theirs);
		weft_cuda_pop(v->ours);
	}
	if (err)
		free(v);
	else
		*view = v;
	return err;
}

void weft_cuda_close(void *view)
{
	struct view *v = view;
	const struct weft_cuda *cuda = &v->ours->cuda;

	if (!WEFT_MUTATED(view_kept) && weft_cuda_has_context(v->ours) &&
	    !weft_cuda_push(v->ours)) {
		if (v->mapped) {
			cuda->cuMemUnmap(v->at, v->len_bytes);
			cuda->cuMemAddressFree(v->at, v->len_bytes);
		} else {
			cuda->cuIpcCloseMemHandle(v->at);
		}
		weft_cuda_pop(v->ours);
	}
	free(v);
}

bool weft_cuda_close_waits(const void *view)
{
	return !((const struct view *)view)->mapped;
}

int weft_cuda_copy_view(void *view, uint64_t theirs, uint64_t ours, uint64_t len_bytes, bool write)
{
	const struct view *v = view;
	uint64_t into = theirs - v->start;
	int err;

	if (into > v->len_bytes || len_bytes > v->len_bytes - into || weft_cuda_push(v->ours))
		return -EFAULT;
	err = write ? weft_cuda_copy(v->ours, v->at + into, ours, len_bytes)
		    : weft_cuda_copy(v->ours, ours, v->at + into, len_bytes);
	weft_cuda_pop(v->ours);
	return err;
}
