/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the datagrams of a source are: each protocol is a row of the table in protocol.c. A datagram is parsed
 * once; one that is wrong in any place is bad as a whole.
 */
#ifndef WEFT_WIRE_NANET_PROTOCOL_H
#define WEFT_WIRE_NANET_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weft_protocol_kind {
	WEFT_PROTOCOL_RAW,	 /* nothing is known of them */
	WEFT_PROTOCOL_SEQUENCED, /* they have a number somewhere */
	WEFT_PROTOCOL_MGP,	 /* events: wire/nanet/mgp.h */
	WEFT_PROTOCOL_APE,	 /* a packet of the torus, header to footer: wire/ape/packet.h */
	WEFT_PROTOCOLS,
};

#define WEFT_PROTOCOL_ANY (-1)

struct weft_protocol {
	enum weft_protocol_kind kind;
	/* SEQUENCED: an unsigned field, that grows by step and wraps. MGP and APE have their own. */
	uint32_t offset;
	uint8_t bits; /* 16, 32, 64 */
	bool big_endian;
	uint64_t step; /* > 0 */
	/* MGP: source × 256 + sub-source; APE: the sending node (weft_ape_coord_pack). Other datagrams are bad. Or WEFT_PROTOCOL_ANY */
	int32_t id;
	/* APE: computes their sum, and goes on from crc, that of the bytes before */
	uint32_t (*crc32c)(uint32_t crc, const void *bytes, size_t count);
};

/* What is known of a datagram. */
struct weft_nanet_datagram {
	uint64_t field;	 /* the number, as it stands there */
	uint32_t events; /* of the protocol */
	bool last;	 /* of a burst; of a message */
};

/* Whether the protocol makes sense; then its field and step are set where the kind gives them. */
bool weft_protocol_settle(struct weft_protocol *p);
static inline bool weft_protocol_is_numbered(const struct weft_protocol *p)
{
	return p->kind != WEFT_PROTOCOL_RAW;
}
const char *weft_protocol_name(enum weft_protocol_kind kind);
/* Whether the name is one; *kind is set then. */
bool weft_protocol_named(const char *name, enum weft_protocol_kind *kind);

/* False: it is bad. */
bool weft_protocol_parse(const struct weft_protocol *p, const uint8_t *data, size_t bytes,
			 struct weft_nanet_datagram *d);

#endif
