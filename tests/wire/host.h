/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two hosts in virtual time, some pairs of queue pairs, and two wires between them: the engine's world as
 * the simulator has it. What a request asks for is planned before it is posted, so that all that comes
 * of it can be checked: its cause, every byte, each receive, in order and once.
 */
#ifndef WEFT_TESTS_WIRE_HOST_H
#define WEFT_TESTS_WIRE_HOST_H

#include "math.h"
#include "wire.h"
#include "wire/roce/roce.h"

#define PAIRS	     4u
#define REQUESTS     32u
#define RING	     8u
#define SOURCE_BYTES 16384u
#define TARGET_BYTES 24576u /* READs take from the lower half */
#define TARGET_KEY   0x1234500u
#define TARGET_VA    0x7f0000001000ull
#define RECEIVES     64u

struct plan {
	struct weft_roce_request request;
	uint32_t from;		/* in the source */
	enum weft_cause expect; /* NONE, or what the peer or this side must find */
	uint8_t *land;		/* what a READ or atomic brings */
	uint32_t landed;
	bool consumes; /* it takes a receive */
};

struct game;

/* One end. The engine's part comes first. */
struct side {
	struct weft_roce_qp qp;
	struct game *game;
	struct side *peer;
	struct weft_sim_wire *out;
	struct weft_roce_source source;
	uint16_t id; /* of the last packet; counts if the game's IDs do */
	struct weft_sim_event timer, run, post, give;
	struct weft_roce_request ring[RING];
	struct plan plan[REQUESTS];
	uint32_t planned, posted, ended; /* ended well */
	bool dead;			 /* moved to error by its owner */
	bool failed;			 /* a request ended with a cause */
	enum weft_cause cause;
	uint64_t failed_ns;
	uint32_t receives, taken,
		completed;	/* receives posted; of these taken; of these complete */
	uint32_t short_receive; /* the receive that is too short; RECEIVES: none is */
	uint8_t *receive[RECEIVES];
	uint32_t filled;
	bool given_all;
	uint8_t bytes[SOURCE_BYTES];
	uint8_t target[TARGET_BYTES], expected[TARGET_BYTES], unknown[TARGET_BYTES];
};

struct game {
	struct weft_sim sim;
	struct weft_sim_wire wire[2];
	struct side side[2][PAIRS];
	uint32_t pairs, most;
	bool harsh, stops, later, counts, starving, six;
	uint32_t mtu, receive_bytes;
	uint64_t trace;
	const char *wrong; /* the first thing that went wrong; NULL: nothing */
	char where[200];
	void (*tap)(struct game *g, struct side *from, uint16_t id, const uint8_t *at,
		    size_t bytes);
};

extern const struct weft_roce_world host_world;

void host_begin(struct game *g);
void host_connect(struct game *g, uint32_t pair, const struct weft_roce_config *config);
/* To be called when something came in: what there is to be sent goes soon, and the timer is set. */
void host_stir(struct side *s);
void host_end(struct game *g);
void host_wrong(struct game *g, const struct side *s, const char *what);

/* plan.c: makes up requests; what must come of those that have ended. */
void plan_fill(struct side *s, uint64_t *seed);
void plan_ended(struct side *s, uint32_t position, enum weft_cause cause);
void plan_received(struct side *s, const struct weft_roce_received *what);
void plan_compare(struct side *s);

#endif
