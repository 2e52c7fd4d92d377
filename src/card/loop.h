/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The turns of a card: what has come on its socket, what is due, what may go, what its doorbells tell. When there is
 * nothing it sleeps until one of them wakes it. Members that have a doorbell for it write into its pipe (pool/wake.c);
 * the process's helper does for those that cannot, and passes on what else it is woken for.
 *
 * Context: one thread; one loop a process.
 */
#ifndef WEFT_CARD_LOOP_H
#define WEFT_CARD_LOOP_H

#include "card/groups.h"
#include "card/wire.h"

struct weft_loop {
	struct weft_wire *wire;
	struct weft_udp *udp;
	uint64_t
		empty_ns; /* when it was about to be asked for all that had come, for the last time; 0: never yet */
	struct weft_groups groups;
	int woken[2];	    /* a pipe; the second end reads, too, but for where there is no /proc */
	bool rang;	    /* a doorbell, since it last slept */
	bool rested;	    /* until its time was over */
	uint32_t useful;    /* rests in a row that have brought something */
	uint32_t idle;	    /* rests that it does not take, as one has brought nothing */
	uint32_t next_idle; /* as many after the next one that does */
	uint64_t looked_ns; /* when it last looked for the dead */
	uint64_t measured_ns; /* when it last asked what its interface carries */
	uint64_t seen;	      /* packets and doorbells, until its last look */
	uint64_t rung;	      /* doorbells: looks that have found some */
	uint32_t quiet;	      /* looks in a row since which there was none of them */
	uint64_t used_ns;     /* when it last had a queue pair */
	uint64_t linger_ns;   /* so long after that it ends; UINT64_MAX: never */
};

/* 0 or -errno. */
int weft_loop_begin(struct weft_loop *loop, struct weft_wire *wire, struct weft_udp *udp,
		    uint64_t linger_ns);
void weft_loop_end(struct weft_loop *loop);

/* Until *stop, or for so long without a queue pair. */
void weft_loop_run(struct weft_loop *loop, const atomic_bool *stop);

#endif
