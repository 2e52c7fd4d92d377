/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/nanet/protocol.h"

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

static const struct {
	const char *name;
	bool (*parse)(const struct weft_protocol *p, const uint8_t *data, size_t bytes,
		      struct weft_nanet_datagram *d);
} protocols[WEFT_PROTOCOLS] = {
	[WEFT_PROTOCOL_RAW] = {"raw", parse_raw},
	[WEFT_PROTOCOL_SEQUENCED] = {"sequenced", parse_sequenced},
	[WEFT_PROTOCOL_MGP] = {"mgp", parse_mgp},
};

bool weft_protocol_settle(struct weft_protocol *p)
{
	if ((unsigned int)p->kind >= WEFT_PROTOCOLS)
		return false;
	if (p->kind == WEFT_PROTOCOL_MGP) {
		p->bits = 32;
		p->step = 1;
	}
	if (p->kind == WEFT_PROTOCOL_RAW)
		return true;
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
