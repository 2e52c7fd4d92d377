/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A script that is being run, and what its words that look at something do. */
#ifndef WEFT_TESTS_NIC_SCRIPT_H
#define WEFT_TESTS_NIC_SCRIPT_H

#include "contract.h"

extern struct script {
	const struct contract_instance *in;
	const char *name;
	uint64_t posted, received;
	uint32_t drained; /* events seen */
	bool held, keeps;
} script_now;

/* All goes as far as it can, unless it is held. */
void script_settle(void);

/* The next completion there is; of far where the number says so. */
void script_expect(uint64_t wr_id, const char *status);
void script_expect_none(uint64_t wr_id);
void script_none(void);
void script_far_none(void);
void script_drained(void);
void script_undrained(void);
void script_quarters(const struct end *e, const char *quarters);
void script_word(const struct end *e, uint64_t at, uint64_t value);
/* A program that polls the last byte of a message sees all of it then. */
void script_check_poller(void);

#endif
