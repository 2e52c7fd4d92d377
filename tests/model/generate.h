/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Random steps. Each is chosen with the model at hand, so that most of them have an effect: steps chosen
 * evenly would hardly ever connect two queue pairs.
 */
#ifndef WEFT_TESTS_MODEL_GENERATE_H
#define WEFT_TESTS_MODEL_GENERATE_H

#include "../random.h"
#include "model.h"

#define PLAN 64

struct generator {
	uint64_t random;
	uint64_t wr_id;
	uint32_t slab_bytes;
	struct step plan[PLAN]; /* steps that are mostly made before random ones */
	unsigned int planned, taken;
};

/* Begins a sequence: plans the first objects of each process, and a connection. */
void generate_begin(struct generator *g, uint64_t seed, int processes, uint32_t slab_bytes);
/* Makes the next step, which is possible in this model. */
struct step generate_step(struct generator *g, struct model *m);

/* ---- For the files of the generator only ---- */

static inline uint64_t random_word(struct generator *g)
{
	return splitmix64(&g->random);
}

static inline uint32_t below(struct generator *g, uint64_t n)
{
	return (uint32_t)(random_word(g) % n);
}

static inline bool chance(struct generator *g, unsigned int percent)
{
	return below(g, 100) < percent;
}

/* generate_requests.c. The queue pair must exist. */
void generate_receives(struct generator *g, struct model *m, const struct qp *qp, struct step *s);
void generate_sends(struct generator *g, struct model *m, const struct qp *qp, struct step *s);

#endif
