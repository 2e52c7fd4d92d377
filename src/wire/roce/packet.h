/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The packets of RoCE v2: what stands in a datagram to UDP port 4791 (InfiniBand volume 1, chapter 9;
 * annexes A17 and A19). Parsed once, with bounds checked, into a host struct; built from one. Numbers
 * of a packet are in host order here, but for immediate data, which travels as it is.
 */
#ifndef WEFT_WIRE_ROCE_PACKET_H
#define WEFT_WIRE_ROCE_PACKET_H

#include <stddef.h>

#include "nic/types.h"

#define WEFT_ROCE_PORT	     4791u
#define WEFT_ROCE_ICRC_BYTES 4u
#define WEFT_ROCE_BTH_BYTES  12u
/* The longest headers: of an atomic request of XRC. */
#define WEFT_ROCE_HEAD_BYTES (WEFT_ROCE_BTH_BYTES + 4u + 28u)
#define WEFT_ROCE_MAX_MTU    4096u
/* Where 4,096 bytes are all that is carried, with the most headers of a request: whole lines of 64. */
#define WEFT_ROCE_TORUS_MTU 4032u
#define WEFT_ROCE_PSN_MASK  0xffffffu

enum weft_roce_service { WEFT_ROCE_RC = 0, WEFT_ROCE_UC = 1, WEFT_ROCE_UD = 3, WEFT_ROCE_XRC = 5 };

/* What follows the base header, in this order. */
enum weft_roce_header {
	WEFT_ROCE_DETH = 1 << 0,
	WEFT_ROCE_RETH = 1 << 1,
	WEFT_ROCE_ATOMIC = 1 << 2,
	WEFT_ROCE_AETH = 1 << 3,
	WEFT_ROCE_ATOMIC_ACK = 1 << 4,
	WEFT_ROCE_IMM = 1 << 5,
	WEFT_ROCE_IETH = 1 << 6,
	WEFT_ROCE_XRCETH = 1 << 7, /* stands before all but DETH, which no packet has with it */
};

/* How many bytes of a message a packet carries (9.4.1, 9.7.4.1.6). */
enum weft_roce_length {
	WEFT_ROCE_NONE,
	WEFT_ROCE_FULL,	 /* the path MTU */
	WEFT_ROCE_REST,	 /* 1 to the path MTU */
	WEFT_ROCE_ANY,	 /* 0 to the path MTU */
	WEFT_ROCE_EIGHT, /* 8 */
};

/* What a packet is about, and where it stands in its message. */
enum weft_roce_verb {
	WEFT_ROCE_SEND,
	WEFT_ROCE_WRITE,
	WEFT_ROCE_READ,
	WEFT_ROCE_ATOMIC_OP,
	WEFT_ROCE_ATOMIC_WRITE,
	WEFT_ROCE_RESPONSE, /* to READ and ATOMIC WRITE */
	WEFT_ROCE_ATOMIC_RESPONSE,
	WEFT_ROCE_ACK,
};

enum weft_roce_place {
	WEFT_ROCE_FIRST = 1,
	WEFT_ROCE_LAST = 2,
	WEFT_ROCE_ONLY = 3,
	WEFT_ROCE_MIDDLE = 0
};

/* opcode, name, verb, place, headers, length */
#define WEFT_ROCE_OPCODES(X)                                                                       \
	X(0x00, SEND_FIRST, SEND, FIRST, 0, FULL)                                                  \
	X(0x01, SEND_MIDDLE, SEND, MIDDLE, 0, FULL)                                                \
	X(0x02, SEND_LAST, SEND, LAST, 0, REST)                                                    \
	X(0x03, SEND_LAST_IMM, SEND, LAST, WEFT_ROCE_IMM, REST)                                    \
	X(0x04, SEND_ONLY, SEND, ONLY, 0, ANY)                                                     \
	X(0x05, SEND_ONLY_IMM, SEND, ONLY, WEFT_ROCE_IMM, ANY)                                     \
	X(0x06, WRITE_FIRST, WRITE, FIRST, WEFT_ROCE_RETH, FULL)                                   \
	X(0x07, WRITE_MIDDLE, WRITE, MIDDLE, 0, FULL)                                              \
	X(0x08, WRITE_LAST, WRITE, LAST, 0, REST)                                                  \
	X(0x09, WRITE_LAST_IMM, WRITE, LAST, WEFT_ROCE_IMM, REST)                                  \
	X(0x0a, WRITE_ONLY, WRITE, ONLY, WEFT_ROCE_RETH, ANY)                                      \
	X(0x0b, WRITE_ONLY_IMM, WRITE, ONLY, WEFT_ROCE_RETH | WEFT_ROCE_IMM, ANY)                  \
	X(0x0c, READ_REQUEST, READ, ONLY, WEFT_ROCE_RETH, NONE)                                    \
	X(0x0d, RESPONSE_FIRST, RESPONSE, FIRST, WEFT_ROCE_AETH, FULL)                             \
	X(0x0e, RESPONSE_MIDDLE, RESPONSE, MIDDLE, 0, FULL)                                        \
	X(0x0f, RESPONSE_LAST, RESPONSE, LAST, WEFT_ROCE_AETH, REST)                               \
	X(0x10, RESPONSE_ONLY, RESPONSE, ONLY, WEFT_ROCE_AETH, ANY)                                \
	X(0x11, ACKNOWLEDGE, ACK, ONLY, WEFT_ROCE_AETH, NONE)                                      \
	X(0x12, ATOMIC_ACKNOWLEDGE, ATOMIC_RESPONSE, ONLY, WEFT_ROCE_AETH | WEFT_ROCE_ATOMIC_ACK,  \
	  NONE)                                                                                    \
	X(0x13, CMP_SWAP, ATOMIC_OP, ONLY, WEFT_ROCE_ATOMIC, NONE)                                 \
	X(0x14, FETCH_ADD, ATOMIC_OP, ONLY, WEFT_ROCE_ATOMIC, NONE)                                \
	X(0x16, SEND_LAST_INV, SEND, LAST, WEFT_ROCE_IETH, REST)                                   \
	X(0x17, SEND_ONLY_INV, SEND, ONLY, WEFT_ROCE_IETH, ANY)                                    \
	X(0x1d, ATOMIC_WRITE, ATOMIC_WRITE, ONLY, WEFT_ROCE_RETH, EIGHT)                           \
	X(0x20, UC_SEND_FIRST, SEND, FIRST, 0, FULL)                                               \
	X(0x21, UC_SEND_MIDDLE, SEND, MIDDLE, 0, FULL)                                             \
	X(0x22, UC_SEND_LAST, SEND, LAST, 0, REST)                                                 \
	X(0x23, UC_SEND_LAST_IMM, SEND, LAST, WEFT_ROCE_IMM, REST)                                 \
	X(0x24, UC_SEND_ONLY, SEND, ONLY, 0, ANY)                                                  \
	X(0x25, UC_SEND_ONLY_IMM, SEND, ONLY, WEFT_ROCE_IMM, ANY)                                  \
	X(0x26, UC_WRITE_FIRST, WRITE, FIRST, WEFT_ROCE_RETH, FULL)                                \
	X(0x27, UC_WRITE_MIDDLE, WRITE, MIDDLE, 0, FULL)                                           \
	X(0x28, UC_WRITE_LAST, WRITE, LAST, 0, REST)                                               \
	X(0x29, UC_WRITE_LAST_IMM, WRITE, LAST, WEFT_ROCE_IMM, REST)                               \
	X(0x2a, UC_WRITE_ONLY, WRITE, ONLY, WEFT_ROCE_RETH, ANY)                                   \
	X(0x2b, UC_WRITE_ONLY_IMM, WRITE, ONLY, WEFT_ROCE_RETH | WEFT_ROCE_IMM, ANY)               \
	X(0x64, UD_SEND_ONLY, SEND, ONLY, WEFT_ROCE_DETH, ANY)                                     \
	X(0x65, UD_SEND_ONLY_IMM, SEND, ONLY, WEFT_ROCE_DETH | WEFT_ROCE_IMM, ANY)                 \
	X(0xa0, XRC_SEND_FIRST, SEND, FIRST, WEFT_ROCE_XRCETH, FULL)                               \
	X(0xa1, XRC_SEND_MIDDLE, SEND, MIDDLE, WEFT_ROCE_XRCETH, FULL)                             \
	X(0xa2, XRC_SEND_LAST, SEND, LAST, WEFT_ROCE_XRCETH, REST)                                 \
	X(0xa3, XRC_SEND_LAST_IMM, SEND, LAST, WEFT_ROCE_XRCETH | WEFT_ROCE_IMM, REST)             \
	X(0xa4, XRC_SEND_ONLY, SEND, ONLY, WEFT_ROCE_XRCETH, ANY)                                  \
	X(0xa5, XRC_SEND_ONLY_IMM, SEND, ONLY, WEFT_ROCE_XRCETH | WEFT_ROCE_IMM, ANY)              \
	X(0xa6, XRC_WRITE_FIRST, WRITE, FIRST, WEFT_ROCE_XRCETH | WEFT_ROCE_RETH, FULL)            \
	X(0xa7, XRC_WRITE_MIDDLE, WRITE, MIDDLE, WEFT_ROCE_XRCETH, FULL)                           \
	X(0xa8, XRC_WRITE_LAST, WRITE, LAST, WEFT_ROCE_XRCETH, REST)                               \
	X(0xa9, XRC_WRITE_LAST_IMM, WRITE, LAST, WEFT_ROCE_XRCETH | WEFT_ROCE_IMM, REST)           \
	X(0xaa, XRC_WRITE_ONLY, WRITE, ONLY, WEFT_ROCE_XRCETH | WEFT_ROCE_RETH, ANY)               \
	X(0xab, XRC_WRITE_ONLY_IMM, WRITE, ONLY,                                                   \
	  WEFT_ROCE_XRCETH | WEFT_ROCE_RETH | WEFT_ROCE_IMM, ANY)                                  \
	X(0xac, XRC_READ_REQUEST, READ, ONLY, WEFT_ROCE_XRCETH | WEFT_ROCE_RETH, NONE)             \
	X(0xad, XRC_RESPONSE_FIRST, RESPONSE, FIRST, WEFT_ROCE_AETH, FULL)                         \
	X(0xae, XRC_RESPONSE_MIDDLE, RESPONSE, MIDDLE, 0, FULL)                                    \
	X(0xaf, XRC_RESPONSE_LAST, RESPONSE, LAST, WEFT_ROCE_AETH, REST)                           \
	X(0xb0, XRC_RESPONSE_ONLY, RESPONSE, ONLY, WEFT_ROCE_AETH, ANY)                            \
	X(0xb1, XRC_ACKNOWLEDGE, ACK, ONLY, WEFT_ROCE_AETH, NONE)                                  \
	X(0xb2, XRC_ATOMIC_ACKNOWLEDGE, ATOMIC_RESPONSE, ONLY,                                     \
	  WEFT_ROCE_AETH | WEFT_ROCE_ATOMIC_ACK, NONE)                                             \
	X(0xb3, XRC_CMP_SWAP, ATOMIC_OP, ONLY, WEFT_ROCE_XRCETH | WEFT_ROCE_ATOMIC, NONE)          \
	X(0xb4, XRC_FETCH_ADD, ATOMIC_OP, ONLY, WEFT_ROCE_XRCETH | WEFT_ROCE_ATOMIC, NONE)         \
	X(0xb6, XRC_SEND_LAST_INV, SEND, LAST, WEFT_ROCE_XRCETH | WEFT_ROCE_IETH, REST)            \
	X(0xb7, XRC_SEND_ONLY_INV, SEND, ONLY, WEFT_ROCE_XRCETH | WEFT_ROCE_IETH, ANY)             \
	X(0xbd, XRC_ATOMIC_WRITE, ATOMIC_WRITE, ONLY, WEFT_ROCE_XRCETH | WEFT_ROCE_RETH, EIGHT)

enum weft_roce_opcode {
#define WEFT_ROCE_OPCODE(opcode, name, verb, place, headers, length) WEFT_ROCE_OP_##name = opcode,
	WEFT_ROCE_OPCODES(WEFT_ROCE_OPCODE)
#undef WEFT_ROCE_OPCODE
};

struct weft_roce_row {
	const char *name; /* NULL: there is no such opcode */
	uint8_t verb, place, headers, length;
	uint8_t head_bytes; /* of BTH and these headers */
};

/* Of any byte; that of an opcode that does not exist has no name. */
const struct weft_roce_row *weft_roce_row(uint8_t opcode);

static inline enum weft_roce_service weft_roce_service(uint8_t opcode)
{
	return (enum weft_roce_service)(opcode >> 5);
}

/* What is answered, and sent again until it is. */
static inline bool weft_roce_is_reliable(enum weft_roce_service service)
{
	return service == WEFT_ROCE_RC || service == WEFT_ROCE_XRC;
}

/* 9.7.5.2: of the two upper bits of a syndrome, and the NAKs by name. */
enum weft_roce_syndrome {
	WEFT_ROCE_SYNDROME_ACK = 0x1f, /* credits are not used */
	WEFT_ROCE_SYNDROME_RNR = 0x20, /* and the timer's code */
	WEFT_ROCE_SYNDROME_SEQUENCE = 0x60,
	WEFT_ROCE_SYNDROME_INVALID = 0x61,
	WEFT_ROCE_SYNDROME_ACCESS = 0x62,
	WEFT_ROCE_SYNDROME_OPERATION = 0x63,
	WEFT_ROCE_SYNDROME_KIND = 0x60,
};

struct weft_roce_packet {
	uint8_t opcode;
	bool solicited, ack_requested;
	bool migrated; /* MigReq: network cards send 1, rxe 0; nothing depends on it */
	bool fecn, becn;
	uint8_t pad; /* 0 to 3 bytes behind the payload */
	uint16_t pkey;
	uint32_t dest_qpn, psn; /* 24 bits each */
	uint32_t qkey, src_qpn;
	uint32_t srqn; /* XRC: of the receive queue that a request names, 24 bits */
	uint64_t va;
	uint32_t rkey, length;
	uint64_t swap_add, compare, old;
	uint8_t syndrome;
	uint32_t msn;
	uint32_t imm; /* big-endian, as it came */
	uint32_t ended_key;
	const uint8_t *payload; /* where it was parsed; nothing of build */
	uint32_t payload_bytes; /* without the pad */
};

/* How many bytes stand before the payload of a packet with this opcode, which exists. */
uint32_t weft_roce_head_bytes(uint8_t opcode);

/*
 * Parses a UDP payload, ICRC included, whose bytes it does not own. 0, or -EPROTO: no packet of the
 * table, or of another version, or its headers do not fit, or its length breaks the row's rule for
 * every MTU. Bits that receivers must ignore are not looked at (9.2).
 */
int weft_roce_parse(const uint8_t *at, size_t bytes, struct weft_roce_packet *packet);
/* Whether the payload is as long as the row has it with this path MTU, in bytes. */
bool weft_roce_length_holds(const struct weft_roce_packet *packet, uint32_t mtu);

/* Writes the headers at `head`, room for WEFT_ROCE_HEAD_BYTES; the number of bytes. The pad is made of
 * payload_bytes; the payload, the pad's zeros and the ICRC are the caller's to append. */
uint32_t weft_roce_build(const struct weft_roce_packet *packet, uint8_t *head);

/* 10.9.1: whether a queue pair of one key takes packets of the other. */
static inline bool weft_roce_pkeys_match(uint16_t a, uint16_t b)
{
	return !((a ^ b) & 0x7fff) && (a | b) & 0x8000;
}

static inline uint32_t weft_roce_pad(uint32_t payload_bytes)
{
	return -payload_bytes & 3;
}

#endif
