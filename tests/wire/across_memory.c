/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "across_memory.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../gpu/gpu.h"

/* What the process that has registered memory tells of it, beside the device's descriptor. */
struct exported_name {
	uint32_t pd, mr;
};

static struct exported_name exported;
static struct ibv_dm *dm;

static void require(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

bool across_memory_is(const struct across_memory *m, const char *kind)
{
	return !strcmp(m->kind, kind);
}

static struct ibv_context *open_device(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && *devices ? ibv_open_device(*devices) : NULL;

	require(context, "a device");
	ibv_free_device_list(devices);
	return context;
}

/* ---- Pages ---- */

static void share_pages(uint8_t *at, uint64_t bytes)
{
	int fd = memfd_create("across", MFD_CLOEXEC);

	require(fd >= 0 && !ftruncate(fd, (off_t)bytes), "a file");
	require(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
			MAP_FAILED,
		"a mapping");
	close(fd);
}

static void map_pages(struct across_memory *m)
{
	uint64_t half = (m->bytes / 2 + 4095) / 4096 * 4096;

	m->at = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(m->at != MAP_FAILED, "memory");
	if (across_memory_is(m, "shared") || across_memory_is(m, "imported"))
		share_pages(m->at, 2 * half);
	else if (across_memory_is(m, "half"))
		share_pages(m->at + half, half);
	m->va = (uintptr_t)m->at;
}

/* ---- Another process's ---- */

static struct msghdr message_of(struct iovec *iov, void *control, size_t room)
{
	return (struct msghdr){
		.msg_iov = iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room};
}

/* Both processes see the pages; the region is this one's, which arms a queue, so that it has a helper (decision 16). */
static void export(const struct across_memory *m, int sock)
{
	struct ibv_context *context = open_device();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = channel ? ibv_create_cq(context, 1, NULL, channel, 0) : NULL;
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr =
		pd ? ibv_reg_mr(pd, m->at, m->bytes,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
		   : NULL;
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&exported, sizeof(exported)};
	struct msghdr message = message_of(&iov, control, sizeof(control));
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	require(mr && cq && !ibv_req_notify_cq(cq, 0), "memory to export");
	exported = (struct exported_name){pd->handle, mr->handle};
	*header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(header), &context->cmd_fd, sizeof(int));
	require(sendmsg(sock, &message, 0) == sizeof(exported), "telling of it");
	pause();
}

static void import(struct across_memory *m)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&exported, sizeof(exported)};
	struct msghdr message = message_of(&iov, control, sizeof(control));
	int sock[2], fd;

	require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), "a socket");
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		export(m, sock[1]);
	}
	close(sock[1]);
	require(recvmsg(sock[0], &message, 0) == sizeof(exported) && CMSG_FIRSTHDR(&message),
		"what the other process tells");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	m->context = ibv_import_device(fd);
	m->pd = m->context ? ibv_import_pd(m->context, exported.pd) : NULL;
	require(m->pd, "the other process's domain");
}

/* ---- Of a device ---- */

static void make_dm(struct across_memory *m)
{
	struct ibv_alloc_dm_attr attr = {.length = m->bytes};

	m->at = calloc(1, m->bytes);
	dm = ibv_alloc_dm(m->context, &attr);
	require(m->at && dm, "device memory");
}

static void make_gpu(struct across_memory *m)
{
	m->at = calloc(1, m->bytes);
	require(m->at && gpu_load(), "a libcuda");
	gpu_context();
	m->va = gpu_alloc(m->bytes);
	GPU_OK(cu.cuMemcpy(m->va, (uintptr_t)m->at, m->bytes));
}

static void copy_gpu(weft_cu_ptr to, weft_cu_ptr from, uint64_t bytes)
{
	GPU_OK(cu.cuMemcpy(to, from, bytes));
	GPU_OK(cu.cuCtxSynchronize());
}

void across_memory_pull(const struct across_memory *m)
{
	if (across_memory_is(m, "dm"))
		require(!ibv_memcpy_from_dm(m->at, dm, 0, m->bytes), "from device memory");
	else if (across_memory_is(m, "gpu"))
		copy_gpu((uintptr_t)m->at, m->va, m->bytes);
}

void across_memory_push(const struct across_memory *m)
{
	if (across_memory_is(m, "dm"))
		require(!ibv_memcpy_to_dm(dm, 0, m->at, m->bytes), "to device memory");
	else if (across_memory_is(m, "gpu"))
		copy_gpu(m->va, (uintptr_t)m->at, m->bytes);
}

/* ---- All ---- */

void across_memory_make(struct across_memory *m, const char *kind, uint64_t bytes)
{
	*m = (struct across_memory){.kind = kind, .bytes = bytes};
	if (across_memory_is(m, "gpu"))
		make_gpu(m);
	else if (!across_memory_is(m, "dm"))
		map_pages(m);
	if (across_memory_is(m, "imported")) {
		import(m);
		return;
	}
	m->context = open_device();
	m->pd = ibv_alloc_pd(m->context);
	require(m->pd, "a domain");
	if (across_memory_is(m, "dm"))
		make_dm(m);
}

void across_memory_register(struct across_memory *m, int access)
{
	if (across_memory_is(m, "imported"))
		m->mr = ibv_import_mr(m->pd, exported.mr);
	else if (across_memory_is(m, "dm"))
		m->mr = ibv_reg_dm_mr(m->pd, dm, 0, m->bytes,
				      (unsigned int)access | IBV_ACCESS_ZERO_BASED);
	else
		m->mr = ibv_reg_mr(
			m->pd, (void *)(uintptr_t)m->va, m->bytes,
			access | (across_memory_is(m, "demand") ? IBV_ACCESS_ON_DEMAND : 0));
	require(m->mr, "a region");
}

void across_memory_deregister(struct across_memory *m)
{
	if (across_memory_is(m, "imported"))
		ibv_unimport_mr(m->mr);
	else
		require(!ibv_dereg_mr(m->mr), "to deregister");
}
