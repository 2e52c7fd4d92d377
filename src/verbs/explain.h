/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * $WEFT_EXPLAIN: which rule a program has broken, by which clause of InfiniBand volume 1, with which
 * value; a line on standard error for each verb that fails and each completion in error. The rules of
 * verbs stand in rules.h, those of requests in nic/cause.h. Any thread, any locks.
 */
#ifndef WEFT_VERBS_EXPLAIN_H
#define WEFT_VERBS_EXPLAIN_H

#include <errno.h>
#include <stdio.h>

#include "nic/cause.h"
#include "verbs/handle.h"
#include "verbs/rules.h"
#include "verbs/verbs.h"

struct weft_qp;
struct weft_wqe;

/* Whether the program's environment asked for it when it first mattered. */
bool weft_explain_wanted(void);
/* A line, written at once, so that those of threads do not mix. */
#define weft_explain_say(format, ...)                                                              \
	do {                                                                                       \
		if (weft_explain_wanted())                                                         \
			fprintf(stderr, "weft: " format "\n", __VA_ARGS__);                        \
	} while (0)

/* Of a state that does not exist: good until this thread calls again. */
const char *weft_explain_state(unsigned int state);
/* The names of bits of enum ibv_qp_attr_mask, each behind a blank, in `names`. */
const char *weft_explain_mask(uint32_t mask, char *names, size_t room);

/* ---- Verbs ---- */

#define WEFT_RULE_NAME(name, error, clause, words)  WEFT_RULE_##name,
#define WEFT_RULE_ERRNO(name, error, clause, words) WEFT_ERRNO_##name = error,
enum weft_rule { WEFT_RULES(WEFT_RULE_NAME) };
enum weft_rule_errno { WEFT_RULES(WEFT_RULE_ERRNO) };
#undef WEFT_RULE_NAME
#undef WEFT_RULE_ERRNO

#define WEFT_RULE_VALUES 8

/* The verb breaks the rule with these values, as its words name them. Its errno. */
#define weft_broken(verb, rule, ...)                                                               \
	weft_explain_broken(verb, WEFT_RULE_##rule, WEFT_ERRNO_##rule,                             \
			    (const uint64_t[WEFT_RULE_VALUES]){__VA_ARGS__})
__attribute__((cold)) void weft_explain_rule(const char *verb, enum weft_rule rule,
					     const uint64_t value[WEFT_RULE_VALUES]);

static inline int weft_explain_broken(const char *verb, enum weft_rule rule, int error,
				      const uint64_t value[WEFT_RULE_VALUES])
{
	weft_explain_rule(verb, rule, value);
	return error;
}

/* As a value: text, or a pointer. */
static inline uint64_t weft_value(const void *text)
{
	return (uintptr_t)text;
}

/* True, and said: it is no object of that kind, or no open context. */
bool weft_explain_stale(const char *verb, const void *object, enum weft_handle_kind kind);
/* True, and said: it is no protection domain, or an imported one that has ended. */
bool weft_explain_no_domain(const char *verb, struct ibv_pd *pd);
bool weft_explain_closed(const char *verb, const struct ibv_context *context);
/* What a lower layer failed with, an errno. */
__attribute__((cold)) void weft_explain_system(const char *verb, int err);

/* The same as the verb has it: hardware knows one kind of being out of resources. */
static inline int weft_explain_errno(const char *verb, int err)
{
	weft_explain_system(verb, err);
	return err == ENOSPC ? ENOMEM : err;
}

/* ---- Completions and events (blame.c) ---- */

/* A request fails (see struct weft_nic_api). */
void weft_blame_request(const struct weft_qp *qp, const struct weft_wqe *wqe,
			enum weft_cause cause);
/* An asynchronous event has been raised: explained if it tells of an error. */
void weft_blame_event(const struct ibv_async_event *event);
/* weft_verbs_poll_cq() where it is wanted: explains flushed requests and receives in error. */
int weft_blame_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
/* The queue pair begins anew: what is flushed from now on is explained again. */
void weft_blame_reset(uint32_t qpn);

#endif
