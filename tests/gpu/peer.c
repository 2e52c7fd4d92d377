/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "peer.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct order {
	char what;
	enum place_kind kind;
	uint32_t qpn;
};

struct server {
	struct rig rig;
	struct place place[PLACE_KINDS];
	struct peer_said *said;
	weft_cu_context context;
};

/* ---- In the peer ---- */

static void begin_all(struct server *s)
{
	rig_open(&s->rig);
	place_begin(&s->place[PLACE_POOLED], PLACE_POOLED, PEER_BYTES);
	place_register(&s->place[PLACE_POOLED], s->rig.pd);
	if (!gpu_load())
		_exit(3);
	s->context = gpu_context();
	for (enum place_kind k = PLACE_HOST; k < PLACE_KINDS; k++) {
		place_begin(&s->place[k], k, PEER_BYTES);
		place_register(&s->place[k], s->rig.pd);
	}
	for (enum place_kind k = 0; k < PLACE_KINDS; k++) {
		s->said->at[k] = (uintptr_t)s->place[k].at;
		s->said->rkey[k] = s->place[k].mr ? s->place[k].mr->rkey : 0;
	}
	s->said->qpn = s->rig.qp[0]->qp_num;
}

static void post(struct server *s)
{
	struct ibv_sge list[RIG_SGE];
	struct ibv_recv_wr wr = {.sg_list = list, .num_sge = (int)s->said->receives}, *bad;

	for (uint32_t i = 0; i < s->said->receives; i++) {
		list[i] = s->said->receive[i];
		list[i].lkey = s->place[list[i].lkey].mr->lkey;
	}
	assert_int_equal(ibv_post_recv(s->rig.qp[0], &wr, &bad), 0);
}

static void move_all(struct server *s, bool fill)
{
	for (enum place_kind k = 0; k < PLACE_KINDS; k++) {
		if (!s->place[k].at)
			continue;
		if (fill)
			place_write(&s->place[k], 0, s->said->bytes[k], PEER_BYTES);
		else
			place_read(&s->place[k], 0, s->said->bytes[k], PEER_BYTES);
	}
}

static void allocate(struct server *s, enum place_kind kind)
{
	struct place anew;

	place_begin(&anew, kind, PEER_BYTES);
	anew.mr = s->place[kind].mr;
	s->place[kind] = anew;
	s->said->at[kind] = (uintptr_t)anew.at;
}

static void work(uint32_t rounds)
{
	for (uint32_t i = 0; i < rounds; i++) {
		weft_cu_ptr at = gpu_alloc(4096);

		GPU_OK(cu.cuMemsetD8_v2(at, 1, 4096));
		GPU_OK(cu.cuCtxSynchronize());
		GPU_OK(cu.cuMemFree_v2(at));
	}
}

static void obey(struct server *s, const struct order *order)
{
	struct place *place = &s->place[order->kind];

	switch (order->what) {
	case 'c':
		rig_modify(s->rig.qp[0], IBV_QPS_RESET, 0);
		rig_modify(s->rig.qp[0], IBV_QPS_RTS, order->qpn);
		break;
	case 'f':
		move_all(s, true);
		break;
	case 'g':
		move_all(s, false);
		break;
	case 'p':
		post(s);
		break;
	case 'w':
		s->said->wc = rig_next(s->rig.cq[0]);
		break;
	case 'F':
		GPU_OK(cu.cuMemFree_v2((uintptr_t)place->at));
		break;
	case 'A':
		allocate(s, order->kind);
		break;
	case 'h':
		if (gpu_hold)
			gpu_hold(order->qpn);
		break;
	case 'n':
		s->said->waits = gpu_waits ? gpu_waits() : 0;
		break;
	case 'W':
		work(order->qpn);
		break;
	case 'D':
		assert_int_equal(ibv_dereg_mr(place->mr), 0);
		place->mr = NULL;
		break;
	}
}

static _Noreturn void serve(int asked, int answer, struct peer_said *said)
{
	static struct server s;
	struct order order;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(120);
	s.said = said;
	begin_all(&s);
	while (write(answer, "", 1) == 1 && read(asked, &order, sizeof(order)) == sizeof(order) &&
	       order.what != 'q')
		obey(&s, &order);
	for (enum place_kind k = 0; k < PLACE_KINDS; k++)
		place_end(&s.place[k]);
	rig_close(&s.rig);
	GPU_OK(cu.cuCtxDestroy_v2(s.context));
	exit(0);
}

/* ---- In the test ---- */

static void await(struct peer *peer)
{
	char done;

	assert_int_equal(read(peer->answer, &done, 1), 1);
}

void peer_start(struct peer *peer)
{
	int ask[2], answer[2];

	peer->said = mmap(NULL, sizeof(*peer->said), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(peer->said, MAP_FAILED);
	assert_int_equal(pipe(ask), 0);
	assert_int_equal(pipe(answer), 0);
	peer->pid = fork();
	if (!peer->pid) {
		close(ask[1]);
		close(answer[0]);
		serve(ask[0], answer[1], peer->said);
	}
	close(ask[0]);
	close(answer[1]);
	peer->ask = ask[1];
	peer->answer = answer[0];
	await(peer);
}

static void tell(struct peer *peer, char what, enum place_kind kind, uint32_t qpn)
{
	struct order order = {what, kind, qpn};

	assert_int_equal(write(peer->ask, &order, sizeof(order)), sizeof(order));
	if (what != 'q')
		await(peer);
}

void peer_connect(struct peer *peer, uint32_t qpn)
{
	tell(peer, 'c', 0, qpn);
}

void peer_fill(struct peer *peer)
{
	tell(peer, 'f', 0, 0);
}

void peer_fetch(struct peer *peer)
{
	tell(peer, 'g', 0, 0);
}

void peer_post(struct peer *peer)
{
	tell(peer, 'p', 0, 0);
}

void peer_poll(struct peer *peer)
{
	tell(peer, 'w', 0, 0);
}

void peer_free(struct peer *peer, enum place_kind kind)
{
	tell(peer, 'F', kind, 0);
}

void peer_allocate(struct peer *peer, enum place_kind kind)
{
	tell(peer, 'A', kind, 0);
}

void peer_end_region(struct peer *peer, enum place_kind kind)
{
	tell(peer, 'D', kind, 0);
}

void peer_hold(struct peer *peer, bool hold)
{
	tell(peer, 'h', 0, hold);
}

unsigned long peer_waits(struct peer *peer)
{
	tell(peer, 'n', 0, 0);
	return peer->said->waits;
}

void peer_works(struct peer *peer, uint32_t rounds)
{
	struct order order = {'W', 0, rounds};

	assert_int_equal(write(peer->ask, &order, sizeof(order)), sizeof(order));
}

bool peer_has_worked(struct peer *peer)
{
	struct pollfd answer = {.fd = peer->answer, .events = POLLIN};

	if (poll(&answer, 1, 0) != 1)
		return false;
	await(peer);
	return true;
}

static int reap(struct peer *peer)
{
	int status;

	assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
	close(peer->ask);
	close(peer->answer);
	munmap(peer->said, sizeof(*peer->said));
	return status;
}

void peer_end(struct peer *peer)
{
	tell(peer, 'q', 0, 0);
	assert_int_equal(reap(peer), 0);
}

void peer_kill(struct peer *peer)
{
	kill(peer->pid, SIGKILL);
	reap(peer);
}
