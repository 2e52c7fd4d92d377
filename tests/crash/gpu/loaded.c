/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Tells the program that loads this plugin which steps the plugin has. */
#include "../steps.h"

#include "pool/step.h"

extern struct weft_step __start_weft_steps[] __attribute__((visibility("hidden")));
extern struct weft_step __stop_weft_steps[] __attribute__((visibility("hidden")));

__attribute__((constructor)) static void tell(void)
{
	steps_loaded(__start_weft_steps, __stop_weft_steps);
}
