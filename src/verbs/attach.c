/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "verbs/verbs.h"

int weft_nic_attach(struct weft_context *ctx)
{
	return 0;
}

void weft_nic_detach(struct weft_context *ctx)
{
}
