/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A card in a process of its own: the program that CARD names. */
#ifndef WEFT_TESTS_HANDED_PROCESS_H
#define WEFT_TESTS_HANDED_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct card_process {
	pid_t pid; /* 0: it was seen to have ended */
	int in, out, status;
};

/* It plays the card when this returns. As card.c has them; fate may be NULL. */
void card_start(struct card_process *card, const char *part_bytes, const char *fate);
/* Whether it has died by itself; at which step, if it said so. */
bool card_has_died(struct card_process *card, char *step, size_t bytes);
/* Whether it was stopped by itself. */
bool card_has_stopped(struct card_process *card);
/* It ends, as its input does. The signal that it died of, or its exit status. */
int card_end(struct card_process *card);
/* What it said since it was ready; without the end of the line, and "" for nothing. */
void card_said(struct card_process *card, char *what, size_t bytes);

#endif
