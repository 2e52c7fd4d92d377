/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "card/loop.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/clock.h"
#include "process/client.h"
#include "process/interface.h"
#include "process/process.h"

/* Packets that a queue pair sends before others have their turn: a line is entered for so long. */
#define SHARE	    32u
#define BATCHES	    4u
#define LOOK_NS	    100000000ull
#define NS_A_SECOND 1000000000ull

static int woken = -1; /* an eventfd that the helper writes; -1: no loop sleeps */

static uint64_t wake(uint64_t now_ns)
{
	const uint64_t one = 1;
	ssize_t written = write(woken, &one, sizeof(one));

	/* the eventfd cannot be full unless the loop has been woken already */
	(void)written;
	return UINT64_MAX;
}

static const struct weft_helper_client client = {.run = wake};

int weft_loop_begin(struct weft_loop *loop, struct weft_wire *wire, struct weft_udp *udp,
		    uint64_t linger_ns)
{
	int err;

	*loop = (struct weft_loop){
		.wire = wire,
		.udp = udp,
		.woken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
		.used_ns = weft_clock_now_ns(),
		.linger_ns = linger_ns,
	};
	if (loop->woken < 0)
		return -errno;
	woken = loop->woken;
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
	close(loop->woken);
}

/* Takes all that has come on the socket; returns whether there was anything. */
static bool take_datagrams(struct weft_loop *loop, struct weft_udp *udp)
{
	struct weft_udp_datagram datagram;
	bool any = false;

	for (unsigned int i = 0; i < BATCHES && weft_udp_receive(udp) > 0; i++) {
		uint64_t now_ns = weft_clock_now_ns();

		any = true;
		while (weft_udp_next(udp, &datagram))
			weft_switch_receive(&loop->wire->sw, &datagram, now_ns);
		/* answers are not held up by what comes behind */
		weft_wire_run(loop->wire, SHARE, now_ns);
		weft_out_flush(loop->wire->out);
	}
	return any;
}

static bool take_packets(struct weft_loop *loop)
{
	bool any = take_datagrams(loop, loop->udp);

	for (uint32_t i = 0; i < loop->groups.count; i++)
		any |= take_datagrams(loop, loop->groups.group[i].udp);
	return any;
}

/* What the card looks after now and then. */
static void watch_over(struct weft_loop *loop, uint64_t now_ns)
{
	if (now_ns - loop->looked_ns < LOOK_NS)
		return;
	loop->looked_ns = now_ns;
	weft_pool_watch(weft_process.pool);
	weft_card_sweep(&loop->wire->card);
	weft_groups_look(&loop->groups);
	/* a card that is never idle looks for its members' datagrams here */
	weft_manager_look(&loop->wire->manager, now_ns);
	weft_manager_watch(&loop->wire->manager, now_ns);
	weft_out_flush(loop->wire->out);
	loop->wire->mtu = 128u << weft_interface_carries(loop->wire->address);
	weft_wire_tell(loop->wire);
	if (loop->wire->card.hands || loop->groups.count || loop->wire->manager.count ||
	    weft_card_has_outbox(&loop->wire->card))
		loop->used_ns = now_ns;
}

static void sleep_until(struct weft_loop *loop, uint64_t now_ns)
{
	struct pollfd fds[2 + WEFT_GROUPS] = {
		{weft_udp_fd(loop->udp), (short)(POLLIN | (loop->wire->out->full ? POLLOUT : 0)),
		 0},
		{loop->woken, POLLIN, 0},
	};
	uint64_t deadline_ns = weft_wire_deadline_ns(loop->wire), most_ns = LOOK_NS, told;
	struct timespec patience;
	ssize_t drained;

	if (loop->wire->manager.held)
		most_ns = WEFT_MANAGER_TRY_NS;
	if (deadline_ns)
		most_ns = deadline_ns <= now_ns		   ? 0
			  : deadline_ns - now_ns < most_ns ? deadline_ns - now_ns
							   : most_ns;
	for (uint32_t i = 0; i < loop->groups.count; i++)
		fds[2 + i] = (struct pollfd){weft_udp_fd(loop->groups.group[i].udp), POLLIN, 0};
	patience =
		(struct timespec){(time_t)(most_ns / NS_A_SECOND), (long)(most_ns % NS_A_SECOND)};
	if (ppoll(fds, 2 + loop->groups.count, &patience, NULL) <= 0 || !fds[1].revents)
		return;
	drained = read(loop->woken, &told, sizeof(told));
	(void)drained;
	weft_groups_look(&loop->groups);
	weft_manager_look(&loop->wire->manager, weft_clock_now_ns());
}

void weft_loop_run(struct weft_loop *loop, const atomic_bool *stop)
{
	struct weft_wire *wire = loop->wire;
	uint64_t now_ns = weft_clock_now_ns();

	while (!atomic_load_explicit(stop, memory_order_relaxed) &&
	       (loop->linger_ns == UINT64_MAX || now_ns - loop->used_ns < loop->linger_ns)) {
		bool busy = weft_card_look(&wire->card);

		busy |= take_packets(loop);
		now_ns = weft_clock_now_ns();
		weft_manager_try(&wire->manager, now_ns);
		weft_wire_run(wire, SHARE, now_ns);
		busy |= !weft_out_flush(wire->out) && !wire->out->full;
		if (wire->lacks_room && !wire->out->full)
			weft_wire_resume(wire);
		watch_over(loop, now_ns);
		if (!busy && (!wire->sw.ready || wire->out->full))
			sleep_until(loop, now_ns);
	}
	weft_wire_tell(wire);
}
