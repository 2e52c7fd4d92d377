/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a peer can cause, of tests/verbs/errors.tsv; and where rxe answers something else. */
#ifndef WEFT_TESTS_WIRE_ACROSS_ERRORS_H
#define WEFT_TESTS_WIRE_ACROSS_ERRORS_H

#include "nic/types.h"

struct across_error {
	const char *name;
	enum weft_opcode opcode;
	uint64_t length;
	bool garbled, beyond, no_reads, silent;
	bool refused;	/* by libibverbs already */
	uint32_t shift; /* of the remote address */
	uint8_t without,
		key_without;	/* rights that the responder's queue pair, and its key, lack */
	uint64_t receive_bytes; /* room of the receive, and 1; 0: there is none */
	uint8_t rnr_retry;
	int status, receive_status;
	int rxe_status, rxe_receive_status; /* if that is the responder; 0: the same */
	enum weft_event event;		    /* of the responder; COMM_EST: none */
};

extern const struct across_error across_errors[];
extern const uint32_t across_error_count;

#endif
