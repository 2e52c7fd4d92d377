/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Libraries that a program opens by hand.
 *
 * The loader knows our preloaded libraries by their sonames, so that "libibverbs.so.1" finds them
 * from anywhere. Other names of the same library would be searched for, in a caller's RPATH first,
 * or taken as the path they are, and a second, foreign libibverbs would come in: "libibverbs.so",
 * which NCCL and brpc try first, and absolute names. Those become the soname.
 */
#include <dlfcn.h>

#include "shim/path.h"

/* The soname that ours has for this file, or the name itself. */
static const char *ours(const char *file)
{
	static const char *const sonames[] = {"libibverbs.so.1", "librdmacm.so.1"};
	const char *slash = strrchr(file, '/');
	const char *base = slash ? slash + 1 : file;

	for (int i = 0; i < 2; i++) {
		size_t len = strlen(sonames[i]); /* both end in ".1" */

		if (!strncmp(base, sonames[i], len - 2) &&
		    (!base[len - 2] ||
		     (!strncmp(base + len - 2, ".1", 2) && (!base[len] || base[len] == '.'))))
			return sonames[i];
	}
	return file;
}

/*
 * libc looks at its return address to know whose RPATH and namespace to take: the call must be a
 * jump, so that it finds our caller's, even in a build without optimization.
 */
#ifdef __clang__
#define JUMPING
#define JUMP __attribute__((musttail)) return
#else
#define JUMPING __attribute__((optimize("O2")))
#define JUMP	return
#endif

JUMPING WEFT_INTERPOSED void *dlopen(const char *file, int mode)
{
	JUMP WEFT_NEXT(dlopen)(file ? ours(file) : file, mode);
}
