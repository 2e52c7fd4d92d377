/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What tells builds apart that must not meet in one pool. */
#include "pool/format.h"
#include "pool/format_ask.h"
#include "pool/format_ape.h"
#include "pool/format_home.h"
#include "pool/format_host.h"
#include "pool/format_line.h"
#include "pool/format_mailbox.h"
#include "pool/format_member.h"
#include "pool/format_object.h"
#include "pool/format_qp.h"
#include "pool/format_queue.h"
#include "pool/format_region.h"
#include "pool/format_ring.h"
#include "pool/hand.h"
#include "pool/internal.h"
#include "pool/outbox.h"

_Static_assert(sizeof(struct weft_pool_leases) <= WEFT_OFF_MEMBERS - WEFT_OFF_LEASES, "leases fit");
_Static_assert(WEFT_MEMBERS * sizeof(struct weft_pool_member) <= WEFT_OFF_HOSTS - WEFT_OFF_MEMBERS,
	       "members fit");
_Static_assert(WEFT_HOSTS * sizeof(struct weft_pool_host) <= WEFT_OFF_HOME - WEFT_OFF_HOSTS,
	       "hosts fit");
_Static_assert(WEFT_QPS * sizeof(struct weft_pool_qp) <= WEFT_OFF_MRS - WEFT_OFF_QPS, "QPs fit");
_Static_assert(WEFT_MRS * sizeof(struct weft_pool_mr) <= WEFT_OFF_OBJECTS - WEFT_OFF_MRS,
	       "regions fit");
_Static_assert(WEFT_OBJECTS * sizeof(struct weft_pool_object) <= WEFT_OFF_APE - WEFT_OFF_OBJECTS,
	       "objects fit");
_Static_assert(sizeof(struct weft_pool_ape) <= WEFT_FIRST_SEGMENT * WEFT_SEGMENT - WEFT_OFF_APE,
	       "the torus fits");

_Static_assert(sizeof(struct weft_pool_member) == WEFT_MEMBER_BYTES &&
		       WEFT_QP_BLOCK * sizeof(struct weft_pool_qp) == WEFT_QP_BLOCK_BYTES &&
		       WEFT_MR_BLOCK * sizeof(struct weft_pool_mr) == WEFT_MR_BLOCK_BYTES &&
		       WEFT_OBJECT_BLOCK * sizeof(struct weft_pool_object) ==
			       WEFT_OBJECT_BLOCK_BYTES,
	       "sizes.h has them right");

/* Where shared structs have what. */
static const uint64_t layout[] = {
	sizeof(struct weft_pool_header),
	offsetof(struct weft_pool_header, hosts),
	offsetof(struct weft_pool_header, pool_id),
	offsetof(struct weft_pool_header, slice_bits),
	offsetof(struct weft_pool_header, members_end),
	sizeof(struct weft_pool_host),
	offsetof(struct weft_pool_host, home),
	offsetof(struct weft_pool_host, asked),
	offsetof(struct weft_pool_host, answered),
	offsetof(struct weft_pool_member, rung),
	offsetof(struct weft_pool_member, quiesce),
	sizeof(struct weft_pool_home),
	offsetof(struct weft_pool_home, host),
	offsetof(struct weft_pool_home, merging),
	sizeof(struct weft_pool_near),
	offsetof(struct weft_pool_near, also),
	offsetof(struct weft_pool_near, signalled),
	offsetof(struct weft_pool_near, asleep),
	sizeof(struct weft_pool_leases),
	sizeof(struct weft_pool_busy_line),
	sizeof(struct weft_pool_ask),
	sizeof(struct weft_gathered),
	offsetof(struct weft_pool_ask, id),
	offsetof(struct weft_pool_ask, answered),
	sizeof(struct weft_pool_member),
	offsetof(struct weft_pool_member, gid),
	offsetof(struct weft_pool_member, rehomings),
	offsetof(struct weft_pool_member, mailbox_off),
	offsetof(struct weft_pool_member, ask),
	offsetof(struct weft_pool_member, late),
	offsetof(struct weft_pool_member, taken),
	sizeof(struct weft_pool_mailbox),
	offsetof(struct weft_pool_mailbox_slot, bytes),
	sizeof(struct weft_pool_port),
	sizeof(struct weft_pool_qp),
	offsetof(struct weft_pool_qp, rq_posted),
	offsetof(struct weft_pool_qp, rq_taken),
	offsetof(struct weft_pool_qp, rq_left),
	offsetof(struct weft_pool_qp, fault_qpn),
	sizeof(struct weft_pool_recv),
	offsetof(struct weft_pool_qp, qkey),
	offsetof(struct weft_pool_member, group),
	sizeof(struct weft_pool_group),
	sizeof(struct weft_pool_slot),
	offsetof(struct weft_pool_slot, taken),
	offsetof(struct weft_pool_slot, recv),
	offsetof(struct weft_pool_srq, taken),
	offsetof(struct weft_pool_srq, slots),
	sizeof(struct weft_pool_cqe),
	offsetof(struct weft_pool_cqe, lap),
	offsetof(struct weft_pool_ring, size),
	offsetof(struct weft_pool_ring, produced),
	offsetof(struct weft_pool_ring, cqe),
	offsetof(struct weft_pool_alarm, bell_off),
	offsetof(struct weft_pool_bell, ino),
	sizeof(struct weft_pool_hand),
	offsetof(struct weft_pool_hand, path),
	offsetof(struct weft_pool_hand, posted),
	offsetof(struct weft_pool_hand, seen),
	offsetof(struct weft_pool_hand, line),
	offsetof(struct weft_pool_qp, hand_off),
	offsetof(struct weft_pool_member, card),
	sizeof(struct weft_pool_card),
	offsetof(struct weft_pool_card, reach),
	offsetof(struct weft_pool_outbox, taken),
	sizeof(struct weft_pool_mr),
	offsetof(struct weft_pool_mr, off),
	WEFT_KEY_BITS,
	sizeof(struct weft_pool_object),
	offsetof(struct weft_pool_object, users),
	sizeof(struct weft_pool_piece),
	WEFT_SEGMENT,
	WEFT_SEGMENTS,
	WEFT_MEMBERS,
	WEFT_QP_BLOCK,
	WEFT_MR_BLOCK,
	WEFT_OBJECT_BLOCK,
	WEFT_OFF_MEMBERS,
	WEFT_OFF_HOSTS,
	WEFT_OFF_HOME,
	WEFT_OFF_QPS,
	WEFT_OFF_MRS,
	WEFT_OFF_OBJECTS,
	WEFT_OFF_APE,
	sizeof(struct weft_pool_ape_card),
	sizeof(struct weft_pool_ape_slot),
	offsetof(struct weft_pool_ape_slot, command),
};

/* Two builds that lay any shared struct out differently must not meet in one pool. */
uint64_t weft_signature(void)
{
	uint64_t hash = 14695981039346656037ull; /* FNV-1a */

	for (size_t i = 0; i < sizeof(layout) / sizeof(*layout); i++)
		hash = (hash ^ layout[i]) * 1099511628211ull;
	return hash;
}
