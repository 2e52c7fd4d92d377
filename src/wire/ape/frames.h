/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * APElink: packets as beats of one cable, and back. The owner calls weft_ape_tx_step and
 * weft_ape_rx_beat once for each word time of a direction; time is an argument for what has to be
 * said although nothing happens.
 *
 * A beat of 64 bits is half a word of content, one of 256 is two; what fills the last is 0. A
 * credit is two beats of 64 bits, or stands twice in one of 256.
 *
 * A credit of a cable that has nothing else to send comes behind MAGIC, too, and says that it is
 * between packets: so a packet that lost words ends although no other follows it. Where each word
 * time has a beat one in 16 of them does.
 */
#ifndef WEFT_WIRE_APE_FRAMES_H
#define WEFT_WIRE_APE_FRAMES_H

#include "wire/ape/credit.h"

/* Kinds of beats, as both ends count them. MAGIC: in front of START and of a credit within a
 * packet; ESCAPE: the one in front of a MAGIC that is content. A beat of several words is of the
 * first's kind. */
enum weft_ape_kind {
	WEFT_APE_K_MAGIC,
	WEFT_APE_K_START,
	WEFT_APE_K_HEADER,
	WEFT_APE_K_DATA,
	WEFT_APE_K_FOOTER,
	WEFT_APE_K_CREDIT,
	WEFT_APE_K_ESCAPE,
	WEFT_APE_KINDS,
};

/* With fewer beats a sender would do nothing but say credits. */
#define WEFT_APE_CYCLE_MIN 8u

/* Of both ends of a cable; registers 68 to 70. */
struct weft_ape_link_config {
	uint8_t quads;	    /* 1, 2, 4 */
	bool no_lead;	    /* START comes without MAGIC in front */
	bool fill;	    /* each word time has a beat, as lanes need it */
	bool check_headers; /* by SECDED */
	bool check_credits;
	uint16_t cycle; /* beats after which a credit is due; at least WEFT_APE_CYCLE_MIN */
	uint16_t margin;
	uint8_t shift; /* a credit tells data words in units of 1 << shift */
	struct weft_ape_counts threshold;
	uint64_t refresh_ns; /* a credit is sent after so long whatever happens; 0: never */
	/* Beats that a cable carries in a word time: 1 (or 0) is hardware's. With more a call of weft_ape_node_step goes further,
	 * and words wait in the sender instead of in FIFOs. */
	uint16_t burst;
	/* A cable with nothing to send says a credit only if the other end may lack room for a packet without it, or was
	 * not told yet whether it is heard. One that finds no room says that it wants some, and hears when all is empty. */
	bool thrifty;
};

/* As the hardware starts, with cables of 128 bits. */
void weft_ape_link_defaults(struct weft_ape_link_config *config);

/* ---- The receiver ---- */

enum weft_ape_rx_state {
	WEFT_APE_RX_OFF,
	WEFT_APE_RX_IDLE,
	WEFT_APE_RX_START,
	WEFT_APE_RX_HEADER,
	WEFT_APE_RX_DATA,
	WEFT_APE_RX_FOOTER,
	WEFT_APE_RX_HEADER_CREDIT,
	WEFT_APE_RX_DATA_CREDIT,
	WEFT_APE_RX_FOOTER_CREDIT,
	WEFT_APE_RX_ERROR, /* the rest of a packet whose header cannot be believed is passed over */
	WEFT_APE_RX_STATES,
};

const char *weft_ape_rx_state_str(enum weft_ape_rx_state state);

struct weft_ape_rx {
	const struct weft_ape_link_config *config;
	/* One for each virtual channel; the router takes from them. */
	struct weft_ape_queue *queue[WEFT_APE_CHANNELS];
	struct weft_ape_ledger *ledger; /* of the sender at this end */
	enum weft_ape_rx_state state;
	uint8_t vc;
	uint8_t seen; /* the last mark of the other end */
	bool unheard; /* the other end says that it hears nothing */
	bool between; /* the last credit was said between packets */
	uint8_t asks; /* grows with each credit that wants room */
	bool half;    /* of 64 bits: the first quad of a word has come */
	bool half_credit;
	uint64_t first, first_of_credit;
	uint32_t words_left;
	struct weft_ape_counts taken[WEFT_APE_CHANNELS];
	uint64_t beats[WEFT_APE_KINDS];
	uint64_t packets;
	uint64_t headers_corrected, headers_dropped; /* by SECDED */
	uint64_t headers_refused;		     /* sound, but of no packet of ours */
	uint64_t credits_corrected, credits_dropped;
	uint64_t no_room; /* a sender did not keep to its credits, or a header was damaged */
	uint64_t cut;	  /* packets that were finished here */
	uint64_t skipped; /* beats that are nothing */
};

void weft_ape_rx_init(struct weft_ape_rx *rx, const struct weft_ape_link_config *config,
		      struct weft_ape_queue *const queue[WEFT_APE_CHANNELS],
		      struct weft_ape_ledger *ledger);
void weft_ape_rx_beat(struct weft_ape_rx *rx, const struct weft_ape_beat *beat);
/* The same for those of `count` beats, one behind the other, that are nothing but payload: how many they were, maybe none. */
unsigned int weft_ape_rx_run(struct weft_ape_rx *rx, const uint64_t *quad, unsigned int count);
/* The cable is gone: a packet whose end will not come is finished with filler and a footer that
 * fails. Off until weft_ape_rx_up. */
void weft_ape_rx_down(struct weft_ape_rx *rx);
void weft_ape_rx_up(struct weft_ape_rx *rx);
/* Whether only a part of a packet has come. */
bool weft_ape_rx_is_within(const struct weft_ape_rx *rx);
/* What the sender at this end is to say. */
void weft_ape_rx_report(const struct weft_ape_rx *rx, struct weft_ape_credit *credit);

/* ---- The sender ---- */

#define WEFT_APE_TX_ROOM  4u /* words of content */
#define WEFT_APE_TX_BEATS 8u

/* Flips bits of headers or credits on their way, as register 71 asks. */
struct weft_ape_error_generator {
	bool headers, credits;
	uint8_t flips; /* 0: off; up to 3 */
	uint8_t bit[3];
	uint16_t every; /* of so many words one; 0 is 1 */
	uint16_t count;
};

struct weft_ape_tx {
	const struct weft_ape_link_config *config;
	const struct weft_ape_rx *rx; /* the receiver at this end */
	struct weft_ape_ledger ledger;
	struct weft_ape_error_generator errors;
	/* Content that the router has given, a ring; of one packet at a time, so that only its last word may be the end. */
	struct weft_ape_word word[WEFT_APE_TX_ROOM];
	uint8_t first, count;
	/* With bursts: where the rest of the packet waits whose header was given; NULL: the router gives it. */
	struct weft_ape_queue *rest;
	uint16_t rest_words; /* of its payload */
	bool giving;	     /* a packet: its header was given, its last word was not */
	bool begun;	     /* MAGIC START was sent, and not all that follows it */
	bool within;	     /* the header was sent, the last word was not */
	uint8_t vc;
	/* Beats that were decided on and wait for their word time, a ring. */
	struct weft_ape_beat beat[WEFT_APE_TX_BEATS];
	uint8_t beat_kind[WEFT_APE_TX_BEATS];
	uint8_t beat_first, beat_count;
	struct weft_ape_credit said; /* last */
	bool said_any;
	bool wants, wants_told; /* a packet found no room; the other end knows it */
	uint8_t asks_told;	/* `asks`, when empty FIFOs were said last */
	uint32_t since;		/* the last credit, in beats */
	uint8_t idle;		/* credits of an idle cable */
	uint64_t said_ns;
	uint64_t beats[WEFT_APE_KINDS];
	uint64_t packets;
};

void weft_ape_tx_init(struct weft_ape_tx *tx, const struct weft_ape_link_config *config,
		      const struct weft_ape_rx *rx);
/* Forgets the packet under way and all that was known of the other end. */
void weft_ape_tx_reset(struct weft_ape_tx *tx);

/* Whether the packet may begin: the one before has been given whole, and there is room. */
bool weft_ape_tx_grants(struct weft_ape_tx *tx, unsigned int vc, unsigned int words);
static inline bool weft_ape_tx_has_room(const struct weft_ape_tx *tx)
{
	return tx->count < WEFT_APE_TX_ROOM;
}
/* Gives the next word of a packet; end: it is its last. There is room. A header is built for vc. */
static inline void weft_ape_tx_give(struct weft_ape_tx *tx, struct weft_ape_word word, bool end)
{
	unsigned int place = (tx->first + tx->count++) % WEFT_APE_TX_ROOM;

	tx->packets += !tx->giving;
	tx->giving = !end;
	tx->word[place] = word;
}

/* With bursts, behind the header of a packet that has a footer: the sender takes so many words of payload, and the footer, from the
 * queue as they come; until `rest` is NULL again no other may. */
static inline void weft_ape_tx_lend(struct weft_ape_tx *tx, struct weft_ape_queue *queue,
				    unsigned int words)
{
	tx->rest = queue;
	tx->rest_words = words;
}

/* The beat of this word time, until the next call for this sender; NULL: the cable is silent. */
const struct weft_ape_beat *weft_ape_tx_step(struct weft_ape_tx *tx, uint64_t now_ns);
/*
 * Words of payload that go as they are, each beat full, at most `most` beats: *run, until the next call for this sender.
 * How many words; 0: weft_ape_tx_step says what comes next.
 */
unsigned int weft_ape_tx_run(struct weft_ape_tx *tx, uint64_t now_ns, unsigned int most,
			     const struct weft_ape_word **run);
/* When to call although nothing was given and nothing came; 0: never. */
uint64_t weft_ape_tx_deadline(const struct weft_ape_tx *tx);

#endif
