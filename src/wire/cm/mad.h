/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Datagrams of connection management: wire format (InfiniBand volume 1, 12.6 to 12.11, in a MAD of
 * 13.4) to host structs and back. Pure. "Local" is the sender's.
 */
#ifndef WEFT_WIRE_CM_MAD_H
#define WEFT_WIRE_CM_MAD_H

#include <stddef.h>
#include <stdint.h>

#define WEFT_MAD_BYTES	     256u
#define WEFT_MAD_PRIVATE_MAX 224u
#define WEFT_MAD_INFO_MAX    72u
#define WEFT_MAD_IP_BYTES    36u /* of a REQ's or SIDR_REQ's private data */

/* Attribute numbers (16.7.3). */
enum weft_mad_kind {
	WEFT_MAD_REQ = 0x10,
	WEFT_MAD_MRA,
	WEFT_MAD_REJ,
	WEFT_MAD_REP,
	WEFT_MAD_RTU,
	WEFT_MAD_DREQ,
	WEFT_MAD_DREP,
	WEFT_MAD_SIDR_REQ,
	WEFT_MAD_SIDR_REP,
	WEFT_MAD_LAP,
	WEFT_MAD_APR,
};

/* 12.6.7.2 */
enum weft_rej_reason {
	WEFT_REJ_NO_QP = 1,
	WEFT_REJ_NO_RESOURCES = 3,
	WEFT_REJ_TIMEOUT = 4,
	WEFT_REJ_UNSUPPORTED = 5,
	WEFT_REJ_INVALID_COMM_ID = 6,
	WEFT_REJ_INVALID_SERVICE_ID = 8,
	WEFT_REJ_INVALID_TRANSPORT = 9,
	WEFT_REJ_STALE = 10,
	WEFT_REJ_CONSUMER = 28,
	WEFT_REJ_VENDOR_OPTION = 35,
};

/* Which message a MRA or REJ answers. */
enum weft_mad_about {
	WEFT_ABOUT_REQ,
	WEFT_ABOUT_REP,
	WEFT_ABOUT_OTHER, /* of a MRA: LAP */
};

/* 12.11.2 */
enum weft_sidr_status {
	WEFT_SIDR_OK,
	WEFT_SIDR_UNSUPPORTED,
	WEFT_SIDR_REJECTED,
	WEFT_SIDR_NO_QP,
};

#define WEFT_SERVICE_RC	     0u /* transport service types of a REQ */
#define WEFT_SERVICE_UC	     1u
#define WEFT_SERVICE_EXT     3u /* ext says which: 1 is XRC */

#define WEFT_APR_UNSUPPORTED 2u

struct weft_mad_path {
	uint32_t local_lid, remote_lid;
	uint8_t local_gid[16], remote_gid[16];
	uint32_t flow_label, rate, traffic_class, hop_limit, sl, subnet_local, ack_timeout;
};

struct weft_mad_req {
	uint64_t service_id, ca_guid;
	uint32_t vendor_id; /* ECE, with attr_mod of the header */
	uint32_t qkey, qpn, psn;
	uint32_t responder_resources, initiator_depth;
	uint32_t service, ext;
	uint32_t remote_timeout, local_timeout; /* for answers: 4.096 µs << code */
	uint32_t flow_control, srq;
	uint32_t retries, rnr_retries, cm_retries;
	uint32_t pkey, mtu;
	struct weft_mad_path path;
};

struct weft_mad_rep {
	uint64_t ca_guid;
	uint32_t vendor_id;
	uint32_t qkey, qpn, psn;
	uint32_t responder_resources, initiator_depth;
	uint32_t ack_delay, failover, flow_control;
	uint32_t rnr_retries, srq;
};

struct weft_mad_mra {
	uint32_t about, timeout; /* 4.096 µs << code */
};

struct weft_mad_rej {
	uint32_t about, reason;
	uint32_t info_bytes;
	uint8_t info[WEFT_MAD_INFO_MAX];
};

struct weft_mad_sidr_req {
	uint64_t service_id;
	uint32_t pkey;
};

struct weft_mad_sidr_rep {
	uint64_t service_id;
	uint32_t status, qpn, qkey;
};

struct weft_mad {
	enum weft_mad_kind kind;
	uint64_t tid;
	uint32_t attr_mod;
	uint32_t local_id, remote_id; /* SIDR: the request's id stands in local_id */
	union {
		struct weft_mad_req req;
		struct weft_mad_rep rep;
		struct weft_mad_mra mra;
		struct weft_mad_rej rej;
		uint32_t dreq_qpn; /* remote */
		struct weft_mad_sidr_req sidr_req;
		struct weft_mad_sidr_rep sidr_rep;
		uint32_t apr_status;
	};
	uint8_t private_data[WEFT_MAD_PRIVATE_MAX];
};

/* How much private data a message of that kind has. */
size_t weft_mad_private_bytes(enum weft_mad_kind kind);
void weft_mad_encode(const struct weft_mad *mad, uint8_t wire[WEFT_MAD_BYTES]);
/* 0; -EPROTO (not a MAD of connection management, or one with impossible lengths). */
int weft_mad_decode(const uint8_t *wire, size_t bytes, struct weft_mad *mad);

/*
 * How IP names the two ends: what Linux's rdma_cm puts in front of a program's private data (Annex
 * A11). Addresses have 16 bytes, IPv4 as ::ffff:a.b.c.d.
 */
struct weft_mad_ip {
	uint16_t port; /* the source's */
	uint8_t src[16], dst[16];
};

void weft_mad_put_ip(uint8_t to[WEFT_MAD_IP_BYTES], const struct weft_mad_ip *ip);
/* 0; -EPROTO (another version, or neither IPv4 nor IPv6). */
int weft_mad_get_ip(const uint8_t from[WEFT_MAD_IP_BYTES], struct weft_mad_ip *ip);

#endif
