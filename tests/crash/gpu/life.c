/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "life.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "../../random.h"

/* The timers of the queue pairs. They begin when an owner has not answered, after its helper was waited for
 * for a second. */
#define TIMEOUT 14 /* 67 ms */
#define RETRIES 3
#define NAP_NS	200000

void broken(struct life *l, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(l->self->failure, sizeof(l->self->failure), format, args);
	va_end(args);
	_exit(1);
}

uint64_t draw(uint64_t *seed, uint64_t bound)
{
	return splitmix64(seed) % bound;
}

/* Waits until the other process has come so far. False: it died before. */
static bool await_stage(struct life *l, enum stage stage)
{
	uint64_t limit = rig_now_ns() + HANGS_NS;

	while (atomic_load(&l->other->stage) < stage) {
		if (atomic_load(&l->other->dead))
			return false;
		if (rig_now_ns() > limit)
			broken(l, "the other process does not come to stage %u", stage);
		nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
	}
	return true;
}

/* ---- Beginning and end ---- */

static void open_all(struct life *l)
{
	rig_open(&l->rig);
	place_begin(&l->place[PLACE_POOLED], PLACE_POOLED, MEMORY_BYTES);
	place_register(&l->place[PLACE_POOLED], l->rig.pd);
	if (!gpu_load())
		broken(l, "there is no libcuda");
	l->context = gpu_context();
	for (enum place_kind k = PLACE_HOST; k < PLACE_KINDS; k++) {
		place_begin(&l->place[k], k, MEMORY_BYTES);
		place_register(&l->place[k], l->rig.pd);
	}
	traffic_fill(l);
	for (enum place_kind k = 0; k < PLACE_KINDS; k++) {
		l->self->at[k] = (uintptr_t)l->place[k].at;
		l->self->rkey[k] = l->place[k].mr ? l->place[k].mr->rkey : 0;
	}
	l->self->qpn = l->rig.qp[0]->qp_num;
	atomic_store(&l->self->stage, READY);
}

static void connect_to(struct life *l, struct ibv_qp *qp, uint32_t qpn)
{
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr attr = rig_attr(l->rig.context, s, qpn);

		attr.timeout = TIMEOUT;
		attr.retry_cnt = RETRIES;
		if (ibv_modify_qp(qp, &attr, rig_mask(IBV_QPT_RC, s)))
			broken(l, "connecting: %s", strerror(errno));
	}
}

static void close_all(struct life *l)
{
	for (enum place_kind k = 0; k < PLACE_KINDS; k++)
		place_end(&l->place[k]);
	rig_close(&l->rig);
	GPU_OK(cu.cuCtxDestroy_v2(l->context));
}

static void work(struct life *l)
{
	open_all(l);
	connect_to(l, l->rig.qp[1], l->rig.qp[1]->qp_num);
	l->lost = !await_stage(l, READY);
	if (!l->lost) {
		connect_to(l, l->rig.qp[0], l->other->qpn);
		atomic_store(&l->self->stage, MET);
		l->lost = !await_stage(l, MET);
	}
	for (uint32_t i = 0; i < l->self->turns; i++)
		traffic_turn(l);
	atomic_store(&l->self->stage, DONE);
	await_stage(l, DONE);
	traffic_check(l);
	close_all(l);
}

void live(struct world *world, uint32_t process)
{
	static struct life l;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	l.world = world;
	l.me = process;
	l.self = &world->process[process];
	l.other = &world->process[1 - process];
	l.seed = l.self->seed;
	setenv("WEFT_POOL", world->pool, 1);
	steps_obey(WORKER, &l.self->order);
	work(&l);
	atomic_store(&l.self->stage, LEFT);
	exit(0);
}
