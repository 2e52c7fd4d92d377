/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Buffers that the device allocates (rdma-core 65): whole pages, which migrate when they are registered. And the
 * one verb for all kinds of regions that knows them, too.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "nic/qp.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/verbs.h"

struct ibv_buf {
	struct ibv_pd *pd; /* which stays until the buffer is freed (ibv_alloc_buf(3)) */
	void *at;
	size_t bytes;
};

/* As rdma-core 65 has them; the headers that we are built with may not. */
enum {
	MASK_IOVA = 1 << 0,
	MASK_ADDR = 1 << 1,
	MASK_FD = 1 << 2,
	MASK_FD_OFFSET = 1 << 3,
	MASK_BUF = 1 << 5,
	MASKS = MASK_IOVA | MASK_ADDR | MASK_FD | MASK_FD_OFFSET | MASK_BUF,
};

/* Fields are there as far as the mask says. */
struct mr_init_attr {
	size_t length;
	int access;
	uint64_t mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah; /* hints to a network card's cache: none can be allocated here */
	struct ibv_buf *buf;
};

#pragma GCC visibility push(default)
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct mr_init_attr *attr);
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
	b->pd = pd;
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

/* An errno. */
static int check_buffer(const char *verb, struct ibv_pd *pd, struct ibv_buf *buf, const void *addr,
			size_t length)
{
	uintptr_t start = (uintptr_t)addr;

	if (weft_explain_stale(verb, buf, WEFT_HANDLE_BUF))
		return EINVAL;
	if (pd != buf->pd)
		return weft_broken(verb, BUFFER_DOMAIN, weft_value(pd), weft_value(buf->pd));
	if (start < (uintptr_t)buf->at || start - (uintptr_t)buf->at > buf->bytes ||
	    length > buf->bytes - (start - (uintptr_t)buf->at))
		return weft_broken(verb, BUFFER_RANGE, start, length, (uintptr_t)buf->at,
				   buf->bytes);
	return 0;
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access)
{
	int err = check_buffer("ibv_reg_buf_mr", pd, buf, addr, length);

	if (err) {
		errno = err;
		return NULL;
	}
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	const char *verb = "ibv_export_buf_dmabuf_fd";

	errno = weft_explain_stale(verb, buf, WEFT_HANDLE_BUF)
			? EINVAL
			: weft_broken(verb, BUFFER_PLAIN, weft_value(buf->at));
	return -1;
}

/* ---- ibv_reg_mr_ex ---- */

/* An errno. */
static int check_fields(struct ibv_pd *pd, const struct mr_init_attr *attr)
{
	const char *verb = "ibv_reg_mr_ex";
	bool fd;

	if (!attr)
		return weft_broken(verb, MISSING, weft_value("mr_init_attr"));
	if (attr->mask & ~(uint64_t)MASKS)
		return weft_broken(verb, NOT_OFFERED, weft_value("comp_mask"), attr->mask);
	fd = attr->mask & MASK_FD;
	if (fd == !!(attr->mask & MASK_ADDR) || (!fd && attr->mask & MASK_FD_OFFSET))
		return weft_broken(verb, REGION_FIELDS, attr->mask);
	if (!(attr->mask & MASK_BUF))
		return 0;
	if (fd)
		return weft_broken(verb, REGION_FIELDS, attr->mask);
	return check_buffer(verb, pd, attr->buf, attr->addr, attr->length);
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct mr_init_attr *attr)
{
	int err = check_fields(pd, attr);
	uint64_t iova;

	if (err) {
		errno = err;
		return NULL;
	}
	if (attr->mask & MASK_IOVA)
		iova = attr->iova;
	else
		iova = attr->mask & MASK_ADDR ? (uintptr_t)attr->addr : 0;
	if (attr->mask & MASK_FD)
		return ibv_reg_dmabuf_mr(pd, attr->mask & MASK_FD_OFFSET ? attr->fd_offset : 0,
					 attr->length, iova, attr->fd, attr->access);
	return ibv_reg_mr_iova2(pd, attr->addr, attr->length, iova, (unsigned int)attr->access);
}
