/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A packet: a header, N = ⌈bytes / 16⌉ words of payload, a footer; or a header alone. Built and
 * parsed here once, to the bit; everything else knows structs.
 *
 * The layout of the footer is Weft's choice. Its CRC-32C covers what no router changes: the header without virtual
 * channel, last, hops and check bits, the payload with the zeros that fill its last word, and the
 * rest of the footer.
 */
#ifndef WEFT_WIRE_APE_PACKET_H
#define WEFT_WIRE_APE_PACKET_H

#include <stddef.h>

#include "wire/ape/word.h"

#define WEFT_APE_DIMENSIONS    3u
#define WEFT_APE_PAYLOAD_BYTES 4096u
#define WEFT_APE_PAYLOAD_WORDS (WEFT_APE_PAYLOAD_BYTES / WEFT_APE_WORD_BYTES)
#define WEFT_APE_CHANNELS      2u /* virtual ones */
#define WEFT_APE_HOPS	       1023u
#define WEFT_APE_SEQ_BITS      24u
#define WEFT_APE_SEQ_MASK      ((1u << WEFT_APE_SEQ_BITS) - 1)

/* Types from HEADER_ONLY on have neither payload nor footer. 2 is Ethernet's. */
enum weft_ape_type {
	WEFT_APE_PUT = 0,
	WEFT_APE_PUT_LAST = 1,
	WEFT_APE_ETHERNET = 2,
	WEFT_APE_SEND = 3,
	WEFT_APE_SEND_LAST = 4,
	WEFT_APE_GET = 5,
	WEFT_APE_DATA = 6,
	WEFT_APE_DATA_LAST = 7,
	WEFT_APE_REFUSED = 8,
	WEFT_APE_ACK = 9,
	WEFT_APE_NAK = 10,
	WEFT_APE_HELLO = 11,
	WEFT_APE_WELCOME = 12,
	WEFT_APE_NOTHING = 13, /* takes the place of what was given up or refused */
	WEFT_APE_VERBS = 14,   /* a packet of verbs; channel 1: none is known to follow */
	WEFT_APE_HEADER_ONLY = 16,
	WEFT_APE_TYPES = 32,
};

struct weft_ape_coord {
	uint8_t at[WEFT_APE_DIMENSIONS];
};

static inline bool weft_ape_coord_equal(struct weft_ape_coord a, struct weft_ape_coord b)
{
	return a.at[0] == b.at[0] && a.at[1] == b.at[1] && a.at[2] == b.at[2];
}

struct weft_ape_header {
	uint8_t vc;
	bool last; /* this hop is the last one in its dimension */
	uint16_t channel;
	struct weft_ape_coord to;
	uint8_t port; /* intra-tile, at the destination */
	bool out_of_lattice;
	uint8_t type;
	uint16_t bytes;
	uint64_t addr; /* 48 bits */
	uint16_t hops;
};

struct weft_ape_footer {
	uint32_t crc;
	uint32_t seq, ack; /* 24 bits */
	struct weft_ape_coord from;
	uint16_t life;	    /* the sender's incarnation */
	uint16_t peer_life; /* the receiver's, as the sender knows it */
};

static inline unsigned int weft_ape_payload_words(unsigned int bytes)
{
	return (bytes + WEFT_APE_WORD_BYTES - 1) / WEFT_APE_WORD_BYTES;
}

static inline bool weft_ape_is_header_only(unsigned int type)
{
	return type >= WEFT_APE_HEADER_ONLY;
}

/* 16 bits: X in 5:0, Y in 10:6, Z in 15:11, as in the header. */
uint32_t weft_ape_coord_pack(struct weft_ape_coord c);
struct weft_ape_coord weft_ape_coord_unpack(uint32_t packed);

/* Whether the fields keep to their widths: a payload above 4,096 B, a third channel and payload in
 * a header-only packet do not. *word is set then, with its check bits. */
bool weft_ape_header_build(const struct weft_ape_header *h, struct weft_ape_word *word);
/* The same without its check bits: within a node, as each hop changes the header. */
bool weft_ape_header_bare(const struct weft_ape_header *h, struct weft_ape_word *word);
/* Parses a word that SECDED has checked. False: it is no header. */
bool weft_ape_header_parse(struct weft_ape_word word, struct weft_ape_header *h);

/* Seq and ack are taken modulo their widths. */
struct weft_ape_word weft_ape_footer_build(const struct weft_ape_footer *f);
/* False: it is the filler of a packet that was cut off. */
bool weft_ape_footer_parse(struct weft_ape_word word, struct weft_ape_footer *f);
/* Ends a packet whose end is lost. */
struct weft_ape_word weft_ape_footer_filler(void);

/* CRC-32C, which the world computes: goes on from crc, that of the bytes before, with these; 0 to begin. */
typedef uint32_t weft_ape_crc_fn(uint32_t crc, const void *bytes, size_t count);
/* payload: weft_ape_payload_words(…) × 16 bytes. */
uint32_t weft_ape_packet_crc(weft_ape_crc_fn *crc, struct weft_ape_word header,
			     const uint8_t *payload, unsigned int words,
			     struct weft_ape_word footer);

#endif
