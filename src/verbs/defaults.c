/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Operations of a context's tables that Weft does not have. Who writes one deletes it here.
 */
#include <errno.h>

#include "verbs/verbs.h"

static void *no_object(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

struct ibv_qp *weft_verbs_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	return no_object();
}
