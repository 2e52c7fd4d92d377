/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A producer is killed, or stopped, at each step from its completion to the wake-up of the sleeper on the
 * queue's channel. The sleeper wakes within a second, once for its arming, and finds the completion. A
 * producer that goes on afterwards does no harm: the word that it writes too late is at most an event of an
 * empty queue, and no thread sleeps because of it.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "end.h"
#include "steps.h"

#define LIMIT_MS 1000
#define HANGS_MS 5000
#define TRIES	 3 /* as the machine may have other work */
#define QUIET_MS 30
#define RECEIVES 8

static const struct {
	const char *label;
	/* whether pidfd_getfd is refused, so that the sleeper's own helper has to wake it */
	bool helper;
} steps[] = {
	{"peer_completed", false}, {"peer_counted", false}, {"alarm_seen", false},
	{"alarm_claimed", false},  {"wake_told", false},    {"wake_written", false},
	{"alarm_claimed", true},   {"bell_due", true},	    {"bell_signalled", true},
};

/* What the sleeper does: it polls its channel; it is in ibv_get_cq_event; it arms again. */
enum way { AWAKE, ASLEEP, AGAIN };

static const char *const way_names[] = {"", ", sleeper in ibv_get_cq_event", ", armed anew"};

/* What producer, sleeper and their parent share. */
struct shared {
	struct order order;
	_Atomic uint64_t sent_ns;
	_Atomic uint32_t woken_ms, stale;
	pid_t producer;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void meet(int fd, struct end *end)
{
	struct end_address mine = end_address(end), peer;
	char byte;

	end_require(write(fd, &mine, sizeof(mine)) == sizeof(mine) &&
			    read(fd, &peer, sizeof(peer)) == sizeof(peer),
		    "addresses");
	end_connect(end, &peer);
	end_require(write(fd, "c", 1) == 1 && read(fd, &byte, 1) == 1, "both are connected");
}

/* ---- The producer ---- */

static void await_word(int fd)
{
	char byte;

	end_require(read(fd, &byte, 1) == 1, "a byte from the sleeper");
}

static void produce(int fd, struct shared *shared, uint32_t label, int sig)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct end end;

	steps_obey(WORKER, &shared->order);
	end_open(&end, 4096, false);
	meet(fd, &end);
	for (int i = 1; i <= 3; i++) {
		await_word(fd);
		if (i == 2) {
			shared->order.signal = sig;
			shared->order.left = 1;
			shared->order.label = label + 1;
		}
		atomic_store(&shared->sent_ns, now_ns());
		end_require(!ibv_post_send(end.qp, &wr, &bad), "ibv_post_send");
		shared->order.label = 0;
		end_complete(&end);
		end_require(write(fd, "s", 1) == 1, "write to the sleeper");
	}
	await_word(fd);
	end_close(&end);
	exit(0);
}

/* ---- The sleeper ---- */

struct sleeper {
	struct end end;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	int fd;
};

static bool readable(const struct sleeper *s, int timeout_ms)
{
	struct pollfd p = {.fd = s->channel->fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1;
}

static void take_event(struct sleeper *s)
{
	struct ibv_cq *cq;
	void *context;

	end_require(!ibv_get_cq_event(s->channel, &cq, &context) && cq == s->cq,
		    "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

static void take_completion(struct sleeper *s)
{
	struct ibv_wc wc;

	end_require(ibv_poll_cq(s->cq, 1, &wc) == 1 && !wc.status, "the completion has come");
	end_require(!ibv_poll_cq(s->cq, 1, &wc), "no other completion comes");
}

/* A producer may have been stopped before it claimed the earlier arming, and may have ended the later one
 * instead: that event comes before its completion, which does no harm. */
static void await_completion(struct sleeper *s)
{
	uint64_t until_ns = now_ns() + HANGS_MS * 1000000ull;
	struct ibv_wc wc;
	int got;

	while (!(got = ibv_poll_cq(s->cq, 1, &wc)))
		end_require(now_ns() < until_ns, "the completion comes");
	end_require(got == 1 && !wc.status, "the completion has come");
}

static void ask(struct sleeper *s)
{
	end_require(write(s->fd, "a", 1) == 1, "write to the producer");
}

static void arm(struct sleeper *s)
{
	end_require(!ibv_req_notify_cq(s->cq, 0), "ibv_req_notify_cq");
	ask(s);
}

static void open_sleeper(struct sleeper *s, int fd)
{
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;

	s->fd = fd;
	end_open(&s->end, 4096, false);
	s->channel = ibv_create_comp_channel(s->end.context);
	end_require(s->channel, "ibv_create_comp_channel");
	s->cq = ibv_create_cq(s->end.context, 16, NULL, s->channel, 0);
	end_require(s->cq, "ibv_create_cq");
	end_require(!ibv_destroy_qp(s->end.qp) && !ibv_destroy_cq(s->end.cq),
		    "the first queue pair and its completion queue are destroyed");
	s->end.cq = s->cq;
	s->end.qp = end_add_qp(&s->end, END_DEPTH, false);
	for (int i = 0; i < RECEIVES; i++)
		end_require(!ibv_post_recv(s->end.qp, &wr, &bad), "ibv_post_recv");
	meet(fd, &s->end);
}

/* Counts events without a completion, from a producer's late words. An owner that has polled before must not
 * sleep because of one. */
static void look_for_stale(struct sleeper *s, struct shared *shared, int quiet_ms)
{
	struct ibv_wc wc;

	for (; readable(s, quiet_ms); shared->stale++) {
		alarm(HANGS_MS / 1000);
		take_event(s);
		alarm(0);
		end_require(!ibv_poll_cq(s->cq, 1, &wc), "a late word has no completion");
	}
}

/* The stopped producer goes on. A sleeper that was woken at once may come here before the producer has
 * stopped, so the signal is sent again and again. */
static void go_on(int fd, struct shared *shared)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	do
		kill(shared->producer, SIGCONT);
	while (!poll(&p, 1, 10));
	await_word(fd);
}

static void resume(struct sleeper *s, struct shared *shared)
{
	go_on(s->fd, shared);
	look_for_stale(s, shared, QUIET_MS);
	arm(s);
	end_require(readable(s, HANGS_MS), "the third arming wakes the sleeper");
	take_event(s);
}

struct beside {
	struct sleeper *s;
	struct shared *shared;
};

static void *resume_beside(void *arg)
{
	struct beside *b = arg;

	usleep(QUIET_MS * 1000);
	go_on(b->s->fd, b->shared);
	usleep(QUIET_MS * 1000);
	ask(b->s);
	return NULL;
}

/* The producer goes on while the sleeper is in ibv_get_cq_event: it sleeps until its event. */
static void resume_asleep(struct sleeper *s, struct shared *shared)
{
	struct beside beside = {s, shared};
	pthread_t thread;

	end_require(!ibv_req_notify_cq(s->cq, 0), "ibv_req_notify_cq");
	end_require(!pthread_create(&thread, NULL, resume_beside, &beside), "pthread_create");
	alarm(HANGS_MS / 1000);
	take_event(s);
	alarm(0);
	pthread_join(thread, NULL);
}

/* The producer has claimed the event and noted that it will write to the channel, and is dead. An owner that
 * arms again takes the event over, before any member has looked for the dead, and waits for it. */
static void arm_again(struct sleeper *s, struct shared *shared)
{
	uint64_t until_ns = now_ns() + HANGS_MS * 1000000ull;

	while (!atomic_load(&shared->order.obeyed) && now_ns() < until_ns)
		usleep(1000);
	await_completion(s);
	end_require(!ibv_req_notify_cq(s->cq, 0), "ibv_req_notify_cq");
	end_require(readable(s, HANGS_MS), "the sleeper wakes for the event that was taken over");
	shared->woken_ms = (uint32_t)((now_ns() - atomic_load(&shared->sent_ns)) / 1000000);
	take_event(s);
	exit(0);
}

static void consume(int fd, struct shared *shared, int sig, enum way way)
{
	struct sleeper s;

	open_sleeper(&s, fd);
	arm(&s);
	end_require(readable(&s, HANGS_MS), "the first arming wakes the sleeper");
	take_event(&s);
	take_completion(&s);
	await_word(fd);
	/* a producer that waited for a core between its claim and its word is as late as one that was stopped there */
	look_for_stale(&s, shared, 0);
	arm(&s);
	if (way == AGAIN)
		arm_again(&s, shared);
	end_require(readable(&s, HANGS_MS), "the second arming wakes the sleeper");
	shared->woken_ms = (uint32_t)((now_ns() - atomic_load(&shared->sent_ns)) / 1000000);
	take_event(&s);
	take_completion(&s);
	if (sig == SIGSTOP) {
		(way == ASLEEP ? resume_asleep : resume)(&s, shared);
		await_completion(&s);
		await_word(fd);
		ask(&s);
	}
	end_require(!readable(&s, QUIET_MS), "one event for each arming");
	end_require(!ibv_destroy_qp(s.end.qp) && !ibv_destroy_cq(s.cq) &&
			    !ibv_destroy_comp_channel(s.channel),
		    "all objects are destroyed");
	exit(0);
}

/* ---- Cases ---- */

/* False: the sleeper did not wake in time. */
static bool run(const char *label, bool helper, int sig, enum way way)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int pair[2], status, ended;
	pid_t sleeper, producer;
	bool ok;

	end_require(shared != MAP_FAILED && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair),
		    "socketpair");
	producer = fork();
	if (!producer) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		if (helper)
			end_refuse_pidfd_getfd();
		produce(pair[1], shared, steps_find(label), sig);
	}
	shared->producer = producer;
	sleeper = fork();
	if (!sleeper) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[1]);
		consume(pair[0], shared, sig, way);
	}
	close(pair[0]);
	close(pair[1]);
	end_require(waitpid(sleeper, &status, 0) == sleeper && !status, label);
	if (sig == SIGKILL || !shared->order.obeyed)
		kill(shared->producer, SIGKILL);
	end_require(waitpid(shared->producer, &ended, 0) == shared->producer, "waitpid");
	/* the sleeper's helper may just have looked, and then there was nothing to wake it for */
	ok = shared->order.obeyed && shared->woken_ms <= LIMIT_MS;
	printf("%s %s%s%s: awake after %u ms%s\n", sig == SIGKILL ? "killed at" : "stopped at",
	       label, helper ? ", by the helper" : "", way_names[way], shared->woken_ms,
	       shared->stale ? "; a late word" : "");
	munmap(shared, sizeof(*shared));
	return ok;
}

static bool run_case(const char *label, bool helper, int sig, enum way way)
{
	end_require(steps_find(label) < STEPS_MOST, label);
	for (int i = 0; i < TRIES; i++)
		if (run(label, helper, sig, way))
			return true;
	return false;
}

int main(void)
{
	char pool[64];
	bool ok = true;

	snprintf(pool, sizeof(pool), "/dev/shm/weft-wake-%d", getpid());
	setenv("WEFT_POOL", pool, 1);
	setvbuf(stdout, NULL, _IONBF, 0);
	steps_begin(steps_is_everywhere);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		ok &= run_case(steps[i].label, steps[i].helper, SIGKILL, AWAKE);
		ok &= run_case(steps[i].label, steps[i].helper, SIGSTOP, AWAKE);
		ok &= run_case(steps[i].label, steps[i].helper, SIGSTOP, ASLEEP);
	}
	ok &= run_case("wake_told", false, SIGKILL, AGAIN);
	unlink(pool);
	return !ok;
}
