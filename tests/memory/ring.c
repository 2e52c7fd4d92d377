/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "ring.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* These are younger than the headers of Debian 12. */
#define SETUP_NO_MMAP	      (1u << 14)
#define SETUP_REGISTERED_ONLY (1u << 15)
#define USE_REGISTERED	      (1u << 31) /* in the operation of io_uring_register */
#define ENTER_REGISTERED      (1u << 4)

#define ENTRIES		      4u
#define RINGS_BYTES	      8192ul

static int enter(struct ring *ring, unsigned int submit, unsigned int wait, unsigned int flags)
{
	return (int)syscall(SYS_io_uring_enter, ring->fd, submit, wait, flags | ring->flags, NULL,
			    0);
}

static int give(struct ring *ring, unsigned int what, const void *arg, unsigned int count)
{
	unsigned int by_number = ring->flags & ENTER_REGISTERED ? USE_REGISTERED : 0;

	return (int)syscall(SYS_io_uring_register, ring->fd, what | by_number, arg, count);
}

static bool map_rings(struct ring *ring)
{
	if (ring->own) {
		ring->rings = ring->own;
		ring->sqes = (void *)(ring->own + RINGS_BYTES);
		return true;
	}
	ring->rings = mmap(NULL, RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			   IORING_OFF_SQ_RING);
	ring->sqes = mmap(NULL, RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			  IORING_OFF_SQES);
	return ring->rings != MAP_FAILED && (void *)ring->sqes != MAP_FAILED;
}

static bool close_descriptor(struct ring *ring)
{
	struct io_uring_rsrc_update number = {.offset = UINT32_MAX, .data = (uint64_t)ring->fd};

	if (give(ring, IORING_REGISTER_RING_FDS, &number, 1) != 1)
		return false;
	close(ring->fd);
	ring->fd = (int)number.offset;
	ring->flags = ENTER_REGISTERED;
	return true;
}

/* Where the program's memory for a ring stands: the last field of either table of offsets, which is called resv2 in Linux's headers
 * before 6.5, and user_addr since. */
static void set_place(void *offsets, const void *place)
{
	uint64_t at = (uintptr_t)place;

	memcpy((uint8_t *)offsets + sizeof(struct io_cqring_offsets) - sizeof(at), &at, sizeof(at));
}

bool ring_open(struct ring *ring, enum ring_held held, void *buffer, unsigned int len_bytes)
{
	struct iovec vector = {buffer, len_bytes};

	*ring = (struct ring){0};
	if (held == BY_NOTHING) {
		/* the kernel wants the rings to be pages of one folio */
		ring->own = aligned_alloc(RINGS_BYTES, 2 * RINGS_BYTES);
		memset(ring->own, 0, 2 * RINGS_BYTES);
		ring->params.flags = SETUP_NO_MMAP | SETUP_REGISTERED_ONLY;
		set_place(&ring->params.cq_off, ring->own);
		set_place(&ring->params.sq_off, ring->own + RINGS_BYTES);
		ring->flags = ENTER_REGISTERED;
	}
	ring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &ring->params);
	if (ring->fd < 0 || !map_rings(ring) ||
	    (len_bytes && give(ring, IORING_REGISTER_BUFFERS, &vector, 1)))
		return false;
	return held != BY_NUMBER || close_descriptor(ring);
}

void ring_let_go(struct ring *ring)
{
	close(ring->fd);
	ring->fd = -1;
}

void ring_submit(struct ring *ring, unsigned int opcode, int fd, void *buffer,
		 unsigned int len_bytes)
{
	const struct io_sqring_offsets *at = &ring->params.sq_off;
	_Atomic uint32_t *tail = (void *)(ring->rings + at->tail);
	uint32_t index = *tail & (*(uint32_t *)(ring->rings + at->ring_mask));

	ring->sqes[index] = (struct io_uring_sqe){.opcode = (uint8_t)opcode,
						  .fd = fd,
						  .off = UINT64_MAX,
						  .addr = (uintptr_t)buffer,
						  .len = len_bytes};
	((uint32_t *)(ring->rings + at->array))[index] = index;
	/* release: pairs with the kernel's acquire */
	atomic_fetch_add_explicit(tail, 1, memory_order_release);
	enter(ring, 1, 0, 0);
}

int ring_wait(struct ring *ring)
{
	const struct io_cqring_offsets *at = &ring->params.cq_off;
	_Atomic uint32_t *head = (void *)(ring->rings + at->head);
	_Atomic uint32_t *tail = (void *)(ring->rings + at->tail);
	struct io_uring_cqe *cqes = (void *)(ring->rings + at->cqes);
	int result;

	/* acquire: pairs with the kernel's release */
	while (atomic_load_explicit(tail, memory_order_acquire) == *head) {
		if (ring->fd < 0)
			usleep(1000);
		else
			enter(ring, 0, 1, IORING_ENTER_GETEVENTS);
	}
	result = cqes[*head & *(uint32_t *)(ring->rings + at->ring_mask)].res;
	atomic_fetch_add_explicit(head, 1, memory_order_release);
	return result;
}

void ring_close(struct ring *ring)
{
	if (!ring->own) {
		munmap(ring->rings, RINGS_BYTES);
		munmap(ring->sqes, RINGS_BYTES);
	}
	free(ring->own);
	if (!(ring->flags & ENTER_REGISTERED) && ring->fd >= 0)
		close(ring->fd);
}
