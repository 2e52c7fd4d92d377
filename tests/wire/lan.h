/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A host on real sockets, for tests: queue pairs of the engine behind one UDP socket, with memory
 * of this process. What goes to one peer in a row travels as one message, cut by the kernel. Any
 * trouble of the system ends the program with a line.
 */
#ifndef WEFT_TESTS_WIRE_LAN_H
#define WEFT_TESTS_WIRE_LAN_H

#include "card/switch.h"
#include "link/fault.h"
#include "memory.h"

#define LAN_QPS	 64u
#define LAN_RING 64u

struct lan;

struct lan_done {
	uint64_t id;
	bool receive;
	enum weft_cause cause;
	struct weft_roce_received what; /* of a receive */
};

/* The engine's part comes first. */
struct lan_qp {
	struct weft_roce_qp qp;
	struct weft_switch_port port;
	struct lan *lan;
	struct memory *memory;
	bool open, dead;
	enum weft_event event; /* what its responder has failed of; COMM_EST: of nothing */
	struct weft_roce_request ring[LAN_RING];
	/* by position: what requests take and bring; receives */
	struct {
		uint64_t id;
		uint8_t *at;
		uint64_t bytes;
	} sends[LAN_RING], receives[LAN_RING];
	uint32_t posted, taken, received;
	struct lan_done done[2 * LAN_RING];
	uint32_t done_head, done_tail;
};

struct lan {
	struct weft_udp *udp;
	struct weft_fault *fault; /* NULL: a good wire */
	uint8_t address[16];
	uint32_t interface;
	struct lan_qp qp[LAN_QPS];
	uint64_t went, cut; /* packets; of those in messages that the kernel cuts */
	struct weft_switch sw;
	struct weft_switch_port *table[LAN_QPS], *heap[LAN_QPS + 1];
	struct out *out;
};

/* address: as inet_pton has it; interface: a name, of a link-local address, or NULL. */
void lan_open(struct lan *lan, const char *address, const char *interface);
/* From now on what it sends goes over a bad wire. */
void lan_spoil(struct lan *lan, const struct weft_fault_config *config);
void lan_close(struct lan *lan);

/* A queue pair that takes part; its number is config->qpn, its source the host's address. */
struct lan_qp *lan_connect(struct lan *lan, const struct weft_roce_config *config,
			   struct memory *memory);
void lan_disconnect(struct lan_qp *q);

/* False: there is no room. The bytes that the request sends, or the place of those that it brings, are at `at`. */
bool lan_post(struct lan_qp *q, const struct weft_roce_request *request, uint8_t *at, uint64_t id);
bool lan_receive(struct lan_qp *q, uint8_t *at, uint64_t bytes, uint64_t id);
bool lan_poll(struct lan_qp *q, struct lan_done *done);

/* Does what there is to do; waits for packets or time-outs, or for fd to become readable, for most_ms at
 * most. Returns whether fd is readable. */
bool lan_turn(struct lan *lan, int fd, int most_ms);

/* A line of figures: name=number. */
void lan_say(const struct lan *lan);

uint64_t lan_now_ns(void);
_Noreturn void lan_fail(const char *what);

#endif
