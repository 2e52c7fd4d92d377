/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What members and cards tell each other in their pages: see hand.h. */
#ifndef WEFT_POOL_DOORBELL_H
#define WEFT_POOL_DOORBELL_H

#include <stdint.h>

#include "backing/atomic.h"

#define WEFT_DOORBELLS 64u

/* Which requests a card carries that come from one of its addresses. */
enum weft_card_reach {
	WEFT_CARD_NONE,	  /* it is none */
	WEFT_CARD_BEYOND, /* those to addresses that no member of the pool has */
	WEFT_CARD_ALL,	  /* those, too, that others could reach in the pool: of tests */
};

/*
 * Which of its queue pairs have something for a card: ring n stands in doorbell n % WEFT_DOORBELLS until that is
 * overwritten. A card that finds it overwritten looks at all queue pairs of the member.
 */
struct weft_pool_card {
	_Alignas(64) _Atomic uint64_t rings;	   /* [O] so many; stored last */
	_Atomic uint32_t doorbell[WEFT_DOORBELLS]; /* [O] index of a queue pair */
	_Atomic uint32_t
		reach; /* [O] enum weft_card_reach: the member is a card for the addresses that it has */
};

#endif
