/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A nic on a pool of its own, without an api: time stands still unless the test advances it, and no other
 * thread or process works on it. Its member has one address, world_gid.
 */
#ifndef WEFT_TESTS_NIC_WORLD_H
#define WEFT_TESTS_NIC_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nic/submit.h"

/* How memory of devices is reached: the row of the nic's machine, and what the helper of its owner's process calls. */
struct world_devices {
	struct weft_memory row;
	int (*copy)(uint64_t id, uint64_t va, void *here, uint64_t len_bytes, bool write);
	int (*change)(uint64_t id, uint64_t va, bool add, uint64_t compare_add, uint64_t swap,
		      uint64_t *value);
};

struct world {
	struct weft_pool *pool;
	struct weft_nic nic;
	struct weft_caller caller, card;
	struct weft_cq cq;
	uint64_t now_ns;
	uint32_t drained_events, fatal_events, kicks;
	enum weft_cause failed_of; /* why the last failed request has failed */
	/* called where the nic waits for another thread; NULL: nothing to do */
	void (*yields)(void);
	/* called before the nic looks, as the work of others; NULL: nothing to do */
	void (*works)(void);
	void (*copies)(void); /* called right before bytes are copied; NULL: nothing to do */
	const struct world_devices *devices; /* NULL: no memory of any */
};

extern struct world world;
extern const uint8_t world_gid[16], unused_gid[16];

/* cmocka fixtures of a group. */
int world_attach(void **state);
int world_detach(void **state);
/* The same, with a second busy line, for a card that the test plays itself. */
int world_attach_with_card(void **state);
int world_detach_with_card(void **state);

/* Joins the pool that WEFT_POOL names, as world_attach does with a new one; returns 0. */
int world_join(void);
void world_leave(void);

/* Publishes that address as the member's. */
void world_publish(const uint8_t gid[16]);

void world_look(void); /* looks at all queue pairs, as a poll that finds nothing does */
void world_expect(uint64_t wr_id, enum weft_wc_status status);
void world_expect_none(void);

#endif
