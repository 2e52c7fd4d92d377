/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What tells builds apart that must not meet in one pool. */
#include "pool/internal.h"
#include "pool/object.h"

/* Two builds that lay any shared struct out differently must not meet in one pool. */
uint64_t weft_signature(void)
{
	static const uint64_t layout[] = {
		sizeof(struct weft_pool_header),
		offsetof(struct weft_pool_header, merging),
		sizeof(struct weft_pool_leases),
		sizeof(struct weft_pool_line),
		sizeof(struct weft_pool_ask),
		offsetof(struct weft_pool_ask, id),
		offsetof(struct weft_pool_ask, answered),
		sizeof(struct weft_pool_member),
		offsetof(struct weft_pool_member, gid),
		offsetof(struct weft_pool_member, moves),
		offsetof(struct weft_pool_member, also),
		offsetof(struct weft_pool_member, signalled),
		offsetof(struct weft_pool_member, asleep),
		offsetof(struct weft_pool_member, mailbox_off),
		offsetof(struct weft_pool_member, line),
		offsetof(struct weft_pool_member, ask),
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
		WEFT_OFF_QPS,
		WEFT_OFF_MRS,
		WEFT_OFF_OBJECTS,
	};
	uint64_t hash = 14695981039346656037ull; /* FNV-1a */

	for (size_t i = 0; i < sizeof(layout) / sizeof(*layout); i++)
		hash = (hash ^ layout[i]) * 1099511628211ull;
	return hash;
}
