/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Buffers that the device allocates (rdma-core 65): whole pages, which move when they are registered. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "verbs/explain.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

struct ibv_buf {
	void *at;
	size_t bytes;
};

#pragma GCC visibility push(default)
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);
#pragma GCC visibility pop

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	struct ibv_buf *b;

	if (weft_explain_no_domain("ibv_alloc_buf", pd)) {
		errno = EINVAL;
		return NULL;
	}
	if (!size || !buf) {
		errno = weft_broken("ibv_alloc_buf", MISSING, weft_value("size or buf"), size);
		return NULL;
	}
	b = malloc(sizeof(*b));
	if (!b)
		goto fail;
	b->bytes = size;
	b->at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->at == MAP_FAILED)
		goto free_object;
	if (weft_handle_add(b, WEFT_HANDLE_BUF))
		goto unmap;
	*buf = b;
	return b->at;
unmap:
	munmap(b->at, size);
free_object:
	free(b);
fail:
	errno = weft_explain_errno("ibv_alloc_buf", ENOMEM);
	return NULL;
}

void ibv_free_buf(struct ibv_buf *buf)
{
	if (!weft_handle_is(buf, WEFT_HANDLE_BUF))
		return;
	weft_handle_remove(buf);
	munmap(buf->at, buf->bytes);
	free(buf);
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access)
{
	uintptr_t start = (uintptr_t)addr;

	if (weft_explain_stale("ibv_reg_buf_mr", buf, WEFT_HANDLE_BUF)) {
		errno = EINVAL;
		return NULL;
	}
	if (start < (uintptr_t)buf->at || start - (uintptr_t)buf->at > buf->bytes ||
	    length > buf->bytes - (start - (uintptr_t)buf->at)) {
		errno = weft_broken("ibv_reg_buf_mr", BUFFER_RANGE, start, length, (uintptr_t)buf->at,
				    buf->bytes);
		return NULL;
	}
	return ibv_reg_mr_iova2(pd, addr, length, start, (unsigned int)access);
}
