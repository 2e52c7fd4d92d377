/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How large the tables of a pool are, and what lies in them: numbers that its formats and those that use them share. */
#ifndef WEFT_POOL_SIZES_H
#define WEFT_POOL_SIZES_H

#define WEFT_PAGE	  4096ull
#define WEFT_LINE	  64u
#define WEFT_SEGMENT_BITS 24u
#define WEFT_SEGMENT                                                                               \
	(1ull << WEFT_SEGMENT_BITS) /* at most: cut_bits of the header says how large they are */
#define WEFT_CUT_BITS 4u
#define WEFT_SEGMENTS 16384u /* at most; file_bytes of the header says how many there are */
#define WEFT_FIRST_SEGMENT                                                                         \
	13u /* of WEFT_SEGMENT; those before hold the tables and are never leased */

#define WEFT_HOSTS 64u /* at most; a pool that is a file has one */

/* Where the home is in the pool's space of offsets (format_home.h), and in a file of its own. */
#define WEFT_OFF_HOME	    (38ull << 20)
#define WEFT_OFF_NEAR	    (WEFT_OFF_HOME + WEFT_PAGE)
#define WEFT_OFF_HOME_END   (48ull << 20) /* queue pairs follow */

#define WEFT_MEMBER_BITS    10u
#define WEFT_MEMBERS	    (1u << WEFT_MEMBER_BITS)
#define WEFT_MEMBER_LINES   64u
#define WEFT_MEMBER_LATE    32u /* asks of requests that are under way, behind those of its lines */
#define WEFT_MEMBER_GIDS    32u
#define WEFT_MEMBER_GROUPS  64u

#define WEFT_DATAGRAM_BYTES 256u
#define WEFT_MAILBOX_SLOTS  256u

#define WEFT_QP_INDEX_BITS  18u
#define WEFT_QPS	    (1u << WEFT_QP_INDEX_BITS)
#define WEFT_QP_BLOCK	    64u
#define WEFT_QPT_QUEUE	    0x80u /* as type: not a queue pair, but a receive queue of XRC */
#define WEFT_MR_INDEX_BITS  20u
#define WEFT_MRS	    (1u << WEFT_MR_INDEX_BITS)
#define WEFT_KEY_BITS	    12u /* of a key below the index */
#define WEFT_MR_BLOCK	    256u
#define WEFT_BLOCKS	    4096u /* of queue pairs, regions and objects */

/* What an entry of the first table takes, and a block of the others. */
#define WEFT_MEMBER_BYTES	(32u << 10)
#define WEFT_QP_BLOCK_BYTES	(12u << 10)
#define WEFT_MR_BLOCK_BYTES	(16u << 10)
#define WEFT_OBJECT_BLOCK_BYTES (8u << 10)

#endif
