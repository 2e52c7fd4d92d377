/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A transport that is as late as the test wants. It takes up to PIECES_MOST requests of a queue pair, and
 * answers WEFT_UNDER_WAY to all of them. When the nic looks, it carries them to the responder, one at a time,
 * in PIECES parts each, on a busy line of its own, and finds out there whether there is a receive and a peer
 * that answers, as a card would. Parts may arrive in any order; the last one is placed behind the others, as
 * a program may poll the last byte.
 */
#ifndef WEFT_TESTS_NIC_PIECES_H
#define WEFT_TESTS_NIC_PIECES_H

#include "world.h"

#define PIECES	    4u
#define PIECES_MOST 4u

extern const struct weft_transport pieces;

extern struct pieces_will {
	bool held;   /* the transport does nothing by itself */
	bool keeps;  /* it keeps the answers of requests that were carried out */
	bool clings; /* it lets go of requests only when a thread waits for that */
	/* what it does at the next look although it is held: a part ('0' to '3'), the beginning
	 * ('b') or the end ('e') */
	char step;
	uint64_t answered; /* wr_id of a request whose answer comes at the next look; 0: none */
	/* at the next look all answers that were kept are lost, and asked for again */
	bool loses;
} pieces_will;

extern struct weft_caller pieces_line;
extern uint32_t pieces_begun; /* how many requests were begun, counting those that began anew */

void pieces_attach(void); /* the world must be attached */
void pieces_detach(void);
/* Back to the beginning: nothing is held or kept. */
void pieces_begin(void);

#endif
