/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Transports: what carries the requests of a queue pair out, and which one does. A transport is one
 * table; which tables there are stands in transport/registry.c, in order of preference. Neither the
 * api nor the nic names one.
 */
#ifndef WEFT_NIC_TRANSPORT_H
#define WEFT_NIC_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/cause.h"
#include "nic/types.h"

struct weft_ah;
struct weft_caller;
struct weft_nic;
struct weft_qp;
struct weft_wqe;

/* What became of a request that a transport was given. */
enum weft_outcome {
	WEFT_DONE,
	WEFT_UNDER_WAY,	 /* the transport has it until it calls weft_sq_end */
	WEFT_FAILED,	 /* of a cause; the queue pair goes to error */
	WEFT_NO_RECEIVE, /* the peer has none posted: RNR NAK */
	WEFT_NO_ANSWER,	 /* the peer is not there, or not yet */
	WEFT_REHOMING,	 /* its owner rehomes: the same again, soon */
};

/* Begins one request, in order. *cause with WEFT_FAILED. Never waits. */
typedef enum weft_outcome weft_issue(struct weft_qp *qp, struct weft_wqe *wqe,
				     struct weft_caller *caller, enum weft_cause *cause);

/* What a transport has for the queue pairs of one type. */
struct weft_carries {
	weft_issue *issue;    /* NULL: it carries none of them */
	uint32_t state_bytes; /* of its own in each, zero at `connect` */
};

#define WEFT_NOBODY UINT16_MAX /* no member has this number */

/* All calls but `reaches` and `drained` come with the queue pair's lock held. */
struct weft_transport {
	const char *name;
	struct weft_carries carries[WEFT_QP_TYPES];
	uint32_t address_bytes; /* of its own in each address handle, zero before the first datagram
				 */
	uint32_t
		most_under_way; /* requests of a queue pair, at first; 0: it never answers WEFT_UNDER_WAY */
	/* Its requests end in order (weft_sq_end_before), it keeps their fences, completes those that end well, and wakes the
	 * helper for one that does not. */
	bool in_order;
	/* Of a datagram to a group it reaches those that hear it elsewhere; the next transport reaches others. */
	bool part_of_groups;
	enum weft_cause silence; /* of a request without an answer when its timer ends */
	/* Whether there is a way from one address to the other. Any thread. */
	bool (*reaches)(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16]);
	/* At the transition to RTR: the destination is known. *executor: the member that completes the receives of
	 * this queue pair, if that is known; WEFT_NOBODY before. 0, -ENOMEM, -ENOSPC: nothing is left of it. */
	int (*connect)(struct weft_qp *qp, uint16_t *executor);
	/* At the transition out of the connected states; the peer is reached no more, and what is under way is let
	 * go of in bounded time. */
	void (*abort)(struct weft_qp *qp);
	/* Whether the peer found this queue pair at fault, and with which event. */
	bool (*is_blamed)(struct weft_qp *qp, enum weft_event *event);
	/* NULL: nothing to do. A host may have gone: before the next request it is seen anew whether the peer is there.
	 * Nothing is under way. */
	void (*look_anew)(struct weft_qp *qp);
	/* The rest only of transports that answer WEFT_UNDER_WAY; the position of a request is
	 * weft_sq_next_issue() when it begins. Calls weft_sq_end for those that have ended. When to
	 * look again, in ns from now; UINT64_MAX: weft_nic_kick will be called. Behind an error of
	 * an unreliable queue pair the transport ends what it has by itself (SQE): it is not left. */
	uint64_t (*progress)(struct weft_qp *qp, struct weft_caller *caller, uint64_t now_ns);
	/* After abort: whether the transport touches no request of the queue pair any more. */
	bool (*drained)(struct weft_qp *qp);
	/* NULL: it has nothing in the pool. At RESET, the queue pair being empty; or at once, when `connect` was
	 * not the last that could fail. quiet: no executor that stands still may touch it any more. */
	void (*release)(struct weft_qp *qp, bool quiet);
};

/* Beside weft_sq_end: the last request that was begun is under way no more, but waits as if it had been
 * answered so at its beginning. The queue pair's lock is held. */
void weft_sq_return(struct weft_qp *qp, enum weft_outcome outcome);
/* A request that was under way has ended, well (WEFT_CAUSE_NONE) or not. In any order; it
 * completes when those before it have. The lock is held. */
void weft_sq_end(struct weft_qp *qp, uint64_t position, enum weft_cause cause);
/* Of transports whose requests end in order: all before that position have ended well and are completed. */
void weft_sq_end_before(struct weft_qp *qp, uint64_t position);
/* Of the requests that the transport has it carries out none from that position on, and has ended none of those: they are as if
 * never issued. */
void weft_sq_recall(struct weft_qp *qp, uint64_t position);

/* How long a request waits in all for a receive, and for an answer, by the codes of 9.7.5.2.8 and 11.2.5.2. UINT64_MAX:
 * for ever. */
uint64_t weft_sq_rnr_patience_ns(uint8_t rnr_retry, uint8_t timer);
uint64_t weft_sq_patience_ns(uint8_t retry_cnt, uint8_t timeout);

/* The first of the nic's transports that carries this type and reaches that address; the last one
 * reaches all. */
const struct weft_transport *weft_transport_for(struct weft_nic *nic, enum weft_qp_type type,
						const uint8_t sgid[16], const uint8_t dgid[16]);

/* A queue pair of datagrams has no destination: each request goes by the transport that reaches the
 * address of its handle, at once. */
extern const struct weft_transport weft_by_address;

/* Looks for the transport of a handle whose addresses are known. Its lock is held, or no other thread knows
 * it yet. 0; -ENOMEM: all is as it was. */
int weft_ah_find(struct weft_nic *nic, struct weft_ah *ah);
void weft_ah_destroy(struct weft_nic *nic, struct weft_ah *ah);

#endif
