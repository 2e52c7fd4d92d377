/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The conductor: plays a sequence on the model and on a fleet of processes, and compares the two. */
#ifndef WEFT_TESTS_MODEL_DRIVE_H
#define WEFT_TESTS_MODEL_DRIVE_H

#include <sys/types.h>

#include "board.h"
#include "generate.h"

#define MOST_STEPS 160

/* asleep: the processes leave requests that wait to the library, and only look now and then. */
struct sequence {
	uint64_t seed;
	int processes;
	bool asleep;
	int n;
	struct step step[MOST_STEPS];
};

/* How often completions came with each status, by sends and receives; how often each verb was refused and
 * accepted. */
struct tally {
	uint64_t steps;
	uint64_t status[2][IBV_WC_GENERAL_ERR + 1];
	uint64_t events[IBV_EVENT_WQ_FATAL + 1];
	uint64_t cq_events;
	uint64_t refused[VERBS], accepted[VERBS];
};

struct fleet {
	struct board *board;
	pid_t pid[PROCESSES];	  /* 0: not started */
	const char *card_program; /* of the card that carries the requests; NULL: there is none */
	pid_t card;
	int card_in, card_out;
	char folder[64]; /* of the pool */
	uint64_t played; /* how many sequences these processes have played */
	struct tally tally;
	bool verbose;
};

/* Starts no processes yet. False, with a word on stderr: there is no memory or no folder for pools. */
bool fleet_open(struct fleet *f);
/* Ends all processes, those that hang included; the next sequence gets new ones, and a new pool. */
void fleet_renew(struct fleet *f);
void fleet_close(struct fleet *f);

/*
 * Plays those steps of a sequence that are possible, then destroys all objects. With a generator, `steps` new
 * steps are made, and kept in the sequence. False: the processes differ from the model; `why` says how, and
 * `*at` is the step. Then the caller must renew the fleet.
 */
bool drive_play(struct fleet *f, struct sequence *s, struct generator *g, int steps, char *why,
		size_t why_bytes, int *at);

#endif
