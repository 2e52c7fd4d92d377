/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a thread may ask of the helper of another member (struct weft_pool_ask). */
#ifndef WEFT_POOL_ASK_H
#define WEFT_POOL_ASK_H

enum weft_ask_kind {
	WEFT_ASK_READ = 1,
	WEFT_ASK_WRITE,
	WEFT_ASK_CMP_SWAP,
	WEFT_ASK_FETCH_ADD,
	WEFT_ASK_WRITES, /* several, of memory of a device: struct weft_gathered */
	WEFT_ASK_CHANGE, /* words of the pool: `bounce_off` has an array of struct weft_pool_change */
	/* calls: `bounce_off` has what verbs/receiver.h says */
	WEFT_ASK_QP_OPEN,
	WEFT_ASK_QP_MODIFY,
	WEFT_ASK_QP_QUERY,
	WEFT_ASK_QP_CLOSE,
};

#endif
