/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef WEFT_TRANSPORT_DIRECT_GRH_H
#define WEFT_TRANSPORT_DIRECT_GRH_H

#include "nic/ah.h"
#include "nic/limits.h"

/*
 * What stands in a receive before the bytes of a datagram, as network cards leave it there: the
 * header of RoCE v1 (8.3), or that of IPv6, or in the last 20 bytes that of IPv4 (A17.4.5). Returns
 * the service level that the completion shows: the kind of header (0, 1, 2), as mlx5 has it. imm: the
 * packet has immediate data before its bytes.
 */
uint8_t weft_grh_fill(uint8_t grh[WEFT_GRH_BYTES], const struct weft_ah *ah, bool imm,
		      uint32_t len_bytes);

#endif
