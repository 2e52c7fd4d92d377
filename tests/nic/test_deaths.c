/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The requester dies at each labelled step of each kind of request, one step after the other. Each time
 * nothing of the request has arrived, a part, or all of it, and a completion is there only if it is all; and
 * the next requester finds the responder as if the dead one had never been. The requester is a process of its
 * own, this program with another name.
 */
#include "world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "nic/qp.h"
#include "pool/step.h"
#include "transport/registry.h"

#define MOST_STEPS 64

/* ---- Steps ---- */

static int steps_left; /* how many steps before this process dies; 0: it does not die */

void weft_step(const struct weft_step *step)
{
	if (!steps_left || --steps_left)
		return;
	fprintf(stderr, "%s ", step->name);
	kill(getpid(), SIGKILL);
}

/* ---- The requester ---- */

static void say(int fd, const void *what, size_t bytes)
{
	if (write(fd, what, bytes) != (ssize_t)bytes)
		_exit(3);
}

static bool hear(int fd, void *what, size_t bytes)
{
	return read(fd, what, bytes) == (ssize_t)bytes;
}

struct orders {
	enum weft_opcode opcode;
	int step; /* the step at which the requester dies; 0: none */
	bool shared;
};

static void make_near(void)
{
	struct weft_qp_cap cap = {
		.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 3, .max_recv_sge = 3};

	memset(&ends_near, 0, sizeof(ends_near));
	ends_region(&ends_near, 'n');
	assert_int_equal(weft_qp_create(&world.nic, &ends_near.qp, WEFT_QPT_RC, ENDS_PD, &world.cq,
					&world.cq, NULL, &cap, true),
			 0);
}

/* Its answer is the status of its request. */
static int be_requester(void)
{
	struct weft_wc wc = {.status = UINT32_MAX};
	struct orders orders;

	if (!hear(STDIN_FILENO, &orders, sizeof(orders)) || world_join())
		return 4;
	world.nic.transports = weft_transports;
	make_near();
	say(STDOUT_FILENO, &ends_near.qp.qpn, sizeof(ends_near.qp.qpn));
	if (!hear(STDIN_FILENO, &ends_peer, sizeof(ends_peer)))
		return 5;
	ends_connect(&ends_near, &ends_peer);
	steps_left = orders.step;
	ends_submit(&(struct ends_request){.opcode = orders.opcode,
					   .wr_id = 1,
					   .flags = WEFT_SEND_SIGNALED,
					   .compare_add = 1},
		    &ends_near);
	steps_left = 0;
	weft_cq_poll(&world.cq, 1, &wc, 0);
	say(STDOUT_FILENO, &wc.status, sizeof(wc.status));
	return 0;
}

/* ---- The responder ---- */

static struct end peer; /* the requester as far connects to it: only its number is set */

static pid_t begin_requester(int *to, int *from)
{
	int orders[2] = {-1, -1}, answers[2] = {-1, -1};
	pid_t pid;

	assert_false(pipe(orders) || pipe(answers));
	pid = fork();
	if (!pid) {
		dup2(orders[0], STDIN_FILENO);
		dup2(answers[1], STDOUT_FILENO);
		close(orders[1]);
		close(answers[0]);
		execl("/proc/self/exe", "requester", "requester", NULL);
		_exit(6);
	}
	close(orders[0]);
	close(answers[1]);
	*to = orders[1];
	*from = answers[0];
	return pid;
}

/* Whether the requester has died; if not, its request was successful. */
static bool run_requester(const struct orders *orders)
{
	uint32_t request = UINT32_MAX;
	int to, from, status;
	pid_t pid = begin_requester(&to, &from);

	say(to, orders, sizeof(*orders));
	assert_true(hear(from, &peer.qp.qpn, sizeof(peer.qp.qpn)));
	ends_modify(&ends_peer, WEFT_QPS_RESET, &peer);
	ends_connect(&ends_peer, &peer);
	if (!orders->shared)
		ends_receive();
	say(to, &ends_peer, sizeof(ends_peer));
	if (hear(from, &request, sizeof(request)))
		assert_int_equal(request, WEFT_WC_SUCCESS);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(to);
	close(from);
	weft_pool_recover(world.pool);
	weft_srq_recover(&world.nic);
	if (WIFSIGNALED(status))
		assert_int_equal(WTERMSIG(status), SIGKILL);
	else
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFSIGNALED(status);
}

static uint64_t sum(void)
{
	uint64_t word;

	memcpy(&word, ends_peer.memory + ENDS_WORDS, 8);
	return word;
}

static bool uses_receive(enum weft_opcode opcode)
{
	return opcode == WEFT_OP_SEND || opcode == WEFT_OP_WRITE_IMM;
}

static bool has_arrived(void)
{
	for (uint32_t i = 0; i < ENDS_BYTES; i++)
		if (ends_peer.memory[i] != 'n')
			return false;
	return true;
}

/* Returns whether the receive is used up. died: a request that has left nothing is right, too. */
static bool check(const struct orders *orders, bool died, uint64_t sum_before)
{
	struct weft_wc wc;
	unsigned int told = 0;

	while (weft_cq_poll(&ends_peer_cq, 1, &wc, 0)) {
		assert_int_equal(wc.wr_id, 9);
		assert_int_equal(wc.status, WEFT_WC_SUCCESS);
		told++;
	}
	assert_in_range(told, died ? 0 : uses_receive(orders->opcode),
			uses_receive(orders->opcode));
	if (orders->opcode == WEFT_OP_FETCH_ADD)
		assert_in_range(sum(), sum_before + !died, sum_before + 1);
	else if (orders->opcode != WEFT_OP_READ &&
		 (told || !died || ends_peer.memory[ENDS_BYTES - 1] == 'n'))
		assert_true(has_arrived());
	return told;
}

/* Returns whether the requester has died at that step. */
static bool run(struct orders orders, int step)
{
	uint64_t before = sum();
	bool died;

	orders.step = step;
	memset(ends_peer.memory, 'p', ENDS_BYTES);
	died = run_requester(&orders);
	if (check(&orders, died, before) && orders.shared)
		ends_receive();
	return died;
}

/* A requester dies at one step after the other, until one survives all steps; after each death a request of
 * another one is carried out. */
static void deaths(const struct orders *orders)
{
	int step;

	world.nic.transports = weft_transports;
	ends_wish = (struct ends_wish){.shared = orders->shared};
	ends_open();
	memset(ends_peer.memory + ENDS_WORDS, 0, 8);
	if (orders->shared)
		ends_receive();
	for (step = 1; run(*orders, step); step++) {
		assert_false(run(*orders, 0));
		assert_true(step < MOST_STEPS);
	}
	print_message("%d steps\n", step - 1);
	assert_true(step > 2);
	ends_close();
	ends_wish = (struct ends_wish){.type = 0};
}

static void each(void **state)
{
	deaths(*state);
}

int main(int argc, char **argv)
{
	static struct orders writes = {WEFT_OP_WRITE, 0, false},
			     tells = {WEFT_OP_WRITE_IMM, 0, false},
			     sends = {WEFT_OP_SEND, 0, false}, shared = {WEFT_OP_SEND, 0, true},
			     reads = {WEFT_OP_READ, 0, false}, adds = {WEFT_OP_FETCH_ADD, 0, false};
	const struct CMUnitTest tests[] = {
		{"WRITE", each, NULL, NULL, &writes},
		{"WRITE with immediate", each, NULL, NULL, &tells},
		{"SEND", each, NULL, NULL, &sends},
		{"SEND to a shared queue", each, NULL, NULL, &shared},
		{"READ", each, NULL, NULL, &reads},
		{"addition", each, NULL, NULL, &adds},
	};

	signal(SIGPIPE, SIG_IGN);
	if (argc > 1)
		return be_requester();
	return cmocka_run_group_tests_name("deaths", tests, world_attach, world_detach);
}
