/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * No wake-up is lost whose producer is stopped or killed: as armings.c, but a keeper stops the producer at random
 * moments, lets it go on, and kills it, half of the times while it sends; another one replaces it then.
 *
 *   replaced KILLS [MOST_US [SEED]]	prints what was done, and how often it armed and slept
 *
 * A producer lives for some pauses of at most MOST_US microseconds. Each completion wakes the consumer within a
 * second, also one that a dead producer has left, or for which it died before it woke the consumer (../crash/test_wake.c).
 */
#include "arming.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../random.h"

#define NAP_MS 10
/* A second, and half as much again; counted in naps, since a machine with other work may let no thread here run */
#define NAPS  150u
#define STOPS 4u
#define LONG_US                                                                                    \
	1000000u /* one stop in LONG_ONES: the helper wakes for a claimer that stands still */
#define LONG_ONES 32u
#define AIMS	  20000u /* turns */
#define TOLD	  1000u

static struct shared {
	struct arming_sent sent;
	/* numbers of producers, from 1 on */
	_Atomic uint32_t ready, dead;
	_Atomic uint32_t stopped, hit; /* hit: killed while it sent */
} * shared;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Producers and their keeper ---- */

static void produce(int fd, uint32_t number)
{
	struct end_address peer;
	struct end end;
	uint32_t random = number;
	char byte;

	end_open(&end, 4096, true);
	arming_swap(fd, &end, &peer);
	end_connect(&end, &peer);
	end_require(read(fd, &byte, 1) == 1, "read of ready");
	atomic_store(&shared->ready, number);
	for (;;)
		arming_send(&end, &shared->sent, &random);
}

static bool sends(void)
{
	return atomic_load(&shared->sent.begun) != atomic_load(&shared->sent.ended);
}

static void take_aim(uint64_t *seed)
{
	for (uint32_t n = 0; n < AIMS && !sends(); n++)
		if (n % 64 == 0)
			sched_yield();
	for (uint64_t n = splitmix64(seed) % 2048; n; n--)
		atomic_signal_fence(memory_order_seq_cst);
}

static void pause_us(uint64_t *seed, uint32_t most_us)
{
	usleep((useconds_t)(splitmix64(seed) % most_us));
}

static void keep(int fd, uint32_t kills, uint32_t most_us, uint64_t seed)
{
	for (uint32_t number = 1; number <= kills; number++) {
		pid_t producer = fork();
		int status;

		if (!producer) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			produce(fd, number);
		}
		end_require(producer > 0, "fork");
		while (atomic_load(&shared->ready) != number) {
			end_require(!waitpid(producer, &status, WNOHANG), "a producer begins");
			usleep(100);
		}
		for (uint64_t stops = splitmix64(&seed) % STOPS; stops; stops--) {
			pause_us(&seed, most_us);
			if (splitmix64(&seed) % 2)
				take_aim(&seed);
			kill(producer, SIGSTOP);
			atomic_fetch_add(&shared->stopped, 1);
			pause_us(&seed, splitmix64(&seed) % LONG_ONES ? most_us : 2 * LONG_US);
			kill(producer, SIGCONT);
		}
		pause_us(&seed, most_us);
		if (splitmix64(&seed) % 2)
			take_aim(&seed);
		kill(producer, SIGKILL);
		end_require(waitpid(producer, &status, 0) == producer && WIFSIGNALED(status),
			    "a producer's end");
		atomic_fetch_add(&shared->hit, sends());
		atomic_store(&shared->dead, number);
		/* the consumer has seen what it left */
		while (atomic_load(&shared->dead))
			usleep(100);
	}
	exit(0);
}

/* ---- The consumer ---- */

struct consumer {
	struct arming a;
	uint32_t number; /* of the producer */
	uint64_t taken;	 /* messages of this one */
	uint64_t armed, slept;
	uint64_t
		late_ms; /* the longest sleep beside a message that was sent, or that its producer died of */
};

static void take_event(struct consumer *c)
{
	struct ibv_cq *cq;
	void *context;

	end_require(!ibv_get_cq_event(c->a.channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

/* False: the producer is dead, and has left nothing, or nothing for which the consumer was woken. */
static bool sleep_for_event(struct consumer *c)
{
	uint64_t since_ns = 0, ms;
	uint32_t naps = 0;

	for (;;) {
		bool dead = atomic_load(&shared->dead) == c->number;
		bool due = (dead ? atomic_load(&shared->sent.begun)
				 : atomic_load(&shared->sent.ended)) > c->taken;

		if (dead && !due && !arming_readable(&c->a, 0))
			return false;
		if (due && !since_ns)
			since_ns = now_ns();
		ms = since_ns ? (now_ns() - since_ns) / 1000000 : 0;
		if (arming_readable(&c->a, NAP_MS)) {
			take_event(c);
			c->late_ms = ms > c->late_ms ? ms : c->late_ms;
			return true;
		}
		if (!due || ++naps < NAPS)
			continue;
		end_require(!arming_look(&c->a, true), "a wake-up was lost");
		end_require(dead, "what was sent has come");
		return false;
	}
}

static bool take_message(struct consumer *c, const struct end_address *peer)
{
	if (!arming_look(&c->a, true))
		return false;
	arming_receive(&c->a);
	arming_acknowledge(&c->a, peer, ++c->taken);
	return true;
}

/* Until the producer is dead and has left nothing. */
static void consume(struct consumer *c, int fd)
{
	struct end_address peer;

	c->a.end.qp = arming_add_qp(&c->a);
	arming_swap(fd, &c->a.end, &peer);
	end_connect(&c->a.end, &peer);
	arming_receive(&c->a);
	c->taken = 0;
	end_require(write(fd, "r", 1) == 1, "write of ready");
	do {
		while (take_message(c, &peer))
			;
		end_require(!ibv_req_notify_cq(c->a.cq, 0), "ibv_req_notify_cq");
		c->armed++;
		if (take_message(c, &peer))
			continue;
		c->slept++;
		if (!sleep_for_event(c))
			break;
	} while (true);
	end_require(!ibv_destroy_qp(c->a.end.qp), "ibv_destroy_qp");
	atomic_store(&shared->sent.begun, 0);
	atomic_store(&shared->sent.ended, 0);
	atomic_store(&shared->dead, 0);
}

static void tell(const struct consumer *c, FILE *to)
{
	fprintf(to,
		"killed %u, %u of them while they sent, stopped %u times; armed %lu times, slept "
		"%lu times, "
		"%lu ms at most beside a message\n",
		c->number, atomic_load(&shared->hit), atomic_load(&shared->stopped),
		(unsigned long)c->armed, (unsigned long)c->slept, (unsigned long)c->late_ms);
}

int main(int argc, char **argv)
{
	uint32_t kills = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	uint32_t most_us = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 4000;
	struct consumer c = {0};
	int pair[2], status;
	pid_t keeper;

	if (!kills || !most_us || argc > 4) {
		fprintf(stderr, "usage: replaced KILLS [MOST_US [SEED]]\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	end_require(shared != MAP_FAILED && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair),
		    "socketpair");
	keeper = fork();
	if (!keeper) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		keep(pair[1], kills, most_us, argc > 3 ? strtoull(argv[3], NULL, 0) : 1);
	}
	close(pair[1]);
	arming_open(&c.a);
	for (c.number = 1; c.number <= kills; c.number++) {
		if (c.number % TOLD == 0)
			tell(&c, stderr);
		consume(&c, pair[0]);
	}
	c.number = kills;
	tell(&c, stdout);
	arming_close(&c.a);
	end_require(waitpid(keeper, &status, 0) == keeper && !status, "the keeper");
	return 0;
}
