/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The script that is being run, and what those of its words do that check something. */
#ifndef WEFT_TESTS_NIC_SCRIPT_H
#define WEFT_TESTS_NIC_SCRIPT_H

#include "contract.h"

extern struct script {
	const struct contract_instance *in;
	const char *name;
	uint64_t posted, received;
	uint32_t drained; /* how many events of that type were expected so far */
	bool held, keeps;
} script_now;

/* Carries everything as far as it goes, unless the script holds it. */
void script_settle(void);

/* Expects this completion next; from 101 on at the peer. */
void script_expect(uint64_t wr_id, const char *status);
void script_expect_none(uint64_t wr_id);
void script_none(void);
void script_peer_none(void);
void script_drained(void);
void script_undrained(void);
void script_quarters(const struct end *e, const char *quarters);
void script_word(const struct end *e, uint64_t at, uint64_t value);
/* A program that polls the last byte of a message must see all of it then: checks that at any time. */
void script_check_poller(void);

#endif
