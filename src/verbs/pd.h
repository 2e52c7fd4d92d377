/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Protection domains and thread domains (pd.c, domain.c). */
#ifndef WEFT_VERBS_PD_H
#define WEFT_VERBS_PD_H

#include <stdbool.h>

#include "pool/format_object.h"
#include "process/object.h"
#include "verbs/verbs.h"

struct weft_verbs_pd {
	struct ibv_pd pd;
	uint32_t number; /* in all of the pool */
	/* regions, queue pairs, windows, and those below it; of an import, where others see it */
	_Atomic uint32_t *users, own_users;
	struct weft_object object; /* of its own, or as an import; a parent domain has none */
	bool imported;
	struct weft_pool_object domain; /* the entry of what is imported */
	/* of a parent domain: what stands behind it */
	struct weft_verbs_pd *behind;
	struct weft_verbs_td *td;
};

struct weft_verbs_td {
	struct ibv_td td;
	_Atomic uint32_t users; /* parent domains */
};

static inline struct weft_verbs_pd *weft_pd(struct ibv_pd *pd)
{
	return (struct weft_verbs_pd *)pd;
}

/* pd.c: a domain with the rights of another. NULL and errno. */
struct ibv_pd *weft_verbs_pd_behind(struct ibv_context *context, struct weft_verbs_pd *behind);
/* A handle of the domain of that number and entry. NULL and errno. */
struct ibv_pd *weft_verbs_pd_import(struct ibv_context *context,
				    const struct weft_pool_object *domain, uint32_t number);
/* One object more is in that domain, from before it is made; or one less. 0; EINVAL, told: it has ended. */
int weft_verbs_pd_use(const char *verb, struct ibv_pd *pd);
void weft_verbs_pd_leave(struct ibv_pd *pd);
/* Whether it is an import, and what that stands for has ended. */
bool weft_verbs_pd_ended(const struct weft_verbs_pd *pd);
/* Its context ends: as ibv_dealloc_pd, even if other processes use it. */
void weft_verbs_end_pd(struct ibv_pd *pd);

#endif
