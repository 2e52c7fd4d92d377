/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "card/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/clock.h"
#include "pool/format_member.h"
#include "process/client.h"
#include "process/interface.h"
#include "process/process.h"

/* Packets that a queue pair sends before others have their turn: a line is entered for so long. */
#define SHARE	    64u
#define SHARES	    2u	 /* before the socket has them */
#define UNANSWERED  128u /* packets that come before those that answer them go */
#define LOOK_NS	    100000000ull
#define QUIET_NS    300000000ull  /* between two looks of a card that has nothing to do */
#define RARELY	    2u		  /* so many of these for one that goes through its queue pairs */
#define MEASURE_NS  1000000000ull /* between two questions what the interface carries */
#define REST_NS	    40000u
#define IDLE_MOST   64u
#define USEFUL	    2u
#define NS_A_SECOND 1000000000ull

static int woken = -1;	   /* what the helper writes; -1: no loop sleeps */
static atomic_bool called; /* by the helper: there may be more than doorbells */

static uint64_t wake(uint64_t now_ns)
{
	const uint64_t one = 1;
	ssize_t written;

	atomic_store(&called, true);
	written = write(woken, &one, sizeof(one));
	/* a pipe that is full can be read */
	(void)written;
	return UINT64_MAX;
}

static const struct weft_helper_client client = {.run = wake};

/* ---- The pipe ---- */

/* Where a descriptor for both ends can be had, members write to that themselves. */
static int open_bell(struct weft_loop *loop)
{
	struct weft_pool_bell *bell = &weft_process.pool->self->card.bell;
	char path[40];
	struct stat st;
	int both;

	if (pipe2(loop->woken, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", loop->woken[0]);
	both = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (both < 0)
		return 0;
	close(loop->woken[1]);
	loop->woken[1] = both;
	if (fstat(both, &st))
		return 0;
	bell->dev = st.st_dev;
	bell->ino = st.st_ino;
	/* nothing wakes the loop while it is awake */
	atomic_store_explicit(&bell->told, 1, memory_order_relaxed);
	atomic_store_explicit(&bell->fd, both, memory_order_relaxed);
	return 0;
}

static void shut_bell(struct weft_loop *loop)
{
	weft_process.pool->self->card.bell.ino = 0;
	close(loop->woken[0]);
	close(loop->woken[1]);
}

/* From now on doorbells wake the loop. False: there was one. */
static bool listen_to_bell(struct weft_loop *loop)
{
	atomic_store_explicit(&weft_process.pool->self->card.bell.told, 0, memory_order_seq_cst);
	/* pairs with the exchange in write_bell (pool/wake.c): we see what was rung, or are woken */
	atomic_thread_fence(memory_order_seq_cst);
	return !weft_card_look(&loop->wire->card);
}

static void empty_pipe(const struct weft_loop *loop)
{
	uint64_t words[64];

	while (read(loop->woken[0], words, sizeof(words)) == sizeof(words))
		;
}

/* ---- Beginning ---- */

int weft_loop_begin(struct weft_loop *loop, struct weft_wire *wire, struct weft_udp *udp,
		    uint64_t linger_ns)
{
	int err;

	*loop = (struct weft_loop){
		.wire = wire,
		.udp = udp,
		.used_ns = weft_clock_now_ns(),
		.linger_ns = linger_ns,
		.seen = UINT64_MAX,
	};
	err = open_bell(loop);
	if (err)
		return err;
	woken = loop->woken[1];
	weft_helper_serve(&client);
	err = weft_helper_start();
	if (err)
		weft_loop_end(loop);
	return err;
}

void weft_loop_end(struct weft_loop *loop)
{
	weft_helper_serve(NULL);
	weft_helper_stop();
	weft_groups_end(&loop->groups);
	shut_bell(loop);
}

/* ---- Turns ---- */

/* Takes what has come on the socket since *empty_ns, and answers it. Whether there may be more. */
static bool take_datagrams(struct weft_loop *loop, struct weft_udp *udp, uint64_t *empty_ns)
{
	struct weft_udp_datagram datagram;
	uint64_t asked_ns, now_ns = 0;
	uint32_t n = 0;
	bool more;

	do {
		asked_ns = weft_clock_now_ns();
		more = weft_udp_receive(udp) > 0;
		if (more)
			now_ns = weft_clock_now_ns();
		for (; more && weft_udp_next(udp, &datagram); n++)
			weft_switch_receive(&loop->wire->sw, &datagram,
					    *empty_ns ? *empty_ns : asked_ns, now_ns);
		if (weft_udp_is_empty(udp))
			*empty_ns = asked_ns;
		/* one answer is enough for what comes together; a single packet is not followed so soon */
	} while (more && n > 1 && n < UNANSWERED);
	if (!n)
		return false;
	weft_wire_run(loop->wire, SHARE, now_ns);
	weft_out_flush(loop->wire->out);
	return more && n >= UNANSWERED;
}

static bool take_packets(struct weft_loop *loop)
{
	bool more = take_datagrams(loop, loop->udp, &loop->empty_ns);

	for (uint32_t i = 0; i < loop->groups.count; i++)
		more |= take_datagrams(loop, loop->groups.group[i].udp,
				       &loop->groups.group[i].empty_ns);
	return more;
}

/* Packets and doorbells, ever. */
static uint64_t seen_by(const struct weft_loop *loop)
{
	return loop->wire->sw.counters.came + loop->wire->out->packets + loop->rung;
}

/* A card with many queue pairs that are idle is to take next to no time. */
static uint64_t next_look_ns(const struct weft_loop *loop)
{
	return loop->quiet && seen_by(loop) == loop->seen ? QUIET_NS : LOOK_NS;
}

/* The interface may have been replaced by another that has the address now: a cable that was plugged in again, say. */
static void follow_interface(struct weft_loop *loop)
{
	struct weft_out *out = loop->wire->out;
	uint32_t interface = weft_interface_of(loop->wire->address);

	if (!interface || interface == out->interface || weft_udp_move(loop->udp, interface))
		return;
	out->interface = interface;
	weft_groups_end(&loop->groups); /* it joins them at the next look */
	loop->groups.interface = interface;
}

/* What the card looks after now and then. */
static void watch_over(struct weft_loop *loop, uint64_t now_ns)
{
	bool quiet;

	if (now_ns - loop->looked_ns < next_look_ns(loop))
		return;
	loop->looked_ns = now_ns;
	loop->quiet = seen_by(loop) == loop->seen ? loop->quiet + 1 : 0;
	loop->seen = seen_by(loop);
	quiet = loop->quiet % RARELY;
	weft_pool_watch(weft_process.pool);
	if (!quiet)
		weft_card_sweep(&loop->wire->card);
	weft_groups_look(&loop->groups);
	/* a card that is never idle looks for its members' datagrams here */
	weft_manager_look(&loop->wire->manager, now_ns);
	weft_manager_watch(&loop->wire->manager, now_ns);
	weft_out_flush(loop->wire->out);
	if (now_ns - loop->measured_ns >= MEASURE_NS) {
		loop->measured_ns = now_ns;
		follow_interface(loop);
		loop->wire->mtu = 128u << weft_interface_carries(loop->wire->address);
	}
	if (!quiet)
		weft_wire_tell(loop->wire);
	if (loop->wire->card.hands || loop->groups.count || loop->wire->manager.count ||
	    weft_card_has_outbox(&loop->wire->card))
		loop->used_ns = now_ns;
}

/*
 * After a doorbell the loop rests for a moment, in which packets wake it and doorbells do not: a program that posts many requests
 * one by one would otherwise write into the pipe for each, and lose its core to the card. The answer to what was sent ends the
 * rest. If the time passes, and nothing was rung, some rests are left out; while they bring something it always rests.
 */
static bool may_rest(struct weft_loop *loop)
{
	if (loop->useful >= USEFUL)
		return true;
	if (!loop->rang)
		return false;
	if (!loop->idle)
		return true;
	loop->idle--;
	return false;
}

static void hear_doorbells(struct weft_loop *loop)
{
	bool rang = weft_card_look(&loop->wire->card);

	if (rang) {
		loop->next_idle = 0;
		loop->useful += loop->rested;
	} else if (loop->rested) {
		loop->useful = 0;
		loop->next_idle = loop->next_idle < IDLE_MOST ? 2 * loop->next_idle + 1 : IDLE_MOST;
		loop->idle = loop->next_idle;
	}
	loop->rested = false;
	loop->rang |= rang;
	loop->rung += rang;
}

/* Returns at once if there is something to do. Whether a socket may have something. */
static bool sleep_until(struct weft_loop *loop, uint64_t now_ns)
{
	struct pollfd fds[2 + WEFT_GROUPS] = {
		{weft_udp_fd(loop->udp), (short)(POLLIN | (loop->wire->out->full ? POLLOUT : 0)),
		 0},
		{loop->woken[0], POLLIN, 0},
	};
	uint64_t deadline_ns = weft_wire_deadline_ns(loop->wire), most_ns = next_look_ns(loop);
	struct timespec patience;
	bool any, rests = may_rest(loop);

	if (loop->wire->manager.held || loop->wire->card.behind)
		most_ns = WEFT_MANAGER_TRY_NS;
	if (deadline_ns)
		most_ns = deadline_ns <= now_ns		   ? 0
			  : deadline_ns - now_ns < most_ns ? deadline_ns - now_ns
							   : most_ns;
	if (rests && most_ns > REST_NS)
		most_ns = REST_NS;
	for (uint32_t i = 0; i < loop->groups.count; i++)
		fds[2 + i] = (struct pollfd){weft_udp_fd(loop->groups.group[i].udp), POLLIN, 0};
	patience =
		(struct timespec){(time_t)(most_ns / NS_A_SECOND), (long)(most_ns % NS_A_SECOND)};
	loop->rang = false;
	if (rests)
		loop->rested = !ppoll(fds, 2 + loop->groups.count, &patience, NULL);
	else if (listen_to_bell(loop))
		ppoll(fds, 2 + loop->groups.count, &patience, NULL);
	else
		loop->rang = true;
	atomic_store_explicit(&weft_process.pool->self->card.bell.told, 1, memory_order_relaxed);
	any = fds[0].revents;
	for (uint32_t i = 0; i < loop->groups.count; i++)
		any |= fds[2 + i].revents;
	if (fds[1].revents)
		empty_pipe(loop);
	if (!atomic_exchange(&called, false))
		return any;
	weft_groups_look(&loop->groups);
	weft_manager_look(&loop->wire->manager, weft_clock_now_ns());
	return true;
}

void weft_loop_run(struct weft_loop *loop, const atomic_bool *stop)
{
	struct weft_wire *wire = loop->wire;
	uint64_t now_ns = weft_clock_now_ns();
	bool listens = true; /* a socket may have something */

	while (!atomic_load_explicit(stop, memory_order_relaxed) &&
	       (loop->linger_ns == UINT64_MAX || now_ns - loop->used_ns < loop->linger_ns)) {
		bool busy;

		hear_doorbells(loop);
		busy = listens && take_packets(loop);
		now_ns = weft_clock_now_ns();
		weft_manager_try(&wire->manager, now_ns);
		for (unsigned int i = 0; i < SHARES && weft_wire_run(wire, SHARE, now_ns); i++)
			;
		busy |= !weft_out_flush(wire->out) && !wire->out->full;
		if (wire->lacks_room && !wire->out->full)
			weft_wire_resume(wire);
		watch_over(loop, now_ns);
		listens = busy || (wire->sw.ready && !wire->out->full) || sleep_until(loop, now_ns);
	}
	weft_wire_tell(wire);
}
