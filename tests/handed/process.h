/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A card in a process of its own: the program that CARD names. */
#ifndef WEFT_TESTS_HANDED_PROCESS_H
#define WEFT_TESTS_HANDED_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct card_process {
	pid_t pid; /* 0: its end was seen */
	int in, out, status;
};

/* Starts the card, and returns when it is ready. Arguments are those of card.c; fate may be NULL. */
void card_start(struct card_process *card, const char *part_bytes, const char *fate);
/* Whether the card has died by itself; `step` is where, if it has said so. */
bool card_has_died(struct card_process *card, char *step, size_t bytes);
/* Whether the card has stopped by itself. */
bool card_has_stopped(struct card_process *card);
/* Ends the card by ending its input. Returns the signal that it died of, or its exit status. */
int card_end(struct card_process *card);
/* What the card has printed since it was ready, without the end of the line; "": nothing. */
void card_said(struct card_process *card, char *what, size_t bytes);

#endif
