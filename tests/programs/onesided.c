/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One-sided operations need nothing of the target, nor of the kernel.
 *
 *   onesided stopped	with the target stopped by SIGSTOP, WRITE, READ and both atomics complete
 *   onesided count N	N signaled WRITEs between two calls of getppid(), the markers for strace
 *
 * The target is a child, forked before any verb, so that it is a process of its own to the fabric.
 */
#include "end.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY_BYTES 65536u
#define READ_AT	     1024u /* in the target's memory */
#define ATOMIC_AT    2048u /* in the target's memory */
#define HERE	     4096u /* where answers arrive in the requester's memory */

static const char written[] = "written while stopped";
static const char to_read[] = "here before the stop";

static void swap_addresses(int fd, const struct end *end, struct end_address *peer)
{
	struct end_address mine = end_address(end);

	end_require(write(fd, &mine, sizeof(mine)) == sizeof(mine), "write of an address");
	end_require(read(fd, peer, sizeof(*peer)) == sizeof(*peer), "read of an address");
}

/* The target sleeps in read() until the requester has finished, then looks at its memory. */
static int target(int fd, bool stopped)
{
	struct end end;
	struct end_address peer;
	uint64_t number;
	char byte;

	end_open(&end, MEMORY_BYTES, true);
	memcpy(end.memory + READ_AT, to_read, sizeof(to_read));
	swap_addresses(fd, &end, &peer);
	end_connect(&end, &peer);
	end_require(write(fd, "c", 1) == 1, "write of connected");
	end_require(read(fd, &byte, 1) == 1, "read of finished");
	if (stopped) {
		memcpy(&number, end.memory + ATOMIC_AT, sizeof(number));
		end_require(!memcmp(end.memory, written, sizeof(written)), "written bytes");
		end_require(number == 42, "number after the atomics");
	}
	end_close(&end);
	return 0;
}

static void execute(struct end *end, const struct end_address *peer, struct ibv_send_wr *wr,
		    size_t mine, size_t theirs, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)end->memory + mine, len, end->mr->lkey};
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = peer->memory + theirs;
		wr->wr.atomic.rkey = peer->rkey;
	} else {
		wr->wr.rdma.remote_addr = peer->memory + theirs;
		wr->wr.rdma.rkey = peer->rkey;
	}
	end_require(!ibv_post_send(end->qp, wr, &bad), "ibv_post_send");
	end_complete(end);
}

static uint64_t answer(const struct end *end)
{
	uint64_t number;

	memcpy(&number, end->memory + HERE, sizeof(number));
	return number;
}

static void request_stopped(struct end *end, const struct end_address *peer, pid_t child)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};
	int status;

	end_require(!kill(child, SIGSTOP), "kill");
	end_require(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status), "stop");
	memcpy(end->memory, written, sizeof(written));
	execute(end, peer, &wr, 0, 0, sizeof(written));
	wr.opcode = IBV_WR_RDMA_READ;
	execute(end, peer, &wr, HERE, READ_AT, sizeof(to_read));
	end_require(!memcmp(end->memory + HERE, to_read, sizeof(to_read)), "read bytes");
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 0;
	wr.wr.atomic.swap = 40;
	execute(end, peer, &wr, HERE, ATOMIC_AT, sizeof(uint64_t));
	end_require(answer(end) == 0, "answer of the swap");
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.compare_add = 2;
	execute(end, peer, &wr, HERE, ATOMIC_AT, sizeof(uint64_t));
	end_require(answer(end) == 40, "answer of the addition");
	end_require(waitpid(child, &status, WNOHANG | WCONTINUED) == 0, "still stopped");
	end_require(!kill(child, SIGCONT), "kill");
}

static void request_many(struct end *end, const struct end_address *peer, long count)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};

	execute(end, peer, &wr, 0, 0, 8);
	(void)getppid();
	for (long i = 0; i < count; i++)
		execute(end, peer, &wr, 0, 0, 8);
	(void)getppid();
}

int main(int argc, char **argv)
{
	bool stopped = argc == 2 && !strcmp(argv[1], "stopped");
	bool count = argc == 3 && !strcmp(argv[1], "count");
	struct end_address peer;
	struct end end;
	int fds[2], status;
	pid_t child;
	char byte;

	if (!stopped && !count) {
		fprintf(stderr, "usage: onesided stopped | count N\n");
		return 2;
	}
	end_require(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
	child = fork();
	end_require(child >= 0, "fork");
	if (child == 0) {
		close(fds[0]); /* so that read() ends if the parent dies */
		return target(fds[1], stopped);
	}
	close(fds[1]);
	end_open(&end, MEMORY_BYTES, true);
	swap_addresses(fds[0], &end, &peer);
	end_connect(&end, &peer);
	end_require(read(fds[0], &byte, 1) == 1, "read of connected");
	if (stopped)
		request_stopped(&end, &peer, child);
	else
		request_many(&end, &peer, strtol(argv[2], NULL, 10));
	end_require(write(fds[0], "f", 1) == 1, "write of finished");
	end_require(waitpid(child, &status, 0) == child && status == 0, "target's status");
	end_close(&end);
	printf("ok\n");
	return 0;
}
