/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <stdbool.h>

#include "nic/errors.h"
#include "pool/address.h"
#include "wire/cm/mad.h"

#define HEADER_BYTES   24u
#define BASE_VERSION   1
#define CLASS_CM       7
#define CLASS_VERSION  2
#define METHOD_SEND    3
#define APR_PRIVATE    148u
#define IP_VERSION_BIT 4

/* One description of each message serves both ways. */
struct coder {
	bool encodes;
	uint8_t wire[WEFT_MAD_BYTES];
};

/* Numbers in network order. */
static uint64_t number_at(const uint8_t *at, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

static void put_number(uint8_t *at, unsigned int bytes, uint64_t value)
{
	for (unsigned int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

/* A field of at most 32 bits, at bit `bit` of the 8 bytes from `byte`, counted as the specification
 * counts: from the end of the MAD's header, most significant bit first. */
static void bits(struct coder *c, unsigned int byte, unsigned int bit, unsigned int width,
		 uint32_t *value)
{
	uint8_t *at = c->wire + HEADER_BYTES + byte;
	unsigned int shift = 64 - bit - width;
	uint64_t word, mask = (1ull << width) - 1;

	word = number_at(at, sizeof(word));
	if (c->encodes)
		word = (word & ~(mask << shift)) | (*value & mask) << shift;
	else
		*value = (uint32_t)(word >> shift & mask);
	if (c->encodes)
		put_number(at, sizeof(word), word);
}

static void wide(struct coder *c, unsigned int byte, uint64_t *value)
{
	uint32_t high = (uint32_t)(*value >> 32), low = (uint32_t)*value;

	bits(c, byte, 0, 32, &high);
	bits(c, byte + 4, 0, 32, &low);
	*value = (uint64_t)high << 32 | low;
}

static void bytes(struct coder *c, unsigned int byte, uint8_t *value, size_t n)
{
	uint8_t *at = c->wire + HEADER_BYTES + byte;

	__builtin_memcpy(c->encodes ? at : value, c->encodes ? value : at, n);
}

static void code_path(struct coder *c, struct weft_mad_path *p)
{
	bits(c, 52, 0, 16, &p->local_lid);
	bits(c, 54, 0, 16, &p->remote_lid);
	bytes(c, 56, p->local_gid, 16);
	bytes(c, 72, p->remote_gid, 16);
	bits(c, 88, 0, 20, &p->flow_label);
	bits(c, 88, 26, 6, &p->rate);
	bits(c, 92, 0, 8, &p->traffic_class);
	bits(c, 93, 0, 8, &p->hop_limit);
	bits(c, 94, 0, 4, &p->sl);
	bits(c, 94, 4, 1, &p->subnet_local);
	bits(c, 95, 0, 5, &p->ack_timeout);
}

static void code_req(struct coder *c, struct weft_mad_req *r)
{
	bits(c, 5, 0, 24, &r->vendor_id);
	wide(c, 8, &r->service_id);
	wide(c, 16, &r->ca_guid);
	bits(c, 28, 0, 32, &r->qkey);
	bits(c, 32, 0, 24, &r->qpn);
	bits(c, 35, 0, 8, &r->responder_resources);
	bits(c, 39, 0, 8, &r->initiator_depth);
	bits(c, 43, 0, 5, &r->remote_timeout);
	bits(c, 43, 5, 2, &r->service);
	bits(c, 43, 7, 1, &r->flow_control);
	bits(c, 44, 0, 24, &r->psn);
	bits(c, 47, 0, 5, &r->local_timeout);
	bits(c, 47, 5, 3, &r->retries);
	bits(c, 48, 0, 16, &r->pkey);
	bits(c, 50, 0, 4, &r->mtu);
	bits(c, 50, 5, 3, &r->rnr_retries);
	bits(c, 51, 0, 4, &r->cm_retries);
	bits(c, 51, 4, 1, &r->srq);
	bits(c, 51, 5, 3, &r->ext);
	code_path(c, &r->path);
}

static void code_rep(struct coder *c, struct weft_mad_rep *r)
{
	uint32_t low = r->vendor_id & 0xff, middle = r->vendor_id >> 8 & 0xff,
		 high = r->vendor_id >> 16;

	bits(c, 8, 0, 32, &r->qkey);
	bits(c, 12, 0, 24, &r->qpn);
	bits(c, 15, 0, 8, &low);
	bits(c, 19, 0, 8, &middle);
	bits(c, 20, 0, 24, &r->psn);
	bits(c, 23, 0, 8, &high);
	bits(c, 24, 0, 8, &r->responder_resources);
	bits(c, 25, 0, 8, &r->initiator_depth);
	bits(c, 26, 0, 5, &r->ack_delay);
	bits(c, 26, 5, 2, &r->failover);
	bits(c, 26, 7, 1, &r->flow_control);
	bits(c, 27, 0, 3, &r->rnr_retries);
	bits(c, 27, 3, 1, &r->srq);
	wide(c, 28, &r->ca_guid);
	r->vendor_id = low | middle << 8 | high << 16;
}

static void code_rej(struct coder *c, struct weft_mad_rej *r)
{
	bits(c, 8, 0, 2, &r->about);
	bits(c, 9, 0, 7, &r->info_bytes);
	bits(c, 10, 0, 16, &r->reason);
	bytes(c, 12, r->info, WEFT_MAD_INFO_MAX);
}

/* All but the header and the private data. */
static void code(struct coder *c, struct weft_mad *m)
{
	bits(c, 0, 0, 32, &m->local_id);
	if (m->kind != WEFT_MAD_REQ && m->kind != WEFT_MAD_SIDR_REQ && m->kind != WEFT_MAD_SIDR_REP)
		bits(c, 4, 0, 32, &m->remote_id);
	switch (m->kind) {
	case WEFT_MAD_REQ:
		code_req(c, &m->req);
		break;
	case WEFT_MAD_MRA:
		bits(c, 8, 0, 2, &m->mra.about);
		bits(c, 9, 0, 5, &m->mra.timeout);
		break;
	case WEFT_MAD_REJ:
		code_rej(c, &m->rej);
		break;
	case WEFT_MAD_REP:
		code_rep(c, &m->rep);
		break;
	case WEFT_MAD_RTU:
	case WEFT_MAD_DREP:
	case WEFT_MAD_LAP: /* refused unread */
		break;
	case WEFT_MAD_DREQ:
		bits(c, 8, 0, 24, &m->dreq_qpn);
		break;
	case WEFT_MAD_SIDR_REQ:
		bits(c, 4, 0, 16, &m->sidr_req.pkey);
		wide(c, 8, &m->sidr_req.service_id);
		break;
	case WEFT_MAD_SIDR_REP:
		bits(c, 4, 0, 8, &m->sidr_rep.status);
		bits(c, 8, 0, 24, &m->sidr_rep.qpn);
		wide(c, 12, &m->sidr_rep.service_id);
		bits(c, 20, 0, 32, &m->sidr_rep.qkey);
		break;
	case WEFT_MAD_APR:
		bits(c, 9, 0, 8, &m->apr_status);
		break;
	}
}

size_t weft_mad_private_bytes(enum weft_mad_kind kind)
{
	switch (kind) {
	case WEFT_MAD_REQ:
		return 92;
	case WEFT_MAD_MRA:
		return 222;
	case WEFT_MAD_REJ:
	case WEFT_MAD_APR:
		return APR_PRIVATE;
	case WEFT_MAD_REP:
		return 196;
	case WEFT_MAD_RTU:
	case WEFT_MAD_DREP:
		return 224;
	case WEFT_MAD_DREQ:
		return 220;
	case WEFT_MAD_SIDR_REQ:
		return 216;
	case WEFT_MAD_SIDR_REP:
		return 136;
	case WEFT_MAD_LAP:
		return 168;
	}
	return 0;
}

static uint8_t *private_of(uint8_t *wire, enum weft_mad_kind kind)
{
	return wire + WEFT_MAD_BYTES - weft_mad_private_bytes(kind);
}

void weft_mad_encode(const struct weft_mad *mad, uint8_t wire[WEFT_MAD_BYTES])
{
	struct coder c = {.encodes = true,
			  .wire = {BASE_VERSION, CLASS_CM, CLASS_VERSION, METHOD_SEND}};
	struct weft_mad copy = *mad;

	put_number(c.wire + 8, sizeof(mad->tid), mad->tid);
	c.wire[17] = (uint8_t)mad->kind;
	put_number(c.wire + 20, sizeof(mad->attr_mod), mad->attr_mod);
	code(&c, &copy);
	__builtin_memcpy(private_of(c.wire, mad->kind), mad->private_data,
			 weft_mad_private_bytes(mad->kind));
	__builtin_memcpy(wire, c.wire, WEFT_MAD_BYTES);
}

int weft_mad_decode(const uint8_t *wire, size_t nbytes, struct weft_mad *mad)
{
	struct coder c = {.encodes = false};

	if (nbytes != WEFT_MAD_BYTES || wire[0] != BASE_VERSION || wire[1] != CLASS_CM ||
	    wire[2] != CLASS_VERSION || wire[3] != METHOD_SEND || wire[16] ||
	    wire[17] < WEFT_MAD_REQ || wire[17] > WEFT_MAD_APR)
		return -EPROTO;
	__builtin_memcpy(c.wire, wire, WEFT_MAD_BYTES);
	__builtin_memset(mad, 0, sizeof(*mad));
	mad->kind = wire[17];
	mad->tid = number_at(wire + 8, sizeof(mad->tid));
	mad->attr_mod = (uint32_t)number_at(wire + 20, sizeof(mad->attr_mod));
	code(&c, mad);
	if (mad->kind == WEFT_MAD_REJ && mad->rej.info_bytes > WEFT_MAD_INFO_MAX)
		return -EPROTO;
	__builtin_memcpy(mad->private_data, private_of(c.wire, mad->kind),
			 weft_mad_private_bytes(mad->kind));
	return 0;
}

/* ---- The IP addressing header: version, IP version, port, source, destination ---- */

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

void weft_mad_put_ip(uint8_t to[WEFT_MAD_IP_BYTES], const struct weft_mad_ip *ip)
{
	bool v4 = weft_address_is_ipv4(ip->dst);
	size_t skip = v4 ? sizeof(mapped) : 0;

	__builtin_memset(to, 0, WEFT_MAD_IP_BYTES);
	to[1] = (uint8_t)((v4 ? 4 : 6) << IP_VERSION_BIT);
	to[2] = (uint8_t)(ip->port >> 8);
	to[3] = (uint8_t)ip->port;
	__builtin_memcpy(to + 4 + skip, ip->src + skip, 16 - skip);
	__builtin_memcpy(to + 20 + skip, ip->dst + skip, 16 - skip);
}

int weft_mad_get_ip(const uint8_t from[WEFT_MAD_IP_BYTES], struct weft_mad_ip *ip)
{
	unsigned int version = from[1] >> IP_VERSION_BIT;

	if (from[0] || (version != 4 && version != 6))
		return -EPROTO;
	ip->port = (uint16_t)(from[2] << 8 | from[3]);
	__builtin_memcpy(ip->src, from + 4, 16);
	__builtin_memcpy(ip->dst, from + 20, 16);
	if (version == 4) {
		__builtin_memcpy(ip->src, mapped, sizeof(mapped));
		__builtin_memcpy(ip->dst, mapped, sizeof(mapped));
	}
	return 0;
}
