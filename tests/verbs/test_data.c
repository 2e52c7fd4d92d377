/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Every byte that reliable connections move: each operation, between memory of each kind, of every
 * size, in lists and inline, to this process and to another, compared with the bytes around it.
 */
#include "ends_setup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../abi/pool.h"

#define GUARD  64u
#define FILLER 0xee
/* bytes up to here are compared after each operation, of all kinds but KIND_SMALL */
#define EDGES 65536u
#define IMM   0x12345678u
/* With memory of a GPU only its pairs are gone through, and not with every size. */
#ifdef WITH_GPU
#define GPUS 1u
#else
#define GPUS 0u
#endif

static uint8_t noise[ENDS_BYTES + EDGES]; /* what is sent, from any offset */
static uint8_t image[ENDS_BYTES];
static unsigned int seed;

static unsigned int below(unsigned int n)
{
	return (unsigned int)rand_r(&seed) % n;
}

static uint8_t *here(enum kind kind)
{
	return (uint8_t *)(uintptr_t)near.buffer[kind].at;
}

/* ---- One run of bytes ---- */

struct run {
	enum ibv_wr_opcode opcode;
	enum kind near, peer;
	uint32_t bytes, near_at, peer_at;
	unsigned int flags;
	const uint8_t *content;
};

static const struct {
	enum ibv_wr_opcode opcode;
	enum ibv_wc_opcode sent, received;
	bool receives;
} operations[] = {
	{IBV_WR_SEND, IBV_WC_SEND, IBV_WC_RECV, true},
	{IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, IBV_WC_RECV, true},
	{IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, 0, false},
	{IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, IBV_WC_RECV_RDMA_WITH_IMM, true},
	{IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, 0, false},
};

static size_t row_of(enum ibv_wr_opcode opcode)
{
	size_t i = 0;

	while (operations[i].opcode != opcode)
		i++;
	return i;
}

static uint32_t guard_before(uint32_t at)
{
	return at < GUARD ? at : GUARD;
}

static uint32_t guard_after(uint32_t bytes, uint32_t at, uint32_t all)
{
	return all - at - bytes < GUARD ? all - at - bytes : GUARD;
}

/* Fills source and target, and the guards around the target. */
static void prepare(const struct run *run)
{
	bool to_here = run->opcode == IBV_WR_RDMA_READ;
	enum kind kind = to_here ? run->near : run->peer;
	uint32_t at = to_here ? run->near_at : run->peer_at;
	uint32_t before = guard_before(at);
	uint32_t length =
		before + run->bytes + guard_after(run->bytes, at, near.buffer[kind].bytes);

	memset(image, FILLER, length);
	if (to_here) {
		ends_put(&near, kind, at - before, image, length);
		peer_put(&peer, peer.buffer[run->peer].at + run->peer_at, run->content, run->bytes);
	} else {
		peer_put(&peer, peer.buffer[kind].at + at - before, image, length);
		ends_put(&near, run->near, run->near_at, run->content, run->bytes);
	}
}

static void compare(const struct run *run)
{
	bool to_here = run->opcode == IBV_WR_RDMA_READ;
	enum kind kind = to_here ? run->near : run->peer;
	uint32_t at = to_here ? run->near_at : run->peer_at;
	uint32_t before = guard_before(at), after;
	bool same;

	after = guard_after(run->bytes, at, near.buffer[kind].bytes);
	if (to_here)
		ends_get(&near, kind, image, at - before, before + run->bytes + after);
	else
		peer_get(&peer, image, peer.buffer[kind].at + at - before,
			 before + run->bytes + after);
	same = !memcmp(image + before, run->content, run->bytes);
	for (uint32_t i = 0; i < before; i++)
		same &= image[i] == FILLER;
	for (uint32_t i = 0; i < after; i++)
		same &= image[before + run->bytes + i] == FILLER;
	if (!same)
		fail_msg("operation %d of %u bytes, %s at %u to %s at %u, flags %#x", run->opcode,
			 run->bytes, kind_name[run->near], run->near_at, kind_name[run->peer],
			 run->peer_at, run->flags);
}

static struct ibv_send_wr request_of(const struct run *run, struct ibv_sge *sge, int num_sge)
{
	struct ibv_send_wr wr = {.wr_id = run->bytes,
				 .sg_list = sge,
				 .num_sge = num_sge,
				 .opcode = run->opcode,
				 .imm_data = htonl(IMM + run->bytes),
				 .send_flags = run->flags | IBV_SEND_SIGNALED};

	wr.wr.rdma.remote_addr = peer.buffer[run->peer].at + run->peer_at;
	wr.wr.rdma.rkey = peer.buffer[run->peer].key;
	return wr;
}

/* Each side's completion names the right operation and length. */
static void check_completions(const struct run *run)
{
	size_t row = row_of(run->opcode);
	bool imm = run->opcode == IBV_WR_SEND_WITH_IMM || run->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct ibv_wc wc = rig_expect(near.cq, IBV_WC_SUCCESS, run->bytes);

	assert_int_equal(wc.opcode, operations[row].sent);
	assert_int_equal(wc.qp_num, near.qp->qp_num);
	if (run->opcode == IBV_WR_RDMA_READ)
		assert_int_equal(wc.byte_len, run->bytes);
	if (!operations[row].receives)
		return;
	wc = peer_next(&peer);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, operations[row].received);
	assert_int_equal(wc.wr_id, run->bytes + 1ull);
	assert_int_equal(wc.byte_len, run->bytes);
	assert_int_equal(wc.wc_flags, imm ? IBV_WC_WITH_IMM : 0);
	if (imm)
		assert_int_equal(ntohl(wc.imm_data), IMM + run->bytes);
}

static void carry_out(const struct run *run)
{
	struct ibv_sge sge = {near.buffer[run->near].at + run->near_at, run->bytes,
			      near.buffer[run->near].key};
	struct ibv_sge room = {peer.buffer[run->peer].at + run->peer_at, run->bytes,
			       peer.buffer[run->peer].key};
	struct ibv_send_wr *bad, wr = request_of(run, &sge, 1);

	if (run->flags & IBV_SEND_INLINE)
		sge.lkey = 0xdeadbeef; /* of inline bytes the lkey is not looked at */
	prepare(run);
	if (operations[row_of(run->opcode)].receives)
		peer_receive(&peer, run->bytes + 1ull, &room, 1);
	assert_int_equal(ibv_post_send(near.qp, &wr, &bad), 0);
	if (run->flags & IBV_SEND_INLINE)
		/* the program may change inline bytes as soon as they are posted */
		memset((void *)(uintptr_t)sge.addr, 0, run->bytes);
	check_completions(run);
	compare(run);
}

static uint32_t place(enum kind kind, uint32_t bytes)
{
	uint32_t room = near.buffer[kind].bytes - bytes;

	/* often across a border of pages, sometimes at the end of the region */
	if (room >= 8192)
		room = below(4) ? 8192 : room;
	return room ? below(room + 1) : 0;
}

static void run_size(struct run *run, uint32_t bytes)
{
	run->bytes = bytes;
	if (bytes > near.buffer[run->near].bytes || bytes > peer.buffer[run->peer].bytes)
		return;
	run->near_at = place(run->near, bytes);
	run->peer_at = place(run->peer, bytes);
	run->content = noise + below(EDGES);
	carry_out(run);
}

static const uint32_t edges[] = {511,	512,   513,   1023,  1024,    1025,   2047, 2048,
				 2049,	4095,  4096,  4097,  8191,    8192,   8193, 16383,
				 16385, 65535, 65536, 65537, 1048575, 1048576};

static void every_size(void **state)
{
	for (size_t op = 0; op < COUNT(operations); op++)
		for (int pair = 0; pair < KINDS * KINDS; pair++) {
			struct run run = {.opcode = operations[op].opcode,
					  .near = (enum kind)(pair / KINDS),
					  .peer = (enum kind)(pair % KINDS)};

			if (GPUS && !ends_on_gpu(run.near) && !ends_on_gpu(run.peer))
				continue;
			for (uint32_t bytes = 0; bytes <= 300; bytes += 1 + GPUS * below(20))
				run_size(&run, bytes);
			for (size_t i = 0; i < COUNT(edges); i++)
				run_size(&run, edges[i]);
		}
}

static void every_inline_size(void **state)
{
	for (size_t op = 0; op < 4; op++)
		for (enum kind kind = 0; kind < KINDS; kind++) {
			struct run run = {.opcode = operations[op].opcode,
					  .near = KIND_DATA,
					  .peer = kind,
					  .flags = IBV_SEND_INLINE};

			for (uint32_t bytes = 0; bytes <= RIG_INLINE; bytes++)
				run_size(&run, bytes);
		}
}

/* ---- Lists ---- */

#define SLOT	 2048u
#define LIST_MAX 700u

struct list {
	int n;
	struct ibv_sge sge[RIG_SGE];
	enum kind kind[RIG_SGE];
	uint32_t at[RIG_SGE], bytes;
};

/* Element i lies somewhere in slot i of a memory of one kind. */
static void make_list(struct list *list, const struct buffer *buffer)
{
	list->n = 1 + (int)below(RIG_SGE);
	list->bytes = 0;
	for (int i = 0; i < list->n; i++) {
		enum kind kind = (enum kind)below(KIND_SMALL);
		uint32_t length = below(5) ? below(LIST_MAX) : 0;

		list->kind[i] = kind;
		list->at[i] = (uint32_t)i * SLOT + below(SLOT - LIST_MAX);
		list->sge[i] =
			(struct ibv_sge){buffer[kind].at + list->at[i], length, buffer[kind].key};
		if (!length)
			/* an element without bytes needs no valid lkey */
			list->sge[i].lkey = 0x77777777;
		list->bytes += length;
	}
}

/* What no processor reads is refused inline (tests/gpu/test_services.c). */
static bool is_on_gpu(const struct list *list)
{
	bool any = false;

	for (int i = 0; i < list->n; i++)
		any |= ends_on_gpu(list->kind[i]);
	return any;
}

/* Copies the slots of all kinds as they are at one side. */
static void look(uint8_t (*kinds)[EDGES], bool there)
{
	for (enum kind k = 0; k < KIND_SMALL; k++) {
		if (there)
			peer_get(&peer, kinds[k], peer.buffer[k].at, EDGES);
		else
			ends_get(&near, k, kinds[k], 0, EDGES);
	}
}

static void write_list(const struct list *list, uint8_t (*kinds)[EDGES], const uint8_t *from,
		       uint32_t bytes)
{
	for (int i = 0; i < list->n && bytes; i++) {
		uint32_t length = list->sge[i].length < bytes ? list->sge[i].length : bytes;

		memcpy(kinds[list->kind[i]] + list->at[i], from, length);
		from += length;
		bytes -= length;
	}
}

/* From a list to one run of bytes, from one run to a list, and from list to list. */
static void run_list(enum ibv_wr_opcode opcode, unsigned int flags)
{
	static uint8_t before[KINDS][EDGES], after[KINDS][EDGES];
	const uint8_t *content = noise + below(EDGES);
	struct run run = {
		.opcode = opcode, .peer = KIND_MIXED, .peer_at = below(8192), .flags = flags};
	bool read = opcode == IBV_WR_RDMA_READ;
	bool send = opcode == IBV_WR_SEND;
	struct ibv_send_wr wr, *bad;
	struct list from, to;

	do
		make_list(&from, near.buffer);
	while (flags & IBV_SEND_INLINE && (from.bytes > RIG_INLINE || is_on_gpu(&from)));
	do
		make_list(&to, peer.buffer);
	while (send && to.bytes < from.bytes);
	run.bytes = from.bytes;
	look(before, !read);
	for (int i = 0, done = 0; i < from.n && !read; done += (int)from.sge[i++].length)
		ends_put(&near, from.kind[i], from.at[i], content + done, from.sge[i].length);
	if (read)
		peer_put(&peer, peer.buffer[run.peer].at + run.peer_at, content, run.bytes);
	if (send)
		peer_receive(&peer, run.bytes + 1ull, to.sge, to.n);
	if (peer.here && !read)
		look(before, true); /* the source may lie in the same memory, beside the target */
	wr = request_of(&run, from.sge, from.n);
	assert_int_equal(ibv_post_send(near.qp, &wr, &bad), 0);
	check_completions(&run);
	if (read)
		write_list(&from, before, content, run.bytes);
	else if (send)
		write_list(&to, before, content, run.bytes);
	else
		memcpy(before[run.peer] + run.peer_at, content, run.bytes);
	look(after, !read);
	if (memcmp(before, after, sizeof(after)))
		fail_msg("operation %d of %u bytes in %d elements", opcode, run.bytes, from.n);
}

static void lists(void **state)
{
	for (int round = 0; round < 400; round++) {
		run_list(IBV_WR_SEND, 0);
		run_list(IBV_WR_RDMA_WRITE, 0);
		run_list(IBV_WR_RDMA_READ, 0);
		if (round % 8 == 0) {
			run_list(IBV_WR_SEND, IBV_SEND_INLINE);
			run_list(IBV_WR_RDMA_WRITE, IBV_SEND_INLINE);
		}
	}
}

/* Inline bytes are copied when the request is posted, others when it is carried out. */
static void waiting_payload(void **state)
{
	for (int in_line = 0; in_line < 2; in_line++) {
		struct run run = {.opcode = IBV_WR_SEND,
				  .bytes = 100,
				  .content = noise,
				  .flags = in_line ? IBV_SEND_INLINE : 0};
		struct ibv_sge sge = {near.buffer[0].at, 100, near.buffer[0].key};
		struct ibv_sge room = {peer.buffer[0].at, 100, peer.buffer[0].key};
		struct ibv_send_wr *bad, wr = request_of(&run, &sge, 1);

		prepare(&run);
		assert_int_equal(ibv_post_send(near.qp, &wr, &bad), 0);
		memcpy(here(0), noise + 1, 100);
		peer_receive(&peer, 101, &room, 1);
		check_completions(&run);
		run.content = noise + !in_line;
		compare(&run);
	}
}

/* ---- Atomics ---- */

static uint64_t atomic(enum kind kind, uint32_t at, enum ibv_wr_opcode opcode, uint64_t compare_add,
		       uint64_t swap)
{
	struct ibv_sge sge = {near.buffer[KIND_STACK].at + 3, 8, near.buffer[KIND_STACK].key};
	struct ibv_send_wr *bad, wr = {.wr_id = 1,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;
	uint64_t old;

	wr.wr.atomic.remote_addr = peer.buffer[kind].at + at;
	wr.wr.atomic.rkey = peer.buffer[kind].key;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	assert_int_equal(ibv_post_send(near.qp, &wr, &bad), 0);
	wc = rig_expect(near.cq, IBV_WC_SUCCESS, 1);
	assert_int_equal(wc.opcode,
			 opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD);
	assert_int_equal(wc.byte_len, 8);
	memcpy(&old, here(KIND_STACK) + 3, 8);
	return old;
}

static void atomics(void **state)
{
	static const uint64_t values[] = {0, 1, UINT32_MAX, UINT64_MAX, 0x123456789abcdef0};

	for (enum kind kind = 0; kind < KINDS; kind++)
		for (uint32_t i = 0; i < 40; i++) {
			/* memory of KIND_MIXED begins at an address that is a multiple of 4 only */
			uint32_t at = (8 * i + (uint32_t)(-peer.buffer[kind].at & 7)) % 56;
			uint64_t a = values[i % COUNT(values)], b = values[i / 8 % COUNT(values)];
			uint64_t got[3], want[3] = {~a, a, ~b};

			peer_put(&peer, peer.buffer[kind].at + at, &a, 8);
			assert_int_equal(atomic(kind, at, IBV_WR_ATOMIC_FETCH_AND_ADD, b, 0), a);
			assert_int_equal(atomic(kind, at, IBV_WR_ATOMIC_FETCH_AND_ADD, -b, 0),
					 a + b);
			assert_int_equal(atomic(kind, at, IBV_WR_ATOMIC_CMP_AND_SWP, ~a, 7), a);
			assert_int_equal(atomic(kind, at, IBV_WR_ATOMIC_CMP_AND_SWP, a, b), a);
			peer_get(&peer, got, peer.buffer[kind].at + at, 8);
			assert_int_equal(got[0], b);
			if (kind == KIND_SMALL)
				continue;
			/* the bytes beside the word are as before */
			peer_put(&peer, peer.buffer[kind].at + at, want, 24);
			assert_int_equal(atomic(kind, at + 8, IBV_WR_ATOMIC_CMP_AND_SWP, a, b), a);
			want[1] = b;
			peer_get(&peer, got, peer.buffer[kind].at + at, 24);
			assert_memory_equal(got, want, 24);
		}
}

/* ---- Order ---- */

/* Many requests in one list, each of which reads what the one before it has written. */
static void chained(void **state)
{
	struct ibv_sge sge[RIG_DEPTH];
	struct ibv_send_wr wr[RIG_DEPTH], *bad;

	for (int round = 0; round < 50; round++) {
		memcpy(here(KIND_POOLED), &round, sizeof(round));
		for (uint32_t i = 0; i < RIG_DEPTH; i++) {
			enum kind kind = (enum kind)((i / 2) % KIND_SMALL);

			sge[i] =
				(struct ibv_sge){near.buffer[KIND_POOLED].at + 8ull * ((i + 1) / 2),
						 4, near.buffer[KIND_POOLED].key};
			wr[i] = (struct ibv_send_wr){.wr_id = i,
						     .next = i + 1 < RIG_DEPTH ? &wr[i + 1] : NULL,
						     .sg_list = &sge[i],
						     .num_sge = 1,
						     .opcode = i % 2 ? IBV_WR_RDMA_READ
								     : IBV_WR_RDMA_WRITE};
			wr[i].wr.rdma.remote_addr = peer.buffer[kind].at + 16;
			wr[i].wr.rdma.rkey = peer.buffer[kind].key;
		}
		wr[RIG_DEPTH - 1].send_flags = IBV_SEND_SIGNALED;
		assert_int_equal(ibv_post_send(near.qp, wr, &bad), 0);
		rig_expect(near.cq, IBV_WC_SUCCESS, RIG_DEPTH - 1);
		assert_memory_equal(here(KIND_POOLED) + 8 * (RIG_DEPTH / 2), &round, sizeof(round));
	}
}

static int run(void)
{
#define HERE(name)                                                                                 \
	{                                                                                          \
#name, name, setup_here, teardown, NULL                                            \
	}
#define OTHER(name)                                                                                \
	{                                                                                          \
#name "_in_another_process", name, setup_other_process, teardown, NULL             \
	}
	const struct CMUnitTest tests[] = {
		HERE(every_size),
		OTHER(every_size),
		HERE(every_inline_size),
		OTHER(every_inline_size),
		HERE(lists),
		OTHER(lists),
		HERE(waiting_payload),
		OTHER(waiting_payload),
		HERE(atomics),
		OTHER(atomics),
		HERE(chained),
		OTHER(chained),
	};
	const char *given = getenv("SEED");

	seed = given ? (unsigned int)strtoul(given, NULL, 0) : (unsigned int)time(NULL);
	print_message("SEED=%u\n", seed);
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)rand_r(&seed);
	return cmocka_run_group_tests_name("data", tests, make_pool, remove_pool);
}

int main(int argc, char **argv)
{
	return ends_main(argc, argv, run);
}
