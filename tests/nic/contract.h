/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The contract of all transports: what becomes of requests and of their two ends, whichever transport carries
 * them. A case is a script (script.c), cases stand in tables by subject (cases_*.c), and each
 * transport has an instance (test_contract.c), which says how it is made to be late, if it can be. A
 * case whose words ask for what a transport has not is left out there, with the reason; how many are, the
 * instance says, and is held to it.
 */
#ifndef WEFT_TESTS_NIC_CONTRACT_H
#define WEFT_TESTS_NIC_CONTRACT_H

#include "ends.h"

struct contract_case {
	const char *name, *script;
};

/* Each ends with one without a name. */
extern const struct contract_case contract_outcomes[], contract_orders[], contract_ends[],
	contract_parts[], contract_answers[], contract_xrc[];

/* What a transport may lack; the more special behind the more general. */
enum contract_need {
	CONTRACT_LATE,	   /* requests are under way when they have been posted */
	CONTRACT_SEVERAL,  /* more than one of a queue pair's is at a time */
	CONTRACT_STRAIGHT, /* bytes leave their place when they arrive, not before */
	CONTRACT_WAITS,	   /* what waits for a receive is under way */
	CONTRACT_PARTS,	   /* they arrive in parts */
	CONTRACT_ANSWERS,  /* what is carried out and what is told are two things */
	CONTRACT_CLINGS,   /* it lets go of requests later than it is left */
	CONTRACT_XRC,	   /* it carries that */
	CONTRACT_NEEDS,
};

struct contract_instance {
	const char *name;
	const struct weft_transport *const *transports;
	bool in_place;			       /* only the machine reaches far's memory */
	const struct contract_case *passes_on; /* which another transport carries; NULL: none */
	void (*begin)(void);		       /* of a case; NULL: nothing to do */
	void (*settle)(void);		       /* carries all that is not held as far as it goes */
	/* Held: nothing is done on its own account; and then: a piece of the oldest request ('0' to '3'), its
	 * beginning ('b') or its end ('e'). */
	void (*hold)(bool held);
	void (*step)(char what);
	uint32_t (*begun)(void); /* how many were begun in this case, and begun anew */
	/* Requests are carried out, but not told of; then one is, or all that is untold is lost. */
	void (*keep)(bool keeps);
	void (*answer)(uint64_t wr_id);
	void (*lose)(void);
	void (*cling)(bool clings);
	struct {
		const char *why;    /* it lacks that; NULL: it does not */
		unsigned int cases; /* that are left out for it */
	} lacks[CONTRACT_NEEDS];
};

/* Of what the script asks for the most special that the instance lacks; CONTRACT_NEEDS: nothing. */
enum contract_need contract_lacking(const struct contract_instance *in, const char *script);
void contract_run(const struct contract_instance *in, const struct contract_case *row);
/* The same with thousands of queue pairs (crowd.c). */
void contract_crowd(const struct contract_instance *in);

#endif
