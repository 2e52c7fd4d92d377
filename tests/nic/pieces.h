/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A transport that is as late as the test wants. It takes up to PIECES_MOST requests of a queue pair,
 * and answers all of them with *under way*; at a look it carries them to the responder, one at a time, in PIECES
 * pieces each, on a busy line of its own, and finds out there whether there is a receive and
 * a peer that answers, as a card would. Pieces may arrive in any order: the last one waits for
 * the others, as a program may poll the last byte.
 */
#ifndef WEFT_TESTS_NIC_PIECES_H
#define WEFT_TESTS_NIC_PIECES_H

#include "world.h"

#define PIECES	    4u
#define PIECES_MOST 4u

extern const struct weft_transport pieces;

extern struct pieces_will {
	bool held;   /* it does nothing on its own account */
	bool keeps;  /* what the responder has carried out is not told yet */
	bool clings; /* it does not let go of what it has, until somebody waits for that */
	char step; /* what it does at the next look although it is held: a piece ('0' to '3'), or the end ('e') */
	uint64_t answered; /* wr_id of one that is told of at the next look; 0: none */
	bool loses;	   /* at the next look all that is kept is lost, and asked for again */
} pieces_will;

extern struct weft_caller pieces_line;
extern uint32_t pieces_begun; /* requests, and those that had to begin anew */

void pieces_attach(void); /* the world is */
void pieces_detach(void);
/* As it is at first: nothing is held. */
void pieces_begin(void);

#endif
