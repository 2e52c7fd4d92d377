/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Enhanced connection establishment: this device has no options to agree on. */
#include <errno.h>

#include "nic/qp.h"
#include "verbs/attr.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/verbs.h"

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (weft_explain_stale("ibv_query_ece", qp, WEFT_HANDLE_QP))
		return EINVAL;
	if (!ece)
		return weft_broken("ibv_query_ece", MISSING, weft_value("ece"));
	*ece = (struct ibv_ece){.vendor_id = WEFT_VENDOR};
	return 0;
}

/* Options that are not known are not accepted, which the next query says. */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (weft_explain_stale("ibv_set_ece", qp, WEFT_HANDLE_QP))
		return EINVAL;
	if (!ece)
		return weft_broken("ibv_set_ece", MISSING, weft_value("ece"));
	if (ece->comp_mask)
		return weft_broken("ibv_set_ece", UNKNOWN_BITS, weft_value("comp_mask"),
				   ece->comp_mask);
	if (ece->vendor_id != WEFT_VENDOR)
		return weft_broken("ibv_set_ece", RANGE, weft_value("vendor_id"), ece->vendor_id,
				   WEFT_VENDOR, WEFT_VENDOR);
	return 0;
}
