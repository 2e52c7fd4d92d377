/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A nic on a pool of its own, without an api: time stands still unless the test moves it, and
 * nobody works but the test. Its member has one address, world_gid.
 */
#ifndef WEFT_TESTS_NIC_WORLD_H
#define WEFT_TESTS_NIC_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nic/submit.h"

struct world {
	struct weft_pool *pool;
	struct weft_nic nic;
	struct weft_caller caller, card;
	struct weft_cq cq;
	uint64_t now_ns;
	uint32_t drained_events, fatal_events;
	enum weft_cause failed_of; /* the last request that failed */
	void (*yields)(void);	   /* somebody waits; NULL: nothing to do */
	void (*works)(void);	   /* what others do before the nic looks; likewise */
	void (*copies)(void);	   /* bytes are about to be moved; likewise */
};

extern struct world world;
extern const uint8_t world_gid[16], nobodys_gid[16];

/* cmocka fixtures of a group. */
int world_attach(void **state);
int world_detach(void **state);
/* The same, with a second thread's line, for a card that the test plays itself. */
int world_attach_with_card(void **state);
int world_detach_with_card(void **state);

/* The same in a pool that there is: 0. */
int world_join(void);
void world_leave(void);

/* The member has that address from now on. */
void world_publish(const uint8_t gid[16]);

void world_look(void); /* as a poll of nothing does */
void world_expect(uint64_t wr_id, enum weft_wc_status status);
void world_expect_none(void);

#endif
