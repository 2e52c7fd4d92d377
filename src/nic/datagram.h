/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a datagram may do at the queue pair for which it arrives, whichever transport has brought it. One that
 * finds no queue pair, or no receive, or the wrong Q_Key, is dropped, and the sender is not told (9.8.2, 10.2.5); and so
 * is one that cannot be placed soon.
 */
#ifndef WEFT_NIC_DATAGRAM_H
#define WEFT_NIC_DATAGRAM_H

#include "nic/place.h"
#include "nic/take.h"

struct weft_srq;

/* A queue pair as it was seen last; good for as long as its conn word stays the same. All zero:
 * none. */
struct weft_datagram_target {
	struct weft_pool_qp *slot;
	struct weft_grant grant;
	struct weft_take take;
	uint32_t qpn, tag, qkey;
	/* how long one that only its owner's helper can place is waited for: half as long each time that
	 * it was in vain, until that looks again; 0: not known yet */
	uint32_t patience_us;
	struct weft_later later;
};

struct weft_datagram {
	struct weft_nic *nic;
	struct weft_caller *caller; /* whose busy line is idle */
	uint32_t src_qpn;	    /* and above it the service level */
	uint32_t qkey;
	uint32_t imm;
	bool has_imm, solicited;
	uint32_t bytes;
	struct weft_span span[WEFT_MAX_SGE + 1]; /* the header of WEFT_GRH_BYTES, then the bytes */
};

/* gid: that the destination must have; NULL: any. */
void weft_datagram_deliver(const struct weft_datagram *d, uint32_t qpn, const uint8_t *gid,
			   struct weft_datagram_target *t);
/* To each queue pair that listens to the group: of the pool, or of that network namespace only. 0: of all. */
void weft_datagram_deliver_all(const struct weft_datagram *d, const uint8_t gid[16],
			       uint64_t net_ns);
/* For the owner: whether a receive of the queue pair with that tag was found at fault; once. */
bool weft_datagram_fault(struct weft_srq *srq, uint32_t tag);

#endif
