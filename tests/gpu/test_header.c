/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Our declarations of the driver API are those of cuda.h: where they differ this does not compile.
 */
#if __has_include(<cuda.h>)
#include <cuda.h>

#include "cuda/driver.h"

#define SAME_CONSTANT(name, value)                                                                 \
	_Static_assert((unsigned int)WEFT_##name == (unsigned int)name, #name);
WEFT_CUDA_CONSTANTS(SAME_CONSTANT)

#define SAME_STRUCT(ours, theirs)                                                                  \
	_Static_assert(sizeof(struct ours) == sizeof(theirs) &&                                    \
			       _Alignof(struct ours) == _Alignof(theirs),                          \
		       #theirs);
#define SAME_MEMBER(ours, theirs, member)                                                          \
	_Static_assert(offsetof(struct ours, member) == offsetof(theirs, member) &&                \
			       sizeof(((struct ours *)0)->member) ==                               \
				       sizeof(((theirs *)0)->member),                              \
		       #theirs "." #member);
SAME_STRUCT(weft_cu_uuid, CUuuid)
SAME_STRUCT(weft_cu_ipc_memory, CUipcMemHandle)
SAME_STRUCT(weft_cu_location, CUmemLocation)
SAME_MEMBER(weft_cu_location, CUmemLocation, type)
SAME_MEMBER(weft_cu_location, CUmemLocation, id)
SAME_STRUCT(weft_cu_memory_prop, CUmemAllocationProp)
SAME_MEMBER(weft_cu_memory_prop, CUmemAllocationProp, type)
SAME_MEMBER(weft_cu_memory_prop, CUmemAllocationProp, requestedHandleTypes)
SAME_MEMBER(weft_cu_memory_prop, CUmemAllocationProp, location)
SAME_MEMBER(weft_cu_memory_prop, CUmemAllocationProp, win32HandleMetaData)
SAME_MEMBER(weft_cu_memory_prop, CUmemAllocationProp, allocFlags.compressionType)
SAME_MEMBER(weft_cu_memory_prop, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)
SAME_MEMBER(weft_cu_memory_prop, CUmemAllocationProp, allocFlags.usage)
SAME_STRUCT(weft_cu_access, CUmemAccessDesc)
SAME_MEMBER(weft_cu_access, CUmemAccessDesc, location)
SAME_MEMBER(weft_cu_access, CUmemAccessDesc, flags)
SAME_STRUCT(weft_cu_rows, CUDA_MEMCPY2D)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, srcXInBytes)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, srcY)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, srcMemoryType)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, srcHost)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, srcDevice)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, srcPitch)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, dstXInBytes)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, dstY)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, dstMemoryType)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, dstHost)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, dstDevice)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, dstPitch)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, WidthInBytes)
SAME_MEMBER(weft_cu_rows, CUDA_MEMCPY2D, Height)

/* The structs are the same: from here on they go by CUDA's tags. */
#define weft_cu_uuid	    CUuuid_st
#define weft_cu_ipc_memory  CUipcMemHandle_st
#define weft_cu_memory_prop CUmemAllocationProp_st
#define weft_cu_access	    CUmemAccessDesc_st
#define weft_cu_rows	    CUDA_MEMCPY2D_st
#define SAME_CALL(name, args)                                                                      \
	_Static_assert(__builtin_types_compatible_p(__typeof__(name), CUresult args), #name);
WEFT_CUDA_CALLS(SAME_CALL)
#define HAVE_CUDA_H 1
#else
#define HAVE_CUDA_H 0
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Compiling was the test. */
static void same_as_cuda_h(void **state)
{
	if (!HAVE_CUDA_H) {
		print_message("[  SKIP    ] no cuda.h: CUDA's compiler is not installed here\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_cuda_h)};

	return cmocka_run_group_tests_name("header", tests, NULL, NULL);
}
