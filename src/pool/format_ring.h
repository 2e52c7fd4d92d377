/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completions that a member writes for another, and how that one is woken. Writers: as in format.h. */
#ifndef WEFT_POOL_FORMAT_RING_H
#define WEFT_POOL_FORMAT_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sizes.h"

/*
 * A completion ring: receive completions that one member writes for one completion queue. It is as
 * deep as the receives that can complete into it, so it cannot overrun and needs no consumer index.
 * Entry n is valid when its lap is n / size + 1.
 *
 * word       | writer   | transition                                      | order
 * `lap`      | producer | that of the round before to the next            | release, after the entry and the bytes it tells of
 * `produced` | producer | grows                                           | relaxed: its own threads read it, locked
 * entries,   | owner    | to 0, and another `producer`, when no queue     | before it publishes a queue pair that names
 * `produced` |          | pair that is connected names the ring           | it; never where the producer may stand still
 *
 * Stale values. An owner that reads an old lap has the completion at its next poll.
 */
struct weft_pool_cqe {
	uint64_t wr_id;
	uint32_t qpn; /* and in the upper 8 bits the connection */
	uint32_t byte_len;
	uint32_t imm; /* as it travels: big-endian */
	uint32_t src_qpn;
	uint8_t status, opcode;
	uint8_t flags, solicited;
	_Atomic uint32_t lap; /* stored last */
};

/*
 * The alarm of a completion queue that was armed. The producer that completes into the queue, and finds its arming to be
 * for that, makes the word {CLAIMED, number, member} by compare-and-swap, and then wakes the owner: one for each
 * arming. The owner takes what was claimed, and so has one event for it, whichever member woke it.
 */
/*
 * word                  | writer   | transition                                    | order
 * alarm's `word`        | owner    | OFF, ANY, SOLICITED to {ANY or SOLICITED, n+1}| acquire and release; then a fence, then the
 *                       |          |                                               | queue is polled
 *                       | producer | {ANY or SOLICITED, n} to {CLAIMED, n, member} | after its completion and a fence; acquire: the
 *                       |          |                                               | bell, release
 *                       | owner    | {CLAIMED, n} to {OFF, n}: one event           | acquire
 *                       | owner    | {ANY or SOLICITED, n} to {OFF, n}: the same,  | acquire and release
 *                       |          | for what it finds itself                      |
 * ring's `alarm_off`    | owner    | 0 to the alarm, once                          | relaxed, after `word`; then a barrier on all
 *                       |          |                                               | threads
 * bell's `told`         | producer | 0 to 1, then the pipe is written to           | after the claim; exchange, sequentially
 *                       |          |                                               | consistent, as are the others
 *                       | producer | 1 to 0, as the descriptor is not that pipe    | then it writes again, or signals the helper
 *                       | owner    | 0 to 1, with what it tells itself             | before it writes into the pipe
 *                       | owner    | 1 to 0                                        | before it looks which queues have news
 *
 * All of `word` by exchange. Stale values. A producer that reads alarm_off 0 has published its completion before
 * the barrier of the first arming, so that the poll which follows the arming finds it. One that reads an old
 * `word` that is not armed has fenced before the owner has: that poll finds its completion, too; with an old
 * number it loses its exchange, and reads again. A producer that reads `told` 1 writes nothing: the owner has
 * yet to look, and will find the claim. A claim whose member dies before it has told the channel is found by the
 * owner's helper at its next look, half a second later at most; one whose member stands still, at the look after. A
 * producer that reads an old `fd` finds by the inode that it is not that pipe, and signals the owner's helper.
 */
enum weft_alarm {
	WEFT_ALARM_OFF,
	WEFT_ALARM_ANY,	      /* armed for each completion */
	WEFT_ALARM_SOLICITED, /* for those that are solicited or in error */
	WEFT_ALARM_CLAIMED,
};

struct weft_pool_alarm {
	/* as a claim: enum weft_alarm, the number of the arming in place of a lap, and, of CLAIMED, the member. [O] all
	 * but CLAIMED, [P] the producer: that */
	_Atomic uint64_t word;
	uint64_t bell_off; /* [O] of its channel's bell; 0: it has no channel */
};

struct weft_pool_ring {
	/* [O] owner of the queue: where its alarm is once it was armed, before that 0. From then on producers
	 * fence before they look at it, so that arming asks no barrier of them */
	_Atomic uint64_t alarm_off;
	uint32_t size; /* a power of two, or 0: completions stand elsewhere */
	uint16_t owner, producer;
	/* behind the entries stand as many times at which they were completed, in ns of CLOCK_MONOTONIC */
	uint32_t stamped;
	_Alignas(WEFT_LINE) _Atomic uint64_t produced; /* [P] the producing member */
	_Alignas(WEFT_LINE) struct weft_pool_cqe cqe[];
};

static inline uint64_t weft_pool_ring_bytes(uint32_t size, bool stamped)
{
	return sizeof(struct weft_pool_ring) +
	       size * (sizeof(struct weft_pool_cqe) + (stamped ? sizeof(uint64_t) : 0));
}

static inline uint64_t *weft_pool_ring_stamps(struct weft_pool_ring *ring, uint32_t size)
{
	return (uint64_t *)&ring->cqe[size];
}

_Static_assert(sizeof(struct weft_pool_cqe) == 32, "two completions a line");
_Static_assert(sizeof(struct weft_pool_alarm) <= WEFT_LINE, "it is a piece of one line");

#endif
