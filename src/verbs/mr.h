/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory regions (mr.c, odp.c). */
#ifndef WEFT_VERBS_MR_H
#define WEFT_VERBS_MR_H

#include <stdbool.h>

#include "migrate/region.h"
#include "nic/mr.h"
#include "verbs/verbs.h"

struct weft_device;

struct weft_verbs_mr {
	struct ibv_mr mr;
	struct weft_mr nic;
	struct weft_region region;  /* unless it is memory of a device: */
	struct weft_device *device; /* or NULL */
	uint64_t iova;
	unsigned int access;
	bool special;  /* not of the program's own memory: it cannot be registered anew */
	bool loose;    /* its domain may go first */
	bool imported; /* another process's: only the handle is ours */
	/* called when it has ended; quiet: no executor can reach it any more */
	void (*leave)(struct weft_verbs_mr *mr, bool quiet);
	void *of;
};

/* A region of something else than the program's own memory (mr.c). */
struct weft_mr_source {
	const char *verb;
	void *told; /* the address in struct ibv_mr */
	uint64_t iova, va;
	size_t len_bytes;
	unsigned int access;
	const struct weft_mr_piece *pieces;
	unsigned int npieces;
	bool loose; /* its domain may go first: nothing of it is read then */
	void (*leave)(struct weft_verbs_mr *mr, bool quiet); /* or NULL */
	void *of;
};

static inline struct weft_verbs_mr *weft_mr(struct ibv_mr *mr)
{
	return (struct weft_verbs_mr *)mr;
}

/* Rights as ibv_reg_mr has them? If not, the verb was told so. */
bool weft_verbs_good_access(const char *verb, unsigned int access);
/* Bits that are defined, as a queue pair takes them, whether they go together or can be had at all, or not?
 * Likewise. Network cards look at no others than the rights of peers there; Soft-RoCE refuses undefined ones. */
bool weft_verbs_known_access(const char *verb, unsigned int access);
/* NULL and errno. pd is one of ours. */
struct ibv_mr *weft_verbs_special_mr(struct ibv_pd *pd, const struct weft_mr_source *source);
/* odp.c: over all of memory, present and future. */
struct ibv_mr *weft_verbs_implicit_mr(struct ibv_pd *pd, unsigned int access);
/* mr.c: see struct weft_process_api. */
void weft_verbs_rehome(void);

#endif
