/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a consumer that arms its queue, looks once more and sleeps shares with its producer: messages without bytes,
 * each acknowledged by a WRITE of its number before the next one is sent. Context: one thread an end.
 */
#ifndef WEFT_TEST_ARMING_H
#define WEFT_TEST_ARMING_H

#include <stdatomic.h>

#include "end.h"

/* In memory that both processes map: how many messages the producer has begun to send, and how many calls have returned. */
struct arming_sent {
	_Atomic uint64_t begun, ended;
};

/* The addresses of both ends, through a socket. */
void arming_swap(int fd, const struct end *end, struct end_address *peer);

/* The producer: one message, after a pause of random length; then its acknowledgement. */
void arming_send(struct end *end, struct arming_sent *sent, uint32_t *random);

/* The consumer: its end on a queue of its own, with a channel. */
struct arming {
	struct end end;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq, *plain;
	struct ibv_qp *unused;
};
void arming_open(struct arming *a);
void arming_close(struct arming *a);
struct ibv_qp *arming_add_qp(struct arming *a);
void arming_receive(struct arming *a);
void arming_acknowledge(struct arming *a, const struct end_address *peer, uint64_t number);
/* True when a receive completed; completions of acknowledgements pass by. dies: they may fail, since the producer may
 * be dead. */
bool arming_look(struct arming *a, bool dies);
bool arming_readable(const struct arming *a, int timeout_ms);

#endif
