/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <ctype.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "nic/qp.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/pd.h"

#define TEXT_BYTES 320

bool weft_explain_wanted(void)
{
	static _Atomic signed char wanted; /* 0: not looked yet */

	if (!wanted) {
		const char *value = getenv("WEFT_EXPLAIN");

		wanted = value && *value && strcmp(value, "0") != 0 ? 1 : -1;
	}
	return wanted > 0;
}

const char *weft_explain_state(unsigned int state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	static _Thread_local char none[24];

	if (state < sizeof(names) / sizeof(*names))
		return names[state];
	snprintf(none, sizeof(none), "no state (%d)", (int)state);
	return none;
}

const char *weft_explain_mask(uint32_t mask, char *names, size_t room)
{
	static const char *const name[] = {
		"STATE",
		"CUR_STATE",
		"EN_SQD_ASYNC_NOTIFY",
		"ACCESS_FLAGS",
		"PKEY_INDEX",
		"PORT",
		"QKEY",
		"AV",
		"PATH_MTU",
		"TIMEOUT",
		"RETRY_CNT",
		"RNR_RETRY",
		"RQ_PSN",
		"MAX_QP_RD_ATOMIC",
		"ALT_PATH",
		"MIN_RNR_TIMER",
		"SQ_PSN",
		"MAX_DEST_RD_ATOMIC",
		"PATH_MIG_STATE",
		"CAP",
		"DEST_QPN",
	};
	size_t at = 0;

	*names = 0;
	for (uint32_t i = 0; i < sizeof(name) / sizeof(*name) && at < room; i++)
		if (mask >> i & 1)
			at += (size_t)snprintf(names + at, room - at, " IBV_QP_%s", name[i]);
	return names;
}

/* Before a clause; nothing before a manual page. */
static const char *book_of(const char *clause)
{
	return isdigit((unsigned char)*clause) || *clause == 'A' ? "IBTA " : "";
}

/* ---- Verbs ---- */

struct rule {
	const char *name, *clause, *words; /* of the errno */
};

static const struct rule rules[] = {
#define RULE(name, error, clause, words) [WEFT_RULE_##name] = {#error, clause, words},
	WEFT_RULES(RULE)
#undef RULE
};

static void put_argument(char *to, size_t room, char kind, uint64_t value)
{
	if (kind == 's')
		snprintf(to, room, "%s", (const char *)(uintptr_t)value);
	else if (kind == 'x')
		snprintf(to, room, "0x%" PRIx64, value);
	else if (kind == 'l')
		snprintf(to, room, "%" PRIu64, value);
	else
		snprintf(to, room, "%" PRId64, (int64_t)value); /* programs give ints below 0 */
}

static void fill_rule(char text[TEXT_BYTES], const char *words, const uint64_t *value)
{
	size_t at = 0, plain;

	while (*words && at + 1 < TEXT_BYTES) {
		plain = strcspn(words, "%");
		if (plain) {
			snprintf(text + at, TEXT_BYTES - at, "%.*s", (int)plain, words);
			words += plain;
		} else {
			put_argument(text + at, TEXT_BYTES - at, words[1], *value++);
			words += 2;
		}
		at += strlen(text + at);
	}
}

static void say_rule(const char *verb, const struct rule *rule, const uint64_t *value)
{
	char text[TEXT_BYTES];

	if (!weft_explain_wanted())
		return;
	fill_rule(text, rule->words, value);
	weft_explain_say("%s: %s: %s; %s%s", verb, rule->name, text, book_of(rule->clause),
			 rule->clause);
}

void weft_explain_rule(const char *verb, enum weft_rule rule,
		       const uint64_t value[WEFT_RULE_VALUES])
{
	say_rule(verb, &rules[rule], value);
}

bool weft_explain_stale(const char *verb, const void *object, enum weft_handle_kind kind)
{
	static const char *const names[] = {[WEFT_HANDLE_PD] = "protection domain",
					    [WEFT_HANDLE_MR] = "memory region",
					    [WEFT_HANDLE_CQ] = "completion queue",
					    [WEFT_HANDLE_CHANNEL] = "completion channel",
					    [WEFT_HANDLE_QP] = "queue pair",
					    [WEFT_HANDLE_MW] = "memory window",
					    [WEFT_HANDLE_AH] = "address handle",
					    [WEFT_HANDLE_TD] = "thread domain",
					    [WEFT_HANDLE_DM] = "device memory",
					    [WEFT_HANDLE_BUF] = "buffer",
					    [WEFT_HANDLE_SRQ] = "shared receive queue",
					    [WEFT_HANDLE_XRCD] = "XRC domain"};

	if (weft_handle_is(object, kind))
		return false;
	weft_broken(verb, HANDLE, weft_value(object), weft_value(names[kind]));
	return true;
}

bool weft_explain_no_domain(const char *verb, struct ibv_pd *pd)
{
	if (weft_explain_stale(verb, pd, WEFT_HANDLE_PD))
		return true;
	if (!weft_verbs_pd_ended(weft_pd(pd)))
		return false;
	weft_broken(verb, DOMAIN_ENDED, pd->handle);
	return true;
}

bool weft_explain_closed(const char *verb, const struct ibv_context *context)
{
	if (weft_context_find(context))
		return false;
	weft_broken(verb, CONTEXT, weft_value(context));
	return true;
}

void weft_explain_system(const char *verb, int err)
{
	uint64_t why[WEFT_RULE_VALUES] = {weft_value(strerror(err))};
	struct rlimit limit = {0};
	struct rule system = rules[WEFT_RULE_SYSTEM];
	char name[24];

	if (err == ENOMEM || err == ENOSPC) {
		weft_explain_rule(verb, WEFT_RULE_RESOURCES, why);
		return;
	}
	/* of pthread_create: the helper's, at the first verb that needs it */
	if (err == EAGAIN) {
		getrlimit(RLIMIT_NPROC, &limit);
		why[0] = limit.rlim_cur;
		weft_explain_rule(verb, WEFT_RULE_THREAD, why);
		return;
	}
	snprintf(name, sizeof(name), "errno %d", err);
	system.name = name;
	say_rule(verb, &system, why);
}
