/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Enhanced connection establishment: this device has no options to agree on. */
#include <errno.h>

#include "verbs/attr.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!weft_handle_is(qp, WEFT_HANDLE_QP) || !ece)
		return EINVAL;
	*ece = (struct ibv_ece){ .vendor_id = WEFT_VENDOR };
	return 0;
}

/* Options that are not known are not accepted, which the next query says. */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!weft_handle_is(qp, WEFT_HANDLE_QP) || !ece || ece->comp_mask ||
	    ece->vendor_id != WEFT_VENDOR)
		return EINVAL;
	return 0;
}
