/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the tests of revocation share: memory whose rights are taken away, the writers that lose them, and the
 * pattern that must stay afterwards. A failure of any function here fails the test.
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

/* Where the memory lies: in the pool; in the pool but for its ends; in place. */
enum place { POOLED, MIXED, IN_PLACE, PLACES };
extern const char *const place_name[PLACES];

struct scene {
	struct ibv_context *context;
	struct ibv_pd *pd, *other_pd;
	struct ibv_cq *cq[WRITERS];
	struct ibv_qp *qp[WRITERS];
	struct ibv_mr *mr, *other; /* other: a second region over the same memory */
	/* the memory, and other memory to which the region can be changed */
	uint8_t *pages, *spare;
	uint64_t bytes; /* length of the region */
	enum place place;
	struct writer writer[WRITERS];
	/* the writers have queue pairs of their own in the test's domain, and the test has none */
	bool imports;
	uint64_t random;
	uint64_t rounds[PLACES][WAYS];
};
extern struct scene scene;

/* Bytes at scene.pages: the region, and the memory around it. */
uint64_t scene_mapping_bytes(void);
/* Where the region begins: one of MIXED begins, and ends, in the middle of a page. */
uint8_t *scene_region_at(uint8_t *pages);
/* Maps memory of that kind, of which scene_begin_region registers `bytes`. */
void scene_begin_memory(enum place place, uint64_t bytes);
void scene_begin_region(void);
void scene_end_region(void);
void scene_end_memory(void);
/* The pattern that scene_fill has stored must stay for so long, or the test fails. */
void scene_guard(const char *what, enum way way, uint64_t duration_ns);
void scene_fill(void);
void scene_destroy(int i);
/* Takes rights from one writer: its queue pair, or the region, which others may use as well. scene_take_away
 * takes them from all writers. */
void scene_take_from(int i, enum way way);
void scene_take_away(enum way way);
void scene_begin_qp(int i);
void scene_fill_wire(int i, bool large, bool numbered);
void scene_begin_writer(int i, bool large, bool numbered);
/* Registers the region and lets the writers write; scene_end_round waits until all have ended. */
void scene_begin_round(bool large);
void scene_end_round(enum way way);
/* Spins for a random time. */
void scene_nap(uint64_t most_ns);
/* One round at full speed: rights are taken away in that way, and the memory is guarded. */
void scene_play(enum way way);

#endif
