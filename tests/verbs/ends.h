/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two connected ends with memory of each kind, the far one in this process or in one of its own:
 * the same tests run on both. The other process is this program, started again, and does as told.
 */
#ifndef WEFT_TESTS_VERBS_ENDS_H
#define WEFT_TESTS_VERBS_ENDS_H

#include "rig.h"

#include <sys/types.h>

#define ENDS_BYTES ((1u << 20) + 4 * 4096u)
#define ENDS_SMALL 64u /* of the kind that is so small */

/* Where memory lies decides how it is reached; a region is ENDS_BYTES long, or ENDS_SMALL. */
enum kind {
	KIND_POOLED,
	KIND_MIXED,  /* all but its first and last bytes are */
	KIND_PIECES, /* in several extents, some pages in place: parts were registered before */
	KIND_DATA,
	KIND_STACK,
	KIND_SHARED,
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
	struct ibv_mr *part[4]; /* of the memory in pieces */
	struct buffer buffer[KINDS], peer[KINDS];
};

struct far {
	struct end *here; /* NULL: in another process */
	pid_t pid;
	int socket, memory;
	struct buffer buffer[KINDS];
};

extern const char *const kind_name[KINDS];

/* What main() does: runs the tests, or is the other end. With the argument "helper", neither end may
 * make the calls by which processes reach each other's memory. */
int ends_main(int argc, char **argv, int (*run)(void));

/* Both ends, connected. */
void ends_open(struct end *near, struct far *far, bool other_process);
void ends_close(struct end *near, struct far *far);

/* The far end's verbs; what goes wrong there fails the test. */
void far_receive(struct far *far, uint64_t wr_id, const struct ibv_sge *sge, int num_sge);
struct ibv_wc far_next(struct far *far);
/* Waits for its next asynchronous event: about its queue pair. */
enum ibv_event_type far_event(struct far *far);
void far_modify(struct far *far, enum ibv_qp_state to);
enum ibv_qp_state far_state(struct far *far);
/* Ends a region, or takes its memory away under it. */
void far_deregister(struct far *far, enum kind kind);
void far_unmap(struct far *far, enum kind kind);
/* Ends its process by a signal; ends_close() is to be called all the same. */
void far_kill(struct far *far, int signal);

/* What a program lets its far end do at any time: called there, answered with far_end_game(). */
extern int64_t (*ends_game)(struct end *end);
void far_begin_game(struct far *far);
int64_t far_end_game(struct far *far);

/* It plays while the near end does; litmus.h. */
struct litmus;
struct litmus_result;
void far_begin_litmus(struct far *far, const struct litmus *game);
struct litmus_result far_end_litmus(struct far *far);
/* Its memory, without its help. */
void far_put(const struct far *far, uint64_t to, const void *from, size_t bytes);
void far_get(const struct far *far, void *to, uint64_t from, size_t bytes);

#endif
