/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Every verb between memory of all kinds, of this process and another: lists whose elements are of different
 * kinds, in an order that a printed seed draws; after each request what it may have changed is compared, and now
 * and then every byte of both. Arguments: how many requests, and
 * which test.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../abi/pool.h"

#define REQUESTS 400
#define LIST	 3
#define ALL_EACH 50

/* This side's memory; and what all bytes of both sides must be. */
static struct place place[PLACE_KINDS];
static uint8_t ours[PLACE_KINDS][PEER_BYTES], theirs[PLACE_KINDS][PEER_BYTES];
static struct peer peer;
static struct rig rig;
static weft_cu_context context;
static uint64_t chance;
static unsigned long requests = REQUESTS;

static uint32_t draw(uint32_t below)
{
	chance = chance * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((chance >> 33) % below);
}

static enum place_kind draw_kind(void)
{
	enum place_kind kind;

	do
		kind = draw(PLACE_KINDS);
	while (!place[kind].at);
	return kind;
}

static uint32_t draw_bytes(void)
{
	switch (draw(4)) {
	case 0:
		return 1 + draw(16);
	case 1:
		return 1 + draw(512);
	case 2:
		return 1 + draw(8192);
	default:
		return 1 + draw(PEER_BYTES / LIST);
	}
}

/* ---- Lists ---- */

struct element {
	enum place_kind kind;
	uint32_t at, bytes;
};

struct list {
	struct element element[LIST];
	unsigned int count;
	uint32_t bytes;
};

/* Draws a list of elements; those of one kind do not overlap. */
static struct list draw_list(uint32_t bytes)
{
	struct list list = {.count = 1 + draw(LIST), .bytes = bytes};
	uint32_t left = bytes;

	if (bytes < LIST)
		list.count = 1;
	for (unsigned int i = 0; i < list.count; i++) {
		struct element *e = &list.element[i];
		uint32_t room = PEER_BYTES / LIST;

		e->kind = draw_kind();
		e->bytes = i + 1 == list.count ? left : 1 + draw(left - (list.count - i - 1));
		e->at = i * room + draw(room - e->bytes + 1);
		left -= e->bytes;
	}
	return list;
}

/* Copies the bytes of a list of one side to one place, or scatters them into it. */
static void gather(uint8_t side[PLACE_KINDS][PEER_BYTES], const struct list *list, uint8_t *to)
{
	for (unsigned int i = 0; i < list->count; i++) {
		memcpy(to, side[list->element[i].kind] + list->element[i].at,
		       list->element[i].bytes);
		to += list->element[i].bytes;
	}
}

static void scatter(uint8_t side[PLACE_KINDS][PEER_BYTES], const struct list *list,
		    const uint8_t *from)
{
	for (unsigned int i = 0; i < list->count; i++) {
		memcpy(side[list->element[i].kind] + list->element[i].at, from,
		       list->element[i].bytes);
		from += list->element[i].bytes;
	}
}

/* ---- Requests ---- */

static void post_and_wait(enum ibv_wr_opcode opcode, const struct list *list,
			  const struct element *remote, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge[LIST];
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = sge,
				 .num_sge = (int)list->count,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	for (unsigned int i = 0; i < list->count; i++) {
		const struct element *e = &list->element[i];

		sge[i] = (struct ibv_sge){(uintptr_t)place[e->kind].at + e->at, e->bytes,
					  place[e->kind].mr->lkey};
	}
	if (remote &&
	    (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP)) {
		wr.wr.atomic.remote_addr = peer.said->at[remote->kind] + remote->at;
		wr.wr.atomic.rkey = peer.said->rkey[remote->kind];
		wr.wr.atomic.compare_add = compare_add;
		wr.wr.atomic.swap = swap;
	} else if (remote) {
		wr.wr.rdma.remote_addr = peer.said->at[remote->kind] + remote->at;
		wr.wr.rdma.rkey = peer.said->rkey[remote->kind];
	}
	assert_int_equal(ibv_post_send(rig.qp[0], &wr, &bad), 0);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
}

static struct element draw_remote(uint32_t bytes)
{
	return (struct element){draw_kind(), draw((uint32_t)PEER_BYTES - bytes + 1), bytes};
}

static void do_write(uint32_t bytes)
{
	struct list list = draw_list(bytes);
	struct element to = draw_remote(bytes);

	post_and_wait(IBV_WR_RDMA_WRITE, &list, &to, 0, 0);
	gather(ours, &list, theirs[to.kind] + to.at);
}

static void do_read(uint32_t bytes)
{
	struct list list = draw_list(bytes);
	struct element from = draw_remote(bytes);

	post_and_wait(IBV_WR_RDMA_READ, &list, &from, 0, 0);
	scatter(ours, &list, theirs[from.kind] + from.at);
}

static void do_send(uint32_t bytes)
{
	static uint8_t message[PEER_BYTES];
	struct list list = draw_list(bytes), to = draw_list(bytes);

	for (unsigned int i = 0; i < to.count; i++)
		peer.said->receive[i] =
			(struct ibv_sge){peer.said->at[to.element[i].kind] + to.element[i].at,
					 to.element[i].bytes, to.element[i].kind};
	peer.said->receives = to.count;
	peer_post(&peer);
	post_and_wait(IBV_WR_SEND, &list, NULL, 0, 0);
	peer_poll(&peer);
	assert_int_equal(peer.said->wc.status, IBV_WC_SUCCESS);
	assert_int_equal(peer.said->wc.byte_len, bytes);
	gather(ours, &list, message);
	scatter(theirs, &to, message);
}

static void do_atomic(bool add)
{
	struct list list = {
		.element = {{draw_kind(), draw(PEER_BYTES / 8) * 8, 8}}, .count = 1, .bytes = 8};
	struct element at = {draw_kind(), draw(PEER_BYTES / 8) * 8, 8};
	uint64_t was, now = draw(1u << 30), compare;

	memcpy(&was, theirs[at.kind] + at.at, 8);
	compare = draw(2) ? was : was + 1;
	post_and_wait(add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP, &list, &at,
		      add ? now : compare, now);
	if (add)
		now += was;
	else if (compare != was)
		now = was;
	memcpy(theirs[at.kind] + at.at, &now, 8);
	memcpy(ours[list.element[0].kind] + list.element[0].at, &was, 8);
}

/* ---- All bytes ---- */

static void compare(const char *whose, enum place_kind kind, const uint8_t *is,
		    const uint8_t *should)
{
	for (size_t i = 0; i < PEER_BYTES; i++)
		if (is[i] != should[i])
			fail_msg("%s %s memory differs at %zu", whose, place_names[kind], i);
}

static void compare_all(void)
{
	static uint8_t seen[PEER_BYTES];

	peer_fetch(&peer);
	for (enum place_kind k = 0; k < PLACE_KINDS; k++) {
		if (!place[k].at)
			continue;
		place_read(&place[k], 0, seen, PEER_BYTES);
		compare("our", k, seen, ours[k]);
		compare("the peer's", k, peer.said->bytes[k], theirs[k]);
	}
}

static void fill_all(void)
{
	for (enum place_kind k = 0; k < PLACE_KINDS; k++) {
		if (!place[k].at)
			continue;
		for (size_t i = 0; i < PEER_BYTES; i++) {
			ours[k][i] = (uint8_t)draw(256);
			theirs[k][i] = (uint8_t)draw(256);
		}
		place_write(&place[k], 0, ours[k], PEER_BYTES);
	}
	memcpy(peer.said->bytes, theirs, sizeof(theirs));
	peer_fill(&peer);
}

static void all_kinds(void **state)
{
	for (unsigned long i = 0; i < requests; i++) {
		uint32_t bytes = draw_bytes(), what = draw(8);

		if (i % ALL_EACH == 0) {
			if (i)
				compare_all();
			fill_all();
		}
		if (what < 3)
			do_write(bytes);
		else if (what < 5)
			do_read(bytes);
		else if (what < 7)
			do_send(bytes);
		else
			do_atomic(draw(2));
	}
	compare_all();
}

/* ---- Beginning and end ---- */

static void connect_to(uint32_t qpn)
{
	rig_modify(rig.qp[0], IBV_QPS_RESET, 0);
	rig_modify(rig.qp[0], IBV_QPS_RTR, qpn);
	peer_connect(&peer, rig.qp[0]->qp_num);
	rig_modify(rig.qp[0], IBV_QPS_RESET, 0);
	rig_modify(rig.qp[0], IBV_QPS_RTS, qpn);
}

static int begin(void **state)
{
	const char *seed = getenv("SEED");

	make_pool(state);
	chance = seed ? strtoull(seed, NULL, 0) : rig_now_ns();
	print_message("SEED=%#llx\n", (unsigned long long)chance);
	alarm(300);
	peer_start(&peer);
	rig_open(&rig);
	place_begin(&place[PLACE_POOLED], PLACE_POOLED, PEER_BYTES);
	place_register(&place[PLACE_POOLED], rig.pd);
	assert_true(gpu_load());
	context = gpu_context();
	for (enum place_kind k = PLACE_HOST; k < PLACE_KINDS; k++) {
		place_begin(&place[k], k, PEER_BYTES);
		place_register(&place[k], rig.pd);
	}
	connect_to(peer.said->qpn);
	return 0;
}

static int end(void **state)
{
	peer_end(&peer);
	for (enum place_kind k = 0; k < PLACE_KINDS; k++)
		place_end(&place[k]);
	rig_close(&rig);
	GPU_OK(cu.cuCtxDestroy_v2(context));
	return remove_pool(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(all_kinds)};

	if (argc > 1)
		requests = strtoul(argv[1], NULL, 0);
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	return cmocka_run_group_tests_name("verbs", tests, begin, end);
}
