/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What carries a list to memory of a GPU: the host has room of the same layout, of which parts are copied to the same
 * places there, by the plugin's copy engine, in the order of the calls, or its kernel where the program has asked for one, in
 * whatever order.
 *
 * Context: weft_ferry_begin and weft_ferry_end any thread's, the others one thread's at a time.
 */
#ifndef WEFT_STREAM_FERRY_H
#define WEFT_STREAM_FERRY_H

#include <stdbool.h>
#include <stdint.h>

#include "process/plugin.h"

struct weft_ferry;

/* resident: by a kernel that stays. 0; -ENOTSUP: no driver of GPUs is in this process, or the plugin for it, or the
 * kernel, is missing; -EINVAL: not all of that is memory of
 * one GPU; -ENOMEM; -EIO: the driver does not answer. */
int weft_ferry_begin(void *memory, uint64_t len_bytes, bool resident, struct weft_ferry **ferry);
/* All copies have been waited for. */
void weft_ferry_end(struct weft_ferry *ferry);
/* The host's room, at first all zeros; a fork's child shares it. */
uint8_t *weft_ferry_host(const struct weft_ferry *ferry);
/* From here on buffers are carried, by the kernel if it is to be one, until weft_ferry_stop. -EIO: it does not begin. */
int weft_ferry_start(struct weft_ferry *ferry);
void weft_ferry_stop(struct weft_ferry *ferry);
/* Begins the copy of a part, by the copy engine, which stays as it is until weft_ferry_wait. Kernels that run see it behind
 * all that was begun before. 0 or -EFAULT: the memory is not what it was, or the driver refuses. Not while a kernel stays. */
int weft_ferry_issue(struct weft_ferry *ferry, uint64_t offset, uint64_t len_bytes);
/* Begins the copy of two parts, and of the word at an offset of the host's room behind them. The copy engine is given at one go, by
 * weft_ferry_send, what has words that follow each other, with up to 4 KiB that lie between parts: buffers in a row. */
int weft_ferry_carry(struct weft_ferry *ferry, const struct weft_plugin_part part[2],
		     uint64_t word_at);
void weft_ferry_send(struct weft_ferry *ferry);
/* Until all that was begun is there for all kernels, launched before or later. Due also after an error. 0 or -EFAULT. */
int weft_ferry_wait(struct weft_ferry *ferry);
/* How many calls of weft_ferry_carry have succeeded, and of how many, counted from the first on, all is there. Of an error it
 * does not tell, as weft_ferry_wait does. */
uint64_t weft_ferry_carried(const struct weft_ferry *ferry);
uint64_t weft_ferry_done(struct weft_ferry *ferry);

#endif
