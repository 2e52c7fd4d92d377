/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/nanet/protocol.h"

#include "wire/ape/packet.h"
#include "wire/ape/secded.h"
#include "wire/nanet/mgp.h"

static bool parse_raw(const struct weft_protocol *p, const uint8_t *data, size_t bytes,
		      struct weft_nanet_datagram *d)
{
	*d = (struct weft_nanet_datagram){.events = 1};
	return true;
}

static bool parse_sequenced(const struct weft_protocol *p, const uint8_t *data, size_t bytes,
			    struct weft_nanet_datagram *d)
{
	unsigned int width = p->bits / 8;

	if (bytes < width || bytes - width < p->offset)
		return false;
	data += p->offset;
	*d = (struct weft_nanet_datagram){.field = p->big_endian ? weft_bytes_big(data, width)
								 : weft_bytes_little(data, width),
					  .events = 1};
	return true;
}

static bool parse_mgp(const struct weft_protocol *p, const uint8_t *data, size_t bytes,
		      struct weft_nanet_datagram *d)
{
	struct weft_mgp mgp;

	if (!weft_mgp_parse(data, bytes, &mgp) ||
	    (p->id != WEFT_PROTOCOL_ANY && p->id != (mgp.source << 8 | mgp.sub_source)))
		return false;
	*d = (struct weft_nanet_datagram){mgp.sequence, mgp.events, mgp.flags & WEFT_MGP_LAST};
	return true;
}

static bool ends_message(unsigned int type)
{
	return type == WEFT_APE_PUT_LAST || type == WEFT_APE_SEND_LAST ||
	       type == WEFT_APE_DATA_LAST;
}

/* A packet that is whole and intact: a header that its check bits would mend belongs to a cable, which has mended it. */
static bool parse_ape(const struct weft_protocol *p, const uint8_t *data, size_t bytes,
		      struct weft_nanet_datagram *d)
{
	struct weft_ape_header h;
	struct weft_ape_footer f;
	struct weft_ape_word header, footer, unsummed;
	unsigned int words;

	if (bytes < 2 * (size_t)WEFT_APE_WORD_BYTES)
		return false;
	header = weft_ape_word_load(data);
	if (weft_ape_secded_check(&header) != WEFT_APE_INTACT ||
	    !weft_ape_header_parse(header, &h) || weft_ape_is_header_only(h.type))
		return false;
	words = weft_ape_payload_words(h.bytes);
	if (bytes != (words + 2) * (size_t)WEFT_APE_WORD_BYTES)
		return false;
	footer = unsummed = weft_ape_word_load(data + bytes - WEFT_APE_WORD_BYTES);
	unsummed.lo &= ~(uint64_t)UINT32_MAX;
	if (!weft_ape_footer_parse(footer, &f) ||
	    weft_ape_packet_crc(p->crc32c, header, data + WEFT_APE_WORD_BYTES, words, unsummed) !=
		    f.crc ||
	    (p->id != WEFT_PROTOCOL_ANY && (uint32_t)p->id != weft_ape_coord_pack(f.from)))
		return false;
	*d = (struct weft_nanet_datagram){f.seq, 1, ends_message(h.type)};
	return true;
}

static const struct {
	const char *name;
	bool (*parse)(const struct weft_protocol *p, const uint8_t *data, size_t bytes,
		      struct weft_nanet_datagram *d);
} protocols[WEFT_PROTOCOLS] = {
	[WEFT_PROTOCOL_RAW] = {"raw", parse_raw},
	[WEFT_PROTOCOL_SEQUENCED] = {"sequenced", parse_sequenced},
	[WEFT_PROTOCOL_MGP] = {"mgp", parse_mgp},
	[WEFT_PROTOCOL_APE] = {"ape", parse_ape},
};

bool weft_protocol_settle(struct weft_protocol *p)
{
	if ((unsigned int)p->kind >= WEFT_PROTOCOLS)
		return false;
	if (p->kind == WEFT_PROTOCOL_RAW)
		return true;
	if (p->kind != WEFT_PROTOCOL_SEQUENCED) {
		p->bits = p->kind == WEFT_PROTOCOL_APE ? WEFT_APE_SEQ_BITS : 32;
		p->step = 1;
		return p->kind != WEFT_PROTOCOL_APE || p->crc32c;
	}
	return (p->bits == 16 || p->bits == 32 || p->bits == 64) && p->step &&
	       p->step < 1ull << (p->bits / 2);
}

const char *weft_protocol_name(enum weft_protocol_kind kind)
{
	return protocols[kind].name;
}

static bool same_text(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

bool weft_protocol_named(const char *name, enum weft_protocol_kind *kind)
{
	for (unsigned int i = 0; i < WEFT_PROTOCOLS; i++)
		if (same_text(name, protocols[i].name)) {
			*kind = (enum weft_protocol_kind)i;
			return true;
		}
	return false;
}

bool weft_protocol_parse(const struct weft_protocol *p, const uint8_t *data, size_t bytes,
			 struct weft_nanet_datagram *d)
{
	return protocols[p->kind].parse(p, data, bytes, d);
}
