/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finds the plugin, and loads it. */
#include "process/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The driver of devices that there is a plugin for, by how its name begins. */
#define DRIVER "libcuda.so"
#define PLUGIN "libweft-cuda.so"

static const struct weft_plugin *_Atomic plugin;
static char missing[256];

static int is_driver(struct dl_phdr_info *info, size_t size, void *unused)
{
	const char *name = strrchr(info->dlpi_name, '/');

	return !strncmp(name ? name + 1 : info->dlpi_name, DRIVER, sizeof(DRIVER) - 1);
}

/* It lies beside the library or program that this is a part of, unless the program has loaded it from elsewhere. */
static void *open_plugin(void)
{
	void *loaded = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	char path[4096];
	const char *end;
	Dl_info self;

	if (loaded)
		return loaded;
	if (!dladdr((const void *)&plugin, &self) || !self.dli_fname)
		return NULL;
	end = strrchr(self.dli_fname, '/');
	snprintf(path, sizeof(path), "%.*s" PLUGIN, end ? (int)(end + 1 - self.dli_fname) : 0,
		 self.dli_fname);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

int weft_plugin_load(const struct weft_plugin **found)
{
	const struct weft_plugin *here;
	const char *lacks;
	void *library;

	*found = weft_plugin_loaded();
	if (*found)
		return 0;
	if (!dl_iterate_phdr(is_driver, NULL))
		return -ENOENT;
	library = open_plugin();
	if (!library) {
		const char *why = dlerror();

		snprintf(missing, sizeof(missing), "%s", why ? why : PLUGIN);
		return -ENOPKG;
	}
	here = dlsym(library, WEFT_PLUGIN_SYMBOL);
	if (!here || here->version != WEFT_PLUGIN_VERSION) {
		snprintf(missing, sizeof(missing), PLUGIN " is %s",
			 here ? "of another version" : "no plugin of Weft's");
		return -ENOPKG;
	}
	lacks = here->lacks();
	if (lacks) {
		snprintf(missing, sizeof(missing), DRIVER " has no %s: it takes a newer driver",
			 lacks);
		return -ENOPKG;
	}
	*found = here;
	atomic_store_explicit(&plugin, here, memory_order_release);
	return 0;
}

const struct weft_plugin *weft_plugin_loaded(void)
{
	/* as it was made by its library's loading: pairs with weft_plugin_load */
	return atomic_load_explicit(&plugin, memory_order_acquire);
}

const char *weft_plugin_missing(void)
{
	return missing;
}
