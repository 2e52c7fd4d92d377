/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests whose every byte is known beforehand, between memory of all kinds, and what becomes of them. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "life.h"

#define CHURN_BYTES (64ul << 10)
#define PARTS	    12u
#define PART_BYTES  40u

enum turn {
	WRITE_AND_READ,
	READ_CONSTANT,
	COUNT_ONE,
	ALONE,	     /* a WRITE between two of the process's own memories */
	COME_AND_GO, /* the same from memory of the GPU that is registered for this WRITE only */
	/* a WRITE and a READ from such memory of the host, which the other process's driver
	 * copies */
	LEND,
	SEVERAL, /* small WRITEs that are posted together, and a READ of all of them */
	TURNS,
};

/* ---- Patterns ---- */

static uint8_t byte_of(uint64_t tag, size_t i)
{
	uint64_t x = (tag + i / 8) * 0x9e3779b97f4a7c15ull;

	return (uint8_t)(x >> (8 * (i % 8)));
}

static void paint(const struct place *place, size_t at, size_t bytes, uint64_t tag)
{
	static uint8_t buffer[SCRATCH_BYTES];

	for (size_t i = 0; i < bytes; i++)
		buffer[i] = byte_of(tag, i);
	place_write(place, at, buffer, bytes);
}

static void look(struct life *l, const struct place *place, size_t at, size_t bytes, uint64_t tag,
		 const char *what)
{
	static uint8_t buffer[SCRATCH_BYTES];

	place_read(place, at, buffer, bytes);
	for (size_t i = 0; i < bytes; i++)
		if (buffer[i] != byte_of(tag, i))
			broken(l, "%s, %s: byte %zu of %zu is wrong", what,
			       place_names[place->kind], i, bytes);
}

static uint64_t constant(uint32_t process, enum place_kind kind)
{
	return 1 + process * PLACE_KINDS + kind;
}

static uint64_t guard(uint32_t process, enum place_kind kind)
{
	return 1000 + constant(process, kind);
}

void traffic_fill(struct life *l)
{
	static const uint64_t zero;

	for (enum place_kind k = 0; k < PLACE_KINDS; k++) {
		if (!l->place[k].at)
			continue;
		paint(&l->place[k], 0, CONSTANT_BYTES, constant(l->me, k));
		paint(&l->place[k], GUARD_AT, GUARD_BYTES, guard(l->me, k));
		place_write(&l->place[k], COUNTER_AT, &zero, sizeof(zero));
	}
}

void traffic_check(struct life *l)
{
	for (enum place_kind k = 0; k < PLACE_KINDS; k++) {
		if (!l->place[k].at)
			continue;
		look(l, &l->place[k], 0, CONSTANT_BYTES, constant(l->me, k), "the constant part");
		look(l, &l->place[k], GUARD_AT, GUARD_BYTES, guard(l->me, k), "the guard");
	}
}

/* ---- Requests ---- */

static struct ibv_wc next(struct life *l, struct ibv_cq *cq, const char *what)
{
	uint64_t limit = rig_now_ns() + HANGS_NS;
	struct ibv_wc wc;

	for (unsigned int polls = 1; !ibv_poll_cq(cq, 1, &wc); polls++) {
		if (polls % 64)
			continue;
		sched_yield();
		if (rig_now_ns() > limit)
			broken(l, "%s hangs", what);
	}
	return wc;
}

/* An error must have a reason: the death of the other process; or, rarely, that its helper got no core for a
 * second. */
static void lose(struct life *l, const struct ibv_wc *wc, uint64_t begun_ns, const char *what)
{
	uint64_t limit = rig_now_ns() + HANGS_NS;

	if (wc->status != IBV_WC_RETRY_EXC_ERR)
		broken(l, "%s: %s", what, ibv_wc_status_str(wc->status));
	l->lost = true;
	l->self->waited_ns = rig_now_ns() - begun_ns;
	while (!atomic_load(&l->other->dead) && atomic_load(&l->other->stage) < DONE) {
		sched_yield();
		if (rig_now_ns() > limit)
			broken(l, "%s got no answer, but the other process lives", what);
	}
	l->self->heard = atomic_load(&l->other->dead);
	l->self->starved = !l->self->heard;
}

/* Makes a request, and returns whether it was carried out. `own`: by the queue pair that is connected to
 * itself. */
static bool request(struct life *l, bool own, enum ibv_wr_opcode opcode, const struct place *here,
		    size_t at, uint32_t bytes, uint64_t remote, uint32_t rkey, const char *what)
{
	uint64_t begun_ns = rig_now_ns();
	struct ibv_wc wc;

	if (rig_rdma(l->rig.qp[own], opcode, 1, here->mr, here->at + at, bytes, remote, rkey))
		broken(l, "%s cannot be posted", what);
	wc = next(l, l->rig.cq[own], what);
	if (wc.status && own)
		broken(l, "%s, within the process: %s", what, ibv_wc_status_str(wc.status));
	if (wc.status)
		lose(l, &wc, begun_ns, what);
	return !wc.status;
}

static struct place *some_place(struct life *l)
{
	struct place *place;

	do
		place = &l->place[draw(&l->seed, PLACE_KINDS)];
	while (!place->at);
	return place;
}

static uint32_t some_bytes(struct life *l, size_t most)
{
	static const uint32_t usual[] = {8, 64, 1000, 4096, 40000, 131072};
	uint32_t bytes = usual[draw(&l->seed, 6)];

	return bytes < most ? bytes : (uint32_t)most;
}

/* A kind of memory that the other process has. */
static enum place_kind some_kind(struct life *l)
{
	enum place_kind kind;

	do
		kind = draw(&l->seed, PLACE_KINDS);
	while (!l->other->at[kind]);
	return kind;
}

static void write_and_read(struct life *l, const struct place *from)
{
	struct place *into = some_place(l);
	enum place_kind k = some_kind(l);
	uint32_t bytes = some_bytes(l, SCRATCH_BYTES);
	uint64_t tag = draw(&l->seed, UINT64_MAX), remote = l->other->at[k] + SCRATCH_AT;

	paint(from, FROM_AT, bytes, tag);
	if (request(l, false, IBV_WR_RDMA_WRITE, from, FROM_AT, bytes, remote, l->other->rkey[k],
		    "a WRITE") &&
	    request(l, false, IBV_WR_RDMA_READ, into, INTO_AT, bytes, remote, l->other->rkey[k],
		    "its READ"))
		look(l, into, INTO_AT, bytes, tag, "written and read");
}

static void read_constant(struct life *l)
{
	struct place *into = some_place(l);
	enum place_kind k = some_kind(l);
	uint32_t bytes = some_bytes(l, CONSTANT_BYTES);

	if (request(l, false, IBV_WR_RDMA_READ, into, INTO_AT, bytes, l->other->at[k],
		    l->other->rkey[k], "a READ"))
		look(l, into, INTO_AT, bytes, constant(1 - l->me, k), "read");
}

static void count_one(struct life *l)
{
	struct place *into = some_place(l);
	enum place_kind k = some_kind(l);
	struct ibv_sge sge = {(uintptr_t)into->at + INTO_AT, 8, into->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint64_t begun_ns = rig_now_ns(), old;
	struct ibv_wc wc;

	wr.wr.atomic.remote_addr = l->other->at[k] + COUNTER_AT;
	wr.wr.atomic.rkey = l->other->rkey[k];
	wr.wr.atomic.compare_add = 1;
	if (ibv_post_send(l->rig.qp[0], &wr, &bad))
		broken(l, "an atomic cannot be posted");
	wc = next(l, l->rig.cq[0], "an atomic");
	if (wc.status) {
		lose(l, &wc, begun_ns, "an atomic");
		return;
	}
	place_read(into, INTO_AT, &old, sizeof(old));
	if (old != l->counted[k]++)
		broken(l, "%s: counted %lu after %lu", place_names[k], (unsigned long)old,
		       (unsigned long)l->counted[k] - 1);
}

static void write_alone(struct life *l, const struct place *from)
{
	struct place *into = some_place(l);
	uint32_t bytes = some_bytes(l, SCRATCH_BYTES);
	uint64_t tag = draw(&l->seed, UINT64_MAX);

	paint(from, FROM_AT, bytes, tag);
	request(l, true, IBV_WR_RDMA_WRITE, from, FROM_AT, bytes, (uintptr_t)into->at + INTO_AT,
		into->mr->rkey, "a WRITE");
	look(l, into, INTO_AT, bytes, tag, "written alone");
}

static void come_and_go(struct life *l)
{
	struct place *into = some_place(l), guest;
	uint64_t tag = draw(&l->seed, UINT64_MAX);

	place_begin(&guest, PLACE_GPU, CHURN_BYTES);
	place_register(&guest, l->rig.pd);
	paint(&guest, 0, CHURN_BYTES, tag);
	request(l, true, IBV_WR_RDMA_WRITE, &guest, 0, CHURN_BYTES, (uintptr_t)into->at + INTO_AT,
		into->mr->rkey, "a WRITE of a guest");
	look(l, into, INTO_AT, CHURN_BYTES, tag, "a guest's");
	place_end(&guest);
}

static void lend(struct life *l)
{
	uint64_t tag = draw(&l->seed, UINT64_MAX), remote = l->other->at[PLACE_GPU] + SCRATCH_AT;
	struct place guest, *into = some_place(l);

	place_begin(&guest, PLACE_HOST, SCRATCH_BYTES);
	place_register(&guest, l->rig.pd);
	paint(&guest, 0, SCRATCH_BYTES, tag);
	if (request(l, false, IBV_WR_RDMA_WRITE, &guest, 0, SCRATCH_BYTES, remote,
		    l->other->rkey[PLACE_GPU], "a WRITE of a loan") &&
	    request(l, false, IBV_WR_RDMA_READ, into, INTO_AT, SCRATCH_BYTES, remote,
		    l->other->rkey[PLACE_GPU], "its READ"))
		look(l, into, INTO_AT, SCRATCH_BYTES, tag, "lent");
	place_end(&guest);
}

static void several(struct life *l)
{
	static const enum place_kind hosts[] = {PLACE_POOLED, PLACE_HOST, PLACE_PINNED};
	const struct place *from = &l->place[hosts[draw(&l->seed, 3)]];
	struct place *into = some_place(l);
	uint64_t tag = draw(&l->seed, UINT64_MAX), remote = l->other->at[PLACE_GPU] + SCRATCH_AT;
	uint64_t begun_ns = rig_now_ns();
	uint32_t rkey = l->other->rkey[PLACE_GPU];

	paint(from, FROM_AT, (size_t)PARTS * PART_BYTES, tag);
	for (uint32_t i = 0; i < PARTS; i++)
		if (rig_rdma(l->rig.qp[0], IBV_WR_RDMA_WRITE, i, from->mr,
			     from->at + FROM_AT + i * PART_BYTES, PART_BYTES,
			     remote + i * PART_BYTES, rkey))
			broken(l, "one of several WRITEs cannot be posted");
	for (uint32_t i = 0; i < PARTS; i++) {
		struct ibv_wc wc = next(l, l->rig.cq[0], "one of several WRITEs");

		if (wc.wr_id != i)
			broken(l, "WRITE %lu of several completes as number %u",
			       (unsigned long)wc.wr_id, i);
		if (l->lost && wc.status != IBV_WC_WR_FLUSH_ERR)
			broken(l, "behind one that was lost: %s", ibv_wc_status_str(wc.status));
		if (wc.status && !l->lost)
			lose(l, &wc, begun_ns, "one of several WRITEs");
	}
	if (!l->lost && request(l, false, IBV_WR_RDMA_READ, into, INTO_AT, PARTS * PART_BYTES,
				remote, rkey, "a READ of several"))
		look(l, into, INTO_AT, (size_t)PARTS * PART_BYTES, tag, "written in parts");
}

void traffic_turn(struct life *l)
{
	enum turn turn = draw(&l->seed, TURNS);

	if (l->lost && turn != COME_AND_GO)
		turn = ALONE;
	switch (turn) {
	case WRITE_AND_READ:
		write_and_read(l, some_place(l));
		break;
	case READ_CONSTANT:
		read_constant(l);
		break;
	case COUNT_ONE:
		count_one(l);
		break;
	case ALONE:
		write_alone(l, some_place(l));
		break;
	case COME_AND_GO:
		come_and_go(l);
		break;
	case LEND:
		lend(l);
		break;
	case SEVERAL:
		several(l);
		break;
	case TURNS:
		break;
	}
}
