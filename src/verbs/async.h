/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Asynchronous events that wait to be read, and those that a program has yet to acknowledge (event.c). */
#ifndef WEFT_VERBS_ASYNC_H
#define WEFT_VERBS_ASYNC_H

#include "verbs/verbs.h"

/* Where an object counts its asynchronous events: those that the program has read, and has
 * acknowledged. `read` is guarded by the context's list of events, `completed` by the mutex. */
struct weft_acks {
	pthread_mutex_t *mutex; /* NULL: of a port or the device, which need none to go */
	pthread_cond_t *cond;
	uint32_t *completed, *read;
};

/* event.c. The context's list of asynchronous events is made and ended with it. */
void weft_async_init(struct weft_async *async, int fd);
void weft_async_end(struct weft_async *async);
void weft_async_raise(struct ibv_context *context, const struct ibv_async_event *event);
/* The object is being destroyed: forgets its unread events, and waits until those that were read
 * are acknowledged. */
void weft_async_finish(struct ibv_context *context, const void *object, struct weft_acks acks);

/* Takes one back from an eventfd that counts events. Never blocks: a reader that has already taken
 * its count finds its list short and reads again; what stays too much does the same to the next. */
void weft_uncount(int fd);

#endif
