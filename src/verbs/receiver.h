/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queue pairs of XRC that receive, and their handles in this and other processes. */
#ifndef WEFT_VERBS_RECEIVER_H
#define WEFT_VERBS_RECEIVER_H

#include <stdint.h>

#include "process/process.h"
#include "verbs/receiver_attr.h"
#include "pool/ask.h"

struct weft_verbs_qp;

/* What goes to the helper of its maker, and comes back. */
struct weft_receiver_call {
	struct weft_receiver_attr attr;
	int32_t mask;
	uint32_t events_seen;
};
_Static_assert(sizeof(struct weft_receiver_call) <= WEFT_CALL_BYTES, "it fits into a message");

/* NULL and errno. */
struct ibv_qp *weft_receiver_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *init);
/* This handle ends. */
void weft_receiver_close(struct weft_verbs_qp *handle);
/* By a handle of a queue pair that another process has made. An errno; EIO: that process does not answer. */
int weft_receiver_modify(struct weft_verbs_qp *handle, const struct ibv_qp_attr *attr, int mask);
int weft_receiver_query(struct weft_verbs_qp *handle, struct ibv_qp_attr *attr, int mask);

/* Each handle's context is told; locks of the queue pair may be held. */
void weft_receiver_raise(struct weft_verbs_qp *real, enum ibv_event_type type);

/* The rest is for the process (struct weft_process_api). `message` is a struct weft_receiver_call. */
int weft_receiver_answer(struct weft_caller *caller, uint16_t member, uint64_t incarnation,
			 enum weft_ask_kind kind, uint64_t id, void *message);
/* It was signalled for events of those that others have made. */
void weft_receiver_events(void);
/* The dead have nothing open. */
void weft_receiver_watch(struct weft_pool *pool);

/* The last context closes: other processes lose those of ours that they have open. There is no helper any more. */
void weft_receiver_end(void);
/* In a fork's child. */
void weft_receiver_forget(void);

#endif
