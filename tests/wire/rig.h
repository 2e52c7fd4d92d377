/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One queue pair alone, with a world that keeps what it is asked, and a test in place of the peer.
 */
#ifndef WEFT_TESTS_WIRE_RIG_H
#define WEFT_TESTS_WIRE_RIG_H

#include "wire/roce/roce.h"

#define RIG_MTU	   256u
#define RIG_KEY	   0x7700u
#define RIG_VA	   0x10000ull
#define RIG_MEMORY 4096u
#define RIG_FIRST  0xfffffeu /* PSNs begin just before their wrap */
#define RIG_PEER   0x22u
#define RIG_QPN	   0x11u

struct rig {
	struct weft_roce_qp qp;
	struct weft_roce_request ring[16];
	uint64_t now_ns;
	/* what was asked */
	struct weft_roce_packet sent[64];
	uint32_t nsent;
	uint32_t ended;
	enum weft_cause cause; /* of the last that ended */
	uint32_t nreceived;
	struct weft_roce_received received;
	uint32_t nevents;
	enum weft_event event;
	uint32_t fetched, placed, filled, atomics, ended_keys;
	uint8_t memory[RIG_MEMORY], buffer[RIG_MEMORY];
	/* how it answers */
	uint32_t receives, receive_bytes;
	uint8_t rights;
	uint32_t key;  /* of its memory */
	bool unmapped; /* whether that memory is gone */
	int check, send, fill, place;
};

/* A queue pair of that service, with so many receives of RIG_MEMORY bytes each. */
void rig_open(struct rig *r, enum weft_roce_service service, uint32_t receives);
void rig_run(struct rig *r);
/* Forgets what was sent. */
void rig_clear(struct rig *r);
void rig_post(struct rig *r, enum weft_opcode opcode, uint64_t length);
/* A packet of the peer's; at: PSN behind RIG_FIRST. */
struct weft_roce_packet rig_packet(uint8_t opcode, int32_t at, uint32_t payload_bytes);
void rig_receive(struct rig *r, const struct weft_roce_packet *packet);
/* How far a PSN, as it is counted in 64 bits, is behind RIG_FIRST. */
int32_t rig_at(uint64_t psn);

#endif
