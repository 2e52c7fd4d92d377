/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Handles: the objects behind libibverbs' pointers, whose headers have the public struct first, then the nic's. A
 * pointer that a program hands to a slow verb is looked up (handle.c) before it is followed, so that a null, foreign or
 * destroyed one gets its errno.
 */
#ifndef WEFT_VERBS_HANDLE_H
#define WEFT_VERBS_HANDLE_H

#include <stdbool.h>
#include <stddef.h>

struct ibv_context;

enum weft_handle_kind {
	WEFT_HANDLE_PD,
	WEFT_HANDLE_MR,
	WEFT_HANDLE_CQ,
	WEFT_HANDLE_CHANNEL,
	WEFT_HANDLE_QP,
	WEFT_HANDLE_MW,
	WEFT_HANDLE_AH,
	WEFT_HANDLE_TD,
	WEFT_HANDLE_DM,
	WEFT_HANDLE_BUF,
	WEFT_HANDLE_SRQ,
	WEFT_HANDLE_XRCD,
};

/* 0 or -ENOMEM. */
int weft_handle_add(const void *object, enum weft_handle_kind kind);
bool weft_handle_is(const void *object, enum weft_handle_kind kind);
void weft_handle_remove(const void *object);
/* In a fork's child: they are its parent's. Async-signal-safe. */
void weft_handle_forget(void);
/* Whether it is one of those. The child may end it, as finalizers do, which does nothing: in this process there
 * is nothing of it but its memory, and that stays. */
bool weft_handle_inherited(const void *object);
/* Any object of a kind that fits, or NULL; `fits` is called under a lock, and calls none of these. */
void *weft_handle_find(enum weft_handle_kind kind,
		       bool (*fits)(const void *object, const void *arg), const void *arg);
/* Those of a kind that belong to a context (NULL: to any), in an array to be freed; none when memory is
 * out. */
size_t weft_handle_list(const struct ibv_context *context, enum weft_handle_kind kind,
			void ***list);

#endif
