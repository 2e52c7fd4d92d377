/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Regions of what a descriptor names: a dma-buf of host memory, or a memfd, which stay in place; or of memory of a
 * GPU of this process. A descriptor of that does not say whose memory it is, and maps nowhere: iova has to be its address,
 * as all known programs have it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nic/qp.h"
#include "process/device.h"
#include "process/process.h"
#include "verbs/explain.h"
#include "verbs/inline.h"
#include "verbs/mr.h"
#include "verbs/verbs.h"
#include "pool/sizes.h"

#define VERB "ibv_reg_dmabuf_mr"

/* Linux's ENOTSUPP, which its headers for programs do not have: what NVIDIA's exporter answers to mmap. */
#define WITHOUT_MMAP 524

struct mapping {
	void *at;
	size_t bytes;
};

static void leave_dmabuf(struct weft_verbs_mr *mr, bool quiet)
{
	struct mapping *m = mr->of;

	/* an executor that stands still reaches what is in place by the kernel, which knows what is mapped */
	munmap(m->at, m->bytes);
	free(m);
}

static int check_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			unsigned int access)
{
	off_t end;

	if (weft_explain_no_domain(VERB, pd) || !weft_verbs_good_access(VERB, access))
		return EINVAL;
	/* So programs ask whether memory of devices can be registered at all: NCCL takes every errno but
	 * EOPNOTSUPP and EPROTONOSUPPORT for a yes. */
	if (fd == -1)
		return weft_device_any() ? weft_broken(VERB, DMABUF_FD, (unsigned int)fd)
					 : weft_broken(VERB, DMABUF_NONE, (unsigned int)fd);
	if (!length || offset + length < offset)
		return weft_broken(VERB, MEMORY_RANGE, weft_value("offset"), offset, length);
	if (iova + length < iova)
		return weft_broken(VERB, MEMORY_RANGE, weft_value("iova"), iova, length);
	/* as the kernel has it: both lie alike in their pages */
	if ((iova ^ offset) & (WEFT_PAGE - 1))
		return weft_broken(VERB, MEMORY_PAGES, offset, iova);
	end = lseek(fd, 0, SEEK_END);
	if (end < 0)
		return weft_explain_errno(VERB, errno);
	if (offset + length > (uint64_t)end)
		return weft_broken(VERB, DMABUF_RANGE, offset, length, (uint64_t)end);
	return 0;
}

/* Whether mmap has refused because nobody maps it. Of what check_dmabuf() lets pass an exporter refuses with EINVAL or ENODEV only
 * if it has no mapping at all; nor has a descriptor for writing only. */
static bool maps_never(int fd, int err)
{
	return err == WITHOUT_MMAP || err == ENODEV || err == EINVAL ||
	       (err == EACCES && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY);
}

static int explain_mmap(int fd, int err)
{
	if (maps_never(fd, err))
		return weft_broken(VERB, DMABUF_KIND, (unsigned int)fd, (unsigned int)err);
	return weft_explain_errno(VERB, err);
}

/* ---- Memory of a GPU ---- */

static void leave_device(struct weft_verbs_mr *mr, bool quiet)
{
	weft_device_end(weft_process.pool, mr->of, quiet);
}

/* Whether it is a dma-buf of another's than NVIDIA's driver. */
static bool is_of_others(int fd)
{
	char line[256], path[64];
	bool others = false;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = fopen(path, "re");
	while (info && fgets(line, sizeof(line), info))
		if (!strncmp(line, "exp_name:", 9))
			others = !strstr(line, "nv_dmabuf");
	if (info)
		fclose(info);
	return others;
}

/* mmap has refused with `refusal`. NULL and errno. */
static struct ibv_mr *register_device(struct ibv_pd *pd, struct weft_mr_source *source,
				      uint64_t iova, int fd, int refusal)
{
	struct weft_device *device = NULL;
	struct weft_mr_piece piece;
	struct ibv_mr *mr;
	int err;

	/* a file that may only be read is none of a GPU's, whatever iova says */
	if (!maps_never(fd, refusal) || is_of_others(fd)) {
		errno = explain_mmap(fd, refusal);
		return NULL;
	}
	err = weft_device_begin(weft_process.pool, iova, source->len_bytes, &device);
	if (err) {
		errno = err == -EFAULT	 ? weft_broken(VERB, DMABUF_IOVA, iova, source->len_bytes,
						       (unsigned int)fd)
			: err == -ENOMEM ? weft_explain_errno(VERB, ENOMEM)
					 : explain_mmap(fd, refusal);
		return NULL;
	}
	weft_verbs_look_before_inline();
	piece = (struct weft_mr_piece){iova, source->len_bytes, weft_device_off(device)};
	source->va = iova;
	source->pieces = &piece;
	source->npieces = 1;
	source->leave = leave_device;
	source->of = device;
	mr = weft_verbs_special_mr(pd, source);
	if (!mr)
		weft_device_end(weft_process.pool, device, true);
	return mr;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	int prot = PROT_READ | (access & IBV_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0);
	uint64_t into = offset & (WEFT_PAGE - 1);
	struct weft_mr_source source = {.verb = VERB,
					.told = (void *)(uintptr_t)offset,
					.iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova,
					.len_bytes = length,
					.access = (unsigned int)access,
					.leave = leave_dmabuf};
	struct mapping *m;
	struct ibv_mr *mr;
	int err = check_dmabuf(pd, offset, length, iova, fd, (unsigned int)access);

	if (err) {
		errno = err;
		return NULL;
	}
	m = malloc(sizeof(*m));
	if (!m) {
		errno = weft_explain_errno(VERB, ENOMEM);
		return NULL;
	}
	m->bytes = into + length;
	m->at = mmap(NULL, m->bytes, prot, MAP_SHARED, fd, (off_t)(offset - into));
	if (m->at == MAP_FAILED) {
		mr = register_device(pd, &source, iova, fd, errno);
		free(m);
		return mr;
	}
	source.va = (uintptr_t)m->at + into;
	source.of = m;
	mr = weft_verbs_special_mr(pd, &source);
	if (mr)
		return mr;
	munmap(m->at, m->bytes);
	free(m);
	return NULL;
}
