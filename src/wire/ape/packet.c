/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/packet.h"

#include "wire/ape/secded.h"

#define ADDR_BITS 48u

uint32_t weft_ape_coord_pack(struct weft_ape_coord c)
{
	return c.at[0] | c.at[1] << 6 | c.at[2] << 11;
}

struct weft_ape_coord weft_ape_coord_unpack(uint32_t packed)
{
	return (struct weft_ape_coord){{packed & 63, packed >> 6 & 31, packed >> 11 & 31}};
}

static bool may_have(uint8_t type, uint16_t bytes)
{
	return bytes <= (weft_ape_is_header_only(type) ? 0 : WEFT_APE_PAYLOAD_BYTES);
}

bool weft_ape_header_bare(const struct weft_ape_header *h, struct weft_ape_word *word)
{
	struct weft_ape_word w = {0};

	if (h->vc >= WEFT_APE_CHANNELS || h->port > 15 || h->type >= WEFT_APE_TYPES ||
	    h->to.at[0] > 63 || h->to.at[1] > 31 || h->to.at[2] > 31 || h->hops > WEFT_APE_HOPS ||
	    h->addr >> ADDR_BITS || !may_have(h->type, h->bytes))
		return false;
	weft_ape_put_bits(&w, 0, h->vc);
	weft_ape_put_bits(&w, 4, h->last);
	weft_ape_put_bits(&w, 5, h->channel);
	weft_ape_put_bits(&w, 21, weft_ape_coord_pack(h->to));
	weft_ape_put_bits(&w, 37, h->port);
	weft_ape_put_bits(&w, 42, h->out_of_lattice);
	weft_ape_put_bits(&w, 43, h->type);
	weft_ape_put_bits(&w, 48, h->bytes);
	weft_ape_put_bits(&w, 62, h->addr);
	weft_ape_put_bits(&w, 110, h->hops);
	*word = w;
	return true;
}

bool weft_ape_header_build(const struct weft_ape_header *h, struct weft_ape_word *word)
{
	bool can_be = weft_ape_header_bare(h, word);

	if (can_be)
		*word = weft_ape_secded_encode(*word);
	return can_be;
}

bool weft_ape_header_parse(struct weft_ape_word w, struct weft_ape_header *h)
{
	*h = (struct weft_ape_header){
		.vc = weft_ape_bits(w, 3, 0),
		.last = weft_ape_bits(w, 4, 4),
		.channel = weft_ape_bits(w, 20, 5),
		.to = weft_ape_coord_unpack(weft_ape_bits(w, 36, 21)),
		.port = weft_ape_bits(w, 40, 37),
		.out_of_lattice = weft_ape_bits(w, 42, 42),
		.type = weft_ape_bits(w, 47, 43),
		.bytes = weft_ape_bits(w, 61, 48),
		.addr = weft_ape_bits(w, 109, 62),
		.hops = weft_ape_bits(w, 119, 110),
	};
	return h->vc < WEFT_APE_CHANNELS && !weft_ape_bits(w, 41, 41) &&
	       may_have(h->type, h->bytes);
}

struct weft_ape_word weft_ape_footer_build(const struct weft_ape_footer *f)
{
	struct weft_ape_word w = {0};

	weft_ape_put_bits(&w, 0, f->crc);
	weft_ape_put_bits(&w, 32, f->seq & WEFT_APE_SEQ_MASK);
	weft_ape_put_bits(&w, 56, f->ack & WEFT_APE_SEQ_MASK);
	weft_ape_put_bits(&w, 80, weft_ape_coord_pack(f->from));
	weft_ape_put_bits(&w, 96, f->life);
	weft_ape_put_bits(&w, 112, f->peer_life);
	return w;
}

bool weft_ape_footer_parse(struct weft_ape_word w, struct weft_ape_footer *f)
{
	*f = (struct weft_ape_footer){
		.crc = weft_ape_bits(w, 31, 0),
		.seq = weft_ape_bits(w, 55, 32),
		.ack = weft_ape_bits(w, 79, 56),
		.from = weft_ape_coord_unpack(weft_ape_bits(w, 95, 80)),
		.life = weft_ape_bits(w, 111, 96),
		.peer_life = weft_ape_bits(w, 127, 112),
	};
	return !weft_ape_word_equal(w, weft_ape_footer_filler());
}

struct weft_ape_word weft_ape_footer_filler(void)
{
	return (struct weft_ape_word){~0ull, ~0ull};
}

uint32_t weft_ape_packet_crc(weft_ape_crc_fn *crc, struct weft_ape_word header,
			     const uint8_t *payload, unsigned int words,
			     struct weft_ape_word footer)
{
	uint8_t bytes[WEFT_APE_WORD_BYTES];
	uint32_t sum;

	header.lo &= ~0x1full;
	header.hi &= (1ull << (110 - 64)) - 1;
	weft_ape_word_store(header, bytes);
	sum = crc(0, bytes, sizeof(bytes));
	if (words)
		sum = crc(sum, payload, (size_t)words * WEFT_APE_WORD_BYTES);
	weft_ape_word_store(footer, bytes);
	return crc(sum, bytes + sizeof(sum), sizeof(bytes) - sizeof(sum));
}
