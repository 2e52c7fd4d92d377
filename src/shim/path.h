/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which paths the shim answers, and from where.
 *
 * What the kernel would show of an RDMA device is laid down once, when Weft is built, as a folder
 * `sysroot` beside the shim: sysroot/sys/class/infiniband/… with real files, folders and links. To
 * answer a path is to put sysroot in front of it and let the kernel do the rest, so that every
 * flag, folder descriptor, link and error behaves as it should, in all processes at once, without
 * anything to make at run time or to leave behind. The two device nodes are /dev/null, which is a
 * character device that every user may open. Files whose contents depend on the network namespace
 * hold a template, see expand.h.
 *
 * A machine's own RDMA devices are hidden, as our libibverbs knows only weft0.
 *
 * Not reached: raw system calls, the parent folders' lists of names (/sys/class, /dev), and what
 * libc itself opens on a program's behalf in ftw(3), fts(3) and exec.
 *
 * Context: any thread; also signal handlers, but for the first path of ours in a process, which
 * asks the loader where the shim is.
 */
#ifndef WEFT_SHIM_PATH_H
#define WEFT_SHIM_PATH_H

#include <alloca.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define WEFT_INTERPOSED __attribute__((visibility("default")))

/* The next definition of a function that we interpose: libc's, or that of another preload. Looked
 * up at the first call, since a constructor would have a cost and an order. */
#define WEFT_NEXT(fn)                                                                              \
	({                                                                                         \
		static _Atomic(void *) next_;                                                      \
		void *fn_ = atomic_load_explicit(&next_, memory_order_relaxed);                    \
		if (!fn_) {                                                                        \
			fn_ = dlsym(RTLD_NEXT, #fn);                                               \
			atomic_store_explicit(&next_, fn_, memory_order_relaxed);                  \
		}                                                                                  \
		(__typeof__(&fn))fn_;                                                              \
	})

/*
 * Whether a relative path without any of our words may still be ours, because this process works
 * in a folder of ours or was given a descriptor of one. Only ever goes from unknown to one of the
 * others and from no to yes.
 */
enum weft_path_inside {
	WEFT_PATH_UNKNOWN,
	WEFT_PATH_OUTSIDE,
	WEFT_PATH_INSIDE,
};
extern _Atomic int weft_path_inside;

/* Almost every path ends here: two or three searches in a short string. */
static inline bool weft_path_suspect(const char *path)
{
	if (!path)
		return false;
	if (strstr(path, "infiniband") || strstr(path, "weft"))
		return true;
	return path[0] != '/' && path[0] &&
	       atomic_load_explicit(&weft_path_inside, memory_order_relaxed) != WEFT_PATH_OUTSIDE;
}

/*
 * Where a path that openat(dirfd, path) would name is to be found: path itself when it is none of
 * ours, else an absolute name in buf or "/dev/null". errno is kept.
 */
const char *weft_path_map(int dirfd, const char *path, char buf[PATH_MAX]);

/* The name that a program knows for an absolute one: without sysroot, or NULL when not below it. */
const char *weft_path_logical(const char *path);

/* To be called when a program gets a descriptor of a folder of ours, or enters one. */
void weft_path_entered(void);

/* The buffer comes from the caller's stack only when it is needed: handlers run on small ones. */
#define WEFT_MAP(dirfd, path)                                                                      \
	(weft_path_suspect(path) ? weft_path_map(dirfd, path, alloca(PATH_MAX)) : (path))

#endif
