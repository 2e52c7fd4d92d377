/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* For a libibverbs that is wrong: its revoker asks no other host, and relies on the barrier of its own kernel. */
#include "pool/host.h"

int __wrap_weft_quiesce_ask(struct weft_attachment *a, uint16_t member, uint32_t qp,
			    uint64_t patience_ns, bool suspects);
int __wrap_weft_quiesce_ask(struct weft_attachment *a, uint16_t member, uint32_t qp,
			    uint64_t patience_ns, bool suspects)
{
	return 0;
}
