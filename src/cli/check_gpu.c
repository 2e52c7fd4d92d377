/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Whether memory of GPUs can be registered, where there is a driver of them. */
#include "cli/checkup.h"
#include "cli/delivery.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include "process/plugin.h"

/* How many the driver tells of. False: *answer is what its call said. */
static bool count_gpus(void *driver, int *count, int *answer)
{
	int (*init)(unsigned int flags);
	int (*get_count)(int *count);

	*(void **)&init = dlsym(driver, "cuInit");
	*(void **)&get_count = dlsym(driver, "cuDeviceGetCount");
	*answer = -1;
	if (!init || !get_count)
		return false;
	*answer = init(0);
	if (!*answer)
		*answer = get_count(count);
	return !*answer;
}

/* What is wrong with the plugin, or NULL. */
static const char *look_for_plugin(void)
{
	const struct weft_plugin *plugin;
	const char *why;

	switch (weft_delivery_load_plugin()) {
	case 0:
		return weft_plugin_load(&plugin) ? weft_plugin_missing() : NULL;
	case -ENOPKG:
		why = dlerror();
		return why ? why : "libweft-cuda.so is not there";
	default:
		return NULL; /* check_program says that the libraries were not found */
	}
}

void weft_check_gpu(struct weft_checkup *c)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	char finding[512];
	const char *why;
	int count = 0, answer;

	if (!driver)
		return;
	why = look_for_plugin();
	if (why) {
		snprintf(finding, sizeof(finding), "memory of GPUs cannot be registered: %.400s",
			 why);
		weft_checkup_say(
			c, "gpu", WEFT_VERDICT_NOTE, finding,
			"libweft-cuda.so of the same build beside libibverbs.so.1, and a "
			"driver of CUDA 11.7 or later; until then memory of the host stays "
			"in place in programs with libcuda, which is slower");
	} else if (!count_gpus(driver, &count, &answer) || !count) {
		snprintf(finding, sizeof(finding), "libcuda.so.1 tells of no GPU (%d)", answer);
		weft_checkup_say(c, "gpu", WEFT_VERDICT_NOTE, finding,
				 "nvidia-smi says why; programs without GPUs need nothing of it");
	} else {
		snprintf(finding, sizeof(finding), "memory of %d can be registered", count);
		weft_checkup_say(c, "gpu", WEFT_VERDICT_OK, finding, NULL);
	}
}
