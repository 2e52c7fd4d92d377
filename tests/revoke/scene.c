/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "scene.h"

const char *const way_name[WAYS] = {
	"dereg_mr",	"dereg_mr, of two", "rereg_mr, place", "rereg_mr, rights",
	"rereg_mr, PD", "QP to ERR",	    "QP to RESET",     "destroy_qp",
};
const char *const place_name[PLACES] = {"pooled", "mixed", "in place"};

struct scene scene;

/* ---- Memory ---- */

uint64_t scene_mapping_bytes(void)
{
	return scene.bytes + 8192;
}

uint8_t *scene_region_at(uint8_t *pages)
{
	return pages + (scene.place == MIXED ? 1000 : 0);
}

static uint8_t *map_pages(void)
{
	int how = scene.place == IN_PLACE ? MAP_SHARED : MAP_PRIVATE;
	void *at = mmap(NULL, scene_mapping_bytes(), PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS,
			-1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

void scene_begin_memory(enum place place, uint64_t bytes)
{
	scene.place = place;
	scene.bytes = bytes;
	scene.pages = map_pages();
	scene.spare = map_pages();
}

void scene_begin_region(void)
{
	scene.mr = ibv_reg_mr(scene.pd, scene_region_at(scene.pages), scene.bytes, RIG_ALL);
	assert_non_null(scene.mr);
}

void scene_end_region(void)
{
	if (scene.mr)
		assert_int_equal(ibv_dereg_mr(scene.mr), 0);
	if (scene.other)
		assert_int_equal(ibv_dereg_mr(scene.other), 0);
	scene.mr = scene.other = NULL;
}

void scene_end_memory(void)
{
	scene_end_region();
	munmap(scene.pages, scene_mapping_bytes());
	munmap(scene.spare, scene_mapping_bytes());
}

/* ---- The pattern, which must stay ---- */

static void check(const char *what, enum way way)
{
	const uint8_t *at = scene_region_at(scene.pages);

	for (uint64_t i = 0; i < scene.bytes; i += 8) {
		uint64_t word;

		memcpy(&word, at + i, 8);
		if (word == PATTERN)
			continue;
		fail_msg("%s, %s, %s: byte %" PRIu64 " of %" PRIu64 " became %016" PRIx64, what,
			 place_name[scene.place], way_name[way], i, scene.bytes, word);
	}
}

void scene_guard(const char *what, enum way way, uint64_t duration_ns)
{
	uint64_t end_ns = rig_now_ns() + duration_ns;

	do
		check(what, way);
	while (rig_now_ns() < end_ns);
}

void scene_fill(void)
{
	memset(scene_region_at(scene.pages), 0x5a, scene.bytes);
}

/* ---- Taking rights away ---- */

static void modify(int i, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {.qp_state = to};

	assert_int_equal(ibv_modify_qp(scene.qp[i], &attr, IBV_QP_STATE), 0);
}

void scene_destroy(int i)
{
	assert_int_equal(ibv_destroy_qp(scene.qp[i]), 0);
	assert_int_equal(ibv_destroy_cq(scene.cq[i]), 0);
	scene.qp[i] = NULL;
}

static void change(int flags, struct ibv_pd *pd, uint8_t *pages, int access)
{
	assert_int_equal(ibv_rereg_mr(scene.mr, flags, pd, pages ? scene_region_at(pages) : NULL,
				      pages ? scene.bytes : 0, access),
			 0);
}

void scene_take_from(int i, enum way way)
{
	switch (way) {
	case ONE_OF_TWO:
		scene.other = ibv_reg_mr(scene.pd, scene_region_at(scene.pages), scene.bytes / 2,
					 RIG_ALL);
		assert_non_null(scene.other);
		/* fallthrough */
	case DEREGISTER:
		assert_int_equal(ibv_dereg_mr(scene.mr), 0);
		scene.mr = NULL;
		break;
	case MOVE:
		change(IBV_REREG_MR_CHANGE_TRANSLATION, NULL, scene.spare, 0);
		break;
	case NARROW:
		change(IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL,
		       scene.imports ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_LOCAL_WRITE);
		break;
	case OTHER_DOMAIN:
		change(IBV_REREG_MR_CHANGE_PD, scene.other_pd, NULL, 0);
		break;
	case TO_ERROR:
		modify(i, IBV_QPS_ERR);
		break;
	case TO_RESET:
		modify(i, IBV_QPS_RESET);
		break;
	case DESTROY:
		scene_destroy(i);
		break;
	case WAYS:
		break;
	}
}

void scene_take_away(enum way way)
{
	for (int i = 0; i < (way < TO_ERROR ? 1 : WRITERS); i++)
		scene_take_from(i, way);
}

/* ---- Rounds ---- */

void scene_begin_qp(int i)
{
	struct ibv_qp_init_attr init;

	if (scene.qp[i]) {
		rig_modify(scene.qp[i], IBV_QPS_RESET, 0);
	} else {
		scene.cq[i] = ibv_create_cq(scene.context, RIG_DEPTH, NULL, NULL, 0);
		assert_non_null(scene.cq[i]);
		init = rig_init(scene.cq[i], scene.cq[i]);
		scene.qp[i] = ibv_create_qp(scene.pd, &init);
		assert_non_null(scene.qp[i]);
	}
	rig_modify(scene.qp[i], IBV_QPS_RTR, writer_await_ready(&scene.writer[i]));
}

void scene_fill_wire(int i, bool large, bool numbered)
{
	struct wire *wire = scene.writer[i].wire;

	wire->counts = false;
	wire->imports = scene.imports;
	wire->domain = scene.pd->handle;
	wire->qpn = scene.imports ? 0 : scene.qp[i]->qp_num;
	wire->rkey = scene.mr->rkey;
	wire->at = (uintptr_t)scene.mr->addr;
	wire->bytes = scene.bytes;
	wire->large = large;
	wire->numbered = numbered;
}

void scene_begin_writer(int i, bool large, bool numbered)
{
	scene_fill_wire(i, large, numbered);
	writer_begin(&scene.writer[i]);
}

void scene_begin_round(bool large)
{
	if (!scene.mr)
		scene_begin_region();
	for (int i = 0; i < WRITERS; i++) {
		if (scene.imports)
			writer_give(&scene.writer[i], scene.context->cmd_fd);
		else
			scene_begin_qp(i);
		scene_begin_writer(i, large, false);
	}
	for (int i = 0; i < WRITERS; i++)
		writer_await_writes(&scene.writer[i],
				    large ? 1 : next_random(&scene.random) % 100 + 1);
}

void scene_end_round(enum way way)
{
	for (int i = 0; i < WRITERS; i++)
		if (scene.writer[i].pid)
			writer_await_end(&scene.writer[i]);
	if (way < TO_ERROR) /* the region has another place, access or domain now */
		scene_end_region();
	scene.rounds[scene.place][way]++;
}

void scene_nap(uint64_t most_ns)
{
	uint64_t end_ns = rig_now_ns() + next_random(&scene.random) % most_ns;

	while (rig_now_ns() < end_ns)
		;
}

void scene_play(enum way way)
{
	scene_begin_round(false);
	scene_nap(200000);
	scene_take_away(way);
	scene_fill();
	scene_guard("at full speed", way, 2 * MS);
	scene_end_round(way);
}
