/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a program needs in its environment so that its RDMA libraries are ours.
 *
 * LD_LIBRARY_PATH alone misses binaries with DT_RPATH, LD_PRELOAD alone misses a dlopen of
 * "libibverbs.so" by a program that is not linked with it: both are set. What the user had there
 * stays. In LD_PRELOAD it stays in front: a sanitizer's runtime must come first, and a tracer that
 * wraps verbs must find ours behind it.
 *
 * Context: one thread, early in main: reads and allocates, never frees.
 */
#ifndef WEFT_CLI_DELIVERY_H
#define WEFT_CLI_DELIVERY_H

#include <limits.h>

struct weft_delivery {
	char self[PATH_MAX]; /* this program */
	char libs[PATH_MAX]; /* holds libibverbs.so.1, librdmacm.so.1, libweft-shim.so, bench/ */
	char bin[PATH_MAX];  /* holds nothing but our `rdma` */
};

/*
 * Finds our files from the place of this program: beside it (a build folder) or under the prefix
 * that it is installed in. 0; 125, the exit status, after saying on stderr what is missing, or that
 * the folder's name holds a character that the loader takes for a separator.
 */
int weft_delivery_find(struct weft_delivery *d);

/*
 * Loads libweft-cuda.so, which lies with the libraries and so is beside this program only where that has not been installed:
 * weft_plugin_load finds it then. 0; -ELIBACC: the libraries were not found; -ENOPKG: it is not there, or the loader refuses it, as
 * dlerror says.
 */
int weft_delivery_load_plugin(void);

/*
 * Calls set() for each variable that has to be set, with its whole new value. Applying the result
 * and asking again gives the same values. pool: the path of the pool, or NULL to leave WEFT_POOL
 * alone; a relative path is made absolute, as programs change their folder.
 * 0; 125 after saying on stderr why; else what set() returned, when that was not 0.
 */
int weft_delivery_each(const struct weft_delivery *d, const char *pool,
		       int (*set)(const char *name, const char *value));

#endif
