/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A look at the hosts of a pool from outside: no member, and nothing is changed. Context: one thread. */
#ifndef WEFT_POOL_VIEW_HOST_H
#define WEFT_POOL_VIEW_HOST_H

#include <limits.h>
#include <stdint.h>

#include "backing/backing.h"
#include "pool/format.h"
#include "pool/format_host.h"

enum weft_view_host_state {
	WEFT_HOST_NEVER,  /* it has not come yet */
	WEFT_HOST_EMPTY,  /* no program of it is there: it answers nothing */
	WEFT_HOST_UP,	  /* it beats */
	WEFT_HOST_SILENT, /* it has members, and has not beaten for the pool's silence */
	WEFT_HOST_EVICTED, /* an operator has said that its life is over, and it has not come again */
};

struct weft_view_host {
	enum weft_view_host_state state;
	char name[WEFT_HOST_NAME + 1];
	uint64_t life, beat;
	uint64_t beat_ns; /* how long ago that was, as far as was looked */
	uint64_t leased_bytes;
	uint32_t members; /* that live, and are not buried yet */
};

/* Of a memory that is open to be looked at, with that header; the rest as below. -EPROTO. */
int weft_view_look_at_hosts(const struct weft_backing *on, struct weft_backed *backed,
			    const struct weft_pool_header *header,
			    struct weft_view_host host[WEFT_HOSTS]);
/*
 * The hosts of a pool that has several, by number. Looks until it knows of each whether it beats: of one that is silent for
 * the pool's silence. -EINVAL: the pool has one host; else as weft_view_open.
 */
int weft_view_hosts(const char *path, char where[PATH_MAX], struct weft_view_host host[WEFT_HOSTS],
		    uint32_t *hosts, const char **why);

#endif
