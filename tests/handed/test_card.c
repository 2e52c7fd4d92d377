/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A card in a process of its own, which may be killed. */
#include "../nic/ends.h"
#include "nic/cq.h"
#include "nic/qp.h"
#include "nic/queues.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/clock.h"
#include "pool/sge.h"
#include "transport/registry.h"

#define PATIENCE_NS 10000000000ull

static pid_t card;
static int card_ends[2]; /* its input, its output */

static void start_card(const char *seed)
{
	int in[2], out[2];
	char ready[6];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	card = fork();
	if (!card) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl(CARD, CARD, seed, "700", NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	card_ends[0] = in[1];
	card_ends[1] = out[0];
	assert_int_equal(read(out[0], ready, sizeof(ready)), 6);
}

static void end_card(int expected)
{
	int status;

	close(card_ends[0]);
	assert_int_equal(waitpid(card, &status, 0), card);
	close(card_ends[1]);
	assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), expected);
}

static void wait_for(uint64_t wr_id, enum weft_wc_status status)
{
	uint64_t until_ns = weft_clock_now_ns() + PATIENCE_NS;
	struct weft_wc wc;

	while (!weft_cq_poll(&world.cq, 1, &wc, 0)) {
		world.now_ns = weft_clock_now_ns();
		assert_true(world.now_ns < until_ns);
		world_look();
		usleep(100);
	}
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

static void a_write(void **state)
{
	start_card("1");
	world.nic.transports = weft_transports;
	ends_open();
	assert_string_equal(ends_near.qp.transport->name, "handed");
	ends_post(WEFT_OP_WRITE, &ends_near);
	wait_for(1, WEFT_WC_SUCCESS);
	for (uint32_t i = 0; i < ENDS_BYTES; i++)
		assert_int_equal(ends_peer.memory[i], 'n');
	assert_int_equal(ends_peer.memory[ENDS_BYTES], 'p');
	ends_close();
	end_card(0);
}

/* The card's death is as a peer's, except for requests whose end it had told before. */
static void killed(void **state)
{
	start_card("2");
	ends_open();
	ends_post(WEFT_OP_WRITE, &ends_near);
	wait_for(1, WEFT_WC_SUCCESS);
	assert_int_equal(kill(card, SIGSTOP), 0);
	world.fatal_events = 0;
	for (int i = 0; i < 3; i++)
		ends_post(WEFT_OP_WRITE, &ends_near);
	assert_int_equal(kill(card, SIGKILL), 0);
	end_card(SIGKILL);
	/* as soon as it is dead, though it has not been recovered from, nothing is connected to it */
	assert_false(ends_near.qp.transport->reaches(&world.nic, ends_near.qp.attr.sgid,
						     ends_near.qp.attr.dgid));
	wait_for(1, WEFT_WC_RETRY_EXC_ERR);
	wait_for(1, WEFT_WC_WR_FLUSH_ERR);
	wait_for(1, WEFT_WC_WR_FLUSH_ERR);
	world_expect_none();
	assert_int_equal(world.fatal_events, 1);
	assert_int_equal(ends_near.qp.state, WEFT_QPS_ERR);
	ends_close();
}

/* The card is killed at some time in its work: each request completes once, and in order. */
static void killed_at_work(void **state)
{
	uint64_t until_ns;
	struct weft_wc wc;
	unsigned int done, failed;

	for (uint32_t i = 0; i < 20; i++) {
		start_card("3");
		ends_open();
		done = failed = 0;
		until_ns = weft_clock_now_ns() + 300000 + 100000 * i;
		for (uint64_t posted = 0; weft_clock_now_ns() < until_ns;) {
			if (weft_sq_next(&ends_near.qp) && posted - done < ENDS_DEPTH) {
				ends_submit(&(struct ends_request){.opcode = WEFT_OP_WRITE,
								   .wr_id = ++posted,
								   .flags = WEFT_SEND_SIGNALED},
					    &ends_near);
			}
			while (weft_cq_poll(&world.cq, 1, &wc, 0)) {
				assert_int_equal(wc.status, WEFT_WC_SUCCESS);
				assert_int_equal(wc.wr_id, ++done);
			}
		}
		assert_int_equal(kill(card, SIGKILL), 0);
		end_card(SIGKILL);
		until_ns = weft_clock_now_ns() + PATIENCE_NS;
		while (ends_near.qp.under_way || ends_near.qp.sq_done < ends_near.qp.sq_posted) {
			world.now_ns = weft_clock_now_ns();
			assert_true(world.now_ns < until_ns);
			world_look();
			usleep(1000);
		}
		while (weft_cq_poll(&world.cq, 1, &wc, 0)) {
			assert_int_equal(wc.wr_id, ++done);
			assert_int_equal(wc.status, failed	? WEFT_WC_WR_FLUSH_ERR
						    : wc.status ? WEFT_WC_RETRY_EXC_ERR
								: WEFT_WC_SUCCESS);
			failed += wc.status != WEFT_WC_SUCCESS;
		}
		assert_int_equal(done, ends_near.qp.sq_posted);
		ends_close();
		weft_pool_recover(world.pool);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write),
		cmocka_unit_test(killed),
		cmocka_unit_test(killed_at_work),
	};

	return cmocka_run_group_tests_name("card", tests, world_attach, world_detach);
}
