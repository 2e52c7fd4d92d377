/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Credits of a cable: what a receiver says of its FIFOs, and what the sender makes of it.
 *
 * A credit is absolute: the words in each FIFO plus the margin. Since the receiver does not know what is still on the
 * cable, the credit also counts the words that were taken in; to the sender, what it sent and is not counted
 * there yet is used. A word that the cable lost would be used for ever: therefore each end also
 * marks its credits with a number that grows, and says which mark it saw last. All that was sent
 * before a mark that was seen has arrived or will never; so both are known to be no longer under
 * way, and the count is put right.
 */
#ifndef WEFT_WIRE_APE_CREDIT_H
#define WEFT_WIRE_APE_CREDIT_H

#include "wire/ape/fifo.h"
#include "wire/ape/secded.h"

#define WEFT_APE_MARKS 256u

/* Counts are of data words and of words for the header FIFO, each for both virtual channels. */
struct weft_ape_counts {
	uint32_t data, headers;
};

struct weft_ape_credit {
	struct weft_ape_counts used[WEFT_APE_CHANNELS];	 /* in the FIFO, margin included */
	struct weft_ape_counts taken[WEFT_APE_CHANNELS]; /* in all, modulo 4096 << shift and 256 */
	uint8_t shift; /* data words are told in units of 1 << shift, as deep FIFOs need it */
	uint8_t mark, seen;
	bool deaf;    /* its sender hears nothing of the other end */
	bool between; /* its sender is between packets: the one that began before has ended */
	bool wants;   /* its sender has a packet that finds no room, as far as it was told */
};

/* With its check bits. Counts beyond their widths are cut to them. */
struct weft_ape_word weft_ape_credit_build(const struct weft_ape_credit *c);
/* Parses a word that SECDED has checked, of a cable whose ends count by 1 << shift. False: it is no credit, as after damage. */
bool weft_ape_credit_parse(struct weft_ape_word word, uint8_t shift, struct weft_ape_credit *c);

/* What a sender knows of the FIFOs at the other end. */
struct weft_ape_ledger {
	bool known; /* a credit has come */
	uint8_t mark, seen;
	struct weft_ape_counts sent[WEFT_APE_CHANNELS];
	struct weft_ape_counts arrived[WEFT_APE_CHANNELS]; /* or lost */
	struct weft_ape_counts lost[WEFT_APE_CHANNELS];
	struct weft_ape_counts used[WEFT_APE_CHANNELS];
	struct weft_ape_counts at_mark[WEFT_APE_MARKS][WEFT_APE_CHANNELS];
};

/* Nothing is known, and nothing may be sent. */
void weft_ape_ledger_reset(struct weft_ape_ledger *l);
/* The mark for a credit that is sent now, behind all that was sent. */
uint8_t weft_ape_ledger_mark(struct weft_ape_ledger *l);
/* Whether something was sent since the last mark. */
bool weft_ape_ledger_unmarked(const struct weft_ape_ledger *l);
void weft_ape_ledger_credit(struct weft_ape_ledger *l, const struct weft_ape_credit *c);
/* Whether a packet with so many words of payload is granted. */
bool weft_ape_ledger_grants(const struct weft_ape_ledger *l, unsigned int vc, unsigned int words,
			    struct weft_ape_counts threshold);

#endif
