/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Polynomials over GF(2) modulo that of CRC-32 stand in 32 bits as the CRC has them: the bit of value
 * 2^31 is the coefficient of 1, that of value 1 is that of t^31. A CRC's register after n bits that differ by D(t)
 * differs by D(t)·t^32, and by t^k more k bits later.
 */
#include "pool/address.h"
#include "wire/roce/icrc.h"
#include "wire/roce/packet.h"

#define ONE (1u << 31)

/* ---- Arithmetic ---- */

/* a·b mod P. A CRC of four bytes multiplies by t^32, which brings the product's upper half down. */
static uint32_t multiply(const struct weft_roce_math *math, uint32_t a, uint32_t b)
{
	uint64_t product = math->clmul(a, b) << 1;
	uint8_t upper[4];

	for (unsigned int i = 0; i < 4; i++)
		upper[i] = (uint8_t)(product >> 8 * i);
	return ~math->crc32(~0u, upper, 4) ^ (uint32_t)(product >> 32);
}

static uint32_t power_of_t(const struct weft_roce_math *math, uint32_t exponent)
{
	uint32_t result = ONE, square = ONE >> 1;

	for (; exponent; exponent >>= 1) {
		if (exponent & 1)
			result = multiply(math, result, square);
		square = multiply(math, square, square);
	}
	return result;
}

/* Behind the ID in what an ICRC covers stand 14 bytes of the IP header, 8 of UDP, and the payload but for
 * the ICRC. t has order 2^32 - 1, so that its powers can be taken back. */
void weft_roce_icrc_init(struct weft_roce_icrc *icrc, const struct weft_roce_math *math)
{
	uint32_t step = power_of_t(math, UINT32_MAX - 32);

	icrc->math = math;
	icrc->back[0] = ONE; /* no packet is so short */
	icrc->back[1] = power_of_t(math, UINT32_MAX - (8 * (14 + 8) + 32));
	for (size_t words = 2; words <= WEFT_ROCE_MAX_BYTES / 4; words++)
		icrc->back[words] = multiply(math, icrc->back[words - 1], step);
}

/* ---- What is covered ---- */

bool weft_roce_is_ipv4(const struct weft_roce_route *route)
{
	return weft_address_is_ipv4(route->dst);
}

static uint8_t *append16(uint8_t *at, size_t value)
{
	*at++ = (uint8_t)(value >> 8);
	*at++ = (uint8_t)value;
	return at;
}

static uint8_t *put_bytes(uint8_t *at, const uint8_t *from, size_t bytes)
{
	__builtin_memcpy(at, from, bytes);
	return at + bytes;
}

/* IP and UDP headers behind 8 bytes of ones; what routers change is ones, too. The number of bytes. */
static size_t put_covered(uint8_t *at, const struct weft_roce_route *route, uint16_t id,
			  size_t bytes)
{
	uint8_t *start = at;

	__builtin_memset(at, 0xff, 8);
	at += 8;
	if (weft_roce_is_ipv4(route)) {
		*at++ = 0x45;
		*at++ = 0xff;
		at = append16(at, 20 + 8 + bytes);
		at = append16(at, id);
		at = append16(at, 0x4000); /* may not be cut */
		*at++ = 0xff;
		*at++ = 17;
		at = append16(at, 0xffff);
		at = put_bytes(at, route->src + 12, 4);
		at = put_bytes(at, route->dst + 12, 4);
	} else {
		at = append16(at, 0x6fff);
		at = append16(at, 0xffff);
		at = append16(at, 8 + bytes);
		*at++ = 17;
		*at++ = 0xff;
		at = put_bytes(at, route->src, 16);
		at = put_bytes(at, route->dst, 16);
	}
	at = append16(at, route->src_port);
	at = append16(at, route->dst_port);
	at = append16(at, 8 + bytes);
	return (size_t)(append16(at, 0xffff) - start);
}

uint32_t weft_roce_icrc(const struct weft_roce_icrc *icrc, const struct weft_roce_route *route,
			uint16_t id, const uint8_t *head, size_t head_bytes, const uint8_t *rest,
			size_t bytes)
{
	uint8_t covered[8 + 40 + 8 + WEFT_ROCE_BTH_BYTES];
	size_t n = put_covered(covered, route, id, bytes);
	uint32_t crc;

	__builtin_memcpy(covered + n, head, WEFT_ROCE_BTH_BYTES);
	covered[n + 4] = 0xff;
	crc = icrc->math->crc32(0, covered, n + WEFT_ROCE_BTH_BYTES);
	crc = icrc->math->crc32(crc, head + WEFT_ROCE_BTH_BYTES, head_bytes - WEFT_ROCE_BTH_BYTES);
	return icrc->math->crc32(crc, rest, bytes - WEFT_ROCE_ICRC_BYTES - head_bytes);
}

/* ---- Identifications ---- */

#define JIFFY_NS 1000000u /* Linux adds up to one for each that passed; 1 ms is its shortest */
#define OTHERS	 128u	  /* packets to others in between, and lost ones */
#define LATE	 64u	  /* that far back: others overtook it */
#define DISTRUST 4u

static bool follows(const struct weft_roce_source *source, uint16_t id, uint64_t now_ns)
{
	uint64_t jiffies = (now_ns - source->last_ns) / JIFFY_NS;
	uint16_t ahead = (uint16_t)(id - source->last), behind = (uint16_t)(source->last - id);

	/* after 65 s of silence it is any */
	return behind <= LATE || ahead <= OTHERS + jiffies;
}

/* placed: as the packet's place in its batch says, which a source without a counter begins anew with each batch. What follows is
 * what follows that: its time goes on. */
static void note_arrival(struct weft_roce_source *source, uint16_t id, bool placed,
			 uint64_t since_ns)
{
	if (placed || (uint16_t)(source->last - id) > LATE) {
		source->last = id;
		source->last_ns = since_ns;
	}
	source->doubts = false;
}

enum weft_roce_icrc_verdict weft_roce_source_judge(struct weft_roce_source *source, uint16_t id,
						   uint16_t segment, uint64_t since_ns,
						   uint64_t now_ns)
{
	bool placed = !id || id == segment;
	/* one that jumped, and goes on from there */
	bool again = source->doubts && (uint16_t)(id - source->doubtful) <= OTHERS;

	if (placed || again || follows(source, id, now_ns)) {
		note_arrival(source, id, placed, since_ns);
		source->trust += source->trust < 2 * WEFT_ROCE_TRUST;
		return WEFT_ROCE_ICRC_RIGHT;
	}
	bool trusted = source->trust >= WEFT_ROCE_TRUST;

	source->trust = source->trust < DISTRUST ? 0 : (uint8_t)(source->trust - DISTRUST);
	if (trusted) {
		source->doubts = true;
		source->doubtful = id;
		return WEFT_ROCE_ICRC_WRONG;
	}
	note_arrival(source, id, false, since_ns);
	return WEFT_ROCE_ICRC_WEAK;
}

enum weft_roce_icrc_verdict weft_roce_icrc_check(const struct weft_roce_icrc *icrc,
						 struct weft_roce_source *source,
						 const struct weft_roce_route *route,
						 const uint8_t *at, size_t bytes, uint16_t segment,
						 uint64_t since_ns, uint64_t now_ns, uint16_t *id)
{
	const uint8_t *end = at + bytes - WEFT_ROCE_ICRC_BYTES;
	uint32_t came = (uint32_t)end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 |
			(uint32_t)end[3] << 24;
	uint32_t wrong = came ^ weft_roce_icrc(icrc, route, segment, at, WEFT_ROCE_BTH_BYTES,
					       at + WEFT_ROCE_BTH_BYTES, bytes);

	*id = segment; /* which is what Linux gives it */
	if (!weft_roce_is_ipv4(route))
		return wrong ? WEFT_ROCE_ICRC_WRONG : WEFT_ROCE_ICRC_RIGHT;
	if (wrong) {
		uint32_t solved = multiply(icrc->math, wrong, icrc->back[bytes / 4]);

		/* of its first byte the lowest bit came first */
		*id ^= (uint16_t)((solved >> 16 & 0xff) << 8 | solved >> 24);
		if (solved & 0xffff)
			return WEFT_ROCE_ICRC_WRONG;
	}
	return weft_roce_source_judge(source, *id, segment, since_ns, now_ns);
}
