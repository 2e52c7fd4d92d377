/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How much of each a program may ask for; what the device says of itself comes from here. */
#ifndef WEFT_NIC_LIMITS_H
#define WEFT_NIC_LIMITS_H

#define WEFT_MAX_SGE	   32u
#define WEFT_MAX_INLINE	   1024u
#define WEFT_MAX_WR	   32768u
#define WEFT_MAX_CQE	   (1u << 22)
#define WEFT_MAX_MSG_BYTES (1ull << 31)
#define WEFT_MTU	   4096u /* a datagram's most */
#define WEFT_GRH_BYTES	   40u
#define WEFT_QPN_MULTICAST 0xffffffu
/* How long an answer may be under way in the device, as a code of timeouts: 4.096 µs times two to its power. */
#define WEFT_ACK_DELAY 15u

#endif
