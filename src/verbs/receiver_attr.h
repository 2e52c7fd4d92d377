/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The attributes of a queue pair as they go from one process to another: what of libibverbs' struct
 * ibv_qp_attr has a sense here, in a layout of our own.
 */
#ifndef WEFT_VERBS_RECEIVER_ATTR_H
#define WEFT_VERBS_RECEIVER_ATTR_H

#include <string.h>

#include "verbs/verbs.h"

#define WEFT_RECEIVER_PATH(X, path, alt)                                                           \
	X(uint32_t, alt##flow_label, path.grh.flow_label)                                          \
	X(uint16_t, alt##dlid, path.dlid)                                                          \
	X(uint8_t, alt##sgid_index, path.grh.sgid_index)                                           \
	X(uint8_t, alt##hop_limit, path.grh.hop_limit)                                             \
	X(uint8_t, alt##traffic_class, path.grh.traffic_class)                                     \
	X(uint8_t, alt##sl, path.sl)                                                               \
	X(uint8_t, alt##src_path_bits, path.src_path_bits)                                         \
	X(uint8_t, alt##static_rate, path.static_rate)                                             \
	X(uint8_t, alt##is_global, path.is_global)                                                 \
	X(uint8_t, alt##ah_port_num, path.port_num)

/* type here, name here, name there */
#define WEFT_RECEIVER_ATTR(X)                                                                      \
	X(uint32_t, qp_state, qp_state)                                                            \
	X(uint32_t, cur_qp_state, cur_qp_state)                                                    \
	X(uint32_t, path_mtu, path_mtu)                                                            \
	X(uint32_t, path_mig_state, path_mig_state)                                                \
	X(uint32_t, qkey, qkey)                                                                    \
	X(uint32_t, rq_psn, rq_psn)                                                                \
	X(uint32_t, sq_psn, sq_psn)                                                                \
	X(uint32_t, dest_qp_num, dest_qp_num)                                                      \
	X(uint32_t, qp_access_flags, qp_access_flags)                                              \
	X(uint32_t, max_send_wr, cap.max_send_wr)                                                  \
	X(uint32_t, max_recv_wr, cap.max_recv_wr)                                                  \
	X(uint32_t, max_send_sge, cap.max_send_sge)                                                \
	X(uint32_t, max_recv_sge, cap.max_recv_sge)                                                \
	X(uint32_t, max_inline_data, cap.max_inline_data)                                          \
	X(uint32_t, rate_limit, rate_limit)                                                        \
	X(uint16_t, pkey_index, pkey_index)                                                        \
	X(uint16_t, alt_pkey_index, alt_pkey_index)                                                \
	X(uint8_t, en_sqd_async_notify, en_sqd_async_notify)                                       \
	X(uint8_t, sq_draining, sq_draining)                                                       \
	X(uint8_t, max_rd_atomic, max_rd_atomic)                                                   \
	X(uint8_t, max_dest_rd_atomic, max_dest_rd_atomic)                                         \
	X(uint8_t, min_rnr_timer, min_rnr_timer)                                                   \
	X(uint8_t, port_num, port_num)                                                             \
	X(uint8_t, timeout, timeout)                                                               \
	X(uint8_t, retry_cnt, retry_cnt)                                                           \
	X(uint8_t, rnr_retry, rnr_retry)                                                           \
	X(uint8_t, alt_port_num, alt_port_num)                                                     \
	X(uint8_t, alt_timeout, alt_timeout)                                                       \
	WEFT_RECEIVER_PATH(X, ah_attr, )                                                           \
	WEFT_RECEIVER_PATH(X, alt_ah_attr, alt_)

struct weft_receiver_attr {
#define WEFT_FIELD(type, ours, theirs) type ours;
	WEFT_RECEIVER_ATTR(WEFT_FIELD)
#undef WEFT_FIELD
	uint8_t dgid[16], alt_dgid[16];
};

static inline struct weft_receiver_attr weft_receiver_attr_of(const struct ibv_qp_attr *attr)
{
	struct weft_receiver_attr a = {0};

#define WEFT_PACK(type, ours, theirs) a.ours = (type)attr->theirs;
	WEFT_RECEIVER_ATTR(WEFT_PACK)
#undef WEFT_PACK
	memcpy(a.dgid, attr->ah_attr.grh.dgid.raw, 16);
	memcpy(a.alt_dgid, attr->alt_ah_attr.grh.dgid.raw, 16);
	return a;
}

static inline struct ibv_qp_attr weft_receiver_attr_get(const struct weft_receiver_attr *a)
{
	struct ibv_qp_attr attr = {0};

#define WEFT_UNPACK(type, ours, theirs) attr.theirs = a->ours;
	WEFT_RECEIVER_ATTR(WEFT_UNPACK)
#undef WEFT_UNPACK
	memcpy(attr.ah_attr.grh.dgid.raw, a->dgid, 16);
	memcpy(attr.alt_ah_attr.grh.dgid.raw, a->alt_dgid, 16);
	return attr;
}

#endif
