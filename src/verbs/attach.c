/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A context joins what all contexts of the process share. */
#include "verbs/objects.h"
#include "verbs/process.h"

int weft_nic_attach(struct weft_context *ctx)
{
	int err = weft_process_get();

	if (!err)
		weft_async_init(&ctx->async, ctx->vctx.context.async_fd);
	return err;
}

void weft_nic_detach(struct weft_context *ctx)
{
	weft_async_end(&ctx->async);
	weft_process_put();
}
