/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A process as the guest of another: it imports that one's domain, and a queue pair of its own there copies
 * from the host's memory and into it, until the host dies or leaves. Its requests go to a second queue pair,
 * in the guest's own domain. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker.h"

#define LIMIT_NS    20000000000ull
#define BYTES	    32u
#define PATIENCE_NS 1000000000ull

/* Queue pair 0 is in the host's domain, 1 in the guest's own. */
struct guest {
	struct worker *w;
	const struct process *host;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	enum ibv_wc_status status; /* of the last request, and how long that took */
	uint64_t took_ns;
};

static bool is_leaving(const struct process *host)
{
	return has_died(host) || stage_of(host) >= LEAVING;
}

/* A failure is allowed only if the host is ending: its death or leaving must be seen in a moment. */
static void excuse(const struct process *host, const char *what, const char *why)
{
	uint64_t limit = now_ns() + LIMIT_NS;

	while (!is_leaving(host)) {
		if (now_ns() > limit)
			broken("a guest cannot %s: %s", what, why);
		sched_yield();
	}
}

/* Or when the host's helper did not run for the whole second that a request waits for it, on a machine with
 * much other work. */
static void excuse_request(const struct guest *g, const char *what)
{
	if (g->took_ns < PATIENCE_NS)
		excuse(g->host, what, ibv_wc_status_str(g->status));
}

static struct ibv_context *import(const struct process *host)
{
	struct ibv_context *context;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", host->pid, host->cmd_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	context = fd < 0 ? NULL : ibv_import_device(fd);
	if (!context && fd >= 0)
		close(fd);
	return context;
}

static bool make_qp(struct guest *g, int i, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};

	g->cq[i] = ibv_create_cq(pd->context, 8, NULL, NULL, 0);
	if (!g->cq[i])
		broken("no completion queue for a guest: %s", strerror(errno));
	init.send_cq = init.recv_cq = g->cq[i];
	g->qp[i] = ibv_create_qp(pd, &init);
	return g->qp[i] &&
	       !ibv_modify_qp(g->qp[i], &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* Carries out one request. A fetch-and-add adds 1. */
static enum ibv_wc_status carry_out(struct guest *g, enum ibv_wr_opcode opcode, uint64_t there,
				    uint32_t key, void *here)
{
	bool adds = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge = {there, adds ? 8 : BYTES, key};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint64_t begun = now_ns();
	struct ibv_wc wc;

	if (adds) {
		wr.wr.atomic.remote_addr = (uintptr_t)here;
		wr.wr.atomic.rkey = g->w->mr[0]->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)here;
		wr.wr.rdma.rkey = g->w->mr[0]->rkey;
	}
	if (ibv_post_send(g->qp[0], &wr, &bad))
		broken("a guest cannot post");
	while (!ibv_poll_cq(g->cq[0], 1, &wc))
		if (now_ns() > begun + 2 * LIMIT_NS)
			broken("a guest hangs");
	g->status = wc.status;
	g->took_ns = now_ns() - begun;
	return wc.status;
}

/* READs the guest's bytes into the host's memory and WRITEs them back, a few times. Returns whether that
 * succeeded. */
static bool copy(struct guest *g)
{
	uint64_t *mine = g->w->shared->from[g->w->me].counter + 4,
		 value = draw(&g->w->seed, UINT64_MAX);
	uint64_t there = g->host->address[0] + offsetof(struct shared, from[g->w->me].counter[4]);

	for (uint64_t i = 0; i < 4; i++) {
		for (int k = 0; k < 4; k++)
			mine[k] = value + i;
		if (carry_out(g, IBV_WR_RDMA_READ, there, g->host->key[0], mine))
			break;
		memset(mine, 0, BYTES);
		if (carry_out(g, IBV_WR_RDMA_WRITE, there, g->host->key[0], mine))
			break;
		for (int k = 0; k < 4; k++)
			if (mine[k] != value + i)
				broken("a guest's bytes are not the ones that it has put there");
		if (i == 3)
			return true;
	}
	excuse_request(g, "copy");
	return false;
}

/* A fetch-and-add whose old value goes to the host's memory in place: to a third process's memory, for which
 * the request waits. */
static void add(struct guest *g)
{
	uint64_t *mine = g->w->shared->from[g->w->me].counter + 4,
		 value = draw(&g->w->seed, UINT64_MAX);
	uint64_t there = g->host->address[1] + offsetof(struct in_place, guest[g->w->me]);

	mine[0] = value;
	if (carry_out(g, IBV_WR_ATOMIC_FETCH_AND_ADD, there, g->host->key[1], mine)) {
		excuse_request(g, "add");
		return;
	}
	if (mine[0] != value + 1)
		broken("a guest has not added");
	if (carry_out(g, IBV_WR_RDMA_WRITE, there, g->host->key[1], mine))
		excuse_request(g, "copy the old value back");
	else if (mine[0] != value)
		broken("a guest's old value is wrong");
}

static void end(struct guest *g)
{
	for (int i = 0; i < 2; i++) {
		if (g->qp[i] && ibv_destroy_qp(g->qp[i]))
			broken("a guest cannot destroy its queue pair");
		if (g->cq[i] && ibv_destroy_cq(g->cq[i]))
			broken("a guest cannot destroy its completion queue");
	}
	if (g->pd)
		ibv_unimport_pd(g->pd);
	if (ibv_close_device(g->context))
		broken("a guest cannot close");
}

void guest_run(struct worker *w)
{
	struct guest g = {w, &w->world->process[draw(&w->seed, w->world->processes)]};

	if (g.host == w->process || !is_of_our_host(w, g.host) || !atomic_load(&g.host->pd) ||
	    is_leaving(g.host))
		return;
	g.context = import(g.host);
	if (!g.context) {
		excuse(g.host, "import a device", strerror(errno));
		return;
	}
	g.pd = ibv_import_pd(g.context, g.host->pd);
	if (!g.pd || !make_qp(&g, 0, g.pd) || !make_qp(&g, 1, w->pd)) {
		excuse(g.host, "make a queue pair", strerror(errno));
	} else {
		for (int i = 0; i < 2; i++)
			worker_connect(w, g.qp[i], &w->process->gid, g.qp[!i]->qp_num);
		if (copy(&g))
			add(&g);
	}
	end(&g);
}
