/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * $WEFT_EXPLAIN: which rule a program has broken, by which clause of InfiniBand volume 1, with
 * which value; a line on standard error for each verb that fails and each completion in error. The
 * rules of verbs stand in rules.h, those of requests in nic/cause.h. Any thread, any locks.
 */
#ifndef WEFT_VERBS_EXPLAIN_H
#define WEFT_VERBS_EXPLAIN_H

#include <stdio.h>

#include "nic/nic.h"
#include "verbs/verbs.h"

/* Whether the program's environment asked for it when it first mattered. */
bool weft_explain_wanted(void);
/* A line, written at once, so that those of threads do not mix. */
#define weft_explain_say(format, ...)                                                              \
	do {                                                                                       \
		if (weft_explain_wanted())                                                         \
			fprintf(stderr, "weft: " format "\n", __VA_ARGS__);                        \
	} while (0)

/* blame.c: a request fails (see struct weft_nic_env). */
void weft_blame_request(const struct weft_qp *qp, const struct weft_wqe *wqe,
			enum weft_cause cause);
/* An asynchronous event has been raised: explained if it tells of an error. */
void weft_blame_event(const struct ibv_async_event *event);
/* weft_verbs_poll_cq() for who wants it: explains flushed requests and receives in error. */
int weft_blame_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);

#endif
