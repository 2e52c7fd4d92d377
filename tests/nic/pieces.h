/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A transport that carries a request in PIECES pieces, each when the test says so, on a busy line
 * of its own. It waits for nobody: a responder that does not answer ends the request.
 */
#ifndef WEFT_TESTS_NIC_PIECES_H
#define WEFT_TESTS_NIC_PIECES_H

#include "world.h"

#define PIECES 4u

extern const struct weft_transport pieces;

/* What it does at the next look: a piece ('0' to '3'), the end ('e'), or nothing (0). */
extern char pieces_step;
extern struct weft_caller pieces_line;
extern uint32_t pieces_begun; /* requests, and those that had to begin anew */

#endif
