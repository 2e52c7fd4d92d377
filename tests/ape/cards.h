/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cards of the torus with programs' memory behind them, in virtual time. */
#ifndef WEFT_TESTS_APE_CARDS_H
#define WEFT_TESTS_APE_CARDS_H

#include "torus.h"
#include "wire/ape/ni.h"

#define CARD_PROCESSES	 2u
#define CARD_BYTES	 (1u << 19)
#define CARD_SOURCES	 (CARD_BYTES / 2) /* behind this place bytes are sent from */
#define CARD_BASE	 0x10000u	  /* the address of the first byte */
#define CARD_EMPTY	 0xee
#define CARD_PATIENCE_NS 3000000u

struct cards;

struct card {
	struct weft_ape_ni card;
	struct cards *cards;
	uint8_t *bytes[CARD_PROCESSES];
	uint64_t room[CARD_PROCESSES], source[CARD_PROCESSES];
	unsigned int life, puts;
	uint8_t *verbs; /* of cards->verbs */
	bool faulty;	/* the memory of the node's processes cannot be reached */
};

typedef void cards_event_fn(struct cards *cards, uint32_t node, unsigned int process,
			    const struct weft_ape_event *event);

struct cards {
	struct torus torus;
	struct card *card;
	cards_event_fn *event;
	void (*counted)(struct cards *cards, uint32_t node); /* or NULL: as a counter grows */
	/* or NULL: cards take no packets of verbs */
	void (*verbs)(struct cards *cards, uint32_t node, struct weft_ape_coord from,
		      const uint8_t *payload, uint32_t bytes);
	struct weft_ape_ni_config config;
};

/* The configuration that all cards get, for tests that change it before cards_begin_with. */
struct weft_ape_ni_config cards_config(unsigned int x, unsigned int y, unsigned int z);
/* As live cards have it, with more than a beat in a word time. */
void cards_in_bursts(struct weft_ape_ni_config *config);
/* With FIFOs so deep that credits count units of 4 words. */
void cards_are_deep(struct weft_ape_ni_config *config);
void cards_begin_with(struct cards *c, const struct weft_ape_ni_config *config, uint64_t seed,
		      cards_event_fn *event);
/* Each process has registered all of its memory, and the cables are up; the seed is 1. */
void cards_begin_registered(struct cards *c, const struct weft_ape_ni_config *config,
			    cards_event_fn *event);
void cards_end(struct cards *c);
/* The node's card begins its next life. */
void card_restart(struct cards *c, uint32_t node);

uint8_t *card_bytes(struct cards *c, uint32_t node, unsigned int process, uint64_t addr);
/* Addresses: of empty room with a guard on either side; of bytes to send, which differ everywhere. */
uint64_t card_room(struct cards *c, uint32_t node, unsigned int process, uint64_t bytes);
uint64_t card_source(struct cards *c, uint32_t node, unsigned int process, uint64_t bytes);
/* Registers all of the process's memory, for others to PUT into and GET from. The buffer's number. */
int card_register_all(struct cards *c, uint32_t node, unsigned int process);
void card_receive(struct cards *c, uint32_t node, unsigned int process, uint64_t bytes);
bool card_post(struct cards *c, uint32_t node, unsigned int process,
	       const struct weft_ape_descriptor *d);

#endif
