/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Address handles: where datagrams go. Which transport carries them there: nic/transport.h. */
#ifndef WEFT_NIC_AH_H
#define WEFT_NIC_AH_H

#include <stdbool.h>
#include <stdint.h>

#include "backing/atomic.h"
#include "nic/lock.h"

struct weft_transport;

/* Where datagrams go (10.2.3). The api keeps it until the requests that name it have completed. */
struct weft_ah {
	uint32_t pd;
	uint32_t flow_label;
	uint8_t sgid[16], dgid[16];
	uint8_t traffic_class, hop_limit;
	bool v2;	       /* RoCE v2: IP and UDP */
	struct weft_lock lock; /* guards what the transport knows of the destination */
	const struct weft_transport *_Atomic transport; /* set by weft_ah_find */
	const struct weft_transport
		*also; /* of a group: to more of its listeners; or NULL. Likewise, before that */
	void *carried; /* its state of the destination */
};

#endif
