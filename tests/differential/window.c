/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cases of memory windows: bound well and badly, used by the peer, invalidated by either side.
 * Queue pair 1 owns them. A step that fails is the last, though all are drawn. */
#include <errno.h>
#include <string.h>

#include "cases.h"
#include "request.h"

#define STEPS 5

struct scene {
	struct world *world;
	struct pair pair;
	struct ibv_mr *region; /* TARGET */
	struct ibv_pd *region_pd;
	int region_access;
	struct ibv_mw *window;
	uint32_t old_key; /* of the window before it was bound last */
	uint64_t at;	  /* where the window begins */
	uint64_t id;	  /* of the last request */
	bool over;
	bool bound;
};

static const char *const access_names[] = {"LOCAL_WRITE",   "REMOTE_WRITE", "REMOTE_READ",
					   "REMOTE_ATOMIC", "MW_BIND",	    "ZERO_BASED"};

/* ---- The region and the window ---- */

static void reg(struct scene *scene)
{
	scene->region = ibv_reg_mr(scene->region_pd, scene->world->memory[TARGET], BUFFER_BYTES,
				   scene->region_access);
	need(scene->region, "ibv_reg_mr");
}

static void pick_region(struct scene *scene)
{
	static const int lacking[] = {IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_READ,
				      IBV_ACCESS_REMOTE_WRITE, ALL_RIGHTS};
	int access = ALL_RIGHTS | IBV_ACCESS_MW_BIND;
	bool foreign = one_in(scene->world, 16);

	if (one_in(scene->world, 6))
		access &= ~lacking[pick(scene->world, COUNT(lacking))];
	what("%s", foreign ? " region:other-domain" : " region");
	what_bits("access", access, access_names, COUNT(access_names));
	scene->region_pd = foreign ? scene->world->other_pd : scene->world->pd;
	scene->region_access = access;
	reg(scene);
}

static void pick_window(struct scene *scene)
{
	enum ibv_mw_type type = one_in(scene->world, 2) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
	bool foreign = one_in(scene->world, 16);

	what(" window%s type=%d", foreign ? ":other-domain" : "", type);
	scene->window = ibv_alloc_mw(foreign ? scene->world->other_pd : scene->world->pd, type);
	need(scene->window, "ibv_alloc_mw");
	scene->old_key = scene->window->rkey;
}

/* ---- Steps ---- */

static struct ibv_send_wr *new_request(struct scene *scene, struct request *request, int end)
{
	*request = (struct request){.wr = {.wr_id = ++scene->id, .send_flags = IBV_SEND_SIGNALED}};
	scene->pair.asker = end;
	return &request->wr;
}

static bool finish(struct scene *scene, int result)
{
	outcome_errno("post", result);
	if (!tell_completions(scene->world, &scene->pair, result ? 0 : scene->id))
		scene->over = true;
	return !scene->over && !result;
}

static bool post(struct scene *scene, struct request *request)
{
	struct ibv_send_wr *bad;

	if (scene->over)
		return false;
	return finish(scene, ibv_post_send(scene->pair.qp[scene->pair.asker], &request->wr, &bad));
}

/* Which part, with which rights. */
static struct ibv_mw_bind_info pick_bind(struct scene *scene)
{
	static const uint32_t starts[] = {0, 8, 100, 4096}, lengths[] = {64, 100, 4096, 8192};
	struct world *world = scene->world;
	struct ibv_mw_bind_info info = {.mr = scene->region};
	uint32_t start = starts[pick(world, COUNT(starts))];

	info.addr = (uintptr_t)world->memory[TARGET] + start;
	info.length = lengths[pick(world, COUNT(lengths))];
	info.mw_access_flags = one_in(world, 3) ? pick(world, 8) << 1 : ALL_RIGHTS - 1;
	if (one_in(world, 12))
		info.mw_access_flags |= one_in(world, 2) ? IBV_ACCESS_ZERO_BASED : 1U;
	switch (pick(world, 24)) {
	case 0:
		info.length = 0;
		break;
	case 1:
		info.length = BUFFER_BYTES + 1;
		break;
	case 2:
		info.addr -= 4096 + start;
		break;
	default:
		break;
	}
	what(" %d+%llu", (int)(info.addr - (uintptr_t)world->memory[TARGET]),
	     (unsigned long long)info.length);
	what_bits("access", info.mw_access_flags, access_names, COUNT(access_names));
	scene->at = info.mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : info.addr;
	return info;
}

/* By the verb, as windows of type 1 are. */
static void bind_by_verb(struct scene *scene)
{
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};
	uint32_t key = scene->window->rkey;
	int result;

	what(" [bind_mw");
	bind.bind_info = pick_bind(scene);
	what("]");
	bind.wr_id = ++scene->id;
	scene->pair.asker = 1;
	if (scene->over)
		return;
	result = ibv_bind_mw(scene->pair.qp[1], scene->window, &bind);
	if (result == 0)
		scene->old_key = key;
	outcome("key=%s", scene->window->rkey == key ? "same" : "new");
	if (finish(scene, result))
		scene->bound = bind.bind_info.length;
}

/* By a request, as windows of type 2 are; with a key that may follow, or not. */
static void bind_by_request(struct scene *scene)
{
	static const char *const keys[] = {"wrong", "same"};
	uint32_t which = pick(scene->world, 16);
	struct request request;
	struct ibv_send_wr *wr = new_request(scene, &request, 1);
	uint32_t key = scene->window->rkey;
	bool good;

	wr->opcode = IBV_WR_BIND_MW;
	wr->bind_mw.mw = scene->window;
	wr->bind_mw.rkey = which == 0 ? key ^ 0x10000 : which == 1 ? key : ibv_inc_rkey(key);
	what(" [BIND_MW%s%s", which < COUNT(keys) ? " key=" : "",
	     which < COUNT(keys) ? keys[which] : "");
	wr->bind_mw.bind_info = pick_bind(scene);
	what("]");
	good = post(scene, &request);
	if (good)
		scene->bound = wr->bind_mw.bind_info.length;
	if (good && which > 1) {
		scene->old_key = key;
		scene->window->rkey = wr->bind_mw.rkey;
	}
}

static void pick_binding(struct scene *scene)
{
	bool usual_way = !one_in(scene->world, 24);

	if ((scene->window->type == IBV_MW_TYPE_1) == usual_way)
		bind_by_verb(scene);
	else
		bind_by_request(scene);
}

/* The peer by the window's key, inside or past an end. */
static void use(struct scene *scene)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	static const int offsets[] = {-8, 0, 0, 8, 56, 64, 8192};
	struct request request;
	struct ibv_send_wr *wr = new_request(scene, &request, 0);
	bool stale = one_in(scene->world, 12);
	uint32_t key = stale ? scene->old_key : scene->window->rkey;
	int offset = offsets[pick(scene->world, COUNT(offsets))];

	wr->opcode = opcodes[pick(scene->world, COUNT(opcodes))];
	what(" [%d%s at %d", wr->opcode, stale ? " key=old" : "", offset);
	request.sge[0] = (struct ibv_sge){(uintptr_t)scene->world->memory[LOCAL], 8,
					  scene->world->all[LOCAL]->lkey};
	wr->sg_list = request.sge;
	wr->num_sge = 1;
	what("]");
	if (request_is_atomic(wr)) {
		/* where it would not be aligned, that is what counts */
		wr->wr.atomic.remote_addr = (scene->at + (uint64_t)(int64_t)offset) & ~7ULL;
		wr->wr.atomic.rkey = key;
		wr->wr.atomic.compare_add = 1;
	} else {
		wr->wr.rdma.remote_addr = scene->at + (uint64_t)(int64_t)offset;
		wr->wr.rdma.rkey = key;
	}
	if (post(scene, &request))
		outcome("data=%08x", world_digest(scene->world));
}

/* LOCAL_INV by the owner, or a SEND by the peer; mostly of the window's key. */
static void invalidate(struct scene *scene)
{
	static const char *const names[] = {"old", "region", "dead", "window"};
	const uint32_t keys[] = {scene->old_key, scene->region->rkey, scene->world->dead_key,
				 scene->window->rkey};
	bool by_peer = one_in(scene->world, 2);
	uint32_t which = pick(scene->world, 12);
	struct request request;
	struct ibv_send_wr *wr = new_request(scene, &request, !by_peer);

	which = which < COUNT(keys) ? which : COUNT(keys) - 1;
	what(" [%s %s", by_peer ? "SEND_INV" : "LOCAL_INV", names[which]);
	wr->opcode = by_peer ? IBV_WR_SEND_WITH_INV : IBV_WR_LOCAL_INV;
	wr->invalidate_rkey = keys[which];
	if (by_peer)
		post_receive(scene->world, &scene->pair, 1, 0);
	what("]");
	/* of one that is not bound, Linux 6.12 breaks down */
	if (scene->bound && post(scene, &request))
		scene->bound = keys[which] != scene->window->rkey;
}

static void end_region(struct scene *scene)
{
	int result;

	what(" [dereg]");
	if (scene->over)
		return;
	result = ibv_dereg_mr(scene->region);
	outcome_errno("dereg", result);
	if (result == 0)
		reg(scene);
}

static void step(struct scene *scene)
{
	switch (pick(scene->world, 12)) {
	case 0:
	case 1:
		pick_binding(scene);
		break;
	case 2:
	case 3:
	case 4:
		invalidate(scene);
		break;
	case 5:
		end_region(scene);
		break;
	default:
		use(scene);
		break;
	}
}

void case_window(struct world *world)
{
	struct scene scene = {.world = world};

	world_fill(world);
	what("window");
	pick_region(&scene);
	pick_window(&scene);
	scene.at = (uintptr_t)world->memory[TARGET];
	pair_open(world, &scene.pair, &usual);
	for (int end = 0; end < 2; end++)
		pair_move(world, &scene.pair, end, IBV_QPS_RTS, &usual);
	if (!one_in(world, 8))
		pick_binding(&scene);
	for (int i = 0; i < STEPS; i++)
		step(&scene);
	/* the queue pair last: of a window that is bound to it rxe never lets go */
	outcome_errno("dealloc_mw", ibv_dealloc_mw(scene.window));
	outcome_errno("dereg", ibv_dereg_mr(scene.region));
	pair_close(&scene.pair);
}

/* Which there are, and that a domain with one stays. */
void case_alloc_window(struct world *world)
{
	struct ibv_pd *pd = ibv_alloc_pd(world->context);
	int type = (int)pick(world, 4);
	struct ibv_mw *window;

	need(pd, "ibv_alloc_pd");
	what("alloc_mw type=%d", type);
	errno = 0;
	window = ibv_alloc_mw(pd, type);
	outcome_errno("alloc", window ? 0 : errno);
	if (window) {
		outcome_errno("dealloc_pd", ibv_dealloc_pd(pd));
		outcome_errno("dealloc_mw", ibv_dealloc_mw(window));
	}
	outcome_errno("dealloc_pd", ibv_dealloc_pd(pd));
}
