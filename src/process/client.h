/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Another library's part of the helper's work. */
#ifndef WEFT_PROCESS_CLIENT_H
#define WEFT_PROCESS_CLIENT_H

#include <stdint.h>

struct weft_helper_client {
	/*
	 * The helper thread calls it, no lock held, when a datagram may have come, when it was
	 * kicked, and when the time is there that the last call returned. Returns when to be
	 * called next, by that clock; UINT64_MAX: never.
	 */
	uint64_t (*run)(uint64_t now_ns);
};

#endif
