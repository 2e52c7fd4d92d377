/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cases of memory windows: bound well and badly, used by the peer, invalidated by either side. Queue pair 1
 * owns them. At most one thing is wrong in each case; the case ends with the step that fails, though all
 * steps are drawn. */
#include <errno.h>
#include <string.h>

#include "cases.h"
#include "request.h"

enum fault_of {
	NOTHING_WRONG,
	REGION_WRONG,
	WINDOW_WRONG,
	BIND_WRONG,
	KEY_WRONG,
	PLACE_WRONG,
	INVALIDATION_WRONG,
	FAULTS
};

struct scene {
	enum fault_of wrong;
	struct world *world;
	struct pair pair;
	struct ibv_mr *region; /* over the buffer TARGET */
	struct ibv_pd *region_pd;
	int region_access;
	struct ibv_mw *window;
	uint32_t old_key;    /* the window's key before it was bound last */
	uint64_t at, length; /* the range that the window shows */
	uint64_t id;	     /* of the last request */
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
	bool wrong = scene->wrong == REGION_WRONG, foreign = wrong && one_in(scene->world, 3);

	if (wrong && !foreign)
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
	bool foreign = scene->wrong == WINDOW_WRONG;

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
	if (!tell_completions(scene->world, &scene->pair, result ? 0 : scene->id) || result)
		scene->over = true;
	return !scene->over;
}

static bool post(struct scene *scene, struct request *request)
{
	struct ibv_send_wr *bad;

	if (scene->over)
		return false;
	return finish(scene, ibv_post_send(scene->pair.qp[scene->pair.asker], &request->wr, &bad));
}

static void spoil_bind(struct world *world, struct ibv_mw_bind_info *info)
{
	switch (pick(world, 5)) {
	case 0:
		info->length = 0;
		break;
	case 1:
		info->length = BUFFER_BYTES + 1;
		break;
	case 2:
		info->addr -= 8192;
		break;
	case 3:
		info->mw_access_flags |= IBV_ACCESS_ZERO_BASED;
		break;
	default:
		info->mw_access_flags |= IBV_ACCESS_LOCAL_WRITE;
		break;
	}
}

/* Draws a range and its access. */
static struct ibv_mw_bind_info pick_bind(struct scene *scene, bool wrong)
{
	static const uint32_t starts[] = {0, 8, 104, 4096}, lengths[] = {64, 104, 4096, 8192};
	struct world *world = scene->world;
	struct ibv_mw_bind_info info = {.mr = scene->region};

	info.addr = (uintptr_t)world->memory[TARGET] + starts[pick(world, COUNT(starts))];
	info.length = lengths[pick(world, COUNT(lengths))];
	info.mw_access_flags = one_in(world, 3) ? pick(world, 8) << 1 : ALL_RIGHTS - 1;
	if (wrong)
		spoil_bind(world, &info);
	what(" %d+%llu", (int)(info.addr - (uintptr_t)world->memory[TARGET]),
	     (unsigned long long)info.length);
	what_bits("access", info.mw_access_flags, access_names, COUNT(access_names));
	scene->at = info.mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : info.addr;
	scene->length = info.length;
	return info;
}

/* Binds by the verb, as it is done for windows of type 1. */
static void bind_by_verb(struct scene *scene, bool wrong)
{
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};
	uint32_t key = scene->window->rkey;
	int result;

	what(" [bind_mw");
	bind.bind_info = pick_bind(scene, wrong);
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

/* Binds by a request, as it is done for windows of type 2, with a key that is a valid successor or not. */
static void bind_by_request(struct scene *scene, bool wrong)
{
	struct request request;
	struct ibv_send_wr *wr = new_request(scene, &request, 1);
	bool wrong_key = wrong && one_in(scene->world, 4);
	uint32_t key = scene->window->rkey;

	wr->opcode = IBV_WR_BIND_MW;
	wr->bind_mw.mw = scene->window;
	wr->bind_mw.rkey = wrong_key ? key ^ 0x10000 : ibv_inc_rkey(key);
	what(" [BIND_MW%s", wrong_key ? " key=wrong" : "");
	wr->bind_mw.bind_info = pick_bind(scene, wrong && !wrong_key);
	what("]");
	if (!post(scene, &request))
		return;
	scene->bound = wr->bind_mw.bind_info.length;
	scene->old_key = key;
	scene->window->rkey = wr->bind_mw.rkey;
}

static void bind(struct scene *scene, bool wrong)
{
	bool other_way = wrong && one_in(scene->world, 6);

	if ((scene->window->type == IBV_MW_TYPE_1) != other_way)
		bind_by_verb(scene, wrong && !other_way);
	else
		bind_by_request(scene, wrong && !other_way);
}

/* The peer uses the window's key, in the window or past one of its ends. */
static void use(struct scene *scene)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct request request;
	struct ibv_send_wr *wr = new_request(scene, &request, 0);
	bool stale = scene->wrong == KEY_WRONG && one_in(scene->world, 2);
	bool outside = scene->wrong == PLACE_WRONG && one_in(scene->world, 2);
	uint64_t at = scene->at + 8 * pick(scene->world, 7);

	wr->opcode = opcodes[pick(scene->world, COUNT(opcodes))];
	what(" [%s%s%s]",
	     wr->opcode == IBV_WR_RDMA_WRITE  ? "WRITE"
	     : wr->opcode == IBV_WR_RDMA_READ ? "READ"
					      : "FAA",
	     stale ? " key=old" : "", outside ? " outside" : "");
	if (outside)
		at = scene->at + (one_in(scene->world, 2) ? -8ULL : scene->length);
	request.sge[0] = (struct ibv_sge){(uintptr_t)scene->world->memory[LOCAL], 8,
					  scene->world->all[LOCAL]->lkey};
	wr->sg_list = request.sge;
	wr->num_sge = 1;
	if (request_is_atomic(wr)) {
		wr->wr.atomic.remote_addr = at;
		wr->wr.atomic.rkey = stale ? scene->old_key : scene->window->rkey;
		wr->wr.atomic.compare_add = 1;
	} else {
		wr->wr.rdma.remote_addr = at;
		wr->wr.rdma.rkey = stale ? scene->old_key : scene->window->rkey;
	}
	if (post(scene, &request))
		outcome("data=%08x", world_digest(scene->world));
}

/* LOCAL_INV by the owner, or SEND with invalidate by the peer. */
static void invalidate(struct scene *scene)
{
	static const char *const names[] = {"window", "old", "region", "dead"};
	const uint32_t keys[] = {scene->window->rkey, scene->old_key, scene->region->rkey,
				 scene->world->dead_key};
	bool by_peer = one_in(scene->world, 2);
	uint32_t which =
		scene->wrong == INVALIDATION_WRONG ? 1 + pick(scene->world, COUNT(keys) - 1) : 0;
	struct request request;
	struct ibv_send_wr *wr = new_request(scene, &request, !by_peer);

	what(" [%s %s", by_peer ? "SEND_INV" : "LOCAL_INV", names[which]);
	wr->opcode = by_peer ? IBV_WR_SEND_WITH_INV : IBV_WR_LOCAL_INV;
	wr->invalidate_rkey = keys[which];
	if (by_peer)
		post_receive(scene->world, &scene->pair, 1, 0);
	what("]");
	/* Linux 6.12 crashes at an invalidation of a window that is not bound */
	if (scene->bound && post(scene, &request))
		scene->bound = which;
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

void case_window(struct world *world)
{
	struct scene scene = {.world = world};

	scene.wrong = one_in(world, 3) ? NOTHING_WRONG : pick(world, FAULTS);
	world_fill(world);
	what("window");
	pick_region(&scene);
	pick_window(&scene);
	pair_open(world, &scene.pair, &usual);
	for (int end = 0; end < 2; end++)
		pair_modify(world, &scene.pair, end, IBV_QPS_RTS, &usual);
	bind(&scene, scene.wrong == BIND_WRONG);
	if (one_in(world, 6))
		end_region(&scene);
	use(&scene);
	if (one_in(world, 2) || scene.wrong == INVALIDATION_WRONG)
		invalidate(&scene);
	else if (one_in(world, 2))
		bind(&scene, false);
	use(&scene);
	/* the queue pair last: rxe never destroys one to which a window is bound */
	outcome_errno("dealloc_mw", ibv_dealloc_mw(scene.window));
	outcome_errno("dereg", ibv_dereg_mr(scene.region));
	pair_close(&scene.pair);
}

/* Which types of windows exist, and that a domain with a window cannot be deallocated. */
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
