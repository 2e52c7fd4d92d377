/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A process with a queue pair, and memory of each kind, which does what it is told. */
#ifndef WEFT_TESTS_GPU_PEER_H
#define WEFT_TESTS_GPU_PEER_H

#include "place.h"

#define PEER_BYTES (128ul << 10)

struct peer_said {
	uint32_t qpn;
	uint64_t at[PLACE_KINDS]; /* 0: it has none of that kind */
	uint32_t rkey[PLACE_KINDS];
	uint8_t bytes[PLACE_KINDS][PEER_BYTES];
	struct ibv_sge receive[RIG_SGE]; /* lkey: the kind */
	uint32_t receives;
	struct ibv_wc wc;
	unsigned long waits;
};

struct peer {
	pid_t pid;
	int ask, answer;
	struct peer_said *said; /* shared by both processes */
};

/* Forks the peer. To be called before this process begins CUDA. */
void peer_start(struct peer *peer);
/* The peer connects its queue pair to that one. */
void peer_connect(struct peer *peer, uint32_t qpn);
/* Copies `bytes` of peer_said into all of the peer's memory; or the other way round. */
void peer_fill(struct peer *peer);
void peer_fetch(struct peer *peer);
/* The peer posts the receive that stands in `receive`; or waits for its next completion. */
void peer_post(struct peer *peer);
void peer_poll(struct peer *peer);
/* The peer frees that memory while it is registered; or allocates it anew. */
void peer_free(struct peer *peer, enum place_kind kind);
void peer_allocate(struct peer *peer, enum place_kind kind);
/* The peer deregisters that memory. */
void peer_end_region(struct peer *peer, enum place_kind kind);
/* What the peer's GPU has to do is held back, or let go. Where there is no stand-in nothing happens. */
void peer_hold(struct peer *peer, bool hold);
/* How often the peer has waited for its GPU; 0 where there is no stand-in. */
unsigned long peer_waits(struct peer *peer);
/* The peer allocates memory of its GPU, waits for its context and frees that, so many times; and whether it has done. */
void peer_works(struct peer *peer, uint32_t rounds);
bool peer_has_worked(struct peer *peer);
/* The peer ends, and must leave nothing behind. */
void peer_end(struct peer *peer);
void peer_kill(struct peer *peer);

#endif
