/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * No wake-up is lost: one process arms its queue, looks once more, and sleeps; another completes
 * into it at every moment of that.
 *
 *   armings COUNT [HOST]	prints how often it armed and how often it slept; the other process is of that host of the pool
 *
 * The producer is a child, forked before any verb. It waits for an acknowledgement by WRITE before
 * it sends again, after a pause of random length, so that the consumer mostly finds nothing. A call that has
 * returned to it has woken the consumer: a channel that cannot be read then has lost a wake-up, whatever the
 * helper, which looks each half second, may find later. That of another host has told the consumer's helper, which
 * looks after its nap of 20 ms at most.
 */
#include "arming.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAP_MS	   10 /* before it looks whether a wake-up was lost */
#define FAR_NAP_MS 20
#define FAR_NAPS                                                                                   \
	20 /* until half a second, in which a helper that gets no core in time is excused */
#define TOLD 1000000

static struct arming_sent *sent;
static const char *host; /* of the producer; NULL: the same */

static void produce(int fd, long count)
{
	struct end_address peer;
	struct end end;
	uint32_t random = 1;
	char byte;

	end_open(&end, 4096, true);
	arming_swap(fd, &end, &peer);
	end_connect(&end, &peer);
	end_require(read(fd, &byte, 1) == 1, "read of ready");
	for (long i = 0; i < count; i++)
		arming_send(&end, sent, &random);
	end_require(read(fd, &byte, 1) == 0, "read of the end");
	end_close(&end);
}

static void sleep_for_event(struct arming *a, uint64_t number)
{
	struct ibv_cq *cq;
	void *context;

	for (int naps = 0; host && naps < FAR_NAPS && !arming_readable(a, FAR_NAP_MS);)
		naps += atomic_load(&sent->ended) >= number;
	while (!arming_readable(a, NAP_MS))
		end_require(atomic_load(&sent->ended) < number || arming_readable(a, 0),
			    "a wake-up was lost");
	end_require(!ibv_get_cq_event(a->channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

static void consume(int fd, long count)
{
	struct end_address peer;
	struct arming a;
	long armed = 0, slept = 0;

	arming_open(&a);
	a.end.qp = arming_add_qp(&a);
	arming_swap(fd, &a.end, &peer);
	end_connect(&a.end, &peer);
	arming_receive(&a);
	end_require(write(fd, "r", 1) == 1, "write of ready");
	for (long i = 0; i < count; i++) {
		if (i && i % TOLD == 0)
			fprintf(stderr, "armed %ld times, slept %ld times so far\n", armed, slept);
		do {
			end_require(!ibv_req_notify_cq(a.cq, 0), "ibv_req_notify_cq");
			armed++;
			if (arming_look(&a, false))
				break;
			sleep_for_event(&a, (uint64_t)i + 1);
			slept++;
		} while (!arming_look(&a, false));
		arming_receive(&a);
		arming_acknowledge(&a, &peer, (uint64_t)i + 1);
	}
	printf("armed %ld times, slept %ld times\n", armed, slept);
	end_require(!shutdown(fd, SHUT_WR), "shutdown");
	end_require(!ibv_destroy_qp(a.end.qp), "ibv_destroy_qp");
	arming_close(&a);
}

int main(int argc, char **argv)
{
	long count = argc == 2 || argc == 3 ? strtol(argv[1], NULL, 10) : 0;
	int pair[2], status;
	pid_t child;

	if (count <= 0) {
		fprintf(stderr, "usage: armings COUNT [HOST]\n");
		return 2;
	}
	host = argc == 3 ? argv[2] : NULL;
	sent = mmap(NULL, sizeof(*sent), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	end_require(sent != MAP_FAILED && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG,
		      SIGKILL); /* the producer would spin for an acknowledgement that a dead consumer never sends */
		close(pair[0]);
		if (host)
			setenv("WEFT_HOST", host, 1);
		produce(pair[1], count);
		return 0;
	}
	close(pair[1]);
	consume(pair[0], count);
	end_require(waitpid(child, &status, 0) == child && !status, "the producer");
	return 0;
}
