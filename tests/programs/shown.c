/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two processes of known contents, for commands that look at a pool. The first one registers memory of
 * each kind and posts three receives; the second one sends two messages of 16 bytes, writes 100
 * bytes, and adds once. Then the first prints what it made, a line each, and both sleep until they
 * are killed.
 */
#include "end.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MIB	     (1024ul * 1024)
#define MEMORY_BYTES 65536u

static void *map(void *at, size_t bytes, int flags)
{
	void *memory = mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	end_require(memory != MAP_FAILED, "mmap");
	return memory;
}

static void show(struct end *end, const char *name, void *at, size_t bytes)
{
	struct ibv_mr *mr =
		ibv_reg_mr(end->pd, at, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);

	end_require(mr, "ibv_reg_mr");
	printf("%s %u %lu %zu\n", name, mr->rkey, (unsigned long)(uintptr_t)at, bytes);
}

static void show_regions(struct end *end)
{
	char *private = map(NULL, 3 * MIB, MAP_PRIVATE);
	static char small[64];

	show(end, "in-place", small, sizeof(small));
	show(end, "pooled", private, MIB);
	show(end, "mixed", private + MIB + 100, MIB - 50);
	private = map(NULL, 3 * MIB, MAP_PRIVATE);
	map(private + MIB, MIB, MAP_SHARED | MAP_FIXED);
	show(end, "pieces", private, 3 * MIB);
}

static void receive(struct end *end)
{
	struct ibv_sge sge = {(uintptr_t)end->memory, 16, end->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	for (int i = 0; i < 3; i++)
		end_require(!ibv_post_recv(end->qp, &wr, &bad), "ibv_post_recv");
}

static void request(struct end *end, const struct end_address *peer, enum ibv_wr_opcode opcode,
		    uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)end->memory, bytes, end->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = peer->memory;
		wr.wr.atomic.rkey = peer->rkey;
	} else {
		wr.wr.rdma.remote_addr = peer->memory;
		wr.wr.rdma.rkey = peer->rkey;
	}
	end_require(!ibv_post_send(end->qp, &wr, &bad), "ibv_post_send");
	end_complete(end);
}

static void swap(int fd, const void *mine, void *theirs, size_t bytes)
{
	end_require(write(fd, mine, bytes) == (ssize_t)bytes, "write");
	end_require(read(fd, theirs, bytes) == (ssize_t)bytes, "read");
}

int main(void)
{
	struct end_address mine, peer;
	struct end end;
	char byte = 'r';
	bool first;
	int fds[2];

	end_require(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
	first = fork();
	end_open(&end, MEMORY_BYTES, true);
	mine = end_address(&end);
	swap(fds[first], &mine, &peer, sizeof(mine));
	end_connect(&end, &peer);
	if (first)
		receive(&end);
	swap(fds[first], &byte, &byte, 1);
	if (!first) {
		request(&end, &peer, IBV_WR_SEND, 16);
		request(&end, &peer, IBV_WR_SEND, 16);
		request(&end, &peer, IBV_WR_RDMA_WRITE, 100);
		request(&end, &peer, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	}
	swap(fds[first], &byte, &byte, 1);
	if (first) {
		show_regions(&end);
		printf("qp %u %u\nready\n", mine.qpn, peer.qpn);
		fflush(stdout);
	}
	pause();
	return 1;
}
