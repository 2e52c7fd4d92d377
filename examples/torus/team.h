/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Programs that work together, one on each node of a lattice. Each has slots, in which the others put messages for it; a slot has room for
 * one message that is read and one that comes. Two ranks always speak by turns: each sends one message into the slot of the
 * other, and reads what came in its own; so neither can be two ahead, and nothing is overwritten.
 *
 * team_ape.c does it by PUT over a torus, team_mpi.c by MPI, team_alone.c in one process, which sends to itself.
 * What goes wrong ends the program.
 */
#ifndef WEFT_EXAMPLES_TEAM_H
#define WEFT_EXAMPLES_TEAM_H

#include <stddef.h>

#define TEAM_SLOTS 40u /* of a program */
#define TEAM_MAX   64u /* ranks */

struct team {
	unsigned int size[3]; /* of the lattice */
	unsigned int at[3];   /* our place in it */
	unsigned int rank, ranks;
};

/* Finds the lattice, and our place in it. */
void team_begin(struct team *team, int argc, char **argv);
/* Then, once: makes slots 0 to slots - 1, each for messages of so many bytes at most, the same for all, and finds the others. */
void team_open(struct team *team, unsigned int slots, size_t bytes);
void team_end(struct team *team);

/* The rank of the neighbour in a dimension, up (+1) or down (-1), round the ring. */
unsigned int team_neighbour(const struct team *team, unsigned int dimension, int way);

/* Where message n, of as many as there are slots, is written before it is sent; after it was sent the next is. */
void *team_message(struct team *team, unsigned int n);
void team_send(struct team *team, unsigned int n, unsigned int rank, unsigned int slot,
	       size_t bytes);
/* Waits for the next message in a slot. It stays until the next is sent in return. */
const void *team_receive(struct team *team, unsigned int slot, size_t *bytes);

/* The sum of what each rank has, the same to the bit for all; their number is a power of two. */
double team_sum(struct team *team, double value);

/* Seconds since some time. */
double team_clock(void);

#endif
