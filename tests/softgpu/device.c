/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Beginning and end of the library, its devices, and its chance. */
#include "soft.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t soft_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t soft_changed;

static struct {
	_Atomic int state; /* the answer of soft_gate */
	uint64_t seed;
	struct CUmemPoolHandle_st *pools[SOFT_DEVICES];
} self = {.state = WEFT_CUDA_ERROR_NOT_INITIALIZED};

weft_cu_result soft_gate(void)
{
	if (self.state)
		return (weft_cu_result)self.state;
	pthread_mutex_lock(&soft_lock);
	return WEFT_CUDA_SUCCESS;
}

void soft_leave(int *locked)
{
	pthread_mutex_unlock(&soft_lock);
}

/* splitmix64 */
static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

uint64_t soft_chance_of(uint64_t stream, uint64_t nth)
{
	return mix(mix(self.seed + 0x9e3779b97f4a7c15 * (stream + 1)) + nth);
}

uint64_t soft_chance(uint64_t *state, uint64_t bound)
{
	return mix(*state += 0x9e3779b97f4a7c15) % bound;
}

uint64_t soft_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void soft_die(const char *format, ...)
{
	va_list args;

	fputs("soft GPU: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	abort();
}

/* In a fork's child no thread does what the parent's held or waited for; cuInit does not help, either. */
static void in_child(void)
{
	self.state = WEFT_CUDA_ERROR_NOT_INITIALIZED;
}

static void at_end(void)
{
	if (self.state != WEFT_CUDA_SUCCESS)
		return;
	pthread_mutex_lock(&soft_lock);
	self.state = WEFT_CUDA_ERROR_DEINITIALIZED;
	soft_leak_list();
	pthread_mutex_unlock(&soft_lock);
}

static void begin(void)
{
	const char *wanted = getenv("WEFT_SOFT_GPU_SEED");
	pthread_condattr_t clock;
	uint64_t seed = 0;

	if (wanted)
		seed = strtoull(wanted, NULL, 0);
	else if (getrandom(&seed, 4, 0) != 4)
		seed = (uint64_t)getpid();
	fprintf(stderr, "soft GPU: WEFT_SOFT_GPU_SEED=%llu\n", (unsigned long long)seed);
	self.seed = seed;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&soft_changed, &clock);
	pthread_atfork(NULL, NULL, in_child);
	atexit(at_end);
	self.state = WEFT_CUDA_SUCCESS;
}

weft_cu_result cuInit(unsigned int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (flags)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	pthread_once(&once, begin);
	return (weft_cu_result)self.state;
}

weft_cu_result cuDriverGetVersion(int *version)
{
	*version = 13000;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuGetErrorName(weft_cu_result error, const char **name)
{
#define NAME(constant, value)                                                                      \
	if (!strncmp(#constant, "CUDA_", 5) && (value) == error) {                                 \
		*name = #constant;                                                                 \
		return WEFT_CUDA_SUCCESS;                                                          \
	}
	WEFT_CUDA_CONSTANTS(NAME)
#undef NAME
	*name = NULL;
	return WEFT_CUDA_ERROR_INVALID_VALUE;
}

static bool is_device(weft_cu_device device)
{
	return device >= 0 && device < SOFT_DEVICES;
}

weft_cu_result cuDeviceGetCount(int *count)
{
	SOFT_BEGIN();
	*count = SOFT_DEVICES;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuDeviceGet(weft_cu_device *device, int ordinal)
{
	SOFT_BEGIN();
	if (!is_device(ordinal))
		return WEFT_CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuDeviceGetName(char *name, int room, weft_cu_device device)
{
	SOFT_BEGIN();
	if (!is_device(device))
		return WEFT_CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)room, "Soft GPU %d", device);
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuDeviceGetUuid_v2(struct weft_cu_uuid *uuid, weft_cu_device device)
{
	SOFT_BEGIN();
	if (!is_device(device))
		return WEFT_CUDA_ERROR_INVALID_DEVICE;
	memcpy(uuid->bytes, "soft GPU of Weft", 16);
	uuid->bytes[15] = (char)device;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuDeviceTotalMem_v2(size_t *bytes, weft_cu_device device)
{
	SOFT_BEGIN();
	if (!is_device(device))
		return WEFT_CUDA_ERROR_INVALID_DEVICE;
	*bytes = SOFT_DEVICE_BYTES;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuDeviceGetAttribute(int *value, unsigned int attribute, weft_cu_device device)
{
	SOFT_BEGIN();
	if (!is_device(device))
		return WEFT_CUDA_ERROR_INVALID_DEVICE;
	switch (attribute) {
	case WEFT_CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
	case WEFT_CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
	case WEFT_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
	case WEFT_CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
		*value = 1;
		return WEFT_CUDA_SUCCESS;
	}
	/* an error rather than an answer that hardware may not give */
	return WEFT_CUDA_ERROR_INVALID_VALUE;
}

weft_cu_result cuDeviceGetPCIBusId(char *id, int room, weft_cu_device device)
{
	SOFT_BEGIN();
	if (!is_device(device))
		return WEFT_CUDA_ERROR_INVALID_DEVICE;
	snprintf(id, (size_t)room, "0000:%02X:00.0", 0xa0 + device);
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuDeviceCanAccessPeer(int *can, weft_cu_device device, weft_cu_device peer)
{
	SOFT_BEGIN();
	if (!is_device(device) || !is_device(peer))
		return WEFT_CUDA_ERROR_INVALID_DEVICE;
	*can = device != peer;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuDeviceGetDefaultMemPool(weft_cu_pool *pool, weft_cu_device device)
{
	SOFT_BEGIN();
	if (!is_device(device))
		return WEFT_CUDA_ERROR_INVALID_DEVICE;
	*pool = (weft_cu_pool)&self.pools[device];
	return WEFT_CUDA_SUCCESS;
}
