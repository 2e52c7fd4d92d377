/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two connected ends with memory of each kind. The peer is in this process or in one of its own, so that
 * the same tests run on both; its process is this program, started again, and obeys the calls below.
 */
#ifndef WEFT_TESTS_VERBS_ENDS_H
#define WEFT_TESTS_VERBS_ENDS_H

#include "rig.h"

#include <sys/types.h>

#define ENDS_BYTES ((1u << 20) + 4 * 4096u)
#define ENDS_SMALL 64u /* length of the region of KIND_SMALL */

/* Where memory lies decides how it is reached. A region is ENDS_BYTES long, of KIND_SMALL ENDS_SMALL. */
enum kind {
	KIND_POOLED,
	KIND_MIXED, /* pooled, but for its first and last bytes */
	/* in several extents, and some pages in place: parts of it were registered before */
	KIND_PIECES,
	KIND_DATA,
	KIND_STACK,
	KIND_SHARED,
#ifdef WITH_GPU
	KIND_GPU, /* by verbs alone, and by libcuda */
#endif
	KIND_SMALL, /* from malloc */
	KINDS,
};

struct buffer {
	uint64_t at;
	uint32_t key, bytes;
};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr[KINDS];
	struct ibv_mr *part[4]; /* regions over parts of the memory of KIND_PIECES */
	struct buffer buffer[KINDS], peer[KINDS];
};

struct peer {
	struct end *here; /* NULL: in another process */
	pid_t pid;
	int socket, memory;
	struct buffer buffer[KINDS];
	uint64_t bounce; /* of its process: ENDS_BYTES to and from a GPU */
};

extern const char *const kind_name[KINDS];

static inline bool ends_on_gpu(enum kind kind)
{
#ifdef WITH_GPU
	return kind == KIND_GPU;
#else
	return false;
#endif
}

/* Writes and reads an end's own memory, from an offset in it. */
void ends_put(const struct end *end, enum kind kind, uint32_t at, const void *from, size_t bytes);
void ends_get(const struct end *end, enum kind kind, void *to, uint32_t at, size_t bytes);

/* What main() does: runs the tests, or plays the other end. With the argument "helper", neither end may make
 * the calls by which processes reach each other's memory. */
int ends_main(int argc, char **argv, int (*run)(void));

/* Both ends, connected. */
void ends_open(struct end *near, struct peer *peer, bool other_process);
void ends_close(struct end *near, struct peer *peer);

/* Verbs of the peer. An error of one of them fails the test. */
void peer_receive(struct peer *peer, uint64_t wr_id, const struct ibv_sge *sge, int num_sge);
struct ibv_wc peer_next(struct peer *peer);
/* Waits for the peer's next asynchronous event, which must be about its queue pair. */
enum ibv_event_type peer_event(struct peer *peer);
void peer_modify(struct peer *peer, enum ibv_qp_state to);
enum ibv_qp_state peer_state(struct peer *peer);
/* Deregisters a region of the peer, or unmaps its memory while it is registered. */
void peer_deregister(struct peer *peer, enum kind kind);
void peer_unmap(struct peer *peer, enum kind kind);
/* Ends the peer's process by a signal. ends_close() must be called all the same. */
void peer_kill(struct peer *peer, int signal);

/* What the peer is to do at any time: a test program sets it, peer_begin_game() has it called
 * there, and peer_end_game() returns its result. */
extern int64_t (*ends_game)(struct end *end);
void peer_begin_game(struct peer *peer);
int64_t peer_end_game(struct peer *peer);

/* The peer plays the litmus test while the near end does; litmus.h. */
struct litmus;
struct litmus_result;
void peer_begin_litmus(struct peer *peer, const struct litmus *game);
struct litmus_result peer_end_litmus(struct peer *peer);
/* Writes and reads the peer's memory, without its process taking part unless that is a GPU's. */
void peer_put(struct peer *peer, uint64_t to, const void *from, size_t bytes);
void peer_get(struct peer *peer, void *to, uint64_t from, size_t bytes);

#endif
