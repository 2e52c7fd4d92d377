/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The part of CUDA's driver API that Weft calls, declared by ourselves: nothing of NVIDIA's is needed to
 * build. Names of calls and constants are CUDA's, with WEFT_ before a constant; tests/gpu/test_header.c
 * compares each with cuda.h on a machine that has it. Opaque handles are pointers to CUDA's own tags,
 * enums are unsigned int, as the ABI has them.
 */
#ifndef WEFT_CUDA_DRIVER_H
#define WEFT_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned int weft_cu_result;
typedef unsigned long long weft_cu_ptr;	   /* CUdeviceptr */
typedef unsigned long long weft_cu_memory; /* CUmemGenericAllocationHandle */
typedef int weft_cu_device;
typedef struct CUctx_st *weft_cu_context;
typedef struct CUstream_st *weft_cu_stream;
typedef struct CUevent_st *weft_cu_event;
typedef struct CUmod_st *weft_cu_module;
typedef struct CUfunc_st *weft_cu_function;
typedef struct CUmemPoolHandle_st *weft_cu_pool;
typedef void (*weft_cu_host_fn)(void *arg);

#define WEFT_CUDA_CONSTANTS(X)                                                                     \
	X(CUDA_SUCCESS, 0)                                                                         \
	X(CUDA_ERROR_INVALID_VALUE, 1)                                                             \
	X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                             \
	X(CUDA_ERROR_NOT_INITIALIZED, 3)                                                           \
	X(CUDA_ERROR_DEINITIALIZED, 4)                                                             \
	X(CUDA_ERROR_INVALID_DEVICE, 101)                                                          \
	X(CUDA_ERROR_INVALID_IMAGE, 200)                                                           \
	X(CUDA_ERROR_INVALID_CONTEXT, 201)                                                         \
	X(CUDA_ERROR_MAP_FAILED, 205)                                                              \
	X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217)                                                 \
	X(CUDA_ERROR_INVALID_HANDLE, 400)                                                          \
	X(CUDA_ERROR_NOT_FOUND, 500)                                                               \
	X(CUDA_ERROR_NOT_READY, 600)                                                               \
	X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                                         \
	X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704)                                             \
	X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705)                                                 \
	X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                                                    \
	X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)                                          \
	X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713)                                              \
	X(CUDA_ERROR_NOT_PERMITTED, 800)                                                           \
	X(CUDA_ERROR_NOT_SUPPORTED, 801)                                                           \
	X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                                                         \
	X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                     \
	X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3)                                                  \
	X(CU_POINTER_ATTRIBUTE_HOST_POINTER, 4)                                                    \
	X(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 6)                                                     \
	X(CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                                                       \
	X(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                                                      \
	X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                                  \
	X(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 10)                                     \
	X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                                               \
	X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                                                     \
	X(CU_POINTER_ATTRIBUTE_MAPPED, 13)                                                         \
	X(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, 14)                                           \
	X(CU_MEMORYTYPE_HOST, 1)                                                                   \
	X(CU_MEMORYTYPE_DEVICE, 2)                                                                 \
	X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                                              \
	X(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 124)                                              \
	X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)                            \
	X(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103)                    \
	X(CU_MEM_ALLOCATION_TYPE_PINNED, 1)                                                        \
	X(CU_MEM_LOCATION_TYPE_DEVICE, 1)                                                          \
	X(CU_MEM_HANDLE_TYPE_NONE, 0)                                                              \
	X(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)                                             \
	X(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1)                                                  \
	X(CU_MEM_ACCESS_FLAGS_PROT_READ, 1)                                                        \
	X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)                                                   \
	X(CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0)                                                     \
	X(CU_MEM_ATTACH_GLOBAL, 1)                                                                 \
	X(CU_MEMHOSTREGISTER_PORTABLE, 1)                                                          \
	X(CU_MEMHOSTREGISTER_DEVICEMAP, 2)                                                         \
	X(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)                                                   \
	X(CU_STREAM_DEFAULT, 0)                                                                    \
	X(CU_STREAM_NON_BLOCKING, 1)                                                               \
	X(CU_STREAM_WAIT_VALUE_GEQ, 0)                                                             \
	X(CU_STREAM_WAIT_VALUE_EQ, 1)                                                              \
	X(CU_STREAM_WRITE_VALUE_DEFAULT, 0)                                                        \
	X(CU_EVENT_DISABLE_TIMING, 2)

#define WEFT_CUDA_CONSTANT(name, value) WEFT_##name = (value),
enum weft_cuda_constant { WEFT_CUDA_CONSTANTS(WEFT_CUDA_CONSTANT) };
#undef WEFT_CUDA_CONSTANT

struct weft_cu_uuid {
	char bytes[16];
};

struct weft_cu_ipc_memory {
	char reserved[64];
};

struct weft_cu_location {
	unsigned int type;
	int id;
};

struct weft_cu_memory_prop {
	unsigned int type, requestedHandleTypes;
	struct weft_cu_location location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType, gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
};

struct weft_cu_access {
	struct weft_cu_location location;
	unsigned int flags;
};

/* A copy of `Height` rows of `WidthInBytes`, whose beginnings are the pitches apart. */
struct weft_cu_rows {
	size_t srcXInBytes, srcY;
	unsigned int srcMemoryType;
	const void *srcHost;
	weft_cu_ptr srcDevice;
	void *srcArray;
	size_t srcPitch, dstXInBytes, dstY;
	unsigned int dstMemoryType;
	void *dstHost;
	weft_cu_ptr dstDevice;
	void *dstArray;
	size_t dstPitch, WidthInBytes, Height;
};

/* X(the exported name, its arguments). Every call gives a weft_cu_result. */
#define WEFT_CUDA_CALLS(X)                                                                         \
	X(cuInit, (unsigned int flags))                                                            \
	X(cuDriverGetVersion, (int *version))                                                      \
	X(cuGetErrorName, (weft_cu_result error, const char **name))                               \
	X(cuDeviceGetCount, (int *count))                                                          \
	X(cuDeviceGet, (weft_cu_device * device, int ordinal))                                     \
	X(cuDeviceGetName, (char *name, int room, weft_cu_device device))                          \
	X(cuDeviceGetUuid_v2, (struct weft_cu_uuid * uuid, weft_cu_device device))                 \
	X(cuDeviceTotalMem_v2, (size_t * bytes, weft_cu_device device))                            \
	X(cuDeviceGetAttribute, (int *value, unsigned int attribute, weft_cu_device device))       \
	X(cuDeviceGetPCIBusId, (char *id, int room, weft_cu_device device))                        \
	X(cuDeviceCanAccessPeer, (int *can, weft_cu_device device, weft_cu_device peer))           \
	X(cuDeviceGetDefaultMemPool, (weft_cu_pool * pool, weft_cu_device device))                 \
	X(cuDevicePrimaryCtxRetain, (weft_cu_context * context, weft_cu_device device))            \
	X(cuDevicePrimaryCtxRelease_v2, (weft_cu_device device))                                   \
	X(cuDevicePrimaryCtxGetState, (weft_cu_device device, unsigned int *flags, int *active))   \
	X(cuCtxDestroy_v2, (weft_cu_context context))                                              \
	X(cuCtxPushCurrent_v2, (weft_cu_context context))                                          \
	X(cuCtxPopCurrent_v2, (weft_cu_context * context))                                         \
	X(cuCtxSetCurrent, (weft_cu_context context))                                              \
	X(cuCtxGetCurrent, (weft_cu_context * context))                                            \
	X(cuCtxGetDevice, (weft_cu_device * device))                                               \
	X(cuCtxSynchronize, (void))                                                                \
	X(cuCtxEnablePeerAccess, (weft_cu_context peer, unsigned int flags))                       \
	X(cuCtxDisablePeerAccess, (weft_cu_context peer))                                          \
	X(cuMemGetInfo_v2, (size_t * left, size_t * total))                                        \
	X(cuMemAlloc_v2, (weft_cu_ptr * at, size_t bytes))                                         \
	X(cuMemFree_v2, (weft_cu_ptr at))                                                          \
	X(cuMemGetAddressRange_v2, (weft_cu_ptr * start, size_t * bytes, weft_cu_ptr at))          \
	X(cuMemAllocManaged, (weft_cu_ptr * at, size_t bytes, unsigned int flags))                 \
	X(cuMemAllocAsync, (weft_cu_ptr * at, size_t bytes, weft_cu_stream stream))                \
	X(cuMemFreeAsync, (weft_cu_ptr at, weft_cu_stream stream))                                 \
	X(cuMemAllocHost_v2, (void **at, size_t bytes))                                            \
	X(cuMemHostAlloc, (void **at, size_t bytes, unsigned int flags))                           \
	X(cuMemFreeHost, (void *at))                                                               \
	X(cuMemHostRegister_v2, (void *at, size_t bytes, unsigned int flags))                      \
	X(cuMemHostUnregister, (void *at))                                                         \
	X(cuMemHostGetDevicePointer_v2, (weft_cu_ptr * device, void *at, unsigned int flags))      \
	X(cuMemGetAllocationGranularity,                                                           \
	  (size_t * bytes, const struct weft_cu_memory_prop *prop, unsigned int option))           \
	X(cuMemAddressReserve, (weft_cu_ptr * at, size_t bytes, size_t alignment,                  \
				weft_cu_ptr wanted, unsigned long long flags))                     \
	X(cuMemAddressFree, (weft_cu_ptr at, size_t bytes))                                        \
	X(cuMemCreate, (weft_cu_memory * memory, size_t bytes,                                     \
			const struct weft_cu_memory_prop *prop, unsigned long long flags))         \
	X(cuMemRelease, (weft_cu_memory memory))                                                   \
	X(cuMemMap, (weft_cu_ptr at, size_t bytes, size_t offset, weft_cu_memory memory,           \
		     unsigned long long flags))                                                    \
	X(cuMemUnmap, (weft_cu_ptr at, size_t bytes))                                              \
	X(cuMemSetAccess,                                                                          \
	  (weft_cu_ptr at, size_t bytes, const struct weft_cu_access *access, size_t count))       \
	X(cuMemRetainAllocationHandle, (weft_cu_memory * memory, void *at))                        \
	X(cuMemExportToShareableHandle,                                                            \
	  (void *handle, weft_cu_memory memory, unsigned int type, unsigned long long flags))      \
	X(cuMemImportFromShareableHandle,                                                          \
	  (weft_cu_memory * memory, void *handle, unsigned int type))                              \
	X(cuMemGetHandleForAddressRange, (void *handle, weft_cu_ptr at, size_t bytes,              \
					  unsigned int type, unsigned long long flags))            \
	X(cuIpcGetMemHandle, (struct weft_cu_ipc_memory * handle, weft_cu_ptr at))                 \
	X(cuIpcOpenMemHandle_v2,                                                                   \
	  (weft_cu_ptr * at, struct weft_cu_ipc_memory handle, unsigned int flags))                \
	X(cuIpcCloseMemHandle, (weft_cu_ptr at))                                                   \
	X(cuPointerGetAttribute, (void *data, unsigned int attribute, weft_cu_ptr at))             \
	X(cuPointerGetAttributes,                                                                  \
	  (unsigned int count, unsigned int *attributes, void **data, weft_cu_ptr at))             \
	X(cuPointerSetAttribute, (const void *value, unsigned int attribute, weft_cu_ptr at))      \
	X(cuMemcpy, (weft_cu_ptr to, weft_cu_ptr from, size_t bytes))                              \
	X(cuMemcpyAsync, (weft_cu_ptr to, weft_cu_ptr from, size_t bytes, weft_cu_stream stream))  \
	X(cuMemcpy2DAsync_v2, (const struct weft_cu_rows *rows, weft_cu_stream stream))            \
	X(cuMemcpyHtoD_v2, (weft_cu_ptr to, const void *from, size_t bytes))                       \
	X(cuMemcpyDtoH_v2, (void *to, weft_cu_ptr from, size_t bytes))                             \
	X(cuMemcpyDtoD_v2, (weft_cu_ptr to, weft_cu_ptr from, size_t bytes))                       \
	X(cuMemcpyHtoDAsync_v2,                                                                    \
	  (weft_cu_ptr to, const void *from, size_t bytes, weft_cu_stream stream))                 \
	X(cuMemcpyDtoHAsync_v2, (void *to, weft_cu_ptr from, size_t bytes, weft_cu_stream stream)) \
	X(cuMemcpyDtoDAsync_v2,                                                                    \
	  (weft_cu_ptr to, weft_cu_ptr from, size_t bytes, weft_cu_stream stream))                 \
	X(cuMemcpyPeer, (weft_cu_ptr to, weft_cu_context to_context, weft_cu_ptr from,             \
			 weft_cu_context from_context, size_t bytes))                              \
	X(cuMemcpyPeerAsync, (weft_cu_ptr to, weft_cu_context to_context, weft_cu_ptr from,        \
			      weft_cu_context from_context, size_t bytes, weft_cu_stream stream))  \
	X(cuMemsetD8_v2, (weft_cu_ptr at, unsigned char value, size_t count))                      \
	X(cuMemsetD8Async,                                                                         \
	  (weft_cu_ptr at, unsigned char value, size_t count, weft_cu_stream stream))              \
	X(cuStreamCreate, (weft_cu_stream * stream, unsigned int flags))                           \
	X(cuStreamCreateWithPriority, (weft_cu_stream * stream, unsigned int flags, int priority)) \
	X(cuStreamDestroy_v2, (weft_cu_stream stream))                                             \
	X(cuStreamSynchronize, (weft_cu_stream stream))                                            \
	X(cuStreamQuery, (weft_cu_stream stream))                                                  \
	X(cuStreamGetCtx, (weft_cu_stream stream, weft_cu_context * context))                      \
	X(cuStreamWaitEvent, (weft_cu_stream stream, weft_cu_event event, unsigned int flags))     \
	X(cuStreamWriteValue32_v2,                                                                 \
	  (weft_cu_stream stream, weft_cu_ptr at, uint32_t value, unsigned int flags))             \
	X(cuStreamWriteValue64_v2,                                                                 \
	  (weft_cu_stream stream, weft_cu_ptr at, uint64_t value, unsigned int flags))             \
	X(cuStreamWaitValue32_v2,                                                                  \
	  (weft_cu_stream stream, weft_cu_ptr at, uint32_t value, unsigned int flags))             \
	X(cuLaunchHostFunc, (weft_cu_stream stream, weft_cu_host_fn fn, void *arg))                \
	X(cuEventCreate, (weft_cu_event * event, unsigned int flags))                              \
	X(cuEventRecord, (weft_cu_event event, weft_cu_stream stream))                             \
	X(cuEventQuery, (weft_cu_event event))                                                     \
	X(cuEventSynchronize, (weft_cu_event event))                                               \
	X(cuEventDestroy_v2, (weft_cu_event event))                                                \
	X(cuModuleLoadData, (weft_cu_module * module, const void *image))                          \
	X(cuModuleUnload, (weft_cu_module module))                                                 \
	X(cuModuleGetFunction,                                                                     \
	  (weft_cu_function * function, weft_cu_module module, const char *name))                  \
	X(cuLaunchKernel,                                                                          \
	  (weft_cu_function function, unsigned int grid_x, unsigned int grid_y,                    \
	   unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,  \
	   unsigned int shared_bytes, weft_cu_stream stream, void **params, void **extra))

/* Every libcuda has this one, but headers of today do not. */
#define WEFT_CUDA_OLD_CALLS(X)                                                                     \
	X(cuCtxCreate_v2, (weft_cu_context * context, unsigned int flags, weft_cu_device device))

/* A libcuda, as its calls. */
struct weft_cuda {
#define WEFT_CUDA_MEMBER(name, args) weft_cu_result(*name) args;
	WEFT_CUDA_CALLS(WEFT_CUDA_MEMBER) WEFT_CUDA_OLD_CALLS(WEFT_CUDA_MEMBER)
#undef WEFT_CUDA_MEMBER
};

#endif
