/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the tests of revocation have in common: memory whose rights are taken away, the writers that
 * lose them, and the pattern that must stay afterwards. Whatever fails here fails the test.
 */
#ifndef WEFT_TESTS_REVOKE_SCENE_H
#define WEFT_TESTS_REVOKE_SCENE_H

#include <stdbool.h>
#include <stdint.h>

#include "../verbs/rig.h"
#include "writer.h"

#define WRITERS 2
#define PATTERN 0x5a5a5a5a5a5a5a5aull
#define MS	1000000ull

enum way { DEREGISTER, ONE_OF_TWO, MOVE, NARROW, OTHER_DOMAIN, TO_ERROR, TO_RESET, DESTROY, WAYS };
extern const char *const way_name[WAYS];

/* Where memory lies: in the pool; its ends in place; all of it. */
enum place { POOLED, MIXED, IN_PLACE, PLACES };
extern const char *const place_name[PLACES];

struct scene {
	struct ibv_context *context;
	struct ibv_pd *pd, *other_pd;
	struct ibv_cq *cq[WRITERS];
	struct ibv_qp *qp[WRITERS];
	struct ibv_mr *mr, *other; /* other: over the same memory */
	uint8_t *pages, *spare;	   /* the mapping, and one to move the region to */
	uint64_t bytes;		   /* of the region */
	enum place place;
	struct writer writer[WRITERS];
	bool imports; /* writers have queue pairs of their own in our domain, and we have none */
	uint64_t random;
	uint64_t rounds[PLACES][WAYS];
};
extern struct scene scene;

/* Of scene.pages: the region, and what stands around it. */
uint64_t scene_mapping_bytes(void);
/* A mixed region begins and ends in the middle of a page. */
uint8_t *scene_region_at(uint8_t *pages);
/* Memory of that kind, of which scene_begin_region registers `bytes`. */
void scene_begin_memory(enum place place, uint64_t bytes);
void scene_begin_region(void);
void scene_end_region(void);
void scene_end_memory(void);
/* Whatever scene_fill has written stays for so long, else the test fails. */
void scene_guard(const char *what, enum way way, uint64_t duration_ns);
void scene_fill(void);
void scene_destroy(int i);
/* For one writer, as queue pairs are; a region's end is for all. */
void scene_take_from(int i, enum way way);
void scene_take_away(enum way way);
void scene_begin_qp(int i);
void scene_fill_wire(int i, bool large, bool numbered);
void scene_begin_writer(int i, bool large, bool numbered);
/* The writers write; the region is registered. */
void scene_begin_round(bool large);
void scene_end_round(enum way way);
/* Spins for a random time. */
void scene_nap(uint64_t most_ns);
/* A round: rights are taken away that way, and the memory guarded. */
void scene_play(enum way way);

#endif
