/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The contract of all transports: what becomes of requests and of their two ends, whichever transport carries
 * them. A case is a script (script.c); cases stand in tables by subject (cases_*.c); each transport has an
 * instance (instances.c), which says how it can be made late, if at all. A case that asks for something
 * that a transport lacks is left out for it. The instance says why, and how many cases that concerns, and is
 * held to both.
 */
#ifndef WEFT_TESTS_NIC_CONTRACT_H
#define WEFT_TESTS_NIC_CONTRACT_H

#include "ends.h"

struct contract_case {
	const char *name, *script;
};

/* The last row of each table has no name. */
extern const struct contract_case contract_outcomes[], contract_orders[], contract_ends[],
	contract_parts[], contract_answers[], contract_xrc[];

/* What a transport may lack: the more special, the further behind. */
enum contract_need {
	CONTRACT_LATE,	  /* requests may still be under way when they have been posted */
	CONTRACT_SEVERAL, /* more than one request of a queue pair is under way at a time */
	/* bytes are read from their place when they arrive at the peer, not before */
	CONTRACT_STRAIGHT,
	CONTRACT_WAITS, /* a request that waits for a receive is under way */
	CONTRACT_WHOLE, /* a WRITE with immediate that finds no receive has stored nothing */
	CONTRACT_AWAY,	/* while the peer rehomes no time runs for a request */
	/* the peer alone may be connected anew: the two need not agree on how much they have sent */
	CONTRACT_RENEWS,
	CONTRACT_PARTS, /* requests arrive in parts */
	/* that a request is carried out and that the requester is told are two steps */
	CONTRACT_ANSWERS,
	CONTRACT_CLINGS, /* after it was told to abort it still has requests for a while */
	CONTRACT_XRC,	 /* it carries requests of XRC */
	CONTRACT_NEEDS,
};

struct contract_instance {
	const char *name;
	const struct weft_transport *const *transports;
	bool in_place; /* only the machine reaches the peer's memory */
	bool apart;    /* the ends are at two nodes of a torus */
	/* whose requests another transport carries; NULL: none */
	const struct contract_case *passes_on;
	void (*begin)(void); /* called before each case; NULL: nothing to do */
	/* carries everything that is not held as far as it goes */
	void (*settle)(void);
	/* Held: the transport does nothing by itself, but steps: a part of the oldest request ('0' to '3'),
	 * its beginning ('b') or its end ('e'). */
	void (*hold)(bool held);
	void (*step)(char what);
	/* how many requests of this case were begun, counting those that began anew */
	uint32_t (*begun)(void);
	/* Keep: requests are carried out, and their answers held back; then one answer comes, or all of them
	 * are lost. */
	void (*keep)(bool keeps);
	void (*answer)(uint64_t wr_id);
	void (*lose)(void);
	void (*cling)(bool clings);
	struct {
		const char *why;    /* it lacks this; NULL: it has it */
		unsigned int cases; /* how many cases are left out because of it */
	} lacks[CONTRACT_NEEDS];
};

/* The most special need of the script that the instance lacks; CONTRACT_NEEDS: it lacks none. */
enum contract_need contract_lacking(const struct contract_instance *in, const char *script);
void contract_run(const struct contract_instance *in, const struct contract_case *row);
/* The same rules with thousands of queue pairs (crowd.c). */
void contract_crowd(const struct contract_instance *in);

/* All of this for each instance. Each test has a world of its own: one that fails leaves its world as it is. */
#define CONTRACT_TESTS 10u
extern const struct CMUnitTest contract_list[CONTRACT_TESTS];
/* Returns how many have failed. */
int contract_run_test(const struct CMUnitTest *test);

#endif
